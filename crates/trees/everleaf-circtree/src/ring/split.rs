//! Splitting: the state word says that the lower entries are all.

use everleaf_pmem::{Media, PPtr, site};

use super::super::layout::{NodeHead, State};
use super::super::node::Node;

/// Lets `next` follow a full node, which is at rest in the state `after` then. The last flush is
/// not fenced.
pub(crate) fn truncate<M: Media>(media: &M, node: Node<'_>, after: State, next: PPtr<NodeHead>) {
    // C2 COMMIT: the new node follows the old one. Crash: it is there, and recovery cuts the old
    // one if that is still full.
    media.store(&node.head.next, next);
    media.order(site!("sorted.split.C2.order"));
    media.store(&node.head.state, after.seal());
    media.flush(site!("sorted.split.C2.header"), &node.head.state);
}

/// Does the second half of that again. Durable only together with what is fenced next: the entry
/// above, which is missing still.
pub(crate) fn truncate_again<M: Media>(media: &M, node: Node<'_>, after: State) {
    // R1. Crash: it is full, or it is done.
    media.store(&node.head.state, after.seal());
    media.flush(site!("sorted.recover.R1.header"), &node.head.state);
}
