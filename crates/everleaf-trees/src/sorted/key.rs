//! What the key word of an entry means: the key itself, or where the record of its bytes is.
//! Entries are in the order of the keys either way (the paper keeps hashes of byte strings, and
//! their order with them).
//!
//! Every entry owns its record, those of inner nodes too, which have copies of their own: so no
//! entry has to ask who else uses a record when it is removed. A record that belongs to no entry
//! yet, or no more, is in the `key` word of the node's header.

use std::cmp::Ordering;

use everleaf_index::{BytesKeys, IndexError, KeyKind, MAX_KEY_BYTES, U64Keys};
use everleaf_pmem::{Media, PCell, PPtr};
use everleaf_pool::{Pool, Record, Worker};

/// A kind of key that nodes can hold.
pub trait NodeKey: KeyKind {
    /// Key words are pointers to records.
    const RECORDS: bool;

    /// The least key of all.
    fn least<'a>() -> Self::Ref<'a>;

    /// Refuses a key that is too long.
    ///
    /// # Errors
    /// [`IndexError::KeyTooLong`].
    fn admit(key: Self::Ref<'_>) -> Result<(), IndexError>;

    /// The word that stands for a key, where it needs no record.
    fn as_word(key: Self::Ref<'_>) -> Option<u64>;

    /// Makes a record of a key and writes its place to `cell`, which is null.
    ///
    /// # Errors
    /// [`IndexError::Pool`] when the pool is full.
    fn place<M: Media>(
        worker: &mut Worker<M>,
        cell: &PCell,
        key: Self::Ref<'_>,
    ) -> Result<(), IndexError>;

    /// Frees the record that `cell` points to, if any, and makes it null.
    ///
    /// # Errors
    /// [`IndexError::Pool`] if it points to no record.
    fn discard<M: Media>(worker: &mut Worker<M>, cell: &PCell) -> Result<(), IndexError>;

    /// How the key of a word compares with `key`. Nothing is lent: what the word stands for may be
    /// changed meanwhile by somebody else, if the caller finds out and then ignores what this
    /// returned.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`] or [`IndexError::Pool`] if the word stands for no key.
    fn compare<M: Media>(
        pool: &Pool<M>,
        word: u64,
        key: Self::Ref<'_>,
    ) -> Result<Ordering, IndexError>;

    /// An error if the key of a word is damaged. Nothing is lent.
    ///
    /// # Errors
    /// As [`compare`](NodeKey::compare).
    fn verify<M: Media>(pool: &Pool<M>, word: u64) -> Result<(), IndexError>;

    /// The key of a word, copied. Nothing is lent.
    ///
    /// # Errors
    /// As [`compare`](NodeKey::compare).
    fn copy<M: Media>(pool: &Pool<M>, word: u64) -> Result<Self::Owned, IndexError>;

    /// A short key that is greater than `left` and at most `right`.
    fn separator(left: Self::Ref<'_>, right: Self::Ref<'_>) -> Self::Owned;

    /// The key of a word, lent to somebody who keeps others from changing the node.
    ///
    /// # Errors
    /// As [`compare`](NodeKey::compare).
    fn read<M: Media>(pool: &Pool<M>, word: u64) -> Result<Self::Ref<'_>, IndexError>;
}

impl NodeKey for U64Keys {
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
    fn place<M: Media>(worker: &mut Worker<M>, cell: &PCell, key: u64) -> Result<(), IndexError> {
        worker.pool().media().store(cell, key);
        Ok(())
    }
    fn discard<M: Media>(_worker: &mut Worker<M>, _cell: &PCell) -> Result<(), IndexError> {
        Ok(())
    }
    #[inline(always)]
    fn compare<M: Media>(_pool: &Pool<M>, word: u64, key: u64) -> Result<Ordering, IndexError> {
        Ok(word.cmp(&key))
    }
    #[inline(always)]
    fn verify<M: Media>(_pool: &Pool<M>, _word: u64) -> Result<(), IndexError> {
        Ok(())
    }
    #[inline(always)]
    fn copy<M: Media>(_pool: &Pool<M>, word: u64) -> Result<u64, IndexError> {
        Ok(word)
    }
    fn separator(_left: u64, right: u64) -> u64 {
        right
    }
    #[inline(always)]
    fn read<M: Media>(_pool: &Pool<M>, word: u64) -> Result<u64, IndexError> {
        Ok(word)
    }
}

impl NodeKey for BytesKeys {
    const RECORDS: bool = true;

    #[inline(always)]
    fn least<'a>() -> Self::Ref<'a> {
        &[]
    }
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
    fn place<M: Media>(worker: &mut Worker<M>, cell: &PCell, key: &[u8]) -> Result<(), IndexError> {
        Ok(worker.alloc_record_into(cell.view::<PPtr<Record>>(), &[key])?)
    }
    fn discard<M: Media>(worker: &mut Worker<M>, cell: &PCell) -> Result<(), IndexError> {
        Ok(worker.free_from(cell.view::<PPtr<Record>>())?)
    }
    #[inline]
    fn compare<M: Media>(pool: &Pool<M>, word: u64, key: &[u8]) -> Result<Ordering, IndexError> {
        if word == 0 {
            return Ok([].as_slice().cmp(key)); // The first key of the first inner node of a level.
        }
        Ok(pool.compare_record(PPtr::at(word), key)?)
    }
    fn verify<M: Media>(pool: &Pool<M>, word: u64) -> Result<(), IndexError> {
        if word == 0 { Ok(()) } else { Ok(pool.verify_record(PPtr::at(word))?) }
    }
    fn copy<M: Media>(pool: &Pool<M>, word: u64) -> Result<Box<[u8]>, IndexError> {
        Ok(pool.copy_record(PPtr::at(word))?)
    }
    /// The common beginning and one byte more.
    fn separator(left: &[u8], right: &[u8]) -> Box<[u8]> {
        let common = left.iter().zip(right).take_while(|(a, b)| a == b).count();
        right[..right.len().min(common + 1)].into()
    }
    #[inline]
    fn read<M: Media>(pool: &Pool<M>, word: u64) -> Result<&[u8], IndexError> {
        Ok(pool.record(PPtr::at(word))?)
    }
}
