//! An index and a pool made one store.
//!
//! Map of the files: this one (making, opening, closing, what is told of a store) · `read` ·
//! `write` · `transaction` · `durable` (waiting for the medium) · `counts` `kept_counts` (how many
//! keys each tree has).

mod counts;
mod durable;
mod kept_counts;
mod read;
mod transaction;
mod write;

use std::fs::File;
use std::ops::Bound;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crossbeam_utils::sync::ShardedLock;
use everleaf_index::{Contract, Direction, IndexStatistics};
use everleaf_pmem::{Durability, Media, Medium, Transactions};
use everleaf_pool::{Audit, KeyType, Opened, Pool, Shutdown};
use parking_lot::Mutex;

use self::counts::{Counted, Counts};
use self::durable::{Stripes, wait};
use crate::clock::Clock;
use crate::core::backend::{Backend, Condition, Visit, Written};
use crate::core::check;
use crate::core::gate::{Gate, Turn};
use crate::core::images::{Images, Snapshots};
use crate::core::keyspace::Space;
use crate::core::life::Life;
use crate::core::link::Live;
use crate::core::progress::Watch;
use crate::core::reads::{Bounds, Reads};
use crate::core::value::{Found, NewValue};
use crate::core::write::Write;
use crate::registry::Opening as IndexOpening;
use crate::{
    Capabilities, CheckOutcome, DurabilityMode, Engine, EngineParameters, Error, Key, Statistics,
    StoreKey, registry,
};

/// What is known of a store when it is opened.
#[derive(Clone, Debug)]
pub(crate) struct Opening {
    pub(crate) writable: bool,
    pub(crate) medium: Medium,
    /// Whether a log beside the pool makes it durable.
    pub(crate) log: bool,
    pub(crate) parameters: EngineParameters,
    /// The engine's.
    pub(crate) contract: Contract,
    pub(crate) durability: Durability,
    pub(crate) mode: DurabilityMode,
    pub(crate) shutdown: Shutdown,
    pub(crate) recovery: Duration,
    pub(crate) recovered_writes: u64,
    pub(crate) clock: Clock,
}

/// A pool and the index in it. Operations share the lock around both, closing and checking have it
/// alone; see [`crate::core::link`] for what keeps operations on one key apart.
pub(crate) struct Attached<M: Media, K: StoreKey> {
    engine: Engine,
    opening: Opening,
    /// Writers come by it before they take any lock.
    gate: Gate,
    snapshots: Snapshots,
    counts: Counts,
    stripes: Stripes,
    /// The pool's file, where it is locked and not mapped. None once closed.
    lock: Mutex<Option<File>>,
    /// None once closed: the workers of the index and of the store must be gone before the pool is
    /// marked clean, and a thread that still has a tree of a closed store must not keep its file.
    live: ShardedLock<Option<Live<M, K>>>,
}

impl<M: Media, K: StoreKey> Attached<M, K> {
    /// Makes an empty index in a pool that was just laid out.
    pub(crate) fn create(
        pool: Arc<Pool<M>>,
        engine: Engine,
        parameters: &EngineParameters,
        transactions: Transactions,
        clock: Clock,
    ) -> Result<Self, Error> {
        let index = registry::create_for_store::<K, M>(&pool, engine, parameters, transactions)?;
        let live = Live::new(index, Arc::clone(&pool));
        let counts = Counts::knowing(Counted::default());
        Ok(Self::over(&pool, engine, live, counts, Shutdown::Clean, 0, clock))
    }

    /// Recovers the index, then what links it to values.
    pub(crate) fn open(
        pool: Arc<Pool<M>>,
        opened: &Opened,
        transactions: Transactions,
        clock: Clock,
    ) -> Result<Self, Error> {
        let opening = IndexOpening { transactions, ..IndexOpening::from(opened) };
        let (index, engine) = registry::open_index_with::<K, M>(&pool, opening)?;
        let live = Live::new(index, Arc::clone(&pool));
        let recovered_writes = live.resolve(opened)?;
        let counts = kept_counts::take(&pool)?.map_or_else(Counts::default, Counts::knowing);
        Ok(Self::over(&pool, engine, live, counts, opened.shutdown, recovered_writes, clock))
    }

    fn over(
        pool: &Pool<M>,
        engine: Engine,
        live: Live<M, K>,
        counts: Counts,
        shutdown: Shutdown,
        recovered_writes: u64,
        clock: Clock,
    ) -> Self {
        let medium = pool.media().region().medium();
        let opening = Opening {
            writable: true,
            medium,
            log: false,
            parameters: registry::parameters_of(pool.format()),
            contract: live.index.contract(),
            durability: Durability::None,
            mode: DurabilityMode::Process,
            shutdown,
            recovery: Duration::ZERO,
            recovered_writes,
            clock,
        };
        let (snapshots, lock) = (Snapshots::default(), Mutex::default());
        let stripes = Stripes::for_media::<M>();
        let live = ShardedLock::new(Some(live));
        let gate = Gate::default();
        Self { engine, opening, gate, snapshots, counts, stripes, lock, live }
    }

    /// Keeps a file open, and so locked, until the store is closed.
    pub(crate) fn keep_locked(&self, file: File) {
        *self.lock.lock() = Some(file);
    }

    /// Filled in by the options that create or open a store.
    pub(crate) fn opening_mut(&mut self) -> &mut Opening {
        &mut self.opening
    }

    /// Ends epochs from now on, where the engine has them and the store is written to.
    ///
    /// # Errors
    /// [`IndexError::Thread`](everleaf_index::IndexError::Thread).
    pub(crate) fn end_epochs(&self) -> Result<(), Error> {
        let DurabilityMode::Buffered { interval_ms } = self.opening.mode else { return Ok(()) };
        let mut live = self.live.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(live) = live.as_mut().filter(|_| self.opening.writable) {
            live.end_epochs_every(Duration::from_millis(interval_ms.into()))?;
        }
        Ok(())
    }

    fn read<R>(&self, operation: impl FnOnce(&Live<M, K>) -> Result<R, Error>) -> Result<R, Error> {
        // A panic under the lock, of a caller's closure say, leaves nothing half done: what was
        // left midway is known as interrupted.
        let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
        operation(live.as_ref().ok_or(Error::Closed)?)
    }

    /// No other operation is under way meanwhile.
    fn alone<R>(
        &self,
        operation: impl FnOnce(&Live<M, K>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let live = self.live.write().unwrap_or_else(PoisonError::into_inner);
        operation(live.as_ref().ok_or(Error::Closed)?)
    }

    fn writing<R>(
        &self,
        operation: impl FnOnce(&Live<M, K>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        if !self.opening.writable {
            return Err(Error::ReadOnly);
        }
        self.gate.pass();
        let (result, pending) = self.read(|live| {
            let result = operation(live);
            live.pool.media().end_operation();
            Ok((result, self.pending(live)))
        })?;
        let result = result?;
        wait(pending)?;
        Ok(result)
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
        self.opening.parameters
    }

    fn now_ms(&self) -> u64 {
        self.opening.clock.now_ms()
    }

    fn write(
        &self,
        life: &Life,
        key: Key<'_>,
        condition: Condition<'_>,
        new: Option<NewValue<'_>>,
    ) -> Result<Written, Error> {
        self.write_one(life, key, condition, new)
    }

    fn apply(&self, writes: &[Write]) -> Result<Vec<Written>, Error> {
        self.write_together(writes)
    }

    fn begin_reads(&self) -> Result<Reads, Error> {
        Attached::begin_reads(self)
    }

    fn read_into(&self, reads: &mut Reads, life: &Life, key: Key<'_>) -> Result<(), Error> {
        Attached::read_into(self, reads, life, key)
    }

    fn scan_into(
        &self,
        reads: &mut Reads,
        life: &Life,
        range: Bounds,
        end: Direction,
        limit: usize,
    ) -> Result<Option<Bounds>, Error> {
        Attached::scan_into(self, reads, life, range, end, limit)
    }

    fn run_alone(&self, patience: Duration) -> Option<Turn<'_>> {
        // Under the explorer, which schedules, no thread may block; nor need it: see the gate.
        (!M::SCHEDULED).then(|| self.gate.close(patience))
    }

    fn commit(&self, reads: &Reads, writes: &[Write]) -> Result<(), Error> {
        self.commit_reads(reads, writes)
    }

    fn get_with(
        &self,
        life: &Life,
        key: Key<'_>,
        show: &mut dyn FnMut(Found<'_>),
    ) -> Result<bool, Error> {
        self.read_one(life, key, show)
    }

    fn get_many(
        &self,
        life: &Life,
        keys: &[Key<'_>],
        show: &mut dyn FnMut(usize, Found<'_>),
    ) -> Result<(), Error> {
        self.read_many(life, keys, show)
    }

    fn keys_in(&self, life: &Life, space: Option<Space>) -> Result<u64, Error> {
        self.count_keys(life, space)
    }

    fn scan(
        &self,
        life: &Life,
        from: Bound<Key<'_>>,
        direction: Direction,
        expired: bool,
        visit: &mut Visit<'_>,
    ) -> Result<(), Error> {
        self.read_range(life, from, direction, expired, visit)
    }

    fn wait_for_others(&self) -> Result<(), Error> {
        self.alone(|_| Ok(()))
    }

    fn begin_snapshot(&self, limit_bytes: u64) -> Result<Arc<Images>, Error> {
        let (images, pending) = self.alone(|live| {
            let images = self.snapshots.begin(self.now_ms(), limit_bytes);
            Ok((images, self.pending_to_reader(live)))
        })?;
        if let Err(error) = wait(pending) {
            self.snapshots.end(&images);
            return Err(error);
        }
        Ok(images)
    }

    fn end_snapshot(&self, images: &Arc<Images>) {
        self.snapshots.end(images);
    }

    fn statistics(&self) -> Result<Statistics, Error> {
        let (index, space, memory) = self.read(|live| {
            let (media, index) = (live.pool.media(), live.index.statistics());
            let region = media.region();
            let memory = (media.flush_instruction(), region.caches_persist(), region.dax_hint());
            Ok((index, live.pool.space()?, memory))
        })?;
        let (flush, caches_persist, dax_hint) = memory;
        let IndexStatistics {
            keys: entries,
            height,
            leaves,
            inner_nodes,
            pm_bytes,
            dram_bytes,
            leaf_slots,
            inner_from,
            concurrency,
            conflicts,
            epochs,
            node_writes,
        } = index;
        Ok(Statistics {
            engine: self.engine,
            key_type: K::TYPE,
            entries,
            height,
            leaves,
            inner_nodes,
            fill: (leaves * leaf_slots > 0).then(|| entries as f64 / (leaves * leaf_slots) as f64),
            pm_bytes,
            dram_bytes,
            used_bytes: space.used_bytes,
            free_bytes: space.free_bytes,
            reserve_bytes: space.reserve_bytes,
            fragmentation: space.free_in_blocks_bytes as f64 / space.free_bytes.max(1) as f64,
            total_bytes: space.total_bytes,
            max_bytes: space.max_bytes,
            durability: self.opening.durability,
            durability_mode: self.opening.mode,
            medium: self.opening.medium,
            log: self.opening.log,
            flush,
            caches_persist,
            dax_hint,
            shutdown: self.opening.shutdown,
            inner_from,
            recovery_ms: self.opening.recovery.as_secs_f64() * 1e3,
            recovered_writes: self.opening.recovered_writes,
            concurrency,
            conflicts,
            epochs,
            node_writes,
        })
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            durability: self.opening.durability,
            durability_mode: self.opening.mode,
            contract: self.opening.contract,
            concurrent_writers: self.engine.is_concurrent(),
            writable: self.opening.writable,
        }
    }

    fn check(&self, watch: &mut Watch<'_>) -> Result<CheckOutcome, Error> {
        // Alone: a write that is under way holds blocks that nothing leads to yet.
        self.alone(|live| {
            // The table of chunks tells of what an epoch did when it has ended.
            if self.opening.writable {
                live.index.sync()?;
            }
            let now_ms = self.now_ms();
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

    fn sync(&self) -> Result<(), Error> {
        self.read(|live| {
            if !self.opening.writable {
                return Ok(());
            }
            live.index.sync()?;
            Ok(live.pool.sync()?)
        })
    }

    fn close(&self) -> Result<(), Error> {
        let _lock = self.lock.lock().take();
        let Some(live) = self.live.write().unwrap_or_else(PoisonError::into_inner).take() else {
            return Ok(());
        };
        if live.is_interrupted() {
            // The pool stays marked as open, so that opening it recovers.
            return Err(Error::Interrupted);
        }
        if !self.opening.writable {
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
