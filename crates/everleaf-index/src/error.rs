//! What can go wrong in an index.

use everleaf_pmem::grouped;
use everleaf_pool::PoolError;

/// What operations of an index return.
pub type Result<T, E = IndexError> = std::result::Result<T, E>;

/// An operation of an index could not be done. Nothing was changed unless the variant says
/// otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The pool refused: it is full, or damaged.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The key is longer than 64 KiB.
    #[error(
        "the key has {} bytes; keys of at most {} bytes are supported",
        grouped(*.bytes as u64), grouped(*.max_bytes as u64)
    )]
    KeyTooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        max_bytes: usize,
    },
    /// A value of another size than the index was made for.
    #[error("the value has {words} words; this index was made for values of {expected}")]
    ValueWords {
        /// Words given.
        words: usize,
        /// Words wanted.
        expected: usize,
    },
    /// A parameter is outside what the engine offers.
    #[error("{parameter} = {value} is not offered by this engine; choose one of {offered}")]
    Parameter {
        /// The parameter.
        parameter: &'static str,
        /// What was asked for.
        value: u64,
        /// What there is.
        offered: String,
    },
    /// An epoch could not be ended, so none is any more.
    #[error(
        "an epoch could not be ended, and nothing that was written since is durable; close the \
        pool and open it again, which goes back to the end of the last epoch"
    )]
    EpochNotEnded,
    /// The thread that ends epochs could not be started.
    #[error("a thread could not be started: {0}; allow the process more threads")]
    Thread(std::io::Error),
    /// The index is damaged.
    #[error(
        "the index is damaged at offset {offset:#x}: {what}; restore a backup, or \
        salvage what can be read"
    )]
    Corrupt {
        /// Bytes from the pool's base.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
    },
}
