//! Finding a key in its leaf: the fingerprints lead to the slot.

use everleaf_index::Result;
use everleaf_pmem::{Counter, Media};
use everleaf_pool::Pool;

use super::entry::is_key;
use super::layout::{Shape, SlotSet};
use super::leaf::Leaf;
use everleaf_tree::key::KeyHash;
use everleaf_tree::key::TreeKey;

/// The live slots of a leaf, and those that may hold a key of this fingerprint.
#[inline(always)]
pub(super) fn candidates<M: Media, S: Shape>(
    media: &M,
    leaf: Leaf<'_, S>,
    hash: KeyHash,
) -> (SlotSet, SlotSet) {
    if S::FINGERPRINTS {
        let (bitmap, mask) = media.match_line(&leaf.head.line0, hash.fingerprint());
        let live = SlotSet::of_bitmap(bitmap);
        (live, live.and(SlotSet::of_line_mask(mask)).and(leaf.shape().all()))
    } else {
        let live = leaf.live(media);
        (live, live.and(leaf.shape().all()))
    }
}

/// The first of the candidate slots whose key is `key`.
#[inline(always)]
pub(super) fn probe<K: TreeKey, M: Media, S: Shape>(
    pool: &Pool<M>,
    leaf: Leaf<'_, S>,
    candidates: SlotSet,
    key: K::Ref<'_>,
    hash: KeyHash,
) -> Result<Option<usize>> {
    for slot in candidates {
        pool.media().count(Counter::LeafProbes, 1);
        if is_key::<K, M, S>(pool, leaf, slot, key, hash)? {
            return Ok(Some(slot));
        }
    }
    Ok(None)
}
