//! The difference between `u64` keys and byte-string keys, for all trees: what a key word in
//! persistent memory means, and how separators are kept in DRAM.
//!
//! # Key words
//! A key word is the key itself, or where the record of its bytes is. Every word that leads to a
//! record owns it. Words 0 stand for the least key where a bound is meant, and for nothing else.
//!
//! # Entries of one record
//! In a tree whose entries have one record each, the value of an entry leads to a record that has
//! the key, and belongs to whoever has put it there. The key word of such an entry is the hash of
//! the key: it tells keys apart without a look at records, and vouches for the key in the record,
//! whose checksum would be that of the whole value. The bounds of nodes are records of their own
//! as ever: those of entries go when keys are removed or replaced.
//!
//! # Separators
//! An inner node in DRAM is searched by one word per separator. A `u64` separator is its word. Of a
//! byte string the word holds the eight bytes that follow the prefix which all separators of the
//! node share, padded with zeros; a *handle* leads to the whole string. Padding keeps the order but
//! makes `b"a"` and `b"a\0"` equal: equal words are told apart by comparing whole strings.
//!
//! Map of the files: `numbers` `bytes` (the two kinds of keys) · `strings` (where whole bytes of
//! separators are kept) · `slices` (keys as words of eight bytes).

mod bytes;
mod numbers;
pub mod slices;
mod strings;
#[cfg(any(test, feature = "testing"))]
mod testing;

use std::cmp::Ordering;
use std::fmt::Debug;

use everleaf_index::Result;
use everleaf_pmem::{DramSource, MapError, Media, PCell};
use everleaf_pool::{Pool, RecordGuard, Worker};

use crate::{EngineCode, Open};

pub use slices::SliceKey;
pub use strings::{KeepError, Strings};
#[cfg(any(test, feature = "testing"))]
pub use testing::TestKey;

/// A kind of key that every tree can hold: [`U64Keys`](everleaf_index::U64Keys) and
/// [`BytesKeys`](everleaf_index::BytesKeys).
pub trait TreeKey: SliceKey + sealed::Sealed {
    /// Whether key words lead to records, which are allocated with the key and freed with it. Else
    /// the word is the key.
    const RECORDS: bool;

    /// What opens an index of such keys, if the engine has them.
    fn open_by<M: Media>(code: &EngineCode<M>) -> Option<Open<Self, M>>;

    /// The least key of all.
    fn least<'a>() -> Self::Ref<'a>;

    /// Refuses a key that is too long.
    ///
    /// # Errors
    /// [`IndexError::KeyTooLong`](everleaf_index::IndexError::KeyTooLong).
    fn admit(key: Self::Ref<'_>) -> Result<()>;

    /// Compares keys of different lifetimes.
    fn cmp_keys(left: Self::Ref<'_>, right: Self::Ref<'_>) -> Ordering;

    /// A short key that is greater than `left` and at most `right`, given `left < right`.
    fn separator(left: Self::Ref<'_>, right: Self::Ref<'_>) -> Self::Owned;

    /// 64 bits that tell keys apart.
    fn hash(key: Self::Ref<'_>) -> KeyHash;

    /// The eight bytes of a key from `skip` on, big-endian, padded with zeros: smaller words of the
    /// same `skip` mean smaller keys where what is skipped is the same. Of a `u64` it is all.
    fn word(key: Self::Ref<'_>, skip: usize) -> u64;

    /// How many bytes two keys begin with alike, at most `limit`; of numbers none.
    fn common_prefix(left: Self::Ref<'_>, right: Self::Ref<'_>, limit: usize) -> usize;

    /// The word that stands for a key, where it needs no record.
    fn as_word(key: Self::Ref<'_>) -> Option<u64>;

    /// Writes a key to a key word that no entry has (a dead slot's, the header's, a log's): a store
    /// without a flush, or the allocation of a record, which is durable.
    ///
    /// # Errors
    /// [`IndexError::Pool`](everleaf_index::IndexError::Pool) when the pool is full; the word is
    /// null then.
    fn place<M: Media>(worker: &mut Worker<M>, cell: &PCell, key: Self::Ref<'_>) -> Result<()>;

    /// Frees the record that a word leads to, if any, and makes the word null, durably; nothing for
    /// keys that are not records.
    ///
    /// # Errors
    /// [`IndexError::Pool`](everleaf_index::IndexError::Pool) if it leads to no record.
    fn discard<M: Media>(worker: &mut Worker<M>, cell: &PCell) -> Result<()>;

    /// Whether a key word stands for `key`. Nothing is lent: what the word stands for may be
    /// changed meanwhile by another thread, if the caller finds out and then ignores the answer.
    ///
    /// # Errors
    /// [`IndexError::Pool`](everleaf_index::IndexError::Pool) if the word leads to no record, or to
    /// a damaged one.
    fn is_key<M: Media>(pool: &Pool<M>, word: u64, key: Self::Ref<'_>) -> Result<bool>;

    /// Whether the record of an entry has `key`; the hash of both is the same. Nothing is lent, as
    /// in [`is_key`](TreeKey::is_key).
    ///
    /// # Errors
    /// [`IndexError::Corrupt`](everleaf_index::IndexError::Corrupt) if it has a key of another
    /// hash; as [`is_key`](TreeKey::is_key).
    fn is_hashed<M: Media>(
        pool: &Pool<M>,
        word: u64,
        key: Self::Ref<'_>,
        hash: EntryHash,
    ) -> Result<bool>;

    /// How the key of a word compares with `key`; 0 is the least key. Nothing is lent, and whether
    /// the record is intact is not asked ([`verify`](TreeKey::verify)).
    ///
    /// # Errors
    /// As [`is_key`](TreeKey::is_key).
    fn compare<M: Media>(pool: &Pool<M>, word: u64, key: Self::Ref<'_>) -> Result<Ordering>;

    /// An error if the key of a word is damaged. Nothing is lent.
    ///
    /// # Errors
    /// As [`is_key`](TreeKey::is_key).
    fn verify<M: Media>(pool: &Pool<M>, word: u64) -> Result<()>;

    /// The key of a word, copied. Nothing is lent.
    ///
    /// # Errors
    /// As [`is_key`](TreeKey::is_key).
    fn copy<M: Media>(pool: &Pool<M>, word: u64) -> Result<Self::Owned>;

    /// The key of a word, lent as long as the guard lives.
    ///
    /// # Errors
    /// As [`is_key`](TreeKey::is_key).
    fn read<'g, M: Media>(records: &'g RecordGuard<'_, M>, word: u64) -> Result<Self::Ref<'g>>;

    /// The key that the record of an entry has, lent as long as the guard lives; its hash is known.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`](everleaf_index::IndexError::Corrupt) if it has another key; as
    /// [`is_key`](TreeKey::is_key).
    fn read_hashed<'g, M: Media>(
        records: &'g RecordGuard<'_, M>,
        word: u64,
        hash: EntryHash,
    ) -> Result<Self::Ref<'g>>;

    /// The same of a lower bound, where 0 is the least key.
    ///
    /// # Errors
    /// As [`is_key`](TreeKey::is_key).
    #[inline(always)]
    fn read_bound<'g, M: Media>(
        records: &'g RecordGuard<'_, M>,
        word: u64,
    ) -> Result<Self::Ref<'g>> {
        if Self::RECORDS && word == 0 { Ok(Self::least()) } else { Self::read(records, word) }
    }

    /// What `see` makes of a lower bound.
    ///
    /// # Errors
    /// As [`is_key`](TreeKey::is_key).
    #[inline(always)]
    fn see_bound<M: Media>(
        pool: &Pool<M>,
        word: u64,
        see: impl FnOnce(Self::Ref<'_>) -> u64,
    ) -> Result<u64> {
        Ok(see(Self::read_bound(&pool.pin(), word)?))
    }

    /// What must be kept of a lower bound beside its first word to have it again: of a number
    /// nothing, since that is all; of a byte string all.
    type BoundWord: Copy + Send + Sync;

    /// Of the key word of a lower bound.
    fn bound_word(word: u64) -> Self::BoundWord;

    /// Prefetches the first line of what [`known_bound`](TreeKey::known_bound) reads.
    #[inline(always)]
    fn prefetch_bound<M: Media>(_media: &M, _word: Self::BoundWord) {}

    /// The lower bound that was seen before, its record being intact then. `first` is the first
    /// word of a number.
    fn known_bound<'g, M: Media>(
        records: &'g RecordGuard<'_, M>,
        first: u64,
        word: Self::BoundWord,
    ) -> Self::Ref<'g>;

    /// Prefetches the first line of the record that a key word leads to.
    fn prefetch<M: Media>(media: &M, word: u64);

    /// Prefetches the first lines of what the value in a cell may lead to: a store's value is the
    /// offset of a record, which is wanted next. Whatever else it is, nothing is lost. Only trees
    /// whose keys are records do so, since only they have a miss that this one can overlap with;
    /// and not where every load is counted.
    fn prefetch_value<M: Media>(media: &M, value: &PCell);

    /// Where what does not fit into the word of a separator is kept.
    type Separators: Debug + Send + Sync;

    /// Makes an empty place for separators.
    ///
    /// # Errors
    /// When the system has no addresses.
    fn separators(dram: DramSource<'_>) -> Result<Self::Separators, MapError>;

    /// Takes memory at once for separators of so many words that are kept next. Where there is
    /// none, keeping them says so.
    fn expect(separators: &Self::Separators, words: u64);

    /// Keeps a separator; returns its handle, 0 for the smallest.
    ///
    /// # Errors
    /// When memory is exhausted or the separator is too long; nothing is kept then.
    fn keep(separators: &Self::Separators, key: Self::Ref<'_>) -> Result<u64, KeepError>;

    /// Gives the memory of a kept separator back.
    fn release(separators: &Self::Separators, handle: u64);

    /// Compares a kept separator with `key`; both are known to agree on the first `skip` bytes.
    fn compare_kept(
        separators: &Self::Separators,
        kept: Kept,
        key: Self::Ref<'_>,
        skip: usize,
    ) -> Ordering;

    /// The word of a kept separator.
    fn kept_word(separators: &Self::Separators, kept: Kept, skip: usize) -> u64;

    /// A copy of a kept separator.
    fn copy_kept(separators: &Self::Separators, kept: Kept) -> Self::Owned;

    /// Words that a kept separator takes.
    fn words_kept(handle: u64) -> u64;

    /// Words that all separators take.
    fn words_in_use(separators: &Self::Separators) -> u64;

    /// Bytes of memory taken.
    fn separator_bytes(separators: &Self::Separators) -> u64;
}

pub(crate) mod sealed {
    pub trait Sealed {}
    impl Sealed for everleaf_index::U64Keys {}
    impl Sealed for everleaf_index::BytesKeys {}
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
    pub fn is_smallest<K: TreeKey>(self) -> bool {
        self.handle == 0 && (K::RECORDS || self.word == 0)
    }
}

/// The hash of a key: its top byte is the fingerprint, the bits below choose the home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHash(u64);

impl KeyHash {
    /// Of 64 evenly spread bits.
    #[inline(always)]
    pub const fn new(bits: u64) -> Self {
        Self(bits)
    }

    /// All of it, as it stands in an entry of one record.
    #[inline(always)]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// All of it but the lowest bit, which is set.
    #[inline(always)]
    pub const fn odd_word(self) -> u64 {
        self.0 | 1
    }

    /// One byte to tell the keys of a leaf apart.
    #[inline(always)]
    pub const fn fingerprint(self) -> u8 {
        (self.0 >> 56) as u8
    }

    /// 56 bits to tell the keys of a leaf apart, where there is room for so many.
    #[inline(always)]
    pub const fn tag(self) -> u64 {
        self.0 >> 8
    }

    /// A number below `places`, by the upper half of the hash, which neighbouring numbers share out
    /// evenly.
    #[inline(always)]
    pub const fn home(self, places: usize) -> usize {
        (((self.0 >> 32) * places as u64) >> 32) as usize
    }

    /// A number below `places`, independent of the fingerprint.
    #[inline(always)]
    pub const fn place(self, places: usize) -> usize {
        ((((self.0 << 8) >> 32) * places as u64) >> 32) as usize
    }
}

/// What an entry keeps of the hash of its key: all of it, or all but the lowest bit.
#[derive(Clone, Copy, Debug)]
pub struct EntryHash {
    bits: u64,
    mask: u64,
}

impl EntryHash {
    /// By a [word](KeyHash::odd_word) without the lowest bit.
    #[inline(always)]
    pub const fn of_odd_word(word: u64) -> Self {
        Self { bits: word, mask: !1 }
    }

    /// Whether it may be that of a key.
    #[inline(always)]
    pub const fn is_of(self, hash: KeyHash) -> bool {
        (self.bits ^ hash.0) & self.mask == 0
    }
}

impl From<KeyHash> for EntryHash {
    #[inline(always)]
    fn from(hash: KeyHash) -> Self {
        Self { bits: hash.0, mask: u64::MAX }
    }
}
