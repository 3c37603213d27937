//! Replacing a value: one store, which is the commit. 1 flush, 1 fence; with steps of a store 2
//! fences.

use everleaf_index::Result;
use everleaf_pmem::{Media, site};

use super::leaf::Leaf;
use everleaf_tree::steps::Steps;

/// Overwrites the value of a live slot. If this fails nothing has changed.
#[inline(always)]
pub(super) fn replace<M: Media>(
    media: &M,
    leaf: Leaf<'_>,
    slot: usize,
    value: u64,
    steps: &mut Steps<'_>,
) -> Result<()> {
    // U1: what the steps prepare. Crash: the old value.
    steps.prepare(Some(media.load(leaf.value(slot))))?;
    if steps.take_part() {
        media.fence(site!("clftree.link.U1.fence"));
    }
    // U2 COMMIT: one p-atomic store. Crash: the old value or the new one.
    media.store(leaf.value(slot), value);
    media.flush(site!("clftree.update.U2.value"), leaf.value(slot));
    steps.complete();
    media.fence(site!("clftree.update.U2.fence"));
    Ok(())
}
