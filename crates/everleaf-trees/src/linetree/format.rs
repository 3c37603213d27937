//! The family's part of docs/format.md.

use everleaf_pmem::Layout;

use super::layout::{Leaf, LeafHead};

/// What docs/format.md shows of this family: a leaf of the tuned size.
pub fn layouts() -> Vec<Layout> {
    vec![LeafHead::layout(), Leaf::<15>::layout()]
}
