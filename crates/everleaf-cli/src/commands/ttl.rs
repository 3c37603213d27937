//! `ttl`: how long a value lives.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::time::SystemTime;

use crate::failure::{Failure, Outcome, told_apart};
use crate::open;
use crate::target::Target;

/// Print the seconds until a value expires, or `never`. A missing key exits 1, a failure 3.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  everleaf put words.pool session-17 anna --ttl 1h
  everleaf ttl words.pool session-17")]
pub struct Args {
    /// The pool; it is not written.
    pool: PathBuf,
    /// The key: any bytes, or a decimal number for a tree with u64 keys.
    #[arg(allow_negative_numbers = true)]
    key: OsString,
    #[command(flatten)]
    target: Target,
}

/// Shows.
pub fn run(args: Args) -> Outcome {
    told_apart();
    let store = open::to_read(&args.pool)?;
    let tree = args.target.existing(&store)?;
    let key = args.target.key(&args.key, &tree)?;
    let expiry = tree.expiry(key.as_key())?.ok_or_else(|| args.target.missing(&key, &args.pool))?;
    let text = display_life(expiry);
    writeln!(std::io::stdout(), "{text}").map_err(|error| Failure::output(&error))
}

/// In how many seconds something expires, or `never`.
pub fn display_life(expiry: Option<SystemTime>) -> String {
    let left = |at: SystemTime| at.duration_since(SystemTime::now()).unwrap_or_default();
    expiry.map_or("never".to_owned(), |at| format!("{:.3}", left(at).as_secs_f64()))
}
