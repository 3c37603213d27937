//! A tree of byte strings by itself: it has its own records, each of a key and its value, as a
//! store has them for its own.
//!
//! A change exchanges one record for another, one change at a time. Which two it is about stands in
//! one line of the pool before the entry changes, so that recovery frees the one that no entry
//! leads to.
//!
//! ```text
//! insert   K1  the new record, to `new`: the pool's exchange
//!          K2  the entry, which leads to it   COMMIT
//!          K3  `new` := null; no flush
//! update   K1; O1  `old` := the record that the entry leads to; flush, fence
//!          K2; K3; O2  the old record is freed: the pool's exchange
//! remove   O1; the entry goes   COMMIT; O2
//! ```
//! If K3 is lost, the entry leads to the record, and recovery has nothing to do. When the entry
//! changes again K3 is durable: O1 flushes the same line, and the record goes after that.
//!
//! Flushes and fences: those of the entry, of the pool's exchanges, and 1 of each for O1.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use everleaf_index::{
    CheckReport, Contract, Direction, Index, IndexError, IndexStatistics, Result, Start, Visitor,
};
use everleaf_pmem::{Media, PCell, PPtr, WORD, site};
use everleaf_pool::{Audit, EntryHead, Pool, PoolError, Record, Seal, Workers};

use super::layout::OwnLog;
use super::{LineTree, WORKERS};
use everleaf_tree::key::TreeKey;
use everleaf_tree::operations::ended;
use everleaf_tree::statistics::pm_bytes;
use everleaf_tree::version_locks::{LockGuard, VersionLocks};
use everleaf_tree::wait::wait;

/// A line tree that has the records of its entries.
pub(super) struct OwnRecords<K: TreeKey, M: Media, const LINES: usize> {
    tree: LineTree<K, M, LINES>,
    /// Others than the tree's: a thread that has one of these may wait for one of those.
    workers: Workers<M>,
    /// One lock: what a change is about stands in one line.
    writers: VersionLocks,
}

impl<K: TreeKey, M: Media, const LINES: usize> OwnRecords<K, M, LINES> {
    /// Ends what a crash has cut.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`] or [`IndexError::Pool`] if damage is met.
    pub fn over(tree: LineTree<K, M, LINES>) -> Result<Self> {
        let workers = Workers::new(Arc::clone(&tree.pool), WORKERS);
        let writers = VersionLocks::new(1).map_err(PoolError::Map)?;
        let own = Self { tree, workers, writers };
        let log = own.log()?;
        own.settle(&log.new)?;
        own.settle(&log.old)?;
        Ok(own)
    }

    /// Frees a record of a cut change if no entry leads to it.
    fn settle(&self, cell: &PCell<PPtr<Record>>) -> Result<()> {
        let (pool, record) = (self.pool(), self.pool().media().load(cell));
        if record.is_null() {
            return Ok(());
        }
        let key = pool.copy_key_unverified(record)?;
        if self.tree.find(K::of(0, &key))? != Some(record.offset()) {
            return Ok(self.workers.lease()?.free_from(cell)?);
        }
        pool.media().store(cell, PPtr::NULL); // As K3.
        Ok(())
    }

    fn pool(&self) -> &Arc<Pool<M>> {
        &self.tree.pool
    }

    fn log(&self) -> Result<&OwnLog> {
        Ok(self.pool().index_root::<OwnLog>()?)
    }

    /// Keeps other threads from changing anything.
    fn lock(&self) -> LockGuard<'_> {
        self.writers.lock(&wait(self.pool().media()), 0)
    }

    /// The value in a record.
    fn value(&self, record: u64) -> Result<u64> {
        let records = self.pool().pin();
        let what = "the record of an entry has no value of one word";
        let content = records.record(PPtr::at(record))?;
        let value =
            content.last_chunk::<WORD>().ok_or(IndexError::Corrupt { offset: record, what });
        Ok(u64::from_le_bytes(*value?))
    }

    /// Makes the value of a key another one, or none; the old one. The caller has the lock.
    fn exchange(
        &self,
        key: K::Ref<'_>,
        old: Option<u64>,
        value: Option<u64>,
    ) -> Result<Option<u64>> {
        let old_value = old.map(|old| self.value(old)).transpose()?;
        let media = self.pool().media();
        let mut worker = self.workers.lease()?;
        let log = self.log()?;
        if let Some(value) = value {
            // K1: the record that comes. Crash: no entry leads to it.
            let (bytes, value) = (K::rest(key, 0), value.to_le_bytes());
            let head = EntryHead::of(bytes.len(), false).to_bytes();
            worker.alloc_entry_into(&log.new, &[&head, bytes, &value])?;
        }
        if let Some(old) = old {
            // O1: the record that goes. Crash: the entry leads to it.
            media.store(&log.old, PPtr::at(old));
            media.flush(site!("linetree.own.O1.old"), &log.old);
            media.fence(site!("linetree.own.O1.fence"));
        }
        // K2 COMMIT: the entry. Crash: it leads to one of the two, and not to the other.
        let new = media.load(&log.new);
        let done = match (old, new.is_null()) {
            (Some(_), false) => self.tree.update(key, new.offset()).map(drop),
            (None, false) => self.tree.insert(key, new.offset()).map(drop),
            (_, true) => self.tree.remove(key).map(drop),
        };
        if let Err(refused) = done {
            if !new.is_null() {
                worker.free_from(&log.new)?; // The pool is full.
            }
            drop(worker);
            self.settle(&log.old)?;
            return Err(refused);
        }
        // K3: not flushed. Crash: the entry leads to it.
        media.store(&log.new, PPtr::NULL);
        // O2: no entry leads to it. Crash: done by recovery.
        worker.free_from(&log.old)?;
        Ok(old_value)
    }
}

impl<K: TreeKey, M: Media, const LINES: usize> Index<K> for OwnRecords<K, M, LINES> {
    #[inline]
    fn get(&self, key: K::Ref<'_>) -> Result<Option<u64>> {
        let _records = self.pool().pin(); // What is found is not used again meanwhile.
        let found = self.tree.find(key)?.map(|record| self.value(record)).transpose()?;
        Ok(ended(found, self.pool().media()))
    }

    fn get_many(&self, keys: &[K::Ref<'_>], values: &mut [Option<u64>]) -> Result<()> {
        let _records = self.pool().pin();
        self.tree.get_many(keys, values)?;
        values.iter_mut().flatten().try_for_each(|value| {
            *value = self.value(*value)?;
            Ok(())
        })
    }

    #[inline]
    fn insert(&self, key: K::Ref<'_>, value: u64) -> Result<bool> {
        K::admit(key)?;
        let _alone = self.lock();
        if self.tree.find(key)?.is_some() {
            return Ok(ended(false, self.pool().media()));
        }
        ended(self.exchange(key, None, Some(value)), self.pool().media()).map(|_| true)
    }

    #[inline]
    fn update(&self, key: K::Ref<'_>, value: u64) -> Result<Option<u64>> {
        let _alone = self.lock();
        let Some(found) = self.tree.find(key)? else { return Ok(ended(None, self.pool().media())) };
        ended(self.exchange(key, Some(found), Some(value)), self.pool().media())
    }

    #[inline]
    fn upsert(&self, key: K::Ref<'_>, value: u64) -> Result<Option<u64>> {
        K::admit(key)?;
        let _alone = self.lock();
        let found = self.tree.find(key)?;
        ended(self.exchange(key, found, Some(value)), self.pool().media())
    }

    #[inline]
    fn remove(&self, key: K::Ref<'_>) -> Result<Option<u64>> {
        let _alone = self.lock();
        let Some(found) = self.tree.find(key)? else { return Ok(ended(None, self.pool().media())) };
        ended(self.exchange(key, Some(found), None), self.pool().media())
    }

    fn scan(&self, from: Start<'_, K>, direction: Direction, visit: Visitor<'_, K>) -> Result<()> {
        let mut read = Ok(());
        self.tree.scan(from, direction, &mut |key, record| match self.value(record[0]) {
            Ok(value) => visit(key, &[value]),
            Err(error) => {
                read = Err(error);
                ControlFlow::Break(())
            }
        })?;
        read
    }

    fn len(&self) -> u64 {
        self.tree.keys()
    }

    fn statistics(&self) -> IndexStatistics {
        let statistics = self.tree.statistics();
        let pm_bytes = pm_bytes::<K, M>(self.pool(), statistics.pm_bytes);
        IndexStatistics { pm_bytes, ..statistics }
    }

    /// No other operation may run meanwhile.
    fn check(&self, audit: &mut Audit) -> Result<CheckReport> {
        let mut report = self.tree.check_all(audit)?;
        let media = self.pool().media();
        let log = self.log()?;
        if [&log.new, &log.old].iter().any(|cell| !media.load(*cell).is_null()) {
            report.violations.push("I9: a change of an entry's record is not ended".into());
        }
        let mut reach = |key: K::Ref<'_>, record: &[u64]| {
            audit.reach(record[0]);
            if let Err(error) = self.value(record[0]) {
                report.violations.push(format!("I2: the value of {key:?}: {error}"));
            }
            ControlFlow::Continue(())
        };
        if let Err(error) = self.tree.scan(Bound::Unbounded, Direction::Forward, &mut reach) {
            report.violations.push(format!("I2: {error}"));
        }
        Ok(report)
    }

    fn contract(&self) -> Contract {
        Contract::Strict
    }

    fn close(&self) -> Result<Option<Seal>> {
        self.tree.store_image()
    }
}
