//! `put`: one key.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use everleaf::{Error, MAX_VALUE_BYTES, Store};

use crate::failure::{Failure, Outcome};
use crate::keys::KeyArgument;

/// Put a value under a key; a value that is there already is replaced.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everleaf put words.pool leaf 'a blade of a plant'
  everleaf put words.pool picture --value-from leaf.png")]
pub struct Args {
    /// The pool.
    pool: PathBuf,
    /// The key: any bytes, or a decimal number for a pool with u64 keys.
    #[arg(allow_hyphen_values = true)]
    key: OsString,
    /// The value: any bytes.
    #[arg(allow_hyphen_values = true, required_unless_present = "value_from")]
    value: Option<OsString>,
    /// Take the value from a file (`-` is standard input) instead: all of its bytes.
    #[arg(long, value_name = "FILE", conflicts_with = "value")]
    value_from: Option<PathBuf>,
}

/// Puts; durable when it returns.
pub fn run(args: Args) -> Outcome {
    let value = match (&args.value, &args.value_from) {
        (Some(value), _) => value.as_bytes().to_vec(),
        (None, Some(file)) => value_from(file)?,
        (None, None) => return Err(Failure::usage("a value is wanted")),
    };
    let store = Store::open(&args.pool)?;
    let key = KeyArgument::parse(&args.key, store.key_type())?;
    store.put(key.as_key(), &value)?;
    store.close()?;
    Ok(())
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
