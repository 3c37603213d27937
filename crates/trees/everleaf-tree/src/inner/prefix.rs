//! The prefix that the separators of a node share, which its words leave out (byte strings only).

use std::cmp::Ordering;
use std::sync::atomic::Ordering::Relaxed;

use everleaf_pmem::DramLine;

use crate::key::{Kept, TreeKey};

/// Longest shared prefix that a node remembers: the header line is its length and seven words of
/// it.
pub(super) const MAX_SKIP: usize = 56;

/// Where `key` stands in relation to the prefix in a node's header line: before, within or after
/// all that have it.
#[inline(always)]
pub(super) fn compare_prefix<K: TreeKey>(key: K::Ref<'_>, header: &DramLine) -> Ordering {
    if K::RECORDS {
        compare_words(header, |index| K::word(key, index * 8))
    } else {
        Ordering::Equal
    }
}

/// Compares the string that has these words with the prefix in a header line: `[length, seven
/// words]`.
#[inline(always)]
fn compare_words(header: &DramLine, word: impl Fn(usize) -> u64) -> Ordering {
    let skip = header.0[0].load(Relaxed) as usize;
    let whole = (skip / 8).min(header.0.len() - 1);
    for index in 0..whole {
        match word(index).cmp(&header.0[index + 1].load(Relaxed)) {
            Ordering::Equal => {}
            unequal => return unequal,
        }
    }
    match skip % 8 {
        0 => Ordering::Equal,
        bytes => (word(whole) & prefix_mask(bytes)).cmp(&header.0[whole + 1].load(Relaxed)),
    }
}

/// The first `bytes` (1 to 7) bytes of a big-endian word.
#[inline(always)]
fn prefix_mask(bytes: usize) -> u64 {
    !(u64::MAX >> (bytes * 8))
}

/// Writes the header line of a node of which these are the first and the last separator that take
/// part in the search: the prefix that they share, and so all between them. Returns its length.
pub(super) fn write_prefix<K: TreeKey>(
    separators: &K::Separators,
    header: &DramLine,
    bounds: Option<(Kept, Kept)>,
) -> usize {
    let mut skip = 0;
    let mut words = [0; MAX_SKIP / 8];
    if let Some((first, last)) = bounds {
        for word in &mut words {
            let (a, b) =
                (K::kept_word(separators, first, skip), K::kept_word(separators, last, skip));
            let same = (a ^ b).leading_zeros() as usize / 8;
            skip += same;
            *word = if same == 8 {
                a
            } else if same == 0 {
                0
            } else {
                a & prefix_mask(same)
            };
            if same < 8 {
                break;
            }
        }
    }
    header.0[0].store(skip as u64, Relaxed);
    for (cell, word) in header.0[1..].iter().zip(words) {
        cell.store(word, Relaxed);
    }
    skip
}

/// Whether a kept separator has the prefix in this header line.
pub(super) fn has_prefix<K: TreeKey>(
    separators: &K::Separators,
    kept: Kept,
    header: &DramLine,
) -> bool {
    !K::RECORDS || compare_words(header, |index| K::kept_word(separators, kept, index * 8)).is_eq()
}
