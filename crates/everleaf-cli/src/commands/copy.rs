//! `copy`: a pool to a new, compact one.

use std::path::PathBuf;

use everleaf::Store;

use crate::failure::{Outcome, complain};
use crate::signals::Ending;
use crate::size::display_counted;

/// Copy a pool to a new one with the same engine and sizes. The copy is compact, and expired values
/// are left out.
///
/// The pool must not be open to write elsewhere. A program that has it open copies it itself, while
/// it goes on writing (`Store::copy`).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  everleaf copy words.pool words-backup.pool")]
pub struct Args {
    /// The pool; it is not written.
    pool: PathBuf,
    /// The pool to make; a file that exists is refused.
    new: PathBuf,
}

/// Copies.
pub fn run(args: Args) -> Outcome {
    let store = Store::open_read_only(&args.pool)?;
    let copied = Ending::awaited()?.during(|watch| store.copy_with(&args.new, watch))?;
    complain(&format!("copied {}", display_counted(copied.entries, "entry")));
    Ok(())
}
