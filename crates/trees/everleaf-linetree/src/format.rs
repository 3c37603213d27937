//! The family's part of docs/format.md.

use everleaf_pmem::Layout;

use super::layout::{Leaf, LeafHead, OwnLog};

/// What docs/format.md shows of this family: a leaf of the tuned size.
pub fn layouts() -> Vec<Layout> {
    let named = |name, layout| Layout { name, ..layout };
    vec![
        named("Line tree head", LeafHead::layout()),
        named("Line tree leaf", Leaf::<15>::layout()),
        named("Line tree own records", OwnLog::layout()),
    ]
}
