//! Where the pools of a node lie, and the word that says which state counts.

use std::collections::BTreeSet;
use std::io;

use everleaf::Store;

/// The word of `raft.meta` that says which state counts.
pub(crate) const STATE_WORD: &str = "state";

/// Where the pools of a node lie: a folder, or what a test has in its place.
pub trait Place: Send + Sync {
    /// Makes a pool, and opens it.
    ///
    /// # Errors
    /// As the store's.
    fn create(&self, name: &str) -> everleaf::Result<Store>;

    /// Opens a pool.
    ///
    /// # Errors
    /// As the store's.
    fn open(&self, name: &str) -> everleaf::Result<Store>;

    /// Removes a pool, or what is there of it.
    ///
    /// # Errors
    /// As the system reports.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// The names of the pools that there are, or parts of.
    ///
    /// # Errors
    /// As the system reports.
    fn names(&self) -> io::Result<BTreeSet<String>>;

    /// Pools that are made from now on may grow to so many bytes.
    fn limit(&self, _bytes: u64) {}
}
