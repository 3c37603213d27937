//! `put`: one key.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use everleaf::{Error, Expiry, MAX_VALUE_BYTES, Store};

use crate::failure::{Failure, Outcome, told_apart};
use crate::target::{ValueTarget, expiry};

/// Put a value under a key; an existing value is replaced.
///
/// A named tree that does not exist is made, with the pool's kind of keys.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everleaf put words.pool leaf 'a blade of a plant'
  everleaf put words.pool picture --value-from leaf.png
  everleaf put words.pool session-17 anna --tree sessions --ttl 1h
  everleaf put words.pool lock 'host 7' --if-absent --ttl 30s
  everleaf put shop.pool next 1000 --tree counters --as u64le")]
pub struct Args {
    /// The pool.
    pool: PathBuf,
    /// The key: any bytes, or a decimal number for a tree with u64 keys.
    #[arg(allow_negative_numbers = true)]
    key: OsString,
    /// The value: any bytes.
    #[arg(allow_negative_numbers = true, required_unless_present = "value_from")]
    value: Option<OsString>,
    /// Take the value from a file (`-` is standard input) instead: all of its bytes.
    #[arg(long, value_name = "FILE", conflicts_with = "value")]
    value_from: Option<PathBuf>,
    #[command(flatten)]
    target: ValueTarget,
    /// The value expires after this time: seconds, which may have a fraction, or with the units
    /// ms, s, m (minutes), h, d, w and y, like 90s, 15m or 1h 30m. `keep`: when the value before
    /// would have.
    #[arg(
        long,
        value_name = "TIME",
        default_value = "never",
        value_parser = expiry,
        allow_hyphen_values = true
    )]
    ttl: Expiry,
    /// Put the value only if the key is absent; otherwise change nothing and exit 1
    /// (a failure exits 3 then).
    #[arg(long)]
    if_absent: bool,
}

/// Puts; durable when it returns.
pub fn run(args: Args) -> Outcome {
    if args.if_absent {
        told_apart();
    }
    let target = &args.target;
    let value = match (&args.value, &args.value_from) {
        (Some(value), _) => target.value(value)?,
        (None, Some(file)) => target.content(value_from(file)?)?,
        (None, None) => return Err(Failure::usage("give a value, or --value-from FILE")),
    };
    let store = Store::open(&args.pool)?;
    let tree = target.to_write(&store)?;
    let key = target.key_of(&args.key, tree.key_type())?;
    let done = tree.write(|tree| match (tree.with_expiry(args.ttl), args.if_absent) {
        (tree, true) => tree.put_if_absent(key.as_key(), &value),
        (tree, false) => tree.put(key.as_key(), &value).map(|_| true),
    })?;
    store.close()?;
    if done {
        Ok(())
    } else {
        let key = target.named(key.as_key());
        Err(Failure::absent(format!("the key {key} is there already; its value was not changed")))
    }
}

/// All of a file's bytes; of one that is too long only so many that the store can say so.
fn value_from(file: &Path) -> Result<Vec<u8>, Failure> {
    let mut value = Vec::new();
    if file.as_os_str() == "-" {
        let read = std::io::stdin().lock().take(MAX_VALUE_BYTES + 1).read_to_end(&mut value);
        read.map_err(|error| Failure::failed(format!("standard input cannot be read: {error}")))?;
        return Ok(value);
    }
    let unreadable = |error| Failure::failed(format!("{} cannot be read: {error}", file.display()));
    let opened = File::open(file).map_err(unreadable)?;
    let bytes = opened.metadata().map_err(unreadable)?.len();
    if bytes > MAX_VALUE_BYTES {
        return Err(Error::ValueTooLong { bytes, max_bytes: MAX_VALUE_BYTES }.into());
    }
    opened.take(MAX_VALUE_BYTES + 1).read_to_end(&mut value).map_err(unreadable)?;
    Ok(value)
}
