//! Updating a value: one word in place; a wider value into a dead slot, then one bitmap store that
//! flips both bits.
//!
//! One word: 1 flush, 1 fence. Wider: the lines of the entry and 1 flush, 2 fences; byte-string
//! keys 1 flush and 1 fence more; a full leaf is split first.

use everleaf_index::{IndexError, Result};
use everleaf_pmem::Media;

use super::FpTree;
use crate::layout::{Shape, SlotSet};
use crate::leaf::Leaf;
use crate::update::{overwrite, write_beside};
use everleaf_tree::key::KeyHash;
use everleaf_tree::key::TreeKey;

impl<K: TreeKey, M: Media, S: Shape> FpTree<K, M, S> {
    /// Replaces the value of a present key; false if it is absent.
    #[inline(always)]
    pub(super) fn update(&mut self, key: K::Ref<'_>, new: &[u64], old: &mut [u64]) -> Result<bool> {
        let hash = K::hash(key);
        let leaf_offset = self.inner.find(key);
        let (live, slot) = self.search(self.leaf(leaf_offset)?, key, hash)?;
        let Some(slot) = slot else { return Ok(false) };
        self.replace(leaf_offset, live, slot, key, hash, new, old)?;
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
    ) -> Result<()> {
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
    ) -> Result<()> {
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
