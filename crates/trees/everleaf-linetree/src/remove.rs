//! Removing a key from its locked leaf: 1 flush and 1 fence; the end of a leaf that this empties
//! besides.

use everleaf_index::Result;
use everleaf_pmem::{Media, site};

use super::LineTree;
use super::free_slots::{has_no_other, leave};
use super::layout::{Leaf, Slot, half};
use super::search::Found;
use everleaf_tree::key::TreeKey;
use everleaf_tree::operations::SkipIf;

impl<K: TreeKey, M: Media, const LINES: usize> LineTree<K, M, LINES> {
    /// Removes a key; its value, or none if it is absent.
    #[inline(always)]
    pub(super) fn remove(&self, key: K::Ref<'_>) -> Result<Option<u64>> {
        let wanted = Self::wanted(key);
        let found = match self.try_lock_leaf(key, wanted, SkipIf::Absent) {
            Some(found) => found,
            None => self.lock_leaf(key, wanted, SkipIf::Absent)?,
        };
        let Found::Present(locked, slot) = found else { return Ok(None) };
        let media = self.pool.media();
        let old = media.load(slot.value());
        let is_empty = clear::<K, M, LINES>(media, locked.leaf, slot, half::<K>(key));
        locked.guard.count(-1);
        if is_empty {
            self.end_leaf(locked, key)?;
        }
        Ok(Some(old))
    }
}

/// Takes the entry out of a slot; whether it was the last one of its leaf. No other thread has the
/// leaf.
#[inline(always)]
fn clear<K: TreeKey, M: Media, const LINES: usize>(
    media: &M,
    leaf: &Leaf<LINES>,
    slot: Slot<'_>,
    half: u64,
) -> bool {
    let (word, is_last) = leave::<K, M, LINES>(media, leaf, slot, half, |_| true);
    // R1 COMMIT: one p-atomic store. Crash: the entry is there or it is not.
    media.store(slot.key(), word);
    media.flush(site!("linetree.remove.R1.entry"), slot.key());
    // What is read of the other lines is on its way while the flush is.
    let is_empty = is_last && has_no_other(media, leaf, slot);
    media.fence(site!("linetree.remove.R1.fence"));
    is_empty
}
