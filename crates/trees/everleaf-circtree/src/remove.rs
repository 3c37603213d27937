//! Removing: from its leaf, as the leaf keeps its entries ([`Node::remove`]). A leaf that is left
//! with few entries: a merge besides, if its neighbour has room.

use everleaf_index::Result;

use super::SortedTree;
use super::search::LockedLeaf;
use everleaf_pmem::Media;
use everleaf_tree::key::TreeKey;
use everleaf_tree::steps::Steps;

impl<K: TreeKey, M: Media> SortedTree<K, M> {
    /// Removes a key; its value if it was present.
    #[inline]
    pub(super) fn remove(&self, key: K::Ref<'_>, steps: &mut Steps) -> Result<Option<u64>> {
        let Some(locked) = self.lock_leaf(key, |present| present)? else { return Ok(None) };
        let media = self.pool.media();
        let old = locked.value(media);
        self.take_part(old, steps)?;
        let LockedLeaf { node, state, rank, guard, .. } = locked;
        self.keys.add(node.offset, -1); // Before the fences, as in an insertion.
        node.remove::<K, M>(media, state, rank - 1);
        if K::RECORDS {
            // P4: its record is freed. Crash: the header has it, and no entry.
            K::discard(&mut *self.workers.lease()?, &node.head.key)?;
        }
        drop(guard);
        if self.wants_merge(usize::from(state.count) - 1) {
            self.merge(key)?;
        }
        Ok(old)
    }
}
