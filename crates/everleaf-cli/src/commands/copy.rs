//! `copy`: a pool to a new, compact one.

use std::path::PathBuf;

use everleaf::{CopyOptions, DurabilityMode, Error, PoolError};

use crate::failure::{Failure, Outcome, complain};
use crate::open;
use crate::signals::Ending;
use crate::size::{display_counted, display_size, parse_size};

/// Copy a pool to a new one with the same engine, sizes and durability. The copy is compact, and
/// expired values are left out.
///
/// A pool that `serve`, `shell` or `load` has open is copied as it is at one moment, while they go
/// on; so is that of another program which answers at POOL.sock.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everleaf copy words.pool words-backup.pool
  everleaf copy full.pool larger.pool --max-size 4GiB
  everleaf copy words.pool faster.pool --durability buffered")]
pub struct Args {
    /// The pool; it is not written.
    pool: PathBuf,
    /// The pool to make; a file that exists is refused.
    new: PathBuf,
    /// The size up to which the copy may grow [default: as the pool].
    #[arg(long, value_name = "S", value_parser = parse_size, allow_hyphen_values = true)]
    max_size: Option<u64>,
    /// When a write to the copy is durable, as for `create` [default: as the pool, where the copy's
    /// medium keeps that].
    #[arg(long, value_name = "MODE", value_parser = str::parse::<DurabilityMode>)]
    durability: Option<DurabilityMode>,
}

/// Copies.
pub fn run(args: Args) -> Outcome {
    let store = open::to_read(&args.pool)?;
    let mut options = CopyOptions::new();
    (options.max_size_bytes, options.durability) = (args.max_size, args.durability);
    let copied =
        Ending::awaited()?.during(|watch| store.copy_with_options(&args.new, &options, watch));
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
