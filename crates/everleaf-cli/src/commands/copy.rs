//! `copy`: a pool to a new, compact one.

use std::path::PathBuf;

use everleaf::{Error, PoolError, Store};

use crate::failure::{Failure, Outcome, complain};
use crate::signals::Ending;
use crate::size::{display_counted, display_size, parse_size};

/// Copy a pool to a new one with the same engine and sizes. The copy is compact, and expired values
/// are left out.
///
/// The pool must not be open to write elsewhere. A program that has it open copies it itself, while
/// it goes on writing (`Store::copy`).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everleaf copy words.pool words-backup.pool
  everleaf copy full.pool larger.pool --max-size 4GiB")]
pub struct Args {
    /// The pool; it is not written.
    pool: PathBuf,
    /// The pool to make; a file that exists is refused.
    new: PathBuf,
    /// The size up to which the copy may grow [default: as the pool].
    #[arg(long, value_name = "S", value_parser = parse_size, allow_hyphen_values = true)]
    max_size: Option<u64>,
}

/// Copies.
pub fn run(args: Args) -> Outcome {
    let store = Store::open_read_only(&args.pool)?;
    let copied = Ending::awaited()?.during(|watch| match args.max_size {
        Some(size) => store.copy_to_max_size(&args.new, size, watch),
        None => store.copy_with(&args.new, watch),
    });
    let copied = copied.map_err(|error| match error {
        Error::Pool(PoolError::TooSmall { bytes, min_bytes }) => {
            let (size, smallest) = (display_size(bytes), display_size(min_bytes));
            Failure::usage(format!(
                "--max-size {size} is too small; the smallest pool has {smallest}"
            ))
        }
        error => error.into(),
    })?;
    complain(&format!("copied {}", display_counted(copied.entries, "entry")));
    Ok(())
}
