//! What the words of an entry mean: where its key is, in a tree of either form
//! ([`Shape::one_record`]).

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Media, PCell, PPtr};
use everleaf_pool::{Pool, RecordGuard};

use super::layout::Shape;
use super::leaf::Leaf;
use everleaf_tree::key::{KeyHash, TreeKey};

/// The key word of a new entry; none if that leads to a record of its own, which is to be
/// allocated.
#[inline(always)]
pub(super) fn key_word<K: TreeKey, S: Shape>(
    shape: S,
    key: K::Ref<'_>,
    hash: KeyHash,
) -> Option<u64> {
    K::as_word(key).or_else(|| shape.one_record().then(|| hash.word()))
}

/// The cell that leads to the record of a slot's key, if its key is in a record.
#[inline(always)]
pub(super) fn record_cell<'p, S: Shape>(leaf: Leaf<'p, S>, slot: usize) -> &'p PCell {
    if leaf.shape().one_record() { &leaf.value(slot)[0] } else { leaf.key(slot) }
}

/// Whether a live slot has this key. Nothing is lent, as in [`TreeKey::is_key`].
#[inline(always)]
pub(super) fn is_key<K: TreeKey, M: Media, S: Shape>(
    pool: &Pool<M>,
    leaf: Leaf<'_, S>,
    slot: usize,
    key: K::Ref<'_>,
    hash: KeyHash,
) -> Result<bool> {
    let media = pool.media();
    let word = media.load(leaf.key(slot));
    if !K::RECORDS || !leaf.shape().one_record() {
        K::prefetch_value(media, &leaf.value(slot)[0]);
        return K::is_key(pool, word, key);
    }
    if word != hash.word() {
        // The fingerprint is that of the key that is sought: so must a byte of the hash be.
        if S::FINGERPRINTS && KeyHash::new(word).fingerprint() != hash.fingerprint() {
            let offset = media.load(&leaf.value(slot)[0]);
            let what = "the hash of its key is not that of its entry's fingerprint";
            return Err(IndexError::Corrupt { offset, what });
        }
        return Ok(false);
    }
    let record = &leaf.value(slot)[0];
    K::prefetch_value(media, record);
    K::is_hashed(pool, media.load(record), key, hash.into())
}

/// The key of a live slot.
#[inline(always)]
pub(super) fn read_key<'g, K: TreeKey, M: Media, S: Shape>(
    records: &'g RecordGuard<'_, M>,
    leaf: Leaf<'_, S>,
    slot: usize,
) -> Result<K::Ref<'g>> {
    let media = records.media();
    let word = media.load(leaf.key(slot));
    if !K::RECORDS || !leaf.shape().one_record() {
        return K::read(records, word);
    }
    K::read_hashed(records, media.load(&leaf.value(slot)[0]), KeyHash::new(word).into())
}

/// Prefetches the record of a live slot's key. What it reads may be changing.
#[inline(always)]
pub(super) fn prefetch_record<K: TreeKey, M: Media, S: Shape>(
    media: &M,
    leaf: Leaf<'_, S>,
    slot: usize,
) {
    if K::RECORDS {
        K::prefetch(media, media.load(record_cell(leaf, slot)));
    }
}

/// Prefetches what the allocator has of the block of a slot's record, for who is about to replace
/// the record. What it reads may be changing.
#[inline(always)]
pub(super) fn prefetch_block<K: TreeKey, M: Media, S: Shape>(
    pool: &Pool<M>,
    leaf: Leaf<'_, S>,
    slot: usize,
) {
    if K::RECORDS && leaf.shape().one_record() && !M::COUNTS_READS {
        pool.prefetch_block(PPtr::at(pool.media().load(&leaf.value(slot)[0])));
    }
}
