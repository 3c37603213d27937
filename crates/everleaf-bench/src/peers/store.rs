//! The store, as its users call it.

use everleaf::{Key, OwnedKey, Scan, Store};
use everleaf_index::IndexStatistics;

use crate::BenchError;
use crate::target::bytes::{ByteStore, PeerKey, Show, ShowEntry};

/// A store of bytes: ours.
pub struct Ours(pub Store);

/// The bytes of a key, as [`PeerKey::bytes`] gives them.
fn shown(key: &OwnedKey, show: impl FnOnce(&[u8])) {
    match key.as_ref() {
        Key::U64(number) => show(&number.to_be_bytes()),
        Key::Bytes(bytes) => show(bytes),
    }
}

impl<K: PeerKey> ByteStore<K> for Ours {
    fn get(&self, key: &K, show: &mut Show<'_>) -> Result<bool, BenchError> {
        Ok(self.0.get_with(key.store_key(), show)?.is_some())
    }
    fn insert(&self, key: &K, value: &[u8]) -> Result<bool, BenchError> {
        Ok(self.0.insert(key.store_key(), value)?)
    }
    fn put(&self, key: &K, value: &[u8]) -> Result<(), BenchError> {
        Ok(self.0.put(key.store_key(), value).map(drop)?)
    }
    fn delete(&self, key: &K) -> Result<(), BenchError> {
        Ok(self.0.delete(key.store_key()).map(drop)?)
    }
    fn scan(&self, key: &K, records: usize, show: &mut ShowEntry<'_>) -> Result<(), BenchError> {
        for entry in self.0.scan(Scan::all().starting_at(key.store_key())).take(records) {
            let (key, value) = entry?;
            shown(&key, |key| show(key, &value));
        }
        Ok(())
    }
    fn len(&self) -> u64 {
        self.0.len()
    }
    fn statistics(&self) -> Option<IndexStatistics> {
        let of_store = self.0.statistics().ok()?;
        let everleaf::Statistics { keys, height, leaves, inner_nodes, dram_bytes, used_bytes, concurrency, conflicts, .. } =
            of_store;
        Some(IndexStatistics {
            keys,
            height,
            leaves,
            inner_nodes,
            pm_bytes: used_bytes,
            dram_bytes,
            concurrency,
            conflicts,
            ..Default::default()
        })
    }
    fn medium_bytes(&self) -> Option<u64> {
        self.0.statistics().ok().map(|statistics| statistics.used_bytes)
    }
}
