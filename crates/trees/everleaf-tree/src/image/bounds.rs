//! How lower bounds stand in an image. A number is the first word of its entry. Of a byte string
//! that word is a [`Cut`]: the bytes with which it begins as the bound before it does are left out,
//! the others stand behind all entries. Bounds ascend, so few are left: one to three of a bound
//! among many.

use std::marker::PhantomData;

use everleaf_index::MAX_KEY_BYTES;
use everleaf_pmem::{Media, PCell, WORD};

use super::ENTRY_WORDS;
use crate::key::TreeKey;

/// How a byte string is cut: the low half is the bytes of its own, the upper one those that it
/// shares with the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut(pub u64);

impl Cut {
    /// With so many bytes that are shared, and of its own; each less than 2^32.
    pub fn new(shared: usize, own: usize) -> Self {
        Self((shared as u64) << 32 | own as u64)
    }
    /// Bytes that it shares with the one before.
    pub fn shared(self) -> usize {
        (self.0 >> 32) as usize
    }
    /// Bytes of its own.
    pub fn own(self) -> usize {
        self.0 as u32 as usize
    }
    /// All bytes.
    pub fn bytes(self) -> usize {
        self.shared() + self.own()
    }
}

/// The first words of entries of ascending bounds, and the entries' leaves.
pub(super) fn cut<K: TreeKey>(
    entries: impl Iterator<Item = (K::Owned, u64)>,
) -> impl Iterator<Item = [u64; ENTRY_WORDS]> {
    entries.scan(K::to_owned(K::least()), |before, (bound, leaf)| {
        let word = if K::RECORDS {
            let shared = K::common_prefix(K::borrow(before), K::borrow(&bound), usize::MAX);
            Cut::new(shared, K::rest(K::borrow(&bound), shared).len()).0
        } else {
            K::word(K::borrow(&bound), 0)
        };
        *before = bound;
        Some([word, leaf])
    })
}

/// The bytes that stand behind the entries of ascending bounds: of numbers none.
pub(super) fn own_bytes<K: TreeKey>(entries: impl Iterator<Item = (K::Owned, u64)>) -> Vec<u8> {
    let mut own = Vec::new();
    if K::RECORDS {
        let mut before = K::to_owned(K::least());
        for (bound, _) in entries {
            let shared = K::common_prefix(K::borrow(&before), K::borrow(&bound), usize::MAX);
            own.extend_from_slice(K::rest(K::borrow(&bound), shared));
            before = bound;
        }
    }
    own
}

/// Bytes as words, the lowest first, the last one filled with zeros.
pub(super) fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    bytes.chunks(WORD).map(word)
}

/// Leaves that are read at a time: what is copied of their bounds stays in the caches.
const PART: usize = if cfg!(any(test, feature = "testing")) { 7 } else { 4096 };

/// A part of the entries, whose bounds follow those of the part before.
pub struct Part<'r, M> {
    media: &'r M,
    entries: &'r [[PCell; ENTRY_WORDS]],
    /// The bytes of all bounds, one after the other; of numbers none.
    bounds: &'r [u8],
}

impl<'r, M: Media> Part<'r, M> {
    /// Leaves in it.
    pub fn leaves(&self) -> usize {
        self.entries.len()
    }

    /// The lower bounds of its leaves and their offsets, ascending.
    pub fn entries<K: TreeKey>(&self) -> impl Iterator<Item = (K::Ref<'r>, u64)> {
        let Self { media, entries, mut bounds } = *self;
        entries.iter().map(move |[word, leaf]| {
            let (word, leaf) = (media.load(word), media.load(leaf));
            let bytes = if K::RECORDS { Cut(word).bytes() } else { 0 };
            let (bound, behind) = bounds.split_at_checked(bytes).unwrap_or_default();
            bounds = behind;
            (K::of(word, bound), leaf)
        })
    }
}

/// The entries of an image in their order, a part at a time. It reads what is before it once.
pub struct Parts<'p, K, M> {
    media: &'p M,
    /// Entries that are left.
    entries: &'p [[PCell; ENTRY_WORDS]],
    own: OwnBytes<'p, M>,
    /// What is left of the bytes that all bounds together may have.
    most: u64,
    /// The last bound of the part before, if there is one, and those of the part.
    bounds: Vec<u8>,
    /// Bytes of the last of them.
    last: Option<usize>,
    kind: PhantomData<K>,
}

impl<'p, K: TreeKey, M: Media> Parts<'p, K, M> {
    /// Of these entries, and so many bytes behind them. All bounds together may have `most` bytes.
    pub(super) fn new(
        media: &'p M,
        entries: &'p [[PCell; ENTRY_WORDS]],
        (own, own_bytes): (&'p [PCell], usize),
        most: u64,
    ) -> Self {
        let own = OwnBytes { media, cells: own, skipped: 0, left: own_bytes, copied: Vec::new() };
        Self { media, entries, own, most, bounds: Vec::new(), last: None, kind: PhantomData }
    }

    /// Parts that are left.
    pub fn left(&self) -> usize {
        self.entries.len().div_ceil(PART)
    }

    /// The next part. None behind the last one, and instead of one in which bounds do not fit
    /// together, are longer than keys can be, or do not ascend, of all from the least key.
    pub fn next(&mut self) -> Option<Part<'_, M>> {
        let (entries, left) = self.entries.split_at(self.entries.len().min(PART));
        if entries.is_empty() {
            return None;
        }
        let before = self.last.unwrap_or(0);
        self.bounds.drain(..self.bounds.len() - before);
        if K::RECORDS {
            self.make_whole(entries)?;
        }
        self.entries = left;
        Some(Part { media: self.media, entries, bounds: &self.bounds[before..] })
    }

    /// Appends bounds that are cut, each whole.
    fn make_whole(&mut self, entries: &[[PCell; ENTRY_WORDS]]) -> Option<()> {
        let Self { media, own, most, bounds, last, .. } = self;
        let cuts = || entries.iter().map(|[word, _]| Cut(media.load(word)));
        if cuts().any(|cut| cut.bytes() > MAX_KEY_BYTES) {
            return None;
        }
        let bytes: usize = cuts().map(Cut::bytes).sum();
        *most = most.checked_sub(bytes as u64)?;
        bounds.reserve(bytes);
        let mut own = own.take(cuts().map(Cut::own).sum())?;
        let mut before = 0;
        for cut in cuts() {
            let start = bounds.len();
            let added;
            (added, own) = own.split_at_checked(cut.own())?;
            // The byte that the one before has where this one goes on.
            let replaced = bounds.get(before + cut.shared()..)?.first();
            let ascends = match last {
                Some(_) => added.first() > replaced,
                None => cut.bytes() == 0,
            };
            if !ascends {
                return None;
            }
            bounds.extend_from_within(before..before + cut.shared());
            bounds.extend_from_slice(added);
            (before, *last) = (start, Some(cut.bytes()));
        }
        Some(())
    }

    /// Whether all parts are as they should be, and nothing is behind them.
    pub(super) fn are_sound(mut self) -> bool {
        while self.next().is_some() {}
        self.entries.is_empty() && self.own.left == 0
    }
}

/// The bytes behind the entries.
struct OwnBytes<'p, M> {
    media: &'p M,
    /// Those that are left, but for so many of the first.
    cells: &'p [PCell],
    skipped: usize,
    /// Bytes that are left.
    left: usize,
    copied: Vec<u8>,
}

impl<M: Media> OwnBytes<'_, M> {
    /// The next so many; none if there are fewer.
    fn take(&mut self, bytes: usize) -> Option<&[u8]> {
        self.left = self.left.checked_sub(bytes)?;
        let (from, end) = (self.skipped, self.skipped + bytes);
        let cells = self.cells.get(..end.div_ceil(WORD))?;
        self.copied.clear();
        for cell in cells {
            self.copied.extend_from_slice(&self.media.load(cell).to_le_bytes());
        }
        (self.cells, self.skipped) = (&self.cells[end / WORD..], end % WORD);
        self.copied.get(from..end)
    }
}

#[cfg(test)]
mod tests {
    use everleaf_crash::Dram;
    use everleaf_index::BytesKeys;
    use everleaf_pmem::{Cpu, Region};
    use proptest::prelude::*;

    use super::*;

    /// The bounds that an image of these is read as, where a word of it is another one; none if
    /// it is not sound.
    fn read(
        bounds: &[Box<[u8]>],
        damage: Option<(usize, u64)>,
        most: u64,
    ) -> Option<Vec<Box<[u8]>>> {
        let media = Dram::new(Region::anonymous(1 << 20, 1 << 20).unwrap(), &Cpu::detect());
        let entries = || (64..).step_by(64).zip(bounds).map(|(leaf, bound)| (bound.clone(), leaf));
        let own = own_bytes::<BytesKeys>(entries());
        let stored = cut::<BytesKeys>(entries()).flatten().chain(words(&own)).collect::<Vec<_>>();
        let cells = media.region().cells(0, stored.len()).unwrap();
        cells.iter().zip(&stored).for_each(|(cell, word)| media.store(cell, *word));
        if let Some((place, word)) = damage {
            media.store(&cells[place % cells.len()], word);
        }
        let (entries, rest) = cells.split_at(bounds.len() * ENTRY_WORDS);
        let entries = entries.as_chunks().0;
        let parts = || Parts::<BytesKeys, _>::new(&media, entries, (rest, own.len()), most);
        if !parts().are_sound() {
            return None;
        }
        let (mut found, mut parts) = (Vec::new(), parts());
        while let Some(part) = parts.next() {
            found.extend(part.entries::<BytesKeys>().map(|(bound, _)| Box::from(bound)));
        }
        Some(found)
    }

    fn strings() -> impl Strategy<Value = Vec<Box<[u8]>>> {
        let byte = prop_oneof![Just(0u8), Just(b'a'), Just(255u8)];
        let string = proptest::collection::vec(byte, 1..20).prop_map(Vec::into_boxed_slice);
        let sorted = |strings: std::collections::BTreeSet<_>| {
            std::iter::once(Box::default()).chain(strings).collect()
        };
        proptest::collection::btree_set(string, 0..40).prop_map(sorted)
    }

    proptest! {
        #[test]
        fn a_cut_is_its_two_numbers(shared in any::<u32>(), own in any::<u32>()) {
            let cut = Cut::new(shared as usize, own as usize);
            prop_assert_eq!((cut.shared(), cut.own()), (shared as usize, own as usize));
        }

        #[test]
        fn bounds_are_read_as_they_were_written(bounds in strings()) {
            let bytes = bounds.concat().len() as u64;
            prop_assert_eq!(read(&bounds, None, bytes), Some(bounds.clone()));
            prop_assert!(bytes == 0 || read(&bounds, None, bytes - 1).is_none());
        }

        #[test]
        fn no_damage_panics_and_what_is_sound_ascends(
            bounds in strings(),
            place in any::<usize>(),
            word in prop_oneof![any::<u64>(), (0..9u64, 0..9u64).prop_map(|(a, b)| a << 32 | b)],
        ) {
            if let Some(found) = read(&bounds, Some((place, word)), 1 << 20) {
                prop_assert!(found[0].is_empty() && found.is_sorted_by(|a, b| a < b));
            }
        }
    }

    #[test]
    fn bounds_that_do_not_ascend_or_do_not_fit_are_none() {
        let strings =
            |strings: &[&[u8]]| strings.iter().map(|one| (*one).into()).collect::<Vec<_>>();
        assert!(read(&strings(&[b"", b"a", b"ab"]), None, 99).is_some());
        for wrong in [[b"".as_slice(), b"b", b"a"], [b"", b"a", b"a"], [b"", b"ab", b"a"]] {
            assert_eq!(read(&strings(&wrong), None, 99), None, "{wrong:?}");
        }
        assert_eq!(read(&strings(&[b"a", b"b"]), None, 99), None, "the first is not the least");
        let three = strings(&[b"", b"ab", b"abcd"]);
        for (place, cut) in [
            (0, Cut::new(0, 1)),
            (0, Cut::new(1, 0)),
            (2, Cut::new(0, 1)),
            (2, Cut::new(0, 5)),
            (2, Cut::new(1, 2)),
            (4, Cut::new(3, 2)),
            (4, Cut::new(2, 3)),
            (4, Cut(u64::MAX)),
        ] {
            let found = read(&three, Some((place, cut.0)), 99);
            assert_eq!(found, None, "{place}: {cut:?}");
        }
        let long: Vec<Box<[u8]>> =
            vec![[].into(), vec![1; MAX_KEY_BYTES].into(), vec![2; MAX_KEY_BYTES + 1].into()];
        assert!(read(&long[..2], None, 1 << 20).is_some());
        assert_eq!(read(&long, None, 1 << 20), None, "longer than a key");
    }
}
