//! The end of a leaf that has no entry: its right neighbour takes over its range.
//!
//! 3 flushes, 3 fences. No bound ever rises: so what a split has moved out of a leaf, and is still
//! to be found there after a crash, is never in its range again.

use std::sync::atomic::Ordering;

use everleaf_index::{Direction, IndexError, Result};
use everleaf_pmem::{Media, PPtr, site};

use super::LineTree;
use super::layout::{LeafHead, half};
use super::search::LockedLeaf;
use everleaf_tree::key::TreeKey;
use everleaf_tree::version_locks::LockGuard;
use everleaf_tree::wait::wait;

/// Turns of waiting for a neighbour: longer than a change of a leaf takes, and none of them sleeps.
const TURNS: usize = 150;

impl<K: TreeKey, M: Media, const LINES: usize> LineTree<K, M, LINES> {
    /// Takes a locked leaf without entries, that covers `key`, out of the tree. It stays, empty, if
    /// it is the last one of its half, or another thread keeps its neighbour: to wait for that
    /// one for ever, with a leaf locked, is not safe where leaves share locks.
    #[cold]
    pub(super) fn end_leaf(
        &self,
        LockedLeaf { offset, leaf, guard }: LockedLeaf<'_, LINES>,
        key: K::Ref<'_>,
    ) -> Result<()> {
        let Some(upper) = self.upper_bound(key) else { return Ok(()) };
        let upper = K::borrow(&upper);
        if half::<K>(upper) != half::<K>(key) {
            return Ok(());
        }
        // Byte strings: it frees the bound of its neighbour.
        let worker = K::RECORDS.then(|| self.stock.worker()).transpose();
        let Ok(mut worker) = worker else { return Ok(()) };
        let Some((next_offset, next_guard)) = self.lock_next(upper, &guard) else { return Ok(()) };
        let (media, next) = (self.pool.media(), &self.leaf(next_offset)?.head);

        // D1: who takes over, and the bound of that, which is this leaf's own when it is free.
        // Crash: the bounds differ, so the leaf is what it was, and recovery forgets this (O2).
        if K::RECORDS {
            media.store(leaf.head.spare.as_word(), media.load(&next.lower_bound));
        }
        media.store(&leaf.head.dying, PPtr::<LeafHead>::at(next_offset));
        media.flush(site!("linetree.end.D1.dying"), &leaf.head.dying);
        media.fence(site!("linetree.end.D1.fence"));
        // D2 COMMIT: the bound of the neighbour falls. Crash: the leaf is dead, as recovery finds
        // by the bounds, which are equal, and makes it free (O1).
        media.store(&next.lower_bound, media.load(&leaf.head.lower_bound));
        media.flush(site!("linetree.end.D2.bound"), &next.lower_bound);
        media.fence(site!("linetree.end.D2.fence"));
        // D3: it is free. Crash: as after D2, or done. Durable before the neighbour is unlocked,
        // whose bound may then fall once more.
        media.store(&leaf.head.live, 0);
        media.flush(site!("linetree.end.D3.live"), &leaf.head.live);
        media.fence(site!("linetree.end.D3.fence"));

        // Both leaves are locked: who comes to one of them between these two changes waits, and
        // looks again.
        let relax = wait(self.pool.media());
        let replaced = self.inner.remove(&relax, upper)
            && self.inner.replace(&relax, key, offset, next_offset);
        drop((guard, next_guard));
        if !replaced {
            let what = "the inner nodes do not lead to two neighbouring leaves";
            return Err(IndexError::Corrupt { offset, what });
        }
        self.leaves.fetch_sub(1, Ordering::Relaxed);
        if let Some(worker) = &mut worker {
            // D4: nothing leads to the leaf. Crash: recovery frees the bound.
            K::discard(worker, leaf.head.spare.as_word())?;
        }
        drop(worker); // Giving back takes one.
        self.stock.give_back(media, offset)
    }

    /// The least key above the range of the leaf that covers `key`.
    pub(super) fn upper_bound(&self, key: K::Ref<'_>) -> Option<K::Owned> {
        let included = std::ops::Bound::Included(key);
        self.inner.seek(&wait(self.pool.media()), included, Direction::Forward)?.bound
    }

    /// Locks the leaf that begins at `bound`, but where it has the lock of its left neighbour; none
    /// if that takes a long wait.
    fn lock_next(
        &self,
        bound: K::Ref<'_>,
        guard: &LockGuard<'_>,
    ) -> Option<(u64, Option<LockGuard<'_>>)> {
        let relax = wait(self.pool.media());
        for _ in 0..TURNS {
            let (offset, ticket) = self.inner.find(&relax, bound);
            let is_shared = self.locks.is_locked_by(offset, guard);
            let locked = match self.locks.peek(offset).filter(|_| !is_shared) {
                Some(seen) => seen.try_lock(),
                None => None,
            };
            // From here on a ticket that is current stays so.
            if (is_shared || locked.is_some()) && ticket.is_current() {
                return Some((offset, locked));
            }
            locked.into_iter().for_each(LockGuard::unlock_unchanged);
            relax();
        }
        None
    }
}
