//! Every persistent byte of a node, of a run of nodes and of the anchor, and the words in them.
//!
//! ```text
//! anchor   line 0    root | first free node | a key's record | a separator's record | reserved
//!          line 1..  the log: commit word (words of records) | records: target, words
//! run      nodes of one size, the first of which is its head: how many of them were ever taken
//! node of wbtree-slot     word 0      slot array: count, 7 places
//!                         word 1      level
//!                         word 2..    entries, in places
//! node of wbtree-bitmap   line 0      slot array: count, 63 places
//!                         word 8      bitmap: bit 0 = the slot array is valid, bit 1 + p = place p
//!                         word 9      level
//!                         word 10..   entries, in places
//! free node               the last place: FREE, the next free node
//! ```
//!
//! An entry of a leaf is a key word and the words of a value, one of an inner node a key word and
//! the offset of a child; the key that leads to the first child means nothing. The slot array has
//! the places by ascending keys, a byte each. What lies in places that it does not name means
//! nothing. A node that is taken gets half of its entries at most, and is in the list of free nodes
//! until that is committed: so the last place keeps what is there.
//!
//! The slot array of a node with a bitmap has a line of its own: it may be durable earlier or later
//! than the bitmap, so the flag is needed, and so is every flush.

use everleaf_pmem::{LINE, PCell, PPtr, WORD, Word, persistent};
use everleaf_pool::{Node, NodeKind};

use everleaf_tree::path::MAX_LEVELS;

/// Words in a line.
pub(super) const LINE_WORDS: usize = LINE / WORD;
/// Words of the log, its commit word among them.
pub(super) const LOG_WORDS: usize = 168;
/// Entries of a node whose slot array is one word.
pub(super) const WORD_SLOTS: usize = WORD - 1;
/// Entries of a node whose slot array is one line.
pub(super) const LINE_SLOTS: usize = LINE - 1;
/// The first word of the last place of a free node.
pub(super) const FREE: u64 = u64::from_le_bytes(*b"freenode");
/// Words of a value at most.
pub(super) const MAX_VALUE_WORDS: usize = 14;

persistent! {
    /// What the index has beside its nodes.
    pub struct WbAnchor {
        /// The root; null: the tree was never opened.
        pub root: PCell<PPtr<WbNode>>,
        /// The first of the free nodes that were in use before.
        pub free: PCell<PPtr<WbNode>>,
        /// The record of a key that comes into the tree or leaves it; in the tree, or null.
        pub key: PCell,
        /// The same of a separator.
        pub separator: PCell,
        /// Zero.
        pub _reserved: [PCell; 4],
        /// How many words of records follow, 0: none; the records.
        pub log: [PCell; LOG_WORDS],
    }

    /// The first line of a node.
    pub struct WbNode {
        /// As the variant has them.
        pub words: [PCell; 8],
    }
}

/// Nodes of the tree.
pub(super) const NODES: NodeKind = NodeKind::new(1);

impl Node for WbNode {
    const KIND: NodeKind = NODES;
}

const _: () = {
    // The log begins a line: its first records become durable no later than the commit word.
    assert!(std::mem::offset_of!(WbAnchor, log) == LINE);
    // The removal of a leaf is its longest content: the slot array and the bitmap of a node, the
    // key that means nothing any more, the root, the first free node, and of each level two nodes
    // that become free: those above the leaf, and those that led to the new root alone.
    assert!(1 + (1 + LINE_WORDS) + 2 + 2 + 2 + 2 + MAX_LEVELS * 2 * 3 <= LOG_WORDS);
    // A bitmap has a bit for each place, and the flag.
    assert!(LINE_SLOTS < u64::BITS as usize);
};

/// How far above the leaves a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level(u64);

impl Word for Level {
    #[inline(always)]
    fn into_word(self) -> u64 {
        self.0
    }
    #[inline(always)]
    fn from_word(word: u64) -> Self {
        Self(word)
    }
}

impl Level {
    /// So many levels above the leaves.
    #[inline(always)]
    pub const fn new(level: u8) -> Self {
        Self(level as u64)
    }
    /// Levels above the leaves; none if the word is damaged.
    #[inline(always)]
    pub const fn get(self) -> Option<u8> {
        if self.0 < MAX_LEVELS as u64 { Some(self.0 as u8) } else { None }
    }
}

/// Which places of a node have entries, and whether its slot array is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bitmap(u64);

impl Word for Bitmap {
    #[inline(always)]
    fn into_word(self) -> u64 {
        self.0
    }
    #[inline(always)]
    fn from_word(word: u64) -> Self {
        Self(word)
    }
}

impl Bitmap {
    /// No entries, and a valid slot array.
    const EMPTY: Self = Self(1);

    /// Whether the slot array says what the other bits say.
    #[inline(always)]
    pub const fn is_valid(self) -> bool {
        self.0 & 1 == 1
    }
    /// The same with a slot array that is not valid.
    #[inline(always)]
    pub const fn invalid(self) -> Self {
        Self(self.0 & !1)
    }
    /// Whether a place has an entry.
    #[inline(always)]
    pub const fn has(self, place: usize) -> bool {
        self.0 >> 1 >> place & 1 == 1
    }
    /// The same with an entry in a place; a damaged slot array may name one that no node has.
    #[inline(always)]
    #[must_use]
    pub const fn with(self, place: usize) -> Self {
        if place < LINE_SLOTS { Self(self.0 | 2 << place) } else { self }
    }
    /// The same without an entry in a place.
    #[inline(always)]
    #[must_use]
    pub const fn without(self, place: usize) -> Self {
        if place < LINE_SLOTS { Self(self.0 & !(2 << place)) } else { self }
    }
    /// The first place without an entry.
    #[inline(always)]
    pub const fn first_free(self) -> usize {
        (self.0 >> 1).trailing_ones() as usize
    }
    /// How many entries there are.
    pub const fn count(self) -> usize {
        (self.0 >> 1).count_ones() as usize
    }
}

/// The slot array of a node: how many entries it has, and their places by ascending keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots([u8; LINE]);

impl Slots {
    /// The places from 0 on, in this order.
    pub fn first(count: usize) -> Self {
        Self::of(0..count)
    }
    /// These places, in this order.
    pub fn of(places: impl IntoIterator<Item = usize>) -> Self {
        let mut bytes = [0; LINE];
        for (slot, place) in places.into_iter().take(LINE_SLOTS).enumerate() {
            bytes[0] = slot as u8 + 1;
            bytes[slot + 1] = place as u8;
        }
        Self(bytes)
    }
    /// From its words, of which there are eight at most.
    pub fn from_words(words: impl Iterator<Item = u64>) -> Self {
        let mut bytes = [0; LINE];
        for (part, word) in bytes.chunks_exact_mut(WORD).zip(words) {
            part.copy_from_slice(&word.to_le_bytes());
        }
        Self(bytes)
    }
    /// A word of it.
    pub fn word(&self, index: usize) -> u64 {
        let mut bytes = [0; WORD];
        bytes.copy_from_slice(&self.0[index * WORD..][..WORD]);
        u64::from_le_bytes(bytes)
    }
    /// The word that has the place of a slot, and how far from its end.
    #[inline(always)]
    pub const fn position(slot: usize) -> (usize, u32) {
        ((slot + 1) / WORD, ((slot + 1) % WORD * 8) as u32)
    }
    /// Entries.
    pub fn count(&self) -> usize {
        usize::from(self.0[0]).min(LINE_SLOTS)
    }
    /// The places, by ascending keys.
    pub fn places(&self) -> &[u8] {
        &self.0[1..=self.count()]
    }
    /// An entry more, before those from this slot on. There must be room.
    #[must_use]
    pub fn with(mut self, slot: usize, place: usize) -> Self {
        let count = self.count();
        self.0.copy_within(slot + 1..=count, slot + 2);
        (self.0[slot + 1], self.0[0]) = (place as u8, count as u8 + 1);
        self
    }
    /// The entry of a slot is in another place.
    #[must_use]
    pub fn moved(mut self, slot: usize, place: usize) -> Self {
        self.0[slot + 1] = place as u8;
        self
    }
    /// Without the entry of a slot.
    #[must_use]
    pub fn without(mut self, slot: usize) -> Self {
        let count = self.count();
        self.0.copy_within(slot + 2..=count, slot + 1);
        self.0[0] = count as u8 - 1;
        self
    }
    /// The first entries alone.
    #[must_use]
    pub fn cut(mut self, count: usize) -> Self {
        self.0[0] = count as u8;
        self
    }
    /// The bitmap that says the same.
    pub fn bitmap(&self) -> Bitmap {
        let places = self.places().iter();
        places.fold(Bitmap::EMPTY, |bitmap, place| bitmap.with(usize::from(*place)))
    }
}

/// What nodes of a tree look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    has_bitmap: bool,
    slots: usize,
    value_words: usize,
}

impl Shape {
    /// Nodes with a bitmap or without; none if the slot array has no room for so many entries.
    pub fn new(has_bitmap: bool, slots: u64, value_words: u64) -> Option<Self> {
        let most = if has_bitmap { LINE_SLOTS } else { WORD_SLOTS };
        let (slots, value_words) =
            (usize::try_from(slots).ok()?, usize::try_from(value_words).ok()?);
        ((4..=most).contains(&slots) && (1..=MAX_VALUE_WORDS).contains(&value_words))
            .then_some(Self { has_bitmap, slots, value_words })
    }
    /// Whether nodes have a bitmap, and a slot array of a line; else one of a word.
    #[inline(always)]
    pub const fn has_bitmap(self) -> bool {
        self.has_bitmap
    }
    /// Entries of a node.
    #[inline(always)]
    pub const fn slots(self) -> usize {
        self.slots
    }
    /// Words of a value.
    #[inline(always)]
    pub const fn value_words(self) -> usize {
        self.value_words
    }
    /// Words of the slot array, which begins the node.
    #[inline(always)]
    pub const fn array_words(self) -> usize {
        if self.has_bitmap { LINE_WORDS } else { 1 }
    }
    /// Where the level is; before it lies the word whose store commits a change of a leaf.
    #[inline(always)]
    pub const fn level_index(self) -> usize {
        if self.has_bitmap { LINE_WORDS + 1 } else { 1 }
    }
    /// Words of an entry of a node of this level.
    #[inline(always)]
    pub const fn entry_words(self, level: u8) -> usize {
        if level == 0 { 1 + self.value_words } else { 2 }
    }
    /// Where the entry of a place begins among the words of a node.
    #[inline(always)]
    pub const fn entry_index(self, level: u8, place: usize) -> usize {
        self.level_index() + 1 + place * self.entry_words(level)
    }
    /// Where a free node has what leads on.
    #[inline(always)]
    pub const fn free_index(self) -> usize {
        self.entry_index(0, self.slots - 1)
    }
    /// Words of a node, whole lines: inner nodes have the size of leaves.
    #[inline(always)]
    pub const fn node_words(self) -> usize {
        self.entry_index(0, self.slots).next_multiple_of(LINE_WORDS)
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

    fn places(slots: Slots) -> Vec<usize> {
        slots.places().iter().map(|place| usize::from(*place)).collect()
    }

    proptest! {
        #[test]
        fn a_slot_array_does_what_a_list_does(
            actions in proptest::collection::vec((0..4u8, any::<prop::sample::Index>()), 1..300)
        ) {
            let (mut slots, mut list) = (Slots::first(0), Vec::new());
            for (action, at) in actions {
                let free = slots.bitmap().first_free();
                match action {
                    0 | 1 if list.len() < LINE_SLOTS => {
                        let slot = at.index(list.len() + 1);
                        (slots, _) = (slots.with(slot, free), list.insert(slot, free));
                    }
                    2 if !list.is_empty() => {
                        let slot = at.index(list.len());
                        (slots, _) = (slots.without(slot), list.remove(slot));
                    }
                    3 if !list.is_empty() && list.len() < LINE_SLOTS => {
                        let slot = at.index(list.len());
                        (slots, list[slot]) = (slots.moved(slot, free), free);
                    }
                    _ => {}
                }
                prop_assert_eq!(&places(slots), &list);
                let bitmap = slots.bitmap();
                prop_assert!(bitmap.is_valid() && bitmap.count() == list.len());
                let is_right = |place| bitmap.has(place) == list.contains(&place);
                prop_assert!((0..LINE_SLOTS).all(is_right));
                for (slot, place) in list.iter().enumerate() {
                    let (word, shift) = Slots::position(slot);
                    prop_assert_eq!((slots.word(word) >> shift) as u8, *place as u8);
                }
                let again = Slots::from_words((0..LINE_WORDS).map(|word| slots.word(word)));
                prop_assert_eq!(again, slots);
            }
            prop_assert_eq!(places(slots.cut(list.len() / 2)), &list[..list.len() / 2]);
        }

        #[test]
        fn any_words_are_a_slot_array_and_a_bitmap(words: [u64; 8], bits: u64) {
            let slots = Slots::from_words(words.into_iter());
            prop_assert!(slots.count() <= LINE_SLOTS && slots.bitmap().count() <= LINE_SLOTS);
            let bitmap = Bitmap::from_word(bits);
            prop_assert!(!bitmap.invalid().is_valid() && bitmap.first_free() <= LINE_SLOTS);
            prop_assert_eq!(bitmap.invalid().count(), bitmap.count());
        }
    }

    #[test]
    fn a_level_is_one_that_a_tree_can_have() {
        assert_eq!(Level::new(3).get(), Some(3));
        assert_eq!(Level::new(MAX_LEVELS as u8).get(), None);
    }

    #[test]
    fn the_entries_of_a_node_that_is_taken_leave_alone_what_a_free_node_has() {
        for (has_bitmap, slots, value_words) in
            (4..=LINE_SLOTS).flat_map(|slots| [1, 2, 14].map(|words| (slots > 7, slots, words)))
        {
            let shape = Shape::new(has_bitmap, slots as u64, value_words).unwrap();
            let upper = slots - slots.div_ceil(2);
            assert!(shape.entry_index(0, upper) <= shape.free_index());
            assert!(shape.entry_index(1, upper.max(2)) <= shape.free_index());
        }
    }

    #[test]
    fn nodes_are_whole_lines() {
        for (has_bitmap, slots, value_words, node_bytes) in [
            (false, 4, 1, 128),
            (false, 7, 1, 128),
            (false, 7, 14, 896),
            (true, 4, 1, 192),
            (true, 31, 1, 576),
            (true, 63, 1, 1088),
            (true, 63, 14, 7680),
        ] {
            let shape = Shape::new(has_bitmap, slots, value_words).unwrap();
            assert_eq!(shape.node_bytes(), node_bytes);
        }
        let refused = [(false, 8, 1), (true, 64, 1), (true, 3, 1), (false, 7, 15), (false, 7, 0)];
        for (has_bitmap, slots, value_words) in refused {
            assert_eq!(Shape::new(has_bitmap, slots, value_words), None);
        }
    }
}
