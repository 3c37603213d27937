//! What a crash has left in a leaf, for the trees for one thread and for many.

use everleaf_index::Result;
use everleaf_pmem::{Media, planted, site};
use everleaf_pool::{Pool, Worker};

use super::layout::Shape;
use super::leaf::Leaf;
use super::survey::Stray;
use everleaf_tree::key::TreeKey;

/// Removes what a cut operation left in a dead slot of a leaf, or in the bound of a free one.
pub(super) fn remove_stray<K: TreeKey, M: Media, S: Shape>(
    pool: &Pool<M>,
    worker: &mut Worker<M>,
    shape: S,
    stray: &Stray,
) -> Result<()> {
    let media = pool.media();
    match *stray {
        Stray::Key { leaf_offset, slot } => {
            let leaf = Leaf::at(media.region(), leaf_offset, shape)?;
            let word = media.load(leaf.key(slot));
            let has = |other| media.load(leaf.key(other)) == word && !planted(212);
            if leaf.live(media).into_iter().any(has) {
                // Update W1 or W2: the key lives on in another slot. Crash: done again.
                media.store(leaf.key(slot), 0);
                media.flush(site!("fptree.recover.R5.forget"), leaf.key(slot));
                media.fence(site!("fptree.recover.R5.fence"));
                Ok(())
            } else {
                // Insertion P1 or removal P1: nothing else has the record.
                if planted(211) { Ok(()) } else { K::discard(worker, leaf.key(slot)) }
            }
        }
        // Removal P2 or split S0.
        Stray::Bound { leaf_offset } => {
            K::discard(worker, &Leaf::at(media.region(), leaf_offset, shape)?.head.lower_bound)
        }
    }
}

/// Makes the leftmost leaf's bound the minimum, durably, before anything smaller than its old bound
/// is inserted.
pub(super) fn lower_to_minimum<K: TreeKey, M: Media, S: Shape>(
    pool: &Pool<M>,
    worker: &mut Worker<M>,
    leaf: Leaf<'_, S>,
) -> Result<()> {
    let media = pool.media();
    if media.load(&leaf.head.lower_bound) == 0 || planted(213) {
        return Ok(());
    }
    if K::RECORDS {
        return K::discard(worker, &leaf.head.lower_bound);
    }
    // R6: one p-atomic store. Crash: done again, for the leaf is still the leftmost.
    media.store(&leaf.head.lower_bound, 0);
    media.flush(site!("fptree.recover.R6.bound"), &leaf.head.lower_bound);
    media.fence(site!("fptree.recover.R6.fence"));
    Ok(())
}
