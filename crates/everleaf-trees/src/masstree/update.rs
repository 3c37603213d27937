//! Replacing the value of a present key: one store, to the entry or to the key's record.

use everleaf_index::IndexError;
use everleaf_pmem::{Media, PCell};

use super::Masstree;
use super::node::Step;
use super::search::{Entry, Place};
use crate::support::key::slices::SliceKey;

impl<K: SliceKey, M: Media, const DURABLE: bool> Masstree<K, M, DURABLE> {
    /// Replaces the value of a key; the old one, none if the key is absent.
    #[inline]
    pub(super) fn update(&self, key: K::Ref<'_>, value: u64) -> Result<Option<u64>, IndexError> {
        if K::admit_slices(key).is_err() {
            return Ok(None); // No such key is ever present.
        }
        self.patiently(|| {
            let place = self.locate(key)?;
            match self.entry(&place)? {
                Entry::Absent | Entry::Other(..) => Ok(None),
                Entry::Value(slot) => Ok(Some(self.update_slot(&place, slot, value)?)),
                Entry::Record(offset) => Ok(Some(self.update_record(offset, value)?)),
            }
        })
    }

    /// Replaces the value in a slot.
    #[inline(always)]
    pub(super) fn update_slot(
        &self,
        place: &Place<'_, '_, M>,
        slot: usize,
        value: u64,
    ) -> Step<u64> {
        self.touch_value(place.locked.at, slot)?;
        Ok(self.swap(place.locked.node().value::<DURABLE>(slot), value))
    }

    /// Replaces the value in the record of the key.
    pub(super) fn update_record(&self, offset: u64, value: u64) -> Step<u64> {
        let record = self.own_record(offset)?;
        self.touch_record(offset, record.head);
        Ok(self.swap(&record.head.value, value))
    }

    #[inline(always)]
    fn swap(&self, cell: &PCell, value: u64) -> u64 {
        let old = self.pool.media().load(cell);
        self.pool.media().store(cell, value);
        old
    }
}
