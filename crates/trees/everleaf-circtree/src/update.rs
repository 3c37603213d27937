//! Updating: one p-atomic store. 1 flush, 1 fence.

use everleaf_index::Result;
use everleaf_pmem::{Media, site};

use super::SortedTree;
use super::search::LockedLeaf;
use everleaf_tree::key::TreeKey;
use everleaf_tree::steps::Steps;

impl<K: TreeKey, M: Media> SortedTree<K, M> {
    /// Replaces the value of a present key; the old one.
    #[inline]
    pub(super) fn update(
        &self,
        key: K::Ref<'_>,
        value: u64,
        steps: &mut Steps,
    ) -> Result<Option<u64>> {
        let Some(locked) = self.lock_leaf(key, |present| present)? else { return Ok(None) };
        let old = locked.value(self.pool.media());
        self.take_part(old, steps)?;
        self.overwrite(locked, value);
        Ok(old)
    }

    /// Replaces the value of the key that a leaf was locked for, and unlocks it.
    #[inline]
    pub(super) fn overwrite(&self, locked: LockedLeaf<'_>, value: u64) {
        let media = self.pool.media();
        let cell = locked.node.value(locked.node.slot(locked.state, locked.rank - 1));
        // P1 COMMIT. Crash: the old value or the new one. If the end of a step before this is not
        // durable, recovery reads keys only, and changes nothing of what was moved.
        media.store(cell, value);
        media.flush(site!("sorted.update.P1.value"), cell);
        media.fence(site!("sorted.update.P1.fence"));
    }
}
