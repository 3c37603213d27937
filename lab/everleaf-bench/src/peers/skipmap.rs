//! crossbeam's skip list, in memory, with values in boxes as a map of byte values of any length has
//! them. Each has a lock: the list's own way to replace a value removes the key first, so that a
//! lookup at the same time misses it.

use std::ops::Bound;

use crossbeam_skiplist::SkipMap;
use parking_lot::RwLock;

use crate::BenchError;
use crate::key::BenchKey;
use crate::target::bytes::{ByteStore, Show, ShowEntry};

/// A skip list.
pub struct Skip<K: BenchKey>(SkipMap<K, RwLock<Box<[u8]>>>);

impl<K: BenchKey> Skip<K> {
    /// An empty one.
    pub fn new() -> Self {
        Self(SkipMap::new())
    }
}

impl<K: BenchKey> ByteStore<K> for Skip<K> {
    fn get(&self, key: &K, show: &mut Show<'_>) -> Result<bool, BenchError> {
        Ok(self.0.get(key).map(|entry| show(&entry.value().read())).is_some())
    }
    fn insert(&self, key: &K, value: &[u8]) -> Result<bool, BenchError> {
        self.0.insert(*key, RwLock::new(value.into()));
        Ok(true)
    }
    fn put(&self, key: &K, value: &[u8]) -> Result<(), BenchError> {
        match self.0.get(key) {
            Some(entry) => *entry.value().write() = value.into(),
            None => drop(self.0.insert(*key, RwLock::new(value.into()))),
        }
        Ok(())
    }
    fn put_all(&self, keys: &[K], values: &[Vec<u8>]) -> Result<(), BenchError> {
        keys.iter().zip(values).try_for_each(|(key, value)| self.put(key, value))
    }
    fn delete(&self, key: &K) -> Result<(), BenchError> {
        self.0.remove(key);
        Ok(())
    }
    fn scan(&self, key: &K, records: usize, show: &mut ShowEntry<'_>) -> Result<(), BenchError> {
        for entry in self.0.range((Bound::Included(*key), Bound::Unbounded)).take(records) {
            show(entry.key().bytes().as_ref(), &entry.value().read());
        }
        Ok(())
    }
    fn len(&self) -> u64 {
        self.0.len() as u64
    }
    fn medium_bytes(&self) -> Option<u64> {
        None
    }
}
