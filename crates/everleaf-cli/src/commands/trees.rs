//! `trees`: the named trees of a pool.

use std::io::{self, Write};
use std::path::PathBuf;

use everleaf::Store;
use everleaf::internal::key_type_name;

use crate::escape::{Controls, write_escaped};
use crate::failure::{Failure, Outcome};
use crate::open;

/// List the named trees: name TAB kind of keys TAB number of keys, one per line.
///
/// The pool's own tree has no name and is not listed; see `count` and `info`.
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
}

/// All named trees, in the order of their names.
pub fn rows(store: &Store, controls: Controls) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for name in store.tree_names()? {
        let Some(tree) = store.existing_tree(&name)? else { continue };
        let key_type = key_type_name(tree.key_type());
        rows.push(Row { name: text(&name, controls), key_type, keys: tree.len()? });
    }
    Ok(rows)
}

/// Lists.
pub fn run(args: Args) -> Outcome {
    let store = open::to_read(&args.pool)?;
    let controls = if args.json { Controls::Kept } else { Controls::on_stdout() };
    let mut output = io::stdout().lock();
    for row in rows(&store, controls)? {
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
