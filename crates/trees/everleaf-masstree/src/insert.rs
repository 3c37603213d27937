//! Adding a key: its entry is written into a free slot and then made live by one store of the
//! permutation.

use everleaf_index::Result;
use everleaf_pmem::{Media, planted};

use super::Masstree;
use super::layout::{LONGER, Onward};
use super::node::{Locked, Step};
use super::search::{Entry, Place};
use everleaf_tree::key::slices::SliceKey;

/// An entry that is to be added.
#[derive(Clone, Copy)]
pub(super) struct NewEntry {
    pub slice: u64,
    pub code: u8,
    /// Its value, or what it leads to.
    pub word: u64,
}

impl<K: SliceKey, M: Media, const DURABLE: bool> Masstree<K, M, DURABLE> {
    /// Adds a key, or replaces its value if that is wanted; the value that was there.
    #[inline]
    pub(super) fn insert(&self, key: K::Ref<'_>, value: u64, replace: bool) -> Result<Option<u64>> {
        K::admit_slices(key)?;
        self.patiently(|| {
            let place = self.locate(key)?;
            match self.entry(&place)? {
                Entry::Value(slot) if replace => Ok(Some(self.update_slot(place, slot, value)?)),
                Entry::Record(offset) if replace => {
                    Ok(Some(self.update_record(place, offset, value)?))
                }
                Entry::Value(slot) => {
                    let cell = place.locked.node().value::<DURABLE>(slot);
                    Ok(Some(self.value_of(self.pool.media().load(cell))?))
                }
                Entry::Record(offset) => {
                    let word = self.own_record(offset)?.value(self.pool.media());
                    Ok(Some(self.value_of(word)?))
                }
                Entry::Absent => self.add(place, value),
                Entry::Other(slot, offset) => {
                    self.touch_value(place.locked.at, slot)?;
                    let root = self.new_layers(offset, place.behind, value)?;
                    let cell = place.locked.node().value::<DURABLE>(slot);
                    self.pool.media().store(cell, Onward::Layer(root).word());
                    self.keys.add(place.locked.at.offset, i64::from(!planted(291)));
                    self.free_record(offset)?;
                    Ok(None)
                }
            }
        })
    }

    /// Adds an entry for a key that is absent.
    #[inline(always)]
    fn add(&self, place: Place<'_, '_, M>, value: u64) -> Step<Option<u64>> {
        let media = self.pool.media();
        let longer = !K::ONE_SLICE && place.code == LONGER;
        let node = place.locked.at;
        let perm = media.load(&node.node.perm);
        if perm.count() < self.leaf_slots {
            self.touch_free_slot(node, perm)?;
        }
        let value = self.new_value(value)?;
        let record = if longer { self.new_record(place.behind, value) } else { Ok(value) };
        let word = match record {
            Ok(word) => word,
            Err(error) => {
                self.free_value(value)?;
                return Err(error.into());
            }
        };
        let entry = NewEntry { slice: place.slice, code: place.code, word };
        if perm.count() < self.leaf_slots {
            self.put_entry(&place.locked, place.position, entry);
        } else if let Err(halt) = self.split(place, entry) {
            if longer {
                self.free_record(word)?;
            }
            self.free_value(value)?;
            return Err(halt);
        }
        self.keys.add(node.offset, 1);
        Ok(None)
    }

    /// Writes an entry into a node with a free slot, which was
    /// [touched](Self::touch_free_slot).
    #[inline(always)]
    pub(super) fn put_entry(&self, locked: &Locked<'_, M>, position: usize, entry: NewEntry) {
        let (media, node) = (self.pool.media(), locked.node());
        let perm = media.load(&node.perm);
        let slot = perm.slot(perm.count()).min(Self::SLOTS - 1);
        locked.mark_if_recycled();
        media.store(node.key(slot), entry.slice);
        if !K::ONE_SLICE {
            let meta = media.load(&node.meta);
            media.store(&node.meta, meta.with_code(slot, entry.code));
        }
        media.store(node.value::<DURABLE>(slot), entry.word);
        media.store(&node.perm, perm.inserted(position, perm.count()));
    }
}
