//! The search within one node, in two halves so that a batch can overlap its misses: `begin_search`
//! finds the block by the pivot lines and prefetches it; `finish_search` finds the slot within the
//! block.

use std::sync::atomic::Ordering::Relaxed;

use everleaf_pmem::DramLine;

use super::nodes::{Nodes, WORDS};
use super::prefix::compare_prefix;
use super::words::FIRST_AMBIGUOUS_WORD;
use crate::key::TreeKey;

/// Where a search stands within a node.
#[derive(Clone, Copy, Debug)]
pub(super) enum Search<'n> {
    /// The slot is in this block: its words, then its children.
    Block { lines: &'n [DramLine], first_slot: u32, word: u64 },
    /// It is this slot.
    Slot(u32),
}

impl<K: TreeKey, const CAPACITY: usize> Nodes<K, CAPACITY> {
    /// The child that covers `key`, and its slot: the last one whose separator is at most `key`, or
    /// the first. `lines` are those of `node`.
    #[inline(always)]
    pub(super) fn search(
        &self,
        separators: &K::Separators,
        lines: &[DramLine],
        node: u32,
        key: K::Ref<'_>,
    ) -> (usize, u64) {
        let search = self.choose_block(separators, lines, node, key);
        if let Search::Block { lines, .. } = search {
            lines[1].prefetch(); // The words are read at once, the child only after them.
        }
        self.finish_search(separators, node, key, search)
    }

    /// The child that covers `key`, on the way of one key: with `level` nodes below this one, what
    /// is needed of the next is on its way into the cache.
    #[inline(always)]
    pub(super) fn pass(
        &self,
        separators: &K::Separators,
        lines: &[DramLine],
        node: u32,
        key: K::Ref<'_>,
        level: u32,
    ) -> u64 {
        let (slot, child) = self.search(separators, lines, node, key);
        if level > 0 && Self::HAS_HINTS {
            self.prefetch_block(child as u32, self.word(node, slot), key);
        }
        child
    }

    /// Finds the block that holds the slot, and prefetches it.
    #[inline(always)]
    pub(super) fn begin_search<'n>(
        &'n self,
        separators: &K::Separators,
        lines: &'n [DramLine],
        node: u32,
        key: K::Ref<'_>,
    ) -> Search<'n> {
        let search = self.choose_block(separators, lines, node, key);
        if let Search::Block { lines, .. } = search {
            lines.iter().for_each(DramLine::prefetch);
        }
        search
    }

    /// Finds the block that holds the slot.
    #[inline(always)]
    fn choose_block<'n>(
        &'n self,
        separators: &K::Separators,
        lines: &'n [DramLine],
        node: u32,
        key: K::Ref<'_>,
    ) -> Search<'n> {
        let mut skip = 0;
        if K::RECORDS {
            let prefix = &lines[0];
            skip = prefix.0[0].load(Relaxed) as usize;
            match compare_prefix::<K>(key, prefix) {
                std::cmp::Ordering::Less => return Search::Slot(0),
                std::cmp::Ordering::Equal => {}
                std::cmp::Ordering::Greater => {
                    return Search::Slot(self.count(node).saturating_sub(1) as u32);
                }
            }
        }
        let word = K::word(key, skip);
        if word >= FIRST_AMBIGUOUS_WORD {
            return Search::Slot(self.search_slots(separators, node, key, word) as u32);
        }
        let body = Self::BODY as usize;
        let (mut segment, mut first_slot) = (&lines[body..], 0);
        if Self::SEGMENTS > 1 {
            let number = lines[body].count_at_most(self.simd, word);
            segment = self.arena.lines_at(self.segment(node, number), Self::SEGMENT_LINES);
            first_slot = number * Self::SEGMENT_BLOCKS * WORDS;
        }
        let pivots = segment[..Self::PIVOT_LINES].iter();
        // Never more than there are blocks, but for a racing reader, which may meet another segment
        // than the pivot speaks of.
        let block = pivots.map(|line| line.count_at_most(self.simd, word)).sum::<usize>()
            % Self::SEGMENT_BLOCKS;
        let start = Self::PIVOT_LINES + block * Self::BLOCK_LINES;
        let lines = &segment[start..start + 2];
        Search::Block { lines, first_slot: (first_slot + block * WORDS) as u32, word }
    }

    /// Finds the slot within its block, and the child in it.
    #[inline(always)]
    pub(super) fn finish_search(
        &self,
        separators: &K::Separators,
        node: u32,
        key: K::Ref<'_>,
        search: Search<'_>,
    ) -> (usize, u64) {
        let (words, children, first_slot, word) = match search {
            Search::Block { lines, first_slot, word } => {
                (&lines[0], &lines[1], first_slot as usize, word)
            }
            Search::Slot(slot) => return (slot as usize, self.child(node, slot as usize)),
        };
        // Slot 0 of a node is at most every key that comes here; the rank is never 0.
        let within = words.count_at_most(self.simd, word).wrapping_sub(1) % WORDS;
        if K::RECORDS && words.0[within].load(Relaxed) == word {
            let slot = self.search_equals(separators, node, key, first_slot + within, word);
            return (slot, self.child(node, slot));
        }
        (first_slot + within, children.0[within].load(Relaxed))
    }

    /// The search by halving, without vectors: for words that could be mistaken for padding.
    #[cold]
    fn search_slots(
        &self,
        separators: &K::Separators,
        node: u32,
        key: K::Ref<'_>,
        word: u64,
    ) -> usize {
        let slot = partition_point(1, self.count(node), |slot| self.word(node, slot) <= word) - 1;
        if !K::RECORDS || self.word(node, slot) != word {
            slot
        } else {
            self.search_equals(separators, node, key, slot, word)
        }
    }

    /// `last` is the last slot whose word equals that of the key: compares whole separators among
    /// the equal ones.
    #[inline(never)]
    fn search_equals(
        &self,
        separators: &K::Separators,
        node: u32,
        key: K::Ref<'_>,
        last: usize,
        word: u64,
    ) -> usize {
        let first = partition_point(1, last + 1, |slot| self.word(node, slot) < word);
        let skip = self.skip(node);
        partition_point(first, last + 1, |slot| {
            K::compare_kept(separators, self.kept(node, slot), key, skip).is_le()
        }) - 1
    }
}

/// The first of `from..to` for which `before` does not hold (all that do come first); `to` if it
/// holds for all. At least `from`.
fn partition_point(from: usize, to: usize, before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (from, to);
    while low < high {
        let middle = low.midpoint(high);
        if before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}
