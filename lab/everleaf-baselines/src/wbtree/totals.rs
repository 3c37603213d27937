//! How many keys and nodes the tree has. Nothing persistent says so, and opening does not count:
//! who asks first does, once.

use std::sync::OnceLock;

use everleaf_pmem::Media;

use super::search::Nodes;
use everleaf_tree::key::TreeKey;

/// Sums over the tree, or by how much they have changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub keys: i64,
    pub leaves: i64,
    pub inner_nodes: i64,
}

impl Totals {
    /// Those at the time of the opening, which are known of an empty tree only.
    pub fn unknown(is_fresh: bool) -> OnceLock<Self> {
        let empty = Self { leaves: 1, ..Self::default() };
        if is_fresh { OnceLock::from(empty) } else { OnceLock::new() }
    }

    /// Sums.
    pub fn plus(self, other: Self) -> Self {
        Self {
            keys: self.keys + other.keys,
            leaves: self.leaves + other.leaves,
            inner_nodes: self.inner_nodes + other.inner_nodes,
        }
    }

    /// Differences.
    pub fn minus(self, other: Self) -> Self {
        Self {
            keys: self.keys - other.keys,
            leaves: self.leaves - other.leaves,
            inner_nodes: self.inner_nodes - other.inner_nodes,
        }
    }
}

/// Counts what the root leads to, which are so many nodes at most; in a damaged tree as far as it
/// can be followed.
pub(super) fn count<K: TreeKey, M: Media>(nodes: Nodes<'_, K, M>, most: u64) -> Totals {
    let mut totals = Totals::default();
    let mut to_visit: Vec<_> = nodes.root().into_iter().collect();
    for _ in 0..most {
        let Some(node) = to_visit.pop() else { break };
        if node.level() == 0 {
            totals.leaves += 1;
            totals.keys += node.count() as i64;
            continue;
        }
        totals.inner_nodes += 1;
        to_visit.extend((0..node.count()).filter_map(|slot| nodes.child(node, slot).ok()));
    }
    totals
}
