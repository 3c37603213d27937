//! What happens to a leaf that has left the list: for byte-string keys its dead records are freed,
//! and it forgets the others, before its memory serves again.

use everleaf_index::Result;
use everleaf_pmem::{Media, site};
use everleaf_pool::Worker;

use super::leaf::Leaf;
use everleaf_tree::key::TreeKey;

/// A leaf that has left the list.
pub(super) struct Retired<'p> {
    pub leaf: Leaf<'p>,
    /// The newest element of each key whose record no leaf of the list has.
    pub dead: Vec<usize>,
    /// Whether no leaf of the list has the record of its bound.
    pub bound: bool,
}

/// Frees what only leaves have that have left the list; the leaves are clean then. Nothing to do
/// for keys that are not records.
pub(super) fn retire<K: TreeKey, M: Media>(
    worker: &mut Worker<M>,
    media: &M,
    retired: &[Retired<'_>],
) -> Result<()> {
    if !K::RECORDS {
        return Ok(());
    }
    // S3: pointers to records that leaves of the list have, and all but one to each other record,
    // become null. Crash: recovery does the same, with every leaf that is not in the list.
    let mut freed = false;
    for Retired { leaf, dead, bound } in retired {
        let count = leaf.fill(media)?.count();
        let forgotten = |slot: &usize| !dead.contains(slot);
        for slot in (0..count).filter(forgotten) {
            media.store(leaf.key(slot), 0);
        }
        leaf.flush_keys(media, site!("nvtree.split.S3.forget"), (0..count).filter(forgotten));
        let own = media.load(&leaf.head.lower_bound) != 0;
        if !bound && own {
            media.store(&leaf.head.lower_bound, 0);
            media.flush(site!("nvtree.split.S3.bound"), &leaf.head.lower_bound);
        }
        freed |= *bound && own || !dead.is_empty();
    }
    if !freed {
        // Else the freeing fences before it changes anything.
        media.fence(site!("nvtree.split.S3.fence"));
    }
    // S4: the dead records are freed, each with the one pointer that is left. Crash: recovery frees
    // those that are left.
    for Retired { leaf, dead, bound } in retired {
        for slot in dead {
            K::discard(worker, leaf.key(*slot))?;
        }
        if *bound {
            K::discard(worker, &leaf.head.lower_bound)?;
        }
    }
    Ok(())
}
