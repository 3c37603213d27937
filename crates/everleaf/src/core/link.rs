//! Writing: how a value record is attached to the index, detached from it, and what recovery makes
//! of a cut.
//!
//! A value is a record of the pool, the index maps its key to the record's offset. One write
//! exchanges `old` (the record that the index holds, or null) for `new` (a new record, or null for
//! a removal):
//!
//! ```text
//! P1         the worker's intent {old, new} and the new record are durable     begin_link
//! P2 COMMIT  the index holds new instead of old, durably  the engine's own sequence
//! P3         old is freed, the intent is cleared                               end_link
//! ```
//!
//! A crash before P1 leaves nothing. From then on the pool hands the intent over when it is opened,
//! and the index decides: if it holds `new`, the crash came after P2 and `old` is freed; if not, it
//! came before and `new` is freed.
//!
//! Several threads write at a time. The writer of a key holds the key's lock (one of a fixed
//! number, chosen by a hash) alone from before P1 until after P3, and the intent is durably cleared
//! by then. A reader takes no lock: it pins the records before it asks the index, so the memory of
//! what it finds is not used again, and it looks afterwards whether a batch has the key in part.
//!
//! With an engine that takes part in it ([`Index::link`]) there is no intent, and two fences are
//! enough: `link/doubt.rs`. The others, and records of whole chunks, go the way above.
//!
//! A batch is several such links with one commit point: `link/batch.rs`. On an engine that is
//! durable at the ends of epochs there are no intents: `link/epochs.rs`.
//!
//! A write that fails midway (the pool is full, or damage is met) is settled in the same way at
//! once. If even that fails, or if it panics, no more is written and the pool is left marked as not
//! closed: opening it recovers. What makes a full pool no fuller is not refused: `link/reserve.rs`.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use everleaf_index::{Contract, Direction, EpochTimer, Index, Links};
use everleaf_pmem::{Media, PPtr, planted};
use everleaf_pool::{Opened, PendingLink, Pool, PoolError, Record, RecordGuard, Workers};
use parking_lot::RwLock;

use self::epochs::EpochRecords;
use crate::core::value::TimedValue;
use crate::core::value_record::{Front, KeyBytes, ValueRecord, key_of_bytes};
use crate::{Error, StoreKey};

pub(crate) use self::batch::Change;
pub(crate) use self::locks::Held;
use self::locks::{KeyLock, key_locks};
use self::reserve::Room;

/// Workers that a store uses at a time: half of the pool's, the others are for its index.
const POOLED_WORKERS: usize = 32;

/// What the threads of an open store share.
pub(crate) struct OpenStore<M: Media, K: StoreKey> {
    /// Ends epochs; it goes before the index does.
    timer: Option<EpochTimer>,
    pub(crate) index: Arc<dyn Index<K>>,
    /// Where the index is durable at the ends of epochs: the records, which end with it.
    epochs: Option<Arc<EpochRecords<M>>>,
    /// The changes in which the index takes part.
    links: Links,
    pub(crate) pool: Arc<Pool<M>>,
    workers: Workers<M>,
    key_locks: Box<[KeyLock]>,
    /// Held by a batch while it changes the index, shared by scans.
    batches: RwLock<()>,
    /// A write was left midway.
    interrupted: Arc<AtomicBool>,
}

impl<M: Media, K: StoreKey> OpenStore<M, K> {
    pub(crate) fn new(mut index: Box<dyn Index<K>>, pool: Arc<Pool<M>>) -> Self {
        let workers = Workers::new(Arc::clone(&pool), POOLED_WORKERS);
        let (key_locks, batches, interrupted) = (key_locks(), RwLock::new(()), Arc::default());
        let epochs = (index.contract() == Contract::Buffered).then(|| {
            let records = EpochRecords::new(&pool, &interrupted);
            index.join_epochs(Arc::clone(&records) as _);
            records
        });
        let links = index.links();
        let (timer, index) = (None, Arc::from(index));
        Self { timer, index, links, epochs, pool, workers, key_locks, batches, interrupted }
    }

    /// Whether a write was left midway, so that only opening the pool again can settle it.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Acquire)
    }

    /// As a write that is left midway.
    #[cfg(test)]
    pub(crate) fn interrupt(&self) {
        drop(InterruptOnDrop(&self.interrupted));
    }

    /// Completes or undoes the writes that a crash cut; how many these were.
    pub(crate) fn resolve(&self, opened: &Opened) -> Result<u64, Error> {
        Ok(self.resolve_writes(opened)? + self.resolve_doubts(&opened.doubts)?)
    }

    /// The same but for the doubts, which come next.
    pub(crate) fn resolve_writes(&self, opened: &Opened) -> Result<u64, Error> {
        for link in &opened.pending_links {
            let linked = is_linked(&self.pool, &*self.index, *link)?;
            self.workers.lease()?.resolve_link(*link, linked)?;
        }
        opened.pending_batches.iter().try_for_each(|batch| self.resolve_batch(batch))?;
        Ok((opened.pending_links.len() + opened.pending_batches.len()) as u64)
    }

    /// The record that the index holds for `key`, if there is one. Only a record of this very key
    /// is ever given, since it may be freed next. The caller has the key's lock.
    pub(crate) fn linked(&self, key: K::Ref<'_>) -> Result<Option<Linked>, Error> {
        let records = self.pool.pin();
        let Some(offset) = self.index.get(key)? else { return Ok(None) };
        let bytes = KeyBytes::of(K::widen(key));
        match linked_record(&records, PPtr::at(offset), bytes.as_slice())? {
            Some(linked) => Ok(Some(linked)),
            None => Err(foreign_record(offset)),
        }
    }

    /// The workers that no thread has give up the chunks that they allocate from; what an epoch has
    /// retired is free before.
    pub(crate) fn give_up_chunks(&self) -> Result<(), Error> {
        self.workers.give_up_chunks()?;
        if let Some(records) = &self.epochs
            && !self.is_interrupted()
        {
            self.index.sync()?;
            records.give_up_chunks();
        }
        Ok(())
    }

    /// Lets this thread read records.
    #[inline]
    pub(crate) fn pin_records(&self) -> RecordGuard<'_, M> {
        self.pool.pin()
    }

    /// Where the records of keys are; they are prefetched.
    pub(crate) fn find_many(
        &self,
        keys: &[K::Ref<'_>],
        offsets: &mut [Option<u64>],
    ) -> Result<(), Error> {
        self.index.get_many(keys, offsets)?;
        offsets.iter().flatten().for_each(|offset| self.pool.prefetch_record(PPtr::at(*offset)));
        Ok(())
    }

    /// Links a new record in place of `old`. The caller has the key's lock.
    pub(crate) fn replace(
        &self,
        key: K::Ref<'_>,
        old: PPtr<Record>,
        new: TimedValue<'_>,
    ) -> Result<(), Error> {
        with_parts::<K, _>(key, new, |parts| self.exchange(key, old, Some(parts)))
    }

    /// Removes `key` and frees its record `old`. The caller has the key's lock.
    pub(crate) fn remove(&self, key: K::Ref<'_>, old: PPtr<Record>) -> Result<(), Error> {
        self.exchange(key, old, None)
    }

    fn exchange_in(
        &self,
        key: K::Ref<'_>,
        old: PPtr<Record>,
        parts: Option<&[&[u8]]>,
        room: Room<'_, M>,
    ) -> Result<(), Error> {
        if let Some(records) = &self.epochs {
            return self.exchange_in_epoch(records, key, old, parts, room);
        }
        if self.is_interrupted() {
            return Err(Error::Interrupted);
        }
        let mut worker = self.workers.lease()?;
        if matches!(room, Room::Pool)
            && self.links.include(!old.is_null(), parts.is_some())
            && let Some(new) = worker.begin_doubt(old, parts)?
        {
            return self.exchange_in_doubt(worker, key, old, new);
        }
        // P1: intent and new record. Crash before: nothing happened. After: the intent is resolved
        // by `resolve`.
        let new = match (room, parts) {
            (Room::Place(place), Some(parts)) => worker.begin_return(old, parts, place)?,
            _ => worker.begin_link(old, parts)?,
        };
        let unsettled = InterruptOnDrop(&self.interrupted);
        // P2 COMMIT: the index.
        let changed = if new.is_null() {
            self.index.remove(key)
        } else {
            self.index.upsert(key, new.offset())
        };
        let linked = changed.is_ok() || holds(&*self.index, key, old, new)?;
        // P3: old is freed, or new if the index refused. Crash: the intent is still there and is
        // resolved in the same way.
        worker.end_link(linked || planted(307))?;
        std::mem::forget(unsettled);
        changed?;
        Ok(())
    }
}

/// Calls `work` with the parts of a value's record.
fn with_parts<K: StoreKey, R>(
    key: K::Ref<'_>,
    new: TimedValue<'_>,
    work: impl FnOnce(&[&[u8]]) -> R,
) -> R {
    let bytes = KeyBytes::of(K::widen(key));
    work(&[Front::of(&bytes, new).as_slice(), bytes.as_slice(), new.value])
}

/// A record that the index holds.
#[derive(Clone, Copy)]
pub(crate) struct Linked {
    pub(crate) record: PPtr<Record>,
    pub(crate) expires_ms: Option<u64>,
}

/// The record to which an entry leads; none if it is not of the entry's key.
fn linked_record<M: Media>(
    records: &RecordGuard<'_, M>,
    record: PPtr<Record>,
    key: &[u8],
) -> Result<Option<Linked>, PoolError> {
    let found = ValueRecord::parse(records.record_unverified(record)?);
    let found = found.filter(|found| found.key == key);
    Ok(found.map(|found| Linked { record, expires_ms: found.expires_ms }))
}

/// A write that has begun. Dropped, by an error or a panic, it leaves the store interrupted.
struct InterruptOnDrop<'l>(&'l AtomicBool);

impl Drop for InterruptOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Whether the index is past the commit of an exchange of `old` for `new`.
fn holds<K: StoreKey>(
    index: &dyn Index<K>,
    key: K::Ref<'_>,
    old: PPtr<Record>,
    new: PPtr<Record>,
) -> Result<bool, Error> {
    let found = index.get(key)?;
    let is_gone = found != Some(old.offset()) || planted(306);
    Ok(if new.is_null() { is_gone } else { found == Some(new.offset()) })
}

/// The same of a link that a crash cut: the records themselves say whose they are.
///
/// `old` is asked first, which is whole in every state; `new` may be torn, since the crash may have
/// come while it was written. Where neither can be read the whole index is searched for the link;
/// only a crash within the few instructions before P1, or damage, makes that necessary.
fn is_linked<M: Media, K: StoreKey>(
    pool: &Pool<M>,
    index: &dyn Index<K>,
    link: PendingLink,
) -> Result<bool, Error> {
    for record in [link.old, link.new] {
        let records = pool.pin();
        let content = if record.is_null() { None } else { records.record(record).ok() };
        let key =
            content.and_then(ValueRecord::parse).and_then(|found| key_of_bytes(found.key, K::TYPE));
        if let Some(key) = key {
            let linked = holds(index, K::narrow(key)?, link.old, link.new)?;
            return Ok(linked || planted(305));
        }
    }
    let sought = if link.new.is_null() { link.old } else { link.new };
    let mut found = false;
    index.scan(Bound::Unbounded, Direction::Forward, &mut |_, words| {
        found = words.first() == Some(&sought.offset());
        if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(found != link.new.is_null())
}

/// What the record at `offset` says, which must be of the key whose bytes are given.
pub(crate) fn value_record<'g, M: Media>(
    records: &'g RecordGuard<'_, M>,
    offset: u64,
    key: &KeyBytes<'_>,
) -> Result<ValueRecord<'g>, Error> {
    // The key that a scan shows may be the record's own.
    let is_key = |found: &[u8]| std::ptr::eq(found, key.as_slice()) || found == key.as_slice();
    match ValueRecord::parse(records.record(PPtr::at(offset))?) {
        Some(found) if is_key(found.key) => Ok(found),
        _ => Err(foreign_record(offset)),
    }
}

/// The error of an index word that leads to no record, or to another key's.
pub(crate) const fn foreign_record(offset: u64) -> Error {
    Error::corrupt(offset, "the record there belongs to another key")
}

mod batch;
mod doubt;
mod epochs;
mod locks;
mod reserve;
#[cfg(test)]
mod tests;
