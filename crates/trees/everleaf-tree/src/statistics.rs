//! What the statistics of trees have in common.

use everleaf_index::Conflicts;
use everleaf_pmem::Media;
use everleaf_pool::Pool;

use crate::key::TreeKey;
use crate::operations::Restarts;
use crate::shared_nodes::SharedNodes;
use crate::version_locks::VersionLocks;

/// Bytes of the pool that a tree with nodes of so many bytes takes: where keys have records, all
/// that are in use.
pub fn pm_bytes<K: TreeKey, M: Media>(pool: &Pool<M>, node_bytes: u64) -> u64 {
    let records = if K::RECORDS { pool.space().map_or(0, |space| space.used_bytes) } else { 0 };
    node_bytes.max(records)
}

/// How often threads met in inner nodes and at the locks of leaves.
pub fn conflicts<K: TreeKey>(
    nodes: &SharedNodes<K>,
    locks: &VersionLocks,
    restarts: &Restarts,
) -> Conflicts {
    let met = nodes.conflicts();
    Conflicts {
        restarts: met.restarts + restarts.get(),
        waits: met.node_waits + met.structure_waits + locks.waits(),
        structure_changes: met.structure_changes,
        transactions: nodes.transaction_counts(),
    }
}
