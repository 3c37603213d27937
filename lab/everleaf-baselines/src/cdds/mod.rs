//! CDDS B-tree: a sorted B+-tree in persistent memory that versions make consistent.
//!
//! After Venkataraman, Tolia, Ranganathan, Campbell: "Consistent and Durable Data Structures for
//! Non-Volatile Byte-Addressable Memory", FAST 2011. Yang et al. measure the NV-Tree against it
//! ("NV-Tree: Reducing Consistency Cost for NVM-based Single Level Systems", FAST 2015, the
//! slides), and Kim et al. the clfB-tree (TOS 2018).
//!
//! # The idea
//! Each entry says for which versions it holds: from `start` to before `end`. What an operation
//! adds begins with the next version, and what it takes away ends with it; nothing that holds is
//! overwritten. When all of that is durable, one store of 8 bytes makes the next version the
//! current one. After a crash recovery takes back what is of the version to come.
//!
//! Entries of a node are sorted. For a new one the others make room: those between its place and
//! the next free slot move by one. A moved entry must be durable in its new slot before the old one
//! is written to, so every line of the move takes a flush and a fence. That is the cost of the
//! tree, and what the NV-Tree saves.
//!
//! # Order of persistence
//! * S1: fresh nodes are written and flushed. Crash: only the commit leads to them; they are free.
//! * P1: entries end with the next version, and others move by one, the one next to the free slot
//!   first, to make room for new ones that begin with the next version. Each line is flushed when
//!   the next one is to be written, and fenced. Crash: each entry is there, some of them twice, and
//!   at most one slot between them is empty; recovery moves them back, and makes live what has
//!   ended. The moves of the two new entries of a split have no fence between them: the first
//!   line of the second move may be durable without the last line of the first. Then an entry that
//!   has ended before, and that both go over, stands between two copies of a greater one; recovery
//!   leaves it out.
//! * P2 COMMIT: a fence; another root if there is one, then the current version, in one line;
//!   flush; fence. Crash before: as P1. Crash after: the operation is done.
//! * What has left the tree is free from here on: entries whose end is not after the current
//!   version, and nodes to which only such entries lead.
//!
//! **Creation** (C1, C2) writes an empty leaf, fences, and stores version and root, in one line,
//! which the first commit flushes: a tree without a root is empty, too.
//!
//! **A write to a slot** makes it empty first (`start` 0), then writes key, end and value, then
//! `start`: all in one line, so a crash leaves the old entry, an empty slot or the new one.
//!
//! **Recovery** (R1) makes everything that it takes back durable before it returns: the next
//! operation is of the same version.
//!
//! # Garbage
//! There are no readers of old versions, so what has ended is free with the commit. A slot is used
//! again by a later move, which begins or ends there. A node that has lost its last live entry
//! leaves the tree, and gets free with the same commit. So a leaf has at least one live entry, an
//! inner node leads somewhere, and the nodes are at most as many as they were keys, as in any tree
//! that does not merge: however often keys change, the tree takes no more room.
//!
//! # Decisions
//! * **Versions are those of operations**, one at a time, and old ones are not read; the paper
//!   keeps some, and needs a collector of garbage for them.
//! * **Nodes have no count and no head.** Empty slots are behind the entries, and are found by
//!   halves with them; the level stands beside the offset that leads to a node. So an insertion
//!   flushes no head. A fresh node is flushed whole, its empty slots too.
//! * **The newest entry of a key is behind its others**, and only it can be live: a search ends at
//!   one slot.
//! * **A leaf keeps a slot free**, for an update: it needs a slot, and must not be refused by a
//!   full pool. So a leaf is full, and split, with one live entry less than slots.
//! * **A split copies** the live entries to two fresh nodes, and the entry that led to the old one
//!   ends. Nodes are not merged. A root that leads to one node only gives way to it.
//! * **Leaves have no links**: scans go along the path from the root.
//! * **Memory** is taken in runs of the pool. Which nodes are free is known in DRAM; to recovery
//!   those that the root does not lead to are.
//!
//! # Costs
//! `m` lines have the slots from the new entry's to the free one.
//!
//! | operation | flushes | fences |
//! |---|---|---|
//! | insert | `m + 1` | `m + 1` |
//! | update | the same; one more where the old entry is in a line before | `m + 1` |
//! | remove | 2 | 2 |
//! | remove, and the root gives way | 1 | 1 |
//! | split | `slots` of two nodes / 2, 1, and what both entries take above | 2, and those of the moves above |
//!
//! # Invariants
//! * I1: every node is of the level below the one that leads to it; its entries are in the first
//!   slots, and all others are empty.
//! * I2: entries ascend strictly by key and start; each starts before it ends, not after the
//!   current version, and ends by then or not at all; those of one key follow each other.
//! * I3: every live key of a node is at least the key that leads to it, and less than that of the
//!   next live entry; the first live key of an inner node means nothing.
//! * I4: every leaf but the root has a live entry, every inner node too, the root two if it is one;
//!   every leaf has a free slot.
//! * I5: every node of every run is reached exactly once, or free; the counts of the groups agree.
//! * I6: the number of keys is that of the live entries of all leaves.
//!
//! # Map of the files
//! `layout` (every persistent byte) · `node` (entries by slot) · `search` (the way from the root) ·
//! `scan` · `shift` (P1) · `commit` (P2) · `insert` · `split` (and S1) · `update` · `remove` ·
//! `recover` (opening) · `check` (I1 to I6) · `engine` (for the table of engines) · `format` (for
//! docs/format.md).

mod check;
mod commit;
pub(crate) mod engine;
mod format;
mod insert;
mod layout;
mod node;
mod recover;
mod remove;
mod scan;
mod search;
mod shift;
mod split;
#[cfg(test)]
mod tests;
mod update;

use std::marker::PhantomData;
use std::sync::Arc;

use everleaf_index::{
    CheckReport, Direction, IndexStatistics, Result, SerialIndex, Start, Visitor,
};
use everleaf_pmem::Media;
use everleaf_pool::{Audit, Pool, Worker};

use crate::shared::{one_by_one, walk, word_of};
use everleaf_tree::groups::Groups;
use everleaf_tree::key::TreeKey;
use everleaf_tree::operations::ended;
use layout::{Child, Current, Shape};
use search::Nodes;

pub use engine::{CDDS, OFFER, Parameters, Variant, engines, open};
pub use format::layouts;

/// A B+-tree of versions, of `u64` keys, for one thread at a time; [`open`] puts it behind a lock.
pub struct CddsTree<K: TreeKey, M: Media> {
    pool: Arc<Pool<M>>,
    worker: Worker<M>,
    groups: Groups,
    shape: Shape,
    /// As they stand in the anchor.
    current: Current,
    root: Child,
    keys: u64,
    leaves: u64,
    kind: PhantomData<fn() -> K>,
}
impl<K: TreeKey, M: Media> CddsTree<K, M> {
    fn nodes(&self) -> Nodes<'_, M> {
        Nodes { pool: &self.pool, shape: self.shape, root: self.root }
    }
}

impl<K: TreeKey, M: Media> SerialIndex<K> for CddsTree<K, M> {
    #[inline]
    fn get(&self, key: K::Ref<'_>) -> Result<Option<u64>> {
        ended(self.nodes().find(word_of::<K>(key)), self.pool.media())
    }

    fn get_many(&self, keys: &[K::Ref<'_>], values: &mut [Option<u64>]) -> Result<()> {
        one_by_one(keys, values, |key| self.get(key))
    }

    #[inline]
    fn insert(&mut self, key: K::Ref<'_>, value: u64) -> Result<bool> {
        ended(CddsTree::insert(self, word_of::<K>(key), value), self.pool.media())
    }

    #[inline]
    fn update(&mut self, key: K::Ref<'_>, value: u64) -> Result<Option<u64>> {
        ended(CddsTree::update(self, word_of::<K>(key), value), self.pool.media())
    }

    #[inline]
    fn upsert(&mut self, key: K::Ref<'_>, value: u64) -> Result<Option<u64>> {
        ended(CddsTree::upsert(self, word_of::<K>(key), value), self.pool.media())
    }

    #[inline]
    fn remove(&mut self, key: K::Ref<'_>) -> Result<Option<u64>> {
        ended(CddsTree::remove(self, word_of::<K>(key)), self.pool.media())
    }

    fn scan(&self, from: Start<'_, K>, direction: Direction, visit: Visitor<'_, K>) -> Result<()> {
        let walked = walk::<K, M, _>(self.nodes(), &self.pool.pin(), from, direction, visit);
        ended(walked, self.pool.media())
    }

    fn len(&self) -> u64 {
        self.keys
    }

    fn statistics(&self) -> IndexStatistics {
        let height = u32::from(self.root.level()) + 1;
        IndexStatistics {
            keys: self.keys,
            height,
            leaves: if self.keys == 0 { 0 } else { self.leaves },
            leaf_slots: self.shape.slots() as u64 - 1,
            inner_nodes: self.groups.used().saturating_sub(self.leaves),
            pm_bytes: self.groups.pm_bytes(),
            node_bytes: self.groups.pm_bytes(),
            dram_bytes: self.groups.dram_bytes() + size_of::<Self>() as u64,
            ..IndexStatistics::default()
        }
    }

    fn check(&self, audit: &mut Audit) -> Result<CheckReport> {
        self.check_all(audit)
    }
}
