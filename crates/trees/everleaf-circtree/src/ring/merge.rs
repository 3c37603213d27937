//! Merging: entries of a neighbour are put into dead slots, and the state word then counts them.

use everleaf_pmem::{Media, site};

use super::super::layout::State;
use super::super::node::Node;

/// Allows dead slots to be written: until the header says durably that a removal is done, the slot
/// that it vacated says so.
pub(crate) fn open_dead_slots<M: Media>(media: &M, node: Node<'_>, state: State) {
    if state.vacated {
        // M0: as E0 of an insertion.
        media.store(&node.head.state, state.without_step().seal());
        media.flush(site!("sorted.merge.M0.header"), &node.head.state);
        media.fence(site!("sorted.merge.M0.fence"));
    }
}
