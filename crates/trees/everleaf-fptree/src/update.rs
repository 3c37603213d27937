//! Updating a value in a leaf: one word in place; a wider value into a dead slot, then one bitmap
//! store that flips both bits.

use everleaf_pmem::{Media, planted, site};

use super::layout::{Shape, SlotSet};
use super::leaf::Leaf;
use everleaf_tree::key::KeyHash;
use everleaf_tree::key::TreeKey;

/// Overwrites a value of one word. No other thread has the leaf.
#[inline(always)]
pub(super) fn overwrite<M: Media, S: Shape>(
    media: &M,
    leaf: Leaf<'_, S>,
    slot: usize,
    value: &[u64],
) {
    // P1 COMMIT: one p-atomic store. Crash: the old value or the new one.
    leaf.store_value(media, slot, value);
    leaf.flush_value(media, site!("fptree.update.P1.value"), slot);
    media.fence(site!("fptree.update.P1.fence"));
}

/// Moves the entry of `old_slot` to the dead `new_slot`, with a new value. No other thread has the
/// leaf.
pub(super) fn write_beside<K: TreeKey, M: Media, S: Shape>(
    media: &M,
    leaf: Leaf<'_, S>,
    live: SlotSet,
    old_slot: usize,
    new_slot: usize,
    hash: KeyHash,
    value: &[u64],
) {
    // W1: the new entry. Crash: its slot is dead; its pointer is that of a live slot, which
    // recovery takes as a sign not to free the record.
    media.store(leaf.key(new_slot), media.load(leaf.key(old_slot)));
    leaf.store_value(media, new_slot, value);
    leaf.flush_entry(
        media,
        site!("fptree.update.W1.entry"),
        site!("fptree.update.W1.value"),
        new_slot,
    );
    media.fence(site!("fptree.update.W1.fence"));
    // W2 COMMIT: the new bit on and the old one off by one store. Crash: the old value or the new
    // one.
    if S::FINGERPRINTS {
        leaf.store_fingerprint(media, new_slot, hash.fingerprint());
        media.order(site!("fptree.update.W2.order"));
    }
    planted!(202, media.store(leaf.bitmap(), live.with(new_slot)));
    media.store(leaf.bitmap(), live.with(new_slot).without(old_slot));
    media.flush(site!("fptree.update.W2.bitmap"), leaf.bitmap());
    media.fence(site!("fptree.update.W2.fence"));
    if K::RECORDS && !planted(203) {
        // W3: the dead slot forgets its pointer. Crash: as after W1. Durable now, for a later
        // removal frees the record, and then nothing would tell recovery that this pointer dangles.
        media.store(leaf.key(old_slot), 0);
        media.flush(site!("fptree.update.W3.forget"), leaf.key(old_slot));
        media.fence(site!("fptree.update.W3.fence"));
    }
}
