//! Every persistent byte of a node, of the log and of the anchor.
//!
//! ```text
//! anchor   line 0    the root
//! node     line 0    state (level, elements) | reserved
//!          line 1..  elements, one behind the other, by ascending keys: mark, key, value
//! log      two halves, each: commit word | records, one behind the other: target, words
//! ```
//!
//! In a leaf the value of an element is the key's value. In an inner node it is the offset of a
//! child, and the key is the least that belongs there; that of the first element means nothing.
//! Elements are not padded: one of three words lies in one line or in two. What is behind the last
//! element means nothing.

use everleaf_pmem::{LINE, PCell, PPtr, WORD, Word, persistent};
use everleaf_pool::{Node, NodeKind};

use everleaf_tree::path::MAX_LEVELS;
use everleaf_tree::redo::Target;

/// Elements that a node can have at most.
pub(super) const MAX_SLOTS: usize = 1024;
/// Words of an element.
pub(super) const ELEMENT_WORDS: usize = 3;
/// Words in a line.
pub(super) const LINE_WORDS: usize = LINE / WORD;
/// Words of the head of a node.
pub(super) const HEAD_WORDS: usize = LINE_WORDS;
/// The mark of an element.
pub(super) const PRESENT: u64 = 1;

persistent! {
    /// The first line of every node.
    pub struct LcbHead {
        /// Level and elements.
        pub state: PCell<State>,
        /// Zero or garbage.
        pub _reserved: [PCell; 7],
    }

    /// Where the tree begins.
    pub struct LcbRoot {
        /// The root; null: the tree was never opened.
        pub root: PCell<PPtr<LcbHead>>,
        /// Zero.
        pub _reserved: [PCell; 7],
    }
}

/// Nodes of the tree.
pub(super) const NODES: NodeKind = NodeKind::new(1);
/// The log.
pub(super) const LOG: NodeKind = NodeKind::new(2);

impl Node for LcbHead {
    const KIND: NodeKind = NODES;
}

const _: () = {
    // The head is one line, and elements begin a line.
    assert!(size_of::<LcbHead>() == LINE && HEAD_WORDS * WORD == LINE);
    // The root is one word, which a record of the log can have.
    assert!(size_of::<LcbRoot>() == LINE && std::mem::offset_of!(LcbRoot, root) == 0);
    // The whole of a node is one record.
    assert!(HEAD_WORDS + MAX_SLOTS * ELEMENT_WORDS < 1 << Target::LENGTH_BITS);
    // The element arrays of the slides: 512 bytes to 4 KiB of elements of 24 bytes.
    assert!(ELEMENT_WORDS * WORD == 24);
};

/// How far above the leaves a node is, and how many elements it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State(u64);

impl Word for State {
    #[inline(always)]
    fn into_word(self) -> u64 {
        self.0
    }
    #[inline(always)]
    fn from_word(word: u64) -> Self {
        Self(word)
    }
}

impl State {
    /// A node of this level, 0 being that of leaves, with so many elements.
    #[inline(always)]
    pub const fn new(level: u8, count: usize) -> Self {
        Self((level as u64) << 32 | count as u64)
    }
    /// Levels above the leaves; a damaged word may say too many.
    #[inline(always)]
    pub const fn level(self) -> u64 {
        self.0 >> 32
    }
    /// Elements.
    #[inline(always)]
    pub const fn count(self) -> usize {
        self.0 as u32 as usize
    }
}

/// The commit word of a half of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Commit(u64);

impl Word for Commit {
    #[inline(always)]
    fn into_word(self) -> u64 {
        self.0
    }
    #[inline(always)]
    fn from_word(word: u64) -> Self {
        Self(word)
    }
}

impl Commit {
    /// No operation was committed.
    pub const NONE: Self = Self(0);

    /// The operation after this one, with so many words of records.
    #[inline(always)]
    pub const fn next(self, words: usize) -> Self {
        Self((self.sequence().wrapping_add(1) as u64) << 32 | words as u64)
    }
    /// Its number; those of two operations in a row differ by one, modulo 2^32.
    #[inline(always)]
    pub const fn sequence(self) -> u32 {
        (self.0 >> 32) as u32
    }
    /// Words of its records.
    #[inline(always)]
    pub const fn words(self) -> usize {
        self.0 as u32 as usize
    }
    /// Whether it was committed after the other.
    #[inline(always)]
    pub const fn is_after(self, other: Self) -> bool {
        self.sequence().wrapping_sub(other.sequence()) as i32 > 0
    }
    /// Whether the two halves of a log, the even one first, can have these commit words: those of
    /// two operations in a row, or of none.
    pub const fn are_in_a_row(even: Self, odd: Self) -> bool {
        let step = odd.sequence().wrapping_sub(even.sequence());
        (even.0 | odd.0) == 0 || even.half() == 0 && (step == 1 || step == u32::MAX)
    }
    /// The half of the log that it is in.
    #[inline(always)]
    pub const fn half(self) -> usize {
        (self.sequence() & 1) as usize
    }
}

/// Sizes of a node and of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    slots: usize,
}

impl Shape {
    /// None outside 4 to 1024 slots.
    pub fn new(slots: u64) -> Option<Self> {
        let slots = usize::try_from(slots).ok()?;
        (4..=MAX_SLOTS).contains(&slots).then_some(Self { slots })
    }
    /// Elements that a node has room for.
    #[inline(always)]
    pub const fn slots(self) -> usize {
        self.slots
    }
    /// Where an element begins among the words of a node.
    #[inline(always)]
    pub const fn element_index(slot: usize) -> usize {
        HEAD_WORDS + slot * ELEMENT_WORDS
    }
    /// Words of a node, whole lines.
    #[inline(always)]
    pub const fn node_words(self) -> usize {
        Self::element_index(self.slots).next_multiple_of(LINE_WORDS)
    }
    /// Bytes of a node.
    #[inline(always)]
    pub const fn node_bytes(self) -> u64 {
        (self.node_words() * WORD) as u64
    }
    /// Levels of the highest tree. A node splits once in `slots / 2` elements that it gets, at
    /// most: more levels than these take 2^40 insertions, or 2^24 where nodes have 4 slots.
    pub const fn max_levels(self) -> usize {
        let bits = (self.slots / 2).ilog2() as usize;
        let levels = 40usize.div_ceil(bits) + 1;
        if levels < MAX_LEVELS { levels } else { MAX_LEVELS }
    }
    /// Words of one half of the log, whole lines: the commit word, the root, and a node of each
    /// level, whole or in two ranges.
    pub const fn half_words(self) -> usize {
        let words = 1 + 2 + self.max_levels() * (2 + self.node_words());
        words.next_multiple_of(LINE_WORDS)
    }
    /// Bytes of the log.
    pub const fn log_bytes(self) -> u64 {
        (2 * self.half_words() * WORD) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_state_keeps_level_and_count(level in any::<u8>(), count in 0..=MAX_SLOTS) {
            let state = State::from_word(State::new(level, count).into_word());
            prop_assert_eq!((state.level(), state.count()), (u64::from(level), count));
        }

        #[test]
        fn commits_take_turns_and_come_one_after_the_other(sequence: u32, words: u32) {
            let one = Commit::from_word(u64::from(sequence) << 32 | 7);
            let next = Commit::from_word(one.next(words as usize).into_word());
            prop_assert!(next.is_after(one) && !one.is_after(next) && !one.is_after(one));
            prop_assert_eq!((next.words(), next.half()), (words as usize, 1 - one.half()));
            let (even, odd) = if one.half() == 0 { (one, next) } else { (next, one) };
            prop_assert!(Commit::are_in_a_row(even, odd) && !Commit::are_in_a_row(odd, even));
            prop_assert!(!Commit::are_in_a_row(even, even));
            let later = odd.next(1).next(1).next(1).next(1);
            prop_assert!(!Commit::are_in_a_row(even, later));
        }
    }

    #[test]
    fn a_log_begins_with_no_operation_and_then_has_the_first() {
        assert!(Commit::are_in_a_row(Commit::NONE, Commit::NONE));
        assert!(Commit::are_in_a_row(Commit::NONE, Commit::NONE.next(3)));
        assert!(!Commit::are_in_a_row(Commit::NONE.next(3), Commit::NONE));
    }

    #[test]
    fn nodes_and_logs_are_whole_lines() {
        for (slots, node_bytes, levels) in
            [(4, 192, 24), (21, 576, 15), (32, 832, 11), (170, 4160, 8), (1024, 24640, 6)]
        {
            let shape = Shape::new(slots).unwrap();
            assert_eq!((shape.node_bytes(), shape.max_levels()), (node_bytes, levels));
            assert!(shape.log_bytes().is_multiple_of(2 * LINE as u64));
        }
        assert!(Shape::new(3).is_none() && Shape::new(1025).is_none());
    }
}
