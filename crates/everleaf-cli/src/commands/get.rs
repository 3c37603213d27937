//! `get`: one value.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

use crate::failure::{Failure, Outcome, told_apart};
use crate::open;
use crate::target::ValueTarget;

/// Print the value of a key: its bytes as they are, and a newline. A missing key exits 1, a failure
/// 3.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everleaf get words.pool leaf
  everleaf get words.pool picture --no-newline > leaf.png
  everleaf get words.pool 00ff --hex --tree colours
  everleaf get shop.pool next --tree counters --as u64le
  everleaf get shop.pool '[\"ann\",7]' --tree visits --key-as '(String, u64)' --as json")]
pub struct Args {
    /// The pool; it is not written.
    pool: PathBuf,
    /// The key: any bytes, or a decimal number for a tree with u64 keys.
    #[arg(allow_negative_numbers = true)]
    key: OsString,
    #[command(flatten)]
    target: ValueTarget,
    /// Print only the bytes of the value, without a newline.
    #[arg(short, long)]
    no_newline: bool,
}

/// Gets.
pub fn run(args: Args) -> Outcome {
    told_apart();
    let store = open::to_read(&args.pool)?;
    let tree = args.target.existing(&store)?;
    let key = args.target.key(&args.key, &tree)?;
    let value = tree.get(key.as_key())?.ok_or_else(|| args.target.missing(&key, &args.pool))?;
    let value = args.target.show(key.as_key(), &value)?;
    let output = &mut std::io::stdout().lock();
    let mut print = || {
        output.write_all(&value)?;
        if !args.no_newline {
            output.write_all(b"\n")?;
        }
        output.flush()
    };
    print().map_err(|error| Failure::output(&error))
}
