//! The number of keys. It is known after a clean close; after a crash it is counted when somebody
//! asks, since opening reads no entry.

use everleaf_pmem::Media;

use super::LineTree;
use super::layout::{Slot, last_of};
use everleaf_tree::inner::Sought;
use everleaf_tree::key::TreeKey;
use everleaf_tree::wait::wait;

impl<K: TreeKey, M: Media, const LINES: usize> LineTree<K, M, LINES> {
    /// Keys in the tree; exact while no thread writes.
    pub(super) fn keys(&self) -> u64 {
        if let Some(found) = self.keys_found.get() {
            return found.saturating_add_signed(self.locks.counted());
        }
        let before = self.locks.versions();
        let keys = self.leaves().map(|(_, sought)| self.keys_of(&sought)).sum::<u64>();
        let counted = self.locks.counted();
        if before.is_some() && self.locks.versions() == before {
            // No thread has written meanwhile.
            self.keys_found.get_or_init(|| keys.saturating_add_signed(-counted));
        }
        keys
    }

    /// All leaves in their order, each with where its range begins.
    pub(super) fn leaves(&self) -> impl Iterator<Item = (K::Owned, Sought<'_, K::Owned>)> {
        self.inner.leaves(wait(self.pool.media()))
    }

    /// Keys of a leaf, in its range.
    fn keys_of(&self, sought: &Sought<'_, K::Owned>) -> u64 {
        let Ok(leaf) = self.leaf(sought.child) else { return 0 };
        let media = self.pool.media();
        let last = last_of::<K>(sought.bound.as_ref());
        let words = leaf.lines.iter().flat_map(Slot::all_of).map(|slot| media.load(slot.key()));
        words.filter(|word| word.is_entry() && *word <= last).count() as u64
    }
}
