//! Why memory could not be mapped or grown.

use std::io;

use crate::digits::grouped;

/// Why memory could not be mapped or grown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// The file system or the memory behind it is full.
    #[error(
        "the disk is full: {} more bytes could not be allocated for the pool; free some space or \
        choose another place",
        grouped(*.requested_bytes)
    )]
    DiskFull {
        /// Bytes asked for.
        requested_bytes: u64,
    },
    /// The file system has less room than a new file is to have: known before anything of it is
    /// taken.
    #[error(
        "the disk is full: the pool needs {} bytes, and {} are free; free some space or choose \
        another size or place",
        grouped(*.requested_bytes), grouped(*.free_bytes)
    )]
    NoRoom {
        /// Bytes asked for.
        requested_bytes: u64,
        /// Bytes that are free.
        free_bytes: u64,
    },
    /// The file has holes, as a sparse copy has, and the disk has no room to fill them. The file is
    /// unchanged.
    #[error(
        "the pool's file is sparse: {} bytes of it have no room on the disk, which is full; free \
        some space, or only read the pool",
        grouped(*.missing_bytes)
    )]
    Sparse {
        /// Bytes that would have to be allocated.
        missing_bytes: u64,
    },
    /// The pool may not grow beyond its address reservation.
    #[error(
        "the pool is full: {} bytes would exceed its maximum of {} bytes; remove keys, or copy it \
        to a new pool with a greater maximum size",
        grouped(*.requested_bytes), grouped(*.max_bytes)
    )]
    MaxSize {
        /// The length asked for.
        requested_bytes: u64,
        /// The largest length.
        max_bytes: u64,
    },
    /// No pool can be so large.
    #[error(
        "a pool of {} bytes is too large; the largest has {} bytes",
        grouped(*.bytes), grouped(*.max_bytes)
    )]
    TooLarge {
        /// The length asked for.
        bytes: u64,
        /// The largest length of any pool.
        max_bytes: u64,
    },
    /// The file is shorter than what must be mapped.
    #[error(
        "the file is truncated: it has {} bytes and should have {}; restore it from a backup, or \
        salvage what can be read",
        grouped(*.found_bytes), grouped(*.expected_bytes)
    )]
    Truncated {
        /// Length of the file.
        found_bytes: u64,
        /// Length that its header speaks of.
        expected_bytes: u64,
    },
    /// The processor lacks an instruction that was asked for or that this medium needs.
    #[error(
        "this processor has no {instruction}, which {purpose} needs; choose another flush \
        instruction or medium"
    )]
    Unsupported {
        /// The instruction.
        instruction: &'static str,
        /// What it was wanted for.
        purpose: &'static str,
    },
    /// The operating system refused.
    #[error("{action} failed: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl MapError {
    /// What the system said last.
    pub(super) fn last(action: &'static str) -> Self {
        Self::system(action)(io::Error::last_os_error())
    }

    /// What the system says, for `map_err`.
    pub(super) fn system(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { action, source }
    }
}
