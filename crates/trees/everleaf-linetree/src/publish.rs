//! A new leaf becomes one of the tree: a flush for each of its lines, 2 fences.

use everleaf_pmem::{Media, PPtr, planted, site};

use super::layout::{LIVE, Leaf, LeafHead};
use super::split_halves::Draft;

/// Makes a free leaf one of the tree, with these lines and this lower bound. What it has got is
/// still to be found in the leaf `from`, if that matters.
pub(super) fn publish<M: Media, const LINES: usize>(
    media: &M,
    leaf: &Leaf<LINES>,
    draft: &Draft<LINES>,
    lower_bound: u64,
    from: PPtr<LeafHead>,
) {
    // S1: every line, also those without an entry: they have what the leaf held before it was
    // free. Crash: the leaf is free.
    for (line, words) in leaf.lines.iter().zip(draft.lines()) {
        if planted(385) && *words == [0; 8] {
            continue;
        }
        line.0.iter().zip(words).for_each(|(cell, word)| media.store(cell, *word));
        media.flush(site!("linetree.publish.S1.line"), &line.0[0]);
    }
    media.fence(site!("linetree.publish.S1.fence"));
    // S2 COMMIT: the head, `live` last. Crash: the leaf is free; or it is there, and what it has is
    // no longer in the range of the leaf before it.
    media.store(&leaf.head.lower_bound, lower_bound);
    media.store(&leaf.head.dying, PPtr::NULL);
    media.store(&leaf.head.from, from);
    media.order(site!("linetree.publish.S2.order"));
    media.store(&leaf.head.live, LIVE);
    media.flush(site!("linetree.publish.S2.head"), &leaf.head.live);
    media.fence(site!("linetree.publish.S2.fence"));
}
