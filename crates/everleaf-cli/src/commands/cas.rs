//! `cas`: a value in place of the one that is expected.

use std::ffi::OsString;
use std::path::PathBuf;

use everleaf::Store;

use crate::failure::{Failure, Outcome, told_apart};
use crate::target::{NewExpiry, ValueTarget};

/// Replace the value of a key if it is OLD (compare and swap); otherwise change nothing and exit 1.
/// To put a value only if the key is absent, use `put --if-absent`.
///
/// A failure exits 3.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  everleaf cas words.pool state waiting running")]
pub struct Args {
    /// The pool.
    pool: PathBuf,
    /// The key: any bytes, or a decimal number for a tree with u64 keys.
    #[arg(allow_negative_numbers = true)]
    key: OsString,
    /// The value that is expected.
    #[arg(allow_negative_numbers = true)]
    old: OsString,
    /// The new value.
    #[arg(allow_negative_numbers = true)]
    new: OsString,
    #[command(flatten)]
    target: ValueTarget,
    #[command(flatten)]
    expiry: NewExpiry,
}

/// Compares and swaps; durable when it returns.
pub fn run(args: Args) -> Outcome {
    told_apart();
    let target = &args.target;
    let (old, new) = (target.value(&args.old)?, target.value(&args.new)?);
    let store = Store::open(&args.pool)?;
    let tree = target.existing(&store)?.with_expiry(args.expiry.ttl);
    let key = target.key(&args.key, &tree)?;
    let swapped = tree.compare_and_swap(key.as_key(), Some(&old), Some(&new))?;
    let present = swapped || tree.contains_key(key.as_key())?;
    store.close()?;
    match (swapped, present) {
        (true, _) => Ok(()),
        (false, true) => {
            let key = target.named(key.as_key());
            Err(Failure::absent(format!("the value of {key} is another one; it was not changed")))
        }
        (false, false) => Err(target.missing(&key, &args.pool)),
    }
}
