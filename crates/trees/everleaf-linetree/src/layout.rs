//! Every persistent byte of a leaf.
//!
//! ```text
//! leaf     line 0     live | lower bound | dying | from | spare | reserved
//!          line 1..   four entries each: key word, value
//! ```
//!
//! The top bit of all keys of a leaf is the same, that of its lower bound, and is left out of key
//! words, whose lowest bit says that the entry is there. So every key and every value is legal, and
//! the one store of its key word adds an entry.
//!
//! The key word of a byte string is its hash, whose lowest bit is left out instead; the value leads
//! to the record that has the key. Bounds are in records of their own.

use everleaf_pmem::{LINE, Line, PCell, PPtr, WORD, Word, persistent};
use everleaf_pool::{Node, NodeKind, Record};

use everleaf_tree::key::{EntryHash, KeyHash, TreeKey};

/// Entries in a line.
pub(super) const ENTRIES: usize = 4;
/// Entries that a leaf has at most.
pub(super) const MAX_ENTRIES: usize = 15 * ENTRIES;
/// Lines that an entry may be in, from its home on.
pub(super) const WINDOW: usize = 4;
/// The words of a line that are key words, as a mask.
pub(super) const KEY_WORDS: u64 = 0b0101_0101;
/// What `live` is of a leaf of the tree: so many bits that none is free by one that is wrong.
pub(super) const LIVE: u64 = 0x6c69_6e65_7472_6565;
/// Where the upper half of all keys begins: no leaf has keys of both.
pub const HALF: u64 = 1 << 63;

persistent! {
    /// The first line of every leaf.
    pub struct LeafHead {
        /// 0x6c696e6574726565: the leaf is of the tree; 0: it is free, and nothing else of it means
        /// anything.
        pub live: PCell,
        /// No key of the leaf is smaller. It falls when the leaf before it dies, and never rises.
        /// Of byte strings it is where the record of the bound is, 0 for the least key; a live leaf
        /// owns it.
        pub lower_bound: PCell,
        /// The leaf that takes over the range of this one. It has, exactly if it is live and has
        /// the same lower bound.
        pub dying: PCell<PPtr<LeafHead>>,
        /// The leaf that may still have what this one has got of it (byte strings; else null).
        pub from: PCell<PPtr<LeafHead>>,
        /// The record of a bound that a free leaf owns (byte strings): one that it is to get, or
        /// that of the leaf which has taken its range over. Of a live leaf it means nothing.
        pub spare: PCell<PPtr<Record>>,
        /// Zero or garbage.
        pub _reserved: [PCell; 3],
    }

    /// A leaf.
    pub struct Leaf<const LINES: usize> {
        /// Its bounds.
        pub head: LeafHead,
        /// Its entries: in each line four pairs of a key word and a value.
        pub lines: [Line; LINES],
    }
}

persistent! {
    /// The anchor of a tree that has its own records: those of the change that is being made.
    pub struct OwnLog {
        /// The record that comes; null: none.
        pub new: PCell<PPtr<Record>>,
        /// The record that goes; null: none.
        pub old: PCell<PPtr<Record>>,
        /// Zero.
        pub _reserved: [PCell; 6],
    }
}

/// Leaves are all that the tree keeps in nodes of the pool.
pub(super) const LEAVES: NodeKind = NodeKind::new(1);

impl Node for LeafHead {
    const KIND: NodeKind = LEAVES;
}

/// Bytes of a leaf of so many lines.
pub(super) const fn leaf_bytes(lines: usize) -> u64 {
    ((1 + lines) * LINE) as u64
}

const _: () = {
    // One line: a flush of `old` is one of `new`.
    assert!(size_of::<OwnLog>() == LINE);
    // The head is one line: `live` is durable no earlier than what is stored before it.
    assert!(size_of::<LeafHead>() == LINE && size_of::<Leaf<15>>() == 16 * LINE);
    // An entry never straddles a line: its key word is durable no earlier than its value.
    assert!(ENTRIES * 2 * WORD == LINE && leaf_bytes(15) == 1024);
};

/// The word of an entry's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyWord(u64);

impl Word for KeyWord {
    #[inline(always)]
    fn into_word(self) -> u64 {
        self.0
    }
    #[inline(always)]
    fn from_word(word: u64) -> Self {
        Self(word)
    }
}

impl KeyWord {
    /// No entry, and none ever went on past this line because of it.
    pub const NEVER_USED: Self = Self(0);
    /// No entry, and others may have gone on past this line.
    pub const DEAD: Self = Self(2);
    /// That of the last key of a half.
    pub const GREATEST: Self = Self(u64::MAX);

    /// That of a key, without its top bit.
    #[inline(always)]
    pub const fn of(number: u64) -> Self {
        Self(number << 1 | 1)
    }
    /// The hash of a byte string.
    #[inline(always)]
    pub const fn hash(self) -> EntryHash {
        EntryHash::of_odd_word(self.0)
    }
    /// Whether there is an entry.
    #[inline(always)]
    pub const fn is_entry(self) -> bool {
        self.0 & 1 != 0
    }
    /// The key, in a leaf of this half.
    #[inline(always)]
    pub const fn number(self, half: u64) -> u64 {
        self.0 >> 1 | half
    }
}

/// The key word of a key.
#[inline(always)]
pub(super) fn key_word<K: TreeKey>(key: K::Ref<'_>) -> KeyWord {
    if K::RECORDS { KeyWord(K::hash(key).odd_word()) } else { KeyWord::of(K::word(key, 0)) }
}

/// The half of all keys that a key is in: its top bit.
#[inline(always)]
pub(super) const fn half_of(number: u64) -> u64 {
    number & HALF
}

/// The same of any key: byte strings are all in the lower one.
#[inline(always)]
pub(super) fn half<K: TreeKey>(key: K::Ref<'_>) -> u64 {
    if K::RECORDS { 0 } else { half_of(K::word(key, 0)) }
}

/// The last key word that a leaf which ends before this key covers. A leaf of byte strings has
/// entries of its range only, whatever their words.
#[inline(always)]
pub(super) fn last_of<K: TreeKey>(upper: Option<&K::Owned>) -> KeyWord {
    let upper = upper.filter(|_| !K::RECORDS);
    last_before(upper.map(|upper| K::word(K::borrow(upper), 0)))
}

/// The last key word that a leaf which ends before `upper` covers: the greatest of all if it is the
/// last one of its half.
#[inline(always)]
pub(super) fn last_before(upper: Option<u64>) -> KeyWord {
    let upper = upper.filter(|upper| *upper != HALF);
    upper.map_or(KeyWord::GREATEST, |upper| KeyWord(KeyWord::of(upper).0 - 1))
}

/// The line where a key's entry is if there is room.
#[inline(always)]
pub(super) fn home<K: TreeKey, const LINES: usize>(key: K::Ref<'_>) -> usize {
    K::as_word(key).map_or_else(|| K::hash(key), spread).home(LINES)
}

/// The same by the key word in a leaf of this half.
#[inline(always)]
pub(super) fn home_of<K: TreeKey, const LINES: usize>(word: KeyWord, half: u64) -> usize {
    match K::RECORDS {
        true => KeyHash::new(word.0).home(LINES),
        false => home::<K, LINES>(K::of(word.number(half), &[])),
    }
}

/// Evenly spread bits of a number. Its upper 60 bits are mixed, so that numbers at a regular
/// distance do not share lines; sixteen neighbours differ by the golden ratio, so that they take
/// lines in turn. The first factor is that of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
#[inline(always)]
const fn spread(number: u64) -> KeyHash {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = (number >> 4).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(GOLDEN);
    KeyHash::new(mixed.wrapping_add((number & 15).wrapping_mul(GOLDEN)))
}

/// The lines that an entry may be in, by its home.
#[inline(always)]
pub(super) fn window<const LINES: usize>(home: usize) -> impl Iterator<Item = usize> {
    let wrapped = move |line| if line < LINES { line } else { line - LINES };
    (home..home + WINDOW.min(LINES)).map(wrapped)
}

/// What is looked for in a leaf.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    /// The key word.
    pub word: KeyWord,
    /// The first line of its window.
    pub home: usize,
}

/// An entry's place in a line.
#[derive(Clone, Copy)]
pub(super) struct Slot<'p> {
    pub line: &'p Line,
    pub number: usize,
}

impl<'p> Slot<'p> {
    /// All of a line.
    #[inline(always)]
    pub fn all_of(line: &'p Line) -> impl Iterator<Item = Self> {
        (0..ENTRIES).map(move |number| Self { line, number })
    }
    /// The other slots of its line.
    #[inline(always)]
    pub fn others(self) -> impl Iterator<Item = Self> {
        Self::all_of(self.line).filter(move |other| other.number != self.number)
    }
    /// The cell of its key word.
    #[inline(always)]
    pub fn key(self) -> &'p PCell<KeyWord> {
        self.line.0[2 * self.number].view()
    }
    /// The cell of its value.
    #[inline(always)]
    pub fn value(self) -> &'p PCell {
        &self.line.0[2 * self.number + 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everleaf_index::U64Keys;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn key_words_tell_keys_of_a_half_apart_and_in_order(a in any::<u64>(), b in any::<u64>()) {
            let word = KeyWord::of(a);
            prop_assert!(word.is_entry() && !KeyWord::DEAD.is_entry());
            prop_assert!(!KeyWord::NEVER_USED.is_entry());
            prop_assert_eq!(word.number(half_of(a)), a);
            prop_assert_eq!(KeyWord::from_word(word.into_word()), word);
            let b = b & !HALF | half_of(a);
            prop_assert_eq!(word.cmp(&KeyWord::of(b)), a.cmp(&b));
        }

        #[test]
        fn a_window_has_lines_of_the_leaf_and_none_twice(bits in any::<u64>()) {
            fn lines<const LINES: usize>(bits: u64) -> Vec<usize> {
                window::<LINES>(home::<U64Keys, LINES>(bits)).collect()
            }
            let windows = [(lines::<2>(bits), 2), (lines::<6>(bits), 6), (lines::<15>(bits), 15)];
            for (window, lines) in windows {
                let mut sorted = window.clone();
                sorted.sort_unstable();
                sorted.dedup();
                prop_assert_eq!(sorted.len(), WINDOW.min(lines));
                prop_assert!(window.iter().all(|line| *line < lines));
            }
        }
    }
}
