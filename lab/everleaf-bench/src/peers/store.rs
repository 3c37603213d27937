//! The store of this workspace, as its users call it.

use std::ops::ControlFlow;

use everleaf::{Key, Scan, Store};
use everleaf_index::IndexStatistics;

use crate::BenchError;
use crate::key::BenchKey;
use crate::target::bytes::{ByteStore, Show, ShowEntry};

/// Everleaf, as a store of bytes among the others.
pub struct Everleaf(pub Store);

/// The bytes of a key, as [`BenchKey::bytes`] gives them.
fn shown(key: Key<'_>, show: impl FnOnce(&[u8])) {
    match key {
        Key::U64(number) => show(&number.to_be_bytes()),
        Key::Bytes(bytes) => show(bytes),
    }
}

impl<K: BenchKey> ByteStore<K> for Everleaf {
    fn get(&self, key: &K, show: &mut Show<'_>) -> Result<bool, BenchError> {
        Ok(self.0.get_with(key.store_key(), show)?.is_some())
    }
    fn insert(&self, key: &K, value: &[u8]) -> Result<bool, BenchError> {
        Ok(self.0.put_if_absent(key.store_key(), value)?)
    }
    fn put(&self, key: &K, value: &[u8]) -> Result<(), BenchError> {
        Ok(self.0.put(key.store_key(), value).map(drop)?)
    }
    fn delete(&self, key: &K) -> Result<(), BenchError> {
        Ok(self.0.delete(key.store_key()).map(drop)?)
    }
    fn scan(&self, key: &K, records: usize, show: &mut ShowEntry<'_>) -> Result<(), BenchError> {
        let mut left = records;
        let scanned = self.0.scan_with(Scan::all().starting_at(key.store_key()), |key, value| {
            shown(key, |key| show(key, value));
            left -= 1;
            if left > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        Ok(scanned?)
    }
    fn len(&self) -> u64 {
        // Not `len`: from its first call on writers keep counts up.
        self.0.statistics().map_or(0, |statistics| statistics.entries)
    }
    fn statistics(&self) -> Option<IndexStatistics> {
        let of_store = self.0.statistics().ok()?;
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
        self.0.statistics().ok().map(|statistics| statistics.used_bytes)
    }
}
