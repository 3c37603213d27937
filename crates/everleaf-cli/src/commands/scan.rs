//! `scan`: entries in key order.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use everleaf::{Key, Scan, Tree};
use serde_json::{Map, Value};

use super::count;
use crate::digits::hex;
use crate::escape::{Controls, write_escaped, write_json};
use crate::failure::{Failure, Outcome};
use crate::forms::ValueForm;
use crate::open;
use crate::target::{KeyRangeArguments, ValueTarget};

/// Print entries in key order: key TAB value, one per line.
///
/// A TAB, newline, carriage return or backslash is shown as \t, \n, \r, \\, and a byte that is not
/// valid UTF-8 as \xHH; on a terminal so are other control characters. `load --format tsv` reads
/// all of them back. Keys that are u64 are in numeric order.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everleaf scan words.pool --prefix leaf --limit 10
  everleaf scan words.pool --from m --to n --reverse
  everleaf scan words.pool > words.tsv
  everleaf scan words.pool --tree sessions --json > sessions.jsonl
  everleaf scan shop.pool --tree counters --as u64le

`load` reads words.tsv and sessions.jsonl back, byte for byte; expiries are not in them \
(`everleaf dump` has them).")]
pub struct Args {
    /// The pool; it is not written.
    pool: PathBuf,
    #[command(flatten)]
    range: KeyRangeArguments,
    #[command(flatten)]
    target: ValueTarget,
    /// Start at the greatest key; the bounds mean the same.
    #[arg(long)]
    reverse: bool,
    /// At most N entries.
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    limit: Option<u64>,
    /// Print only keys; values are not read.
    #[arg(long)]
    keys_only: bool,
    /// Print one JSON object per line, with the names `key` and `value`; bytes that are not valid
    /// UTF-8, and with --hex all of them, are digits under `key_hex` and `value_hex`.
    /// `load --format jsonl` reads them back.
    #[arg(long)]
    json: bool,
    /// Print only the number of entries; with --json as an object with the name `count`.
    #[arg(long, conflicts_with_all = ["keys_only", "reverse", "hex"])]
    count: bool,
}

/// Scans.
pub fn run(args: Args) -> Outcome {
    let store = open::to_read(&args.pool)?;
    let tree = args.target.existing(&store)?;
    let mut range = args.range.scan(&args.target, &tree)?;
    if args.reverse {
        range = range.backward();
    }
    let mut output = BufWriter::with_capacity(64 << 10, io::stdout().lock());
    let printed = print(&args, &tree, range, &mut output);
    // What was found before damage is met is shown.
    let flushed = output.flush().map_err(|error| Failure::output(&error));
    printed.and(flushed)
}

fn print(args: &Args, tree: &Tree, range: Scan, output: &mut impl Write) -> Outcome {
    let limit = args.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let controls = Controls::on_stdout();
    let shown = |written: io::Result<()>| written.map_err(|error| Failure::output(&error));
    if args.count {
        let mut count = 0u64;
        for key in tree.keys_in(range).take(limit) {
            key?;
            count += 1;
        }
        return shown(writeln!(output, "{}", count::display(count, args.json)));
    }
    if args.keys_only {
        for key in tree.keys_in(range).take(limit) {
            let line = line_of(args, controls, key?.as_ref(), None)?;
            shown(output.write_all(&line))?;
        }
        return Ok(());
    }
    for entry in tree.scan(range).take(limit) {
        let (key, value) = entry?;
        let line = line_of(args, controls, key.as_ref(), Some(&value))?;
        shown(output.write_all(&line))?;
    }
    Ok(())
}

/// An entry as a line.
fn line_of(
    args: &Args,
    controls: Controls,
    key: Key<'_>,
    value: Option<&[u8]>,
) -> Result<Vec<u8>, Failure> {
    let mut line = Vec::new();
    let wrote = |written: io::Result<()>| written.map_err(|error| Failure::output(&error));
    if args.json {
        wrote(write_json(&mut line, &object_of(args, key, value)?, controls))?;
    } else {
        line = args.target.key_in_line(key, controls)?;
        if let Some(value) = value {
            line.push(b'\t');
            let shown = args.target.show(key, value)?;
            match args.target.form() {
                None | Some(ValueForm::Utf8) => wrote(write_escaped(&mut line, &shown, controls))?,
                _ => line.extend_from_slice(&shown),
            }
        }
    }
    line.push(b'\n');
    Ok(line)
}

/// An entry as an object of JSON.
fn object_of(args: &Args, key: Key<'_>, value: Option<&[u8]>) -> Result<String, Failure> {
    let mut object = Map::new();
    match (key, args.target.key_in_form(key)?) {
        (_, Some(form)) => drop(object.insert("key".to_owned(), form)),
        (Key::U64(number), None) => drop(object.insert("key".to_owned(), number.into())),
        (Key::Bytes(bytes), None) => add_bytes(&mut object, "key", bytes, args.target.is_hex()),
    }
    let Some(value) = value else { return Ok(Value::Object(object).to_string()) };
    let shown = args.target.show(key, value)?;
    match args.target.form() {
        None | Some(ValueForm::Utf8) => add_bytes(&mut object, "value", value, false),
        Some(ValueForm::Hex) => add_bytes(&mut object, "value", value, true),
        Some(ValueForm::U64le | ValueForm::Json) => {
            // What stands there is JSON already, whose numbers must stay as they are.
            let object = Value::Object(object).to_string();
            let fields = object.strip_suffix('}').unwrap_or_default();
            return Ok(format!("{fields},\"value\":{}}}", String::from_utf8_lossy(&shown)));
        }
    }
    Ok(Value::Object(object).to_string())
}

/// Adds bytes as text, or as digits where they are none or digits are wanted.
fn add_bytes(object: &mut Map<String, Value>, name: &str, bytes: &[u8], as_digits: bool) {
    let (name, text) = match str::from_utf8(bytes) {
        Ok(text) if !as_digits => (name.to_owned(), text.to_owned()),
        _ => (format!("{name}_hex"), hex(bytes)),
    };
    object.insert(name, text.into());
}
