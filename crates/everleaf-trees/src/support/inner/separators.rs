//! The kinds of separators: how they are searched, compared and kept.
//!
//! A node is searched by one word per separator. A `u64` separator is its word. Of a byte string
//! the word holds the eight bytes that follow the prefix which all separators of the node share,
//! padded with zeros; a *handle* leads to the whole string. Padding keeps the order but makes
//! `b"a"` and `b"a\0"` equal: equal words are told apart by comparing whole strings.

use std::cmp::Ordering;
use std::fmt::Debug;
use std::sync::atomic::Ordering::Relaxed;

use everleaf_index::{BytesKeys, KeyKind, U64Keys};
use everleaf_pmem::{DramLine, DramSource, MapError};

use super::InnerError;
use super::strings::{Handle, Strings};

/// Longest shared prefix that a node remembers: the header line is its length and seven words of
/// it.
pub(super) const MAX_SKIP: usize = 56;

/// How separators of a kind of keys are kept and compared.
pub trait InnerKey: KeyKind {
    /// Whether the word of a separator is all of it.
    const EXACT: bool;
    /// Where what does not fit into the word is kept.
    type Separators: Debug + Send + Sync;

    /// Makes an empty place for separators.
    ///
    /// # Errors
    /// When the system has no addresses.
    fn separators(dram: DramSource<'_>) -> Result<Self::Separators, MapError>;
    /// The eight bytes of `key` from `skip` on, big-endian.
    fn word(key: Self::Ref<'_>, skip: usize) -> u64;
    /// Where `key` stands in relation to the prefix in a node's header line: before, within or
    /// after all that have it.
    fn compare_prefix(key: Self::Ref<'_>, header: &DramLine) -> Ordering;

    /// Keeps a separator; returns its handle, 0 for the smallest.
    ///
    /// # Errors
    /// When memory is exhausted or the separator is too long; nothing is kept then.
    fn keep(separators: &Self::Separators, key: Self::Ref<'_>) -> Result<u64, InnerError>;
    /// Gives the memory of a kept separator back.
    fn release(separators: &Self::Separators, handle: u64);
    /// Compares a kept separator with `key`; both are known to agree on the first `skip` bytes.
    fn compare(
        separators: &Self::Separators,
        kept: Kept,
        key: Self::Ref<'_>,
        skip: usize,
    ) -> Ordering;
    /// The word of a kept separator.
    fn kept_word(separators: &Self::Separators, kept: Kept, skip: usize) -> u64;
    /// A copy of a kept separator.
    fn owned(separators: &Self::Separators, kept: Kept) -> Self::Owned;
    /// Bytes of memory taken.
    fn dram_bytes(separators: &Self::Separators) -> u64;
    /// Words that are handed out.
    fn live_words(separators: &Self::Separators) -> u64;
    /// Words that this separator takes.
    fn words(handle: u64) -> u64;
}

/// A separator in a node: its word there, and its handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Kept {
    /// The word by which it is searched.
    pub word: u64,
    /// Leads to the whole; 0 for the smallest separator, and where the word is all.
    pub handle: u64,
}

impl Kept {
    /// Whether this is the smallest separator, that of the first child.
    pub(super) fn is_smallest<K: InnerKey>(self) -> bool {
        self.handle == 0 && (!K::EXACT || self.word == 0)
    }
}

impl InnerKey for U64Keys {
    const EXACT: bool = true;
    type Separators = ();

    fn separators(_dram: DramSource<'_>) -> Result<(), MapError> {
        Ok(())
    }
    #[inline(always)]
    fn word(key: u64, _skip: usize) -> u64 {
        key
    }
    #[inline(always)]
    fn compare_prefix(_key: u64, _header: &DramLine) -> Ordering {
        Ordering::Equal
    }
    fn keep((): &(), _key: u64) -> Result<u64, InnerError> {
        Ok(0)
    }
    fn release((): &(), _handle: u64) {}
    #[inline(always)]
    fn compare((): &(), kept: Kept, key: u64, _skip: usize) -> Ordering {
        kept.word.cmp(&key)
    }
    #[inline(always)]
    fn kept_word((): &(), kept: Kept, _skip: usize) -> u64 {
        kept.word
    }
    fn owned((): &(), kept: Kept) -> u64 {
        kept.word
    }
    fn dram_bytes((): &()) -> u64 {
        0
    }
    fn live_words((): &()) -> u64 {
        0
    }
    fn words(_handle: u64) -> u64 {
        0
    }
}

impl InnerKey for BytesKeys {
    const EXACT: bool = false;
    type Separators = Strings;

    fn separators(dram: DramSource<'_>) -> Result<Strings, MapError> {
        Strings::new(dram)
    }
    #[inline(always)]
    fn word(key: &[u8], skip: usize) -> u64 {
        match key.get(skip..).and_then(|rest| rest.first_chunk()) {
            Some(bytes) => u64::from_be_bytes(*bytes),
            None => last_word(key, skip),
        }
    }
    #[inline(always)]
    fn compare_prefix(key: &[u8], header: &DramLine) -> Ordering {
        compare_prefix(header, |index| Self::word(key, index * 8))
    }
    fn keep(separators: &Strings, key: &[u8]) -> Result<u64, InnerError> {
        separators.keep(key)
    }
    fn release(separators: &Strings, handle: u64) {
        separators.release(Handle(handle));
    }
    fn compare(separators: &Strings, kept: Kept, key: &[u8], skip: usize) -> Ordering {
        let handle = Handle(kept.handle);
        for index in skip / 8..handle.words() as usize {
            match separators.word(handle, index).cmp(&Self::word(key, index * 8)) {
                Ordering::Equal => {}
                unequal => return unequal,
            }
        }
        handle.bytes().cmp(&key.len())
    }
    fn kept_word(separators: &Strings, kept: Kept, skip: usize) -> u64 {
        let handle = Handle(kept.handle);
        let (index, shift) = (skip / 8, skip % 8 * 8);
        let first = separators.word(handle, index) << shift;
        if shift == 0 { first } else { first | separators.word(handle, index + 1) >> (64 - shift) }
    }
    fn owned(separators: &Strings, kept: Kept) -> Box<[u8]> {
        let handle = Handle(kept.handle);
        let words = (0..handle.words() as usize)
            .flat_map(|index| separators.word(handle, index).to_be_bytes());
        words.take(handle.bytes()).collect()
    }
    fn dram_bytes(separators: &Strings) -> u64 {
        separators.dram_bytes()
    }
    fn live_words(separators: &Strings) -> u64 {
        separators.live_words()
    }
    fn words(handle: u64) -> u64 {
        Handle(handle).words()
    }
}

/// Fewer than eight bytes are left from `skip` on.
#[inline(always)]
fn last_word(key: &[u8], skip: usize) -> u64 {
    let rest = key.len().saturating_sub(skip);
    match key.last_chunk() {
        _ if rest == 0 => 0,
        Some(bytes) => u64::from_be_bytes(*bytes) << ((8 - rest) * 8),
        None => key[skip..].iter().rev().fold(0, |word, byte| word >> 8 | u64::from(*byte) << 56),
    }
}

/// Compares the string that has these words with the prefix in a header line: `[length, seven
/// words]`.
#[inline(always)]
fn compare_prefix(header: &DramLine, word: impl Fn(usize) -> u64) -> Ordering {
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
pub(super) fn write_prefix<K: InnerKey>(
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
pub(super) fn has_prefix<K: InnerKey>(
    separators: &K::Separators,
    kept: Kept,
    header: &DramLine,
) -> bool {
    K::EXACT || compare_prefix(header, |index| K::kept_word(separators, kept, index * 8)).is_eq()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_big_endian_and_padded() {
        let key = b"abcdefghijk";
        for skip in 0..14 {
            let mut bytes = [0; 8];
            for (byte, source) in bytes.iter_mut().zip(key.iter().skip(skip)) {
                *byte = *source;
            }
            assert_eq!(BytesKeys::word(key, skip), u64::from_be_bytes(bytes), "skip {skip}");
            for len in 0..7 {
                assert_eq!(BytesKeys::word(&key[..len], 0) >> (64 - len * 8).min(63), {
                    key[..len].iter().fold(0, |word, byte| word << 8 | u64::from(*byte))
                });
            }
        }
    }
}
