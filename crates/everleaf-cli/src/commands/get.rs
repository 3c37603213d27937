//! `get`: one value.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

use everleaf::Store;

use crate::failure::{Failure, Outcome};
use crate::keys::KeyArgument;

/// Print the value of a key: its bytes as they are, and a newline. A missing key exits 1.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  everleaf get words.pool leaf")]
pub struct Args {
    /// The pool; it is not written.
    pool: PathBuf,
    /// The key: any bytes, or a decimal number for a pool with u64 keys.
    #[arg(allow_hyphen_values = true)]
    key: OsString,
}

/// Gets.
pub fn run(args: Args) -> Outcome {
    let store = Store::open_read_only(&args.pool)?;
    let key = KeyArgument::parse(&args.key, store.key_type())?;
    let Some(mut value) = store.get(key.as_key())? else {
        return Err(Failure::failed(format!("there is no key {key} in {}", args.pool.display())));
    };
    value.push(b'\n');
    let mut output = std::io::stdout().lock();
    output.write_all(&value).and_then(|()| output.flush()).map_err(|error| Failure::output(&error))
}
