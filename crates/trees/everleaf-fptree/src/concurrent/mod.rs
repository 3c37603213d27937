//! The concurrent FPTree (section 4.4 of the paper; appendix C for byte strings): many threads read
//! and write one tree.
//!
//! # The idea
//! *Selective concurrency*: what is in DRAM and what is persistent are kept consistent by different
//! means. Inner nodes, in DRAM, are read and changed in hardware transactions; or, where the
//! processor has none or they are switched off, read optimistically: a reader notes the version of
//! each node, and starts again if it has changed. Leaves, in persistent memory, are changed under a
//! lock of their own, outside of any transaction or optimistic section, because a flush cannot be
//! undone (and would abort a transaction). Locks and versions are in DRAM: nothing of them is
//! persistent, so a crash leaves none behind.
//!
//! The order in which bytes become durable is that of the tree for one thread (`insert`, `update`,
//! `remove`), whose sequences are used as they are, with the leaf locked. Only the split and the
//! death of a leaf differ: leaves are allocated one by one, and each worker has a micro-log of its
//! own.
//!
//! # Protocol
//! * L1: *coverage*. The inner nodes say which leaf covers a key, and give a ticket that holds
//!   until the node above the leaf changes. A thread that changes what a leaf covers (a split, the
//!   removal of an empty leaf) holds the leaf's lock, changes the node above, and only then unlocks
//!   the leaf. So a ticket that holds after the leaf was locked (or its version read) holds until
//!   it is unlocked (or until the version changes). With transactions there is no ticket: the
//!   transaction of the descent reads the version of the leaf as well, so that at one moment the
//!   leaf covered the key and no thread was changing it. A version that is still the same vouches
//!   for both, because a thread that changes what a leaf covers has it locked.
//! * L2: *writers* look for the key as readers do, lock the leaf if its version is still the one
//!   that they have read, and keep it until everything they did is durable. They hold one leaf at a
//!   time: after a split they look for the key's leaf again. So there is no deadlock, also where
//!   two leaves share a lock. A *batch* holds many leaves, and waits for one only while it holds
//!   none; it changes no inner node meanwhile, and goes down by versions, which waits for inner
//!   nodes only.
//! * L3: *readers* write nothing that is shared. They read the leaf's version (and wait while it is
//!   locked), read the leaf, and start again if the version has changed. While it has not, nothing
//!   they saw was less than durable: no reader acts on what a crash can still undo.
//! * L4: *scans* lock one leaf at a time and show what it holds. Keys that are shown are lent, not
//!   copied, and so is what values lead to: the lock keeps the records, since no write of a key in
//!   the leaf returns before it. (Copying a leaf of `u64` keys and showing the copy without a lock
//!   is no faster, and takes that promise away.) From leaf to leaf they step within the node above
//!   while that has not changed: its ticket says of the next leaf what it said of this one.
//! * L5: *memory*. A record or leaf may be freed, and reused, while a reader without a lock still
//!   looks at it. It loads cells, every one of which is defined whatever it holds, lends nothing,
//!   and finds by L3 that what it read does not count. So nothing has to be kept until readers have
//!   gone, and no reader can delay a writer.
//!
//! * L6: *transactions* ([`SharedInner`](everleaf_tree::inner::SharedInner)) touch DRAM only:
//!   inner nodes, and the versions of leaves, which they read. Each reads the structure lock first
//!   and gives itself up while it is held; a thread that changes inner nodes without a transaction
//!   holds it. Attempts are bounded; then a descent goes by versions, and a change takes the
//!   structure lock. Changes give every node they touch a new version, so that tickets, scans and
//!   batches, which go by versions, are right beside them. A leaf that is found locked is waited
//!   for outside.
//!
//! Every operation is attempted once without waiting and without an error to report
//! (`try_find`, `try_lock_leaf`), in straight code that is inlined; if that fails, for
//! whatever reason, the same is done as often as it takes (`find`, `lock_leaf`).
//!
//! Two leaves may share a lock ([`VersionLocks`] is a table of fixed size): they then exclude each
//! other needlessly and rarely.
//!
//! # Deviations from the paper, and why
//! Besides those of the [family](super):
//! * **Locks in DRAM.** The paper's lock is a byte of the leaf, in persistent memory: it costs a
//!   store to a line that is about to be flushed, a crash leaves it set, and a split copies it
//!   (below).
//! * **Leaves are locked after the transaction**, not in it: by an exchange that succeeds only if
//!   the leaf has the version that the transaction has read. It comes to the same, and a thread
//!   that then finds nothing to do has not locked the leaf. The search of the leaf is outside as
//!   well: its lines would be more for the transaction to lose.
//! * **No global lock for readers** whose transactions give up: they go by versions.
//! * **Optimistic version locks** where there are no transactions, chosen when the tree is opened.
//! * **No epochs.** See L5.
//! * **Micro-logs belong to workers**, of which a thread leases one for the length of a split; the
//!   paper's queues of logs are the table of free workers.
//! * **No list of leaves.** The pool knows which blocks are nodes, and every node is a leaf:
//!   opening asks the pool.
//! * **One commit a split.** The new leaf is complete and durable before the old one's bitmap
//!   changes; that store commits. The log holds no bitmaps.
//!
//! # Errors in the printed algorithms
//! * Algorithms 2 and 8 insert into the old leaf after the split, whichever half the key belongs
//!   to, and unlock only that: the new leaf's lock, copied with the leaf (Algorithm 3), stays set
//!   for ever unless it is cleared.
//! * Algorithm 3 copies the locked leaf, lock included, and persists the copy: after a crash every
//!   lock must be cleared by a pass over all leaves, which Algorithm 9 does only for leaves that it
//!   still reaches.
//! * Algorithm 5 locks the previous leaf by `PPrevLeaf`, which the first leaf of the tree has not;
//!   and it aborts the transaction with a lock taken in it when the previous leaf is locked.
//! * Algorithm 6 frees a leaf that a reader in a transaction of its own may have reached: it reads
//!   a bitmap that is not a bitmap.
//! * Pointers of 16 bytes (pool and offset) are written by two stores: a reader, or a crash, can
//!   see the half of each.
//! * The value is visible to readers between the store of the bitmap and the completion of its
//!   flush: a reader may act on an insertion that a crash then undoes. Here it waits.
//! * Retries have no bound in the printed loops: a transaction that always aborts (a page fault
//!   does so every time) never ends. Here one that aborts without hope is tried twice, any other
//!   eight times.
//! * Algorithms 1, 2 and 5 meet a locked leaf with an abort and a `continue`. Where the global lock
//!   had been taken for real the abort has no effect, and the loop takes that lock again without
//!   having let go of it.

mod batch;
mod check;
mod close;
mod insert;
mod link;
mod recover;
mod remove;
mod scan;
mod search;
mod split;
#[cfg(test)]
mod tests;
mod update;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use everleaf_index::{
    BatchSteps, Changes, CheckReport, Concurrency, Contract, Direction, Index, IndexError,
    IndexStatistics, InnerFrom, LinkSteps, Links, Result, Start, Visitor,
};
use everleaf_pmem::Media;
use everleaf_pool::{Audit, Pool, Seal, Workers};

use super::layout::{Shape, WorkerLog, WorkerLogs};
use super::leaf::Leaf;
use super::link::links_of;
use everleaf_tree::key::TreeKey;
use everleaf_tree::operations::{Restarts, ended, expect_words, in_groups};
use everleaf_tree::parameters::Parameters;
use everleaf_tree::scan::walk;
use everleaf_tree::scan_orders::ScanOrders;
use everleaf_tree::shared_nodes::SharedNodes;
use everleaf_tree::statistics::{conflicts, pm_bytes};
use everleaf_tree::version_locks::VersionLocks;

/// Workers that the tree uses at a time: half of the pool's, so that a store has as many for its
/// values.
const WORKERS: usize = 32;

/// Locks of leaves: 128 KiB with their counters, which stay in the second-level cache beside the
/// upper inner nodes. Two threads meet on a lock by chance once in 8192 times.
const LOCKS: usize = 1 << 13;

/// An FPTree that many threads share.
pub struct ConcurrentFpTree<K: TreeKey, M: Media, S: Shape> {
    pool: Arc<Pool<M>>,
    workers: Workers<M>,
    inner: SharedNodes<K>,
    locks: VersionLocks,
    orders: ScanOrders,
    shape: S,
    parameters: Parameters,
    /// Whether descents and changes of inner nodes are transactions.
    transactional: bool,
    concurrency: Concurrency,
    /// The leaf that takes all keys below the second leaf's bound; it stays in the tree when it is
    /// empty.
    leftmost: u64,
    /// Keys that were there when it was opened; what came and went since is counted beside the
    /// locks.
    keys_found: u64,
    inner_from: InnerFrom,
    /// Leaves in the tree.
    leaves: AtomicU64,
    /// Searches that began again in a leaf.
    restarts: Restarts,
}

impl<K: TreeKey, M: Media, S: Shape> ConcurrentFpTree<K, M, S> {
    /// The leaf at a place that the inner nodes know.
    #[inline(always)]
    fn leaf(&self, offset: u64) -> Result<Leaf<'_, S>> {
        Leaf::at(self.pool.media().region(), offset, self.shape)
    }

    /// The micro-log of a worker.
    fn log(&self, slot: usize) -> Result<&WorkerLog> {
        log_of(&self.pool, slot)
    }

    /// Keys in the tree; exact while no thread writes.
    fn keys(&self) -> u64 {
        self.keys_found.saturating_add_signed(self.locks.counted())
    }

    /// Counts a search that begins again.
    fn restarted(&self) {
        self.restarts.again(self.pool.media());
    }
}

/// The micro-log of the worker in `slot`.
fn log_of<M: Media>(pool: &Pool<M>, slot: usize) -> Result<&WorkerLog> {
    let logs = pool.index_root::<WorkerLogs>()?;
    logs.logs.get(slot).ok_or(IndexError::Corrupt { offset: 0, what: "a worker has no micro-log" })
}

impl<K: TreeKey, M: Media, S: Shape> Index<K> for ConcurrentFpTree<K, M, S> {
    fn value_words(&self) -> usize {
        self.shape.value_words()
    }

    #[inline]
    fn get_words(&self, key: K::Ref<'_>, value: &mut [u64]) -> Result<bool> {
        expect_words(self.shape.value_words(), [value.len()])?;
        match self.try_find(key, value) {
            Some(present) => ended(Ok(present), self.pool.media()),
            None => ended(self.find(key, value), self.pool.media()),
        }
    }

    fn get_many(&self, keys: &[K::Ref<'_>], values: &mut [Option<u64>]) -> Result<()> {
        in_groups(self.pool.media(), keys, values, |keys, values| self.find_group(keys, values))
    }

    #[inline]
    fn insert_words(&self, key: K::Ref<'_>, value: &[u64]) -> Result<bool> {
        expect_words(self.shape.value_words(), [value.len()])?;
        ended(self.insert(key, value), self.pool.media())
    }

    #[inline]
    fn update_words(&self, key: K::Ref<'_>, value: &[u64], old: &mut [u64]) -> Result<bool> {
        expect_words(self.shape.value_words(), [value.len(), old.len()])?;
        ended(self.update(key, value, old), self.pool.media())
    }

    #[inline]
    fn upsert_words(&self, key: K::Ref<'_>, value: &[u64], old: &mut [u64]) -> Result<bool> {
        expect_words(self.shape.value_words(), [value.len(), old.len()])?;
        ended(self.upsert(key, value, old), self.pool.media())
    }

    #[inline]
    fn remove_words(&self, key: K::Ref<'_>, old: &mut [u64]) -> Result<bool> {
        expect_words(self.shape.value_words(), [old.len()])?;
        ended(self.remove(key, old), self.pool.media())
    }

    fn links(&self) -> Links {
        links_of::<K, S>(self.shape)
    }

    #[inline]
    fn link(&self, key: K::Ref<'_>, new: Option<u64>, steps: &mut dyn LinkSteps) -> Result<bool> {
        expect_words(self.shape.value_words(), [1])?;
        ended(self.link_entry(key, new, steps), self.pool.media())
    }

    fn link_all(&self, changes: &Changes<'_, K>, steps: &mut dyn BatchSteps) -> Result<bool> {
        if links_of::<K, S>(self.shape) != Links::All {
            return Ok(false);
        }
        ended(self.link_entries(changes, steps).map(|()| true), self.pool.media())
    }

    fn scan(&self, from: Start<'_, K>, direction: Direction, visit: Visitor<'_, K>) -> Result<()> {
        ended(walk(self, from, direction, visit), self.pool.media())
    }

    fn len(&self) -> u64 {
        self.keys()
    }

    fn statistics(&self) -> IndexStatistics {
        let leaves = self.leaves.load(Ordering::Relaxed);
        let leftmost_is_empty =
            self.leaf(self.leftmost).is_ok_and(|leaf| leaf.live(self.pool.media()).is_empty());
        let node_bytes = leaves * self.shape.leaf_bytes();
        IndexStatistics {
            keys: self.keys(),
            height: self.inner.height() + 1,
            leaves: leaves - u64::from(leftmost_is_empty),
            leaf_slots: self.shape.slots() as u64,
            inner_nodes: self.inner.count(),
            pm_bytes: pm_bytes::<K, M>(&self.pool, node_bytes),
            node_bytes,
            dram_bytes: self.inner.dram_bytes()
                + self.locks.dram_bytes()
                + self.orders.dram_bytes()
                + size_of::<Self>() as u64,
            conflicts: conflicts(&self.inner, &self.locks, &self.restarts),
            concurrency: self.concurrency,
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
