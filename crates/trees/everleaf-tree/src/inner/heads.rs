//! What is known of a node before it has come from memory. Heads are in an array of their own, 32
//! bytes each, so small that it stays in the cache:
//!
//! ```text
//! word    count, lock and version of the node
//! first   numbers: the node's first word. Byte strings: the base of the marks, and in the lowest
//!         byte how many bytes the words leave out of keys
//! span    numbers: how many keys from `first` on a bottom node covers; 0 of all other nodes
//! marks   how far each pivot is from the base, in seven bits each, and their scale
//! ```
//! A *pivot* is the first word of a block from 1 on. The marks tell in which block a key is, but
//! for keys that share the mark of a pivot: there the block that they name is too far by as many
//! pivots as share it. Where keys are spread evenly that is one key in twenty.
//!
//! The span makes a bottom node one that can be entered from the side: who holds its number, and
//! finds that `first` and `span` cover a key while the version is what it was, needs no way from
//! the root. The greatest number is in no span: a search for it comes from above.
//!
//! Readers take heads as they find them, half-written ones too, and ask for the version afterwards.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use everleaf_pmem::{DramLine, LINE};

use super::RESERVED_BYTES;
use super::nodes::{Nodes, WORDS};
use super::prefix::MAX_SKIP;
use crate::key::TreeKey;

/// Words of a head.
const HEAD_WORDS: usize = 4;
/// Heads in a line.
const HEADS: usize = WORDS / HEAD_WORDS;

/// The head of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head<'n>(&'n [AtomicU64; HEAD_WORDS]);

impl<'n> Head<'n> {
    /// The greatest number that a span can have.
    pub(super) const GREATEST: u64 = u64::MAX - 1;

    /// The node's own word.
    #[inline(always)]
    pub(super) fn atom(self) -> &'n AtomicU64 {
        &self.0[0]
    }

    #[inline(always)]
    fn first(self) -> u64 {
        self.0[1].load(Relaxed)
    }

    /// Whether the node is a bottom one that covers this number. If so, what it holds is there: a
    /// node that has just been taken covers nothing until all of it is written.
    #[inline(always)]
    pub(super) fn covers(self, number: u64) -> bool {
        let span = self.0[2].load(Acquire);
        number.wrapping_sub(self.first()) < span
    }

    /// The last number that a bottom node covers.
    pub(super) fn last(self) -> u64 {
        self.first().wrapping_add(self.0[2].load(Relaxed)).wrapping_sub(1)
    }

    /// Makes this the last number that a bottom node covers. Its first one is set, and all that it
    /// holds is written.
    pub(super) fn set_last(self, last: u64) {
        let span = last.min(Self::GREATEST).wrapping_sub(self.first()).wrapping_add(1);
        self.0[2].store(span, Release);
    }

    /// From now on the node covers nothing.
    pub(super) fn cover_nothing(self) {
        self.0[2].store(0, Relaxed);
    }

    /// Whether it covers nothing.
    pub(super) fn covers_nothing(self) -> bool {
        self.0[2].load(Relaxed) == 0
    }

    #[inline(always)]
    fn marks(self) -> Marks {
        Marks(self.0[3].load(Relaxed))
    }

    /// In which block of a node of numbers one is, or before that.
    #[inline(always)]
    pub(super) fn block(self, number: u64) -> usize {
        self.marks().block(self.first(), number)
    }

    /// The same of a number that is not below the first one.
    #[inline(always)]
    pub(super) fn block_above(self, number: u64) -> usize {
        self.marks().block_by(number.wrapping_sub(self.first()))
    }
}

/// In byte i the mark of pivot i, which has seven bits; in the highest byte the scale of the marks,
/// a number of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Marks(u64);

impl Marks {
    /// A node has at most so many pivots.
    const PIVOTS: usize = WORDS - 1;
    const ONES: u64 = 0x0001_0101_0101_0101;
    const SCALE_SHIFT: u32 = 56;
    /// The mark of a pivot that there is not, which no key reaches.
    const NONE: u64 = 127;

    /// Those of a node with these pivots, ascending and not below the base, and then `u64::MAX` in
    /// place of those that there are not.
    fn of(base: u64, pivots: [u64; Self::PIVOTS]) -> Self {
        let last = pivots
            .iter()
            .rev()
            .find(|pivot| **pivot != u64::MAX)
            .map_or(0, |last| last.saturating_sub(base));
        // So that the last pivot has a mark below 126.
        let scale = (u64::BITS - last.leading_zeros()).saturating_sub(7);
        let scale = scale + u32::from(last >> scale > Self::NONE - 3);
        let mark =
            |pivot| if pivot == u64::MAX { Self::NONE } else { Self::mark(pivot, base, scale) };
        let marks =
            pivots.iter().enumerate().map(|(at, pivot)| mark(*pivot) << (8 * at)).sum::<u64>();
        Self(marks | u64::from(scale) << Self::SCALE_SHIFT)
    }

    /// 0 below the base, and from 1 to 126 from there on.
    #[inline(always)]
    fn mark(word: u64, base: u64, scale: u32) -> u64 {
        if word < base { 0 } else { Self::mark_by(word - base, scale) }
    }

    /// The mark of a word that is so far above the base.
    #[inline(always)]
    fn mark_by(distance: u64, scale: u32) -> u64 {
        (distance >> scale).min(Self::NONE - 2) + 1
    }

    /// How many of the pivots are at most this word, as far as the marks tell: never too few.
    #[inline(always)]
    fn block(self, base: u64, word: u64) -> usize {
        if word < base { 0 } else { self.block_by(word - base) }
    }

    /// The same of a word that is so far above the base.
    #[inline(always)]
    fn block_by(self, distance: u64) -> usize {
        let mark = Self::mark_by(distance, (self.0 >> Self::SCALE_SHIFT) as u32 % u64::BITS);
        // In each byte 128 and how much greater the word's mark is than the pivot's: the highest
        // bit says whether it is. The scale changes but the byte above those.
        let differences = ((mark | 128) * Self::ONES).wrapping_sub(self.0);
        let at_most = differences >> 7 & Self::ONES;
        // The sum of the seven bytes comes together in the eighth.
        (at_most.wrapping_mul(Self::ONES << 8) >> 56) as usize
    }
}

impl<K: TreeKey, const CAPACITY: usize> Nodes<K, CAPACITY> {
    /// Where the base is of byte strings, the lowest byte is that of the bytes which are left out.
    const SKIP: u64 = {
        assert!(MAX_SKIP <= 0xff && Marks::PIVOTS == Marks::ONES.count_ones() as usize);
        0xff
    };
    /// Addresses reserved for heads.
    pub(super) const HEAD_BYTES: u64 =
        RESERVED_BYTES / (Self::NODE_LINES * LINE) as u64 * (HEAD_WORDS * 8) as u64;

    /// Lines of the heads of nodes in so many lines.
    pub(super) fn head_lines(node_lines: usize) -> usize {
        (node_lines / Self::NODE_LINES).div_ceil(HEADS)
    }

    /// The head of a node.
    #[inline(always)]
    pub(super) fn head(&self, node: u32) -> Head<'_> {
        self.head_of(node.into()).expect("every node has a head")
    }

    /// The head of what may be a node; racing readers come with any number.
    #[inline(always)]
    pub(super) fn head_of(&self, child: u64) -> Option<Head<'_>> {
        let number = child as u32 / Self::NODE_LINES as u32;
        let [line] = self.heads.get(number / HEADS as u32, 1)? else { return None };
        let (heads, _) = line.0.as_chunks();
        Some(Head(&heads[number as usize % HEADS]))
    }

    /// The node where a number of a line may be. Cells of the directory may be read as anything:
    /// so each number is that of a node, or of memory that covers nothing.
    #[inline(always)]
    pub(super) fn node_at(line: u32) -> u32 {
        line - line % Self::NODE_LINES as u32
    }

    /// What a head should say beside the node's word and its span.
    fn computed_head(&self, node: u32) -> (u64, Marks) {
        let pivots = std::array::from_fn(|at| {
            if at + 1 < Self::BLOCKS { self.first_word(node, at + 1) } else { u64::MAX }
        });
        let base = if K::RECORDS { pivots[0] & !Self::SKIP } else { self.word(node, 0) };
        let skip = self.skip(node) as u64 & Self::SKIP;
        (base | if K::RECORDS { skip } else { 0 }, Marks::of(base, pivots))
    }

    /// Updates the head of a node whose first words of blocks may have changed. The last number
    /// that it covers stays.
    pub(super) fn update_head(&self, node: u32) {
        let head = self.head(node);
        let (first, Marks(marks)) = self.computed_head(node);
        let last = (!K::RECORDS && !head.covers_nothing()).then(|| head.last());
        head.0[1].store(first, Relaxed);
        head.0[3].store(marks, Relaxed);
        last.into_iter().for_each(|last| head.set_last(last));
    }

    /// Whether a head says what it should, but for its word and its span.
    pub(super) fn has_right_head(&self, node: u32) -> bool {
        let head = self.head(node);
        (head.first(), head.marks()) == self.computed_head(node)
    }

    /// Prefetches the block of a node where `key` will be looked for (byte strings): for a search
    /// of one key. Many keys that go down together are faster without: where all that they miss is
    /// in flight anyway, a block that was named wrongly is a line too many.
    ///
    /// A reader that races with a change may come with any number for a node.
    #[inline(always)]
    pub(super) fn prefetch_block(&self, node: u64, key: K::Ref<'_>) {
        self.lines_ahead(node, key).into_iter().flatten().for_each(DramLine::prefetch);
    }

    /// The lines of words and children that `prefetch_block` prefetches.
    #[inline(always)]
    fn lines_ahead(&self, node: u64, key: K::Ref<'_>) -> Option<&[DramLine]> {
        let head = self.head_of(node)?;
        let first = head.first();
        let (base, skip) = match K::RECORDS {
            true => (first & !Self::SKIP, (first & Self::SKIP) as usize),
            false => (first, 0),
        };
        let block = head.marks().block(base, K::word(key, skip)) % Self::BLOCKS;
        let start = Self::BODY + block * Self::BLOCK_LINES;
        Some(&self.lines_of_child(node)?[start..start + 2])
    }
}

#[cfg(test)]
mod tests {
    use everleaf_index::{BytesKeys, U64Keys};
    use everleaf_pmem::Cpu;
    use proptest::prelude::*;

    use super::*;
    use crate::inner::Inner;

    /// The pivots of a node with these, and `u64::MAX` in place of the others.
    fn padded(pivots: &[u64]) -> [u64; Marks::PIVOTS] {
        std::array::from_fn(|at| pivots.get(at).copied().unwrap_or(u64::MAX))
    }

    fn block(pivots: &[u64], word: u64) -> usize {
        pivots.iter().filter(|pivot| **pivot <= word).count()
    }

    #[test]
    fn evenly_spaced_pivots_tell_every_block() {
        for (step, from) in
            [(1 << 8, 0), (1 << 8, 77), (1000, 1 << 40), (1 << 60, 3), (u64::MAX / 8, 5)]
        {
            let pivots: Vec<_> = (1..=7).map(|at| from + at * step).collect();
            let marks = Marks::of(from, padded(&pivots));
            for word in
                (0..8).flat_map(|at| [from + at * step + step / 4, from + at * step + step / 2])
            {
                assert_eq!(marks.block(from, word), block(&pivots, word), "{word} in {pivots:?}");
            }
            assert_eq!((marks.block(from, 0), marks.block(from, u64::MAX - 1)), (0, 7));
        }
    }

    #[test]
    fn pivots_that_there_are_not_are_never_reached() {
        for count in 0..=7 {
            let pivots: Vec<_> = (1..=count).map(|at| at << 32).collect();
            let marks = Marks::of(0, padded(&pivots));
            assert_eq!(marks.block(0, u64::MAX - 1), count as usize, "{marks:?}");
        }
    }

    proptest! {
        /// A block is never one before that of the word, and too far only by pivots that have the
        /// word's mark: the word and the pivot are no farther apart than the scale.
        #[test]
        fn a_block_is_named_wrongly_only_beside_a_pivot(
            mut pivots in prop::collection::btree_set(0..u64::MAX - 1, 0..=7)
                .prop_map(|set| set.into_iter().collect::<Vec<_>>()),
            shift in 0u32..63,
            word: u64,
        ) {
            pivots.iter_mut().for_each(|pivot| *pivot >>= shift);
            pivots.dedup();
            let base = pivots.first().map_or(0, |first| first - (word & 0xffff).min(*first));
            let marks = Marks::of(base, padded(&pivots));
            let scale = marks.0 >> Marks::SCALE_SHIFT;
            for word in [word, word >> shift] {
                let near = pivots.iter().filter(|pivot| pivot.abs_diff(word) >> scale == 0).count();
                let (named, right) = (marks.block(base, word), block(&pivots, word));
                prop_assert!(named >= right && named - right <= near, "{} {:?}", word, pivots);
            }
        }

        /// Whatever a reader finds of marks names a block.
        #[test]
        fn any_bits_name_a_block(base: u64, marks: u64, word: u64) {
            prop_assert!(Marks(marks).block(base, word) <= Marks::PIVOTS);
        }

        #[test]
        fn a_node_covers_its_keys_from_the_first_to_the_last(first: u64, last: u64, key: u64) {
            let (first, last) = (first.min(last), first.max(last));
            let words = [0, first, 0, 0].map(AtomicU64::new);
            let head = Head(&words);
            prop_assert!(head.covers_nothing() && !head.covers(first) && !head.covers(key));
            head.set_last(last);
            for key in [key, first, last, first.wrapping_sub(1), last.wrapping_add(1), u64::MAX] {
                let is_covered = (first..=last.min(Head::GREATEST)).contains(&key);
                prop_assert_eq!(head.covers(key), is_covered, "{}", key);
            }
            if first < u64::MAX {
                prop_assert_eq!(head.last(), last.min(Head::GREATEST));
            }
            head.cover_nothing();
            prop_assert!(head.covers_nothing() && !head.covers(key));
        }
    }

    /// How many of a thousand random keys have the lines that are asked for ahead of the bottom
    /// node.
    fn foreseen<K: TreeKey, const CAPACITY: usize>(key: impl Fn(u64) -> K::Owned) -> usize {
        let mut inner = Inner::<K, CAPACITY>::new(Cpu::detect().simd(), 0).unwrap();
        let random = |number: u64| (number ^ number >> 7).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for number in 1..20_000 {
            inner.insert(K::borrow(&key(random(number))), number).unwrap();
        }
        let (nodes, separators) = (&inner.nodes, &inner.separators);
        let is_foreseen = |key: &K::Owned| {
            let mut node = inner.root().node();
            for _ in 1..inner.height() {
                node = nodes.search(separators, nodes.lines(node), node, K::borrow(key)).1 as u32;
            }
            let (slot, _) = nodes.search(separators, nodes.lines(node), node, K::borrow(key));
            let asked_for = nodes.lines_ahead(node.into(), K::borrow(key)).unwrap();
            std::ptr::eq(nodes.arena.line(nodes.block(node, slot / WORDS)), &asked_for[0])
        };
        (0..1000).filter(|number| is_foreseen(&key(random(number * 77 + 1_000_000)))).count()
    }

    #[test]
    fn the_lines_that_are_asked_for_are_those_that_are_read() {
        let numbers = [
            foreseen::<U64Keys, 16>(|key| key),
            foreseen::<U64Keys, 32>(|key| key),
            foreseen::<U64Keys, 64>(|key| key),
        ];
        assert!(numbers.iter().all(|right| *right > 930), "{numbers:?}");
        let bytes = |key: u64| key.to_be_bytes().into();
        let strings = [foreseen::<BytesKeys, 16>(bytes), foreseen::<BytesKeys, 64>(bytes)];
        assert!(strings.iter().all(|right| *right > 900), "{strings:?}");
    }
}
