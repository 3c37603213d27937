//! Why a node does not run.

use std::io;
use std::path::PathBuf;

use crate::peer::peer_error::PeerError;
use crate::pools::FolderError;

/// Why a node is not made or does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// Of its folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Of a pool in it.
    #[error(transparent)]
    Pool(#[from] everleaf::Error),
    /// It is no folder of a node.
    #[error("{folder} is no folder of a node; make one by `everleaf cluster init` or `join`",
        folder = .folder.display())]
    NoFolder {
        /// The folder.
        folder: PathBuf,
    },
    /// A pool in it is damaged.
    #[error(
        "the folder of the node is damaged ({0}); leave it, and replace the node \
        (`everleaf cluster replace`)"
    )]
    Damaged(Box<everleaf::Error>),
    /// Of the file of the secret.
    #[error("{0}")]
    Secret(String),
    /// Of the folder: it was made by something else.
    #[error("the folder has no address of its node; make it by `everleaf cluster init` or `join`")]
    NoAddress,
    /// An address that nobody can use.
    #[error("{address} is no address of a node; use HOST:PORT, as the other nodes reach it")]
    Address {
        /// The address.
        address: String,
    },
    /// Of another node.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// The address cannot be listened at.
    #[error("cannot listen at {address}: {source}; is the node running already?")]
    Bind {
        /// The address.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// Other machines reach the address, and nothing is encrypted.
    #[error(
        "{address} can be reached by other machines: give the node a certificate for TLS, or \
        say that the network is trusted"
    )]
    NeedsTls {
        /// The address.
        address: String,
    },
    /// Of a file.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Of openraft.
    #[error("the cluster's engine does not start: {0}; if its log is damaged, replace the node")]
    Raft(String),
}
