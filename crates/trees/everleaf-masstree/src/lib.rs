//! Masstree: a trie of B+-trees, in DRAM or durable at the ends of epochs.
//!
//! After Mao, Kohler, Morris: "Cache Craftiness for Fast Multicore Key-Value Storage", EuroSys
//! 2012, and Cohen, Aksun, Avni, Larus: "Fine-Grain Checkpointing with In-Cache-Line Logging",
//! ASPLOS 2019. `masstree-transient` is the first one; the durable tree is the second, the same
//! code with undo.
//!
//! # The idea
//! A key is cut into slices of eight bytes, which compare as numbers. A *layer* is a B+-tree over
//! one slice: its border nodes hold keys that end in the slice, with their values, and for each
//! slice at most one entry that goes on: to a *record* with the rest of one key, or to the layer
//! for the next slice of several. So long keys with common beginnings cost a comparison of one word
//! at each node, and u64 keys are one layer of keys of one slice.
//!
//! A border node's entries stand in any slots; a *permutation*, one word, says which are live and
//! in which order. An insertion writes a free slot and then the permutation, a removal the
//! permutation alone. All lines of a node are asked for together when it is entered.
//!
//! # Many threads
//! * L1: every node has a version with a lock in it. Readers write nothing that is shared: they
//!   read a node between two looks at its version, and take the version of the next node before the
//!   second one (`search`).
//! * L2: a writer locks one border node. Locks of several nodes are taken from below upwards, and
//!   only when a change has all its locks and all its memory it marks nodes as *changing*: no
//!   thread that a reader waits for waits itself.
//! * L3: a version changes where words are changed that must be seen together, where a slot is
//!   taken that was an entry since, and where a buffer is replaced: not in most insertions,
//!   removals and updates of words.
//! * L4: a node, once freed, is free, and its memory soon another node or a record. Readers
//!   that still look at it load words, which are defined whatever they hold; the word of the
//!   version belongs to versions for ever and only grows, so they find that what they read does not
//!   count. Of a record this is told by the entry that led to it.
//! * L5: a scan locks the border node whose entries it shows, and nothing else.
//!
//! # The durable tree
//! Time is divided into epochs. After a crash the tree is what it was when the last epoch ended.
//! No operation flushes or fences for that, but where a node is copied to the external log. What
//! an epoch changed can be undone:
//! * A border node has an undo word for its permutation, in the line of the permutation, and one
//!   for a value in each of its two lines of values. They are written before the change, and stand
//!   in its line: so they are durable no later, without a flush (`undo`, U1 to U4).
//! * A node that changes more than that, and each inner node, is copied to the external log before
//!   its first such change in the epoch (`log`, X1, X2).
//! * Memory that is handed out in an epoch was free when it began, so what is written there needs
//!   no undo; the lists of what is free have undo words in their lines (`memory`, A1 to A3).
//! * An epoch ends when all lines that it changed are flushed, then by one store of its number
//!   (`epochs`, E0 to E3).
//! * Where a crash is found, the log is applied, and the epoch joins those that failed (F1 to F3).
//!   Everything else is undone when it is first looked at (`recover`, R1 to R3).
//!
//! What a thread reads or has written may be taken back by a crash until the epoch has ended;
//! `sync` ends one. Locks and versions mean nothing after a crash.
//!
//! # Invariants
//! * I1: keys of a node ascend strictly, and lie between the keys that lead to it.
//! * I2: border nodes of a layer are chained to the right in the order of their keys; every node is
//!   one of a layer, at most 64 levels below its root.
//! * I3: outside of operations no node is locked, changing or deleted, and version and meta word
//!   agree on its kind.
//! * I4: a permutation names every slot once; length codes are at most 9.
//! * I5: an entry with length code 9 leads to a record or to the root of a layer; where values
//!   stand in buffers, each value is the place of one.
//! * I6: nodes, records, buffers and free blocks fill the runs of the pool; no byte is in two of
//!   them.
//! * I7: the numbers of keys and of nodes are right.
//!
//! # Deviations from Masstree, and why
//! * **No pointers to the parent, and none to the left.** The parent is found by a descent when a
//!   node splits, what is to the left by a descent for the slice below a node's least one. So a
//!   split of an inner node changes none of its children, and a durable tree logs none of them.
//! * **The root of a layer keeps its place**, and all nodes have one size: the pointer to a layer
//!   never changes, and is never out of date.
//! * **An entry says in one word what it leads to**: bit 0 of the pointer tells a layer from a
//!   record. So a layer comes by one store, without a state in between.
//! * **A record holds value and rest of the key**: one miss for both, and nodes have no place for
//!   suffixes.
//! * **Memory is reclaimed by versions**: readers announce nothing, and no reader keeps an epoch
//!   from ending (L4).
//! * **Nodes go when they are empty**, and inner nodes when they have no child left; they are not
//!   merged before. (Masstree does the same with border nodes.)
//!
//! # Deviations from the durable Masstree, and why
//! Errors of its listings:
//! * The node's epoch is written last of the undo words and before the change, in listing 3 as in
//!   its text: a permutation that changes first has no undo.
//! * An undo entry of a value is filled whenever its line has none of this epoch. In listing 3 the
//!   second line of a node that was touched in the epoch never gets one.
//! * Recovery decides about the undo entries before it overwrites the node's epoch, of which they
//!   take their high bits; listing 4 has lost them by then.
//! * Recovery refreshes the undo word of the permutation, else a crash later in the same epoch
//!   would bring an old one back.
//! * Seven entries a line have numbers of 3 bits, and 7 is none; numbers to 13 and -1 do not fit
//!   the 4 signed bits of listing 2.
//! * Undo entries whose epoch has other high bits than the node's new one are cleared: by the log
//!   where the node changes, by flushes and a fence before the new epoch where it is recovered.
//!   Later they would be taken for entries of another epoch, which may have failed. For the same
//!   reason a node that was recovered so gets no new ones before its new epoch has ended.
//!
//! Chosen otherwise:
//! * An insertion needs the log only where its slot was live when the epoch began (the undo word of
//!   the permutation says so), not after any removal.
//! * Values have 64 bits. An undo entry holds 45, of any alignment: all offsets. Larger ones go to
//!   the log. The paper's values are buffers, at offsets: a pool may be made so (`value`), for
//!   comparisons, since a store's values are offsets of records anyway.
//! * An entry that becomes a layer is one word; its undo entry suffices.
//! * An entry of the log is whole if each of its six lines ends with the epoch: one fence, and
//!   nothing that says how long the log is.
//! * The lines that an epoch changed are noted and flushed one by one, instead of the whole cache
//!   (`wbinvd` is for the kernel). Writers go on, and wait only while the last few are (E0).
//! * The number of an epoch has 48 bits. Failed epochs stand in the index's page; when it is nearly
//!   full all nodes are recovered, and it begins anew.
//! * The header of a block is the first line of a node, with 16 bytes for the list and 8 for the
//!   epoch that its other undo words share; the compact form would save nothing there.
//!
//! # Map of the files
//! `layout` (every persistent byte; packed words) · `engine` (for the table of engines) · `node`
//! (versions, locks, searching one node) · `epochs` `gates` `undo` `log` (durability) · `memory`
//! (blocks) · `record` · `value` (buffers) · `search` `many` `scan` `insert` `layers` `split`
//! `update` `remove` (one operation each) · `recover` · `check` (I1 to I7) · `engine` (sizes on
//! offer) · `format` (for docs/format.md).
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod check;
pub mod engine;
mod epochs;
mod format;
mod gates;
mod insert;
mod layers;
mod layout;
mod log;
mod many;
mod memory;
mod node;
mod record;
mod recover;
mod remove;
mod scan;
mod search;
mod split;
#[cfg(test)]
mod tests;
mod undo;
mod update;
mod value;

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use everleaf_index::{
    CheckReport, Concurrency, Conflicts, Contract, Direction, EpochGuard, EpochPart, Index,
    IndexError, IndexStatistics, InnerFrom, Result, Start, Visitor,
};
use everleaf_pmem::Media;
use everleaf_pool::{Audit, Pool, Seal};

#[cfg(not(test))]
pub use engine::{LABORATORY, SHIPPED};
pub use engine::{
    MASSTREE, MASSTREE_LOGGING, MASSTREE_TRANSIENT, OFFER, TUNED, Variant, create, engines,
    laboratory, open, twins,
};
pub use format::layouts;

use engine::LOGS_ALL;
use epochs::Sizes;
use everleaf_tree::count::Count;
use everleaf_tree::key::slices::SliceKey;
use everleaf_tree::operations::{Restarts, ended, in_groups};
use everleaf_tree::parameters::Parameters;
use everleaf_tree::scan::ScanRequest;
use layout::{DURABLE_WIDTH, WIDTH};
use memory::Memory;
use node::{Halt, Step};

/// A Masstree that many threads share.
struct Masstree<K: SliceKey, M: Media, const DURABLE: bool> {
    pool: Arc<Pool<M>>,
    memory: Memory<M, DURABLE>,
    /// Whether the first change of a node in an epoch is undone by words of its own.
    logs_in_line: bool,
    /// Whether values stand in buffers.
    buffers: bool,
    /// Where the root of the first layer is.
    root: u64,
    /// Entries of a border node, and keys of an inner one, beyond which it is split.
    leaf_slots: usize,
    inner_keys: usize,
    keys: Count,
    border_nodes: AtomicU64,
    inner_nodes: AtomicU64,
    /// Border nodes that came in this run, those that went again too.
    made: AtomicU64,
    /// Operations that began again.
    restarts: Restarts,
    key_kind: PhantomData<fn() -> K>,
}

impl<K: SliceKey, M: Media, const DURABLE: bool> Masstree<K, M, DURABLE> {
    /// Entries that a border node has room for.
    const SLOTS: usize = if DURABLE { DURABLE_WIDTH } else { WIDTH };

    /// Over a pool that is fresh, or was left cleanly or by a crash. A transient tree is always
    /// made anew.
    fn open(
        pool: &Arc<Pool<M>>,
        parameters: Parameters,
        buffers: bool,
        crashed: bool,
    ) -> Result<Self> {
        let left = recover::take_over(pool, DURABLE && crashed)?;
        let is_nearly_full = left.is_nearly_full();
        let sizes = if DURABLE { left.sizes } else { Sizes::EMPTY };
        let (memory, root) = Memory::open(pool, left)?;
        let mut tree = Self {
            pool: Arc::clone(pool),
            memory,
            logs_in_line: pool.format().parameters[LOGS_ALL] == 0,
            buffers,
            root,
            leaf_slots: (parameters.leaf_slots as usize).min(Self::SLOTS),
            inner_keys: parameters.inner_keys as usize,
            keys: Count::new(sizes.keys),
            border_nodes: AtomicU64::new(sizes.border_nodes),
            inner_nodes: AtomicU64::new(sizes.inner_nodes),
            made: AtomicU64::new(0),
            restarts: Restarts::default(),
            key_kind: PhantomData,
        };
        if DURABLE && is_nearly_full {
            tree.recover_all()?;
            tree.end_epoch(tree.memory.epochs.current())?;
            tree.memory.epochs.forget()?;
        }
        Ok(tree)
    }

    /// Ends an epoch, unless another thread has.
    fn end_epoch(&self, epoch: u64) -> Result<()> {
        if DURABLE { self.memory.end_epoch(epoch, &|| self.sizes()) } else { Ok(()) }
    }

    /// What there is; exact while no thread changes anything.
    fn sizes(&self) -> Sizes {
        let [border_nodes, inner_nodes] =
            [&self.border_nodes, &self.inner_nodes].map(|count| count.load(Ordering::Relaxed));
        Sizes { keys: self.keys.get(), border_nodes, inner_nodes }
    }

    /// Nodes came, or went.
    fn count_nodes(&self, border_nodes: i64, inner_nodes: i64) {
        self.border_nodes.fetch_add(border_nodes as u64, Ordering::Relaxed);
        if border_nodes > 0 {
            // The root that is split gives way to two, and stays.
            self.made.fetch_add(2 * border_nodes as u64, Ordering::Relaxed);
        }
        self.inner_nodes.fetch_add(inner_nodes as u64, Ordering::Relaxed);
    }

    /// Does an operation that changes something, again and again until no other thread is in its
    /// way. An attempt is of one epoch; none ends while a thread waits for a lock for long.
    /// Where the pool is full, what was freed in this epoch may be enough: it is ended once.
    #[inline(always)]
    fn patiently<T>(&self, mut attempt: impl FnMut() -> Step<T>) -> Result<T> {
        let mut relieved = false;
        loop {
            let pin = DURABLE.then(|| self.memory.epochs.gates.pin());
            match attempt() {
                Ok(done) => return Ok(done),
                Err(Halt::Retry) => {
                    drop(pin);
                    self.restarted();
                }
                Err(Halt::Failed(error)) => {
                    let is_full = matches!(&error, IndexError::Pool(error) if error.is_full());
                    if !DURABLE || relieved || !is_full || self.memory.epochs.gates.is_guarded() {
                        return Err(error);
                    }
                    relieved = true;
                    let epoch = self.memory.epochs.current();
                    drop(pin);
                    self.end_epoch(epoch)?;
                }
            }
        }
    }

    /// Counts an operation that begins again.
    fn restarted(&self) {
        self.restarts.again(self.pool.media());
    }
}

impl<K: SliceKey, M: Media, const DURABLE: bool> Index<K> for Masstree<K, M, DURABLE> {
    fn contract(&self) -> Contract {
        // Of the transient tree nothing survives: there is nothing to wait for.
        if DURABLE { Contract::Buffered } else { Contract::Strict }
    }

    fn pin(&self, changes: usize) -> Result<EpochGuard<'_>> {
        if !DURABLE {
            return Ok(EpochGuard::none());
        }
        let guard = self.memory.epochs.guard(changes)?;
        if changes > 1 {
            self.memory.reserve_log(changes)?;
        }
        Ok(guard)
    }

    fn join_epochs(&mut self, part: Arc<dyn EpochPart>) {
        self.memory.part = Some(part);
    }

    /// Ends the epoch. Callers that come meanwhile wait for one end together.
    fn sync(&self) -> Result<()> {
        self.end_epoch(self.memory.epochs.current())
    }

    fn close(&self) -> Result<Option<Seal>> {
        self.sync().map(|()| None)
    }

    #[inline]
    fn get(&self, key: K::Ref<'_>) -> Result<Option<u64>> {
        ended(self.find(key), self.pool.media())
    }

    fn get_many(&self, keys: &[K::Ref<'_>], values: &mut [Option<u64>]) -> Result<()> {
        in_groups(self.pool.media(), keys, values, |keys, values| self.find_group(keys, values))
    }

    #[inline]
    fn insert(&self, key: K::Ref<'_>, value: u64) -> Result<bool> {
        ended(Masstree::insert(self, key, value, false), self.pool.media())
            .map(|found| found.is_none())
    }

    #[inline]
    fn update(&self, key: K::Ref<'_>, value: u64) -> Result<Option<u64>> {
        ended(Masstree::update(self, key, value), self.pool.media())
    }

    #[inline]
    fn upsert(&self, key: K::Ref<'_>, value: u64) -> Result<Option<u64>> {
        ended(Masstree::insert(self, key, value, true), self.pool.media())
    }

    #[inline]
    fn remove(&self, key: K::Ref<'_>) -> Result<Option<u64>> {
        ended(Masstree::remove(self, key), self.pool.media())
    }

    fn scan(&self, from: Start<'_, K>, direction: Direction, visit: Visitor<'_, K>) -> Result<()> {
        ended(self.scan_from(ScanRequest { from, direction, visit }), self.pool.media())
    }

    fn len(&self) -> u64 {
        self.keys.get()
    }

    fn statistics(&self) -> IndexStatistics {
        let Sizes { keys, border_nodes, inner_nodes } = self.sizes();
        IndexStatistics {
            inner_from: InnerFrom::Pool,
            keys,
            height: self.height().unwrap_or(0),
            leaves: if keys == 0 { 0 } else { border_nodes },
            inner_nodes,
            leaf_slots: self.leaf_slots as u64,
            pm_bytes: self.memory.bytes(),
            node_bytes: self.memory.bytes(),
            dram_bytes: self.memory.dram_bytes() + size_of::<Self>() as u64,
            conflicts: Conflicts {
                restarts: self.restarts.get(),
                waits: self.memory.epochs.gates.waits(),
                ..Conflicts::default()
            },
            concurrency: Concurrency::VersionLocks,
            epochs: self.memory.statistics(),
            ..IndexStatistics::default()
        }
    }

    /// No other operation may run meanwhile.
    fn check(&self, audit: &mut Audit) -> Result<CheckReport> {
        self.check_all(audit)
    }
}
