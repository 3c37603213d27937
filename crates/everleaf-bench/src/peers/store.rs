//! The store, as its users call it.

use everleaf::{Key, OwnedKey, Scan, Store};
use everleaf_index::IndexStatistics;

use crate::target::{ByteStore, PeerKey, bytes::Show};

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
    type Failure = everleaf::Error;

    fn get(&self, key: &K, show: impl FnOnce(&[u8])) -> Result<bool, everleaf::Error> {
        self.0.get_with(key.store_key(), show).map(|shown| shown.is_some())
    }
    fn insert(&self, key: &K, value: &[u8]) -> Result<bool, everleaf::Error> {
        self.0.insert(key.store_key(), value)
    }
    fn put(&self, key: &K, value: &[u8]) -> Result<(), everleaf::Error> {
        self.0.put(key.store_key(), value).map(drop)
    }
    fn delete(&self, key: &K) -> Result<(), everleaf::Error> {
        self.0.delete(key.store_key()).map(drop)
    }
    fn scan(&self, key: &K, records: usize, show: &mut Show<'_>) -> Result<(), everleaf::Error> {
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
        let everleaf::Statistics { keys, height, leaves, inner_nodes, dram_bytes, used_bytes, .. } = of_store;
        Some(IndexStatistics { keys, height, leaves, inner_nodes, pm_bytes: used_bytes, dram_bytes, ..Default::default() })
    }
    fn medium_bytes(&self) -> Option<u64> {
        self.0.statistics().ok().map(|statistics| statistics.used_bytes)
    }
}
