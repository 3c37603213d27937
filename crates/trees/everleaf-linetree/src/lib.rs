//! Line tree: an entry commits itself within its line, so a change is one flush and one fence.
//!
//! Everleaf's own tree; what it takes from others is named below.
//!
//! # The idea
//! Leaves are in persistent memory, the inner nodes above them in DRAM, built anew when the tree is
//! opened. A leaf has no bitmap, no count and no fingerprints: a hash chooses the line of a key,
//! and a key word that is odd *is* an entry. So an insertion stores a value and then a key word,
//! side by side in one line, whose stores become durable in their order; and a search reads that
//! line alone, all of whose key words it compares at once. Where a line is full, an entry goes on
//! to one of the next three. A line that has a slot which was never used ends a search.
//!
//! A split does not touch the old leaf durably. The new leaf is written, and then becomes one of
//! the tree by one word of its own: from then on the old leaf ends where the new one begins, and
//! what has moved is out of its range. That must stay so: *no bound ever rises*. So a leaf that is
//! empty is not taken over by its left neighbour, whose upper bound would rise, but by its right
//! one, whose lower bound falls.
//!
//! # Costs
//! | operation | flushes | fences |
//! |---|---|---|
//! | insert, update, remove | 1 | 1 |
//! | split, 15 lines | 16 | 2 |
//! | end of a leaf | 3 | 3 |
//!
//! Byte strings: a split 3 fences, its flushes and those of the lines of the old leaf that change;
//! it allocates the record of a bound, and the end of a leaf frees one.
//!
//! # Order of persistence
//! ```text
//! insert   P1  value; order; key word; flush, fence   COMMIT
//! update   U1  value; flush, fence                    COMMIT
//! remove   R1  key word := never used if its line has such a slot, or nothing has gone past it,
//!              else dead; flush, fence   COMMIT
//! batch    see `batch`
//! link     N, U, R  as these, with the steps of a store before each of two fences
//! split    S1  every line of the new leaf; flush each, fence
//!          S2  its lower bound, `dying` := null; order; `live`; flush, fence   COMMIT
//!          S3  key words that moved out of the old leaf := never used, or dead where an entry that
//!              stays went past them; no flush (byte strings: flush each, fence)
//! end      D1  `dying` := the right neighbour; flush, fence
//!          D2  lower bound of that := that of this leaf; flush, fence   COMMIT
//!          D3  `live` := 0; flush, fence
//! group    G1  `live` := 0 of each leaf of a run; flush; the pool fences and publishes the run
//! open     O1  `live` := 0 of leaves that are dead; O2 `dying` := null of those that are not;
//!              flush each, one fence
//!
//! byte strings
//! split    S0  before S1: the record of the bound, to `spare`: the pool's exchange
//!          S2  `lower_bound` := `spare`, `from` := the old leaf, with the rest
//!          S4  after S3: `from` := null; flush, no fence
//! end      D1  `spare` := the bound of the right neighbour, with the rest
//!          D4  after D3: the record that `spare` leads to is freed: the pool's exchange
//! open     O3  as S3 where `from` is set; O4  as D4 of all free leaves
//! ```
//! No other thread reads or changes a leaf between a change and its fence, see L3.
//!
//! # Invariants
//! * I1: a leaf of the tree is live and not dying, every other is free.
//! * I2: a key word is an entry's, or one of the two that are none; no entry is below the range of
//!   its leaf. Above it there may be some, which a split has moved: they are not in the tree.
//! * I3: an entry is in the window of its key, and no line of the window before its own has a slot
//!   that was never used. At every crash, too: an entry goes past a line when all four words there
//!   are entries, durably, for each was fenced before its leaf was unlocked; a removal leaves no
//!   word that counts as never used in a line that has none, unless the next line shows that
//!   nothing has gone past (see `free_slots`); and S3 leaves one only where no entry that stays
//!   went past, so that it makes no difference whether it is durable.
//! * I4: no key is twice in the range of a leaf.
//! * I5: the inner nodes lead, in order, to exactly the leaves of the tree; separators are the
//!   lower bounds; there is one of 0 and one of 2^63.
//! * I6: every leaf of every run is in the tree or in the list of free leaves; the counts of the
//!   groups agree.
//! * I7: the number of keys is that of the entries in the ranges of leaves.
//! * I8: byte strings: a free leaf has no `spare`, and all entries of a leaf are in its range.
//! * I9: byte strings of a tree that has its own records: no change of one is under way.
//!
//! # Byte strings
//! The key word of an entry is the hash of its key, and its value leads to a record that has the
//! key: the store's, or one of its own (`own_records`). So all of the above stays as it is, but for
//! what reads keys in order. Bounds are records, each owned by one leaf: *a live leaf owns that of
//! `lower_bound`, whatever `spare` says, a free leaf owns that of `spare`*. So `live` says at every
//! moment what belongs to whom, and the end of a leaf exchanges two bounds without a log.
//!
//! What a split has moved must go out of the old leaf before the leaves are unlocked (S3): the
//! record of a key that is then removed may serve as that of a key in the range of the old leaf.
//! If S3 is cut, the new leaf says by `from` where to look. The two leaves then have entries of the
//! same words; in no other case have two leaves, since a record is that of one entry. Of the two it
//! is the old one's that goes: that with the lower bound, whatever leaves have split since.
//!
//! # Protocol of threads
//! That of the concurrent FPTree (Oukid et al., SIGMOD 2016), with version locks:
//! * L1: the inner nodes say which leaf covers a key, with a ticket that holds until the node above
//!   it changes. A thread that changes what leaves cover holds their locks, changes the node, and
//!   only then unlocks them. So a ticket that holds after a leaf was locked, or its version read,
//!   holds until it is unlocked, or the version changes.
//! * L2: a writer looks for the key as a reader does, and locks the leaf if its version is still
//!   the same. It waits for a lock only while it has none. The end of a leaf needs a second one,
//!   that of the right neighbour, and waits for it a bounded time: then the leaf stays, empty.
//! * L3: a leaf is locked until what was done to it is durable. Readers write nothing: they read
//!   the version, wait while it is locked, read the leaf, and start again if the version has
//!   changed. So no reader acts on what a crash can still undo, and no writer puts an entry past
//!   one that is not durable.
//! * L4: scans lock a leaf while they show it.
//! * L5: a leaf serves again as soon as it has left the tree; who still reads it finds by its
//!   version that it does not count.
//!
//! # What was changed of the first design, and why
//! * **`dying` is forgotten by recovery (O2).** What it prevents: the end of Y into X is cut after
//!   D1, and Y goes on; X dies, and its memory serves again as a left neighbour of Y, which dies
//!   into Y and is cut after D2. Then X is dying into Y and Y into X, and both have the same bound.
//!   It is flushed: a clean close flushes nothing, and the next opening goes by its image.
//! * **D3 is durable before the neighbour is unlocked.** Else the neighbour may take over one more
//!   leaf, its bound falls again, and the dead leaf, whose bound then differs, is found alive.
//! * **A new leaf has its entries in the lines where the old one had them, and those that went past
//!   a line come back as far as there is room.** To place them anew, each in the first line with
//!   room, may find no room for the last ones.
//! * **Entries out of range are taken out when a window is full**, before a leaf is split: after a
//!   crash a window may be full of nothing else.
//! * **A leaf is empty when no word of it is an entry**, also none out of its range: so a free leaf
//!   was empty whatever its range was. One that has only such entries stays.
//! * **The last leaf of each half of all keys stays**, also when it is empty; every other leaf may
//!   come and go, the first one too.
//! * **The first leaves are two**, and creation may be cut between them: a half without a leaf gets
//!   one when the tree is opened.
//! * **Where ascending keys fill the last leaf of a half, the new leaf begins with the new key**
//!   and nothing moves.
//!
//! # What it takes from others
//! Leaves in persistent memory below inner nodes in DRAM, version locks: FPTree. Entries whose key
//! word is their commit, in one line with the value: LB+-Tree (Liu, Chen, Wang, VLDB 2020) commits
//! within a line by its head. Buckets of a line with a window behind them: CCEH and level hashing.
//!
//! # Map of the files
//! `layout` (every persistent byte, windows) · `free_slots` (slots without an entry) ·
//! `split_halves` (lines of a leaf, copied) · `search` `scan` `insert` `update` `remove` `link`
//! `batch` `split` `publish` (a new leaf) `leaf_removal` (of a leaf) · `leaf_memory` (memory of
//! leaves) · `count` (of keys) · `recover` · `close` · `check` · `engine` (for the table of
//! engines) · `format` (for docs/format.md).
//!
//! Of byte strings: `records` (keys in them) · `split_records` · `check_records` · `own_records` (a
//! tree that has the records of its entries).
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod batch;
mod check;
mod check_records;
mod close;
mod count;
pub mod engine;
mod format;
mod free_slots;
mod insert;
mod layout;
mod leaf_memory;
mod leaf_removal;
mod link;
mod own_records;
mod publish;
mod records;
mod recover;
mod remove;
mod scan;
mod search;
mod split;
mod split_halves;
mod split_records;
#[cfg(test)]
mod tests;
mod update;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use everleaf_index::{
    BatchSteps, Changes, CheckReport, Concurrency, Contract, Direction, Index, IndexError,
    IndexStatistics, InnerFrom, LinkSteps, Links, Result, Start, Visitor,
};
use everleaf_pmem::{Media, PPtr};
use everleaf_pool::{Audit, Pool, Seal};

#[cfg(not(test))]
pub use engine::SHIPPED;
pub use engine::{LINETREE, OFFER, Variant, engines, laboratory, open};
pub use format::layouts;
pub use layout::{HALF, KeyWord, Leaf, LeafHead, OwnLog};

use everleaf_tree::key::TreeKey;
use everleaf_tree::operations::{Restarts, ended, in_groups};
use everleaf_tree::parameters::Parameters;
use everleaf_tree::scan::walk;
use everleaf_tree::scan_orders::ScanOrders;
use everleaf_tree::shared_nodes::SharedNodes;
use everleaf_tree::statistics::conflicts;
use everleaf_tree::version_locks::VersionLocks;
use leaf_memory::Stock;

/// Workers that the tree uses at a time: half of the pool's, so that a store has as many for its
/// values.
const WORKERS: usize = 32;

/// Locks of leaves: 128 KiB with their counters, which stay in the second-level cache beside the
/// upper inner nodes. Two threads meet on a lock by chance once in 8192 times.
const LOCKS: usize = 1 << 13;

/// A line tree, with so many lines of entries in a leaf.
pub(crate) struct LineTree<K: TreeKey, M: Media, const LINES: usize> {
    pool: Arc<Pool<M>>,
    inner: SharedNodes<K>,
    locks: VersionLocks,
    orders: ScanOrders,
    stock: Stock<M>,
    parameters: Parameters,
    /// Keys that were there when it was opened, once they are counted; what came and went since is
    /// counted beside the locks.
    keys_found: OnceLock<u64>,
    inner_from: InnerFrom,
    /// Leaves in the tree.
    leaves: AtomicU64,
    /// Searches that began again in a leaf.
    restarts: Restarts,
}

impl<K: TreeKey, M: Media, const LINES: usize> LineTree<K, M, LINES> {
    /// The leaf at a place that the inner nodes know.
    #[inline(always)]
    fn leaf(&self, offset: u64) -> Result<&Leaf<LINES>> {
        leaf_at(&self.pool, offset)
    }

    /// Counts a search that begins again.
    fn restarted(&self) {
        self.restarts.again(self.pool.media());
    }
}

/// The leaf at `offset`, after a check of its bounds and alignment.
#[inline(always)]
fn leaf_at<M: Media, const LINES: usize>(pool: &Pool<M>, offset: u64) -> Result<&Leaf<LINES>> {
    let leaf = pool.media().region().get(PPtr::<Leaf<LINES>>::at(offset));
    leaf.ok_or(IndexError::Corrupt { offset, what: "a leaf lies outside the pool" })
}

impl<K: TreeKey, M: Media, const LINES: usize> Index<K> for LineTree<K, M, LINES> {
    #[inline]
    fn get(&self, key: K::Ref<'_>) -> Result<Option<u64>> {
        let found = match self.try_find(key) {
            Some(found) => Ok(found),
            None => self.find(key),
        };
        ended(found, self.pool.media())
    }

    fn get_many(&self, keys: &[K::Ref<'_>], values: &mut [Option<u64>]) -> Result<()> {
        in_groups(self.pool.media(), keys, values, |keys, values| self.find_group(keys, values))
    }

    #[inline]
    fn insert(&self, key: K::Ref<'_>, value: u64) -> Result<bool> {
        ended(LineTree::insert(self, key, value), self.pool.media())
    }

    #[inline]
    fn update(&self, key: K::Ref<'_>, value: u64) -> Result<Option<u64>> {
        ended(LineTree::update(self, key, value), self.pool.media())
    }

    #[inline]
    fn upsert(&self, key: K::Ref<'_>, value: u64) -> Result<Option<u64>> {
        ended(LineTree::upsert(self, key, value), self.pool.media())
    }

    #[inline]
    fn remove(&self, key: K::Ref<'_>) -> Result<Option<u64>> {
        ended(LineTree::remove(self, key), self.pool.media())
    }

    fn links(&self) -> Links {
        Links::All
    }

    #[inline]
    fn link(&self, key: K::Ref<'_>, new: Option<u64>, steps: &mut dyn LinkSteps) -> Result<bool> {
        ended(self.link_entry(key, new, steps), self.pool.media())
    }

    fn link_all(&self, changes: &Changes<'_, K>, steps: &mut dyn BatchSteps) -> Result<bool> {
        ended(self.link_entries(changes, steps), self.pool.media())?;
        Ok(true)
    }

    fn scan(&self, from: Start<'_, K>, direction: Direction, visit: Visitor<'_, K>) -> Result<()> {
        ended(walk(self, from, direction, visit), self.pool.media())
    }

    fn len(&self) -> u64 {
        self.keys()
    }

    fn statistics(&self) -> IndexStatistics {
        let media = self.pool.media();
        let groups = self.stock.groups(media);
        let (pm_bytes, free_bytes) = (groups.pm_bytes(), groups.dram_bytes());
        drop(groups);
        IndexStatistics {
            keys: self.keys(),
            height: self.inner.height() + 1,
            leaves: self.leaves.load(Ordering::Relaxed),
            leaf_slots: self.parameters.leaf_slots,
            inner_nodes: self.inner.count(),
            pm_bytes,
            node_bytes: pm_bytes,
            dram_bytes: self.inner.dram_bytes()
                + self.locks.dram_bytes()
                + self.orders.dram_bytes()
                + free_bytes
                + size_of::<Self>() as u64,
            conflicts: conflicts(&self.inner, &self.locks, &self.restarts),
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
