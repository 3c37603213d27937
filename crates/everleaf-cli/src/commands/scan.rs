//! `scan`: entries in key order.

use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use everleaf::{Key, KeyType, Scan, Store};

use crate::escape::write_escaped;
use crate::failure::{Failure, Outcome};
use crate::keys::KeyArgument;

/// Print entries in key order: key TAB value, one a line.
///
/// A TAB, newline or backslash is shown as \t, \n, \\, and a byte that is not valid UTF-8 as \xHH.
/// Keys of u64 pools are in numeric order.
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

/// Scans.
pub fn run(args: Args) -> Outcome {
    let store = Store::open_read_only(&args.pool)?;
    let range = wanted(&args, store.key_type())?;
    let mut output = BufWriter::with_capacity(64 << 10, std::io::stdout().lock());
    let limit = args.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    for entry in store.scan(range).take(limit) {
        // What was found before damage is met is shown.
        let (key, value) = entry.map_err(|error| {
            output.flush().map_or_else(|error| Failure::output(&error), |()| error.into())
        })?;
        print_entry(&mut output, key.as_ref(), &value).map_err(|error| Failure::output(&error))?;
    }
    output.flush().map_err(|error| Failure::output(&error))
}

fn wanted(args: &Args, key_type: KeyType) -> Result<Scan, Failure> {
    let bound = |argument: &Option<OsString>| {
        argument.as_deref().map(|key| KeyArgument::parse(key, key_type)).transpose()
    };
    let mut scan = Scan::all();
    if let Some(from) = bound(&args.from)? {
        scan = scan.starting_at(from.as_key());
    }
    if let Some(to) = bound(&args.to)? {
        scan = scan.ending_before(to.as_key());
    }
    if let Some(prefix) = &args.prefix {
        if key_type == KeyType::U64 {
            return Err(Failure::usage(
                "--prefix is for byte keys, and this pool has u64 keys; use --from and --to",
            ));
        }
        scan = scan.with_prefix(prefix.as_bytes());
    }
    Ok(if args.reverse { scan.backward() } else { scan })
}

fn print_entry(output: &mut impl Write, key: Key<'_>, value: &[u8]) -> io::Result<()> {
    match key {
        Key::U64(key) => write!(output, "{key}")?,
        Key::Bytes(key) => write_escaped(output, key)?,
    }
    output.write_all(b"\t")?;
    write_escaped(output, value)?;
    output.write_all(b"\n")
}
