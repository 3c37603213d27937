//! Removing a key: one bit goes off. The store that takes the last key of a leaf takes the leaf out
//! of the tree as well.
//!
//! 1 flush and 1 fence; byte-string keys: the freeing of the record besides, and of the leaf's
//! bound when it is emptied.

use everleaf_index::IndexError;
use everleaf_pmem::{Media, site};

use super::FpTree;
use super::key::LeafKey;
use super::layout::{Shape, SlotSet};
use super::leaf::Leaf;

impl<K: LeafKey, M: Media, S: Shape> FpTree<K, M, S> {
    /// Removes a key and copies its value; false if it is absent.
    #[inline(always)]
    pub(super) fn remove(&mut self, key: K::Ref<'_>, old: &mut [u64]) -> Result<bool, IndexError> {
        let leaf_offset = self.inner.find(key);
        let (live, slot) = self.search(self.leaf(leaf_offset)?, key, K::hash(key))?;
        let Some(slot) = slot else { return Ok(false) };
        let media = self.pool.media();
        let leaf = Leaf::at(media.region(), leaf_offset, self.shape)?;
        leaf.read_value(media, slot, old);
        let remaining = clear_bit::<K, M, S>(media, leaf, live, slot);
        self.keys -= 1;
        let emptied = remaining.is_empty() && leaf_offset != self.leftmost;
        if emptied {
            self.inner.remove(key);
        }
        if K::RECORDS {
            // P2: the record is freed and the dead slot's pointer null. Crash: the pointer in a
            // dead slot makes recovery free the record.
            K::discard(&mut self.worker, leaf.key(slot))?;
            if emptied {
                // P3: so is the bound. Crash: the bound of a free leaf makes recovery free it.
                K::discard(&mut self.worker, &leaf.head.lower_bound)?;
            }
        }
        if emptied {
            self.groups.give_back(leaf_offset, &mut self.worker)?;
        }
        Ok(true)
    }
}

/// Makes a live slot dead; the slots that are left. The caller has the leaf for himself.
#[inline(always)]
pub(super) fn clear_bit<K: LeafKey, M: Media, S: Shape>(
    media: &M,
    leaf: Leaf<'_, S>,
    live: SlotSet,
    slot: usize,
) -> SlotSet {
    // P1 COMMIT: the bit goes off. Crash: the key is there or not. If it was the last one the leaf,
    // whose bitmap is 0, has left the tree in the same moment, and its left neighbour has its
    // range.
    let remaining = live.without(slot);
    media.store(leaf.bitmap(), remaining);
    media.flush(site!("fptree.remove.P1.bitmap"), leaf.bitmap());
    if !K::RECORDS {
        // Records: P2 fences before it changes anything.
        media.fence(site!("fptree.remove.P1.fence"));
    }
    remaining
}
