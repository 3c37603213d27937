//! What keeps a server from starting.

use std::io;
use std::path::PathBuf;

use crate::Address;

/// Why a server could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// No thread would answer.
    #[error("a server needs at least 1 thread")]
    NoThreads,
    /// No address would be listened at.
    #[error("no address to listen at; name one")]
    NoAddress,
    /// TLS would be spoken without a certificate.
    #[error("TLS needs a certificate and its key; name the files of both")]
    NoCertificate,
    /// An address cannot be listened at.
    #[error("cannot listen at {address}: {source}; choose another address")]
    Bind {
        /// The address.
        address: Address,
        /// What the system said.
        source: io::Error,
    },
    /// Backups cannot be written where they are to be.
    #[error("backups cannot be written to {folder}: {source}; name a folder that can be written",
        folder = .folder.display())]
    Backups {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The node of the cluster does not run.
    #[cfg(feature = "cluster")]
    #[error(transparent)]
    Node(#[from] everleaf_raft::NodeError),
    /// The system gives no thread, or nothing to wait with.
    #[error("cannot start a thread of the server: {0}")]
    Thread(io::Error),
}
