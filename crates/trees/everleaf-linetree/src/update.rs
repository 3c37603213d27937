//! Replacing a value in its locked leaf: 1 flush and 1 fence.

use everleaf_index::Result;
use everleaf_pmem::{Media, site};

use super::LineTree;
use super::layout::Slot;
use super::search::Found;
use everleaf_tree::key::TreeKey;
use everleaf_tree::operations::SkipIf;

impl<K: TreeKey, M: Media, const LINES: usize> LineTree<K, M, LINES> {
    /// Replaces the value of a present key; the old value, or none if the key is absent.
    #[inline(always)]
    pub(super) fn update(&self, key: K::Ref<'_>, value: u64) -> Result<Option<u64>> {
        let wanted = Self::wanted(key);
        let found = match self.try_lock_leaf(key, wanted, SkipIf::Absent) {
            Some(found) => found,
            None => self.lock_leaf(key, wanted, SkipIf::Absent)?,
        };
        let Found::Present(locked, slot) = found else { return Ok(None) };
        let old = overwrite(self.pool.media(), slot, value);
        drop(locked);
        Ok(Some(old))
    }
}

/// Overwrites the value of an entry, and returns the old one. No other thread has the leaf.
#[inline(always)]
pub(super) fn overwrite<M: Media>(media: &M, slot: Slot<'_>, value: u64) -> u64 {
    let old = media.load(slot.value());
    // U1 COMMIT: one p-atomic store. Crash: the old value or the new one.
    media.store(slot.value(), value);
    media.flush(site!("linetree.update.U1.value"), slot.value());
    media.fence(site!("linetree.update.U1.fence"));
    old
}
