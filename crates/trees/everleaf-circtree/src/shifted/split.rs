//! FAIR: the new node follows the old one before the old one is cut by a terminator.

use everleaf_pmem::{Media, PPtr, site};

use super::super::layout::{NodeHead, State};
use super::super::node::Node;

/// Lets `next` follow a full node, which keeps its first `middle` entries and is at rest in the
/// state `after` then. The last flush is not fenced.
pub(crate) fn truncate<M: Media>(
    media: &M,
    node: Node<'_>,
    after: State,
    middle: usize,
    next: PPtr<NodeHead>,
) {
    // C2 COMMIT: the new node follows the old one. Crash: it is there, and recovery cuts the old
    // one if that is still full.
    media.store(&node.head.next, next);
    media.flush(site!("sorted.split.C2.next"), &node.head.next);
    media.fence(site!("sorted.split.C2.fence"));
    media.store(node.key(middle), 0);
    media.flush(site!("sorted.split.C2.cut"), node.key(middle));
    media.store(&node.head.state, after.seal());
}

/// Does the second half of that again, durably: the entry above may be there already.
pub(crate) fn truncate_again<M: Media>(media: &M, node: Node<'_>, after: State, middle: usize) {
    // R1. Crash: it is full, or it is done.
    media.store(node.key(middle), 0);
    media.flush(site!("sorted.recover.R1.cut"), node.key(middle));
    media.fence(site!("sorted.recover.R1.fence"));
    media.store(&node.head.state, after.seal());
}
