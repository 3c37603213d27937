//! `u64` keys: the word is the key.

use std::cmp::Ordering;

use everleaf_index::{Result, U64Keys};
use everleaf_pmem::{DramSource, MapError, Media, PCell};
use everleaf_pool::{Pool, RecordGuard, Worker};

use super::{EntryHash, KeepError, Kept, KeyHash, TreeKey};
use crate::{EngineCode, Open};

/// 2^64 divided by the golden ratio, odd: multiplied by it, neighbouring keys spread evenly over
/// the top byte (Knuth, vol. 3, 6.4).
pub(super) const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl TreeKey for U64Keys {
    const RECORDS: bool = false;

    fn open_by<M: Media>(code: &EngineCode<M>) -> Option<Open<Self, M>> {
        Some(code.open_u64)
    }

    #[inline(always)]
    fn least<'a>() -> Self::Ref<'a> {
        0
    }
    #[inline(always)]
    fn admit(_key: u64) -> Result<()> {
        Ok(())
    }
    #[inline(always)]
    fn cmp_keys(left: u64, right: u64) -> Ordering {
        left.cmp(&right)
    }
    #[inline(always)]
    fn separator(_left: u64, right: u64) -> u64 {
        right
    }
    #[inline(always)]
    fn hash(key: u64) -> KeyHash {
        KeyHash::new(key.wrapping_mul(GOLDEN))
    }
    #[inline(always)]
    fn word(key: u64, _skip: usize) -> u64 {
        key
    }
    #[inline(always)]
    fn common_prefix(_left: u64, _right: u64, _limit: usize) -> usize {
        0
    }

    #[inline(always)]
    fn as_word(key: u64) -> Option<u64> {
        Some(key)
    }
    #[inline(always)]
    fn place<M: Media>(worker: &mut Worker<M>, cell: &PCell, key: u64) -> Result<()> {
        worker.pool().media().store(cell, key);
        Ok(())
    }
    #[inline(always)]
    fn discard<M: Media>(_worker: &mut Worker<M>, _cell: &PCell) -> Result<()> {
        Ok(())
    }
    #[inline(always)]
    fn is_key<M: Media>(_pool: &Pool<M>, word: u64, key: u64) -> Result<bool> {
        Ok(word == key)
    }
    #[inline(always)]
    fn compare<M: Media>(_pool: &Pool<M>, word: u64, key: u64) -> Result<Ordering> {
        Ok(word.cmp(&key))
    }
    #[inline(always)]
    fn verify<M: Media>(_pool: &Pool<M>, _word: u64) -> Result<()> {
        Ok(())
    }
    #[inline(always)]
    fn copy<M: Media>(_pool: &Pool<M>, word: u64) -> Result<u64> {
        Ok(word)
    }
    #[inline(always)]
    fn read<M: Media>(_records: &RecordGuard<'_, M>, word: u64) -> Result<u64> {
        Ok(word)
    }
    /// No entry of these keys has its key in a record.
    #[inline(always)]
    fn is_hashed<M: Media>(_pool: &Pool<M>, word: u64, key: u64, _hash: EntryHash) -> Result<bool> {
        Ok(word == key)
    }
    /// As above.
    #[inline(always)]
    fn read_hashed<M: Media>(
        _records: &RecordGuard<'_, M>,
        word: u64,
        _hash: EntryHash,
    ) -> Result<u64> {
        Ok(word)
    }
    #[inline(always)]
    fn see_bound<M: Media>(
        _pool: &Pool<M>,
        word: u64,
        see: impl FnOnce(u64) -> u64,
    ) -> Result<u64> {
        Ok(see(word))
    }

    type BoundWord = ();
    #[inline(always)]
    fn bound_word(_word: u64) {}
    #[inline(always)]
    fn known_bound<M: Media>(_records: &RecordGuard<'_, M>, first: u64, (): ()) -> u64 {
        first
    }

    #[inline(always)]
    fn prefetch<M: Media>(_media: &M, _word: u64) {}
    #[inline(always)]
    fn prefetch_value<M: Media>(_media: &M, _value: &PCell) {}

    type Separators = ();
    fn separators(_dram: DramSource<'_>) -> Result<(), MapError> {
        Ok(())
    }
    fn expect((): &(), _words: u64) {}
    fn keep((): &(), _key: u64) -> Result<u64, KeepError> {
        Ok(0)
    }
    fn release((): &(), _handle: u64) {}
    #[inline(always)]
    fn compare_kept((): &(), kept: Kept, key: u64, _skip: usize) -> Ordering {
        kept.word.cmp(&key)
    }
    #[inline(always)]
    fn kept_word((): &(), kept: Kept, _skip: usize) -> u64 {
        kept.word
    }
    fn copy_kept((): &(), kept: Kept) -> u64 {
        kept.word
    }
    fn words_kept(_handle: u64) -> u64 {
        0
    }
    fn words_in_use((): &()) -> u64 {
        0
    }
    fn separator_bytes((): &()) -> u64 {
        0
    }
}
