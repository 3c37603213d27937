//! One lock around an engine for one thread.

use everleaf_pool::{Audit, Seal};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::{
    BatchSteps, Changes, CheckReport, Contract, Direction, Index, IndexStatistics, KeyKind,
    LinkSteps, Links, Result, SerialIndex, Start, Visitor,
};

/// Makes an [`Index`] of a [`SerialIndex`]: readers share the lock, a writer has it alone. A
/// visitor of a scan runs under the lock and must not call the index.
pub struct Serialized<T> {
    engine: RwLock<T>,
    relax: Option<Relax>,
}

/// What a thread does in each turn of waiting.
type Relax = Box<dyn Fn() + Send + Sync>;

impl<T> Serialized<T> {
    /// Puts an engine behind a lock.
    pub const fn new(engine: T) -> Self {
        Self { engine: RwLock::new(engine), relax: None }
    }

    /// The same, for threads that a scheduler lets run one at a time: who waits for the lock calls
    /// `relax` in turns.
    pub fn waiting(engine: T, relax: impl Fn() + Send + Sync + 'static) -> Self {
        Self { engine: RwLock::new(engine), relax: Some(Box::new(relax)) }
    }

    fn read(&self) -> RwLockReadGuard<'_, T> {
        let Some(relax) = &self.relax else { return self.engine.read() };
        loop {
            match self.engine.try_read() {
                Some(guard) => return guard,
                None => relax(),
            }
        }
    }

    fn write(&self) -> RwLockWriteGuard<'_, T> {
        let Some(relax) = &self.relax else { return self.engine.write() };
        loop {
            match self.engine.try_write() {
                Some(guard) => return guard,
                None => relax(),
            }
        }
    }
}

impl<K: KeyKind, T: SerialIndex<K>> Index<K> for Serialized<T> {
    fn value_words(&self) -> usize {
        self.read().value_words()
    }
    fn get_words(&self, key: K::Ref<'_>, value: &mut [u64]) -> Result<bool> {
        self.read().get_words(key, value)
    }
    fn get_many(&self, keys: &[K::Ref<'_>], values: &mut [Option<u64>]) -> Result<()> {
        self.read().get_many(keys, values)
    }
    fn insert_words(&self, key: K::Ref<'_>, value: &[u64]) -> Result<bool> {
        self.write().insert_words(key, value)
    }
    fn update_words(&self, key: K::Ref<'_>, value: &[u64], old: &mut [u64]) -> Result<bool> {
        self.write().update_words(key, value, old)
    }
    fn upsert_words(&self, key: K::Ref<'_>, value: &[u64], old: &mut [u64]) -> Result<bool> {
        self.write().upsert_words(key, value, old)
    }
    fn remove_words(&self, key: K::Ref<'_>, old: &mut [u64]) -> Result<bool> {
        self.write().remove_words(key, old)
    }
    fn links(&self) -> Links {
        self.read().links()
    }
    fn link(&self, key: K::Ref<'_>, new: Option<u64>, steps: &mut dyn LinkSteps) -> Result<bool> {
        self.write().link(key, new, steps)
    }
    fn link_all(&self, changes: &Changes<'_, K>, steps: &mut dyn BatchSteps) -> Result<bool> {
        self.write().link_all(changes, steps)
    }
    fn scan(&self, from: Start<'_, K>, direction: Direction, visit: Visitor<'_, K>) -> Result<()> {
        self.read().scan(from, direction, visit)
    }
    fn exclusive(&mut self) -> Option<&mut dyn SerialIndex<K>> {
        Some(self.engine.get_mut())
    }
    fn len(&self) -> u64 {
        self.read().len()
    }
    fn statistics(&self) -> IndexStatistics {
        self.read().statistics()
    }
    fn check(&self, audit: &mut Audit) -> Result<CheckReport> {
        self.read().check(audit)
    }
    fn contract(&self) -> Contract {
        Contract::Strict
    }
    fn sync(&self) -> Result<()> {
        self.write().sync()
    }
    fn close(&self) -> Result<Option<Seal>> {
        self.write().close()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::{Model, U64Keys};

    /// How often an engine was told to make everything durable, and to prepare for its end.
    #[derive(Default)]
    struct Calls {
        syncs: AtomicU32,
        closes: AtomicU32,
    }

    /// A model that counts those calls.
    struct Counting(Model<U64Keys>, Arc<Calls>);

    impl SerialIndex<U64Keys> for Counting {
        fn value_words(&self) -> usize {
            self.0.value_words()
        }
        fn get_words(&self, key: u64, value: &mut [u64]) -> Result<bool> {
            self.0.get_words(key, value)
        }
        fn get_many(&self, keys: &[u64], values: &mut [Option<u64>]) -> Result<()> {
            self.0.get_many(keys, values)
        }
        fn insert_words(&mut self, key: u64, value: &[u64]) -> Result<bool> {
            self.0.insert_words(key, value)
        }
        fn update_words(&mut self, key: u64, value: &[u64], old: &mut [u64]) -> Result<bool> {
            self.0.update_words(key, value, old)
        }
        fn upsert_words(&mut self, key: u64, value: &[u64], old: &mut [u64]) -> Result<bool> {
            self.0.upsert_words(key, value, old)
        }
        fn remove_words(&mut self, key: u64, old: &mut [u64]) -> Result<bool> {
            self.0.remove_words(key, old)
        }
        fn scan(
            &self,
            from: Start<'_, U64Keys>,
            direction: Direction,
            visit: Visitor<'_, U64Keys>,
        ) -> Result<()> {
            self.0.scan(from, direction, visit)
        }
        fn len(&self) -> u64 {
            self.0.len()
        }
        fn statistics(&self) -> IndexStatistics {
            self.0.statistics()
        }
        fn check(&self, audit: &mut Audit) -> Result<CheckReport> {
            self.0.check(audit)
        }
        fn sync(&mut self) -> Result<()> {
            self.1.syncs.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
        fn close(&mut self) -> Result<Option<Seal>> {
            self.1.closes.fetch_add(1, Ordering::Relaxed);
            Ok(Some(Seal::new(7, 8)))
        }
    }

    #[test]
    fn sync_and_close_reach_an_engine_behind_the_lock() {
        let calls = Arc::new(Calls::default());
        let index: Box<dyn Index<U64Keys>> =
            Box::new(Serialized::new(Counting(Model::new(), Arc::clone(&calls))));
        index.sync().unwrap();
        index.sync().unwrap();
        assert_eq!(index.close().unwrap(), Some(Seal::new(7, 8)));
        assert_eq!(calls.syncs.load(Ordering::Relaxed), 2);
        assert_eq!(calls.closes.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn an_engine_behind_one_lock_is_strict_and_holds_no_epoch() {
        let index = Serialized::new(Model::<U64Keys>::new());
        assert_eq!(Index::<U64Keys>::contract(&index), Contract::Strict);
        assert!(!Index::<U64Keys>::pin(&index, 1).unwrap().is_pinned());
    }
}
