//! The search within one node, in two halves so that a batch can overlap its misses: `begin_search`
//! finds the block, by the marks in the node's head (numbers) or the pivots (byte strings), and
//! prefetches it; `finish_search` finds the slot within the block.

use std::sync::atomic::Ordering::Relaxed;

use everleaf_pmem::DramLine;

use super::heads::Head;
use super::nodes::{Nodes, WORDS};
use super::prefix::compare_prefix;
use crate::key::TreeKey;

/// Where a search stands within a node.
#[derive(Clone, Copy, Debug)]
pub(super) enum Search<'n> {
    /// The slot is in this block of the node with these lines; or, of numbers, in one before it.
    Block { lines: &'n [DramLine], block: usize, word: u64 },
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
        if let Search::Block { lines, block, .. } = search {
            // The words are read at once, the child only after them.
            Self::lines_of_block(lines, block)[1].prefetch();
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
        let (_, child) = self.search(separators, lines, node, key);
        if level > 0 && K::RECORDS && Self::BLOCKS > 1 {
            self.prefetch_block(child, key);
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
        if let Search::Block { lines, block, .. } = search {
            Self::lines_of_block(lines, block).iter().for_each(DramLine::prefetch);
        }
        search
    }

    /// The words and the children of a block.
    #[inline(always)]
    pub(super) fn lines_of_block(lines: &[DramLine], block: usize) -> &[DramLine; 2] {
        let start = Self::BODY + block % Self::BLOCKS * Self::BLOCK_LINES;
        lines[start..].first_chunk().expect("a block has two lines at least")
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
        if word == u64::MAX {
            // As what is not in use.
            return Search::Slot(self.search_slots(separators, node, key, word) as u32);
        }
        let block = match K::RECORDS {
            true => lines[1].count_at_most(self.simd, word),
            false => self.head_of(node.into()).map_or(0, |head| head.block(word)),
        };
        Search::Block { lines, block: block % Self::BLOCKS, word }
    }

    /// The child that covers a number, by the node's head, which says that the node covers it; any
    /// child where the node is changing.
    #[inline(always)]
    pub(super) fn search_by_head(&self, lines: &[DramLine], head: Head<'_>, number: u64) -> u64 {
        let block = head.block_above(number) % Self::BLOCKS;
        Self::lines_of_block(lines, block)[1].prefetch();
        self.search_from(lines, block, number)
    }

    /// The first half of this: the block, which is on its way into the cache.
    #[inline(always)]
    pub(super) fn begin_search_by_head(
        &self,
        lines: &[DramLine],
        head: Head<'_>,
        number: u64,
    ) -> usize {
        let block = head.block_above(number) % Self::BLOCKS;
        Self::lines_of_block(lines, block).iter().for_each(DramLine::prefetch);
        block
    }

    /// The second half.
    #[inline(always)]
    pub(super) fn search_from(&self, lines: &[DramLine], block: usize, number: u64) -> u64 {
        self.find_in_blocks(lines, block, number).1
    }

    /// The slot of a word that is in this block or, of numbers, in one before it, and its child.
    #[inline(always)]
    fn find_in_blocks(&self, lines: &[DramLine], mut block: usize, word: u64) -> (usize, u64) {
        let [words, children] = Self::lines_of_block(lines, block);
        let mut rank = words.count_at_most(self.simd, word);
        let mut children = children;
        // Slot 0 of a node is at most every key that comes here.
        while rank == 0 && block > 0 {
            block -= 1;
            let [words, before] = Self::lines_of_block(lines, block);
            rank = words.count_at_most(self.simd, word);
            children = before;
        }
        let within = rank.wrapping_sub(1) % WORDS;
        (block * WORDS + within, children.0[within].load(Relaxed))
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
        let (lines, block, word) = match search {
            Search::Block { lines, block, word } => (lines, block, word),
            Search::Slot(slot) => return (slot as usize, self.child(node, slot as usize)),
        };
        let (slot, child) = self.find_in_blocks(lines, block, word);
        if K::RECORDS && self.word(node, slot) == word {
            let slot = self.search_equals(separators, node, key, slot, word);
            return (slot, self.child(node, slot));
        }
        (slot, child)
    }

    /// The search by halving, without vectors: for words that could be mistaken for what is not in
    /// use.
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
