//! Updating a value: one word in place; a wider value into a dead slot, then one bitmap store that
//! flips both bits.
//!
//! One word: 1 flush, 1 fence. Wider: the lines of the entry and 1 flush, 2 fences; byte-string
//! keys 1 flush and 1 fence more; a full leaf is split first.

use everleaf_index::IndexError;
use everleaf_pmem::{Media, site};

use super::FpTree;
use super::key::LeafKey;
use super::layout::{KeyHash, Shape, SlotSet};
use super::leaf::Leaf;

impl<K: LeafKey, M: Media, S: Shape> FpTree<K, M, S> {
    /// Replaces the value of a present key; false if it is absent.
    #[inline(always)]
    pub(super) fn update(
        &mut self,
        key: K::Ref<'_>,
        value: &[u64],
        old: &mut [u64],
    ) -> Result<bool, IndexError> {
        let hash = K::hash(key);
        let leaf_offset = self.inner.find(key);
        let (live, slot) = self.search(self.leaf(leaf_offset)?, key, hash)?;
        let Some(slot) = slot else { return Ok(false) };
        self.replace(leaf_offset, live, slot, key, hash, value, old)?;
        Ok(true)
    }

    /// Replaces the value in a live slot.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    pub(super) fn replace(
        &mut self,
        leaf_offset: u64,
        live: SlotSet,
        slot: usize,
        key: K::Ref<'_>,
        hash: KeyHash,
        value: &[u64],
        old: &mut [u64],
    ) -> Result<(), IndexError> {
        let media = self.pool.media();
        let leaf = self.leaf(leaf_offset)?;
        leaf.read_value(media, slot, old);
        if self.shape.value_words() > 1 {
            return self.replace_wide(leaf_offset, live, slot, key, hash, value);
        }
        overwrite(media, leaf, slot, value);
        Ok(())
    }

    fn replace_wide(
        &mut self,
        leaf_offset: u64,
        live: SlotSet,
        slot: usize,
        key: K::Ref<'_>,
        hash: KeyHash,
        value: &[u64],
    ) -> Result<(), IndexError> {
        let (leaf_offset, live, old_slot, new_slot) = match self.shape.dead_slot(live, hash) {
            Some(new_slot) => (leaf_offset, live, slot, new_slot),
            None => {
                let (leaf_offset, live, new_slot) = self.make_room(leaf_offset, live, key, hash)?;
                // The split may have moved the key to another slot of another leaf.
                let moved = self.search(self.leaf(leaf_offset)?, key, hash)?.1;
                let old_slot = moved.ok_or(IndexError::Corrupt {
                    offset: leaf_offset,
                    what: "a split lost a key",
                })?;
                (leaf_offset, live, old_slot, new_slot)
            }
        };
        let media = self.pool.media();
        let leaf = Leaf::at(media.region(), leaf_offset, self.shape)?;
        write_beside::<K, M, S>(media, leaf, live, old_slot, new_slot, hash, value);
        Ok(())
    }
}

/// Overwrites a value of one word. The caller has the leaf for himself.
#[inline(always)]
pub(super) fn overwrite<M: Media, S: Shape>(
    media: &M,
    leaf: Leaf<'_, S>,
    slot: usize,
    value: &[u64],
) {
    // P1 COMMIT: one p-atomic store. Crash: the old value or the new one.
    leaf.store_value(media, slot, value);
    leaf.flush_value(media, site!("fptree.update.P1.value"), slot);
    media.fence(site!("fptree.update.P1.fence"));
}

/// Moves the entry of `old_slot` to the dead `new_slot`, with a new value. The caller has the leaf
/// for himself.
pub(super) fn write_beside<K: LeafKey, M: Media, S: Shape>(
    media: &M,
    leaf: Leaf<'_, S>,
    live: SlotSet,
    old_slot: usize,
    new_slot: usize,
    hash: KeyHash,
    value: &[u64],
) {
    // W1: the new entry. Crash: its slot is dead; its pointer is that of a live slot, which
    // recovery takes as a sign not to free the record.
    media.store(leaf.key(new_slot), media.load(leaf.key(old_slot)));
    leaf.store_value(media, new_slot, value);
    leaf.flush_entry(
        media,
        site!("fptree.update.W1.entry"),
        site!("fptree.update.W1.value"),
        new_slot,
    );
    media.fence(site!("fptree.update.W1.fence"));
    // W2 COMMIT: the new bit on and the old one off by one store. Crash: the old value or the new
    // one.
    if S::FINGERPRINTS {
        leaf.store_fingerprint(media, new_slot, hash.fingerprint());
        media.order(site!("fptree.update.W2.order"));
    }
    media.store(leaf.bitmap(), live.with(new_slot).without(old_slot));
    media.flush(site!("fptree.update.W2.bitmap"), leaf.bitmap());
    media.fence(site!("fptree.update.W2.fence"));
    if K::RECORDS {
        // W3: the dead slot forgets its pointer. Crash: as after W1. Durable now, for a later
        // removal frees the record, and then nothing would tell recovery that this pointer dangles.
        media.store(leaf.key(old_slot), 0);
        media.flush(site!("fptree.update.W3.forget"), leaf.key(old_slot));
        media.fence(site!("fptree.update.W3.fence"));
    }
}
