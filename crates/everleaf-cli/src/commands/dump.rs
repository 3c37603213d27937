//! `dump`: everything in a pool as a stream of bytes.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write, stdout};
use std::path::{Path, PathBuf};

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
        None => write_to(&store, &mut BufWriter::new(stdout().lock()), &bar, Failure::output),
        Some(path) => {
            let file = File::create_new(&path);
            let file = file.map_err(|error| Failure::failed(format!("{} cannot be made: {error}", path.display())))?;
            let failed = |error: &io::Error| no_room_or(error, &path);
            let dumped = write_to(&store, &mut BufWriter::new(&file), &bar, failed)
                .and_then(|entries| file.sync_all().map(|()| entries).map_err(|error| failed(&error)));
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

/// Why a file cannot be written.
fn no_room_or(error: &io::Error, path: &Path) -> Failure {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    let path = path.display();
    Failure::failed(match error.kind() {
        StorageFull | FileTooLarge | QuotaExceeded => {
            format!("the disk is full: {path} cannot be written ({error}); free some space or choose another place")
        }
        _ => format!("{path} cannot be written: {error}"),
    })
}

fn write_to(
    store: &Store,
    output: &mut dyn Write,
    bar: &indicatif::ProgressBar,
    failed: impl Fn(&io::Error) -> Failure,
) -> Result<u64, Failure> {
    match store.dump(output, &mut |progress| watch_entries(bar, progress)) {
        Ok(progress) => Ok(progress.entries),
        Err(everleaf::Error::Stream { source, .. }) => Err(failed(&source)),
        Err(error) => Err(error.into()),
    }
}
