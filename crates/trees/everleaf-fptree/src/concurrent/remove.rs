//! Removing a key from its locked leaf, by the sequence P1 of the tree for one thread; and the end
//! of a leaf that this empties.
//!
//! 1 flush and 1 fence; records of keys: the freeing of the record besides. A leaf that is
//! emptied: its freeing besides.

use std::sync::atomic::Ordering;

use everleaf_index::Result;
use everleaf_pmem::{Media, PPtr};
use everleaf_pool::Worker;

use super::ConcurrentFpTree;
use super::log_of;
use super::search::{Found, LockedLeaf};
use crate::layout::{LeafHead, Shape};
use crate::leaf::Leaf;
use crate::remove::clear_bit;
use everleaf_tree::key::KeyHash;
use everleaf_tree::key::TreeKey;
use everleaf_tree::operations::SkipIf;
use everleaf_tree::wait::wait;

impl<K: TreeKey, M: Media, S: Shape> ConcurrentFpTree<K, M, S> {
    /// Removes a key and copies its value; false if it is absent.
    #[inline(always)]
    pub(super) fn remove(&self, key: K::Ref<'_>, old: &mut [u64]) -> Result<bool> {
        let hash = K::hash(key);
        match self.try_lock_leaf(key, hash, SkipIf::Absent) {
            Some(Found::Present(locked, slot)) => self.remove_present(locked, slot, key, old),
            Some(Found::Absent(_) | Found::Nothing) => Ok(false),
            None => self.remove_retrying(key, hash, old),
        }
    }

    /// The same, as often as it takes.
    #[inline(never)]
    fn remove_retrying(&self, key: K::Ref<'_>, hash: KeyHash, old: &mut [u64]) -> Result<bool> {
        match self.lock_leaf(key, hash, SkipIf::Absent)? {
            Found::Present(locked, slot) => self.remove_present(locked, slot, key, old),
            Found::Absent(_) | Found::Nothing => Ok(false),
        }
    }

    /// Removes the key in a live slot of the locked leaf.
    #[inline(always)]
    fn remove_present(
        &self,
        locked: LockedLeaf<'_, S>,
        slot: usize,
        key: K::Ref<'_>,
        old: &mut [u64],
    ) -> Result<bool> {
        let media = self.pool.media();
        locked.leaf.read_value(media, slot, old);
        locked.guard.count(-1);
        let remaining = clear_bit::<K, M, S>(media, locked.leaf, locked.live, slot);
        if self.shape.owns_keys::<K>() {
            // P2: as in the tree for one thread.
            K::discard(&mut *self.workers.lease()?, locked.leaf.key(slot))?;
        }
        if remaining.is_empty() && locked.offset != self.leftmost {
            self.leave(&locked, key)?;
        }
        Ok(true)
    }

    /// The locked leaf, now empty, leaves the tree.
    #[cold]
    pub(super) fn leave(&self, locked: &LockedLeaf<'_, S>, key: K::Ref<'_>) -> Result<()> {
        // The removal is durable: from here on its range falls to its left neighbour, where others
        // find nothing. A thread on the way to this leaf waits for its lock, and then looks for
        // another (L1).
        self.inner.remove(&wait(self.pool.media()), key);
        self.leaves.fetch_sub(1, Ordering::Relaxed);
        free_leaf::<K, M, S>(&mut *self.workers.lease()?, locked.leaf, locked.offset)
    }
}

/// Frees a leaf that has left the tree, and the record of its bound: 4 flushes and 3 fences each.
pub(super) fn free_leaf<K: TreeKey, M: Media, S: Shape>(
    worker: &mut Worker<M>,
    leaf: Leaf<'_, S>,
    leaf_offset: u64,
) -> Result<()> {
    let pool = std::sync::Arc::clone(worker.pool());
    let log = log_of(&pool, worker.slot())?;
    // D1: the bound's record. Crash: an empty leaf, which recovery frees.
    K::discard(worker, &leaf.head.lower_bound)?;
    // D2: the log, not flushed: D3 asks it where to write. Crash: as after D1, or the log says the
    // same; in the middle of D3 a log that is null stands for a leaf that is free.
    pool.media().store(&log.removed, PPtr::<LeafHead>::at(leaf_offset));
    // D3 COMMIT: the leaf is free and the log retired, in one exchange.
    worker.free_from(&log.removed)?;
    Ok(())
}
