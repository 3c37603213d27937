//! clfB-tree: inner nodes of one cache line, encoded as differences; leaves that are appended to.
//!
//! After Kim, Seo, Kim, Nam: "clfB-tree: Cacheline Friendly Persistent B-tree for NVRAM", ACM
//! Transactions on Storage 14(1), 2018.
//!
//! # The idea
//! Where a node is one cache line, a change of it is one write of a line and one flush. Keys of a
//! node are near to each other, and so are its children, if they are allocated so: a line that
//! would have 3 keys and 4 children of 8 bytes has up to 23 and 24 as differences of one byte
//! (`encode`). Inner nodes are persistent and complete: nothing of them is rebuilt when the tree is
//! opened. Leaves are larger than a line and not sorted: an entry goes into a free slot, then one
//! bit makes it live. Or they are *encoded* (`clftree-encoded`, `u64` keys): one line like an inner
//! node, with values where that has children, and every change of an entry is a publication of the
//! leaf.
//!
//! # Which write decides
//! A split writes two fresh leaves, and fresh inner nodes as far as the parents overflow. Nothing
//! leads to any of them until one *publication* at the lowest ancestor in which the change fits, or
//! in the root word: the commit. It unlinks everything that was replaced in the same moment. Then
//! nothing is left to be done: which nodes are free is known in DRAM only, and to recovery by the
//! tree, for what the root does not lead to is free. So an allocation writes nothing, nothing
//! leaks, and the freeing of the old nodes needs no step. A node that has left the tree is used
//! again only after the operation's last fence. The death of a leaf is such a publication as well,
//! of the parent without it.
//!
//! How an inner node, or an encoded leaf, is published depends on what the media promises
//! ([`line_atomicity`](everleaf_pmem::Media::line_atomicity)) and the pool assumes:
//!
//! | lines | publication | a line that is torn on its way |
//! |---|---|---|
//! | promised whole | the line at once | cannot be |
//! | assumed whole, and the processor has a way | the line at once, by the log if all attempts abort | the tree would be lost |
//! | neither, or `clftree-inplace` | the line by the log in the anchor | restored from the log |
//! | any, in `clftree-shadow` and `clftree-encoded-shadow` | a copy of the line, and one word that leads to it | nothing leads to it yet |
//!
//! The log is one line, for there is one writer. The line that is overwritten says in its first
//! word where its log is, so nothing must be searched for: recovery, which follows all inner nodes
//! anyhow, meets it. It restores at most one line and frees at most two records; every other crash
//! state needs nothing (`recover`).
//!
//! # Copies
//! Short-circuit shadowing: the line that changes is written anew elsewhere, and what leads to it
//! is changed by one 8-byte store. No line can be torn, whatever the media does, and there is no
//! log.
//!
//! * P1: the copy, flushed, with all other fresh nodes; a fence. Crash: nothing leads to it.
//! * S2: one word of the parent, or the root word, flushed; a fence. Crash: the old line is in the
//!   tree, or the copy; the other one is free.
//! * The old line is free in DRAM after the fence of S2, so that until then nothing overwrites it.
//!
//! One word does not suffice where the pointer is the base of the others, where the new difference
//! needs more bytes, and where its bytes that change lie in two words (`Encoded::swing`). Then the
//! parent is copied as well, and its parent's pointer to it is changed: a cascade, which may split
//! the parent and ends at the root word. With a full pool a change that fits its line, and a
//! removal, are written by the log, so that neither is refused.
//!
//! # Byte-string keys
//! A key word of an entry leads to the record of the key, with 16 bits of its hash; a key of an
//! inner node is the record of a separator, the shortest that separates. A record belongs to the
//! live slot or the inner node that leads to it, whatever leaf that is in, so a split moves no
//! ownership. A record on its way into the tree or out of it stands in the anchor as well: recovery
//! frees it if the tree has it not. What the anchor has outside of operations is in the tree or
//! null: so it need not be cleared.
//!
//! Where an entry of a store has *one record*, that which its value leads to, the key word is the
//! hash of the key. The tree owns the records of separators only, and an entry comes, changes and
//! goes as one of a `u64` key does.
//!
//! # Costs
//! Flushes and fences, in a leaf of `u` lines with entries:
//!
//! | operation | `u64` keys |
//! |---|---|
//! | insert; into the line of the live bits | 2, 2; 1, 1 |
//! | update; remove | 1, 1 |
//! | split of a leaf: whole lines; by the log | u + 1, 2; u + 2, 2 |
//! | each inner node that is split besides; a new root | 2 or 3; 1 |
//! | the last key of a leaf: whole lines; by the log | 1, 1; 2, 2 |
//! | encoded: insert, update, remove: whole lines; by the log | 1, 1; 2, 2 |
//! | encoded: split into two: whole lines; by the log; into three | 3, 2; 4, 2; 1 more |
//! | copies: as by the log; each cascade besides | 1 |
//!
//! Byte-string keys add the pool's record operations.
//!
//! # Invariants
//! * I1: every inner node and every encoded leaf is valid and can be decoded; a leaf has no live
//!   slot beyond its slots.
//! * I2: the keys of an inner node ascend and lie within the range that the nodes above leave it.
//! * I3: the topmost inner node has two children at least; the others one.
//! * I4: every live key lies in the range of its leaf; no two of a leaf are equal; those of an
//!   encoded leaf ascend.
//! * I5: every leaf but the tree's only one has a live key.
//! * I6: every node of every run is reached from the root once, or free; the counts of the runs
//!   agree.
//! * I7: the tag of an entry, or the hash in its place, is its key's (byte-string keys).
//! * I8: the number of keys is the number of live slots.
//!
//! # Deviations from the paper, and why
//! * **A pointer is a difference of line numbers**, not of byte addresses: three bytes span 1 GiB.
//! * **A base may be a word that is not a member.** The first child may be taken out, and the
//!   others be further from each other than from it: then the line would no longer hold them, and a
//!   removal would have to split.
//! * **A split may make three nodes of one** (`parents`): one of two halves may not fit, where a
//!   new child, or a value of an encoded leaf, is far from the others.
//! * **An update of an encoded leaf may split it**: a new value may need more bytes than the line
//!   has left. In a full pool such an update is refused.
//! * **A copy in a full pool** is left out: the log takes its place.
//! * **The transaction has a way out**: after eight attempts the log is taken, by its own barriers.
//! * **One flush where one suffices**: an entry in the line of the live bits is ordered before its
//!   bit without a fence; what is overwritten by the log is one line, so it is flushed once.
//! * **An update overwrites the value** instead of appending: a value is one word.
//! * **A full leaf is split into halves.** The paper's counts are those of a left leaf with two
//!   entries fewer than the right one, which makes a quarter more splits of the smallest leaves.
//! * **The paper's order** (a parameter) flushes and splits as the paper does, so that its tables
//!   can be counted. Its additional barriers (`clftree.paper`) order nothing that is not in order.
//!
//! # Errors of the printed algorithms
//! * Algorithm 1 repeats a transaction until it succeeds: one that always aborts never ends.
//! * Algorithm 2 flushes the line twice (lines 16 and 17), and reads one pointer and one key behind
//!   the last (lines 11 and 13).
//! * Algorithm 3 takes the keys and pointers of the node before it sets them (lines 2 and 3); the
//!   address of its log is nowhere persistent, so recovery could not find it; its text says four
//!   flushes, it has five (line 16 flushes the unchanged words); it does not order line 17 to 23
//!   before the flag but by flush and fence.
//!
//! # Map of the files
//! `layout` (every persistent byte) · `encode` (nodes of one line) · `encoded` (leaves that are) ·
//! `leaf` (its cells by slot) · `space` (memory of nodes) · `search` `scan` · `insert` `update`
//! `remove` · `split` · `parents` (what changes above a leaf) · `publish` (the commit) · `steps`
//! `link` (what takes part in a change of an entry) · `recover` (crash states and opening) ·
//! `check` (I1 to I8) · `encodings` (bytes of differences, for the benchmarks) · `parameters`
//! (sizes on offer) · `engine` (for the table of engines) · `format` (for docs/format.md).
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod check;
mod encode;
mod encoded;
mod encodings;
pub mod engine;
mod format;
mod insert;
mod layout;
mod leaf;
mod link;
mod parameters;
mod parents;
mod publish;
mod recover;
mod remove;
mod scan;
mod search;
mod space;
mod split;
#[cfg(test)]
mod tests;
mod update;

use std::marker::PhantomData;
use std::sync::Arc;

use everleaf_index::{
    CheckReport, Direction, IndexStatistics, LinkSteps, Links, Result, SerialIndex, Start, Visitor,
};
use everleaf_pmem::Media;
use everleaf_pool::{Audit, Pool, Worker};

use everleaf_tree::key::TreeKey;
use everleaf_tree::operations::{ended, in_groups};
use everleaf_tree::scan::ScanRequest;
use everleaf_tree::statistics::pm_bytes;
use everleaf_tree::steps::Steps;
use insert::Put;
use search::Settings;
use space::Space;

pub use encodings::{InnerEncoding, inner_encodings};
pub use engine::{
    CLFTREE_APPEND, CLFTREE_ENCODED, CLFTREE_ENCODED_SHADOW, CLFTREE_INPLACE, CLFTREE_SHADOW,
    engines, laboratory,
};
#[cfg(not(test))]
pub use engine::{LABORATORY, SHIPPED};
pub use format::layouts;
pub use layout::{ClfAnchor, InnerLine, LeafHead, Root};
pub use parameters::{Parameters, Variant, open};

/// A clfB-tree for one thread at a time; [`open`] puts it behind a lock.
pub struct ClfTree<K: TreeKey, M: Media> {
    pool: Arc<Pool<M>>,
    worker: Worker<M>,
    leaves: Space,
    lines: Space,
    settings: Settings,
    keys: u64,
    of: PhantomData<fn() -> K>,
}

impl<K: TreeKey, M: Media> SerialIndex<K> for ClfTree<K, M> {
    #[inline]
    fn get(&self, key: K::Ref<'_>) -> Result<Option<u64>> {
        ended(self.find(key), self.pool.media())
    }

    fn get_many(&self, keys: &[K::Ref<'_>], values: &mut [Option<u64>]) -> Result<()> {
        let find = |keys: &[_], values: &mut [_]| self.nodes().find_group(keys, values);
        in_groups(self.pool.media(), keys, values, find)
    }

    #[inline]
    fn insert(&mut self, key: K::Ref<'_>, value: u64) -> Result<bool> {
        let old = self.put(key, value, Some(Put::Insert), &mut Steps::none());
        Ok(ended(old, self.pool.media())?.is_none())
    }

    #[inline]
    fn update(&mut self, key: K::Ref<'_>, value: u64) -> Result<Option<u64>> {
        ended(self.put(key, value, Some(Put::Update), &mut Steps::none()), self.pool.media())
    }

    #[inline]
    fn upsert(&mut self, key: K::Ref<'_>, value: u64) -> Result<Option<u64>> {
        ended(self.put(key, value, None, &mut Steps::none()), self.pool.media())
    }

    #[inline]
    fn remove(&mut self, key: K::Ref<'_>) -> Result<Option<u64>> {
        ended(ClfTree::remove(self, key, &mut Steps::none()), self.pool.media())
    }

    fn links(&self) -> Links {
        self.links_of_tree()
    }

    #[inline]
    fn link(
        &mut self,
        key: K::Ref<'_>,
        new: Option<u64>,
        steps: &mut dyn LinkSteps,
    ) -> Result<bool> {
        ended(self.link_entry(key, new, steps), self.pool.media())
    }

    fn scan(&self, from: Start<'_, K>, direction: Direction, visit: Visitor<'_, K>) -> Result<()> {
        ended(self.scan_from(ScanRequest { from, direction, visit }), self.pool.media())
    }

    fn len(&self) -> u64 {
        self.keys
    }

    fn statistics(&self) -> IndexStatistics {
        let height = self.nodes().root().map_or(0, |root| root.height());
        let node_bytes = self.leaves.pm_bytes() + self.lines.pm_bytes();
        IndexStatistics {
            keys: self.keys,
            height: height + 1,
            // The tree's only leaf may be empty.
            leaves: if self.keys == 0 { 0 } else { self.leaves.used() },
            leaf_slots: self.settings.max_entries(),
            inner_nodes: self.lines.used(),
            pm_bytes: pm_bytes::<K, M>(&self.pool, node_bytes),
            node_bytes,
            dram_bytes: self.leaves.dram_bytes()
                + self.lines.dram_bytes()
                + size_of::<Self>() as u64,
            node_writes: Some(self.settings.node_writes(self.pool.media())),
            ..IndexStatistics::default()
        }
    }

    fn check(&self, audit: &mut Audit) -> Result<CheckReport> {
        self.check_all(audit)
    }
}
