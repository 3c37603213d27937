//! An index and a pool made one store.
//!
//! Map of the files: this one (making, opening, closing, what is told of a store) · `read` ·
//! `write` · `transaction` · `durable` (waiting for the medium) · `counts` `kept_counts` (how many
//! keys each tree has) · `expiring` (what expires, in its order).

mod counts;
mod durable;
mod expiring;
mod kept_counts;
mod read;
mod transaction;
mod write;

use std::fs::File;
use std::sync::{Arc, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use crossbeam_utils::sync::{ShardedLock, ShardedLockReadGuard, ShardedLockWriteGuard};
use everleaf_index::IndexStatistics;
use everleaf_pmem::{Durability, Media, Medium, Process, Transactions, planted};
use everleaf_pool::{Audit, Claim, KeyType, Opened, Pool, Shutdown};
use everleaf_tree::EngineCode;
use parking_lot::Mutex;

use self::counts::{Counted, Counts};
use self::durable::{Stripes, wait};
use self::expiring::{Expiring, WhenFull};
use crate::clock::Clock;
use crate::core::backend::{BEING_RESTORED, Backend, ClaimedPlace};
use crate::core::check;
use crate::core::deferred_waits::Waiting;
use crate::core::gate::Gate;
use crate::core::images::{Images, Snapshots};
use crate::core::keyspace::Space;
use crate::core::link::OpenStore;
use crate::core::progress::{Progress, Watch};
use crate::core::reentrancy::{self, Showing};
use crate::core::value_record::key_of_bytes;
use crate::durability::choice_of;
use crate::registry::{Engines, Opening as IndexOpening};
use crate::{
    Capabilities, CheckOutcome, DurabilityMode, Engine, EngineParameters, Error, Statistics,
    StoreKey, registry,
};

/// What is decided about a store before there is an index.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) writable: bool,
    pub(crate) medium: Medium,
    /// Whether a log beside the pool makes it durable.
    pub(crate) log: bool,
    pub(crate) durability: Durability,
    pub(crate) mode: DurabilityMode,
    pub(crate) transactions: Transactions,
    pub(crate) clock: Clock,
}

/// What opening a store has met. Of a new one: nothing.
struct Met {
    shutdown: Shutdown,
    recovery: Duration,
    recovered_writes: u64,
}

/// A pool and the index in it. Operations share the lock around both, closing and checking have it
/// alone; see [`crate::core::link`] for what keeps operations on one key apart.
pub(crate) struct Attached<M: Media, K: StoreKey> {
    engine: Engine,
    parameters: EngineParameters,
    terms: Terms,
    met: Met,
    opened_by: Process,
    /// Writers come by it before they take any lock.
    gate: Gate,
    snapshots: Snapshots,
    counts: Counts,
    expiring: Expiring,
    stripes: Stripes,
    /// The pool's file, where it is locked and not mapped. None once closed.
    lock: Mutex<Option<File>>,
    /// None once closed: the workers of the index and of the store must be gone before the pool is
    /// marked clean, and a thread that still has a tree of a closed store must not keep its file.
    live: ShardedLock<Option<OpenStore<M, K>>>,
}

impl<M: Media, K: StoreKey> Attached<M, K> {
    /// Makes an empty index in a pool that was just laid out.
    pub(crate) fn create(
        engines: Engines<M>,
        pool: &Arc<Pool<M>>,
        engine: Engine,
        parameters: &EngineParameters,
        terms: Terms,
    ) -> Result<Self, Error> {
        let index =
            registry::create_for_store(engines, pool, engine, parameters, terms.transactions)?;
        let live = OpenStore::new(index, Arc::clone(pool));
        let met = Met { shutdown: Shutdown::Clean, recovery: Duration::ZERO, recovered_writes: 0 };
        let counts = Counts::knowing(Counted::default());
        Self::over(engine, live, counts, terms, met, None)
    }

    /// Recovers the index, then what links it to values. Opening began at `start`; `lock` stays
    /// open, and so locked, until the store is closed.
    pub(crate) fn open(
        code: &EngineCode<M>,
        pool: &Arc<Pool<M>>,
        opened: &Opened,
        terms: Terms,
        start: Instant,
        lock: Option<File>,
    ) -> Result<Self, Error> {
        let opening =
            IndexOpening { transactions: terms.transactions, ..IndexOpening::from(opened) };
        let live = OpenStore::new(registry::open_code(code, pool, opening)?, Arc::clone(pool));
        let recovered_writes = live.resolve(opened)?;
        check::refuse_emptied(&live.pool, &*live.index)?;
        let counts = kept_counts::take(pool)?.map_or_else(Counts::default, Counts::knowing);
        let met = Met { shutdown: opened.shutdown, recovery: start.elapsed(), recovered_writes };
        Self::over(Engine::of(code.entry), live, counts, terms, met, lock)
    }

    fn over(
        engine: Engine,
        mut live: OpenStore<M, K>,
        counts: Counts,
        terms: Terms,
        met: Met,
        lock: Option<File>,
    ) -> Result<Self, Error> {
        if let (DurabilityMode::Buffered { interval_ms }, true) = (terms.mode, terms.writable) {
            live.end_epochs_every(Duration::from_millis(interval_ms.into()))?;
        }
        let parameters = registry::parameters_of(engine, live.pool.format());
        let (gate, snapshots) = (Gate::default(), Snapshots::default());
        let (expiring, stripes) = (Expiring::of(&live.pool), Stripes::of_media(live.pool.media()));
        let lock = Mutex::new(lock);
        let live = ShardedLock::new(Some(live));
        Ok(Self {
            engine,
            parameters,
            terms,
            met,
            opened_by: Process::current(),
            gate,
            snapshots,
            counts,
            expiring,
            stripes,
            lock,
            live,
        })
    }

    fn read<R>(
        &self,
        operation: impl FnOnce(&OpenStore<M, K>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.ready()?;
        operation(self.share().as_ref().ok_or(Error::Closed)?)
    }

    /// What operations share; none once closed. A panic under the lock, of a caller's closure say,
    /// leaves nothing half done: what was left midway is known as interrupted.
    fn share(&self) -> ShardedLockReadGuard<'_, Option<OpenStore<M, K>>> {
        self.live.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// No other operation is under way meanwhile.
    fn alone<R>(
        &self,
        operation: impl FnOnce(&OpenStore<M, K>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.ready()?;
        let live = self.exclusive();
        operation(live.as_ref().ok_or(Error::Closed)?)
    }

    /// Waits until no other operation is under way. Under the explorer, which schedules, no thread
    /// may block.
    fn exclusive(&self) -> ShardedLockWriteGuard<'_, Option<OpenStore<M, K>>> {
        if !M::SCHEDULED {
            return self.live.write().unwrap_or_else(PoisonError::into_inner);
        }
        loop {
            match self.live.try_write() {
                Ok(live) => return live,
                Err(TryLockError::Poisoned(live)) => return live.into_inner(),
                Err(TryLockError::WouldBlock) => {}
            }
            // Who relaxes holds nothing.
            let pool = self.share().as_ref().map(|live| Arc::clone(&live.pool));
            pool.iter().for_each(|pool| pool.media().relax());
        }
    }
}

impl<M: Media, K: StoreKey> Backend for Attached<M, K> {
    fn engine(&self) -> Engine {
        self.engine
    }

    fn key_type(&self) -> KeyType {
        K::TYPE
    }

    fn parameters(&self) -> EngineParameters {
        self.parameters
    }

    fn ready(&self) -> Result<(), Error> {
        if self.opened_by.is_current() { reentrancy::check(self) } else { Err(Error::Forked) }
    }

    fn now_ms(&self) -> u64 {
        self.terms.clock.now_ms()
    }

    fn wait_for_others(&self) -> Result<(), Error> {
        self.alone(|_| Ok(()))
    }

    fn begin_snapshot(&self, limit_bytes: u64) -> Result<Arc<Images>, Error> {
        let begin = |live: &OpenStore<M, K>| {
            let images = self.snapshots.begin(self.now_ms(), limit_bytes);
            Ok((images, self.pending_to_reader(live)))
        };
        let (images, pending) = if planted(339) { self.read(begin) } else { self.alone(begin) }?;
        if let Err(error) = wait(pending) {
            self.snapshots.end(&images);
            return Err(error);
        }
        Ok(images)
    }

    fn end_snapshot(&self, images: &Arc<Images>) {
        // A thread of the parent may hold the lock in a forked process's copy.
        if self.opened_by.is_current() {
            self.snapshots.end(images);
        }
    }

    fn statistics(&self) -> Result<Statistics, Error> {
        let (index, space, memory) = self.read(|live| {
            let (media, index) = (live.pool.media(), live.index.statistics());
            let region = media.region();
            let memory = (media.flush_instruction(), region.caches_persist(), region.dax_hint());
            let memory = (memory, media.log_counts());
            Ok((index, live.pool.space()?, memory))
        })?;
        let ((flush, caches_persist, dax_hint), log_counts) = memory;
        let IndexStatistics {
            keys: entries,
            height,
            leaves,
            inner_nodes,
            pm_bytes,
            node_bytes,
            dram_bytes,
            leaf_slots,
            inner_from,
            concurrency,
            conflicts,
            epochs,
            node_writes,
        } = index;
        // Of a pool that is damaged either may be any number.
        let slots = leaves as f64 * leaf_slots as f64;
        Ok(Statistics {
            engine: self.engine,
            key_type: K::TYPE,
            entries,
            height,
            leaves,
            inner_nodes,
            fill: (slots > 0.0).then(|| entries as f64 / slots),
            pm_bytes,
            node_bytes,
            dram_bytes,
            used_bytes: space.used_bytes,
            free_bytes: space.free_bytes,
            reserve_bytes: space.reserve_bytes,
            fragmentation: space.free_in_blocks_bytes as f64 / space.free_bytes.max(1) as f64,
            total_bytes: space.total_bytes,
            max_bytes: space.max_bytes,
            durability: self.terms.durability,
            durability_mode: self.terms.mode,
            medium: self.terms.medium,
            log: self.terms.log,
            log_counts,
            flush,
            caches_persist,
            dax_hint,
            shutdown: self.met.shutdown,
            inner_from,
            recovery_ms: self.met.recovery.as_secs_f64() * 1e3,
            recovered_writes: self.met.recovered_writes,
            concurrency,
            conflicts,
            epochs,
            node_writes,
        })
    }

    fn claim_place(
        &self,
        space: Space,
        from: u64,
        bytes: u64,
    ) -> Result<Option<ClaimedPlace>, Error> {
        let claim = self.read(|live| {
            live.give_up_chunks()?;
            Ok(Claim::of(&live.pool, from, bytes)?)
        })?;
        let Some(claim) = claim else { return Ok(None) };
        let own = |key: &[u8]| {
            let key = key_of_bytes(key, K::TYPE)?;
            (Space::of_encoded(key) == Some(space)).then(|| space.decode(key)).flatten()
        };
        let mut keys = Some(Vec::new());
        claim.for_each_key(|key| match (&mut keys, own(key)) {
            (Some(keys), Some(key)) => keys.push(key),
            (_, None) => keys = None,
            (None, _) => {}
        });
        Ok(keys.map(|keys| ClaimedPlace { keys, _claim: Box::new(claim) }))
    }

    fn has_place(&self, bytes: u64) -> Result<bool, Error> {
        self.read(|live| Ok(Claim::is_possible(&live.pool, bytes)?))
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            durability: self.terms.durability,
            durability_mode: self.terms.mode,
            contract: self.engine.contract(),
            concurrent_writers: self.engine.is_concurrent(),
            writable: self.terms.writable,
        }
    }

    fn chosen_durability(&self) -> Result<Option<DurabilityMode>, Error> {
        self.read(|live| choice_of(live.pool.format()))
    }

    fn check(&self, watch: &mut Watch<'_>) -> Result<CheckOutcome, Error> {
        // Alone: a write that is under way holds blocks that nothing leads to yet.
        self.alone(|live| {
            // The table of chunks tells of what an epoch did when it has ended.
            if self.terms.writable {
                live.index.sync()?;
            }
            let now_ms = self.now_ms();
            let watch = &mut |progress: &Progress| {
                let _showing = Showing::of(self);
                watch(progress)
            };
            let mut outcome = check::check(&live.pool, &*live.index, Audit::new(), now_ms, watch)?;
            if let Some(counted) = self.counts.counted(now_ms).filter(|c| c.until_ms == now_ms)
                && outcome.ok
                && counted.keys() != outcome.keys
            {
                self.counts.doubt();
                outcome.ok = false;
                outcome.violations.push(format!(
                    "S4: {} keys are known, and {} are there",
                    counted.keys(),
                    outcome.keys
                ));
            }
            Ok(outcome)
        })
    }

    fn points(&self) -> Option<Arc<dyn Waiting>> {
        Self::points(self)
    }

    fn sync(&self) -> Result<(), Error> {
        self.read(|live| {
            if !self.terms.writable {
                return Ok(());
            }
            live.index.sync()?;
            Ok(live.pool.sync()?)
        })
    }

    fn is_being_restored(&self) -> Result<bool, Error> {
        self.read(|live| Ok(live.pool.has_root(BEING_RESTORED)))
    }

    fn mark_being_restored(&self, marked: bool) -> Result<(), Error> {
        self.writing(WhenFull::Fail, |live| {
            let pool = &live.pool;
            Ok(if marked {
                pool.set_mark(BEING_RESTORED)
            } else {
                pool.clear_mark(BEING_RESTORED)
            }?)
        })?;
        self.sync()
    }

    fn close(&self) -> Result<(), Error> {
        self.ready()?;
        let _lock = self.lock.lock().take();
        let Some(live) = self.live.write().unwrap_or_else(PoisonError::into_inner).take() else {
            return Ok(());
        };
        if live.is_interrupted() && !planted(338) {
            // The pool stays marked as open, so that opening it recovers.
            return Err(Error::Interrupted);
        }
        if !self.terms.writable {
            return Ok(());
        }
        let entries = live.index.len();
        let seal = live.index.close()?;
        let pool = Arc::clone(&live.pool);
        drop(live);
        let many = entries >= kept_counts::MANY_ENTRIES;
        if let Some(counted) = self.counts.counted(self.now_ms()).filter(|_| many) {
            // Without room, or with damage, the next opening counts.
            let _ = kept_counts::store(&pool, &counted);
        }
        Ok(pool.close_with(seal)?)
    }
}

#[cfg(test)]
mod tests {
    use super::expiring::tests::{create, open, put};
    use super::*;

    #[test]
    fn a_store_that_was_left_in_the_middle_of_a_write_is_not_marked_as_closed() {
        let (folder, clock) = (tempfile::tempdir().unwrap(), Clock::manual(0));
        let path = folder.path().join("a.pool");
        for interrupted in [false, true] {
            let store = if interrupted { open(&path, &clock) } else { create(&path, &clock) };
            put(&store, "key", None);
            if interrupted {
                store
                    .read(|live| {
                        live.interrupt();
                        Ok(())
                    })
                    .unwrap();
                assert!(matches!(store.close(), Err(Error::Interrupted)));
            } else {
                store.close().unwrap();
            }
            drop(store);
            let left = open(&path, &clock).met.shutdown;
            assert_eq!(left, if interrupted { Shutdown::Crash } else { Shutdown::Clean });
        }
    }
}
