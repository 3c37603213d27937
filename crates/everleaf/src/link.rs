//! Writing: how a value record is attached to the index, detached from it, and what recovery makes of a cut.
//!
//! A value is a record of the pool, the index maps its key to the record's offset. One write exchanges `old` (the record that the
//! index holds, or null) for `new` (a new record, or null for a removal):
//!
//! ```text
//! P1         the worker's intent {old, new} and the new record are durable     begin_link
//! P2 COMMIT  the index holds new instead of old, durably                       the engine's own sequence
//! P3         old is freed, the intent is cleared                               end_link
//! ```
//!
//! A crash before P1 leaves nothing. From then on the pool hands the intent over when it is opened, and the index decides: if it holds
//! `new`, the crash came after P2 and `old` is freed; if not, it came before and `new` is freed. Readers see `new` from P2
//! on only, since the writer has the store's lock for itself from P1 to P3.
//!
//! A write that fails midway (the pool is full, or damage is met) is settled in the same way at once. If even that fails, or if it
//! panics, no more is written and the pool is left marked as not closed: opening it recovers.

use std::ops::{Bound, ControlFlow};

use everleaf_index::{Direction, Index};
use everleaf_pmem::{Media, PPtr};
use everleaf_pool::{PendingLink, Pool, Record, Worker};

use crate::value_record::{KeyBytes, ValueRecord, key_of_bytes};
use crate::{Error, StoreKey};

/// The parts of a store that a writer needs for itself.
pub(crate) struct Live<M: Media, K: StoreKey> {
    pub(crate) index: Box<dyn Index<K>>,
    worker: Worker<M>,
    /// A write is under way, or was left midway.
    pub(crate) interrupted: bool,
}

impl<M: Media, K: StoreKey> Live<M, K> {
    pub(crate) fn new(index: Box<dyn Index<K>>, worker: Worker<M>) -> Self {
        Self { index, worker, interrupted: false }
    }

    /// Completes or undoes the writes that a crash cut.
    pub(crate) fn resolve(&mut self, pending: &[PendingLink]) -> Result<(), Error> {
        for link in pending {
            let linked = is_linked(self.worker.pool(), &*self.index, *link)?;
            self.worker.resolve_link(*link, linked)?;
        }
        Ok(())
    }

    /// The record that the index holds for `key`, null if there is none. Only a record of this very key is ever given, since it
    /// may be freed next.
    pub(crate) fn linked_record(&self, key: K::Ref<'_>) -> Result<PPtr<Record>, Error> {
        let Some(offset) = self.index.get(key)? else { return Ok(PPtr::NULL) };
        let record = self.worker.pool().record_unverified(PPtr::at(offset))?;
        let bytes = KeyBytes::of(K::widen(key));
        match ValueRecord::parse(record) {
            Some(found) if found.key == bytes.as_slice() => Ok(PPtr::at(offset)),
            _ => Err(foreign_record(offset)),
        }
    }

    /// Links a new record with `value` in place of `old`.
    pub(crate) fn replace(&mut self, key: K::Ref<'_>, old: PPtr<Record>, value: &[u8]) -> Result<(), Error> {
        let bytes = KeyBytes::of(K::widen(key));
        self.exchange(key, old, Some(&[&bytes.length_prefix(), bytes.as_slice(), value]))
    }

    /// Removes `key` and frees its record `old`.
    pub(crate) fn remove(&mut self, key: K::Ref<'_>, old: PPtr<Record>) -> Result<(), Error> {
        self.exchange(key, old, None)
    }

    fn exchange(&mut self, key: K::Ref<'_>, old: PPtr<Record>, parts: Option<&[&[u8]]>) -> Result<(), Error> {
        if self.interrupted {
            return Err(Error::Interrupted);
        }
        self.interrupted = true;
        // P1: intent and new record. Crash before: nothing happened. After: the intent is resolved by `resolve`.
        let new = self.worker.begin_link(old, parts).inspect_err(|_| self.interrupted = false)?;
        // P2 COMMIT: the index.
        let changed = if new.is_null() { self.index.remove(key) } else { self.index.upsert(key, new.offset()) };
        let linked = changed.is_ok() || holds(&*self.index, key, old, new)?;
        // P3: old is freed, or new if the index refused. Crash: the intent is still there and is resolved in the same way.
        self.worker.end_link(linked)?;
        self.interrupted = false;
        changed?;
        Ok(())
    }
}

/// Whether the index is past the commit of an exchange of `old` for `new`.
fn holds<K: StoreKey>(index: &dyn Index<K>, key: K::Ref<'_>, old: PPtr<Record>, new: PPtr<Record>) -> Result<bool, Error> {
    let found = index.get(key)?;
    Ok(if new.is_null() { found != Some(old.offset()) } else { found == Some(new.offset()) })
}

/// The same of a link that a crash cut: the records themselves say whose they are.
///
/// `old` is asked first, which is whole in every state; `new` may be torn, since the crash may have come while it was written. Where
/// neither can be read the whole index is searched for the link; only a crash within the few instructions before P1, or damage, makes
/// that necessary.
fn is_linked<M: Media, K: StoreKey>(pool: &Pool<M>, index: &dyn Index<K>, link: PendingLink) -> Result<bool, Error> {
    for record in [link.old, link.new] {
        let content = if record.is_null() { None } else { pool.record(record).ok() };
        let key = content.and_then(ValueRecord::parse).and_then(|found| key_of_bytes(found.key, K::TYPE));
        if let Some(key) = key {
            return holds(index, K::narrow(key)?, link.old, link.new);
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

/// The error of an index word that leads to no record, or to another key's.
pub(crate) const fn foreign_record(offset: u64) -> Error {
    Error::corrupt(offset, "the record there belongs to another key")
}

#[cfg(test)]
mod tests;
