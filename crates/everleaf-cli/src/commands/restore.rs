//! `restore`: a dump into an empty pool.

use std::fs::File;
use std::io::{BufReader, Read, stdin};
use std::path::PathBuf;

use everleaf::Store;

use crate::failure::{Failure, Outcome, complain};
use crate::progress::{entries_bar, watch_entries};

/// Fill an empty pool from a dump. The pool may have another engine and other sizes than the one that was dumped; its kind of keys must be the same.
///
/// Each part of the dump is checked before it is stored. If anything is wrong, the pool is empty again.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everleaf create new.pool && everleaf restore new.pool words.dump
  zstd -dc words.dump.zst | everleaf restore new.pool")]
pub struct Args {
    /// The pool, which must be empty.
    pool: PathBuf,
    /// The dump. Without it, or as `-`: standard input.
    file: Option<PathBuf>,
}

/// Restores.
pub fn run(args: Args) -> Outcome {
    let mut input: Box<dyn Read> = match args.file.filter(|file| file.as_os_str() != "-") {
        None => Box::new(stdin().lock()),
        Some(path) => {
            let file = File::open(&path).and_then(|file| match file.metadata()?.is_dir() {
                true => Err(std::io::ErrorKind::IsADirectory.into()),
                false => Ok(file),
            });
            let file = file.map_err(|error| Failure::failed(format!("{} cannot be read: {error}", path.display())))?;
            Box::new(BufReader::with_capacity(256 << 10, file))
        }
    };
    let store = Store::open(&args.pool)?;
    let bar = entries_bar();
    let restored = store.restore(&mut input, &mut |progress| watch_entries(&bar, progress));
    let closed = store.close();
    bar.finish_and_clear();
    let restored = restored?;
    closed?;
    complain(&format!("restored {} entries", restored.entries));
    Ok(())
}
