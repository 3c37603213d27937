//! Entries of byte strings: the key word is the hash of the key, and the value leads to a record
//! that has the key and belongs to whoever has put it there.

use everleaf_index::Result;
use everleaf_pmem::Media;
use everleaf_pool::{Pool, RecordGuard};

use super::layout::{ENTRIES, Leaf, MAX_ENTRIES, Slot, Wanted};
use everleaf_tree::key::TreeKey;
use everleaf_tree::scan::Entry;

/// Whether the entry in a slot, which has the hash of a key, has the key. Nothing is lent, as in
/// [`TreeKey::is_hashed`].
#[inline(always)]
pub(super) fn is_key<K: TreeKey, M: Media>(
    pool: &Pool<M>,
    slot: Slot<'_>,
    key: K::Ref<'_>,
    wanted: Wanted,
) -> Result<bool> {
    let media = pool.media();
    K::prefetch_value(media, slot.value());
    K::is_hashed(pool, media.load(slot.value()), key, wanted.word.hash())
}

/// Reads the keys of all entries of a leaf that no other thread changes, each with the number of
/// its slot; how many there are.
pub(super) fn collect<'r, K: TreeKey, M: Media, const LINES: usize>(
    records: &'r RecordGuard<'_, M>,
    leaf: &Leaf<LINES>,
    entries: &mut [Entry<'r, K>; MAX_ENTRIES],
) -> Result<usize> {
    let media = records.media();
    prefetch_records::<K, M, LINES>(media, leaf);
    let slots = leaf.lines.iter().flat_map(Slot::all_of).enumerate();
    let slots = slots.filter(|(_, slot)| media.load(slot.key()).is_entry());
    let mut count = 0;
    for ((place, slot), entry) in slots.zip(entries) {
        let (word, value) = (media.load(slot.key()), media.load(slot.value()));
        *entry = (K::read_hashed(records, value, word.hash())?, place as u8);
        count += 1;
    }
    Ok(count)
}

/// Prefetches the records of a leaf's entries. What it reads may change: nothing depends on it.
#[inline(always)]
pub(super) fn prefetch_records<K: TreeKey, M: Media, const LINES: usize>(
    media: &M,
    leaf: &Leaf<LINES>,
) {
    if K::RECORDS && !M::COUNTS_READS {
        for slot in leaf.lines.iter().flat_map(Slot::all_of) {
            if media.load(slot.key()).is_entry() {
                K::prefetch(media, media.load(slot.value()));
            }
        }
    }
}

/// The slot of such a number.
pub(super) fn slot_at<const LINES: usize>(leaf: &Leaf<LINES>, number: u8) -> Slot<'_> {
    let number = usize::from(number);
    Slot { line: &leaf.lines[number / ENTRIES], number: number % ENTRIES }
}
