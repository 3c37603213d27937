//! `upgrade`: a pool of an older format to one of today's.

use std::io::Write;
use std::path::PathBuf;

use crate::failure::{Failure, Outcome};
use crate::open;

/// Make a pool of an older format one of today's.
///
/// Every release since 0.2.0 has the same format, so there is nothing to do for their pools, and
/// this says so. A pool of an earlier build, or of a later release, is refused with a sentence that
/// says what opens it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  everleaf upgrade words.pool")]
pub struct Args {
    /// The pool.
    pool: PathBuf,
}

/// Says what there is to do: an opening refuses other formats, of the pool and of its log.
pub fn run(args: Args) -> Outcome {
    open::to_read(&args.pool)?;
    writeln!(std::io::stdout(), "{} has today's format", args.pool.display())
        .map_err(|error| Failure::output(&error))
}
