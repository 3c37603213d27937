//! Replacing the value of a present key: one store, to the entry or to the key's record. Of a value
//! in a buffer it is the place of another buffer (`value`, B1 to B3).

use everleaf_index::Result;
use everleaf_pmem::{Media, PCell};

use super::Masstree;
use super::node::{Locked, Step};
use super::search::{Entry, Place};
use everleaf_tree::key::slices::SliceKey;

impl<K: SliceKey, M: Media, const DURABLE: bool> Masstree<K, M, DURABLE> {
    /// Replaces the value of a key; the old one, none if the key is absent.
    #[inline]
    pub(super) fn update(&self, key: K::Ref<'_>, value: u64) -> Result<Option<u64>> {
        if K::admit_slices(key).is_err() {
            return Ok(None); // No such key is ever present.
        }
        self.patiently(|| {
            let place = self.locate(key)?;
            match self.entry(&place)? {
                Entry::Absent | Entry::Other(..) => Ok(None),
                Entry::Value(slot) => Ok(Some(self.update_slot(place, slot, value)?)),
                Entry::Record(offset) => Ok(Some(self.update_record(place, offset, value)?)),
            }
        })
    }

    /// Replaces the value in a slot.
    #[inline(always)]
    pub(super) fn update_slot(
        &self,
        place: Place<'_, '_, M>,
        slot: usize,
        value: u64,
    ) -> Step<u64> {
        self.touch_value(place.locked.at, slot)?;
        let cell = place.locked.node().value::<DURABLE>(slot);
        let replaced = self.swap(&place.locked, cell, value)?;
        self.leave(place, replaced)
    }

    /// Replaces the value in the record of the key.
    pub(super) fn update_record(
        &self,
        place: Place<'_, '_, M>,
        offset: u64,
        value: u64,
    ) -> Step<u64> {
        let record = self.own_record(offset)?;
        self.touch_record(offset, record.head);
        let replaced = self.swap(&place.locked, &record.head.value, value)?;
        self.leave(place, replaced)
    }

    /// Replaces a value that a locked node leads to, and that was touched: the word that was there,
    /// and its value.
    #[inline(always)]
    fn swap(&self, locked: &Locked<'_, M>, cell: &PCell, value: u64) -> Step<(u64, u64)> {
        let media = self.pool.media();
        let word = media.load(cell);
        let (old, new) = (self.value_of(word)?, self.new_value(value)?);
        if self.buffers {
            locked.mark_changing();
        }
        media.store(cell, new);
        Ok((word, old))
    }

    /// Unlocks the node, and frees what was replaced: not before, since readers wait for a node
    /// that changes, and this waits for an arena (L2).
    #[inline(always)]
    fn leave(&self, place: Place<'_, '_, M>, (word, old): (u64, u64)) -> Step<u64> {
        drop(place);
        self.free_value(word)?;
        Ok(old)
    }
}
