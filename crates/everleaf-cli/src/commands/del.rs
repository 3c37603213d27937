//! `del`: one key.

use std::ffi::OsString;
use std::path::PathBuf;

use everleaf::Store;

use crate::failure::{Failure, Outcome};
use crate::keys::KeyArgument;

/// Delete a key. A missing key exits 1.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  everleaf del words.pool leaf")]
pub struct Args {
    /// The pool.
    pool: PathBuf,
    /// The key: any bytes, or a decimal number for a pool with u64 keys.
    #[arg(allow_hyphen_values = true)]
    key: OsString,
}

/// Deletes; durable when it returns.
pub fn run(args: Args) -> Outcome {
    let store = Store::open(&args.pool)?;
    let key = KeyArgument::parse(&args.key, store.key_type())?;
    let deleted = store.delete(key.as_key())?;
    store.close()?;
    if deleted {
        Ok(())
    } else {
        Err(Failure::failed(format!("there is no key {key} in {}", args.pool.display())))
    }
}
