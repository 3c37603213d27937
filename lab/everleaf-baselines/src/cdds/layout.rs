//! Every persistent byte of a node and of the anchor.
//!
//! ```text
//! anchor   line 0    current version | two roots
//! node     line 0..  entries, two a line, by ascending keys and versions: key, start, end, value
//! ```
//!
//! An entry holds for the versions from `start` to before `end`. In a leaf its value is the key's
//! value. In an inner node it is a child, and the key is the least that belongs there; that of the
//! first live entry means nothing. A slot whose `start` is 0 is empty, whatever else it has.

use everleaf_pmem::{LINE, PCell, WORD, Word, persistent};
use everleaf_pool::NodeKind;

/// Slots that a node can have at most.
pub(super) const MAX_SLOTS: usize = 256;
/// Levels that a tree can have at most.
pub(super) const MAX_LEVELS: usize = 24;
/// Words of an entry.
pub(super) const ENTRY_WORDS: usize = 4;
/// Slots in a line.
pub(super) const LINE_SLOTS: usize = LINE / WORD / ENTRY_WORDS;
/// The `start` of an empty slot.
pub(super) const EMPTY: u64 = 0;
/// The `end` of an entry that holds still.
pub(super) const LIVE: u64 = u64::MAX;
/// Versions are less than this one.
pub(super) const VERSIONS: u64 = 1 << 62;

persistent! {
    /// Where the tree begins.
    pub struct CddsRoot {
        /// The version that the tree is of, and which of the roots counts; zero: it was never
        /// opened.
        pub current: PCell<Current>,
        /// The root, and that of a version before or to come; both null: the tree was never opened.
        pub roots: [PCell<Child>; 2],
        /// Zero.
        pub _reserved: [PCell; 5],
    }
}

/// Nodes of the tree.
pub(super) const NODES: NodeKind = NodeKind::new(1);

const _: () = {
    // The stores of a commit are to one line, in which their order is kept.
    assert!(size_of::<CddsRoot>() == LINE);
    // An entry lies in one line.
    assert!(LINE_SLOTS * ENTRY_WORDS * WORD == LINE && ENTRY_WORDS * WORD == 32);
    // A version and one bit are a word, and no version is that of a live entry's end.
    assert!(VERSIONS < 1 << 63 && VERSIONS < LIVE);
    // A level fits beside the offset of a node, which begins a line.
    assert!(MAX_LEVELS < LINE);
};

/// The version that the tree is of, and which of the two roots counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Current(u64);

impl Word for Current {
    #[inline(always)]
    fn into_word(self) -> u64 {
        self.0
    }
    #[inline(always)]
    fn from_word(word: u64) -> Self {
        Self(word)
    }
}

impl Current {
    /// That of a tree that no operation has changed.
    pub const FIRST: Self = Self(1 << 1);

    /// The version; a damaged word may say one that cannot be.
    #[inline(always)]
    pub const fn version(self) -> u64 {
        self.0 >> 1
    }
    /// Which root counts.
    #[inline(always)]
    pub const fn root(self) -> usize {
        (self.0 & 1) as usize
    }
    /// The version after this one, of the same root or of the other one.
    #[inline(always)]
    pub const fn next(self, other_root: bool) -> Self {
        Self((self.version() + 1) << 1 | (self.0 & 1) ^ other_root as u64)
    }
}

/// A node, and how far above the leaves it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child(u64);

impl Word for Child {
    #[inline(always)]
    fn into_word(self) -> u64 {
        self.0
    }
    #[inline(always)]
    fn from_word(word: u64) -> Self {
        Self(word)
    }
}

impl Child {
    /// None.
    pub const NULL: Self = Self(0);

    /// The node at this offset, a multiple of 64, of this level, 0 being that of leaves.
    #[inline(always)]
    pub const fn new(offset: u64, level: u8) -> Self {
        Self(offset | level as u64)
    }
    /// Bytes from the pool's base.
    #[inline(always)]
    pub const fn offset(self) -> u64 {
        self.0 & !(LINE as u64 - 1)
    }
    /// Levels above the leaves; a damaged word may say too many.
    #[inline(always)]
    pub const fn level(self) -> u8 {
        (self.0 & (LINE as u64 - 1)) as u8
    }
}

/// Sizes of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    slots: usize,
}

impl Shape {
    /// None outside 4 to 256 slots, or where they do not fill lines.
    pub fn new(slots: u64) -> Option<Self> {
        let slots = usize::try_from(slots).ok()?;
        let fits = (4..=MAX_SLOTS).contains(&slots) && slots.is_multiple_of(LINE_SLOTS);
        fits.then_some(Self { slots })
    }
    /// Slots of a node.
    #[inline(always)]
    pub const fn slots(self) -> usize {
        self.slots
    }
    /// Words of a node, whole lines.
    #[inline(always)]
    pub const fn node_words(self) -> usize {
        self.slots * ENTRY_WORDS
    }
    /// Bytes of a node.
    #[inline(always)]
    pub const fn node_bytes(self) -> u64 {
        (self.node_words() * WORD) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_child_keeps_place_and_level(line in 0..1u64 << 41, level in 0..MAX_LEVELS as u8) {
            let child = Child::from_word(Child::new(line * 64, level).into_word());
            prop_assert_eq!((child.offset(), child.level()), (line * 64, level));
        }

        #[test]
        fn versions_come_one_after_the_other_and_keep_the_root_or_change_it(
            word in 0..VERSIONS << 1,
            other: bool,
        ) {
            let one = Current::from_word(word);
            let next = Current::from_word(one.next(other).into_word());
            prop_assert_eq!(next.version(), one.version() + 1);
            prop_assert_eq!(next.root(), one.root() ^ usize::from(other));
        }
    }

    #[test]
    fn only_whole_lines_are_nodes() {
        let is_shape = |slots| Shape::new(slots).is_some();
        assert!([4, 6, 32, 256].into_iter().all(is_shape));
        assert!(![0, 2, 5, 258, u64::MAX].into_iter().any(is_shape));
        assert_eq!(Shape::new(16).unwrap().node_bytes(), 512);
    }
}
