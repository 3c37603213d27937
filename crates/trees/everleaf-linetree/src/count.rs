//! The number of keys. It is known after a clean close; after a crash it is counted when somebody
//! asks, since opening reads no entry.

use std::ops::Bound;

use everleaf_index::Direction;
use everleaf_pmem::Media;

use super::LineTree;
use super::layout::{Slot, last_of};
use everleaf_tree::inner::Sought;
use everleaf_tree::key::TreeKey;

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
        let seek =
            |from: Bound<K::Ref<'_>>| self.inner.seek(&self.relax(), from, Direction::Forward);
        let mut next = seek(Bound::Unbounded).map(|first| (K::to_owned(K::least()), first));
        std::iter::from_fn(move || {
            let (lower, sought) = next.take()?;
            if let Some(upper) = &sought.bound {
                let beside = self.inner.seek_on(&sought, Direction::Forward);
                let behind = beside.or_else(|| seek(Bound::Included(K::borrow(upper))));
                next = behind.map(|behind| (upper.clone(), behind));
            }
            Some((lower, sought))
        })
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
