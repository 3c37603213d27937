//! Writing on an engine that is durable at the ends of epochs: no step of it flushes or fences, but
//! where the index copies a node to its log.
//!
//! ```text
//! P1  under a guard of the epoch: room in the worker's log, the new record   reserve, alloc_record
//! P2  the index holds new instead of old                                     the engine's own
//! P3  old is retired; the guard goes                                         retire
//!     Crash so far: the epoch has failed. The index, the records and the table of chunks are
//!     what they were when the last epoch ended.
//!     Before the end the index has records flushed that were written            write_back
//! P4  the index ends the epoch: the workers' part is written and flushed     prepare
//! P5  COMMIT the pool's epoch                                                the index
//!     Crash from here on: the epoch has ended. What the table lacks is done again by recovery.
//! P6  the table tells of new and old                                         finish
//! ```
//!
//! # With a log beside the pool
//! There a fence only orders, and P5 is durable when the log is committed: by `sync`, and by the
//! thread that ends epochs, each right after P6 and with no lock in its hands. What a power failure
//! leaves is a prefix of the stream of flushes, an image that persistent memory could have held
//! as well. So the index and the pool need nothing of their own for it:
//! ```text
//! L1  P4 is captured, then P5, in one group of the log or in several, in this order
//!     Crash: the epoch has failed, whatever part of P4 is in the log, or in the file of the pool
//!     by a checkpoint: what undoes a line stands in it, or was captured before it.
//! L2  COMMIT the group with P5 is synced                                      wait_durable
//!     Crash: recovery of the log brings P5 back, and with it all of P4; recovery of the epochs
//!     follows, over memory, and the log takes its flushes as all others.
//! ```
//! Between P5 and L2 the next epoch runs, and may use again what this one has retired: its stores
//! are captured behind P5. If the sync fails nothing more is captured, and every `sync` and every
//! write is refused from then on.
//!
//! All changes of a batch are made under one guard, so they are of one epoch, and need no log of
//! their own. A write that is refused is undone in DRAM and in the index: the record that was
//! allocated is retired, entries that the index has taken are restored. Where the pool is full,
//! what was retired in this epoch may be enough: the epoch is ended once, and the write begins
//! again.
//!
//! A write that was left midway is in an epoch that must never end: from then on none does, and
//! opening the pool goes back to the end of the last one.
//!
//! A guard is taken after all locks under which code of the caller may run (of keys, and of scans),
//! so nothing that a caller does keeps an epoch from ending.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use everleaf_index::{EpochPart, EpochTimer, IndexError};
use everleaf_pmem::{LINE, Media, PPtr, planted};
use everleaf_pool::{EpochWorker, Pool, Record, slot_of_thread};
use parking_lot::{Mutex, MutexGuard};

use super::batch::{Link, settle};
use super::reserve::Room;
use super::{Change, InterruptOnDrop, OpenStore, POOLED_WORKERS, holds, with_parts};
use crate::{Error, StoreKey};

/// A place for a worker, on lines of its own.
type Slot<M> = CachePadded<Mutex<Option<EpochWorker<M>>>>;

/// The records of a store whose index is durable at the ends of epochs: they end with it.
pub(super) struct EpochRecords<M: Media> {
    pool: Arc<Pool<M>>,
    /// Workers, made when they are first needed.
    workers: Box<[Slot<M>]>,
    /// A write was left midway: its epoch must not end.
    interrupted: Arc<AtomicBool>,
    /// Something was written since this was last taken.
    written: AtomicBool,
    /// Records that the end of the epoch has taken and not yet flushed.
    taken: Mutex<Vec<(u64, u64)>>,
}

impl<M: Media> EpochRecords<M> {
    pub fn new(pool: &Arc<Pool<M>>, interrupted: &Arc<AtomicBool>) -> Arc<Self> {
        Arc::new(Self {
            pool: Arc::clone(pool),
            workers: (0..POOLED_WORKERS).map(|_| CachePadded::new(Mutex::new(None))).collect(),
            interrupted: Arc::clone(interrupted),
            written: AtomicBool::new(false),
            taken: Mutex::default(),
        })
    }

    /// Calls `work` with a worker that no other thread uses. The caller holds a guard of the epoch.
    fn with_worker<R>(
        &self,
        work: impl FnOnce(&mut EpochWorker<M>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        if !self.written.load(Ordering::Relaxed) {
            self.written.store(true, Ordering::Relaxed);
        }
        let mut slot = self.free_slot();
        match &mut *slot {
            Some(worker) => work(worker),
            empty => work(empty.insert(EpochWorker::new(self.pool.worker()?)?)),
        }
    }

    /// A slot that no other thread has. Those who have them wait for nothing that waits for this.
    fn free_slot(&self) -> MutexGuard<'_, Option<EpochWorker<M>>> {
        let first = slot_of_thread(self.pool.media(), self.workers.len());
        loop {
            for at in 0..self.workers.len() {
                if let Some(slot) = self.workers[(first + at) % self.workers.len()].try_lock() {
                    return slot;
                }
            }
            self.pool.media().relax();
            std::thread::yield_now();
        }
    }

    /// Calls `step` with each worker. No other thread has one: the epoch is ending.
    fn each_worker(
        &self,
        step: impl Fn(&mut EpochWorker<M>) -> Result<(), everleaf_pool::PoolError>,
    ) -> Result<(), IndexError> {
        for slot in &self.workers {
            if let Some(worker) = &mut *slot.lock() {
                step(worker)?;
            }
        }
        Ok(())
    }

    /// As [`OpenStore::give_up_chunks`].
    pub fn give_up_chunks(&self) {
        for slot in &self.workers {
            if let Some(worker) = slot.try_lock().as_mut().and_then(|slot| slot.as_mut()) {
                // A damaged table is reported by the next operation or check.
                let _ = worker.give_up_chunks();
            }
        }
    }

    /// Waits until the epoch that has ended is durable; whether it is.
    fn commit(&self) -> bool {
        let media = self.pool.media();
        media.wait_durable(media.durable_point()).is_ok()
    }

    /// Whether something was written since the last call.
    fn was_written(&self) -> bool {
        self.written.load(Ordering::Relaxed) && self.written.swap(false, Ordering::Relaxed)
    }
}

impl<M: Media> EpochPart for EpochRecords<M> {
    fn take_written(&self) -> usize {
        let mut taken = self.taken.lock();
        for slot in &self.workers {
            // Who has a worker may wait for this to return, before the index lets it in.
            if let Some(worker) = slot.try_lock().as_mut().and_then(|slot| slot.as_mut()) {
                taken.append(&mut worker.take_written());
            }
        }
        taken.iter().map(|(_, bytes)| bytes.div_ceil(LINE as u64) as usize).sum()
    }

    fn write_back(&self) {
        EpochWorker::write_back(self.pool.media(), &std::mem::take(&mut *self.taken.lock()));
    }

    fn prepare(&self, epoch: u64) -> Result<(), IndexError> {
        if self.interrupted.load(Ordering::Acquire) {
            return Err(IndexError::EpochNotEnded);
        }
        self.each_worker(|worker| worker.prepare(epoch))
    }

    fn finish(&self) -> Result<(), IndexError> {
        self.each_worker(EpochWorker::finish)
    }
}

impl<M: Media, K: StoreKey> OpenStore<M, K> {
    /// Ends an epoch once in an interval, if anything was written in it, and commits it where a log
    /// makes it durable: P5 and what it needs are in one group, or in several in their order. Once
    /// that has failed no epoch is ended here any more. Not where runs must repeat: there `sync`
    /// ends epochs.
    ///
    /// # Errors
    /// [`IndexError::Thread`].
    pub(crate) fn end_epochs_every(&mut self, interval: Duration) -> Result<(), IndexError> {
        let repeatable = self.pool.media().is_repeatable();
        let Some(records) = self.epochs.as_ref().filter(|_| !repeatable) else {
            return Ok(());
        };
        let (records, index) = (Arc::clone(records), Arc::clone(&self.index));
        let end = move || !records.was_written() || index.sync().is_ok() && records.commit();
        self.timer = Some(EpochTimer::start(interval, end)?);
        Ok(())
    }

    /// Links a new record of `parts`, or nothing, in place of `old`.
    pub(super) fn exchange_in_epoch(
        &self,
        records: &EpochRecords<M>,
        key: K::Ref<'_>,
        old: PPtr<Record>,
        parts: Option<&[&[u8]]>,
        room: Room<'_, M>,
    ) -> Result<(), Error> {
        self.within_epoch(records, 1, |worker| {
            // P1. From here on no retirement is refused.
            worker.reserve(2)?;
            let new = match (parts, room) {
                (None, _) => PPtr::NULL,
                (Some(parts), Room::Place(place)) => worker.alloc_record_at(parts, place)?,
                (Some(parts), _) => worker.alloc_record(parts)?,
            };
            let unsettled = InterruptOnDrop(&self.interrupted);
            // P2.
            let changed = if new.is_null() {
                self.index.remove(key)
            } else {
                self.index.upsert(key, new.offset())
            };
            let linked = changed.is_ok() || holds(&*self.index, key, old, new)?;
            // P3: old is retired, or new if the index refused.
            let unlinked = if linked { old } else { new };
            if !unlinked.is_null() && !planted(335) {
                worker.retire(unlinked)?;
            }
            std::mem::forget(unsettled);
            changed?;
            Ok(())
        })
    }

    /// Does all changes of a batch or none. The caller has the locks of the keys.
    pub(super) fn exchange_all_in_epoch(
        &self,
        records: &EpochRecords<M>,
        changes: &[Change<'_, K>],
    ) -> Result<(), Error> {
        // Visitors of scans are waited for before an epoch is pinned: it would wait with them.
        let _scans_wait = self.lock_scans_out();
        self.within_epoch(records, changes.len(), |worker| {
            // P1. What is refused so far has changed nothing.
            worker.reserve(2 * changes.len())?;
            let unsettled = InterruptOnDrop(&self.interrupted);
            let mut links = Vec::with_capacity(changes.len());
            let staged = changes.iter().try_for_each(|change| {
                links.push(stage(worker, change)?);
                Ok::<(), Error>(())
            });
            // P2.
            let done = match staged {
                Ok(()) => settle(&*self.index, &links)?,
                refused => refused,
            };
            // P3.
            for link in &links {
                let unlinked = if done.is_ok() || planted(336) { link.old } else { link.new };
                if !unlinked.is_null() {
                    worker.retire(unlinked)?;
                }
            }
            std::mem::forget(unsettled);
            done
        })
    }

    /// After a write that has drawn on the reserve: ends the epoch, so that what it has retired is
    /// free, and gives the workers' logs back.
    pub(super) fn end_drawing_epoch(&self) -> Result<(), Error> {
        let Some(records) = &self.epochs else { return Ok(()) };
        self.index.sync()?;
        Ok(records.each_worker(EpochWorker::release_spare_log)?)
    }

    /// Does `work`, which changes so many keys, within one epoch. Should the pool be full, the
    /// epoch is ended, so that what it has retired can be used, and `work` is done again.
    fn within_epoch(
        &self,
        records: &EpochRecords<M>,
        changes: usize,
        mut work: impl FnMut(&mut EpochWorker<M>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut relieved = false;
        loop {
            if self.is_interrupted() {
                return Err(Error::Interrupted);
            }
            let done = match self.index.pin(changes) {
                Ok(_guard) => records.with_worker(&mut work),
                Err(error) => Err(error.into()),
            };
            match done {
                Err(error) if error.is_full() && !relieved && !self.is_interrupted() => {
                    relieved = true;
                    self.index.sync()?;
                }
                done => return done,
            }
        }
    }
}

/// The new record of a change.
fn stage<'c, M: Media, K: StoreKey>(
    worker: &mut EpochWorker<M>,
    change: &Change<'c, K>,
) -> Result<Link<K::Ref<'c>>, Error> {
    let Change { key, old, new } = change;
    let new = new.map_or(Ok(PPtr::NULL), |new| {
        with_parts::<K, _>(*key, new, |parts| worker.alloc_record(parts))
    })?;
    Ok(Link { key: *key, old: *old, new })
}
