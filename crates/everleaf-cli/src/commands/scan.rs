//! `scan`: entries in key order.

use std::ffi::OsString;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use everleaf::{Key, KeyType, Store};

use crate::escape::write_escaped;
use crate::failure::{Failure, Outcome};
use crate::keys::KeyArgument;

/// Print entries in key order: key TAB value, one a line.
///
/// A TAB, newline or backslash is shown as \t, \n, \\, and a byte that is not valid UTF-8 as \xHH. Keys of u64 pools are in numeric
/// order.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everleaf scan words.pool --prefix leaf --limit 10
  everleaf scan words.pool --from m --to n --reverse")]
pub struct Args {
    /// The pool; it is not written.
    pool: PathBuf,
    /// Only keys that begin with P (byte keys only).
    #[arg(long, value_name = "P", allow_hyphen_values = true)]
    prefix: Option<OsString>,
    /// Only keys from A on, A included.
    #[arg(long, value_name = "A", allow_hyphen_values = true)]
    from: Option<OsString>,
    /// Only keys below B, B excluded.
    #[arg(long, value_name = "B", allow_hyphen_values = true)]
    to: Option<OsString>,
    /// From the greatest key downwards; the bounds mean the same.
    #[arg(long)]
    reverse: bool,
    /// At most N entries.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}
