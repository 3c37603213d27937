//! wB+-tree: unsorted entries, in the order of a small array, of nodes in persistent memory.
//!
//! After Chen and Jin: "Persistent B+-Trees in Non-Volatile Main Memory", VLDB 2015, as the papers
//! of the clfB-tree (section 5) and of the FPTree (sections 3, 4.2 and 6.1) describe it: they
//! measure themselves against it.
//!
//! # The idea
//! An entry goes into any free place of its node, and is never moved there. What is sorted is the
//! *slot array*, a byte for each entry that says its place: so a node is searched by halves, and an
//! insertion shifts bytes. Inner nodes and leaves are alike and all of them persistent; nothing is
//! built when a tree is opened. Two ways to make a change of a leaf atomic are two engines:
//! * `wbtree-slot`: the slot array is one word, the number of entries and seven places. Its store
//!   is the commit. A node has seven entries at most.
//! * `wbtree-bitmap`: the slot array is a line, for 63 places. A bitmap word says which places have
//!   entries, and by its bit 0 whether the slot array says the same; its store is the commit. A
//!   slot array that is not valid is made of the entries that the bitmap has.
//!
//! # Order of persistence
//! A leaf whose slot array is one word (`publish`):
//! * P1: an entry in a place that the slot array does not name; flush, fence. Crash: as before.
//! * P2 COMMIT: the slot array; flush, fence.
//!
//! A leaf with a bitmap (`publish`):
//! * B1: the slot array is marked as not valid, in the bitmap; flush, fence. Crash: the bitmap has
//!   the entries as before; who looks at the leaf first makes its slot array (M1: flush, fence) and
//!   marks it as valid (M2).
//! * B2: an entry in a free place, and the slot array; a flush for each, fence. Crash: as B1.
//! * B3 COMMIT: the bitmap, with the flag; flush, fence.
//!
//! A value of one word is replaced by its store (U1 COMMIT; flush, fence), a longer one as an entry
//! that comes while the old one goes.
//!
//! A change of several nodes, a split or the end of a leaf, has a redo log in the anchor (`redo`):
//! * S1: fresh nodes, and an entry in a free place of the node above; flushed. Crash: only the
//!   commit leads to them.
//! * P1: the records that do not fit into the first line of the log; flushed; fence. A record is
//!   the words of a slot array that change, a bitmap, the root, or which nodes are free.
//! * P2 COMMIT: the other records, then the commit word of their line; flush, fence.
//! * P3: all of it in place; flushed, fence. Crash: recovery does it again.
//! * F1: the next operation that changes something forgets the log; flush. Its first fence makes
//!   that durable, so none is needed for it, but where both have further lines in the log.
//!   Crash before: recovery does P3 again, and so takes back what that operation has stored. The
//!   next operation does it since another thread may run it, for whose fence a flush of this one
//!   would not count.
//!
//! # Byte-string keys
//! A key word leads to a record, that of an inner node to the shortest that separates. The record
//! belongs to the entry which the slot array names, whatever node that is in; the key word of the
//! first child is 0. A record on its way into the tree or out of it stands in the anchor as well:
//! recovery frees it if the tree has it not.
//!
//! # Costs
//! Flushes and fences, without those of records of byte-string keys; an entry of one word of value
//! lies in one line. `h` is the number of lines of a node's half, `l` that of the log, mostly one
//! or two, `a` that of lines that change in place.
//!
//! | operation | `wbtree-slot` | `wbtree-bitmap` |
//! |---|---|---|
//! | insert | 2, 2 | 4, 3 |
//! | remove | 1, 1 | 3, 3 |
//! | update of a value of one word | 1, 1 | 1, 1 |
//! | update of a longer value | 2, 2, and a line each | 4, 3, and a line each |
//! | split, before the insertion | h + 1 + l + a, 3 (4 behind another split) | the same |
//! | the last key of a leaf | l + a, 2 or 3 | the same |
//! | the first change after one of these two | 1, 0 more | the same |
//!
//! # Decisions, and what differs from the papers
//! * **No order by lines.** Stores to one line become durable in their order, which would spare the
//!   flush of an entry beside the slot array. The papers count two flushes, and four: so here. The
//!   slot array with a bitmap has a line of its own, so that each of the four is needed.
//! * **A value of one word is replaced in place**, by one store of 8 bytes. The paper writes the
//!   entry anew; FPTree's does so too.
//! * **A redo log of words**, in place of undo-redo logs of Chen and Jin and of FPTree's
//!   micro-logs. A micro-log names the node that is split, and recovery finds out how far it has
//!   come; with inner nodes in persistent memory, each level would have cases of its own. Full
//!   nodes are split from the top down, one change of the log each, so it is short.
//! * **Free nodes are a list**, and a count at the head of each run: both change by the log. The
//!   papers leave open how allocations are found after a crash, or use an allocator of their own.
//! * **Leaves have no links.** Scans go on through the path from the root; so the end of a leaf
//!   changes no sibling.
//! * **Inner nodes have as many entries as leaves.** FPTree's paper has 32 and 64.
//! * **A leaf without keys goes**, and with it every node above that leads to nothing else. Nodes
//!   are not merged otherwise.
//! * **The number of keys is counted when it is first asked for**, so that opening does not depend
//!   on the size of the tree.
//!
//! # Invariants
//! * I1: every node is of the level below the one that leads to it.
//! * I2: the slot array names places of the node, none twice; the bitmap has the same.
//! * I3: keys of a node ascend strictly and lie in its range; the first key of an inner node means
//!   nothing and leads to no record.
//! * I4: every leaf but the root has a key, every inner node an entry, the root two if it is one.
//! * I5: every node that was taken from a run is reached exactly once, or is in the list of free
//!   nodes.
//! * I6: the number of keys is that of the entries of all leaves.
//! * I7: a log that was not forgotten has what is in place.
//!
//! # Map of the files
//! `layout` (every persistent byte, the words) · `node` (places by slot, entries by place) ·
//! `publish` (a change of a leaf, and M1, M2) · `redo` (the log) · `space` (which nodes are free) ·
//! `search` (the way from the root) · `scan` · `insert` · `split` · `update` · `remove` · `recover`
//! (opening) · `totals` (the number of keys and nodes) · `check` (I1 to I7) · `engine` (for the
//! table of engines) · `format` (for docs/format.md).

mod check;
pub(crate) mod engine;
mod format;
mod insert;
mod layout;
mod node;
mod publish;
mod recover;
mod redo;
mod remove;
mod scan;
mod search;
mod space;
mod split;
#[cfg(test)]
mod tests;
mod totals;
mod update;

use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use everleaf_index::{
    CheckReport, Direction, IndexStatistics, Result, SerialIndex, Start, Visitor,
};
use everleaf_pmem::Media;
use everleaf_pool::{Audit, Pool, Worker};

use crate::shared::one_by_one;
use everleaf_tree::key::TreeKey;
use everleaf_tree::operations::{ended, expect_words};
use everleaf_tree::scan::ScanRequest;
use layout::Shape;
use redo::Redo;
use search::Nodes;
use space::Space;
use totals::Totals;

pub use engine::{
    BITMAP_OFFER, PARAMETERS, SLOT_OFFER, Variant, WBTREE_BITMAP, WBTREE_SLOT, engines, open,
};
pub use format::layouts;

/// A wB+-tree for one thread at a time; [`open`] puts it behind a lock.
pub struct WbTree<K: TreeKey, M: Media> {
    pool: Arc<Pool<M>>,
    worker: Worker<M>,
    space: Space,
    redo: Redo,
    shape: Shape,
    /// By how much the tree has grown since it was opened.
    changed: Totals,
    /// What it had then, once that was asked for.
    found: OnceLock<Totals>,
    kind: PhantomData<fn() -> K>,
}

impl<K: TreeKey, M: Media> WbTree<K, M> {
    fn nodes(&self) -> Nodes<'_, K, M> {
        Nodes::new(&self.pool, self.shape)
    }

    /// Hands the value of a key over; whether there is one.
    #[inline(always)]
    fn look_up(&self, key: K::Ref<'_>, value: &mut [u64]) -> Result<bool> {
        let nodes = self.nodes();
        let (leaf, found) = nodes.find(key)?;
        if let Ok(slot) = found {
            leaf.read_value(nodes.media(), slot, value);
        }
        Ok(found.is_ok())
    }

    /// The sums of now.
    fn totals(&self) -> Totals {
        let found = self.found.get_or_init(|| {
            let most = self.space.pm_bytes() / self.shape.node_bytes();
            totals::count(self.nodes(), most).minus(self.changed)
        });
        found.plus(self.changed)
    }
}

impl<K: TreeKey, M: Media> SerialIndex<K> for WbTree<K, M> {
    fn value_words(&self) -> usize {
        self.shape.value_words()
    }

    fn get_words(&self, key: K::Ref<'_>, value: &mut [u64]) -> Result<bool> {
        expect_words(self.shape.value_words(), [value.len()])?;
        ended(self.look_up(key, value), self.pool.media())
    }

    fn get_many(&self, keys: &[K::Ref<'_>], values: &mut [Option<u64>]) -> Result<()> {
        one_by_one(keys, values, |key| {
            let mut word = [0];
            Ok(ended(self.look_up(key, &mut word), self.pool.media())?.then_some(word[0]))
        })
    }

    fn insert_words(&mut self, key: K::Ref<'_>, value: &[u64]) -> Result<bool> {
        expect_words(self.shape.value_words(), [value.len()])?;
        ended(self.insert(key, value), self.pool.media())
    }

    fn update_words(&mut self, key: K::Ref<'_>, value: &[u64], old: &mut [u64]) -> Result<bool> {
        expect_words(self.shape.value_words(), [value.len(), old.len()])?;
        ended(self.update(key, value, old), self.pool.media())
    }

    fn upsert_words(&mut self, key: K::Ref<'_>, value: &[u64], old: &mut [u64]) -> Result<bool> {
        expect_words(self.shape.value_words(), [value.len(), old.len()])?;
        ended(self.upsert(key, value, old), self.pool.media())
    }

    fn remove_words(&mut self, key: K::Ref<'_>, old: &mut [u64]) -> Result<bool> {
        expect_words(self.shape.value_words(), [old.len()])?;
        ended(self.remove(key, old), self.pool.media())
    }

    fn scan(&self, from: Start<'_, K>, direction: Direction, visit: Visitor<'_, K>) -> Result<()> {
        ended(self.scan_from(ScanRequest { from, direction, visit }), self.pool.media())
    }

    fn len(&self) -> u64 {
        self.totals().keys as u64
    }

    fn statistics(&self) -> IndexStatistics {
        let Totals { keys, leaves, inner_nodes } = self.totals();
        IndexStatistics {
            keys: keys as u64,
            height: self.nodes().root().map_or(0, |root| u32::from(root.level()) + 1),
            leaves: if keys == 0 { 0 } else { leaves as u64 },
            leaf_slots: self.shape.slots() as u64,
            inner_nodes: inner_nodes as u64,
            pm_bytes: self.space.pm_bytes(),
            node_bytes: self.space.pm_bytes(),
            dram_bytes: self.space.dram_bytes() + self.redo.dram_bytes() + size_of::<Self>() as u64,
            ..IndexStatistics::default()
        }
    }

    fn check(&self, audit: &mut Audit) -> Result<CheckReport> {
        self.check_all(audit)
    }
}
