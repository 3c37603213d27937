//! `trees`: the named trees of a pool.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;

use everleaf::internal::key_type_name;
use everleaf::{Key, Scan, Store, Tree};

use crate::escape::{Controls, write_escaped};
use crate::failure::{Failure, Outcome};
use crate::open;

/// List the named trees: name TAB kind of keys TAB number of keys, one per line.
///
/// The pool's own tree has no name and is not listed; see `count` and `info`. How many bytes
/// each has, `info --trees` tells.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everleaf trees words.pool
  everleaf trees words.pool --json")]
pub struct Args {
    /// The pool; it is not written.
    pool: PathBuf,
    /// Print one JSON object per line; the name is written as `scan` writes keys.
    #[arg(long)]
    json: bool,
}

/// A named tree.
#[derive(serde::Serialize)]
pub struct Row {
    /// In the text form.
    pub name: String,
    /// The kind of its keys.
    pub key_type: &'static str,
    /// How many there are.
    pub keys: u64,
    /// How many bytes they and their values have, if that was counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// The bytes of the keys and values of a tree: each entry is read.
pub fn bytes_in(tree: &Tree) -> Result<u64, Failure> {
    let mut bytes = 0;
    tree.scan_with(Scan::all(), |key, value| {
        bytes += match key {
            Key::U64(_) => 8,
            Key::Bytes(key) => key.len() as u64,
        };
        bytes += value.len() as u64;
        ControlFlow::Continue(())
    })?;
    Ok(bytes)
}

/// All named trees, in the order of their names; with their bytes if these are to be counted.
pub fn rows(store: &Store, controls: Controls, count: bool) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for name in store.tree_names()? {
        let Some(tree) = store.existing_tree(&name)? else { continue };
        let key_type = key_type_name(tree.key_type());
        let bytes = count.then(|| bytes_in(&tree)).transpose()?;
        rows.push(Row { name: text(&name, controls), key_type, keys: tree.len()?, bytes });
    }
    Ok(rows)
}

/// Lists.
pub fn run(args: Args) -> Outcome {
    let store = open::to_read(&args.pool)?;
    let controls = if args.json { Controls::Kept } else { Controls::on_stdout() };
    let mut output = io::stdout().lock();
    for row in rows(&store, controls, false)? {
        let written = match args.json {
            true => serde_json::to_string(&row)
                .map_err(io::Error::from)
                .and_then(|object| writeln!(output, "{object}")),
            false => writeln!(output, "{}\t{}\t{}", row.name, row.key_type, row.keys),
        };
        written.map_err(|error| Failure::output(&error))?;
    }
    output.flush().map_err(|error| Failure::output(&error))
}

/// A name in the text form. Writing to a vector cannot fail, and what is written is UTF-8.
fn text(name: &[u8], controls: Controls) -> String {
    let mut text = Vec::new();
    let _ = write_escaped(&mut text, name, controls);
    String::from_utf8_lossy(&text).into_owned()
}
