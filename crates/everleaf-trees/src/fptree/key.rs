//! The difference between `u64` keys and byte-string keys: what a key word in a leaf means.

use std::cmp::Ordering;

use everleaf_index::{BytesKeys, IndexError, KeyKind, MAX_KEY_BYTES, U64Keys};
use everleaf_pmem::{LINE, MOST_RANKED, Media, PCell, PPtr, SimdLevel, ranks};
use everleaf_pool::{Pool, Record, Worker};

use super::layout::{KeyHash, MAX_SLOTS};
use crate::support::inner::InnerKey;

/// A kind of key that the trees of this room can hold: [`U64Keys`] and [`BytesKeys`].
pub trait LeafKey: KeyKind + InnerKey + sealed::Sealed {
    /// Whether key words point to records, which are allocated with the key and freed with it.
    const RECORDS: bool;
    /// The least key: the lower bound of the leftmost leaf.
    fn least<'a>() -> Self::Ref<'a>;

    /// Refuses keys that cannot be stored.
    ///
    /// # Errors
    /// [`IndexError::KeyTooLong`].
    fn admit(key: Self::Ref<'_>) -> Result<(), IndexError>;

    /// The key word of a key that needs no record.
    fn as_word(key: Self::Ref<'_>) -> Option<u64>;

    /// The hash that fingerprint and home of a key are taken from.
    fn hash(key: Self::Ref<'_>) -> KeyHash;

    /// Compares keys of different lifetimes.
    fn cmp_keys(left: Self::Ref<'_>, right: Self::Ref<'_>) -> Ordering;

    /// Whether a live key word stands for `key`.
    ///
    /// # Errors
    /// [`IndexError::Pool`] if the word leads to no record, or to a damaged one.
    fn is_key<M: Media>(pool: &Pool<M>, word: u64, key: Self::Ref<'_>) -> Result<bool, IndexError>;

    /// The key that a live key word stands for. It is lent until the tree is next changed.
    ///
    /// # Errors
    /// As [`is_key`](LeafKey::is_key).
    fn read<M: Media>(pool: &Pool<M>, word: u64) -> Result<Self::Ref<'_>, IndexError>;

    /// The lower bound that a word of line 1 stands for; 0 is the least key.
    ///
    /// # Errors
    /// As [`is_key`](LeafKey::is_key).
    fn read_bound<M: Media>(pool: &Pool<M>, word: u64) -> Result<Self::Ref<'_>, IndexError>;

    /// Writes a key to a dead key word (or to the lower bound of a free leaf): a store without a
    /// flush, or the allocation of a record, which is durable and which recovery undoes because the
    /// slot is dead.
    ///
    /// # Errors
    /// [`IndexError::Pool`] when the pool is full; the word is null then.
    fn place<M: Media>(
        worker: &mut Worker<M>,
        cell: &PCell,
        key: Self::Ref<'_>,
    ) -> Result<(), IndexError>;

    /// Frees what a dead key word points to and makes it null, durably; nothing for keys that are
    /// no records.
    ///
    /// # Errors
    /// [`IndexError::Pool`] if the word leads to no record.
    fn discard<M: Media>(worker: &mut Worker<M>, cell: &PCell) -> Result<(), IndexError>;

    /// A key that is greater than `left` and not greater than `right`, given `left < right`.
    fn separator(left: Self::Ref<'_>, right: Self::Ref<'_>) -> Self::Owned;

    /// Sorts keys with their slots.
    fn sort(simd: SimdLevel, entries: &mut [(Self::Ref<'_>, u8)]);

    /// The first eight bytes as a number, so that smaller prefixes mean smaller keys. Of a `u64` it
    /// is all.
    fn prefix(key: Self::Ref<'_>) -> u64;

    /// What must be kept of a lower bound beside its prefix to have it again: nothing, where the
    /// prefix is all.
    type BoundWord: Copy + Send + Sync;

    /// Of the word in line 1.
    fn bound_word(word: u64) -> Self::BoundWord;

    /// The lower bound of this prefix and this word, whose record was found intact when the prefix
    /// was taken.
    fn known_bound<M: Media>(pool: &Pool<M>, prefix: u64, word: Self::BoundWord) -> Self::Ref<'_>;

    /// Asks for the first line of the record that a key word leads to.
    fn prefetch<M: Media>(media: &M, word: u64);

    /// Asks for the first lines of what the value in a cell may lead to: a store's value is the
    /// offset of a record, which is wanted next. Whatever else it is, nothing is lost. Only trees
    /// whose keys are records do so, since only they have a miss that this one can overlap with;
    /// and not where every load is looked at.
    fn prefetch_value<M: Media>(media: &M, value: &PCell);
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for everleaf_index::U64Keys {}
    impl Sealed for everleaf_index::BytesKeys {}
}

/// 2^64 divided by the golden ratio, odd: multiplied by it, neighbouring keys spread evenly over
/// the top byte (Knuth, vol. 3, 6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl LeafKey for U64Keys {
    const RECORDS: bool = false;

    #[inline(always)]
    fn least<'a>() -> Self::Ref<'a> {
        0
    }

    #[inline(always)]
    fn admit(_key: u64) -> Result<(), IndexError> {
        Ok(())
    }
    #[inline(always)]
    fn as_word(key: u64) -> Option<u64> {
        Some(key)
    }
    #[inline(always)]
    fn hash(key: u64) -> KeyHash {
        KeyHash::new(key.wrapping_mul(GOLDEN))
    }
    #[inline(always)]
    fn cmp_keys(left: u64, right: u64) -> Ordering {
        left.cmp(&right)
    }
    #[inline(always)]
    fn is_key<M: Media>(_pool: &Pool<M>, word: u64, key: u64) -> Result<bool, IndexError> {
        Ok(word == key)
    }
    #[inline(always)]
    fn read<M: Media>(_pool: &Pool<M>, word: u64) -> Result<u64, IndexError> {
        Ok(word)
    }
    #[inline(always)]
    fn read_bound<M: Media>(_pool: &Pool<M>, word: u64) -> Result<u64, IndexError> {
        Ok(word)
    }
    #[inline(always)]
    fn place<M: Media>(worker: &mut Worker<M>, cell: &PCell, key: u64) -> Result<(), IndexError> {
        worker.pool().media().store(cell, key);
        Ok(())
    }
    #[inline(always)]
    fn discard<M: Media>(_worker: &mut Worker<M>, _cell: &PCell) -> Result<(), IndexError> {
        Ok(())
    }
    #[inline(always)]
    fn separator(_left: u64, right: u64) -> u64 {
        right
    }
    #[inline(always)]
    fn sort(simd: SimdLevel, entries: &mut [(u64, u8)]) {
        if !sort_by_ranks(simd, entries, |entry| entry.0) {
            entries.sort_unstable_by_key(|entry| entry.0); // A processor without AVX2.
        }
    }
    #[inline(always)]
    fn prefix(key: u64) -> u64 {
        key
    }
    type BoundWord = ();
    #[inline(always)]
    fn bound_word(_word: u64) {}
    #[inline(always)]
    fn known_bound<M: Media>(_pool: &Pool<M>, prefix: u64, (): ()) -> u64 {
        prefix
    }
    #[inline(always)]
    fn prefetch<M: Media>(_media: &M, _word: u64) {}
    #[inline(always)]
    fn prefetch_value<M: Media>(_media: &M, _value: &PCell) {}
}

impl LeafKey for BytesKeys {
    const RECORDS: bool = true;

    #[inline(always)]
    fn least<'a>() -> Self::Ref<'a> {
        &[]
    }

    #[inline]
    fn admit(key: &[u8]) -> Result<(), IndexError> {
        if key.len() > MAX_KEY_BYTES {
            return Err(IndexError::KeyTooLong { bytes: key.len(), max_bytes: MAX_KEY_BYTES });
        }
        Ok(())
    }

    #[inline(always)]
    fn as_word(_key: &[u8]) -> Option<u64> {
        None
    }

    /// A multiplication and a fold for every eight bytes: a byte is all that is kept, so a stronger
    /// hash would buy nothing, and the multiplication lets every bit of a word reach the top byte,
    /// where keys of a leaf, which share their beginnings, must differ.
    #[inline]
    fn hash(key: &[u8]) -> KeyHash {
        let mix = |hash: u64, word: u64| {
            let product = (hash ^ word).wrapping_mul(GOLDEN);
            product ^ product >> 32
        };
        let (words, rest) = key.as_chunks::<8>();
        let mut hash =
            words.iter().fold(key.len() as u64, |hash, word| mix(hash, u64::from_le_bytes(*word)));
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            hash = mix(hash, u64::from_le_bytes(last));
        }
        KeyHash::new(hash.wrapping_mul(GOLDEN))
    }
    #[inline]
    fn cmp_keys(left: &[u8], right: &[u8]) -> Ordering {
        left.cmp(right)
    }

    /// Equal bytes need no checksum; different ones are believed only if the record is intact, so
    /// that damage is an error and no missing key. Nothing is lent: a reader who looks at a leaf
    /// that others change may see a record that is no longer one.
    #[inline]
    fn is_key<M: Media>(pool: &Pool<M>, word: u64, key: &[u8]) -> Result<bool, IndexError> {
        if pool.record_is(PPtr::at(word), key)? {
            return Ok(true);
        }
        pool.verify_record(PPtr::at(word))?;
        Ok(false)
    }
    #[inline]
    fn read<M: Media>(pool: &Pool<M>, word: u64) -> Result<&[u8], IndexError> {
        Ok(pool.record(PPtr::at(word))?)
    }
    #[inline]
    fn read_bound<M: Media>(pool: &Pool<M>, word: u64) -> Result<&[u8], IndexError> {
        if word == 0 { Ok(Self::least()) } else { Self::read(pool, word) }
    }
    #[inline]
    fn place<M: Media>(worker: &mut Worker<M>, cell: &PCell, key: &[u8]) -> Result<(), IndexError> {
        Ok(worker.alloc_record_into(cell.view::<PPtr<Record>>(), &[key])?)
    }
    #[inline]
    fn discard<M: Media>(worker: &mut Worker<M>, cell: &PCell) -> Result<(), IndexError> {
        Ok(worker.free_from(cell.view::<PPtr<Record>>())?)
    }

    /// The shortest: the common prefix and one byte more. It is short in DRAM and in the leaf's
    /// bound, and never empty.
    fn separator(left: &[u8], right: &[u8]) -> Box<[u8]> {
        let common = left.iter().zip(right).take_while(|(a, b)| a == b).count();
        right[..right.len().min(common + 1)].into()
    }
    /// By the eight bytes behind what all of them share, and only where some are the same in these
    /// by all of their bytes: comparing numbers takes a fraction of the time of comparing strings.
    fn sort(simd: SimdLevel, entries: &mut [(&[u8], u8)]) {
        let Some(((first, _), others)) = entries.split_first() else { return };
        let common = |limit: usize, other: &(&[u8], u8)| {
            first.iter().zip(other.0).take(limit).take_while(|(a, b)| a == b).count()
        };
        let shared = others.iter().fold(first.len(), common);
        if sort_by_ranks(simd, entries, |entry| Self::word(entry.0, shared)) {
            return;
        }
        if entries.len() > MAX_SLOTS {
            return entries.sort_unstable_by_key(|entry| entry.0);
        }
        let (mut unsorted, mut order) = ([(Self::least(), 0); MAX_SLOTS], [(0, 0); MAX_SLOTS]);
        let (unsorted, order) = (&mut unsorted[..entries.len()], &mut order[..entries.len()]);
        unsorted.copy_from_slice(entries);
        for (place, (word, entry)) in order.iter_mut().zip(&*unsorted).enumerate() {
            *word = (Self::word(entry.0, shared), place as u8);
        }
        let whole = |place: u8| unsorted[usize::from(place)].0;
        order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| whole(a.1).cmp(whole(b.1))));
        for (entry, (_, place)) in entries.iter_mut().zip(order) {
            *entry = unsorted[usize::from(*place)];
        }
    }
    fn prefix(key: &[u8]) -> u64 {
        let mut first = [0; 8];
        let bytes = key.len().min(8);
        first[..bytes].copy_from_slice(&key[..bytes]);
        u64::from_be_bytes(first)
    }
    type BoundWord = u64;
    #[inline(always)]
    fn bound_word(word: u64) -> u64 {
        word
    }
    #[inline]
    fn known_bound<M: Media>(pool: &Pool<M>, _prefix: u64, word: u64) -> &[u8] {
        Self::read_bound(pool, word).unwrap_or(Self::least())
    }
    #[inline(always)]
    fn prefetch<M: Media>(media: &M, word: u64) {
        if let Some([cell]) = media.region().cells(word, 1) {
            media.prefetch(cell);
        }
    }
    #[inline(always)]
    fn prefetch_value<M: Media>(media: &M, value: &PCell) {
        if !M::COUNTS_READS {
            let offset = media.load(value);
            Self::prefetch(media, offset);
            Self::prefetch(media, offset.wrapping_add(LINE as u64));
        }
    }
}

/// Sorts entries by a word of each; false, and nothing is changed, where two have the same or the
/// processor would be slow at it.
#[inline(always)]
fn sort_by_ranks<R: Copy>(
    simd: SimdLevel,
    entries: &mut [(R, u8)],
    word: impl Fn(&(R, u8)) -> u64,
) -> bool {
    let Some(first) = entries.first().filter(|_| entries.len() <= MAX_SLOTS) else { return false };
    let (mut unsorted, mut words, mut places) =
        ([*first; MAX_SLOTS], [0; MAX_SLOTS], [0; MOST_RANKED]);
    unsorted[..entries.len()].copy_from_slice(entries);
    words.iter_mut().zip(&*entries).for_each(|(own, entry)| *own = word(entry));
    let sorted = ranks(simd, &words[..entries.len()], &mut places);
    if sorted {
        unsorted[..entries.len()]
            .iter()
            .zip(places)
            .for_each(|(entry, place)| entries[usize::from(place)] = *entry);
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_separate() {
        let keys: [&[u8]; 7] = [b"", b"a", b"a\0", b"ab", b"abc", b"abd\xff", b"b"];
        for (i, left) in keys.iter().enumerate() {
            for right in &keys[i + 1..] {
                let separator = BytesKeys::separator(left, right);
                assert!(
                    **left < *separator && *separator <= **right,
                    "{left:?} {right:?} {separator:?}"
                );
            }
        }
    }

    /// With the fastest sort of this processor, and without.
    const LEVELS: [fn() -> SimdLevel; 2] =
        [|| everleaf_pmem::Cpu::detect().simd(), || SimdLevel::SCALAR];

    #[test]
    fn near_and_far_keys_are_sorted() {
        for (simd, shift) in
            LEVELS.iter().flat_map(|level| [0, 7, 57, 58].map(|shift| (level(), shift)))
        {
            let mut entries: Vec<(u64, u8)> =
                (0..56).map(|slot| ((u64::from(slot) * 41 % 64) << shift, slot)).collect();
            let mut expected = entries.clone();
            expected.sort_unstable();
            U64Keys::sort(simd, &mut entries);
            assert_eq!(entries, expected, "shift {shift}");
        }
        for level in LEVELS {
            let mut ends = [(u64::MAX, 3), (0, 55), (1, 0)];
            U64Keys::sort(level(), &mut ends);
            assert_eq!(ends, [(0, 55), (1, 0), (u64::MAX, 3)]);
            U64Keys::sort(level(), &mut []);
        }
    }

    #[test]
    fn strings_are_sorted_whatever_they_share() {
        let shared: [&[u8]; 3] = [b"", b"a", b"longer than a word"];
        for (simd, shared) in LEVELS.iter().flat_map(|level| shared.map(|shared| (level(), shared)))
        {
            let tails: Vec<Vec<u8>> =
                (0..52usize).map(|i| vec![(i * 7 % 5) as u8 * 60; i * 11 % 23]).collect();
            let mut keys: Vec<Vec<u8>> = tails.iter().map(|tail| [shared, tail].concat()).collect();
            keys.sort();
            keys.dedup();
            let mut entries: Vec<(&[u8], u8)> =
                keys.iter().enumerate().map(|(i, key)| (&**key, i as u8)).collect();
            entries.rotate_left(17);
            (0..entries.len() / 2).step_by(3).for_each(|i| entries.swap(i, i * 2));
            BytesKeys::sort(simd, &mut entries);
            assert!(
                entries.iter().map(|entry| usize::from(entry.1)).eq(0..keys.len()),
                "{shared:?}: {entries:?}"
            );
        }
        for level in LEVELS {
            BytesKeys::sort(level(), &mut []);
            let mut one: [(&[u8], u8); 1] = [(b"one", 9)];
            BytesKeys::sort(level(), &mut one);
            assert_eq!(one, [(&b"one"[..], 9)]);
        }
    }

    #[test]
    fn fingerprints_spread() {
        for stride in [1u64, 2, 256, 1 << 32, 0x0101_0101] {
            let mut seen = [0u32; 256];
            for i in 0..25_600 {
                seen[U64Keys::hash(i * stride).fingerprint() as usize] += 1;
            }
            assert!(
                seen.iter().all(|n| (50..200).contains(n)),
                "u64 keys of stride {stride}: {seen:?}"
            );
        }
        let mut seen = [0u32; 256];
        for i in 0..25_600 {
            seen[BytesKeys::hash(format!("user{i:012}").as_bytes()).fingerprint() as usize] += 1;
        }
        assert!(seen.iter().all(|n| (50..200).contains(n)), "byte keys: {seen:?}");
    }
}
