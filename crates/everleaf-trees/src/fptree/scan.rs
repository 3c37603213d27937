//! Scans: leaf by leaf through the inner nodes, each leaf sorted on the stack while the lines of the next one arrive.

use std::ops::{Bound, ControlFlow};

use everleaf_index::{Direction, IndexError, Visit};
use everleaf_pmem::Media;
use everleaf_pool::Pool;

use super::FpTree;
use super::key::LeafKey;
use super::layout::{MAX_SLOTS, MAX_VALUE_WORDS, Shape, SlotSet};
use super::leaf::Leaf;

/// A live key and its slot.
pub(super) type Entry<'p, K> = (<K as everleaf_index::KeyKind>::Ref<'p>, u8);

impl<K: LeafKey, M: Media, S: Shape> FpTree<K, M, S> {
    /// Room for the entries of a leaf.
    #[inline(always)]
    pub(super) fn no_entries<'p>() -> [Entry<'p, K>; MAX_SLOTS] {
        [(K::least(), 0); MAX_SLOTS]
    }

    /// Reads the keys of the given live slots, unsorted.
    #[inline(always)]
    pub(super) fn collect<'p, 'e>(
        pool: &'p Pool<M>,
        leaf: Leaf<'p, S>,
        slots: SlotSet,
        entries: &'e mut [Entry<'p, K>; MAX_SLOTS],
    ) -> Result<&'e mut [Entry<'p, K>], IndexError> {
        let media = pool.media();
        if K::RECORDS {
            slots.for_each(|slot| K::prefetch(pool, media.load(leaf.key(slot))));
        }
        let mut count = 0;
        for (slot, entry) in slots.zip(entries.iter_mut()) {
            *entry = (K::read(pool, media.load(leaf.key(slot)))?, slot as u8);
            count += 1;
        }
        Ok(&mut entries[..count])
    }

    /// Visits entries in key order from `from` on.
    pub(super) fn scan_from(
        &self,
        from: Bound<K::Ref<'_>>,
        direction: Direction,
        visit: &mut Visit<'_, K>,
    ) -> Result<(), IndexError> {
        let mut leaves = match (from, direction) {
            (Bound::Included(key) | Bound::Excluded(key), _) => self.inner.seek(key),
            (Bound::Unbounded, _) => self.inner.start(direction),
        };
        let mut bound = from;
        let mut next = Some(leaves.current());
        while let Some(leaf_offset) = next {
            let leaf = self.leaf(leaf_offset)?;
            next = leaves.step(direction);
            if let Some(next) = next {
                self.leaf(next)?.prefetch_all(self.pool.media());
            }
            if self.visit_leaf(leaf, bound, direction, visit)?.is_break() {
                break;
            }
            bound = Bound::Unbounded; // All keys of the leaves that follow are beyond it.
        }
        Ok(())
    }

    #[inline(always)]
    fn visit_leaf(
        &self,
        leaf: Leaf<'_, S>,
        bound: Bound<K::Ref<'_>>,
        direction: Direction,
        visit: &mut Visit<'_, K>,
    ) -> Result<ControlFlow<()>, IndexError> {
        let media = self.pool.media();
        let mut entries = Self::no_entries();
        let mut entries = Self::collect(&self.pool, leaf, leaf.live(media).and(self.shape.all()), &mut entries)?;
        entries.sort_unstable_by(|a, b| K::cmp_keys(a.0, b.0));
        let split = |at: Bound<K::Ref<'_>>, entries: &[Entry<'_, K>], equal_is_before: bool| match at {
            Bound::Unbounded => None,
            Bound::Included(key) | Bound::Excluded(key) => Some(entries.partition_point(|entry| {
                let order = K::cmp_keys(entry.0, key);
                order.is_lt() || order.is_eq() && equal_is_before
            })),
        };
        let excluded = matches!(bound, Bound::Excluded(_));
        let mut words = [0; MAX_VALUE_WORDS];
        let words = &mut words[..self.shape.value_words()];
        let mut visit_entry = |entry: &Entry<'_, K>| {
            leaf.read_value(media, usize::from(entry.1), words);
            visit(entry.0, words)
        };
        Ok(match direction {
            Direction::Forward => {
                let start = split(bound, entries, excluded).unwrap_or(0);
                entries = &mut entries[start..];
                entries.iter().try_for_each(&mut visit_entry)
            }
            Direction::Backward => {
                let end = split(bound, entries, !excluded).unwrap_or(entries.len());
                entries[..end].iter().rev().try_for_each(&mut visit_entry)
            }
        })
    }
}
