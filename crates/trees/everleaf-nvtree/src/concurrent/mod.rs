//! The NV-Tree for many threads: all read and write one tree of `u64` keys.
//!
//! The order in which bytes become durable is that of the tree for one thread, whose sequences are
//! used as they are, with latches of leaves in DRAM held. A crash leaves no latch behind, and its
//! states are those of [the family's page](super).
//!
//! # Order of persistence
//! L is the leaf of the key, P the one before it, R the one behind.
//!
//! | operation | steps | a crash after each |
//! |---|---|---|
//! | append | P1 element; fence | it is behind the count |
//! | | P2 COMMIT `fill`; fence; unlock | it is there |
//! | split, replace, merge | S1 new leaves, the last leads to what followed; fence | nothing leads to them |
//! | | latch of P held: S2 COMMIT P.next; fence; inner nodes; unlock | the new ones are listed |
//! | leaf behind the last | L1 new leaf; fence | nothing leads to it |
//! | | L2 COMMIT L.next; fence; inner nodes; unlock | it is listed |
//! | unlink | latch of P held: U1 COMMIT P.next; fence; inner nodes; unlock | L is not listed |
//! | find | H `fill`; fence, where L is locked | as after P2, or before P1 |
//!
//! # Rules
//! * T1: *one writer a leaf.* An element is appended, and a leaf replaced, under the leaf's latch.
//!   Under it a writer looks whether the inner nodes still lead its key there: while it waited
//!   another thread may have split the leaf, or put one behind it.
//! * T2: *readers wait for nobody.* A reader descends, loads the count, searches
//!   (what is below a count never changes), and only *then* loads the latch. Unlocked: the one that
//!   stored the count has fenced. Locked: the count that was seen may not be durable, so the reader
//!   flushes it and fences itself, also if the answer is that a key is absent. Nobody acts on what
//!   a crash can undo.
//! * T3: *`next` of a leaf is written under that leaf's latch.* What replaces or unlinks L holds L
//!   from its search to its end, so L's successor is the same all the time; and P from before the
//!   commit until the inner nodes have changed. P is looked up again once it is locked: a thread
//!   that replaces P copies P.next, and the copy would lead to what has left. Only the holder of
//!   the first leaf's latch changes the anchor.
//! * T4: *one latch is waited for, the others are tried*, since leaves share latches. If P has
//!   another holder, everything goes back and the change begins again; after 64 times under a
//!   mutex. If R has, or shares L's latch, L is replaced and not merged.
//! * T5: *inner nodes change after the commit's fence*: else an element that is appended to a new
//!   leaf could be lost with it. Every change is one store, that of a merge too: between two
//!   stores the new leaf, which nobody has locked, would have keys of the one behind it. See
//!   `parents`.
//! * T6: *reclamation.* A leaf that has left is kept until all threads have gone that were pinned
//!   then. No thread waits for a latch, or for memory, while it is pinned. Nothing of that is
//!   persistent. See `stock`. A find of one word and an append are not pinned, for the exchange
//!   that pins waits for the fence of the operation before, when the descent could be under way.
//!   They ask *last*, after the look at the latch or once they have it, whether leaves or blocks
//!   were made free since they began (`support/reuse`). If so they have seen nothing, not even an
//!   error, and begin again, pinned. A thread that has locked a leaf that is in place, and then
//!   finds that nothing was made free, has the leaf that it searched: it leaves under that latch
//!   only.
//! * T7: *scans* hold one leaf's latch at a time while they show it.
//! * T8: *what may be refused comes first*: leaves, memory of inner nodes, the latch of P. The
//!   steps of a store are prepared after that.
//!
//! A reader of a leaf that has been replaced sees what was there before the replacement became
//! visible, which was after it had begun to read.
//!
//! # Deviations from the slides, and why
//! * **Inner nodes are copied on write, and never rebuilt.** The slides rebuild all inner nodes
//!   when a parent is full. Threads that do so beside others need a list of the changes that they
//!   miss and the latches of all parents at the end. Here the array above the parents is small, one
//!   entry a parent, and is copied when a parent becomes two; there is no place that could be full.
//! * **A latch in DRAM**, not in the leaf: it costs no store to a line that is about to be flushed.
//! * **Appends lock.** Without a latch the search for the key and its append are not one step, and
//!   the slot of a thread that was stopped is a hole.
//!
//! Byte-string keys have the tree for one thread, behind one lock ([`open`](super::open)).
//!
//! Map of the files: `search` (finding, locking) · `write` (appends) · `change` (the list of
//! leaves) · `parents` (inner nodes) · `stock` (memory of leaves) · `scan` · `link` · `recover` ·
//! `check`.

mod change;
mod check;
mod close;
mod link;
mod parents;
mod recover;
mod scan;
mod search;
mod stock;
#[cfg(test)]
mod tests;
mod write;

use std::marker::PhantomData;
use std::sync::Arc;

use everleaf_index::{
    CheckReport, Concurrency, Conflicts, Contract, Direction, Index, IndexStatistics, InnerFrom,
    LinkSteps, Links, Result, Start, Visitor,
};
use everleaf_pmem::Media;
use everleaf_pool::{Audit, Pool, Seal};
use parking_lot::Mutex;

use super::layout::Shape;
use super::steps::Alone;
use everleaf_tree::key::TreeKey;
use everleaf_tree::operations::{Restarts, SkipIf, ended, expect_words, in_groups};
use everleaf_tree::parameters::Parameters;
use everleaf_tree::scan::ScanRequest;
use everleaf_tree::version_locks::VersionLocks;
use parents::Parents;
use stock::Stock;
use write::Write;

/// Workers that the tree uses at a time: half of the pool's, so that a store has as many for its
/// values.
const WORKERS: usize = 32;

/// Latches of leaves, with counters of keys: 128 KiB. Two threads meet on a latch by chance once in
/// 8192 times.
pub(super) const LOCKS: usize = 1 << 13;

/// An NV-Tree that many threads share.
pub(super) struct ConcurrentNvTree<K: TreeKey, M: Media> {
    pool: Arc<Pool<M>>,
    parents: Parents,
    locks: VersionLocks,
    stock: Stock<M>,
    shape: Shape,
    parameters: Parameters,
    inner_from: InnerFrom,
    /// Keys that were there when it was opened; what came and went since is counted beside the
    /// latches.
    keys_found: u64,
    /// Held by a thread whose change was put off too often.
    patience: Mutex<()>,
    /// Searches and changes that began again.
    restarts: Restarts,
    keys: PhantomData<fn() -> K>,
}

impl<K: TreeKey, M: Media> ConcurrentNvTree<K, M> {
    /// Keys in the tree; exact while no thread writes.
    fn count(&self) -> u64 {
        self.keys_found.saturating_add_signed(self.locks.counted())
    }

    /// Counts what begins again.
    fn restarted(&self) {
        self.restarts.again(self.pool.media());
    }

    /// Gives a key a value, or removes it, and ends the operation.
    #[inline(always)]
    fn done(
        &self,
        key: K::Ref<'_>,
        value: Option<&[u64]>,
        skip: SkipIf,
        old: &mut [u64],
    ) -> Result<Option<bool>> {
        let write = Write { key, hash: K::hash(key), value };
        ended(self.write(&write, skip, old, &mut Alone), self.pool.media())
    }
}

impl<K: TreeKey, M: Media> Index<K> for ConcurrentNvTree<K, M> {
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
    fn insert_words(&self, key: K::Ref<'_>, value: &[u64]) -> Result<bool> {
        expect_words(self.shape.value_words(), [value.len()])?;
        K::admit(key)?;
        Ok(self.done(key, Some(value), SkipIf::Present, &mut [])?.is_some())
    }

    #[inline]
    fn update_words(&self, key: K::Ref<'_>, value: &[u64], old: &mut [u64]) -> Result<bool> {
        expect_words(self.shape.value_words(), [value.len(), old.len()])?;
        Ok(self.done(key, Some(value), SkipIf::Absent, old)?.is_some())
    }

    #[inline]
    fn upsert_words(&self, key: K::Ref<'_>, value: &[u64], old: &mut [u64]) -> Result<bool> {
        expect_words(self.shape.value_words(), [value.len(), old.len()])?;
        K::admit(key)?;
        Ok(self.done(key, Some(value), SkipIf::Never, old)? == Some(true))
    }

    #[inline]
    fn remove_words(&self, key: K::Ref<'_>, old: &mut [u64]) -> Result<bool> {
        expect_words(self.shape.value_words(), [old.len()])?;
        Ok(self.done(key, None, SkipIf::Absent, old)?.is_some())
    }

    fn links(&self) -> Links {
        if self.shape.value_words() == 1 { Links::All } else { Links::None }
    }

    #[inline]
    fn link(&self, key: K::Ref<'_>, new: Option<u64>, steps: &mut dyn LinkSteps) -> Result<bool> {
        expect_words(self.shape.value_words(), [1])?;
        ended(self.link_entry(key, new, steps), self.pool.media())
    }

    fn scan(&self, from: Start<'_, K>, direction: Direction, visit: Visitor<'_, K>) -> Result<()> {
        ended(self.scan_from(ScanRequest { from, direction, visit }), self.pool.media())
    }

    fn len(&self) -> u64 {
        self.count()
    }

    fn statistics(&self) -> IndexStatistics {
        let media = self.pool.media();
        let pinned = self.enter();
        let first = self.leaf(self.parents.find(&pinned, 0).leaf);
        let first_is_empty =
            first.and_then(|leaf| leaf.fill(media)).is_ok_and(|fill| fill.live() == 0);
        let inner_nodes = self.parents.nodes(&pinned);
        drop(pinned);
        let (pm_bytes, groups_bytes) = {
            let state = self.stock.state(media);
            (state.groups.pm_bytes(), state.groups.dram_bytes())
        };
        IndexStatistics {
            keys: self.count(),
            height: 3,
            leaves: self.parents.len() as u64 - u64::from(first_is_empty),
            leaf_slots: self.shape.slots() as u64,
            inner_nodes,
            pm_bytes,
            node_bytes: pm_bytes,
            dram_bytes: self.parents.dram_bytes()
                + self.locks.dram_bytes()
                + groups_bytes
                + size_of::<Self>() as u64,
            conflicts: Conflicts {
                restarts: self.restarts.get(),
                waits: self.locks.waits(),
                ..Conflicts::default()
            },
            concurrency: Concurrency::VersionLocks,
            inner_from: self.inner_from,
            ..IndexStatistics::default()
        }
    }

    /// No other operation may run meanwhile.
    fn check(&self, audit: &mut Audit) -> Result<CheckReport> {
        self.check_all(audit)
    }

    fn contract(&self) -> Contract {
        Contract::Strict
    }

    fn close(&self) -> Result<Option<Seal>> {
        self.store_image()
    }
}
