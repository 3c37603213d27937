//! Byte-string keys: the word is where the record of the bytes is.

use std::cmp::Ordering;

use everleaf_index::{BytesKeys, IndexError, MAX_KEY_BYTES, Result};
use everleaf_pmem::{DramSource, LINE, MapError, Media, PCell, PPtr};
use everleaf_pool::{Pool, Record, RecordGuard, Worker};

use super::numbers::GOLDEN;
use super::strings::{Handle, word_of};
use super::{EntryHash, KeepError, Kept, KeyHash, Strings, TreeKey};
use crate::{EngineCode, Open};

/// What is wrong with the record of an entry whose key is not the entry's.
#[cold]
fn foreign<M: Media>(pool: &Pool<M>, word: u64) -> IndexError {
    let what = "an entry leads to the record of another key";
    match pool.verify_record(PPtr::at(word)) {
        Ok(()) => IndexError::Corrupt { offset: word, what },
        Err(error) => error.into(),
    }
}

impl TreeKey for BytesKeys {
    const RECORDS: bool = true;

    fn open_by<M: Media>(code: &EngineCode<M>) -> Option<Open<Self, M>> {
        code.open_bytes
    }

    #[inline(always)]
    fn least<'a>() -> Self::Ref<'a> {
        &[]
    }
    #[inline]
    fn admit(key: &[u8]) -> Result<()> {
        if key.len() > MAX_KEY_BYTES {
            return Err(IndexError::KeyTooLong { bytes: key.len(), max_bytes: MAX_KEY_BYTES });
        }
        Ok(())
    }
    #[inline]
    fn cmp_keys(left: &[u8], right: &[u8]) -> Ordering {
        left.cmp(right)
    }
    /// The shortest: the common prefix and one byte more. It is short in DRAM and in the leaf's
    /// bound, and never empty.
    fn separator(left: &[u8], right: &[u8]) -> Box<[u8]> {
        right[..right.len().min(Self::common_prefix(left, right, usize::MAX) + 1)].into()
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
    #[inline(always)]
    fn word(key: &[u8], skip: usize) -> u64 {
        word_of(key, skip)
    }
    #[inline]
    fn common_prefix(left: &[u8], right: &[u8], limit: usize) -> usize {
        left.iter().zip(right).take(limit).take_while(|(a, b)| a == b).count()
    }

    #[inline(always)]
    fn as_word(_key: &[u8]) -> Option<u64> {
        None
    }
    #[inline]
    fn place<M: Media>(worker: &mut Worker<M>, cell: &PCell, key: &[u8]) -> Result<()> {
        Ok(worker.alloc_record_into(cell.view::<PPtr<Record>>(), &[key])?)
    }
    #[inline]
    fn discard<M: Media>(worker: &mut Worker<M>, cell: &PCell) -> Result<()> {
        Ok(worker.free_from(cell.view::<PPtr<Record>>())?)
    }
    /// Equal bytes need no checksum; different ones are believed only if the record is intact, so
    /// that damage is an error and no missing key.
    #[inline]
    fn is_key<M: Media>(pool: &Pool<M>, word: u64, key: &[u8]) -> Result<bool> {
        if pool.key_is(PPtr::at(word), key)? {
            return Ok(true);
        }
        pool.verify_record(PPtr::at(word))?;
        Ok(false)
    }
    /// Equal bytes need no check. Others are what the hash says, or damaged.
    #[inline]
    fn is_hashed<M: Media>(pool: &Pool<M>, word: u64, key: &[u8], hash: EntryHash) -> Result<bool> {
        let is_key = pool.key_is(PPtr::at(word), key)?;
        if is_key || hash.is_of(Self::hash(&pool.copy_key_unverified(PPtr::at(word))?)) {
            return Ok(is_key);
        }
        Err(foreign(pool, word))
    }
    #[inline]
    fn compare<M: Media>(pool: &Pool<M>, word: u64, key: &[u8]) -> Result<Ordering> {
        if word == 0 {
            return Ok(Self::least().cmp(key)); // The first key of the first inner node of a level.
        }
        Ok(pool.compare_key(PPtr::at(word), key)?)
    }
    fn verify<M: Media>(pool: &Pool<M>, word: u64) -> Result<()> {
        if word == 0 { Ok(()) } else { Ok(pool.verify_record(PPtr::at(word))?) }
    }
    fn copy<M: Media>(pool: &Pool<M>, word: u64) -> Result<Box<[u8]>> {
        Ok(pool.copy_record(PPtr::at(word))?)
    }
    #[inline]
    fn read<'g, M: Media>(records: &'g RecordGuard<'_, M>, word: u64) -> Result<&'g [u8]> {
        Ok(records.record(PPtr::at(word))?)
    }

    #[inline]
    fn read_hashed<'g, M: Media>(
        records: &'g RecordGuard<'_, M>,
        word: u64,
        hash: EntryHash,
    ) -> Result<&'g [u8]> {
        let key = records.key_unverified(PPtr::at(word))?;
        if hash.is_of(Self::hash(key)) {
            return Ok(key);
        }
        Err(foreign(records, word))
    }

    type BoundWord = u64;
    #[inline(always)]
    fn bound_word(word: u64) -> u64 {
        word
    }
    #[inline]
    fn known_bound<'g, M: Media>(
        records: &'g RecordGuard<'_, M>,
        _first: u64,
        word: u64,
    ) -> &'g [u8] {
        let known = || records.record_unverified(PPtr::at(word));
        if word == 0 { Self::least() } else { known().unwrap_or(Self::least()) }
    }
    #[inline(always)]
    fn prefetch_bound<M: Media>(media: &M, word: u64) {
        Self::prefetch(media, word);
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

    type Separators = Strings;
    fn separators(dram: DramSource<'_>) -> Result<Strings, MapError> {
        Strings::new(dram)
    }
    fn expect(separators: &Strings, words: u64) {
        separators.expect(words);
    }
    fn keep(separators: &Strings, key: &[u8]) -> Result<u64, KeepError> {
        separators.keep(key)
    }
    fn release(separators: &Strings, handle: u64) {
        separators.release(Handle(handle));
    }
    fn compare_kept(separators: &Strings, kept: Kept, key: &[u8], skip: usize) -> Ordering {
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
    fn copy_kept(separators: &Strings, kept: Kept) -> Box<[u8]> {
        let handle = Handle(kept.handle);
        let words = (0..handle.words() as usize)
            .flat_map(|index| separators.word(handle, index).to_be_bytes());
        words.take(handle.bytes()).collect()
    }
    fn words_kept(handle: u64) -> u64 {
        Handle(handle).words()
    }
    fn words_in_use(separators: &Strings) -> u64 {
        separators.words_in_use()
    }
    fn separator_bytes(separators: &Strings) -> u64 {
        separators.dram_bytes()
    }
}

#[cfg(test)]
mod tests {
    use everleaf_index::U64Keys;

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
