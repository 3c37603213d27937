//! Inserting into a leaf: the entry into a dead slot, then the bit that makes it live.

use everleaf_index::Result;
use everleaf_pmem::{Media, PCell, planted, site};

use super::entry::key_word;
use super::layout::{Shape, SlotSet};
use super::leaf::Leaf;
use everleaf_tree::key::KeyHash;
use everleaf_tree::key::TreeKey;

/// Makes a dead slot of a leaf live: `place` allocates the record of the key, if it has one of its
/// own, to the slot's key word. No other thread has the leaf.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(super) fn add_entry<K: TreeKey, M: Media, S: Shape>(
    media: &M,
    leaf: Leaf<'_, S>,
    live: SlotSet,
    slot: usize,
    key: K::Ref<'_>,
    hash: KeyHash,
    value: &[u64],
    place: impl FnOnce(&PCell) -> Result<()>,
) -> Result<()> {
    // P1: the entry. Crash: the slot is dead and its bytes mean nothing; a record in it is freed by
    // recovery.
    match key_word::<K, S>(leaf.shape(), key, hash) {
        Some(word) => media.store(leaf.key(slot), word),
        None => place(leaf.key(slot))?,
    }
    leaf.store_value(media, slot, value);
    let (entry, only_value) = (site!("fptree.insert.P1.entry"), site!("fptree.insert.P1.value"));
    if leaf.shape().owns_keys::<K>() {
        // The record's allocation has flushed the key word.
        leaf.flush_value(media, if S::FINGERPRINTS { entry } else { only_value }, slot);
    } else {
        leaf.flush_entry(media, entry, only_value, slot);
    }
    media.fence(site!("fptree.insert.P1.fence"));
    // P2 COMMIT: fingerprint, then bitmap, in one line. Crash: the bit is durable, and the
    // fingerprint with it, or neither matters.
    planted!(201, media.store(leaf.bitmap(), live.with(slot)));
    if S::FINGERPRINTS {
        leaf.store_fingerprint(media, slot, hash.fingerprint());
        media.order(site!("fptree.insert.P2.order"));
    }
    media.store(leaf.bitmap(), live.with(slot));
    media.flush(site!("fptree.insert.P2.bitmap"), leaf.bitmap());
    media.fence(site!("fptree.insert.P2.fence"));
    Ok(())
}
