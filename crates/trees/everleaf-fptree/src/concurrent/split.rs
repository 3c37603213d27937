//! Splitting a full, locked leaf: the upper half of its keys is copied to a new leaf, which no
//! reader sees before the old leaf's bitmap commits.
//!
//! Flushes: the new leaf's lines and 3, and those of the allocation; 3 fences and those of the
//! allocation. Byte-string keys: the bound's record besides; records of keys: the forgetting of the
//! moved pointers and 1 fence.

use std::sync::atomic::Ordering;

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Counter, Media, PPtr, planted, site};
use everleaf_pool::Worker;

use super::ConcurrentFpTree;
use super::search::LockedLeaf;
use crate::layout::{Shape, WorkerLog};
use crate::leaf::Leaf;
use crate::scan::{collect, no_entries};
use crate::split::Plan;
use everleaf_tree::key::TreeKey;
use everleaf_tree::scan::Entry;
use everleaf_tree::wait::wait;

impl<K: TreeKey, M: Media, S: Shape> ConcurrentFpTree<K, M, S> {
    /// Splits a full leaf that a new `key` belongs to, and unlocks it. When the pool or the memory
    /// is full nothing has changed.
    #[cold]
    pub(super) fn split(&self, locked: LockedLeaf<'_, S>, key: K::Ref<'_>) -> Result<()> {
        let (media, left, live) = (self.pool.media(), locked.leaf, locked.live);
        if live != self.shape.all() {
            return Err(IndexError::Corrupt {
                offset: locked.offset,
                what: "a bitmap has bits beyond the slots of its leaf",
            });
        }
        let records = self.pool.pin();
        let mut entries = no_entries::<K>();
        let entries = collect::<K, M, S>(&records, left, live, &mut entries)?;
        let ascending = entries.iter().all(|entry| K::cmp_keys(entry.0, key).is_lt())
            && self.inner.is_last(&wait(self.pool.media()), key);
        let middle = if ascending { entries.len() - 1 } else { entries.len() / 2 };
        entries.select_nth_unstable_by(middle, |a, b| K::cmp_keys(a.0, b.0));
        let (lower, upper) = entries.split_at(middle);
        let plan = Plan::of::<K, S>(self.shape, lower, upper)?;
        let separator = K::borrow(&plan.separator);

        // All that may be refused comes first: room in the inner nodes, then in the pool.
        let prepared = self.inner.prepare(&wait(self.pool.media()), separator, locked.offset)?;
        let mut worker = self.workers.lease()?;
        let log = self.log(worker.slot())?;
        let bound = self.allocate(&mut worker, log, separator)?;
        let new_offset = media.load(&log.new).offset();
        let new = self.leaf(new_offset)?;

        // C2: the new leaf, whole, and the log. Crash: left.bitmap is full, so recovery frees the
        // new leaf and its bound.
        self.fill(new, left, upper, &plan, bound);
        media.store(&log.current, PPtr::at(locked.offset));
        media.flush(site!("fptree.split.C2.log"), &log.current);
        media.fence(site!("fptree.split.C2.fence"));

        // C3 COMMIT: the old leaf's bitmap. Crash: it is full, as after C2; or not, and the new
        // leaf is part of the tree.
        media.store(left.bitmap(), live.minus(plan.moved));
        media.flush(site!("fptree.split.C3.bitmap"), left.bitmap());
        media.fence(site!("fptree.split.C3.fence"));

        if self.shape.owns_keys::<K>() {
            // C4: dead slots forget their pointers. Crash: recovery does the same with those that
            // live slots of the new leaf have.
            for slot in plan.moved {
                media.store(left.key(slot), 0);
            }
            left.flush_keys(media, site!("fptree.split.C4.forget"), plan.moved);
            media.fence(site!("fptree.split.C4.fence"));
        }

        // C5: the log is retired. Crash: recovery finds the split done. Durable before the leaf is
        // unlocked: others may fill it.
        retire(media, log);
        media.flush(site!("fptree.split.C5.log"), &log.current);
        media.fence(site!("fptree.split.C5.fence"));
        drop(worker);
        let guard = (!planted(215)).then_some(locked.guard); // Dropped at once, if not taken.

        let splits = self.inner.insert(&wait(self.pool.media()), prepared, new_offset);
        self.leaves.fetch_add(1, Ordering::Relaxed);
        media.count(Counter::LeafSplits, 1);
        media.count(Counter::InnerSplits, splits);
        // Only now: a thread that waits for this leaf finds its keys' new place (L1).
        drop(guard);
        Ok(())
    }

    /// Allocates a leaf to `log.new`, and to `log.bound` the record of its bound if it needs one;
    /// the word of the bound.
    fn allocate(
        &self,
        worker: &mut Worker<M>,
        log: &WorkerLog,
        separator: K::Ref<'_>,
    ) -> Result<u64> {
        // C0: the leaf. Crash: `current` is null, so recovery frees it.
        worker.alloc_sized_node_into(&log.new, self.shape.leaf_bytes())?;
        if let Some(word) = K::as_word(separator) {
            return Ok(word);
        }
        // C1: the bound. Crash: as after C0.
        if let Err(error) = K::place(worker, log.bound.as_word(), separator) {
            worker.free_from(&log.new)?;
            return Err(error);
        }
        Ok(self.pool.media().load(log.bound.as_word()))
    }

    /// Writes and flushes every line of the new leaf that recovery or a reader may look at.
    fn fill(
        &self,
        new: Leaf<'_, S>,
        left: Leaf<'_, S>,
        upper: &[Entry<'_, K>],
        plan: &Plan<K::Owned>,
        bound: u64,
    ) {
        let media = self.pool.media();
        for ((_, from), slot) in upper.iter().zip(plan.places) {
            new.copy_slot(media, usize::from(slot), left, usize::from(*from));
        }
        if self.shape.owns_keys::<K>() {
            for slot in self.shape.all().minus(plan.new_bitmap) {
                media.store(new.key(slot), 0);
            }
        }
        media.store(&new.head.lower_bound, bound);
        media.store(new.bitmap(), plan.new_bitmap);
        let site = site!("fptree.split.C2.leaf");
        match self.shape.owns_keys::<K>() {
            true => new.flush_entries_and_keys(media, site, plan.new_bitmap),
            false => new.flush_entries(media, site, site, plan.new_bitmap),
        }
        media.flush(site, &new.head.lower_bound);
        media.flush(site, new.bitmap());
    }
}

/// Clears a log so that at every moment what is left of it is either a split that is done or
/// nothing.
pub(super) fn retire<M: Media>(media: &M, log: &WorkerLog) {
    // `current` without `new`: done. `new` without `current` would be a leaf to be freed, and it is
    // in the tree.
    planted!(219, media.store(&log.current, PPtr::NULL));
    media.store(&log.bound, PPtr::NULL);
    media.store(&log.new, PPtr::NULL);
    media.order(site!("fptree.split.C5.order"));
    media.store(&log.current, PPtr::NULL);
}
