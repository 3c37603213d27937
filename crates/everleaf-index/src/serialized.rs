//! One lock around an engine for one thread.

use std::ops::Bound;

use everleaf_pool::Audit;
use parking_lot::RwLock;

use crate::{
    CheckReport, Direction, Index, IndexError, IndexStatistics, KeyKind, SerialIndex, Visit,
};

/// Makes an [`Index`] of a [`SerialIndex`]: readers share the lock, a writer has it alone. A
/// visitor of a scan runs under the lock and must not call the index.
pub struct Serialized<T>(RwLock<T>);

impl<T> Serialized<T> {
    /// Puts an engine behind a lock.
    pub const fn new(engine: T) -> Self {
        Self(RwLock::new(engine))
    }
}

impl<K: KeyKind, T: SerialIndex<K>> Index<K> for Serialized<T> {
    fn value_words(&self) -> usize {
        self.0.read().value_words()
    }
    fn get_words(&self, key: K::Ref<'_>, value: &mut [u64]) -> Result<bool, IndexError> {
        self.0.read().get_words(key, value)
    }
    fn get_many(&self, keys: &[K::Ref<'_>], values: &mut [Option<u64>]) -> Result<(), IndexError> {
        self.0.read().get_many(keys, values)
    }
    fn insert_words(&self, key: K::Ref<'_>, value: &[u64]) -> Result<bool, IndexError> {
        self.0.write().insert_words(key, value)
    }
    fn update_words(
        &self,
        key: K::Ref<'_>,
        value: &[u64],
        old: &mut [u64],
    ) -> Result<bool, IndexError> {
        self.0.write().update_words(key, value, old)
    }
    fn upsert_words(
        &self,
        key: K::Ref<'_>,
        value: &[u64],
        old: &mut [u64],
    ) -> Result<bool, IndexError> {
        self.0.write().upsert_words(key, value, old)
    }
    fn remove_words(&self, key: K::Ref<'_>, old: &mut [u64]) -> Result<bool, IndexError> {
        self.0.write().remove_words(key, old)
    }
    fn scan(
        &self,
        from: Bound<K::Ref<'_>>,
        direction: Direction,
        visit: &mut Visit<'_, K>,
    ) -> Result<(), IndexError> {
        self.0.read().scan(from, direction, visit)
    }
    fn exclusive(&mut self) -> Option<&mut dyn SerialIndex<K>> {
        Some(self.0.get_mut())
    }
    fn len(&self) -> u64 {
        self.0.read().len()
    }
    fn statistics(&self) -> IndexStatistics {
        self.0.read().statistics()
    }
    fn check(&self, audit: &mut Audit) -> Result<CheckReport, IndexError> {
        self.0.read().check(audit)
    }
}
