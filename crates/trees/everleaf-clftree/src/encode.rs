//! A node in one line, as differences: an inner node, or an encoded leaf, whose values stand where
//! an inner node has its children.
//!
//! ```text
//! byte 0      bit 0: valid; bit 1: the base of keys is not a key; bit 2: that of children not a
//!             child; bits 3 to 7: keys
//! byte 1      bits 0 to 2: bytes of a difference of keys, less 1; bit 3: a leaf; bits 4 to 6:
//!             bytes of a difference of children, less 1
//! bytes 2-9   the base of keys: mostly the first key
//! bytes 10-17 the base of children: mostly the first child
//! bytes 18-   differences of keys to their base, then of children to theirs
//! ```
//!
//! A child is the number of a line: its offset divided by 64. A value is any word. A key is a `u64`
//! key, whose differences are not negative, or the offset of a record (byte strings), whose
//! differences have a sign, like those of children and values. Differences are taken modulo 2^64,
//! so any two words have one. An inner node has a child more than keys, a leaf as many values as
//! keys.
//!
//! A line that is *not valid* is being overwritten: the rest of its first word is where its log is.
//!
//! # What always fits
//! A base that is not a member costs one difference more and keeps the others as narrow as they
//! were. So whatever part of a node is left when at least one member is taken away fits into a
//! line, as does a node of up to four children, for `18 + 2 * 8 + 3 * 8 <= 64`, and a leaf of up to
//! three entries.

use everleaf_pmem::{Counter, LINE, WORD};

/// The words of a line.
pub(super) type Words = [u64; LINE / WORD];

/// Bytes before the differences.
const HEAD_BYTES: usize = 18;
/// Keys that an inner node can have: differences of one byte.
pub(super) const MAX_KEYS: usize = (LINE - HEAD_BYTES).div_ceil(2);
/// Entries that a leaf can have, likewise; the bases are the first of them.
pub(super) const MAX_ENTRIES: usize = 1 + (LINE - HEAD_BYTES) / 2;

const VALID: u8 = 1;
const KEYS_APART: u8 = 1 << 1;
const CHILDREN_APART: u8 = 1 << 2;
const COUNT_SHIFT: u32 = 3;
const LEAF: u8 = 1 << 3;
const CHILD_SHIFT: u32 = 4;
const WIDTH: u8 = WORD as u8 - 1;
/// Bits of byte 1 that are not widths: one says leaf, the other is zero.
const NO_WIDTHS: u8 = !(WIDTH | WIDTH << CHILD_SHIFT);

const _: () = {
    assert!(MAX_KEYS == 23 && MAX_ENTRIES == 24 && MAX_ENTRIES < 1 << (8 - COUNT_SHIFT));
    assert!(HEAD_BYTES + 2 * WORD + 3 * WORD <= LINE);
    assert!(NO_WIDTHS & LEAF == LEAF);
};

/// What a line is. It follows from the level that it is met at; the line says it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Its keys are records: their differences have a sign.
    InnerOfRecords,
    /// Its keys are words.
    Inner,
    /// Its keys are words.
    Leaf,
}

impl Kind {
    /// That of inner nodes whose keys are records, or words.
    #[inline(always)]
    pub const fn inner(records: bool) -> Self {
        if records { Self::InnerOfRecords } else { Self::Inner }
    }
    /// Children or values beside so many keys.
    #[inline(always)]
    const fn children(self, keys: usize) -> usize {
        keys + !self.is_leaf() as usize
    }
    /// Keys beside so many children or values.
    #[inline(always)]
    pub const fn keys(self, children: usize) -> usize {
        children.saturating_sub(!self.is_leaf() as usize)
    }
    #[inline(always)]
    const fn is_leaf(self) -> bool {
        matches!(self, Self::Leaf)
    }
    #[inline(always)]
    const fn has_signed_keys(self) -> bool {
        matches!(self, Self::InnerOfRecords)
    }
    #[inline(always)]
    const fn max_keys(self) -> usize {
        if self.is_leaf() { MAX_ENTRIES } else { MAX_KEYS }
    }
    #[inline(always)]
    const fn mark(self) -> u8 {
        if self.is_leaf() { LEAF } else { 0 }
    }
}

/// What differences are taken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Bases {
    pub key: u64,
    pub child: u64,
}

/// The first word of a line that is being overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overwritten(u64);

impl Overwritten {
    const LOG_SHIFT: u32 = 8;

    /// Its log is at this offset, below 2^56.
    pub const fn new(log: u64) -> Self {
        Self(log << Self::LOG_SHIFT)
    }
    /// None of a valid line.
    pub const fn from_word(word: u64) -> Option<Self> {
        if word as u8 & VALID == 0 { Some(Self(word)) } else { None }
    }
    /// As it stands in the line.
    pub const fn into_word(self) -> u64 {
        self.0
    }
    /// Where the log is.
    pub const fn log(self) -> u64 {
        self.0 >> Self::LOG_SHIFT
    }
}

/// Bytes that hold every one of these differences.
fn width(differences: impl Iterator<Item = u64>, signed: bool) -> usize {
    let bits = differences.map(|difference| {
        let magnitude = if signed {
            (difference << 1) ^ ((difference as i64 >> 63) as u64)
        } else {
            difference
        };
        u64::BITS - magnitude.leading_zeros()
    });
    bits.max().unwrap_or(0).div_ceil(8).max(1) as usize
}

/// Encodes a node whose keys and children, or values, are these. Bases that are not members are
/// those of the line before the change. None: it does not fit.
pub(super) fn encode(keys: &[u64], children: &[u64], before: Bases, kind: Kind) -> Option<Words> {
    let first = Bases { key: *keys.first().unwrap_or(&0), child: *children.first().unwrap_or(&0) };
    let try_with = |keys_apart, children_apart| {
        let bases = Bases {
            key: if keys_apart { before.key } else { first.key },
            child: if children_apart { before.child } else { first.child },
        };
        encode_to(keys, children, bases, [keys_apart, children_apart], kind)
    };
    let ways = [[false, false], [false, true], [true, false], [true, true]];
    // `u64` keys ascend, so those behind the first are nearest to it.
    let ways = ways.into_iter().filter(|[keys_apart, _]| kind.has_signed_keys() || !keys_apart);
    ways.into_iter().find_map(|[keys_apart, children_apart]| try_with(keys_apart, children_apart))
}

fn encode_to(
    keys: &[u64],
    children: &[u64],
    bases: Bases,
    [keys_apart, children_apart]: [bool; 2],
    kind: Kind,
) -> Option<Words> {
    if keys.len() > kind.max_keys() || children.len() != kind.children(keys.len()) {
        return None;
    }
    let of_keys = keys.iter().skip(usize::from(!keys_apart)).map(|key| key.wrapping_sub(bases.key));
    let of_children = children.iter().skip(usize::from(!children_apart));
    let of_children = of_children.map(|child| child.wrapping_sub(bases.child));
    let key_bytes = width(of_keys.clone(), kind.has_signed_keys());
    let child_bytes = width(of_children.clone(), true);
    let length = HEAD_BYTES + of_keys.len() * key_bytes + of_children.len() * child_bytes;
    if length > LINE {
        return None;
    }
    let mut bytes = [0; LINE];
    let apart = |apart, bit| if apart { bit } else { 0 };
    bytes[0] = VALID
        | apart(keys_apart, KEYS_APART)
        | apart(children_apart, CHILDREN_APART)
        | (keys.len() as u8) << COUNT_SHIFT;
    bytes[1] = kind.mark() | (key_bytes - 1) as u8 | ((child_bytes - 1) as u8) << CHILD_SHIFT;
    bytes[2..10].copy_from_slice(&bases.key.to_le_bytes());
    bytes[10..18].copy_from_slice(&bases.child.to_le_bytes());
    let all = of_keys.map(|of| (of, key_bytes)).chain(of_children.map(|of| (of, child_bytes)));
    let mut at = HEAD_BYTES;
    for (difference, width) in all {
        bytes[at..at + width].copy_from_slice(&difference.to_le_bytes()[..width]);
        at += width;
    }
    let (words, _) = bytes.as_chunks::<WORD>();
    Some(std::array::from_fn(|word| u64::from_le_bytes(words[word])))
}

/// A line that was found valid: every key and every child can be read.
#[derive(Clone, Copy)]
pub(super) struct Encoded {
    /// A word more than the line, so that a difference can be read as a whole word.
    bytes: [u8; LINE + WORD],
    kind: Kind,
}

impl Encoded {
    /// None if this is not a line of this kind, or one that is being overwritten.
    #[inline(always)]
    pub fn new(words: Words, kind: Kind) -> Option<Self> {
        let mut bytes = [0; LINE + WORD];
        for (bytes, word) in bytes.chunks_exact_mut(WORD).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let line = Self { bytes, kind };
        let of_kind = bytes[1] & NO_WIDTHS == kind.mark();
        let end = line.children_begin()
            + (line.children() - line.skipped_children()) * line.child_bytes();
        let counted = line.keys() <= kind.max_keys() && end <= LINE;
        (bytes[0] & VALID == VALID && of_kind && counted).then_some(line)
    }

    /// How many keys.
    #[inline(always)]
    pub fn keys(&self) -> usize {
        usize::from(self.bytes[0] >> COUNT_SHIFT)
    }
    /// How many children, one more; of a leaf, how many values.
    #[inline(always)]
    pub fn children(&self) -> usize {
        self.kind.children(self.keys())
    }
    /// Bytes of a difference of keys.
    #[inline(always)]
    pub fn key_bytes(&self) -> usize {
        usize::from(self.bytes[1] & WIDTH) + 1
    }
    /// Bytes of a difference of children.
    #[inline(always)]
    pub fn child_bytes(&self) -> usize {
        usize::from(self.bytes[1] >> CHILD_SHIFT & WIDTH) + 1
    }
    /// How many children would need so many bytes each by itself, from 1.
    pub fn own_bytes(&self) -> [u64; WORD] {
        let mut counts = [0; WORD];
        for child in (0..self.children()).map(|index| self.child(index)) {
            let difference = std::iter::once(child.wrapping_sub(self.bases().child));
            counts[width(difference, true) - 1] += 1;
        }
        counts
    }
    /// What differences are taken to.
    #[inline(always)]
    pub fn bases(&self) -> Bases {
        Bases { key: self.word_at(2), child: self.word_at(10) }
    }
    /// The key with this index.
    #[inline(always)]
    pub fn key(&self, index: usize) -> u64 {
        let skipped = self.skipped_keys();
        let base = self.word_at(2);
        if index < skipped {
            return base;
        }
        let width = self.key_bytes();
        base.wrapping_add(self.difference(
            HEAD_BYTES + (index - skipped) * width,
            width,
            self.kind.has_signed_keys(),
        ))
    }
    /// The child with this index, or the value.
    #[inline(always)]
    pub fn child(&self, index: usize) -> u64 {
        let skipped = self.skipped_children();
        let base = self.word_at(10);
        if index < skipped {
            return base;
        }
        let width = self.child_bytes();
        base.wrapping_add(self.difference(
            self.children_begin() + (index - skipped) * width,
            width,
            true,
        ))
    }

    /// The word, and what to store to it, by which the line has another child in this place. What
    /// is counted where one word does not suffice.
    pub fn swing(&self, at: usize, child: u64) -> Result<(usize, u64), Counter> {
        let Some(index) = at.checked_sub(self.skipped_children()) else {
            return Err(Counter::CascadesByBase);
        };
        let (bytes, difference) = (self.child_bytes(), child.wrapping_sub(self.bases().child));
        if width(std::iter::once(difference), true) > bytes {
            return Err(Counter::CascadesByWidth);
        }
        let mut after = self.bytes;
        let begin = self.children_begin() + index * bytes;
        after[begin..begin + bytes].copy_from_slice(&difference.to_le_bytes()[..bytes]);
        let pairs = self.bytes.as_chunks::<WORD>().0.iter().zip(after.as_chunks::<WORD>().0);
        let mut changed = pairs.enumerate().filter(|(_, (before, after))| before != after);
        match (changed.next(), changed.next()) {
            (Some((word, (_, after))), None) => Ok((word, u64::from_le_bytes(*after))),
            _ => Err(Counter::CascadesByWords),
        }
    }

    /// Keys that are their base.
    #[inline(always)]
    fn skipped_keys(&self) -> usize {
        usize::from(self.bytes[0] & KEYS_APART == 0 && self.keys() > 0)
    }
    /// Children that are their base.
    #[inline(always)]
    fn skipped_children(&self) -> usize {
        usize::from(self.bytes[0] & CHILDREN_APART == 0 && self.children() > 0)
    }
    #[inline(always)]
    fn children_begin(&self) -> usize {
        HEAD_BYTES + (self.keys() - self.skipped_keys()) * self.key_bytes()
    }
    #[inline(always)]
    fn word_at(&self, at: usize) -> u64 {
        let mut word = [0; WORD];
        word.copy_from_slice(&self.bytes[at..at + WORD]);
        u64::from_le_bytes(word)
    }
    #[inline(always)]
    fn difference(&self, at: usize, width: usize, signed: bool) -> u64 {
        let unused = u64::BITS - 8 * width as u32;
        let word = self.word_at(at) << unused;
        if signed { (word as i64 >> unused) as u64 } else { word >> unused }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(words: Words, kind: Kind) -> (Vec<u64>, Vec<u64>) {
        let line = Encoded::new(words, kind).expect("it was encoded");
        (
            (0..line.keys()).map(|i| line.key(i)).collect(),
            (0..line.children()).map(|i| line.child(i)).collect(),
        )
    }

    /// Words near to each other, or anywhere.
    fn words(count: usize) -> impl Strategy<Value = Vec<u64>> {
        (any::<u64>(), 0..64u32).prop_flat_map(move |(base, bits)| {
            let word = (0..=u64::MAX >> bits).prop_map(move |offset| base.wrapping_add(offset));
            proptest::collection::vec(word, count)
        })
    }

    fn kind() -> impl Strategy<Value = Kind> {
        prop_oneof![Just(Kind::InnerOfRecords), Just(Kind::Inner), Just(Kind::Leaf)]
    }

    fn node() -> impl Strategy<Value = (Vec<u64>, Vec<u64>, Kind)> {
        (kind(), 0..=MAX_ENTRIES)
            .prop_flat_map(|(kind, keys)| {
                let keys = keys.min(kind.max_keys());
                (words(keys), words(kind.children(keys)), Just(kind))
            })
            .prop_map(|(mut keys, children, kind)| {
                if !kind.has_signed_keys() {
                    keys.sort_unstable();
                }
                (keys, children, kind)
            })
    }

    /// Takes a member out, and the key of it or beside it; which one does not matter to the size.
    fn remove(keys: &mut Vec<u64>, children: &mut Vec<u64>, at: usize, kind: Kind, left: bool) {
        children.remove(at);
        let beside = if left { at.saturating_sub(1) } else { at.min(keys.len() - 1) };
        keys.remove(if kind.is_leaf() { at } else { beside });
    }

    proptest! {
            #[test]
            fn what_is_encoded_is_decoded((keys, children, kind) in node(), before: (u64, u64)) {
                let before = Bases { key: before.0, child: before.1 };
                match encode(&keys, &children, before, kind) {
                    Some(words) => prop_assert_eq!(decoded(words, kind), (keys, children)),
                    None => prop_assert!(keys.len() > 3, "up to three keys always fit"),
                }
            }

            #[test]
            fn a_part_of_what_fits_fits(
                (keys, children, kind) in node(),
                parts: Vec<(prop::sample::Index, bool)>,
            ) {
                let encoded = encode(&keys, &children, Bases::default(), kind);
                let Some(mut words) = encoded else { return Ok(()) };
                let (mut keys, mut children) = (keys, children);
                for (at, left_key) in parts {
                    if keys.is_empty() {
                        break;
                    }
                    let at = at.index(children.len());
                    remove(&mut keys, &mut children, at, kind, left_key);
                    let before = Encoded::new(words, kind).expect("it was encoded").bases();
                    words = encode(&keys, &children, before, kind).expect("a removal always fits");
                    prop_assert_eq!(decoded(words, kind), (keys.clone(), children.clone()));
                }
            }

            #[test]
            fn one_word_makes_a_line_lead_to_another_child(
                (keys, children, kind) in node(),
                at: prop::sample::Index,
                near in any::<i64>(),
                bits in 0..64u32,
            ) {
                let encoded = encode(&keys, &children, Bases::default(), kind);
                let encoded = encoded.filter(|_| !children.is_empty());
                let Some(mut words) = encoded else { return Ok(()) };
                let (mut children, at) = (children.clone(), at.index(children.len()));
                let child = children[at].wrapping_add((near >> bits) as u64);
                let line = Encoded::new(words, kind).expect("it was encoded");
                match line.swing(at, child) {
                    Ok((word, value)) => {
                        words[word] = value;
                        children[at] = child;
                        prop_assert_eq!(decoded(words, kind), (keys, children));
                    }
                    Err(Counter::CascadesByBase) => {
                        prop_assert_eq!(line.bases().child, children[at]);
                    }
    Err(Counter::CascadesByWidth) => {
                        let difference = std::iter::once(child.wrapping_sub(line.bases().child));
                        prop_assert!(width(difference, true) > line.child_bytes());
                    }
                    Err(_) => prop_assert!(child == children[at] || line.child_bytes() > 1),
                }
            }

            #[test]
            fn any_line_is_refused_or_can_be_read(words: Words, kind in kind()) {
                if let Some(line) = Encoded::new(words, kind) {
                    (0..line.keys()).for_each(|i| _ = line.key(i));
                    (0..line.children()).for_each(|i| _ = line.child(i));
                }
            }

            #[test]
            fn a_line_that_is_overwritten_says_where_its_log_is(log in 0..1u64 << 56) {
                let word = Overwritten::new(log).into_word();
                prop_assert_eq!(Overwritten::from_word(word).map(Overwritten::log), Some(log));
                prop_assert!(Encoded::new([word, 0, 0, 0, 0, 0, 0, 0], Kind::Inner).is_none());
            }
        }

    #[test]
    fn narrow_differences_make_room_for_23_keys() {
        let keys: Vec<u64> = (0..23).map(|i| 1000 + 10 * i).collect();
        let children: Vec<u64> = (0..24).map(|i| 70_000 + 5 * i).collect();
        assert!(encode(&keys, &children, Bases::default(), Kind::Inner).is_some());
        let far: Vec<u64> =
            children.iter().map(|child| if *child == 70_050 { 0 } else { *child }).collect();
        assert!(encode(&keys, &far, Bases::default(), Kind::Inner).is_none());
    }

    #[test]
    fn a_leaf_is_no_inner_node_and_holds_24_entries_of_narrow_differences() {
        let keys: Vec<u64> = (0..24).map(|i| 1000 + 10 * i).collect();
        let values: Vec<u64> = (0..24u64).map(|i| (5 * i).wrapping_sub(60)).collect();
        let words = encode(&keys, &values, Bases::default(), Kind::Leaf).unwrap();
        assert_eq!(decoded(words, Kind::Leaf), (keys.clone(), values.clone()));
        assert!(Encoded::new(words, Kind::Inner).is_none());
        assert!(encode(&keys, &values[1..], Bases::default(), Kind::Inner).is_none());
        let words = encode(&[], &[], Bases::default(), Kind::Leaf).unwrap();
        assert_eq!(decoded(words, Kind::Leaf), (Vec::new(), Vec::new()));
        assert!(encode(&[], &[], Bases::default(), Kind::Inner).is_none());
    }
}
