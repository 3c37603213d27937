//! What can go wrong in a store.

use std::path::PathBuf;

use everleaf_index::IndexError;
use everleaf_log::LogError;
use everleaf_pmem::{Medium, grouped};
use everleaf_pool::{KeyType, PoolError};

use crate::durability::why_not;
use crate::engine::what_has;
use crate::{DurabilityMode, Engine};

/// The longest value: 1 GiB.
pub const MAX_VALUE_BYTES: u64 = 1 << 30;

/// An operation of a store could not be done. A write that returns an error has changed nothing,
/// unless the variant says otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The pool refused: it is full, missing, locked or damaged.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The index refused, or found damage.
    #[error(transparent)]
    Index(IndexError),
    /// A key of the other kind.
    #[error(
        "this tree has {expected} as keys, but {other} were given or requested; use \
        keys of the tree's kind",
        expected = kind(*.expected),
        other = kind(other_kind(*.expected))
    )]
    WrongKeyType {
        /// What the tree was made for.
        expected: KeyType,
    },
    /// No such engine, or one that is still to come.
    #[error("{} is not available in this release; choose one of {available}", named(.name))]
    UnknownEngine {
        /// What was asked for.
        name: String,
        /// What there is.
        available: String,
    },
    /// The pool was made with an engine that this build does not have.
    #[error(
        "the pool was made with engine {name}, which this program does not have; {}",
        what_has(.name)
    )]
    EngineOfPool {
        /// The name in the pool's header.
        name: String,
    },
    /// The pool was made with a size of nodes that only the laboratory has, or its header is
    /// damaged in a way that its checksum does not show.
    #[error(
        "the pool was made with engine {name} and {parameter} = {value}, which this program does \
        not have (it has {offered}); open it with the laboratory's program: everleaf-lab dump, or \
        restore a backup"
    )]
    ParameterOfPool {
        /// The engine in the pool's header.
        name: String,
        /// The parameter.
        parameter: &'static str,
        /// Its value in the pool's header.
        value: u64,
        /// What there is.
        offered: String,
    },
    /// The pool was laid out for another engine, another kind of keys or other sizes.
    #[error(
        "the pool was laid out for engine {name} with other parameters; lay it out with the format \
        of the index to be made"
    )]
    OtherFormat {
        /// The name in the pool's header.
        name: String,
    },
    /// A parameter that the engine does not have.
    #[error("engine {engine} has no parameter {parameter}; leave it out")]
    UnknownParameter {
        /// Its name.
        parameter: &'static str,
        /// The engine.
        engine: Engine,
    },
    /// Byte strings as keys of an engine that has `u64` keys only.
    #[error("engine {engine} has u64 keys only; choose these, or another engine for byte strings")]
    NoByteStrings {
        /// The engine.
        engine: Engine,
    },
    /// The medium cannot keep what was chosen.
    #[error(
        "durability {mode} cannot be kept on {medium}: {why}; choose `process`, or put the pool on \
        persistent memory",
        why = why_not(*.medium)
    )]
    DurabilityOfMedium {
        /// What was chosen.
        mode: DurabilityMode,
        /// The medium.
        medium: Medium,
    },
    /// The engine does not offer what was chosen.
    #[error(
        "engine {engine} completes its writes in epochs and offers no durability {mode}; choose \
        `buffered`, or leave the choice out"
    )]
    DurabilityOfEngine {
        /// What was chosen.
        mode: DurabilityMode,
        /// The engine.
        engine: Engine,
    },
    /// An opening chose something stronger than the pool was created with.
    #[error(
        "the pool was created with durability {created}; an opening may choose a weaker one, not \
        {mode}: copy the pool to a new one of that durability instead"
    )]
    DurabilityOfPool {
        /// What was chosen.
        mode: DurabilityMode,
        /// What the pool was created with.
        created: DurabilityMode,
    },
    /// The log beside a pool is missing, damaged, another pool's, or cannot be written.
    #[error("{}: {source}", path.display())]
    Log {
        /// Its folder.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<LogError>,
    },
    /// A new pool was to have its log in a folder, and has none.
    #[error(
        "there is no log to put into {}: this pool needs none where it is, or its durability is \
        `process`; leave the folder out", folder.display()
    )]
    NoLog {
        /// The folder.
        folder: PathBuf,
    },
    /// A new pool was to have its log in a folder that is there already.
    #[error("{} exists already; give a folder for the log that does not", folder.display())]
    LogFolderExists {
        /// The folder.
        folder: PathBuf,
    },
    /// A new pool's log has no place.
    #[error(
        "{} is in the way: it is the log of a pool that is not here; if that pool was removed, \
        remove the folder too; if it was moved, move the folder with it; or choose another name \
        for the pool", path.display()
    )]
    LogInTheWay {
        /// The folder.
        path: PathBuf,
    },
    /// An interval that is not offered.
    #[error("an interval of {interval_ms} ms is not offered; choose 1 to {max_ms} ms")]
    DurabilityInterval {
        /// What was chosen.
        interval_ms: u32,
        /// The longest.
        max_ms: u32,
    },
    /// The value is longer than 1 GiB.
    #[error(
        "the value has {} bytes; values of at most {} bytes are supported",
        grouped(*.bytes), grouped(*.max_bytes)
    )]
    ValueTooLong {
        /// Its length.
        bytes: u64,
        /// The limit.
        max_bytes: u64,
    },
    /// The pool is open in another process, which was asked for what it holds, and could not tell.
    #[error("{} could not be read through the process that has it open: {what}", path.display())]
    Elsewhere {
        /// The pool.
        path: PathBuf,
        /// What that process has answered, or why it could not be asked.
        what: String,
    },
    /// A write to a store that was opened to read.
    #[error("the store was opened read-only; open it for writing first")]
    ReadOnly,
    /// An earlier write met damage or panicked midway. It has happened wholly or not at all, and
    /// which of the two is decided when the pool is opened the next time; until then nothing more
    /// is written.
    #[error("an earlier write was cut off; close the store and open it again, which recovers it")]
    Interrupted,
    /// What a transaction had read was written by another thread before its commit, or has expired.
    /// Nothing of it has happened.
    #[error(
        "what this transaction had read was written by another thread or expired; run it again"
    )]
    Conflict,
    /// The tree of a handle was dropped.
    #[error("the tree was dropped; open it by its name again")]
    TreeDropped,
    /// A tree of one store, where one of another is wanted.
    #[error("the tree belongs to another store; use one of this store")]
    OtherStore,
    /// There is no tree of this name, and a store that was opened to read cannot make it.
    #[error(
        "there is no tree `{}`, and the store was opened read-only; open it for writing to make \
        one", String::from_utf8_lossy(name).escape_debug()
    )]
    NoSuchTree {
        /// What was asked for.
        name: Vec<u8>,
    },
    /// The savepoint is of another transaction, or was taken after one that the transaction has
    /// gone back to.
    #[error(
        "the savepoint is gone, as the transaction went back to an earlier one, or it is of \
        another transaction; take another one"
    )]
    SavepointGone,
    /// A typed tree was asked for with other types than it was made with.
    #[error(
        "the tree `{}` has {} and {}; open it with these types",
        String::from_utf8_lossy(name).escape_debug(),
        of_type("keys", &made[0]),
        of_type("values", &made[1])
    )]
    OtherTypes {
        /// The tree.
        name: Vec<u8>,
        /// The names of the types of its keys and values; empty if it was not recorded.
        made: Box<[String; 2]>,
    },
    /// A store with `u64` keys has no named trees.
    #[error(
        "a store with u64 keys has no named trees; create one with byte-string keys, whose trees \
        may have u64 keys"
    )]
    NoTrees,
    /// All numbers of trees are taken.
    #[error("a store has at most 65,536 trees; drop one first")]
    TooManyTrees,
    /// So much was written that a snapshot's limit was exceeded, or the snapshot is over.
    #[error(
        "the snapshot is lost: more than {} bytes were replaced since it began, or it was dropped; \
        take another one",
        grouped(*.limit_bytes)
    )]
    SnapshotLost {
        /// The limit.
        limit_bytes: u64,
    },
    /// A closure to which a store shows something, of `get_with`, `scan_with` or `check_with`,
    /// calls this store.
    #[error(
        "the closure of `get_with`, `scan_with` or `check_with` must not call its store; call the \
        store when these have returned"
    )]
    WithinClosure,
    /// Long work was ended by the callback that watched it. What it was making is not there, but
    /// for what a stream has been given.
    #[error("it was stopped on request")]
    Aborted,
    /// A dump cannot be read as one.
    #[error("this is not a valid dump: {what}")]
    Dump {
        /// What is wrong with it.
        what: String,
    },
    /// A dump is restored into an empty pool only.
    #[error("the pool is not empty; restore into a new one")]
    NotEmpty,
    /// A restore of the pool was cut off: what it holds is a part of a dump. Only
    /// [`restore`](crate::restore()) opens it, and begins anew.
    #[error(
        "the pool is being restored: its restore was cut off, and it holds a part of the dump; \
        restore it again, or make a new pool"
    )]
    BeingRestored,
    /// A dump could not be read, or written.
    #[error("{action} the dump: {source}")]
    Stream {
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// A key or a value of a typed tree is not of its type.
    #[error(
        "the stored data is not of type {expected}; open the tree with the types that it \
        was written with"
    )]
    WrongType {
        /// The type that was expected.
        expected: &'static str,
    },
    /// A value of a typed tree has no encoding.
    #[error("the value cannot be stored as {format}: {what}")]
    NotEncodable {
        /// The encoding.
        format: &'static str,
        /// Why not.
        what: String,
    },
    /// The store was closed.
    #[error("the store is closed; open it again")]
    Closed,
    /// The process was forked after the store was opened. The store goes on in the process that
    /// opened it; dropping it here does nothing. The pool stays locked until each process that was
    /// forked meanwhile has ended or runs another program: a daemon forks first and opens then.
    #[error("the store was opened before this process was forked; fork first, then open it")]
    Forked,
}

/// What [`Store`](crate::Store)s and their parts return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Keys of a kind, in words.
const fn kind(key_type: KeyType) -> &'static str {
    match key_type {
        KeyType::U64 => "u64 numbers",
        KeyType::Bytes => "byte strings",
    }
}

const fn other_kind(key_type: KeyType) -> KeyType {
    match key_type {
        KeyType::U64 => KeyType::Bytes,
        KeyType::Bytes => KeyType::U64,
    }
}

/// An engine as it was asked for.
fn named(name: &str) -> String {
    if name.is_empty() { "an engine without a name".to_owned() } else { format!("engine {name}") }
}

/// Refuses a value that is too long.
pub(crate) fn check_value(value: &[u8]) -> Result<()> {
    let bytes = value.len() as u64;
    if bytes > MAX_VALUE_BYTES {
        Err(Error::ValueTooLong { bytes, max_bytes: MAX_VALUE_BYTES })
    } else {
        Ok(())
    }
}

fn of_type(what: &str, name: &str) -> String {
    if name.is_empty() { format!("{what} of any type") } else { format!("{what} of type {name}") }
}

impl Error {
    pub(crate) const fn corrupt(offset: u64, what: &'static str) -> Self {
        Self::Index(IndexError::Corrupt { offset, what })
    }

    pub(crate) fn unknown_engine(name: &str) -> Self {
        let available = Engine::available().map(Engine::name).collect::<Vec<_>>().join(", ");
        Self::UnknownEngine { name: name.to_owned(), available }
    }

    /// Whether this says that data is damaged.
    pub fn is_corruption(&self) -> bool {
        match self {
            Self::Pool(PoolError::Corrupt { .. }) | Self::Index(IndexError::Corrupt { .. }) => true,
            Self::Log { source, .. } => matches!(**source, LogError::Damaged { .. }),
            _ => false,
        }
    }

    /// Whether this says that no room is left, in the pool or on the disk.
    pub fn is_full(&self) -> bool {
        use everleaf_pmem::MapError;
        match self {
            Self::Pool(
                PoolError::Io { source, .. } | PoolError::Map(MapError::System { source, .. }),
            )
            | Self::Stream { source, .. } => {
                use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
                matches!(source.kind(), StorageFull | FileTooLarge | QuotaExceeded)
            }
            Self::Pool(
                PoolError::PoolFull { .. }
                | PoolError::Held { .. }
                | PoolError::Map(
                    MapError::DiskFull { .. }
                    | MapError::NoRoom { .. }
                    | MapError::Sparse { .. }
                    | MapError::MaxSize { .. },
                ),
            ) => true,
            Self::Log { source, .. } => matches!(**source, LogError::NoRoom { .. }),
            _ => false,
        }
    }
}

impl From<IndexError> for Error {
    /// An index passes on what its pool said; here it is the pool's error again, so that a caller
    /// finds it in one place.
    fn from(error: IndexError) -> Self {
        match error {
            IndexError::Pool(error) => Self::Pool(error),
            error => Self::Index(error),
        }
    }
}
