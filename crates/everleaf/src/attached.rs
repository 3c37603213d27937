//! An index and a pool made one store.

use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crossbeam_utils::sync::ShardedLock;
use everleaf_index::{Direction, IndexStatistics};
use everleaf_pmem::{Durability, Media, PPtr};
use everleaf_pool::{Audit, KeyType, Opened, Pool, Shutdown};

use crate::backend::{Backend, Visit};
use crate::error::MAX_VALUE_BYTES;
use crate::link::{Live, foreign_record};
use crate::value_record::{KeyBytes, ValueRecord};
use crate::{Capabilities, CheckOutcome, Contract, Engine, EngineParameters, Error, Key, Statistics, StoreKey, check, registry};

/// What is known of a store when it is opened.
#[derive(Clone, Debug)]
pub(crate) struct Opening {
    pub(crate) writable: bool,
    pub(crate) durability: Durability,
    pub(crate) shutdown: Shutdown,
    pub(crate) recovery: Duration,
    pub(crate) recovered_writes: u64,
}

/// A pool and the index in it. Operations share the lock around both, closing and checking have it alone; see [`crate::link`] for what
/// keeps operations on one key apart.
pub(crate) struct Attached<M: Media, K: StoreKey> {
    pool: Arc<Pool<M>>,
    engine: Engine,
    opening: Opening,
    /// None once closed: the workers of the index and of the store must be gone before the pool is marked clean.
    live: ShardedLock<Option<Live<M, K>>>,
}

impl<M: Media, K: StoreKey> Attached<M, K> {
    /// Makes an empty index in a pool that was just laid out.
    pub(crate) fn create(pool: Arc<Pool<M>>, engine: Engine, parameters: &EngineParameters) -> Result<Self, Error> {
        let index = registry::create_index::<K, M>(&pool, engine, parameters, 1)?;
        let live = Live::new(index, Arc::clone(&pool));
        let durability = pool.media().region().medium().durability();
        let opening =
            Opening { writable: true, durability, shutdown: Shutdown::Clean, recovery: Duration::ZERO, recovered_writes: 0 };
        Ok(Self { pool, engine, opening, live: ShardedLock::new(Some(live)) })
    }

    /// Recovers the index, then what links it to values.
    pub(crate) fn open(pool: Arc<Pool<M>>, opened: &Opened) -> Result<Self, Error> {
        let (index, engine) = registry::open_index::<K, M>(&pool, opened.shutdown)?;
        let live = Live::new(index, Arc::clone(&pool));
        live.resolve(&opened.pending_links)?;
        let durability = pool.media().region().medium().durability();
        let recovered_writes = opened.pending_links.len() as u64;
        let opening =
            Opening { writable: true, durability, shutdown: opened.shutdown, recovery: Duration::ZERO, recovered_writes };
        Ok(Self { pool, engine, opening, live: ShardedLock::new(Some(live)) })
    }

    /// What only the one who opened it knows.
    pub(crate) fn opening_mut(&mut self) -> &mut Opening {
        &mut self.opening
    }

    fn read<R>(&self, operation: impl FnOnce(&Live<M, K>) -> Result<R, Error>) -> Result<R, Error> {
        // A panic under the lock, of a caller's closure say, leaves nothing half done: what was left midway is known as interrupted.
        let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
        operation(live.as_ref().ok_or(Error::Closed)?)
    }

    fn write<R>(&self, operation: impl FnOnce(&Live<M, K>) -> Result<R, Error>) -> Result<R, Error> {
        if !self.opening.writable {
            return Err(Error::ReadOnly);
        }
        let result = self.read(operation);
        self.pool.media().end_operation();
        result
    }

    /// The value in the record at `offset`, which must be of the key whose bytes are given.
    fn value(&self, offset: u64, key: &KeyBytes<'_>) -> Result<&[u8], Error> {
        match ValueRecord::parse(self.pool.record(PPtr::at(offset))?) {
            Some(found) if found.key == key.as_slice() => Ok(found.value),
            _ => Err(foreign_record(offset)),
        }
    }
}

/// A key and a value that may be stored.
fn storable<'k, K: StoreKey>(key: Key<'k>, value: &[u8]) -> Result<K::Ref<'k>, Error> {
    let bytes = value.len() as u64;
    if bytes > MAX_VALUE_BYTES {
        return Err(Error::ValueTooLong { bytes, max_bytes: MAX_VALUE_BYTES });
    }
    K::narrow_checked(key)
}

fn narrow_bound<K: StoreKey>(bound: Bound<Key<'_>>) -> Result<Bound<K::Ref<'_>>, Error> {
    Ok(match bound {
        Bound::Included(key) => Bound::Included(K::narrow(key)?),
        Bound::Excluded(key) => Bound::Excluded(K::narrow(key)?),
        Bound::Unbounded => Bound::Unbounded,
    })
}

impl<M: Media, K: StoreKey> Backend for Attached<M, K> {
    fn engine(&self) -> Engine {
        self.engine
    }

    fn key_type(&self) -> KeyType {
        K::TYPE
    }

    fn put(&self, key: Key<'_>, value: &[u8]) -> Result<bool, Error> {
        let key = storable::<K>(key, value)?;
        self.write(|live| {
            let _lock = live.lock_to_write(key);
            let old = live.linked_record(key)?;
            live.replace(key, old, value)?;
            Ok(!old.is_null())
        })
    }

    fn insert(&self, key: Key<'_>, value: &[u8]) -> Result<bool, Error> {
        let key = storable::<K>(key, value)?;
        self.write(|live| {
            let _lock = live.lock_to_write(key);
            if live.index.get(key)?.is_some() {
                return Ok(false);
            }
            live.replace(key, PPtr::NULL, value)?;
            Ok(true)
        })
    }

    fn get_with(&self, key: Key<'_>, show: &mut dyn FnMut(&[u8])) -> Result<bool, Error> {
        let narrow = K::narrow_checked(key)?;
        self.read(|live| {
            let _lock = live.lock_to_read(narrow);
            let Some(offset) = live.index.get(narrow)? else { return Ok(false) };
            show(self.value(offset, &KeyBytes::of(key))?);
            Ok(true)
        })
    }

    fn contains(&self, key: Key<'_>) -> Result<bool, Error> {
        let key = K::narrow_checked(key)?;
        self.read(|live| Ok(live.index.get(key)?.is_some()))
    }

    fn delete(&self, key: Key<'_>) -> Result<bool, Error> {
        let key = K::narrow_checked(key)?;
        self.write(|live| {
            let _lock = live.lock_to_write(key);
            let old = live.linked_record(key)?;
            if !old.is_null() {
                live.remove(key, old)?;
            }
            Ok(!old.is_null())
        })
    }

    fn len(&self) -> u64 {
        self.read(|live| Ok(live.index.len())).unwrap_or(0)
    }

    fn scan(&self, from: Bound<Key<'_>>, direction: Direction, visit: &mut Visit<'_>) -> Result<(), Error> {
        let from = narrow_bound::<K>(from)?;
        self.read(|live| {
            let mut failed = None;
            live.index.scan(from, direction, &mut |key, words| {
                let key = K::widen(key);
                match self.value(words.first().copied().unwrap_or(0), &KeyBytes::of(key)) {
                    Ok(value) => visit(key, value),
                    Err(error) => {
                        failed = Some(error);
                        ControlFlow::Break(())
                    }
                }
            })?;
            failed.map_or(Ok(()), Err)
        })
    }

    fn statistics(&self) -> Result<Statistics, Error> {
        let (index, space) = self.read(|live| Ok((live.index.statistics(), self.pool.space()?)))?;
        let IndexStatistics { keys, height, leaves, inner_nodes, pm_bytes, dram_bytes, .. } = index;
        Ok(Statistics {
            engine: self.engine,
            key_type: K::TYPE,
            keys,
            height,
            leaves,
            inner_nodes,
            pm_bytes,
            dram_bytes,
            used_bytes: space.used_bytes,
            free_bytes: space.free_bytes,
            total_bytes: space.total_bytes,
            max_bytes: space.max_bytes,
            durability: self.opening.durability,
            medium: self.pool.media().region().medium(),
            shutdown: self.opening.shutdown,
            recovery_ms: self.opening.recovery.as_secs_f64() * 1e3,
            recovered_writes: self.opening.recovered_writes,
        })
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            durability: self.opening.durability,
            contract: Contract::Strict,
            concurrent_writers: self.engine.is_concurrent(),
            writable: self.opening.writable,
        }
    }

    fn check(&self) -> Result<CheckOutcome, Error> {
        // Alone: a write that is under way holds blocks that nothing leads to yet.
        let live = self.live.write().unwrap_or_else(PoisonError::into_inner);
        let live = live.as_ref().ok_or(Error::Closed)?;
        check::check(&self.pool, &*live.index, Audit::new())
    }

    fn sync(&self) -> Result<(), Error> {
        self.read(|live| {
            live.index.sync()?;
            if self.opening.writable { Ok(self.pool.sync()?) } else { Ok(()) }
        })
    }

    fn close(&self) -> Result<(), Error> {
        let Some(live) = self.live.write().unwrap_or_else(PoisonError::into_inner).take() else { return Ok(()) };
        if live.is_interrupted() {
            return Err(Error::Interrupted); // The pool stays marked as open, so that opening it recovers.
        }
        if !self.opening.writable {
            return Ok(());
        }
        live.index.close()?;
        drop(live);
        Ok(self.pool.close()?)
    }
}
