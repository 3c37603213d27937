//! Nodes in an arena of lines: their layout and their words.
//!
//! A node has up to 64 slots in blocks of eight: `[block 0][block 1]..`. A block is a line of
//! separator words and a line of children, so a pair of adjacent lines, which come from memory
//! together. Slots are dense: every block but the last is full. What is unused of the last block's
//! words, is `u64::MAX`. Which block a key is in, the node's [head](super::heads) says, which is
//! apart: so a search reads one block.
//!
//! Byte strings have a line of handles in each block, and before the blocks a line with what all
//! separators share and a line of pivots: the first words of the blocks from 1 on, and `u64::MAX`
//! for those that are not in use. There a search reads these two first.
//!
//! Readers may race with one that changes the node, and are told so afterwards. Until then whatever
//! they read must not lead them out of the arena: blocks are counted modulo those that there are,
//! child numbers are checked before they are followed, and what is not in use leads nowhere or to
//! something of the same kind.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crossbeam_utils::CachePadded;
use everleaf_pmem::{DramArena, DramLine, DramSource, MapError, SimdLevel};

use crate::latch::LatchWord;

use super::RESERVED_BYTES;
use super::memory::Memory;
use super::words::NodeWord;
use crate::key::{Kept, TreeKey};

/// Words in a line, and slots in a block.
pub(super) const WORDS: usize = 8;

/// The nodes of one tree.
#[derive(Debug)]
pub(super) struct Nodes<K: TreeKey, const CAPACITY: usize> {
    pub(super) arena: DramArena,
    /// The [heads](super::heads) of nodes.
    pub(super) heads: DramArena,
    pub(super) simd: SimdLevel,
    /// Changed at every split: apart from what readers read.
    pub(super) memory: CachePadded<Memory>,
    kind: std::marker::PhantomData<K>,
}

impl<K: TreeKey, const CAPACITY: usize> Nodes<K, CAPACITY> {
    pub(super) const BLOCKS: usize = CAPACITY.div_ceil(WORDS);
    pub(super) const BLOCK_LINES: usize = if K::RECORDS { 3 } else { 2 };
    /// Lines before the first block: what separators share, and pivots.
    pub(super) const BODY: usize = if K::RECORDS { 2 } else { 0 };
    pub(super) const NODE_LINES: usize = Self::BODY + Self::BLOCKS * Self::BLOCK_LINES;

    /// The closed list of capacities, and what the layout relies on.
    pub(super) const VALID: () = {
        assert!(matches!(CAPACITY, 4 | 8 | 16 | 32 | 64), "not on the list of inner capacities");
        assert!(Self::BLOCKS <= WORDS, "pivots are one line");
        assert!(CAPACITY <= NodeWord::MAX_COUNT);
        assert!(Self::NODE_LINES.is_power_of_two() || K::RECORDS, "node_at is one instruction");
        assert!(Self::BLOCKS.is_power_of_two(), "a block number is cut to size by a mask");
    };

    pub(super) fn new(dram: DramSource<'_>) -> Result<Self, MapError> {
        let () = Self::VALID;
        let (arena, heads) = (dram.reserve(RESERVED_BYTES)?, dram.reserve(Self::HEAD_BYTES)?);
        Ok(Self {
            arena,
            heads,
            simd: dram.simd,
            memory: CachePadded::default(),
            kind: std::marker::PhantomData,
        })
    }

    /// The line of a word, and the word in it.
    #[inline(always)]
    pub(super) fn load(&self, line: u32, word: usize) -> u64 {
        self.arena.line(line).0[word].load(Relaxed)
    }

    #[inline(always)]
    pub(super) fn store(&self, line: u32, word: usize, value: u64) {
        self.arena.line(line).0[word].store(value, Relaxed);
    }

    pub(super) fn fill(&self, line: u32, value: u64) {
        self.arena.line(line).0.iter().for_each(|word| word.store(value, Relaxed));
    }

    /// The node's own word.
    #[inline(always)]
    pub(super) fn atom(&self, node: u32) -> &AtomicU64 {
        self.head(node).atom()
    }

    /// All lines of a node. A search takes them once and need not ask again whether they are there.
    #[inline(always)]
    pub(super) fn lines(&self, node: u32) -> &[DramLine] {
        self.arena.lines_at(node, Self::NODE_LINES)
    }

    /// The lines of the node that a child number leads to, if that may be a node; racing readers
    /// come with any number.
    #[inline(always)]
    pub(super) fn lines_of_child(&self, child: u64) -> Option<&[DramLine]> {
        self.arena.get(child as u32, Self::NODE_LINES)
    }

    #[inline(always)]
    pub(super) fn node_word(&self, node: u32) -> NodeWord {
        NodeWord::from_bits(self.atom(node).load(Relaxed))
    }

    /// Slots in use.
    #[inline(always)]
    pub(super) fn count(&self, node: u32) -> usize {
        self.node_word(node).count()
    }

    /// Sets the count.
    pub(super) fn set_count(&self, node: u32, count: usize) {
        self.atom(node).store(self.node_word(node).with_count(count).bits(), Relaxed);
    }

    /// The line of the node's shared prefix (byte strings only).
    #[inline(always)]
    pub(super) fn prefix(&self, node: u32) -> &DramLine {
        self.arena.line(node)
    }

    /// Bytes that the node's words leave out.
    #[inline(always)]
    pub(super) fn skip(&self, node: u32) -> usize {
        if K::RECORDS { self.load(node, 0) as usize } else { 0 }
    }

    /// The line of words of a block; children (and handles) are in the lines after it.
    #[inline(always)]
    pub(super) fn block(&self, node: u32, block: usize) -> u32 {
        node + (Self::BODY + block * Self::BLOCK_LINES) as u32
    }

    /// Repeats the first words of the blocks from `from` on as pivots (byte strings only).
    pub(super) fn set_pivots(&self, node: u32, from: usize) {
        if K::RECORDS {
            let words = (from.max(1)..WORDS).map(|block| (block, self.first_word(node, block)));
            words.for_each(|(block, word)| self.store(node + 1, block - 1, word));
        }
    }

    /// The first word of a block; `u64::MAX` if it is not in use.
    pub(super) fn first_word(&self, node: u32, block: usize) -> u64 {
        match block * WORDS < self.count(node) {
            true => self.load(self.block(node, block), 0),
            false => u64::MAX,
        }
    }

    /// Prefetches what a search of the node reads before its block.
    #[inline(always)]
    pub(super) fn prefetch_beginning(&self, node: u32) {
        (0..Self::BODY).for_each(|line| self.arena.prefetch(node + line as u32));
    }

    /// The word by which a slot is searched.
    #[inline(always)]
    pub(super) fn word(&self, node: u32, slot: usize) -> u64 {
        self.load(self.block(node, slot / WORDS), slot % WORDS)
    }

    /// The separator in a slot.
    pub(super) fn kept(&self, node: u32, slot: usize) -> Kept {
        let block = self.block(node, slot / WORDS);
        let handle = if K::RECORDS { self.load(block + 2, slot % WORDS) } else { 0 };
        Kept { word: self.load(block, slot % WORDS), handle }
    }

    /// The child in a slot.
    #[inline(always)]
    pub(super) fn child(&self, node: u32, slot: usize) -> u64 {
        self.load(self.block(node, slot / WORDS) + 1, slot % WORDS)
    }

    pub(super) fn set_child(&self, node: u32, slot: usize, child: u64) {
        self.store(self.block(node, slot / WORDS) + 1, slot % WORDS, child);
    }
}
