//! Why memory could not be mapped or grown.

use std::io;

/// Why memory could not be mapped or grown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// The file system or the memory behind it is full.
    #[error(
        "the disk is full: {requested_bytes} more bytes could not be allocated for the pool; free \
        some space or choose another place"
    )]
    DiskFull {
        /// Bytes asked for.
        requested_bytes: u64,
    },
    /// The file system has less room than a new file is to have: known before anything of it is
    /// taken.
    #[error(
        "the disk is full: the pool needs {requested_bytes} bytes, and {free_bytes} are free; \
        free some space or choose another size or place"
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
        "the pool's file is sparse: {missing_bytes} bytes of it have no room on the disk, which is \
        full; free some space, or only read the pool"
    )]
    Sparse {
        /// Bytes that would have to be allocated.
        missing_bytes: u64,
    },
    /// The pool may not grow beyond its address reservation.
    #[error(
        "the pool is full: {requested_bytes} bytes would exceed its maximum of {max_bytes} bytes; \
        remove keys, or copy it into a pool with a greater maximum size"
    )]
    MaxSize {
        /// The length asked for.
        requested_bytes: u64,
        /// The largest length.
        max_bytes: u64,
    },
    /// No pool can be so large.
    #[error("a pool of {bytes} bytes is too large; the largest has {max_bytes} bytes")]
    TooLarge {
        /// The length asked for.
        bytes: u64,
        /// The largest length of any pool.
        max_bytes: u64,
    },
    /// The file is shorter than what must be mapped.
    #[error(
        "the file is truncated: it has {found_bytes} bytes and should have {expected_bytes}; \
        restore it from a backup"
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
