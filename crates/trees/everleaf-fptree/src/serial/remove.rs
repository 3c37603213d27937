//! Removing a key: one bit goes off. The store that takes the last key of a leaf takes the leaf out
//! of the tree as well.
//!
//! 1 flush and 1 fence; records of keys: the freeing of the record besides; byte-string keys: that
//! of the leaf's bound when it is emptied.

use everleaf_index::Result;
use everleaf_pmem::Media;

use super::FpTree;
use crate::layout::Shape;
use crate::leaf::Leaf;
use crate::remove::clear_bit;
use everleaf_tree::key::TreeKey;

impl<K: TreeKey, M: Media, S: Shape> FpTree<K, M, S> {
    /// Removes a key and copies its value; false if it is absent.
    #[inline(always)]
    pub(super) fn remove(&mut self, key: K::Ref<'_>, old: &mut [u64]) -> Result<bool> {
        let leaf_offset = self.inner.find(key);
        let (live, slot) = self.search(self.leaf(leaf_offset)?, key, K::hash(key))?;
        let Some(slot) = slot else { return Ok(false) };
        let media = self.pool.media();
        let leaf = Leaf::at(media.region(), leaf_offset, self.shape)?;
        leaf.read_value(media, slot, old);
        let remaining = clear_bit::<K, M, S>(media, leaf, live, slot);
        self.keys = self.keys.saturating_sub(1);
        let emptied = remaining.is_empty() && leaf_offset != self.leftmost;
        if emptied {
            self.inner.remove(key);
        }
        if self.shape.owns_keys::<K>() {
            // P2: the record is freed and the dead slot's pointer null. Crash: the pointer in a
            // dead slot makes recovery free the record.
            K::discard(&mut self.worker, leaf.key(slot))?;
        }
        if emptied {
            self.leave(leaf_offset)?;
        }
        Ok(true)
    }

    /// Frees a leaf that has left the tree: its last removal is durable.
    #[cold]
    pub(super) fn leave(&mut self, leaf_offset: u64) -> Result<()> {
        // P3: so is the bound's record. Crash: the bound of a free leaf makes recovery free it.
        let leaf = Leaf::at(self.pool.media().region(), leaf_offset, self.shape)?;
        K::discard(&mut self.worker, &leaf.head.lower_bound)?;
        self.groups.give_back(leaf_offset, &mut self.worker)
    }
}
