//! `del`: one key, or a range of keys.

use std::ffi::OsString;
use std::path::PathBuf;

use everleaf::Store;

use crate::failure::{Failure, Outcome, complain, told_apart};
use crate::open;
use crate::size::display_counted;
use crate::target::{KeyRangeArguments, Target};

/// Delete a key, or all keys within bounds.
///
/// A missing key exits 1, a failure 3. For a range, a line on stderr says how many keys were
/// deleted; after a crash in the middle the remaining keys are still there.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everleaf del words.pool leaf
  everleaf del words.pool --prefix 2024- --tree days
  everleaf del words.pool --tree days --all")]
pub struct Args {
    /// The pool.
    pool: PathBuf,
    /// The key: any bytes, or a decimal number for a tree with u64 keys.
    #[arg(
        allow_negative_numbers = true,
        required_unless_present_any = ["prefix", "from", "to", "all"],
        conflicts_with_all = ["prefix", "from", "to", "all"]
    )]
    key: Option<OsString>,
    #[command(flatten)]
    range: KeyRangeArguments,
    /// Delete all keys of the tree.
    #[arg(long, conflicts_with_all = ["prefix", "from", "to"])]
    all: bool,
    #[command(flatten)]
    target: Target,
}

/// Deletes; durable when it returns.
pub fn run(args: Args) -> Outcome {
    told_apart();
    if args.range.has_empty_bound() {
        // It comes from a variable that is not set.
        return Err(Failure::usage(
            "--prefix, --from and --to must not be empty; to delete all keys, use --all",
        ));
    }
    let store = match args.key {
        Some(_) => Store::open(&args.pool)?,
        None => open::to_write(&args.pool)?,
    };
    let tree = args.target.existing(&store)?;
    let Some(key) = &args.key else {
        let deleted = tree.delete_in(args.range.scan(&args.target, &tree)?)?;
        store.close()?;
        complain(&format!("deleted {}", display_counted(deleted, "key")));
        return Ok(());
    };
    let key = args.target.key(key, &tree)?;
    let deleted = tree.delete(key.as_key())?;
    store.close()?;
    if deleted { Ok(()) } else { Err(args.target.missing(&key, &args.pool)) }
}
