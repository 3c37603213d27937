//! What is measured: an index as users have it, the store, or a peer.
//!
//! The measuring loops are compiled for each target, so that nothing is paid but what a user of the
//! target pays:
//!
//! * an engine is called through `dyn Index`, as it is by its users: two indirect calls an
//!   operation (a few nanoseconds); in a run with one thread, which has the index to itself,
//!   without the lock of single-threaded engines, as the peer is (`index`);
//! * the peer `btreemap` is std's `BTreeMap` called directly, not through the trait: `BTreeMap<u64,
//!   V>`, and for strings `BTreeMap<Box<[u8]>, V>`, the natural map of byte strings that are not
//!   all of one length; V is an array of 1, 2, 4, 8 or 14 words, or else `Box<[u8]>` (`map`);
//! * `stx`, the B+-tree in memory of FPTree's paper (`crate::stx`), is called in the same way, with
//!   values of a word or else `Box<[u8]>`;
//! * the store and the other peers take and give bytes (`bytes`), each by the calls that its
//!   documentation shows first (`crate::peers`), and all behind one trait object.
//!
//! A lookup of every target copies the value to a buffer of the caller's, so that all of it is
//! read.

pub mod bytes;
pub mod index;
pub mod map;

use everleaf_index::IndexStatistics;
use everleaf_pmem::LogCounts;

use crate::BenchError;

pub use bytes::{ByteStore, ByteTarget};
pub use index::IndexTarget;
pub use map::{MapTarget, StxTarget};

/// Something that keys are put into.
pub trait Target<K> {
    /// Whether a change returns the old value, as an index does; stores of bytes that write without
    /// looking do not.
    const RETURNS_OLD: bool;
    /// What one thread works with.
    type Handle<'t>: Operations<K> + Send
    where
        Self: 't;

    /// A handle for each of `threads`; fewer if it cannot be shared.
    fn handles(&mut self, threads: usize) -> Vec<Self::Handle<'_>>;

    /// Number of keys.
    fn len(&self) -> u64;

    /// Sizes and shape, where they are known.
    fn statistics(&self) -> Option<IndexStatistics>;

    /// Bytes that it takes on its medium, where that is known.
    fn medium_bytes(&self) -> Option<u64>;

    /// What its log has done; none if it has none.
    fn log_counts(&self) -> Option<LogCounts> {
        None
    }

    /// Ends the epoch of an index that has epochs: what comes next begins in a new one.
    ///
    /// # Errors
    /// What the index says.
    fn end_epoch(&self) -> Result<(), BenchError> {
        Ok(())
    }
}

/// The operations that are timed. A value is made of its first word, and first words are what is
/// returned.
pub trait Operations<K> {
    /// Why an operation could not be done.
    type Failure: Into<BenchError> + Send;

    /// The value of a key.
    fn get(&mut self, key: &K) -> Result<Option<u64>, Self::Failure>;
    /// The values of up to [`MULTIGET_KEYS`](crate::MULTIGET_KEYS) keys.
    fn get_many(&mut self, keys: &[K], values: &mut [Option<u64>]) -> Result<(), Self::Failure>;
    /// Adds a key; whether it was absent (true of a store that does not look).
    fn insert(&mut self, key: &K, value: u64) -> Result<bool, Self::Failure>;
    /// Replaces a value; the old one, or 0 of a target that does not return it.
    fn update(&mut self, key: &K, value: u64) -> Result<Option<u64>, Self::Failure>;
    /// Removes a key; its value, or 0 of a target that does not return it.
    fn remove(&mut self, key: &K) -> Result<Option<u64>, Self::Failure>;
    /// How many keys are inserted or replaced together.
    fn batch(&self) -> usize {
        1
    }
    /// Inserts or replaces so many keys, or fewer, together: all or none.
    fn put_all(&mut self, keys: &[K], values: &[u64]) -> Result<(), Self::Failure> {
        let mut each = keys.iter().zip(values);
        each.try_for_each(|(key, value)| self.update(key, *value).map(drop))
    }
    /// Visits `records` records from `key` on; whether the first was that of `key`.
    fn scan(&mut self, key: &K, records: usize) -> Result<bool, Self::Failure>;
}
