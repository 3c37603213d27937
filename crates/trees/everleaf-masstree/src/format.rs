//! The family's part of docs/format.md.

use everleaf_pmem::Layout;

use super::layout::{Anchor, Block, FreeList, Fresh, Logged, Node, RunHead};

/// What docs/format.md shows of this family.
pub fn layouts() -> Vec<Layout> {
    let named = |name, layout| Layout { name, ..layout };
    vec![
        named("Masstree anchor", Anchor::layout()),
        named("Masstree node", Node::layout()),
        named("Masstree block", Block::layout()),
        named("Masstree fresh memory", Fresh::layout()),
        named("Masstree free list", FreeList::layout()),
        named("Masstree run", RunHead::layout()),
        named("Masstree log entry", Logged::layout()),
    ]
}
