//! Every persistent byte of a leaf and of the anchor; those of an inner node are in `encode`.
//!
//! ```text
//! anchor     line 0    the root: where the topmost node is, and how many levels lie below it
//!            line 1    the log: the inner node that is being overwritten, as it was
//!            line 2    two records that may belong to no key (byte-string keys)
//! inner node one line  see `encode`
//! leaf       one line, encoded: see `encode`; or
//!            64 bytes to 1 KiB: a word of live slots, a free word, entries of key and value
//!            2 and 4 KiB: a line of which four words are live slots, then the entries
//! ```
//!
//! An entry's key word is the key (`u64`); a record with 16 bits of the key's hash; or, where an
//! entry has one record (`Shape::one_record`), the key's hash: the value leads to the record then.

use everleaf_pmem::{LINE, Line, PCell, PPtr, WORD, Word, persistent};
use everleaf_pool::{Node, NodeKind, Record};

use everleaf_tree::key::TreeKey;

persistent! {
    /// The first line of every leaf; in the smallest it is all.
    pub struct LeafHead {
        /// Bit i: slot i is live. The commit word of insertions and removals.
        pub live: PCell,
        /// Nothing in leaves of up to 1 KiB, and live slots in larger ones.
        pub more: PCell,
        /// Three entries of key and value in leaves of up to 1 KiB. In larger ones live slots, then
        /// nothing.
        pub rest: [PCell; 6],
    }

    /// An inner node, encoded.
    pub struct InnerLine {
        /// It is all.
        pub line: Line,
    }

    /// A leaf of one line, encoded.
    pub struct LeafLine {
        /// It is all.
        pub line: Line,
    }

    /// The root, the log, and the records of the operation under way.
    pub struct ClfAnchor {
        /// The topmost node. A commit word; null: the tree was never opened.
        pub root: PCell<Root>,
        /// Zero.
        pub _reserved: [PCell; 7],
        /// An inner node, or an encoded leaf, before it is overwritten. It means something to one
        /// that says so, and to nothing else.
        pub log: Line,
        /// The record of a key that is being inserted or removed, or of a live one.
        pub key: PCell<PPtr<Record>>,
        /// The record of a separator, likewise.
        pub separator: PCell<PPtr<Record>>,
        /// Zero.
        pub _unused: [PCell; 6],
    }
}

/// Leaves.
pub(super) const LEAVES: NodeKind = NodeKind::new(1);
/// Inner nodes.
pub(super) const LINES: NodeKind = NodeKind::new(2);

impl Node for LeafHead {
    const KIND: NodeKind = LEAVES;
}
impl Node for LeafLine {
    const KIND: NodeKind = LEAVES;
}
impl Node for InnerLine {
    const KIND: NodeKind = LINES;
}

/// Words of an entry: key and value.
const ENTRY_WORDS: usize = 2;
/// Words that can hold live slots.
const LIVE_WORDS: usize = 4;
/// Words before the entries, in leaves of up to 1 KiB and in larger ones.
const HEAD_WORDS: usize = 2;
const LARGE_HEAD_WORDS: usize = LINE / WORD;
/// Entries that one word of live slots suffices for.
const SLOTS_OF_ONE_WORD: usize = 63;
/// Entries that a leaf may have: 64 bytes to 4 KiB.
pub(super) const SLOTS: &[u64] = &[3, 7, 15, 31, 63, 124, 252];

const _: () = {
    assert!(size_of::<LeafHead>() == LINE && size_of::<InnerLine>() == LINE);
    assert!(size_of::<LeafLine>() == LINE);
    assert!(size_of::<ClfAnchor>() == 3 * LINE);
    // Both records are flushed together, the log by one flush.
    assert!(
        std::mem::offset_of!(ClfAnchor, key) / LINE
            == std::mem::offset_of!(ClfAnchor, separator) / LINE
    );
    assert!(std::mem::offset_of!(ClfAnchor, log).is_multiple_of(LINE));
    // An entry never lies in two lines.
    assert!(HEAD_WORDS.is_multiple_of(ENTRY_WORDS) && LARGE_HEAD_WORDS.is_multiple_of(ENTRY_WORDS));
    assert!(SLOTS[SLOTS.len() - 1] <= (LIVE_WORDS * 64) as u64 && SLOTS_OF_ONE_WORD < 64);
};

/// Where the topmost node is, and how many levels of inner nodes there are. Nodes begin at
/// multiples of 64, so the height has the lower six bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root(u64);

impl Word for Root {
    #[inline(always)]
    fn into_word(self) -> u64 {
        self.0
    }
    #[inline(always)]
    fn from_word(word: u64) -> Self {
        Self(word)
    }
}

impl Root {
    /// The greatest number of levels of inner nodes.
    pub const MAX_HEIGHT: u32 = LINE as u32 - 1;

    /// A node at a multiple of 64, above so many levels.
    #[inline(always)]
    pub const fn new(offset: u64, height: u32) -> Self {
        Self(offset | height as u64)
    }
    /// Of a tree that was never opened.
    #[inline(always)]
    pub const fn is_null(self) -> bool {
        self.offset() == 0
    }
    /// Where the topmost node is.
    #[inline(always)]
    pub const fn offset(self) -> u64 {
        self.0 & !(LINE as u64 - 1)
    }
    /// Levels of inner nodes; 0: the topmost node is a leaf.
    #[inline(always)]
    pub const fn height(self) -> u32 {
        (self.0 % LINE as u64) as u32
    }
}

/// The key word of an entry whose key is a record: where it is, and 16 bits of the key's hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordKey(u64);

impl RecordKey {
    const RECORD_BITS: u32 = 48;
    const RECORD: u64 = (1 << Self::RECORD_BITS) - 1;

    /// Of a record below 2^48, and a tag.
    #[inline(always)]
    pub const fn new(record: u64, tag: u16) -> Self {
        Self(record & Self::RECORD | (tag as u64) << Self::RECORD_BITS)
    }
    /// As it stands in an entry.
    #[inline(always)]
    pub const fn from_word(word: u64) -> Self {
        Self(word)
    }
    /// As it stands in an entry.
    #[inline(always)]
    pub const fn into_word(self) -> u64 {
        self.0
    }
    /// Where the record is.
    #[inline(always)]
    pub const fn record(self) -> u64 {
        self.0 & Self::RECORD
    }
    /// The tag.
    #[inline(always)]
    pub const fn tag(self) -> u16 {
        (self.0 >> Self::RECORD_BITS) as u16
    }
}

/// The live slots of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LiveSet([u64; LIVE_WORDS]);

impl LiveSet {
    /// The first `count` slots, or all there can be.
    pub fn first(count: usize) -> Self {
        let mut words = [0; LIVE_WORDS];
        for (word, bits) in words.iter_mut().enumerate() {
            let in_word = count.saturating_sub(word * 64).min(64) as u32;
            *bits = u64::MAX.checked_shr(64 - in_word).unwrap_or(0);
        }
        Self(words)
    }
    /// With this as one of its words.
    #[must_use]
    #[inline(always)]
    pub const fn with_word(mut self, word: usize, bits: u64) -> Self {
        self.0[word] = bits;
        self
    }
    /// One of its words.
    #[inline(always)]
    pub const fn word(self, word: usize) -> u64 {
        self.0[word]
    }
    /// Which word has the bit of a slot.
    #[inline(always)]
    pub const fn word_of(slot: usize) -> usize {
        slot / 64
    }
    /// Whether a leaf of so many slots can have it.
    #[inline(always)]
    pub fn fits(self, slots: usize) -> bool {
        self.0.iter().zip(Self::first(slots).0).all(|(live, there_are)| live & !there_are == 0)
    }
    /// How many.
    #[inline(always)]
    pub fn count(self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }
    /// The first slot that is not live, below `slots`.
    #[inline(always)]
    pub fn first_free(self, slots: usize) -> Option<usize> {
        let (word, bits) = self.0.iter().enumerate().find(|(_, bits)| **bits != u64::MAX)?;
        let slot = word * 64 + bits.trailing_ones() as usize;
        (slot < slots).then_some(slot)
    }
    /// With this slot.
    #[must_use]
    #[inline(always)]
    pub const fn with(mut self, slot: usize) -> Self {
        self.0[slot / 64] |= 1 << (slot % 64);
        self
    }
    /// Without it.
    #[must_use]
    #[inline(always)]
    pub const fn without(mut self, slot: usize) -> Self {
        self.0[slot / 64] &= !(1 << (slot % 64));
        self
    }
    /// Each of them, ascending.
    #[inline(always)]
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let (mut words, mut word) = (self.0, 0);
        std::iter::from_fn(move || {
            loop {
                let bits = words.get_mut(word)?;
                if *bits == 0 {
                    word += 1;
                    continue;
                }
                let slot = word * 64 + bits.trailing_zeros() as usize;
                *bits &= *bits - 1;
                return Some(slot);
            }
        })
    }
}

/// Sizes of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    slots: usize,
    head_words: usize,
    one_record: bool,
}

impl Shape {
    /// Of a leaf that is one encoded line; its slots mean nothing.
    pub const LINE: Self =
        Self { slots: SLOTS[0] as usize, head_words: HEAD_WORDS, one_record: false };

    /// None for a number of slots that is not on offer.
    pub fn new(slots: u64) -> Option<Self> {
        let slots = SLOTS.contains(&slots).then_some(slots as usize)?;
        let head_words = if slots <= SLOTS_OF_ONE_WORD { HEAD_WORDS } else { LARGE_HEAD_WORDS };
        Some(Self { slots, head_words, one_record: false })
    }
    /// The same, where the values of byte-string keys lead to records that have the keys, and
    /// belong to whoever has put them there.
    #[must_use]
    pub const fn with_one_record(self, one_record: bool) -> Self {
        Self { one_record, ..self }
    }
    /// Whether an entry has one record. Asked of byte-string keys only.
    #[inline(always)]
    pub const fn one_record(self) -> bool {
        self.one_record
    }
    /// Whether key words own records.
    #[inline(always)]
    pub const fn owns_keys<K: TreeKey>(self) -> bool {
        K::RECORDS && !self.one_record
    }
    /// Entries of a leaf of so many bytes, its head included; what no leaf on offer has if there is
    /// none of that size.
    pub const fn slots_of(leaf_bytes: u32) -> u32 {
        let words = leaf_bytes as usize / WORD;
        let small = words.saturating_sub(HEAD_WORDS) / ENTRY_WORDS;
        if small <= SLOTS_OF_ONE_WORD {
            return small as u32;
        }
        (words.saturating_sub(LARGE_HEAD_WORDS) / ENTRY_WORDS) as u32
    }
    /// Entries that a leaf has room for.
    #[inline(always)]
    pub const fn slots(self) -> usize {
        self.slots
    }
    /// Words of live slots.
    #[inline(always)]
    pub const fn live_words(self) -> usize {
        if self.head_words == HEAD_WORDS { 1 } else { LIVE_WORDS }
    }
    /// Where an entry begins among the words of a leaf: its key, then its value.
    #[inline(always)]
    pub const fn entry_index(self, slot: usize) -> usize {
        self.head_words + slot * ENTRY_WORDS
    }
    /// Whether an entry lies in the line of the live slots.
    #[inline(always)]
    pub const fn is_in_first_line(self, slot: usize) -> bool {
        self.entry_index(slot) < LINE / WORD
    }
    /// Lines from the first one to that of the last of so many entries.
    #[inline(always)]
    pub const fn lines_of(self, entries: usize) -> usize {
        self.entry_index(entries).div_ceil(LINE / WORD)
    }
    /// Words of a leaf.
    #[inline(always)]
    pub const fn words(self) -> usize {
        self.lines_of(self.slots) * (LINE / WORD)
    }
    /// Bytes of a leaf: a power of two.
    #[inline(always)]
    pub const fn leaf_bytes(self) -> u64 {
        (self.words() * WORD) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn live_slots_are_those_that_were_put_in(
            slots: std::collections::BTreeSet<u8>,
            count in 0..256usize,
        ) {
            let put = slots.iter().fold(LiveSet::default(), |live, slot| live.with(*slot as usize));
            prop_assert!(put.iter().eq(slots.iter().map(|slot| *slot as usize)));
            prop_assert_eq!(put.count(), slots.len());
            let free = (0..256).find(|slot| !slots.contains(&(*slot as u8)));
            prop_assert_eq!(put.first_free(256), free);
            prop_assert!(LiveSet::first(count).iter().eq(0..count));
            prop_assert!(LiveSet::first(count).fits(count));
            prop_assert!(!LiveSet::first(count + 1).fits(count));
            let none = slots.iter().fold(put, |live, slot| live.without(*slot as usize));
            prop_assert_eq!(none, LiveSet::default());
        }

        #[test]
        fn a_root_keeps_place_and_height(line in 0..1u64 << 58, height in 0..64u32) {
            let root = Root::from_word(Root::new(line * 64, height).into_word());
            prop_assert_eq!((root.offset(), root.height()), (line * 64, height));
        }

        #[test]
        fn a_key_of_a_record_keeps_place_and_tag(record in 0..1u64 << 48, tag: u16) {
            let key = RecordKey::from_word(RecordKey::new(record, tag).into_word());
            prop_assert_eq!((key.record(), key.tag()), (record, tag));
        }
    }

    #[test]
    fn leaves_are_powers_of_two_and_as_many_bytes_as_their_slots_stand_for() {
        for (slots, bytes) in SLOTS.iter().zip([64, 128, 256, 512, 1024, 2048, 4096]) {
            let shape = Shape::new(*slots).unwrap();
            assert_eq!(shape.leaf_bytes(), bytes);
            assert_eq!(u64::from(Shape::slots_of(bytes as u32)), *slots);
        }
        assert!(Shape::new(4).is_none());
        assert_eq!(Shape::LINE.leaf_bytes(), LINE as u64);
    }
}
