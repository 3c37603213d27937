//! Sorting the keys of a leaf for a scan or a split.

use everleaf_pmem::{MAX_RANKED, SimdLevel, ranks};

use crate::key::TreeKey;

/// Entries that a leaf can have at most.
const MAX_SLOTS: usize = 60;

/// Sorts keys with their slots: by the eight bytes behind what all of them share, and only where
/// some are the same in these by all of their bytes. Comparing numbers takes a fraction of the time
/// of comparing strings.
#[inline(always)]
pub fn sort<K: TreeKey>(simd: SimdLevel, entries: &mut [(K::Ref<'_>, u8)]) {
    let Some(((first, _), others)) = entries.split_first() else { return };
    let shorter = |limit, other: &(K::Ref<'_>, u8)| K::common_prefix(*first, other.0, limit);
    let shared = others.iter().fold(usize::MAX, shorter);
    if sort_by_ranks(simd, entries, |entry| K::word(entry.0, shared)) {
        return;
    }
    // A processor without AVX2, or strings that are the same in eight bytes.
    if !K::RECORDS || entries.len() > MAX_SLOTS {
        return entries.sort_unstable_by_key(|entry| entry.0);
    }
    let (mut unsorted, mut order) = ([(K::least(), 0); MAX_SLOTS], [(0, 0); MAX_SLOTS]);
    let (unsorted, order) = (&mut unsorted[..entries.len()], &mut order[..entries.len()]);
    unsorted.copy_from_slice(entries);
    for (place, (word, entry)) in order.iter_mut().zip(&*unsorted).enumerate() {
        *word = (K::word(entry.0, shared), place as u8);
    }
    let whole = |place: u8| unsorted[usize::from(place)].0;
    order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| whole(a.1).cmp(&whole(b.1))));
    for (entry, (_, place)) in entries.iter_mut().zip(order) {
        *entry = unsorted[usize::from(*place)];
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
        ([*first; MAX_SLOTS], [0; MAX_SLOTS], [0; MAX_RANKED]);
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
    use everleaf_index::{BytesKeys, U64Keys};

    use super::*;

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
            sort::<U64Keys>(simd, &mut entries);
            assert_eq!(entries, expected, "shift {shift}");
        }
        for level in LEVELS {
            let mut ends = [(u64::MAX, 3), (0, 55), (1, 0)];
            sort::<U64Keys>(level(), &mut ends);
            assert_eq!(ends, [(0, 55), (1, 0), (u64::MAX, 3)]);
            sort::<U64Keys>(level(), &mut []);
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
            sort::<BytesKeys>(simd, &mut entries);
            assert!(
                entries.iter().map(|entry| usize::from(entry.1)).eq(0..keys.len()),
                "{shared:?}: {entries:?}"
            );
        }
        for level in LEVELS {
            sort::<BytesKeys>(level(), &mut []);
            let mut one: [(&[u8], u8); 1] = [(b"one", 9)];
            sort::<BytesKeys>(level(), &mut one);
            assert_eq!(one, [(&b"one"[..], 9)]);
        }
    }
}
