//! The store of this workspace, as its users call it.

use std::ops::ControlFlow;

use everleaf::statistics::LogCounts;
use everleaf::{CreateOptions, Key, OpenOptions, Scan, Store};
use everleaf_engines::all;
use everleaf_index::IndexStatistics;

use crate::key::BenchKey;
use crate::target::bytes::{ByteStore, Show, ShowEntry};
use crate::{BenchError, Made};

/// Everleaf, as a store of bytes among the others.
pub struct Everleaf {
    store: Store,
    /// Where it is, if it has files.
    _folder: Option<Made>,
}

impl Everleaf {
    /// This store.
    pub const fn new(store: Store) -> Self {
        Self { store, _folder: None }
    }

    /// A store in a folder, which goes when it is dropped; or the one that is there.
    pub fn create(folder: Made, options: &CreateOptions) -> Result<Self, BenchError> {
        let store = folder.fill(|path| match path.join("pool") {
            pool if pool.exists() => OpenOptions::new().engines(all()).open(pool),
            pool => options.create(pool),
        })?;
        Ok(Self { store, _folder: Some(folder) })
    }
}

/// The bytes of a key, as [`BenchKey::bytes`] gives them.
fn shown(key: Key<'_>, show: impl FnOnce(&[u8])) {
    match key {
        Key::U64(number) => show(&number.to_be_bytes()),
        Key::Bytes(bytes) => show(bytes),
    }
}

impl<K: BenchKey> ByteStore<K> for Everleaf {
    fn get(&self, key: &K, show: &mut Show<'_>) -> Result<bool, BenchError> {
        Ok(self.store.get_with(key.store_key(), show)?.is_some())
    }
    fn insert(&self, key: &K, value: &[u8]) -> Result<bool, BenchError> {
        Ok(self.store.put_if_absent(key.store_key(), value)?)
    }
    fn put(&self, key: &K, value: &[u8]) -> Result<(), BenchError> {
        Ok(self.store.put(key.store_key(), value).map(drop)?)
    }
    fn put_all(&self, keys: &[K], values: &[Vec<u8>]) -> Result<(), BenchError> {
        let pairs = keys.iter().map(BenchKey::store_key).zip(values);
        Ok(self.store.put_many(pairs).map(drop)?)
    }
    fn delete(&self, key: &K) -> Result<(), BenchError> {
        Ok(self.store.delete(key.store_key()).map(drop)?)
    }
    fn scan(&self, key: &K, records: usize, show: &mut ShowEntry<'_>) -> Result<(), BenchError> {
        let mut left = records;
        let scanned =
            self.store.scan_with(Scan::all().starting_at(key.store_key()), |key, value| {
                shown(key, |key| show(key, value));
                left -= 1;
                if left > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
        Ok(scanned?)
    }
    fn len(&self) -> u64 {
        // Not `len`: from its first call on writers keep counts up.
        self.store.statistics().map_or(0, |statistics| statistics.entries)
    }
    fn statistics(&self) -> Option<IndexStatistics> {
        let of_store = self.store.statistics().ok()?;
        let everleaf::Statistics {
            entries: keys,
            height,
            leaves,
            inner_nodes,
            dram_bytes,
            used_bytes,
            concurrency,
            conflicts,
            epochs,
            ..
        } = of_store;
        Some(IndexStatistics {
            keys,
            height,
            leaves,
            inner_nodes,
            pm_bytes: used_bytes,
            dram_bytes,
            concurrency,
            conflicts,
            epochs,
            ..Default::default()
        })
    }
    fn medium_bytes(&self) -> Option<u64> {
        self.store.statistics().ok().map(|statistics| statistics.used_bytes)
    }
    fn log_counts(&self) -> Option<LogCounts> {
        self.store.statistics().ok()?.log_counts
    }
}
