//! `count`: how many keys.

use std::io::Write;
use std::path::PathBuf;

use crate::failure::{Failure, Outcome};
use crate::open;
use crate::target::{KeyRangeArguments, Target};

/// Print the number of keys in a tree, or within bounds.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everleaf count words.pool
  everleaf count words.pool --prefix leaf
  everleaf count words.pool --tree sessions")]
pub struct Args {
    /// The pool; it is not written.
    pool: PathBuf,
    #[command(flatten)]
    range: KeyRangeArguments,
    #[command(flatten)]
    target: Target,
    /// Print one JSON object, with the name `count`.
    #[arg(long)]
    json: bool,
}

/// A count as it is printed.
pub fn display(count: u64, json: bool) -> String {
    if json { format!("{{\"count\":{count}}}") } else { count.to_string() }
}

/// Counts.
pub fn run(args: Args) -> Outcome {
    let store = open::to_read(&args.pool)?;
    let tree = args.target.existing(&store)?;
    let count = match args.range.is_everything() {
        true => tree.len()?,
        false => tree.count_in(args.range.scan(&args.target, &tree)?)?,
    };
    let text = display(count, args.json);
    writeln!(std::io::stdout(), "{text}").map_err(|error| Failure::output(&error))
}
