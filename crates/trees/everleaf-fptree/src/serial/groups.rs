//! Groups of leaves: which leaves are free, recovery knows by their bitmaps.

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Media, site};
use everleaf_pool::Worker;

use crate::layout::{Shape, SlotSet};
use crate::leaf::Leaf;
use everleaf_tree::groups::Groups;
use everleaf_tree::key::TreeKey;

/// Takes a free leaf: its bitmap is 0, its bound, if that is a record, and key words that own
/// records are null.
/// Takes a group from the pool if there is none.
#[inline]
pub(super) fn take<K: TreeKey, M: Media, S: Shape>(
    groups: &mut Groups,
    worker: &mut Worker<M>,
    shape: S,
) -> Result<u64> {
    if let Some(leaf_offset) = groups.pop() {
        return Ok(leaf_offset);
    }
    groups.grow(worker, |media, leaf_offset| {
        let leaf = Leaf::at(media.region(), leaf_offset, shape);
        leaf.into_iter().for_each(|leaf| clear::<K, M, S>(media, leaf, shape));
    })?;
    groups.pop().ok_or(IndexError::Corrupt {
        offset: 0,
        what: "a leaf group of the pool is smaller than a leaf",
    })
}

/// Makes the leaf of an unpublished run free (G1).
fn clear<K: TreeKey, M: Media, S: Shape>(media: &M, leaf: Leaf<'_, S>, shape: S) {
    media.store(leaf.bitmap(), SlotSet::EMPTY);
    media.flush(site!("fptree.group.G1.bitmap"), leaf.bitmap());
    if K::RECORDS {
        media.store(&leaf.head.lower_bound, 0);
        media.flush(site!("fptree.group.G1.bound"), &leaf.head.lower_bound);
    }
    if shape.owns_keys::<K>() {
        for slot in shape.all() {
            media.store(leaf.key(slot), 0);
        }
        leaf.flush_keys(media, site!("fptree.group.G1.keys"), shape.all());
    }
}
