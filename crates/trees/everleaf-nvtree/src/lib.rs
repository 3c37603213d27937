//! NV-Tree: append-only leaves in persistent memory, inner nodes in one array in DRAM.
//!
//! After Yang, Wei, Chen, Wang, Yong, He: "NV-Tree: Reducing Consistency Cost for NVM-based Single
//! Level Systems", FAST 2015 (the slides), and what is said of it in Oukid et al., SIGMOD 2016, and
//! Wang et al., 2020.
//!
//! # The idea
//! What keeps nodes sorted costs most of the flushes of a persistent B+-tree. So a leaf is not
//! sorted and nothing in it is ever changed: every insertion, update and removal appends an
//! *element* (mark, key, value), durably, and then counts it by one p-atomic store, the commit
//! point. A removal is an element too, a negative one; of several elements of a key the newest
//! holds, so a leaf is searched from its end. A full leaf is copied without what is dead: into two
//! (*split*), into one (*replace*), or together with its right sibling into one (*merge*), as the
//! *minimal fill factor* says, here a half. Inner nodes need no consistency, for they can be
//! rebuilt: they are found by arithmetic in one array, the parents of leaves alone have pointers.
//!
//! # What the slides leave open
//! * **How leaves are linked.** Each leaf has a pointer to the next, the anchor one to the first,
//!   and every leaf has its lower bound. Recovery follows the list and reads one line of a leaf.
//! * **What publishes a split.** The pointer to the old leaf: that of the leaf before it in the
//!   list, or the anchor's. New leaves are written where nothing leads to them, the last of them
//!   leading to what followed the old ones; then that one word leads to the first. So a split, a
//!   replacement, a merge, and the removal of a leaf are one p-atomic store, whatever number of
//!   leaves goes and comes, and neither inner nodes nor a log take part. The change that found the
//!   leaf full is in the new leaves already: it is published by the same word.
//! * **Siblings under another parent.** The word is found through the inner nodes (the place before
//!   may be another parent's), and a merge takes whatever leaf follows in the list: parents are
//!   DRAM, and of no account to what is durable.
//! * **Equality.** A lower bound belongs to its leaf: a key equal to a separator goes right. The
//!   first leaf's bound is the least key of all, and that leaf never leaves the list but for one
//!   with the same bound. Of valid elements as many as the limit are not more than it: the leaf is
//!   not split; of a sibling's elements as many as the limit: it is merged.
//! * **Reclamation.** A leaf that has left the list, durably, is free at once where one thread at a
//!   time uses the tree. Which leaves are free is known in DRAM only; to recovery every leaf
//!   outside the list is. Runs of leaves without any in the list go back to the pool.
//! * **Leaks.** None, for leaves are not allocated but taken from runs that the pool lists. A
//!   record of a byte-string key belongs to the leaf whose elements lead to it, all elements of the
//!   key to the same one, also after its removal. When the leaf is replaced the records of dead
//!   keys are freed, and the leaf forgets all others before it serves again; what a crash leaves of
//!   that is found in leaves outside the list (`retire`, `recover`).
//! * **The clean flag** is the pool's, and so is what makes the image of inner nodes invalid before
//!   the first write (`support/image`): `u64` keys are opened by it after a clean shutdown, without
//!   a look at the leaves. The pointers of byte-string keys need no look then.
//! * **A full pool.** One leaf is always free, so that a full leaf can be replaced: updates and
//!   removals succeed in a full pool, insertions as long as their leaf has a dead element. Of
//!   byte-string keys a new one needs a record.
//! * **Ascending and skewed insertion.** See `inner`: a full parent makes its neighbours share its
//!   entries, and a rebuild of all comes only after the tree has grown by a quarter. Ascending keys
//!   leave full leaves behind: behind the last leaf a new one is added, and nothing is copied.
//!
//! # Costs
//! | operation | flushes | fences |
//! |---|---|---|
//! | insert, update, remove | 2 or 3 (24 bytes lie in one line or in two) | 2 |
//! | remove, the last key of a leaf | 1 | 1 |
//! | split of 32 elements, the insertion included | 16 | 2 |
//! | replace, merge | lines of a leaf and 2 | 2 |
//!
//! Byte-string keys add the pool's record operations.
//!
//! # Invariants
//! * I1: a leaf has at most as many elements as slots, and at most as many live keys as elements.
//! * I2: every element has a key and is positive or negative; the head has a byte of the key's hash
//!   for it, and for byte-string keys its mark has the hash.
//! * I3: every live key of a leaf is at least its lower bound and less than that of the next leaf.
//! * I4: the live keys that a leaf counts are those whose newest element is positive.
//! * I5: the first leaf has the least bound; bounds ascend strictly along the list.
//! * I6: the inner nodes lead, in order, to exactly the leaves of the list; their separators are
//!   the leaves' lower bounds.
//! * I7: every leaf of every run is in the list or free; the counts of the groups agree; one leaf
//!   at least is free.
//! * I8: all elements of a key in a leaf have the same record, which no other leaf has; outside of
//!   operations key words behind the count, and bounds and key words of free leaves, are null
//!   (byte-string keys).
//! * I9: every leaf but the first has a live key.
//! * I10: the number of keys is the number of live keys of all leaves.
//!
//! # Deviations from the slides, and why
//! * **An update is one element**, not a negative and a positive one: the newest wins anyway.
//! * **The count has the number of live keys beside it**, in one word: the removal of the last key
//!   is known without a search, and recovery counts keys by one line a leaf.
//! * **A leaf without live keys goes at once**; the slides let it fill up first.
//! * **A full parent is relieved by its neighbours**, where the slides rebuild everything.
//! * **A byte of hash of each element stands in the head**, in the line of the count and stored
//!   before it, so it costs no flush: a search reads the head and the element, where the slides'
//!   reads half of the leaf. Leaves of up to 40 elements, unless the pool is made in the order of
//!   the slides (`--paper-order`), have them.
//! * **A mark has a hash of a byte-string key**, else every element read would be a miss.
//! * **Parents have as many keys as pointers**: the first repeats what is above.
//!
//! # Two trees
//! This one is for one thread at a time. `concurrent` is for many, of `u64` keys, over the same
//! leaves and by the same sequences.
//!
//! # Map of the files
//! `layout` (every persistent byte) · `leaf` (its cells by slot) · `groups` (memory of leaves) ·
//! `inner` (inner nodes) · `search` `scan` · `insert` (appending, too) `update` `remove` · `split`
//! (split, replace, merge, unlink) · `plan` (what takes a full leaf's place) · `publish` (writing
//! it and leading to it) · `steps` (what others make durable with a change) · `retire` (leaves that
//! have left the list) · `recover` (crash states and opening) · `close` (the
//! image of inner nodes) · `check` (I1 to I10) · `concurrent`
//! (the tree for many threads) · `engine` (for the table of engines) · `format` (for
//! docs/format.md).
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod check;
mod close;
mod concurrent;
pub mod engine;
mod format;
mod groups;
mod inner;
mod insert;
mod layout;
mod leaf;
mod plan;
mod publish;
mod recover;
mod remove;
mod retire;
mod scan;
mod search;
mod split;
mod steps;
#[cfg(test)]
mod tests;
mod update;

use std::sync::Arc;

use everleaf_index::{
    CheckReport, Direction, IndexStatistics, InnerFrom, Result, SerialIndex, Start, Visitor,
};
use everleaf_pmem::Media;
use everleaf_pool::{Audit, Pool, Seal, Worker};

use everleaf_tree::groups::Groups;
use everleaf_tree::key::TreeKey;
use everleaf_tree::operations::{ended, expect_words, in_groups};
use everleaf_tree::scan::ScanRequest;
use everleaf_tree::statistics::pm_bytes;
use inner::Inner;

#[cfg(not(test))]
pub use engine::SHIPPED;
pub use engine::{NVTREE, NVTREE_C, OFFER, TUNED, Variant, engines, open, pack, rebuild_times};
pub use everleaf_tree::parameters::Parameters;
pub use format::layouts;
pub use layout::{Fill, Kind, LeafHead, ListHead, Mark, Shape};

/// An NV-Tree for one thread at a time; [`open`] puts it behind a lock.
pub struct NvTree<K: TreeKey, M: Media> {
    pool: Arc<Pool<M>>,
    worker: Worker<M>,
    inner: Inner<K>,
    groups: Groups,
    shape: Shape,
    parameters: Parameters,
    keys: u64,
    inner_from: InnerFrom,
}

impl<K: TreeKey, M: Media> SerialIndex<K> for NvTree<K, M> {
    fn value_words(&self) -> usize {
        self.shape.value_words()
    }

    #[inline]
    fn get_words(&self, key: K::Ref<'_>, value: &mut [u64]) -> Result<bool> {
        expect_words(self.shape.value_words(), [value.len()])?;
        ended(self.find(key, value), self.pool.media())
    }

    fn get_many(&self, keys: &[K::Ref<'_>], values: &mut [Option<u64>]) -> Result<()> {
        in_groups(self.pool.media(), keys, values, |keys, values| self.find_group(keys, values))
    }

    #[inline]
    fn insert_words(&mut self, key: K::Ref<'_>, value: &[u64]) -> Result<bool> {
        expect_words(self.shape.value_words(), [value.len()])?;
        ended(self.insert(key, value), self.pool.media())
    }

    #[inline]
    fn update_words(&mut self, key: K::Ref<'_>, value: &[u64], old: &mut [u64]) -> Result<bool> {
        expect_words(self.shape.value_words(), [value.len(), old.len()])?;
        ended(self.update(key, value, old), self.pool.media())
    }

    #[inline]
    fn upsert_words(&mut self, key: K::Ref<'_>, value: &[u64], old: &mut [u64]) -> Result<bool> {
        expect_words(self.shape.value_words(), [value.len(), old.len()])?;
        ended(self.upsert(key, value, old), self.pool.media())
    }

    #[inline]
    fn remove_words(&mut self, key: K::Ref<'_>, old: &mut [u64]) -> Result<bool> {
        expect_words(self.shape.value_words(), [old.len()])?;
        ended(self.remove(key, old), self.pool.media())
    }

    fn scan(&self, from: Start<'_, K>, direction: Direction, visit: Visitor<'_, K>) -> Result<()> {
        ended(self.scan_from(ScanRequest { from, direction, visit }), self.pool.media())
    }

    fn len(&self) -> u64 {
        self.keys
    }

    fn statistics(&self) -> IndexStatistics {
        let first = self.leaf(self.inner.leaf(self.inner.first()));
        let first_is_empty =
            first.and_then(|leaf| leaf.fill(self.pool.media())).is_ok_and(|fill| fill.live() == 0);
        let node_bytes = self.groups.pm_bytes();
        IndexStatistics {
            keys: self.keys,
            height: self.inner.height() + 1,
            leaves: self.inner.len() as u64 - u64::from(first_is_empty),
            leaf_slots: self.shape.slots() as u64,
            inner_nodes: self.inner.nodes(),
            pm_bytes: pm_bytes::<K, M>(&self.pool, node_bytes),
            node_bytes,
            dram_bytes: self.inner.dram_bytes()
                + self.groups.dram_bytes()
                + size_of::<Self>() as u64,
            inner_from: self.inner_from,
            ..IndexStatistics::default()
        }
    }

    fn check(&self, audit: &mut Audit) -> Result<CheckReport> {
        self.check_all(audit)
    }

    fn close(&mut self) -> Result<Option<Seal>> {
        self.store_image()
    }
}
