//! Groups of leaves: which leaves are free, recovery knows by the list of leaves: what that does
//! not lead to is free.
//!
//! One leaf is always free, for a full leaf can then be replaced in a full pool.

use everleaf_index::Result;
use everleaf_pmem::{Media, site};
use everleaf_pool::Worker;

use super::layout::Shape;
use super::leaf::Leaf;
use everleaf_tree::groups::Groups;
use everleaf_tree::key::TreeKey;

/// Takes so many free leaves, or none if the pool is full; one more stays free if `growing`. For
/// byte-string keys their bounds and key words are null.
pub(super) fn take<K: TreeKey, M: Media>(
    groups: &mut Groups,
    worker: &mut Worker<M>,
    shape: Shape,
    count: usize,
    growing: bool,
) -> Result<[u64; 2]> {
    let needed = if growing { count.max(2) } else { count };
    while groups.free().len() < needed {
        grow::<K, M>(groups, worker, shape)?;
    }
    let mut taken = [0; 2];
    taken[..count.min(2)].fill_with(|| groups.pop().unwrap_or_default());
    Ok(taken)
}

/// Takes a group from the pool.
pub(super) fn grow<K: TreeKey, M: Media>(
    groups: &mut Groups,
    worker: &mut Worker<M>,
    shape: Shape,
) -> Result<()> {
    groups.grow(worker, |media, offset| {
        if K::RECORDS {
            let leaf = Leaf::at(media.region(), offset, shape);
            leaf.into_iter().for_each(|leaf| clear(media, leaf));
        }
    })
}

/// Makes the bound and the key words of a leaf of an unpublished run null (G1).
fn clear<M: Media>(media: &M, leaf: Leaf<'_>) {
    media.store(&leaf.head.lower_bound, 0);
    media.flush(site!("nvtree.group.G1.bound"), &leaf.head.lower_bound);
    let slots = 0..leaf.shape().slots();
    slots.clone().for_each(|slot| media.store(leaf.key(slot), 0));
    leaf.flush_keys(media, site!("nvtree.group.G1.keys"), slots);
}
