//! Nodes in an arena of lines: their layout and their words.
//!
//! A segment holds up to 512 slots in blocks of eight: `[pivot lines][block 0][block 1]..`. A block
//! is a line of separator words and a line of children (and a line of handles where the word is not
//! all). Slots are dense: every block but the last is full. The first word of block `b` (from 1) is
//! repeated as pivot `b - 1`; what is unused of pivots, and of the last block's words, is
//! `u64::MAX`. So a search reads the pivot lines (independent of each other), then one block. The
//! last pivot word is the node's own ([`NodeWord`]: count, lock, version): to a search that looks
//! like padding.
//!
//! Nodes of up to 512 slots are one segment. Larger ones are `[pivots of segments, count][table of
//! 8 segments]`, and segments are taken as they fill up, so that a half-full node of 4096 does not
//! take the memory of a full one.
//!
//! Readers may race with one that changes the node, and are told so afterwards. Until then whatever
//! they read must not lead them out of the arena: a segment never has more pivots than its blocks
//! allow, child numbers are checked before they are followed, and what is not in use leads nowhere
//! or to something of the same kind.

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
    /// The [hints](super::hints) of nodes.
    pub(super) hints: DramArena,
    pub(super) simd: SimdLevel,
    /// Changed at every split: apart from what readers read.
    pub(super) memory: CachePadded<Memory>,
    kind: std::marker::PhantomData<K>,
}

impl<K: TreeKey, const CAPACITY: usize> Nodes<K, CAPACITY> {
    const SEGMENT_SLOTS: usize = if CAPACITY > 512 { 512 } else { CAPACITY };
    pub(super) const SEGMENTS: usize = CAPACITY / Self::SEGMENT_SLOTS;
    pub(super) const SEGMENT_BLOCKS: usize = Self::SEGMENT_SLOTS.div_ceil(WORDS);
    pub(super) const PIVOT_LINES: usize = Self::SEGMENT_BLOCKS.div_ceil(WORDS);
    pub(super) const BLOCK_LINES: usize = if !K::RECORDS { 2 } else { 3 };
    pub(super) const SEGMENT_LINES: usize =
        Self::PIVOT_LINES + Self::SEGMENT_BLOCKS * Self::BLOCK_LINES;
    /// Line of the shared prefix, where there is one.
    const PREFIX_LINES: usize = if !K::RECORDS { 0 } else { 1 };
    /// The first segment of a small node; the pivots of segments of a large one.
    pub(super) const BODY: u32 = Self::PREFIX_LINES as u32;
    pub(super) const NODE_LINES: usize =
        Self::PREFIX_LINES + if Self::SEGMENTS == 1 { Self::SEGMENT_LINES } else { 2 };
    /// What a search of a node reads first, but at most four lines: more would be too many for the
    /// CPU to await at once.
    const HEAD_LINES: usize = {
        let lines = Self::PREFIX_LINES + if Self::SEGMENTS == 1 { Self::PIVOT_LINES } else { 2 };
        if lines < 4 { lines } else { 4 }
    };
    /// Where the node's own word is, in lines from the node.
    pub(super) const COUNT_LINE: u32 =
        Self::BODY + if Self::SEGMENTS == 1 { Self::PIVOT_LINES as u32 - 1 } else { 0 };

    /// The closed list of capacities, and what the layout relies on.
    pub(super) const VALID: () = {
        assert!(
            matches!(CAPACITY, 4 | 8 | 16 | 32 | 64 | 128 | 256 | 512 | 4096),
            "not on the list of inner capacities"
        );
        assert!(Self::SEGMENTS <= WORDS, "the table of segments is one line");
        assert!(
            Self::SEGMENT_BLOCKS <= Self::PIVOT_LINES * WORDS,
            "one pivot fewer than blocks leaves room for the node's word"
        );
        assert!(CAPACITY <= NodeWord::MAX_COUNT);
        assert!(Self::SEGMENT_BLOCKS.is_power_of_two(), "a block number is cut to size by a mask");
    };

    pub(super) fn new(dram: DramSource<'_>) -> Result<Self, MapError> {
        let () = Self::VALID;
        let (arena, hints) = (dram.reserve(RESERVED_BYTES)?, dram.reserve(Self::HINT_BYTES)?);
        Ok(Self {
            arena,
            hints,
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
        Self::atom_in(self.lines(node))
    }

    /// The own word of the node with these lines.
    #[inline(always)]
    pub(super) fn atom_in(lines: &[DramLine]) -> &AtomicU64 {
        &lines[Self::COUNT_LINE as usize].0[WORDS - 1]
    }

    /// All lines of a node. A search takes them once and need not ask again whether they are there.
    #[inline(always)]
    pub(super) fn lines(&self, node: u32) -> &[DramLine] {
        self.arena.lines_at(node, Self::NODE_LINES)
    }

    /// The lines of all nodes.
    #[inline(always)]
    pub(super) fn all_lines(&self) -> &[DramLine] {
        self.arena.all()
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

    pub(super) fn set_node_word(&self, node: u32, word: NodeWord) {
        self.atom(node).store(word.bits(), Relaxed);
    }

    /// Slots in use.
    #[inline(always)]
    pub(super) fn count(&self, node: u32) -> usize {
        self.node_word(node).count()
    }

    /// Sets the count; takes the segments that are needed now (reserved by the caller) and frees
    /// those that are not.
    pub(super) fn set_count(&self, node: u32, count: usize) {
        if Self::SEGMENTS > 1 {
            let (had, wanted) = (self.segments_in_use(node), count.div_ceil(Self::SEGMENT_SLOTS));
            for segment in had..wanted {
                self.store(node + Self::BODY + 1, segment, u64::from(self.allocate_segment()));
            }
            for segment in wanted..had {
                self.free_segment(self.load(node + Self::BODY + 1, segment) as u32);
            }
        }
        self.set_node_word(node, self.node_word(node).with_count(count));
    }

    /// Segments that a large node has taken.
    pub(super) fn segments_in_use(&self, node: u32) -> usize {
        if Self::SEGMENTS == 1 { 0 } else { self.count(node).div_ceil(Self::SEGMENT_SLOTS) }
    }

    /// The line of the node's shared prefix (byte strings only).
    #[inline(always)]
    pub(super) fn prefix(&self, node: u32) -> &DramLine {
        self.arena.line(node)
    }

    /// Bytes that the node's words leave out.
    #[inline(always)]
    pub(super) fn skip(&self, node: u32) -> usize {
        if !K::RECORDS { 0 } else { self.load(node, 0) as usize }
    }

    #[inline(always)]
    pub(super) fn segment(&self, node: u32, segment: usize) -> u32 {
        if Self::SEGMENTS == 1 {
            node + Self::BODY
        } else {
            self.load(node + Self::BODY + 1, segment) as u32
        }
    }

    /// The line of words of a block; children (and handles) are in the lines after it.
    #[inline(always)]
    pub(super) fn block(&self, node: u32, block: usize) -> u32 {
        let segment = self.segment(node, block / Self::SEGMENT_BLOCKS);
        segment + (Self::PIVOT_LINES + block % Self::SEGMENT_BLOCKS * Self::BLOCK_LINES) as u32
    }

    /// Where the first word of a block is repeated for the search: line and word. Block 0 has no
    /// pivot.
    fn pivot_place(&self, node: u32, block: usize) -> Option<(u32, usize)> {
        let (segment, within) = (block / Self::SEGMENT_BLOCKS, block % Self::SEGMENT_BLOCKS);
        match (segment, within) {
            (0, 0) => None,
            (_, 0) => Some((node + Self::BODY, segment - 1)),
            _ => Some((
                self.segment(node, segment) + ((within - 1) / WORDS) as u32,
                (within - 1) % WORDS,
            )),
        }
    }

    /// Repeats the first word of a block where the search looks for it; `u64::MAX` if the block is
    /// not in use.
    pub(super) fn set_pivot(&self, node: u32, block: usize, word: u64) {
        if let Some((line, place)) = self.pivot_place(node, block) {
            self.store(line, place, word);
        }
    }

    /// The pivot of a block from 1 on.
    pub(super) fn pivot(&self, node: u32, block: usize) -> u64 {
        self.pivot_place(node, block).map_or(0, |(line, place)| self.load(line, place))
    }

    /// Prefetches the lines that a search of the node reads first.
    #[inline(always)]
    pub(super) fn prefetch_head(&self, node: u32) {
        (0..Self::HEAD_LINES).for_each(|line| self.arena.prefetch(node + line as u32));
    }

    /// The word by which a slot is searched.
    #[inline(always)]
    pub(super) fn word(&self, node: u32, slot: usize) -> u64 {
        self.load(self.block(node, slot / WORDS), slot % WORDS)
    }

    /// The separator in a slot.
    pub(super) fn kept(&self, node: u32, slot: usize) -> Kept {
        let block = self.block(node, slot / WORDS);
        let handle = if !K::RECORDS { 0 } else { self.load(block + 2, slot % WORDS) };
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
