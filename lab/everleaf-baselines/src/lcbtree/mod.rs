//! LCB+Tree: an ordinary B+-tree in persistent memory that a redo log makes consistent.
//!
//! It is what Yang et al. measure the NV-Tree against ("NV-Tree: Reducing Consistency Cost for
//! NVM-based Single Level Systems", FAST 2015, the slides: *log-based consistent B+-tree*). The
//! slides print its name and its numbers; all else is worked out here.
//!
//! # The idea
//! All nodes are alike, sorted, and in persistent memory. An operation gathers in DRAM which words
//! it changes, writes them to a log, commits the log by one word, and only then changes the nodes.
//! What a record of the log has is a parameter of the pool: the whole node as it will be (the
//! default), or the ranges of it that change. Whole nodes need no knowledge of what changes; ranges
//! are the least that a redo log has to write.
//!
//! # Order of persistence
//! The log has two halves, which operations use in turns. The first word of a half is its commit
//! word: a sequence number and the number of words of the records behind it.
//! * S1: fresh nodes are written and flushed. They need no records: only the commit leads to them.
//!   Crash: they are free.
//! * P1: the records are written to the other half, but for those words that share a line with its
//!   commit word, and flushed; with them the lines that the *previous* operation has changed in
//!   place; fence. Crash: the previous operation is the last one that is committed, and its half is
//!   untouched.
//! * P2 COMMIT: the first words of the records, then the commit word, all of one line; flush;
//!   fence. Crash before: as P1. Crash after: the operation is done, recovery does P3.
//! * P3: the nodes are changed in place, without a flush. Crash: recovery does it again.
//!
//! So the log is never emptied: the next commit takes the place of an entry that says so, and by
//! then P1 has made durable what the commit before speaks of. Another thread may run the next
//! operation, which is why it flushes those lines itself and does not rely on a flush of the thread
//! that has stored them. Recovery takes the half with the greater sequence number, writes its
//! records in place, and leaves the flush to the next operation, as P3 does. It writes the same
//! words however often it is cut. After a clean shutdown it finds them there.
//!
//! # Decisions
//! * **An update of a value** is logged as any change, though one store of 8 bytes would be atomic:
//!   the log still has the operation before, and its records would undo the store when they are
//!   replayed. To empty the log first costs as much as to use it.
//! * **The log is written from DRAM**, so the nodes stay as they are until P3, and an operation
//!   that is refused has changed nothing.
//! * **Elements have 24 bytes**, mark, key and value, as NV-Tree's: nodes of one size hold as many
//!   elements in both trees. The mark says nothing but that the element was written.
//! * **Leaves have no links.** Scans go on through the path from the root; so a leaf that is taken
//!   out changes no sibling, and its record is that of one inner node.
//! * **A leaf without keys goes**, and with it every node above that leads to nothing else. Nodes
//!   are not merged otherwise. A root that leads to one node only gives way to it.
//! * **Memory** is taken in runs of the pool, as NV-Tree takes it. Which nodes are free is known in
//!   DRAM; to recovery those that the root does not lead to are.
//!
//! # Costs
//! The log takes one flush for each line of `w` words of records and the commit word. A record is a
//! word and what it has: the `n` words of a node, or of its ranges the count and the `e` words of
//! the elements that are written. Every operation also flushes the lines that the one before has
//! changed in place: `c`, the head and those of the elements that are written.
//!
//! | operation | `w`, whole nodes | `w`, ranges | flushes | fences |
//! |---|---|---|---|---|
//! | insert, remove | `1 + n` | `3 + e` | `(1 + w) / 8` rounded up, and `c` | 2 |
//! | update | `1 + n` | 2 | the same | 2 |
//! | split of a leaf | `2 + 2 n` | `6 + e` | the same, and those of the fresh node | 2 |
//!
//! # Invariants
//! * I1: every node is of the level below the one that leads to it, and has at most as many
//!   elements as slots.
//! * I2: every element has its mark; keys of a node ascend strictly, but for the first one of an
//!   inner node, which means nothing: what is less than the second belongs to the first child.
//! * I3: every key of a node is at least the key that leads to it, and less than the next one.
//! * I4: every leaf but the root has a key, every inner node an element, the root two if it is one.
//! * I5: every node of every run is reached exactly once, or free; the counts of the groups agree.
//! * I6: the number of keys is that of the elements of all leaves.
//! * I7: the log is one run, and its newest half has records that fit the nodes.
//!
//! # Map of the files
//! `layout` (every persistent byte) · `node` (cells by slot) · `redo` (S1 to P3 but for the fresh
//! nodes: the log) · `search` (the way from the root) · `scan` · `insert` (and split) · `update` ·
//! `remove` · `recover` (opening) · `check` (I1 to I7) · `engine` (for the table of engines) ·
//! `format` (for docs/format.md).

mod check;
pub(crate) mod engine;
mod format;
mod insert;
mod layout;
mod node;
mod recover;
mod redo;
mod remove;
mod scan;
mod search;
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
use layout::Shape;
use redo::Redo;
use search::Nodes;

pub use engine::{LCBTREE, Logging, OFFER, Parameters, Variant, engines, open};
pub use format::layouts;

/// A logged B+-tree of `u64` keys for one thread at a time; [`open`] puts it behind a lock.
pub struct LcbTree<K: TreeKey, M: Media> {
    pool: Arc<Pool<M>>,
    worker: Worker<M>,
    groups: Groups,
    redo: Redo,
    shape: Shape,
    keys: u64,
    leaves: u64,
    kind: PhantomData<fn() -> K>,
}

impl<K: TreeKey, M: Media> LcbTree<K, M> {
    fn nodes(&self) -> Nodes<'_, M> {
        Nodes::new(&self.pool, self.shape)
    }
}

impl<K: TreeKey, M: Media> SerialIndex<K> for LcbTree<K, M> {
    #[inline]
    fn get(&self, key: K::Ref<'_>) -> Result<Option<u64>> {
        ended(self.nodes().find(word_of::<K>(key)), self.pool.media())
    }

    fn get_many(&self, keys: &[K::Ref<'_>], values: &mut [Option<u64>]) -> Result<()> {
        one_by_one(keys, values, |key| self.get(key))
    }

    #[inline]
    fn insert(&mut self, key: K::Ref<'_>, value: u64) -> Result<bool> {
        ended(LcbTree::insert(self, word_of::<K>(key), value), self.pool.media())
    }

    #[inline]
    fn update(&mut self, key: K::Ref<'_>, value: u64) -> Result<Option<u64>> {
        ended(LcbTree::update(self, word_of::<K>(key), value), self.pool.media())
    }

    #[inline]
    fn upsert(&mut self, key: K::Ref<'_>, value: u64) -> Result<Option<u64>> {
        ended(LcbTree::upsert(self, word_of::<K>(key), value), self.pool.media())
    }

    #[inline]
    fn remove(&mut self, key: K::Ref<'_>) -> Result<Option<u64>> {
        ended(LcbTree::remove(self, word_of::<K>(key)), self.pool.media())
    }

    fn scan(&self, from: Start<'_, K>, direction: Direction, visit: Visitor<'_, K>) -> Result<()> {
        let walked = walk::<K, M, _>(self.nodes(), &self.pool.pin(), from, direction, visit);
        ended(walked, self.pool.media())
    }

    fn len(&self) -> u64 {
        self.keys
    }

    fn statistics(&self) -> IndexStatistics {
        let height = self.nodes().root().map_or(0, |root| u32::from(root.level()) + 1);
        IndexStatistics {
            keys: self.keys,
            height,
            leaves: if self.keys == 0 { 0 } else { self.leaves },
            leaf_slots: self.shape.slots() as u64,
            inner_nodes: self.groups.used().saturating_sub(self.leaves),
            pm_bytes: self.groups.pm_bytes() + self.redo.pm_bytes(),
            node_bytes: self.groups.pm_bytes() + self.redo.pm_bytes(),
            dram_bytes: self.groups.dram_bytes()
                + self.redo.dram_bytes()
                + size_of::<Self>() as u64,
            ..IndexStatistics::default()
        }
    }

    fn check(&self, audit: &mut Audit) -> Result<CheckReport> {
        self.check_all(audit)
    }
}
