//! Circ-Tree: every node, inner ones too, is a sorted ring in persistent memory.
//!
//! After Wang, Brihadiswarn, Jiang, Chattopadhyay: "Circ-Tree: A B+-Tree Variant with Circular Design for Persistent Memory", 2020.
//!
//! # The idea
//! Entries of a node are sorted, so a search reads few lines and a scan none in vain; but an insertion into an array moves half of it. A
//! *ring* has no fixed beginning: its first entry stands in any slot, and an insertion or removal moves the entries on the side where
//! there are fewer, a quarter on average, and none at either end. Where the first entry is and how many there are is one word, stored
//! p-atomically. The whole tree is persistent: opening it reads the root's address and nothing else.
//!
//! # Costs
//! | operation | flushes | fences |
//! |---|---|---|
//! | insert at an end of a node | 2 | 2 |
//! | insert elsewhere, moved and new entry come to lie in n lines | n + 1 | n + 1 |
//! | update | 1 | 1 |
//! | remove at an end | 1 | 1 |
//! | remove elsewhere, entries move into n lines | n + 1 | n + 1 |
//! | split | lines of the new node and 3, and those of the entry above | 3, and those of the entry above |
//! | merge | lines of the moved entries and 2, and those of the entry above | 2, and those of the entry above |
//!
//! Splits and merges add the pool's allocation (4 flushes, 2 fences) or freeing (4, 3).
//!
//! # The states that a crash can leave of a node
//! The paper tells by values that occur twice and by NULLs where a crash has interrupted a shift. Here every key and value is legal, and
//! values repeat. So a shift is *announced*: the header's line gets the new key, the value at the edge, and then the state word with the
//! step and its position, is flushed and fenced, and *that the step is done is stored, but not flushed*: the announcement stays true after the
//! fact, because the entries themselves tell how far the step came. That costs what the paper's flush of the header costs.
//! Keys of a node differ, so the one pair of neighbouring slots with the same key is the last whole move (`shift` has the proof).
//!
//! | step | after it a crash leaves | which is recognised by | and is |
//! |---|---|---|---|
//! | insert, nothing yet | the old state | rest | absent |
//! | P1 announced | the old entries | step; no slot pair of the step has one key; or the first pair does, by chance: its value is in `edge` | absent |
//! | P2 k-th move, value only | moved: k - 1; the source of the k-th is whole | step; pair k - 1 | absent |
//! | P2 k-th move | moved: k; its source may have the next value | step; pair k; the destination counts | absent |
//! | P3 new value only | all moved; the hole has its old key | step; the last pair | absent |
//! | P3 new key | the new entry | step; the hole has the announced key | **present** |
//! | P4 rest | the new entry | rest | present |
//! | E0 (after a removal), E1 at an end | the old entries; a dead slot has changed | rest | absent |
//! | E2 | one entry more | rest | **present** |
//! | remove, P1 announced | the old entries, or the removed one with a wrong value | step; no pair | **absent** |
//! | P2 k-th move | moved: k | step; pair k | absent |
//! | P2 last move | all moved; the vacated slot has its old key | step; the last pair | absent |
//! | P3 rest | one entry less | rest | absent |
//! | E1 at an end | one entry less | rest | **absent** |
//!
//! Lines become durable apart: within a step a line that has been left is flushed and fenced before the next one is stored to, so at any
//! time one line only is between two states, and within it stores keep their order. While an end of a step is not durable the
//! header may say *announced* again after a crash. Then recovery must still read what it would have read right after the step:
//! of an insertion it looks at the hole's key, of a removal at the vacated slot. Both stay until the header's line is flushed: every
//! operation that moves entries or changes a header flushes it first, in the same flush; one that writes into a dead slot beside the
//! entries asks the state word whether it has been vacated so (E0). Updates change values, and recovery compares keys.
//!
//! An almost full node has one dead slot, beside both ends: a step moves entries into it from one side, and reads it on no other. A full one is
//! split before anything is moved. What a crash leaves of splits, merges and the two changes of the root is listed in `recover`.
//!
//! # Many threads
//! * L1: every node has a version lock, in DRAM ([`VersionLocks`], chosen by the node's offset). Who stores into a node has it locked
//!   until everything is durable, so no reader acts on what a crash can still undo.
//! * L2: readers write nothing that is shared. They go down from version to version (`search`).
//! * L3: a writer locks one leaf, if its version is still the one that he has read, and waits for nothing while he has it.
//! * L4: splits, merges and changes of the root are made one at a time, under one lock, whose holder may wait for nodes. He has all
//!   nodes locked that he changes, and the one above, until the change is whole.
//! * L5: a scan locks one leaf at a time while it shows it, and follows the chain: it reads the version of the next leaf before it asks whether
//!   the one that leads there is still the same.
//! * L6: a node may be freed, and its memory be used again, while a reader still looks at it. He loads cells, which are defined whatever they
//!   hold, and finds by its version that what he read does not count.
//!
//! # Invariants
//! * I1: the state word of every node carries its check, and every node is of the level below the one that leads to it.
//! * I2: keys of a node ascend strictly; an inner node has an entry.
//! * I3: every key of a node is at least the key that leads to it, and less than the next one; the first key of an inner node is the one that
//!   leads to it, 0 at the left edge.
//! * I4: nodes of a level are chained in the order in which the nodes above lead to them.
//! * I5: every block of the pool that is a node is reached exactly once (the pool's audit).
//! * I6: outside of operations the log of changes is retired.
//! * I7: the totals are right.
//!
//! # Deviations from the paper, and why
//! * **The announcement** stands in for duplicates and NULLs; nothing is cleared, so a removal at an end is one store of one word.
//! * **Header and entries are one block**, so that both can be asked for at once; the paper's header points to its array. The header takes
//!   32 bytes of a line. Nodes of 512 bytes fill the pool's blocks to 98 percent, of 1024 to 80, of 2048 and 4096 to 52.
//! * **No lock in the header**: see the errors.
//! * **Binary search** in the contiguous part (the paper: linear; `circtree-ls` has that, from the first entry on).
//! * **Nodes are split before the insertion**, all full ones on the way from the top down, so that one line of log suffices. At the right edge
//!   one entry moves: ascending keys fill nodes.
//! * **The left node takes the entries of the right one** in a merge (the paper: the other way round). They go into dead slots, and the node
//!   before the left one need not be found.
//! * **Nodes merge below a quarter** if they fit into three quarters together, or one is empty (the paper: below a half, if they fit): so that
//!   an insertion after a merge does not split again.
//! * **A thread that finds a changed node looks again from the root** (the paper: it moves right; see the errors).
//! * **Recovery happens when a node is first touched**, and changes of structure are ended from their log; after a crash one pass reads
//!   the states, to count.
//!
//! # Errors and gaps in the paper
//! * Algorithm 1 adds a key that is present a second time, and compares with a dead slot where a node is empty (line 5).
//! * A pair is two stores. Between them an entry has its own key and its neighbour's value; shifting back (section 5.5, case 1a) copies that on.
//! * Case 1a takes any non-NULL value beside the base for a sign of a shift to the left: in an almost full node the slot beside the base is
//!   also the one behind the last entry, and a shift to the right has filled it.
//! * Case 2 (deletion) expects one value less than the header counts. While a deletion shifts, nothing is NULL yet and the numbers agree: a deletion that
//!   was cut in its shift is in neither case, with a value twice and the removed key still there.
//! * Moved values are recognised by being different, and inner nodes by pointers being different; a split's "duplicate valid values in two
//!   siblings" (case 3) is an ordinary state of ordinary data.
//! * Section 5.4 lets a waiting thread compare its key with the smallest key of the right sibling. Once that has been removed, a key between it and
//!   the separator is put into the left node, where no search looks for it.
//! * The lock is in the persistent header: it costs a store to a line that is about to be flushed, and recovery has to visit every node to clear it.
//! * A merge "under the same parental IN" detaches the left node from the list; the node before it, in which that is stored, may be under another
//!   parent, and is locked by nobody.
//!
//! # Volatile twins
//! The same code on the media `Dram`, where flushes and fences are nothing: `volatile-circ`, and `volatile-std`, whose nodes are arrays, that is rings
//! whose entries all move to one side.
//!
//! # Map of the files
//! `layout` (every persistent byte, the state word) · `node` (cells by slot) · `key` (what a key word means) · `parameters` (sizes on offer) ·
//! `shift` (the moves of a step, and what tells how far they came) · `search` `scan` `insert` `split` `remove` `merge` `update` (one operation each) ·
//! `recover` (crash states, opening, closing) · `check` (I1 to I7) · `format` (for docs/format.md).

mod check;
mod format;
mod insert;
mod key;
mod layout;
mod merge;
mod node;
mod parameters;
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
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use everleaf_index::{CheckReport, Concurrency, Conflicts, Direction, Index, IndexError, IndexStatistics, Visit};
use everleaf_pmem::{Media, Site, site};
use everleaf_pool::{Audit, Pool, Worker, Workers};
use parking_lot::{Mutex, MutexGuard};

pub use format::layouts;
pub use key::NodeKey;
use layout::{Anchor, Shape, node_bytes};
pub use parameters::{Parameters, Variant, create, open};

use crate::support::count::Count;
use crate::support::version_locks::VersionLocks;

/// Every barrier of this room, in the order of the code.
pub const SITES: &[Site] = &[
    site!("circtree.shift.S1.order"),
    site!("circtree.shift.S2.order"),
    site!("circtree.shift.S2.line"),
    site!("circtree.shift.S2.fence"),
    site!("circtree.insert.P1.order"),
    site!("circtree.insert.P1.header"),
    site!("circtree.insert.P1.fence"),
    site!("circtree.insert.P3.order"),
    site!("circtree.insert.P3.entry"),
    site!("circtree.insert.P3.fence"),
    site!("circtree.insert.P4.order"),
    site!("circtree.insert.E0.header"),
    site!("circtree.insert.E0.fence"),
    site!("circtree.insert.E1.entry"),
    site!("circtree.insert.E1.fence"),
    site!("circtree.insert.E2.header"),
    site!("circtree.insert.E2.fence"),
    site!("circtree.remove.P1.order"),
    site!("circtree.remove.E1.header"),
    site!("circtree.remove.E1.fence"),
    site!("circtree.remove.P1.header"),
    site!("circtree.remove.P1.fence"),
    site!("circtree.remove.P2.entry"),
    site!("circtree.remove.P2.fence"),
    site!("circtree.update.P1.value"),
    site!("circtree.update.P1.fence"),
    site!("circtree.split.C1.entries"),
    site!("circtree.split.C1.header"),
    site!("circtree.split.C1.log"),
    site!("circtree.split.C1.fence"),
    site!("circtree.split.C2.order"),
    site!("circtree.split.C2.header"),
    site!("circtree.split.C4.order"),
    site!("circtree.split.C4.log"),
    site!("circtree.split.C4.fence"),
    site!("circtree.root.G1.entry"),
    site!("circtree.root.G1.header"),
    site!("circtree.root.G1.fence"),
    site!("circtree.root.G2.root"),
    site!("circtree.root.G2.fence"),
    site!("circtree.merge.M0.header"),
    site!("circtree.merge.M0.fence"),
    site!("circtree.merge.M1.order"),
    site!("circtree.merge.M1.log"),
    site!("circtree.merge.M1.entries"),
    site!("circtree.merge.M1.fence"),
    site!("circtree.merge.M2.order"),
    site!("circtree.merge.M2.header"),
    site!("circtree.merge.M2.fence"),
    site!("circtree.merge.D1.fence"),
    site!("circtree.merge.D2.root"),
    site!("circtree.recover.B1.order"),
    site!("circtree.recover.B2.order"),
    site!("circtree.recover.B2.line"),
    site!("circtree.recover.B2.fence"),
    site!("circtree.recover.B3.undone"),
    site!("circtree.recover.B3.header"),
    site!("circtree.recover.B3.fence"),
    site!("circtree.recover.R1.header"),
    site!("circtree.recover.R2.next"),
    site!("circtree.recover.R3.order"),
    site!("circtree.recover.R3.log"),
    site!("circtree.recover.R3.fence"),
    site!("circtree.recover.R4.log"),
    site!("circtree.recover.R4.fence"),
    site!("circtree.close.T1.totals"),
    site!("circtree.close.T1.fence"),
];

/// Locks of nodes: 64 KiB, as many as the concurrent FPTree has.
const LOCKS: usize = 1 << 13;

/// Workers for the records of byte-string keys: half of the pool's, so that a store has as many for its values.
const SEATS: usize = 31;

/// The lock of the root's address: no node is there.
const ROOT: u64 = 0;

/// A Circ-Tree that many threads share.
pub struct CircTree<K: NodeKey, M: Media> {
    pool: Arc<Pool<M>>,
    workers: Workers<M>,
    /// Whoever changes the structure allocates with this worker; each change ends with a fence.
    changes: Mutex<Worker<M>>,
    shape: Shape,
    /// Nodes are searched from their first entry on.
    linear: bool,
    locks: VersionLocks,
    keys: Count,
    leaves: AtomicU64,
    inner_nodes: AtomicU64,
    /// Searches that began again.
    restarts: CachePadded<AtomicU64>,
    key_kind: PhantomData<fn() -> K>,
}

impl<K: NodeKey, M: Media> CircTree<K, M> {
    fn expect_one_word(words: usize) -> Result<(), IndexError> {
        if words == 1 { Ok(()) } else { Err(IndexError::ValueWords { words, expected: 1 }) }
    }

    /// One turn of a loop that waits for another thread.
    #[inline(always)]
    fn relax(&self) -> impl Fn() + '_ {
        || self.pool.media().relax()
    }

    /// Counts a search that begins again.
    #[cold]
    fn restarted(&self) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
        self.pool.media().relax();
    }

    /// Keeps others from changing the structure.
    fn lock_changes(&self) -> MutexGuard<'_, Worker<M>> {
        loop {
            if let Some(guard) = self.changes.try_lock() {
                return guard;
            }
            self.pool.media().relax();
        }
    }

    /// More nodes than this there cannot be.
    fn most_nodes(&self) -> u64 {
        recover::most_nodes(&self.pool, self.shape)
    }

    /// Ends an operation.
    #[inline(always)]
    fn ended<T>(&self, result: T) -> T {
        self.pool.media().end_operation();
        result
    }

    fn statistics_of(&self) -> Result<IndexStatistics, IndexError> {
        let root = self.pool.media().load(&self.pool.anchor::<Anchor>()?.root).offset();
        let height = u32::from(self.node(root)?.state(self.pool.media())?.level) + 1;
        let (leaves, inner_nodes) = (self.leaves.load(Ordering::Relaxed), self.inner_nodes.load(Ordering::Relaxed));
        Ok(IndexStatistics {
            keys: self.keys.get(),
            height,
            leaves,
            leaf_slots: self.shape.slots as u64,
            inner_nodes,
            pm_bytes: (leaves + inner_nodes) * node_bytes(self.shape.slots),
            dram_bytes: self.locks.dram_bytes() + size_of::<Self>() as u64,
            conflicts: Conflicts {
                restarts: self.restarts.load(Ordering::Relaxed),
                waits: self.locks.waits(),
                ..Conflicts::default()
            },
            concurrency: Concurrency::VersionLocks,
        })
    }
}

/// Stores the old value where the caller wants it; whether there was one.
#[inline(always)]
fn hand_over(found: Option<u64>, place: &mut [u64]) -> bool {
    if let (Some(value), Some(place)) = (found, place.first_mut()) {
        *place = value;
    }
    found.is_some()
}

impl<K: NodeKey, M: Media> Index<K> for CircTree<K, M> {
    fn value_words(&self) -> usize {
        1
    }

    #[inline]
    fn get_words(&self, key: K::Ref<'_>, value: &mut [u64]) -> Result<bool, IndexError> {
        Self::expect_one_word(value.len())?;
        self.ended(self.find(key)).map(|found| hand_over(found, value))
    }

    fn get_many(&self, keys: &[K::Ref<'_>], values: &mut [Option<u64>]) -> Result<(), IndexError> {
        assert_eq!(keys.len(), values.len(), "get_many wants a place for the value of each key");
        for (key, value) in keys.iter().zip(values) {
            *value = self.ended(self.find(*key))?;
        }
        Ok(())
    }

    #[inline]
    fn insert_words(&self, key: K::Ref<'_>, value: &[u64]) -> Result<bool, IndexError> {
        Self::expect_one_word(value.len())?;
        self.ended(self.insert(key, value[0]))
    }

    #[inline]
    fn update_words(&self, key: K::Ref<'_>, value: &[u64], old: &mut [u64]) -> Result<bool, IndexError> {
        Self::expect_one_word(value.len())?;
        Self::expect_one_word(old.len())?;
        self.ended(self.update(key, value[0])).map(|found| hand_over(found, old))
    }

    #[inline]
    fn upsert_words(&self, key: K::Ref<'_>, value: &[u64], old: &mut [u64]) -> Result<bool, IndexError> {
        Self::expect_one_word(value.len())?;
        Self::expect_one_word(old.len())?;
        self.ended(self.upsert(key, value[0])).map(|found| hand_over(found, old))
    }

    #[inline]
    fn remove_words(&self, key: K::Ref<'_>, old: &mut [u64]) -> Result<bool, IndexError> {
        Self::expect_one_word(old.len())?;
        self.ended(self.remove(key)).map(|found| hand_over(found, old))
    }

    fn scan(&self, from: Bound<K::Ref<'_>>, direction: Direction, visit: &mut Visit<'_, K>) -> Result<(), IndexError> {
        self.ended(self.scan_from(from, direction, visit))
    }

    fn len(&self) -> u64 {
        self.keys.get()
    }

    fn statistics(&self) -> IndexStatistics {
        self.statistics_of().unwrap_or_default()
    }

    /// No other operation may run meanwhile.
    fn check(&self, audit: &mut Audit) -> Result<CheckReport, IndexError> {
        self.check_all(audit)
    }

    /// Stores the totals, so that opening need not count. No other operation may run meanwhile.
    fn close(&self) -> Result<(), IndexError> {
        self.store_totals()
    }
}
