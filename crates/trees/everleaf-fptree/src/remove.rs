//! Removing from a leaf: one bit goes off. The store that takes the last key of a leaf takes the
//! leaf out of the tree as well.

use everleaf_pmem::{Media, site};

use super::layout::{Shape, SlotSet};
use super::leaf::Leaf;
use everleaf_tree::key::TreeKey;

/// Makes a live slot dead; the slots that are left. No other thread has the leaf.
#[inline(always)]
pub(super) fn clear_bit<K: TreeKey, M: Media, S: Shape>(
    media: &M,
    leaf: Leaf<'_, S>,
    live: SlotSet,
    slot: usize,
) -> SlotSet {
    // P1 COMMIT: the bit goes off. Crash: the key is there or not. If it was the last one the leaf,
    // whose bitmap is 0, has left the tree in the same moment, and its left neighbour has its
    // range.
    let remaining = live.without(slot);
    media.store(leaf.bitmap(), remaining);
    media.flush(site!("fptree.remove.P1.bitmap"), leaf.bitmap());
    if !leaf.shape().owns_keys::<K>() {
        // Records: P2 fences before it changes anything.
        media.fence(site!("fptree.remove.P1.fence"));
    }
    remaining
}
