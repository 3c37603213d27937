//! Splitting a full leaf: the upper half of its keys moves to a free leaf; both bitmaps change, and
//! a micro-log of one line makes that one step. At the right edge of the tree, where the new key is
//! greater than all, only one key moves: keys that come in order leave full leaves behind.
//!
//! 6 flushes, those of the lines of the moved entries, and 2 fences; byte-string keys: the bound's
//! record besides; records of keys: the forgetting of the moved pointers and 2 fences.

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Counter, Media, PPtr, planted, site};

use super::{FpTree, groups};
use crate::layout::{Shape, SlotSet, SplitLog};
use crate::leaf::Leaf;
use crate::scan::{collect, no_entries};
use crate::split::Plan;
use everleaf_tree::key::TreeKey;

impl<K: TreeKey, M: Media, S: Shape> FpTree<K, M, S> {
    /// Splits a full leaf and returns the half where `key` belongs. The micro-log's retirement is
    /// flushed and not fenced: a fence must come before the next commit. When the pool is full
    /// nothing has changed.
    #[cold]
    pub(super) fn split(
        &mut self,
        left_offset: u64,
        live: SlotSet,
        key: K::Ref<'_>,
    ) -> Result<u64> {
        if live != self.shape.all() {
            return Err(IndexError::Corrupt {
                offset: left_offset,
                what: "a bitmap has bits beyond the slots of its leaf",
            });
        }
        let new_offset = groups::take::<K, M, S>(&mut self.groups, &mut self.worker, self.shape)?;
        match self.move_upper_part(left_offset, live, new_offset, key) {
            Ok(separator) => {
                let right = K::cmp_keys(key, K::borrow(&separator)).is_ge();
                Ok(if right { new_offset } else { left_offset })
            }
            Err(error) => {
                self.groups.give_back(new_offset, &mut self.worker)?;
                Err(error)
            }
        }
    }

    /// Moves the upper half of the keys, or the greatest only where keys come in ascending order;
    /// returns the least key that now belongs to the new leaf.
    fn move_upper_part(
        &mut self,
        left_offset: u64,
        live: SlotSet,
        new_offset: u64,
        key: K::Ref<'_>,
    ) -> Result<K::Owned> {
        let pool = &*self.pool;
        let media = pool.media();
        let left = Leaf::at(media.region(), left_offset, self.shape)?;
        let new = Leaf::at(media.region(), new_offset, self.shape)?;
        let log = pool.index_root::<SplitLog>()?;

        let records = self.pool.pin();
        let mut entries = no_entries::<K>();
        let entries = collect::<K, M, S>(&records, left, live, &mut entries)?;
        let ascending = entries.iter().all(|entry| K::cmp_keys(entry.0, key).is_lt())
            && self.inner.is_last(key);
        let middle = if ascending { entries.len() - 1 } else { entries.len() / 2 };
        entries.select_nth_unstable_by(middle, |a, b| K::cmp_keys(a.0, b.0));
        let (lower, upper) = entries.split_at(middle);
        let Plan { separator, moved, places, new_bitmap } =
            Plan::of::<K, S>(self.shape, lower, upper)?;
        let left_bitmap = live.minus(moved);
        if self.inner.find(K::borrow(&separator)) != left_offset {
            // The new leaf would cover a range in the middle of another one's, and what is inserted
            // there would not be found.
            return Err(IndexError::Corrupt {
                offset: left_offset,
                what: "a full leaf holds keys of another leaf",
            });
        }

        // S0: the new leaf's bound. Crash: the leaf is free; its bound means nothing, or is a
        // record that recovery frees.
        K::place(&mut self.worker, &new.head.lower_bound, K::borrow(&separator))?;
        // The inner nodes, in DRAM, are the last that may refuse; no reader sees them before this
        // ends.
        match self.inner.insert(K::borrow(&separator), new_offset) {
            Ok(splits) => media.count(Counter::InnerSplits, splits),
            Err(error) => {
                K::discard(&mut self.worker, &new.head.lower_bound)?;
                return Err(error);
            }
        }

        // S1: the log, `current` last. Crash: new.bitmap is 0 and left.bitmap is full, so recovery
        // forgets the split.
        planted!(207, media.store(&log.current, PPtr::at(left_offset)));
        media.store(&log.left_bitmap, left_bitmap);
        media.store(&log.new_bitmap, new_bitmap);
        media.store(&log.new, PPtr::at(new_offset));
        media.order(site!("fptree.split.S1.order"));
        media.store(&log.current, PPtr::at(left_offset));
        media.flush(site!("fptree.split.S1.log"), &log.current);
        if self.shape.owns_keys::<K>() {
            // Without a valid log recovery would take the pointers copied below for those of a cut
            // insertion, and free live keys.
            media.fence(site!("fptree.split.S1.fence"));
        }

        // S2: the new leaf's content. Crash: as after S1; recovery makes copied pointers null
        // again.
        upper.iter().zip(places).for_each(|((_, from), slot)| {
            new.copy_slot(media, usize::from(slot), left, usize::from(*from))
        });
        new.flush_entries(
            media,
            site!("fptree.split.S2.entries"),
            site!("fptree.split.S2.values"),
            new_bitmap,
        );
        if !K::RECORDS {
            // A record's allocation has flushed its pointer.
            media.flush(site!("fptree.split.S2.bound"), &new.head.lower_bound);
        }
        if S::FINGERPRINTS {
            media.flush(site!("fptree.split.S2.fingerprints"), new.bitmap());
        }
        media.fence(site!("fptree.split.S2.fence"));

        // S3 COMMIT: both bitmaps. Crash: with neither durable recovery forgets the split, with one
        // or both it stores both again.
        media.store(new.bitmap(), new_bitmap);
        media.flush(site!("fptree.split.S3.new"), new.bitmap());
        media.store(left.bitmap(), left_bitmap);
        media.flush(site!("fptree.split.S3.left"), left.bitmap());
        media.fence(site!("fptree.split.S3.fence"));

        if self.shape.owns_keys::<K>() {
            // S4: dead slots forget their pointers. Crash: recovery does the same with those that
            // live slots of the new leaf have.
            for slot in moved {
                media.store(left.key(slot), 0);
            }
            left.flush_keys(media, site!("fptree.split.S4.forget"), moved);
            media.fence(site!("fptree.split.S4.fence"));
        }

        // S5: the log is retired. Crash: recovery stores what is there already. The caller's fence,
        // before its commit, makes it durable.
        media.store(&log.current, PPtr::NULL);
        media.flush(site!("fptree.split.S5.log"), &log.current);
        media.count(Counter::LeafSplits, 1);
        Ok(separator)
    }
}
