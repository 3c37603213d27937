//! `dump`: everything in a pool as a stream of bytes.

use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write, stdout};
use std::path::PathBuf;

use everleaf::Store;

use crate::failure::{Failure, Outcome, complain};
use crate::progress::{entries_bar, watch_entries};

/// Write everything in a pool to a file: a backup that any engine can be restored from.
///
/// The format is binary-safe, versioned and checksummed (docs/format.md); named trees and expiries are kept, what has expired is left out.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everleaf dump words.pool words.dump
  everleaf dump words.pool | zstd > words.dump.zst")]
pub struct Args {
    /// The pool; it is not written.
    pool: PathBuf,
    /// The file to make; one that exists is refused. Without it, or as `-`: standard output.
    file: Option<PathBuf>,
}

/// Dumps.
pub fn run(args: Args) -> Outcome {
    let store = Store::open_read_only(&args.pool)?;
    let bar = entries_bar();
    let dumped = match args.file.filter(|file| file.as_os_str() != "-") {
        None if stdout().is_terminal() => Err(Failure::usage("a dump is no text for a terminal; give a file, or a pipe")),
        None => write_to(&store, &mut BufWriter::new(stdout().lock()), &bar),
        Some(path) => {
            let file = File::create_new(&path);
            let file = file.map_err(|error| Failure::failed(format!("{} cannot be made: {error}", path.display())))?;
            let dumped = write_to(&store, &mut BufWriter::new(&file), &bar).and_then(|entries| {
                file.sync_all().map(|()| entries).map_err(|e| Failure::failed(format!("syncing the dump: {e}")))
            });
            if dumped.is_err() {
                let _ = std::fs::remove_file(&path); // The reason is what matters.
            }
            dumped
        }
    };
    bar.finish_and_clear();
    complain(&format!("dumped {} entries", dumped?));
    Ok(())
}

fn write_to(store: &Store, output: &mut dyn Write, bar: &indicatif::ProgressBar) -> Result<u64, Failure> {
    match store.dump(output, &mut |progress| watch_entries(bar, progress)) {
        Ok(progress) => Ok(progress.entries),
        Err(everleaf::Error::Stream { source, .. }) => Err(Failure::output(&source)),
        Err(error) => Err(error.into()),
    }
}
