//! Other people's stores, each with the settings that let an acknowledged write survive the death
//! of the process and no more, which is what a pool on tmpfs promises too. What they are set to is
//! said by [`Peer::settings`](crate::Peer::settings).
//!
//! Each lives in a folder of its own, which is on the same file system as the pools of the engines
//! that it is compared with.

#[cfg(feature = "peers")]
pub mod fjall;
#[cfg(feature = "peers")]
pub mod lmdb;
#[cfg(feature = "peers")]
pub mod redb;
#[cfg(feature = "rocksdb")]
pub mod rocksdb;
pub mod skipmap;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod store;

#[cfg(any(feature = "peers", feature = "rocksdb", feature = "sqlite"))]
use std::path::Path;

use crate::subject::Peer;

/// What a peer refused to do.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {source}", name = .peer.name())]
pub struct PeerError {
    peer: Peer,
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl PeerError {
    /// For `map_err`.
    pub fn of<E: Into<Box<dyn std::error::Error + Send + Sync>>>(peer: Peer) -> impl Fn(E) -> Self {
        move |source| Self { peer, source: source.into() }
    }
}

/// Bytes that the files of a folder take on their medium.
#[cfg(any(feature = "peers", feature = "rocksdb", feature = "sqlite"))]
fn bytes_of_folder(folder: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder).ok()? {
        let entry = entry.ok()?;
        let metadata = entry.metadata().ok()?;
        bytes += if metadata.is_dir() {
            bytes_of_folder(&entry.path())?
        } else {
            metadata.blocks() * 512
        };
    }
    Some(bytes)
}
