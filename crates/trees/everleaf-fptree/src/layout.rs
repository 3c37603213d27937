//! Every persistent byte of a leaf and of the anchor.
//!
//! ```text
//! leaf     line 0    bitmap (8 bytes) | 56 one-byte fingerprints
//!          line 1    lower bound (key, or pointer to its record; 0 is the minimum) | reserved
//!          line 2..  FPTree: entries, each a key word and its value words
//!                    PTree:  the key words, padded to a line, then the value words of each slot
//! anchor   line 0    the micro-log of a split (concurrent tree: a line for each worker)
//! ```
//!
//! A key word is the key itself (`u64`), a pointer to the record of its bytes, or, in a tree whose
//! entries have one record each (`Shape::one_record`), the hash of its bytes, which are in the
//! record that the value leads to. Slots whose bit is 0 are *dead*: what they hold means nothing,
//! but where key words own records it is null outside of operations.
//!
//! The sizes of the body are a [`Shape`]: known at compile time for the default sizes, a value for
//! all others, so that a tree is compiled twice and not once for each of the hundreds of sizes on
//! offer.

use everleaf_pmem::{LINE, Line, PCell, PPtr, WORD, Word, persistent};
use everleaf_pool::{Node, NodeKind, Record};

use everleaf_tree::key::{KeyHash, TreeKey};

/// Words in a line.
const LINE_WORDS: usize = LINE / WORD;
/// Slots that a leaf can have at most: its fingerprints share a line with the bitmap.
pub(super) const MAX_SLOTS: usize = LINE - WORD;
/// Words that a value can have at most.
pub(super) const MAX_VALUE_WORDS: usize = 14;

persistent! {
    /// The first two lines of every leaf.
    pub struct LeafHead {
        /// Word 0: the bitmap, the commit word of every operation. Words 1 to 7: fingerprints,
        /// durable no later than the bitmap that was stored after them.
        pub line0: Line,
        /// No key of the leaf is smaller. Written only while the leaf is free, but for the leftmost
        /// leaf's, which becomes the minimum.
        pub lower_bound: PCell,
        /// Zero or garbage.
        pub _reserved: [PCell; 7],
    }

    /// The micro-log of a split, one line: `current` is stored last and is therefore durable last.
    pub struct SplitLog {
        /// The bitmap that `current` has after the split.
        pub left_bitmap: PCell<SlotSet>,
        /// The bitmap that `new` has after the split.
        pub new_bitmap: PCell<SlotSet>,
        /// The leaf that takes the upper half.
        pub new: PCell<PPtr<LeafHead>>,
        /// The leaf that is split; null: no split is under way.
        pub current: PCell<PPtr<LeafHead>>,
        /// Zero.
        pub _reserved: [PCell; 4],
    }
}

persistent! {
    /// What a worker of the concurrent tree is doing, one line for each of the pool's workers. A
    /// split uses the first three words, each cleared no earlier than the one after it; the removal
    /// of a leaf the last.
    pub struct WorkerLog {
        /// The leaf that is split; null: none, or not yet.
        pub current: PCell<PPtr<LeafHead>>,
        /// The leaf that was allocated for the upper half.
        pub new: PCell<PPtr<LeafHead>>,
        /// The record of its lower bound, until the split is committed (byte-string keys).
        pub bound: PCell<PPtr<Record>>,
        /// A leaf that has left the tree and is to be freed.
        pub removed: PCell<PPtr<LeafHead>>,
        /// Zero.
        pub _reserved: [PCell; 4],
    }

    /// The anchor of the concurrent tree.
    pub struct WorkerLogs {
        /// By the slot of the worker.
        pub logs: [WorkerLog; 64],
    }
}

/// Leaves are all that these trees keep in nodes of the pool.
pub(super) const LEAVES: NodeKind = NodeKind::new(1);

impl Node for LeafHead {
    const KIND: NodeKind = LEAVES;
}

const _: () = {
    // A worker's log is one line: its words become durable in the order in which they are cleared.
    // All fit into the anchor.
    assert!(size_of::<WorkerLog>() == LINE && size_of::<WorkerLogs>() <= 4096);
    // Bitmap and fingerprints share a line, the lower bound is in the next, the body starts a line.
    assert!(std::mem::offset_of!(LeafHead, line0) == 0 && size_of::<Line>() == LINE);
    assert!(
        std::mem::offset_of!(LeafHead, lower_bound) == LINE && size_of::<LeafHead>() == 2 * LINE
    );
    // The whole log is one line: p-atomic `current` makes it valid.
    assert!(size_of::<SplitLog>() == LINE);
    // 16-byte entries never straddle a line: one flush makes key and value durable.
    assert!(LINE.is_multiple_of(2 * WORD) && leaf_bytes(true, 56, 1) == 16 * LINE as u64);
    // The paper's PTree leaf.
    assert!(leaf_bytes(false, 32, 1) == 10 * LINE as u64);
    assert!(MAX_SLOTS <= u64::BITS as usize);
};

/// A set of slots: the bitmap of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SlotSet(u64);

impl Word for SlotSet {
    #[inline(always)]
    fn into_word(self) -> u64 {
        self.0
    }
    #[inline(always)]
    fn from_word(word: u64) -> Self {
        Self(word)
    }
}

impl SlotSet {
    /// No slot.
    pub const EMPTY: Self = Self(0);

    /// The first `count` slots, of at most 63.
    #[inline(always)]
    pub const fn first(count: usize) -> Self {
        Self((1 << count) - 1)
    }
    /// The set that a bitmap word stands for.
    #[inline(always)]
    pub const fn of_bitmap(word: u64) -> Self {
        Self(word)
    }
    /// Whether there is none.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// How many there are.
    #[inline(always)]
    pub const fn count(self) -> usize {
        self.0.count_ones() as usize
    }
    /// Whether `slot` is among them.
    #[inline(always)]
    pub const fn contains(self, slot: usize) -> bool {
        self.0 >> slot & 1 == 1
    }
    /// The set and `slot`.
    #[inline(always)]
    pub const fn with(self, slot: usize) -> Self {
        Self(self.0 | 1 << slot)
    }
    /// The set but for `slot`.
    #[inline(always)]
    pub const fn without(self, slot: usize) -> Self {
        Self(self.0 & !(1 << slot))
    }
    /// The slots of both.
    #[inline(always)]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
    /// The slots of this set that are not in `other`.
    #[inline(always)]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
    /// The slots whose fingerprints matched, given the mask of matching bytes of line 0, whose
    /// first word is the bitmap.
    #[inline(always)]
    pub const fn of_line_mask(mask: u64) -> Self {
        Self(mask >> WORD)
    }
    /// The slots from `start` on, at most `count` of them.
    #[inline(always)]
    pub const fn window(self, start: usize, count: usize) -> Self {
        Self(self.0 & Self::first(count).0 << start)
    }
    /// The lowest slot.
    #[inline(always)]
    pub const fn lowest(self) -> Option<usize> {
        if self.0 == 0 { None } else { Some(self.0.trailing_zeros() as usize) }
    }
}

/// Slots in ascending order.
impl Iterator for SlotSet {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let slot = self.lowest()?;
        self.0 &= self.0 - 1;
        Some(slot)
    }
}

/// Eight fingerprints: one word of line 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprints(u64);

impl Word for Fingerprints {
    #[inline(always)]
    fn into_word(self) -> u64 {
        self.0
    }
    #[inline(always)]
    fn from_word(word: u64) -> Self {
        Self(word)
    }
}

impl Fingerprints {
    /// Fingerprints in a word.
    pub const PER_WORD: usize = WORD;

    /// The fingerprint at `index` in the word.
    #[inline(always)]
    pub const fn get(self, index: usize) -> u8 {
        (self.0 >> (index * 8)) as u8
    }
    /// The word with the fingerprint at `index` replaced.
    #[inline(always)]
    pub const fn with(self, index: usize, fingerprint: u8) -> Self {
        Self(self.0 & !(0xff << (index * 8)) | (fingerprint as u64) << (index * 8))
    }
}

/// Slots that a leaf may have.
pub(super) const SLOTS: &[u64] = &[4, 8, 16, 32, 48, 56];

/// Sizes of a leaf's body.
pub trait Shape: Copy + Send + Sync + 'static {
    /// FPTree (fingerprints, keys beside their values) or PTree (no fingerprints, keys and values
    /// in arrays of their own).
    const FINGERPRINTS: bool;
    /// The sizes, if it can have these.
    fn of(slots: usize, value_words: usize, one_record: bool) -> Option<Self>;
    /// The slots that it can have, for a sentence.
    fn offered() -> String;
    /// Slots in a leaf.
    fn slots(self) -> usize;
    /// Words in a value.
    fn value_words(self) -> usize;
    /// Whether the one word of a value leads to a record that has the entry's key, and belongs to
    /// whoever has put it there; the key word is the key's hash. Asked of byte-string keys only.
    fn one_record(self) -> bool;

    /// Whether key words own records.
    #[inline(always)]
    fn owns_keys<K: TreeKey>(self) -> bool {
        K::RECORDS && !self.one_record()
    }
    /// All slots.
    #[inline(always)]
    fn all(self) -> SlotSet {
        SlotSet::first(self.slots())
    }
    /// Entries that begin in the same line as the first of them, give or take one: what one
    /// prefetch brings.
    #[inline(always)]
    fn slots_per_line(self) -> usize {
        (LINE_WORDS / (1 + self.value_words())).max(1)
    }
    /// The first slot of a key's *home*: the slots of one line, where its entry is put if there is
    /// room, so that a search can ask for that line together with line 0 instead of after it.
    #[inline(always)]
    fn home(self, hash: KeyHash) -> usize {
        hash.place(self.slots().div_ceil(self.slots_per_line())) * self.slots_per_line()
    }
    /// The dead slot for a key: at home if there is one, else the next after it, else the lowest.
    #[inline(always)]
    fn dead_slot(self, live: SlotSet, hash: KeyHash) -> Option<usize> {
        let dead = self.all().minus(live);
        if !Self::FINGERPRINTS {
            return dead.lowest();
        }
        dead.window(self.home(hash), MAX_SLOTS).lowest().or(dead.lowest())
    }
    /// Bytes of a leaf, whole lines.
    #[inline(always)]
    fn leaf_bytes(self) -> u64 {
        leaf_bytes(Self::FINGERPRINTS, self.slots(), self.value_words())
    }
    /// Place of a slot's key word in the body.
    #[inline(always)]
    fn key_index(self, slot: usize) -> usize {
        if Self::FINGERPRINTS { slot * (1 + self.value_words()) } else { slot }
    }
    /// Place of a slot's first value word in the body.
    #[inline(always)]
    fn value_index(self, slot: usize) -> usize {
        if Self::FINGERPRINTS {
            slot * (1 + self.value_words()) + 1
        } else {
            key_array_words(self.slots()) + slot * self.value_words()
        }
    }
}

const fn key_array_words(slots: usize) -> usize {
    slots.next_multiple_of(LINE_WORDS)
}

const fn body_words(fingerprints: bool, slots: usize, value_words: usize) -> usize {
    let words = if fingerprints {
        slots * (1 + value_words)
    } else {
        key_array_words(slots) + slots * value_words
    };
    words.next_multiple_of(LINE_WORDS)
}

pub(super) const fn leaf_bytes(fingerprints: bool, slots: usize, value_words: usize) -> u64 {
    (size_of::<LeafHead>() + body_words(fingerprints, slots, value_words) * WORD) as u64
}

/// Sizes known at compile time.
#[derive(Clone, Copy, Debug)]
pub struct Fixed<const FINGERPRINTS: bool, const SLOTS: usize, const VALUE_WORDS: usize> {
    /// See [`Shape::one_record`].
    pub one_record: bool,
}

impl<const FINGERPRINTS: bool, const SLOTS: usize, const VALUE_WORDS: usize> Shape
    for Fixed<FINGERPRINTS, SLOTS, VALUE_WORDS>
{
    const FINGERPRINTS: bool = FINGERPRINTS;
    fn of(slots: usize, value_words: usize, one_record: bool) -> Option<Self> {
        ((slots, value_words) == (SLOTS, VALUE_WORDS)).then_some(Self { one_record })
    }
    fn offered() -> String {
        SLOTS.to_string()
    }
    #[inline(always)]
    fn slots(self) -> usize {
        const {
            assert!(
                SLOTS > 1
                    && SLOTS <= MAX_SLOTS
                    && VALUE_WORDS > 0
                    && VALUE_WORDS <= MAX_VALUE_WORDS
            )
        };
        SLOTS
    }
    #[inline(always)]
    fn value_words(self) -> usize {
        VALUE_WORDS
    }
    #[inline(always)]
    fn one_record(self) -> bool {
        self.one_record
    }
}

/// Sizes chosen when the tree is made.
#[derive(Clone, Copy, Debug)]
pub struct Flexible<const FINGERPRINTS: bool> {
    slots: usize,
    value_words: usize,
    one_record: bool,
}

impl<const FINGERPRINTS: bool> Shape for Flexible<FINGERPRINTS> {
    const FINGERPRINTS: bool = FINGERPRINTS;
    /// None outside 2 to 56 slots and 1 to 14 words, and for entries of one record of more than
    /// one word.
    fn of(slots: usize, value_words: usize, one_record: bool) -> Option<Self> {
        let offered =
            (2..=MAX_SLOTS).contains(&slots) && (1..=MAX_VALUE_WORDS).contains(&value_words);
        let offered = offered && !(one_record && value_words > 1);
        offered.then_some(Self { slots, value_words, one_record })
    }
    fn offered() -> String {
        format!("{:?}", SLOTS)
    }
    #[inline(always)]
    fn slots(self) -> usize {
        self.slots
    }
    #[inline(always)]
    fn value_words(self) -> usize {
        self.value_words
    }
    #[inline(always)]
    fn one_record(self) -> bool {
        self.one_record
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn slot_sets_are_sets(word in any::<u64>(), slot in 0..56usize, other in any::<u64>()) {
            let (set, other) = (SlotSet::from_word(word), SlotSet::from_word(other));
            prop_assert_eq!(set.into_word(), word);
            prop_assert!(set.with(slot).contains(slot) && !set.without(slot).contains(slot));
            prop_assert_eq!(set.with(slot).without(slot), set.without(slot));
            prop_assert_eq!(set.count(), set.into_iter().count());
            prop_assert!(set.into_iter().all(|slot| set.contains(slot)));
            prop_assert!(set.into_iter().is_sorted());
            prop_assert_eq!(set.lowest(), set.into_iter().next());
            prop_assert_eq!(set.and(other).count() + set.minus(other).count(), set.count());
            prop_assert_eq!(SlotSet::first(slot).count(), slot);
        }

        #[test]
        fn fingerprints_stay_where_they_are_put(
            word in any::<u64>(),
            index in 0..8usize,
            fingerprint in any::<u8>(),
        ) {
            let before = Fingerprints::from_word(word);
            let after = before.with(index, fingerprint);
            for i in 0..Fingerprints::PER_WORD {
                prop_assert_eq!(after.get(i), if i == index { fingerprint } else { before.get(i) });
            }
        }

        #[test]
        fn every_slot_has_words_of_its_own(
            fingerprints in any::<bool>(),
            slots in 2..57usize,
            words in 1..15usize,
            bits in any::<u64>(),
        ) {
            fn ranges<S: Shape>(shape: S, bits: u64) -> (Vec<(usize, usize)>, usize, bool) {
                let key = |slot| (shape.key_index(slot), shape.key_index(slot) + 1);
                let value = |slot| {
                    (shape.value_index(slot), shape.value_index(slot) + shape.value_words())
                };
                let mut ranges: Vec<_> =
                    (0..shape.slots()).flat_map(|slot| [key(slot), value(slot)]).collect();
                ranges.sort_unstable();
                let home = shape.home(KeyHash::new(bits)) < shape.slots();
                (ranges, (shape.leaf_bytes() as usize - size_of::<LeafHead>()) / WORD, home)
            }
            let (ranges, body_words, home) = match fingerprints {
                true => ranges(Flexible::<true>::of(slots, words, false).unwrap(), bits),
                false => ranges(Flexible::<false>::of(slots, words, false).unwrap(), bits),
            };
            prop_assert!(home, "a home is a slot");
            prop_assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0), "no two overlap");
            prop_assert!(ranges.last().unwrap().1 <= body_words);
        }
    }
}
