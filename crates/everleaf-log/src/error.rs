//! Why a log could not be opened or written.

use std::io;
use std::path::PathBuf;

use everleaf_pmem::{MapError, MediaError, Newer};

/// Why a log could not be opened or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// There is no log where one must be.
    #[error(
        "the log of the pool is missing; bring its folder back to its place beside the pool, \
        restore the pool from a backup, or salvage what can be read without the log"
    )]
    Missing,
    /// The log is open already, by another process or by this one.
    #[error(
        "the log is already in use by another pool that shares its folder: each pool needs its own"
    )]
    Locked,
    /// The log is another pool's.
    #[error("the log beside the pool belongs to another pool: put the pool's own in its place")]
    Foreign,
    /// The log serves another file of the same pool, of which this one is a copy.
    #[error(
        "this pool is a copy of {pool}, and leads to its log: remove the link to the log here, and \
        copy file and log together while the pool is closed",
        pool = .pool.display()
    )]
    Copied {
        /// The file that it serves.
        pool: PathBuf,
    },
    /// Something else is in the place of the folder.
    #[error(
        "in the place of the pool's log is no folder; bring the log's folder back to its place, \
        restore the pool from a backup, or salvage what can be read without the log"
    )]
    NotAFolder,
    /// The pool's file holds what this log does not know of, or lacks what it takes for given.
    #[error(
        "the log does not match the pool; restore both from the same copy, or salvage what can be \
        read"
    )]
    OtherTime,
    /// A later release has written it.
    #[error("the log {0}")]
    Newer(Newer),
    /// A log of an earlier release.
    #[error(
        "the log has format {found} and this release knows {supported}: copy the pool with the \
        release that made it"
    )]
    OlderVersion {
        /// Its version.
        found: u64,
        /// The one that is known.
        supported: u64,
    },
    /// The log is damaged where it was durable.
    #[error(
        "the log is damaged: {what}, in segment {segment}; restore the pool from a backup, or \
        salvage what can be read"
    )]
    Damaged {
        /// What is wrong.
        what: Damage,
        /// The number of the segment.
        segment: u64,
    },
    /// The system refused.
    #[error("{action} failed: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The disk of the log has no room for a new session, nor for a part of it.
    #[error(
        "opening the pool to write takes {bytes} bytes more on the disk of its log, which \
        is full: make room there, and open it again (reading takes none)"
    )]
    NoRoom {
        /// Bytes that are to be free.
        bytes: u64,
    },
    /// No memory for the image.
    #[error(transparent)]
    Map(#[from] MapError),
    /// What has been written cannot be made durable.
    #[error(transparent)]
    Media(#[from] MediaError),
}

/// What is damaged in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// A control block cannot be read, nor its copy.
    #[error("its control file cannot be read")]
    Control,
    /// A group that was durable is not valid, or a later one knows of it.
    #[error("a group that was durable cannot be read")]
    Group,
    /// A segment is shorter than it was made.
    #[error("the segment is truncated")]
    Truncated,
    /// The first block of a segment is not what it was made with.
    #[error("the header of the segment cannot be read")]
    SegmentHeader,
    /// A segment of which the log speaks is not there.
    #[error("the segment is missing")]
    MissingSegment,
    /// A group speaks of what no pool has.
    #[error("a group leads outside the pool")]
    Outside,
    /// A session has served this pool and the control file does not know of it.
    #[error("a later session is not in the control file")]
    UnknownSession,
}

impl LogError {
    pub(crate) fn io(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, source }
    }

    pub(crate) const fn damaged(what: Damage, segment: u64) -> Self {
        Self::Damaged { what, segment }
    }
}
