//! `dump`: everything in a pool as a stream of bytes.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufWriter, IsTerminal, stdout};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use everleaf::{Error, OpenOptions, PoolError, Progress, Store};

use crate::failure::{Failure, Outcome, complain};
use crate::open;
use crate::progress::{entries_bar, show_entries};
use crate::signals::Ending;
use crate::size::display_counted;
use crate::target::{no_tree, tree_name};

/// Write everything in a pool to a file: a backup that any engine can be restored from.
///
/// The format is binary-safe, versioned and checksummed (docs/format.md); named trees and expiries
/// are kept, expired values are left out. A pool that `serve`, `shell` or `load` has open is dumped
/// as it is at one moment, while they go on.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everleaf dump words.pool words.dump
  everleaf dump words.pool herbs.dump --tree herbs
  everleaf dump words.pool | zstd > words.dump.zst")]
pub struct Args {
    /// The pool; it is not written.
    pool: PathBuf,
    /// The file to make; an existing file is refused. It gets its name when it is complete. Without
    /// it, or with `-`: standard output.
    file: Option<PathBuf>,
    /// Only the named tree, which has its name again in the pool that is restored from the dump.
    #[arg(long, value_name = "NAME", value_parser = tree_name())]
    tree: Option<OsString>,
}

/// Dumps.
pub fn run(args: Args) -> Outcome {
    run_with(args, &OpenOptions::new())
}

/// The same of a pool that is opened so.
pub fn run_with(args: Args, options: &OpenOptions) -> Outcome {
    let store = open::to_read_with(&args.pool, options)?;
    let tree = args.tree.as_deref();
    let dumped = match args.file.filter(|file| file.as_os_str() != "-") {
        None if stdout().is_terminal() => {
            Err(Failure::usage("a dump is not text for a terminal; give a file, or use a pipe"))
        }
        None => to_output(&store, tree),
        Some(path) => to_file(&store, tree, &path),
    };
    complain(&format!("dumped {}", display_counted(dumped?.entries, "entry")));
    Ok(())
}

fn to_file(store: &Store, tree: Option<&OsStr>, path: &Path) -> Result<Progress, Failure> {
    let dumped = Ending::awaited()?.during(|watch| match tree {
        Some(name) => store.dump_tree_file_with(name.as_bytes(), path, watch),
        None => store.dump_file_with(path, watch).map(Some),
    });
    match dumped {
        Ok(progress) => progress.ok_or_else(|| no_tree(tree)),
        Err(Error::Stream { source, .. }) => Err(no_room_or(&source, path)),
        Err(Error::Pool(PoolError::Io { source, .. })) => {
            Err(Failure::failed(format!("{} cannot be made: {source}", path.display())))
        }
        Err(error) => Err(error.into()),
    }
}

/// Why a file cannot be written.
fn no_room_or(error: &io::Error, path: &Path) -> Failure {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    let path = path.display();
    Failure::failed(match error.kind() {
        StorageFull | FileTooLarge | QuotaExceeded => {
            format!(
                "the disk is full: {path} cannot be written ({error}); free some space or choose \
                another place"
            )
        }
        _ => format!("{path} cannot be written: {error}"),
    })
}

/// Nothing is made that a signal would have to remove.
fn to_output(store: &Store, tree: Option<&OsStr>) -> Result<Progress, Failure> {
    let output = &mut BufWriter::new(stdout().lock());
    let bar = entries_bar();
    let watch = |progress: &Progress| {
        show_entries(&bar, progress);
        ControlFlow::Continue(())
    };
    let dumped = match tree {
        Some(name) => store.dump_tree_with(name.as_bytes(), output, watch),
        None => store.dump_with(output, watch).map(Some),
    };
    bar.finish_and_clear();
    match dumped {
        Ok(progress) => progress.ok_or_else(|| no_tree(tree)),
        Err(Error::Stream { source, .. }) => Err(Failure::output(&source)),
        Err(error) => Err(error.into()),
    }
}
