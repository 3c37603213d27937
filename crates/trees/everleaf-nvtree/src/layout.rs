//! Every persistent byte of a leaf and of the anchor.
//!
//! ```text
//! anchor   line 0    the first leaf
//! leaf     line 0    fill (elements, live keys) | next leaf | lower bound | hashes (5 words)
//!          line 1..  elements, one behind the other: mark, key word, value words
//! ```
//!
//! A key word is the key itself (`u64`) or a pointer to the record of its bytes. Elements from the
//! count on mean nothing, but for byte-string keys their key words are null outside of operations.
//! Elements are not padded: one of three words lies in one line or in two. The hashes are a byte
//! for each of up to 40 elements, in the line of the count, so they cost no flush; larger leaves,
//! and those of a pool that is made in the order of the slides, have none.

use std::mem::offset_of;

use everleaf_pmem::{LINE, PCell, PPtr, WORD, Word, persistent};
use everleaf_pool::{Node, NodeKind};

/// Words that a value can have at most.
pub(super) const MAX_VALUE_WORDS: usize = 14;
/// Elements that a leaf can have at most.
pub(super) const MAX_SLOTS: usize = 1024;
/// Elements of which the head has hashes, at most.
const HASHED_SLOTS: usize = 40;
/// Words of an element before its value: the mark and the key word.
const ELEMENT_HEAD_WORDS: usize = 2;

persistent! {
    /// The first line of every leaf.
    pub struct LeafHead {
        /// Elements and live keys: the commit word of every append.
        pub fill: PCell<Fill>,
        /// The leaf with the next greater keys; null: this is the last. The commit word of every
        /// change of the leaves behind this one.
        pub next: PCell<PPtr<LeafHead>>,
        /// No live key of the leaf is smaller. Written only before the leaf is published.
        pub lower_bound: PCell,
        /// A byte of its key's hash for each element, eight a word; zero or garbage behind the
        /// count, and in leaves that have none.
        pub hashes: [PCell; 5],
    }

    /// Where the list of leaves begins.
    pub struct ListHead {
        /// The leaf with the least keys; null: the tree was never opened. The commit word of every
        /// change of that leaf.
        pub first: PCell<PPtr<LeafHead>>,
        /// Zero.
        pub _reserved: [PCell; 7],
    }
}

/// Leaves are all that these trees keep in nodes of the pool.
pub(super) const LEAVES: NodeKind = NodeKind::new(1);

impl Node for LeafHead {
    const KIND: NodeKind = LEAVES;
}

/// Bytes of so many elements with values of one word.
const fn array_bytes(slots: usize) -> usize {
    Shape { slots, value_words: 1, hashed: false }.element_index(slots) * WORD
}

const _: () = {
    // The head is one line: its words are flushed together before the leaf is published.
    assert!(size_of::<LeafHead>() == LINE && size_of::<ListHead>() == LINE);
    assert!(offset_of!(LeafHead, hashes) + HASHED_SLOTS == LINE);
    // The element arrays of the slides: 512 bytes to 4 KiB of elements of 24 bytes.
    assert!(array_bytes(21) <= 512 && array_bytes(42) <= 1024);
    assert!(array_bytes(85) <= 2048 && array_bytes(170) <= 4096);
    assert!(MAX_SLOTS <= u32::MAX as usize);
};

/// How full a leaf is: its elements, and the keys that are live by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Fill(u64);

impl Word for Fill {
    #[inline(always)]
    fn into_word(self) -> u64 {
        self.0
    }
    #[inline(always)]
    fn from_word(word: u64) -> Self {
        Self(word)
    }
}

impl Fill {
    /// No element.
    pub const EMPTY: Self = Self(0);

    /// So many elements, each of which is a live key.
    #[inline(always)]
    pub const fn all_live(count: usize) -> Self {
        Self((count as u64) << 32 | count as u64)
    }
    /// Elements.
    #[inline(always)]
    pub const fn count(self) -> usize {
        self.0 as u32 as usize
    }
    /// Live keys.
    #[inline(always)]
    pub const fn live(self) -> usize {
        (self.0 >> 32) as usize
    }
    /// One element and one live key more.
    #[inline(always)]
    pub const fn with_key(self) -> Self {
        Self(self.0.wrapping_add(1 << 32 | 1))
    }
    /// One element more, that replaces the value of a live key.
    #[inline(always)]
    pub const fn with_value(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
    /// One element more, that removes a live key.
    #[inline(always)]
    pub const fn with_removal(self) -> Self {
        Self(self.0.wrapping_add(1).wrapping_sub(1 << 32))
    }
    /// Whether a leaf of so many slots can be so full.
    #[inline(always)]
    pub const fn fits(self, slots: usize) -> bool {
        self.count() <= slots && self.live() <= self.count()
    }
}

/// What an element says of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It is there, with this value.
    Present,
    /// It was removed.
    Removed,
}

/// The first word of an element: its kind, and for byte-string keys 56 bits of the key's hash, so
/// that a search looks at hardly any other record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(u64);

impl Word for Mark {
    #[inline(always)]
    fn into_word(self) -> u64 {
        self.0
    }
    #[inline(always)]
    fn from_word(word: u64) -> Self {
        Self(word)
    }
}

impl Mark {
    /// Bits of the kind.
    const KIND_BITS: u32 = 8;

    /// A mark of this kind, with the lower 56 bits of a tag.
    #[inline(always)]
    pub const fn new(kind: Kind, tag: u64) -> Self {
        let number = match kind {
            Kind::Present => 1,
            Kind::Removed => 2,
        };
        Self(tag << Self::KIND_BITS | number)
    }
    /// The kind; none of a damaged mark.
    #[inline(always)]
    pub const fn kind(self) -> Option<Kind> {
        match self.0 as u8 {
            1 => Some(Kind::Present),
            2 => Some(Kind::Removed),
            _ => None,
        }
    }
    /// The tag.
    #[inline(always)]
    pub const fn tag(self) -> u64 {
        self.0 >> Self::KIND_BITS
    }
}

/// Sizes of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    slots: usize,
    value_words: usize,
    hashed: bool,
}

impl Shape {
    /// None outside 4 to 1024 slots and 1 to 14 words. `hashed`: whether leaves that have room for
    /// them have hashes.
    pub fn new(slots: usize, value_words: usize, hashed: bool) -> Option<Self> {
        let offered =
            (4..=MAX_SLOTS).contains(&slots) && (1..=MAX_VALUE_WORDS).contains(&value_words);
        let hashed = hashed && slots <= HASHED_SLOTS;
        offered.then_some(Self { slots, value_words, hashed })
    }
    /// Whether the head has a byte of hash of each element.
    #[inline(always)]
    pub const fn is_hashed(self) -> bool {
        self.hashed
    }
    /// Elements that a leaf has room for.
    #[inline(always)]
    pub const fn slots(self) -> usize {
        self.slots
    }
    /// Words of a value.
    #[inline(always)]
    pub const fn value_words(self) -> usize {
        self.value_words
    }
    /// The minimal fill factor of a half, in keys: with more live keys than this a full leaf is
    /// split.
    #[inline(always)]
    pub const fn min_fill(self) -> usize {
        self.slots / 2
    }
    /// Words of an element.
    #[inline(always)]
    pub const fn element_words(self) -> usize {
        ELEMENT_HEAD_WORDS + self.value_words
    }
    /// Where an element begins among the words behind the head.
    #[inline(always)]
    pub const fn element_index(self, slot: usize) -> usize {
        slot * self.element_words()
    }
    /// Words behind the head.
    #[inline(always)]
    pub const fn body_words(self) -> usize {
        self.element_index(self.slots).next_multiple_of(LINE / WORD)
    }
    /// Bytes of a leaf, whole lines.
    #[inline(always)]
    pub const fn leaf_bytes(self) -> u64 {
        (size_of::<LeafHead>() + self.body_words() * WORD) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_fill_counts_elements_and_live_keys(live in 1..1000usize, dead in 0..1000usize) {
            let mut fill = Fill::all_live(live);
            for _ in 0..dead {
                fill = fill.with_value();
            }
            prop_assert_eq!((fill.count(), fill.live()), (live + dead, live));
            let (more, less) = (fill.with_key(), fill.with_removal());
            prop_assert_eq!((more.count(), more.live()), (live + dead + 1, live + 1));
            prop_assert_eq!((less.count(), less.live()), (live + dead + 1, live - 1));
            prop_assert!(fill.fits(live + dead) && !fill.fits(live + dead - 1));
            prop_assert_eq!(Fill::from_word(fill.into_word()), fill);
        }

        #[test]
        fn a_mark_keeps_kind_and_tag(tag in 0..1u64 << 56, removed in any::<bool>()) {
            let kind = if removed { Kind::Removed } else { Kind::Present };
            let mark = Mark::from_word(Mark::new(kind, tag).into_word());
            prop_assert_eq!((mark.kind(), mark.tag()), (Some(kind), tag));
        }
    }

    #[test]
    fn a_fill_with_more_live_keys_than_elements_fits_nowhere() {
        assert!(!Fill::EMPTY.with_removal().fits(MAX_SLOTS));
        assert_eq!((Mark::from_word(0).kind(), Mark::from_word(3).kind()), (None, None));
    }

    #[test]
    fn elements_follow_each_other_without_gaps() {
        let shape = Shape::new(32, 1, true).unwrap();
        assert_eq!((shape.element_index(1), shape.leaf_bytes()), (3, 64 + 32 * 24));
        assert_eq!(Shape::new(4, 14, true).unwrap().leaf_bytes(), 64 + 512);
        let hashed = |slots| Shape::new(slots, 1, true).unwrap().is_hashed();
        assert!(hashed(40) && !hashed(41), "the line of the count has room for 40 bytes");
        assert!(Shape::new(3, 1, true).is_none() && Shape::new(4, 15, true).is_none());
    }
}
