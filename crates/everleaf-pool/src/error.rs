//! What can go wrong with a pool.

use std::io;
use std::path::PathBuf;

use everleaf_pmem::{MapError, MediaError, Newer, grouped};

use crate::RootName;

/// What is damaged at some place of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Corruption {
    /// The header's checksum does not match.
    Header,
    /// A word that checks itself does not.
    Word,
    /// A descriptor of the chunk table says something impossible.
    Chunk,
    /// A pointer leads outside the pool, is misaligned, or leads to no block of its type.
    Pointer,
    /// A record's length or checksum does not match its bytes.
    Record,
    /// A worker's intent says something impossible.
    Intent,
}

impl std::fmt::Display for Corruption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Corruption::Header => "the header does not match its checksum",
            Corruption::Word => "a word does not match its own checksum",
            Corruption::Chunk => "the description of a chunk is impossible",
            Corruption::Pointer => "a pointer leads to a place of another type",
            Corruption::Record => "a record does not match its checksum",
            Corruption::Intent => "a worker's intent is impossible",
        })
    }
}

/// Who has a file open, and what to do about it.
const fn holder(here: bool) -> &'static str {
    match here {
        true => "this process already: share the store that is open, or close it first",
        false => "another process; close it there first",
    }
}

/// What happened to the machine, as far as it is known.
const fn restart(certain: bool) -> &'static str {
    match certain {
        true => "the machine restarted",
        false => "it is not known whether the machine restarted",
    }
}

/// A pool could not be made, opened, or asked for memory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// There is no such file.
    #[error("there is no pool at {path}; create one first", path = .path.display())]
    Missing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The file to create is there already.
    #[error(
        "{path} exists already; choose another name or remove it first",
        path = .path.display()
    )]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The folder of the file to create is not there.
    #[error("the folder {path} does not exist; make it first", path = .path.display())]
    NoFolder {
        /// The folder.
        path: PathBuf,
    },
    /// The file may not be written.
    #[error(
        "{path} cannot be opened to write: {source}; get the permission to write it, or open it \
        read-only",
        path = .path.display()
    )]
    NotWritable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The DAX device to make a pool on holds one.
    #[error(
        "{path} holds a pool already; to discard it, wipe its header with `daxio --zero --len \
        4096 \
        --output {path}`",
        path = .path.display()
    )]
    DeviceInUse {
        /// The device.
        path: PathBuf,
    },
    /// The file is not a pool, or its creation was cut off.
    #[error("{path} is not an Everleaf pool", path = .path.display())]
    NotAPool {
        /// The file.
        path: PathBuf,
    },
    /// What cannot hold a pool: a folder, a pipe, a device that is no persistent memory.
    #[error(
        "{path} is {what}, which cannot hold a pool; give a regular file, or a DAX device",
        path = .path.display()
    )]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What is there.
        what: &'static str,
    },
    /// Another process has it open, or this one has.
    #[error("{path} is open in {}", holder(*.here), path = .path.display())]
    Locked {
        /// The file.
        path: PathBuf,
        /// Whether this process has it open, as far as the system tells.
        here: bool,
    },
    /// A later release has made it.
    #[error("the pool {0}")]
    Newer(Newer),
    /// The format is of an earlier release.
    #[error(
        "the pool has format version {found}, this program reads version {supported}; bring its \
        data over with `everleaf dump POOL FILE` of the release that made it, and `everleaf \
        create NEW` and `everleaf restore NEW FILE` of this one"
    )]
    OlderVersion {
        /// Version in the header.
        found: u64,
        /// The version known.
        supported: u64,
    },
    /// The machine restarted while the pool was open in a session whose stores are not kept over a
    /// restart, or it may have: the kernel did not tell which boot this is, or which that was.
    #[error(
        "{} while this pool was open {session}, which does not keep unsynced data over a restart, \
        so its content cannot be trusted; restore a backup or load its data again, or salvage what \
        can be read",
        restart(*.certain)
    )]
    OtherBoot {
        /// Whether it is certain that the machine restarted.
        certain: bool,
        /// What is known of that session.
        session: &'static str,
    },
    /// A sync of the pool's file has failed, and the file is used without the page cache now.
    #[error(
        "an earlier sync of this pool failed, and its file has been mounted in another way since, \
        so its content cannot be trusted; restore a backup or load its data again, or salvage \
        what can be read"
    )]
    SyncFailed,
    /// No memory is left.
    #[error(
        "the pool is full: {} bytes could not be allocated; remove keys, or copy it to a new \
        pool with a greater maximum size",
        grouped(*.requested_bytes)
    )]
    PoolFull {
        /// Bytes asked for.
        requested_bytes: u64,
    },
    /// What was replaced or removed cannot be used again, because a thread may still be reading it,
    /// and there is no other room.
    #[error(
        "no room: {} bytes of replaced or removed records wait for a reader that began before that \
        and has not ended; let the closure of `get_with` or `scan_with`, or the guard, end, and \
        write again",
        grouped(*.bytes)
    )]
    Held {
        /// Bytes that wait.
        bytes: u64,
    },
    /// A request larger than any pool serves.
    #[error(
        "{} bytes are too many: a record has at most {}",
        grouped(*.bytes), grouped(*.max_bytes)
    )]
    TooLarge {
        /// Bytes asked for.
        bytes: u64,
        /// The limit.
        max_bytes: u64,
    },
    /// The pool is too small to hold even its own header.
    #[error(
        "a pool of {} bytes is too small; the smallest has {}",
        grouped(*.bytes), grouped(*.min_bytes)
    )]
    TooSmall {
        /// Bytes asked for.
        bytes: u64,
        /// The smallest size.
        min_bytes: u64,
    },
    /// There is no root of this name.
    #[error(
        "the pool has no root `{name}`: it was made for another structure, or its creation was \
        cut off"
    )]
    NoRoot {
        /// The name.
        name: RootName,
    },
    /// All places for roots are taken.
    #[error("all {places} places for roots of this pool are taken")]
    RootsExhausted {
        /// How many there are.
        places: usize,
    },
    /// The worker was left in the middle of something, by an error or a panic.
    #[error(
        "worker {slot} was left in the middle of an operation, which is settled when the pool is \
        opened again; close it and open it"
    )]
    WorkerBusy {
        /// Its slot.
        slot: usize,
    },
    /// Epochs end in the order of their numbers.
    #[error(
        "epoch {epoch} cannot end: its number must be greater than {durable}, which is durable \
        already, and less than 2^48"
    )]
    EpochOrder {
        /// The epoch that was to end.
        epoch: u64,
        /// The last one that is durable.
        durable: u64,
    },
    /// A worker is to finish an epoch that is not durable.
    #[error("epoch {epoch} is not durable yet; commit it before a worker finishes it")]
    EpochNotDurable {
        /// Its number.
        epoch: u64,
    },
    /// An epoch is to end before every worker has finished the one before.
    #[error(
        "epoch {epoch} cannot end: a worker has not finished the epoch before; let every worker \
        finish that first"
    )]
    EpochNotFinished {
        /// The epoch that was to end.
        epoch: u64,
    },
    /// All worker slots are taken.
    #[error("all {slots} workers of this pool are in use; drop one first")]
    WorkersExhausted {
        /// How many there are.
        slots: usize,
    },
    /// Something in the pool is damaged.
    #[error(
        "the pool is damaged at offset {offset:#x}: {what}; restore a backup, or salvage \
        what can be read"
    )]
    Corrupt {
        /// Bytes from the pool's base.
        offset: u64,
        /// What is wrong.
        what: Corruption,
    },
    /// What the pool holds could not be made durable, now or earlier.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// Memory could not be mapped or grown.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The operating system refused.
    #[error("{action} {path}: {source}", path = .path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl PoolError {
    /// Whether the pool has no room and gets no more: it has its greatest size, or the disk is
    /// full, or the system refuses to lengthen it. What needs no room may still be done.
    pub const fn is_full(&self) -> bool {
        matches!(self, Self::PoolFull { .. } | Self::Held { .. } | Self::Map(_))
    }

    pub(crate) const fn corrupt(offset: u64, what: Corruption) -> Self {
        Self::Corrupt { offset, what }
    }
}
