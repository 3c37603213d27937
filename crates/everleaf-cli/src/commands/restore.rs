//! `restore`: a dump into an empty pool.

use std::io::BufReader;
use std::path::{Path, PathBuf};

use everleaf::internal::key_type_name;
use everleaf::{Error, KeyType};

use crate::failure::{Failure, Outcome, complain};
use crate::input;
use crate::signals::Ending;
use crate::size::display_counted;

/// Fill an empty pool from a dump. The pool may have another engine and other sizes than the one
/// that was dumped; its kind of keys must be the same.
///
/// The pool is filled all or nothing. If anything is wrong with the dump, it is empty again. If the
/// restore is killed, or the machine dies, every other command refuses the pool, and the next
/// restore begins anew.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  everleaf create new.pool && everleaf restore new.pool words.dump
  zstd -dc words.dump.zst | everleaf restore new.pool")]
pub struct Args {
    /// The pool, which must be empty, or left by a restore that was cut off.
    pool: PathBuf,
    /// The dump. Without it, or with `-`: standard input.
    file: Option<PathBuf>,
}

/// Restores.
pub fn run(args: Args) -> Outcome {
    let (file, name) = input::open(args.file.as_deref().unwrap_or(Path::new("-")))?;
    let ending = Ending::awaited()?;
    let input = BufReader::with_capacity(256 << 10, ending.input(file));
    let unreadable = |error| Failure::failed(format!("{name} cannot be read: {error}"));
    let begun = input::begin(input).map_err(unreadable);
    let (mut input, packed) = begun.inspect_err(|_| ending.take_effect())?;
    if let Some((by, unpacks)) = packed {
        return Err(Failure::failed(format!(
            "{name} is compressed by {by}; unpack it (`{unpacks} FILE | everleaf restore {}`)",
            args.pool.display()
        )));
    }
    let restored = ending.during(|watch| everleaf::restore_with(&args.pool, &mut input, watch));
    let restored = restored.map_err(|error| match error {
        Error::Dump { what } => Failure::failed(format!(
            "{name} is not a valid dump: \
            {what}"
        )),
        Error::WrongKeyType { expected } => {
            let (pool, other) = (args.pool.display(), other_than(expected));
            Failure::failed(format!(
                "{name} is the dump of a pool with {} keys, and {pool} has {} keys; \
                make a pool with --keys {}",
                in_words(other),
                in_words(expected),
                key_type_name(other)
            ))
        }
        error => error.into(),
    })?;
    complain(&format!("restored {}", display_counted(restored.entries, "entry")));
    Ok(())
}

/// The kind of keys that is not this one.
const fn other_than(key_type: KeyType) -> KeyType {
    match key_type {
        KeyType::U64 => KeyType::Bytes,
        KeyType::Bytes => KeyType::U64,
    }
}

const fn in_words(key_type: KeyType) -> &'static str {
    match key_type {
        KeyType::U64 => "u64",
        KeyType::Bytes => "byte-string",
    }
}
