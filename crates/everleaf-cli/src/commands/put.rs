//! `put`: one key.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use everleaf::Store;

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
        (None, Some(file)) if file.as_os_str() == "-" => {
            let mut value = Vec::new();
            let read = std::io::stdin().lock().read_to_end(&mut value);
            read.map_err(|error| Failure::failed(format!("standard input cannot be read: {error}")))?;
            value
        }
        (None, Some(file)) => {
            std::fs::read(file).map_err(|error| Failure::failed(format!("{} cannot be read: {error}", file.display())))?
        }
        (None, None) => return Err(Failure::usage("a value is wanted")),
    };
    let store = Store::open(&args.pool)?;
    let key = KeyArgument::parse(&args.key, store.key_type())?;
    store.put(key.as_key(), &value)?;
    store.close()?;
    Ok(())
}
