//! Trees whose nodes, inner ones too, keep their entries sorted in persistent memory: Circ-Tree and
//! FAST+FAIR.
//!
//! # The idea
//! What makes the two differ is how a node opens and closes a gap among its entries: Circ-Tree does
//! it in a [`ring`], FAST+FAIR in an array whose entries are [`shifted`]. All else is the same and
//! here: the way from the root to a leaf, locks, scans, the changes of the structure with their one
//! line of log, opening, checking. Nodes are the same bytes. What depends on the design goes
//! through the methods in `discipline`, one for each thing that differs, and stands in the folder
//! of the design. A tree knows at run time which design it has, so that there is one copy of the
//! code for every kind of key and memory; a branch that always goes the same way is cheap beside a
//! flush.
//!
//! The whole tree is persistent: opening it reads the root's address and nothing else.
//!
//! # Many threads
//! * L1: every node has a version lock, in DRAM ([`VersionLocks`], chosen by the node's offset). A
//!   thread that stores into a node has it locked until everything is durable, so no reader acts on
//!   what a crash can still undo.
//! * L2: readers write nothing that is shared. They go down from version to version (`search`).
//! * L3: a writer locks one leaf, if its version is still the one that it has read, and waits for
//!   nothing while it has it.
//! * L4: splits, merges and changes of the root are made one at a time, under one lock, whose
//!   holder may wait for nodes. It has all nodes locked that it changes, and the one above, until
//!   the change is whole.
//! * L5: a scan locks one leaf at a time while it shows it, and follows the chain: it reads the
//!   version of the next leaf before it asks whether the one that leads there is still the same.
//! * L6: a node may be freed, and its memory be used again, while a reader still looks at it. The
//!   reader loads cells, which are defined whatever they hold, and finds by the version that what
//!   it read does not count. So may the record of a key: what it says counts while the node that
//!   has the key is the same.
//!
//! # Invariants
//! * I1: the state word of every node carries its check, and every node is of the level below the
//!   one that leads to it.
//! * I2: keys of a node ascend strictly; an inner node has an entry.
//! * I3: every key of a node is at least the key that leads to it, and less than the next one; the
//!   first key of an inner node is the one that leads to it, 0 at the left edge.
//! * I4: nodes of a level are chained in the order in which the nodes above lead to them.
//! * I5: every block of the pool that is a node is reached exactly once (the pool's audit).
//! * I6: outside of operations the log of changes is retired.
//! * I7: the totals are right.
//!
//! # Map of the files
//! `layout` (every persistent byte, the state word) · `node` (cells by slot) · `discipline` (what
//! the designs do differently) · `engine` (sizes on offer, the
//! trees that have them) · `search` `many` `scan` `insert` `split` `remove` `merge` `update` (one
//! operation each) · `link` (a change with what it leads to) · `recover` (crash states, opening,
//! closing) · `check` (I1 to I7) · `format` (for docs/format.md) · [`ring`] [`shifted`] (the two
//! designs, the same files each).
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod check;
mod discipline;
pub mod engine;
mod format;
mod insert;
mod layout;
mod link;
mod many;
mod merge;
mod node;
mod recover;
mod remove;
pub mod ring;
mod scan;
mod search;
pub mod shifted;
mod split;
#[cfg(test)]
mod tests;
mod update;

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use everleaf_index::{
    CheckReport, Concurrency, Conflicts, Contract, Direction, Index, IndexStatistics, LinkSteps,
    Links, Result, Start, Visitor,
};
use everleaf_pmem::Media;
use everleaf_pool::{Audit, Pool, Seal, Worker, Workers};
use parking_lot::{Mutex, MutexGuard};

pub use engine::{
    CIRCTREE, CIRCTREE_LS, FASTFAIR, OFFER, TUNED, VOLATILE_CIRC, VOLATILE_STD, Variant, create,
    engines, laboratory, open, twins,
};
#[cfg(not(test))]
pub use engine::{LABORATORY, SHIPPED};
pub use format::layouts;
use layout::{Anchor, Shape, node_bytes};

use everleaf_tree::count::Count;
use everleaf_tree::key::TreeKey;
use everleaf_tree::operations::{Restarts, ended, in_groups};
use everleaf_tree::scan::ScanRequest;
use everleaf_tree::steps::Steps;
use everleaf_tree::version_locks::VersionLocks;
use everleaf_tree::wait::wait;

/// Locks of nodes: 64 KiB, as many as the concurrent FPTree has.
const LOCKS: usize = 1 << 13;

/// Workers for the records of byte-string keys: half of the pool's, so that a store has as many for
/// its values.
const WORKERS: usize = 31;

/// The lock of the root's address: no node is there.
const ROOT: u64 = 0;

/// A Circ-Tree or FAST+FAIR that many threads share.
pub struct SortedTree<K: TreeKey, M: Media> {
    pool: Arc<Pool<M>>,
    workers: Workers<M>,
    /// Changes of the structure allocate with this worker; each change ends with a fence.
    changes: Mutex<Worker<M>>,
    shape: Shape,
    /// Nodes are searched from their first entry on.
    linear: bool,
    locks: VersionLocks,
    keys: Count,
    leaves: AtomicU64,
    inner_nodes: AtomicU64,
    /// Searches that began again.
    restarts: Restarts,
    key_kind: PhantomData<fn() -> K>,
}

impl<K: TreeKey, M: Media> SortedTree<K, M> {
    /// Counts a search that begins again.
    fn restarted(&self) {
        self.restarts.again(self.pool.media());
    }

    /// Keeps others from changing the structure.
    fn lock_changes(&self) -> MutexGuard<'_, Worker<M>> {
        let relax = wait(self.pool.media());
        loop {
            if let Some(guard) = self.changes.try_lock() {
                return guard;
            }
            relax();
        }
    }

    /// More nodes than this there cannot be.
    fn max_nodes(&self) -> u64 {
        recover::max_nodes(&self.pool, self.shape)
    }

    fn statistics_of(&self) -> Result<IndexStatistics> {
        let root = self.pool.media().load(&self.pool.index_root::<Anchor>()?.root).offset();
        let height = u32::from(self.node(root)?.state(self.pool.media())?.level) + 1;
        let (leaves, inner_nodes) =
            (self.leaves.load(Ordering::Relaxed), self.inner_nodes.load(Ordering::Relaxed));
        Ok(IndexStatistics {
            keys: self.keys.get(),
            height,
            leaves,
            leaf_slots: self.shape.slots as u64,
            inner_nodes,
            pm_bytes: (leaves + inner_nodes) * node_bytes(self.shape.slots),
            node_bytes: (leaves + inner_nodes) * node_bytes(self.shape.slots),
            dram_bytes: self.locks.dram_bytes() + size_of::<Self>() as u64,
            conflicts: Conflicts {
                restarts: self.restarts.get(),
                waits: self.locks.waits(),
                ..Conflicts::default()
            },
            concurrency: Concurrency::VersionLocks,
            ..IndexStatistics::default()
        })
    }
}

impl<K: TreeKey, M: Media> Index<K> for SortedTree<K, M> {
    #[inline]
    fn get(&self, key: K::Ref<'_>) -> Result<Option<u64>> {
        ended(self.find(key), self.pool.media())
    }

    fn get_many(&self, keys: &[K::Ref<'_>], values: &mut [Option<u64>]) -> Result<()> {
        in_groups(self.pool.media(), keys, values, |keys, values| self.find_group(keys, values))
    }

    #[inline]
    fn insert(&self, key: K::Ref<'_>, value: u64) -> Result<bool> {
        ended(SortedTree::insert(self, key, value), self.pool.media())
    }

    #[inline]
    fn update(&self, key: K::Ref<'_>, value: u64) -> Result<Option<u64>> {
        ended(SortedTree::update(self, key, value, &mut Steps::none()), self.pool.media())
    }

    #[inline]
    fn upsert(&self, key: K::Ref<'_>, value: u64) -> Result<Option<u64>> {
        ended(SortedTree::upsert(self, key, value, &mut Steps::none()), self.pool.media())
    }

    #[inline]
    fn remove(&self, key: K::Ref<'_>) -> Result<Option<u64>> {
        ended(SortedTree::remove(self, key, &mut Steps::none()), self.pool.media())
    }

    fn links(&self) -> Links {
        Self::links_of_tree()
    }

    #[inline]
    fn link(&self, key: K::Ref<'_>, new: Option<u64>, steps: &mut dyn LinkSteps) -> Result<bool> {
        ended(self.link_entry(key, new, steps), self.pool.media())
    }

    fn scan(&self, from: Start<'_, K>, direction: Direction, visit: Visitor<'_, K>) -> Result<()> {
        ended(self.scan_from(ScanRequest { from, direction, visit }), self.pool.media())
    }

    fn len(&self) -> u64 {
        self.keys.get()
    }

    fn statistics(&self) -> IndexStatistics {
        self.statistics_of().unwrap_or_default()
    }

    /// No other operation may run meanwhile.
    fn check(&self, audit: &mut Audit) -> Result<CheckReport> {
        self.check_all(audit)
    }

    fn contract(&self) -> Contract {
        Contract::Strict
    }

    /// Stores the totals, so that opening need not count. No other operation may run meanwhile.
    fn close(&self) -> Result<Option<Seal>> {
        self.store_totals().map(|()| None)
    }
}
