//! `expire` and `persist`: when a value goes.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use everleaf::{Store, Tree};

use crate::failure::Outcome;
use crate::keys::KeyArgument;
use crate::target::{Target, life};

/// Let a value expire after a time. A missing key exits 1.
///
/// The time counts from now on, whatever expiry the value had.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everleaf expire words.pool session-17 30m
  everleaf expire words.pool session-17 90 --tree sessions")]
pub struct Args {
    #[command(flatten)]
    entry: Entry,
    /// Seconds, which may have a fraction, or with the units ms, s, m (minutes), h, d, w and y,
    /// like 90s, 15m or 1h 30m.
    #[arg(value_name = "TIME", value_parser = life, allow_hyphen_values = true)]
    ttl: Duration,
    #[command(flatten)]
    target: Target,
}

/// Let a value stay for ever. A missing key exits 1.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  everleaf persist words.pool session-17")]
pub struct PersistArgs {
    #[command(flatten)]
    entry: Entry,
    #[command(flatten)]
    target: Target,
}

/// Which value.
#[derive(Debug, clap::Args)]
struct Entry {
    /// The pool.
    pool: PathBuf,
    /// The key: any bytes, or a decimal number for a tree with u64 keys.
    #[arg(allow_negative_numbers = true)]
    key: OsString,
}

/// Lets it expire; durable when it returns.
pub fn run(args: Args) -> Outcome {
    change(&args.entry, &args.target, |tree, key| tree.touch(key.as_key(), args.ttl))
}

/// Lets it stay; durable when it returns.
pub fn run_persist(args: PersistArgs) -> Outcome {
    change(&args.entry, &args.target, |tree, key| tree.persist(key.as_key()))
}

fn change(
    entry: &Entry,
    target: &Target,
    change: impl Fn(&Tree, &KeyArgument) -> everleaf::Result<bool>,
) -> Outcome {
    let store = Store::open(&entry.pool)?;
    let tree = target.existing(&store)?;
    let key = target.key(&entry.key, &tree)?;
    let done = change(&tree, &key)?;
    drop(tree);
    store.close()?;
    if done { Ok(()) } else { Err(target.missing(&key, &entry.pool)) }
}
