//! Masstree: a trie of B+-trees, in DRAM.
//!
//! After Mao, Kohler, Morris: "Cache Craftiness for Fast Multicore Key-Value Storage", EuroSys
//! 2012, as the basis of Cohen, Aksun, Avni, Larus: "Fine-Grain Checkpointing with In-Cache-Line
//! Logging", ASPLOS 2019, whose durable tree has the same nodes.
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
//! * L3: a version changes where words are changed that must be seen together, and where a slot is
//!   taken that was an entry since: not in most insertions, removals and updates.
//! * L4: a node, once freed, is free at once, and its memory soon another node or a record. Readers
//!   that still look at it load words, which are defined whatever they hold; the word of the
//!   version belongs to versions for ever and only grows, so they find that what they read does not
//!   count. Of a record this is told by the entry that led to it.
//! * L5: a scan locks the border node whose entries it shows, and nothing else.
//!
//! # Invariants
//! * I1: keys of a node ascend strictly, and lie between the keys that lead to it.
//! * I2: border nodes of a layer are chained to the right in the order of their keys; every node is
//!   one of a layer, at most 64 levels below its root.
//! * I3: outside of operations no node is locked, changing or deleted, and version and meta word
//!   agree on its kind.
//! * I4: a permutation names every slot once; length codes are at most 9.
//! * I5: an entry with length code 9 leads to a record or to the root of a layer.
//! * I6: nodes, records and free blocks fill the runs of the pool; no byte is in two of them.
//! * I7: the number of keys is right.
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
//! * **Memory is reclaimed by versions** instead of epochs: readers announce nothing (L4).
//! * **Nodes go when they are empty**, and inner nodes when they have no child left; they are not
//!   merged before. (Masstree does the same with border nodes.)
//!
//! # Map of the files
//! `layout` (every persistent byte; packed words) · `engine` (for the table of engines) · `node`
//! (versions, locks, searching one node) · `memory` (blocks) · `record` · `search` `many` `scan`
//! `insert` `layers` `split` `update` `remove` (one operation each) · `check` (I1 to I7) ·
//! `parameters`.

mod check;
pub(crate) mod engine;
mod insert;
mod layers;
mod layout;
mod many;
mod memory;
mod node;
mod parameters;
mod record;
mod remove;
mod scan;
mod search;
mod split;
#[cfg(test)]
mod tests;
mod update;

use std::marker::PhantomData;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use everleaf_index::{
    CheckReport, Concurrency, Conflicts, Contract, Direction, Index, IndexError, IndexStatistics,
    Visit,
};
use everleaf_pmem::{Media, Site, declared_sites};
use everleaf_pool::{Audit, Pool};

pub use engine::Variant;
pub use parameters::{Parameters, create};

use crate::support::count::Count;
use crate::support::key::slices::SliceKey;
use layout::{DURABLE_WIDTH, WIDTH};
use memory::Memory;
use node::{Halt, Step};

/// Every barrier of the index.
pub const SITES: &[Site] = declared_sites!["memory.rs"];

/// A Masstree that many threads share.
struct Masstree<K: SliceKey, M: Media, const DURABLE: bool> {
    pool: Arc<Pool<M>>,
    memory: Memory<M>,
    /// Where the root of the first layer is.
    root: u64,
    /// Entries of a border node, and keys of an inner one, beyond which it is split.
    leaf_slots: usize,
    inner_keys: usize,
    keys: Count,
    /// Operations that began again.
    restarts: CachePadded<AtomicU64>,
    key_kind: PhantomData<fn() -> K>,
}

impl<K: SliceKey, M: Media, const DURABLE: bool> Masstree<K, M, DURABLE> {
    /// Entries that a border node has room for.
    const SLOTS: usize = if DURABLE { DURABLE_WIDTH } else { WIDTH };

    fn create(pool: &Arc<Pool<M>>, parameters: Parameters) -> Result<Self, IndexError> {
        let (memory, root) = Memory::create(pool)?;
        Ok(Self {
            pool: Arc::clone(pool),
            memory,
            root,
            leaf_slots: (parameters.leaf_slots as usize).min(Self::SLOTS),
            inner_keys: parameters.inner_keys as usize,
            keys: Count::new(0),
            restarts: CachePadded::default(),
            key_kind: PhantomData,
        })
    }

    fn expect_one_word(words: usize) -> Result<(), IndexError> {
        if words == 1 { Ok(()) } else { Err(IndexError::ValueWords { words, expected: 1 }) }
    }

    /// Does an operation, again and again until no other thread is in its way.
    #[inline(always)]
    fn patiently<T>(&self, mut attempt: impl FnMut() -> Step<T>) -> Result<T, IndexError> {
        loop {
            match attempt() {
                Ok(done) => return Ok(done),
                Err(Halt::Retry) => self.restarted(),
                Err(Halt::Failed(error)) => return Err(error),
            }
        }
    }

    /// Counts an operation that begins again.
    #[cold]
    fn restarted(&self) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
        self.pool.media().relax();
    }

    /// Ends an operation.
    #[inline(always)]
    fn ended<T>(&self, result: T) -> T {
        self.pool.media().end_operation();
        result
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

impl<K: SliceKey, M: Media, const DURABLE: bool> Index<K> for Masstree<K, M, DURABLE> {
    fn contract(&self) -> Contract {
        // Nothing of it survives: there is nothing to wait for.
        Contract::Strict
    }

    fn value_words(&self) -> usize {
        1
    }

    #[inline]
    fn get_words(&self, key: K::Ref<'_>, value: &mut [u64]) -> Result<bool, IndexError> {
        Self::expect_one_word(value.len())?;
        self.ended(self.find(key)).map(|found| hand_over(found, value))
    }

    fn get_many(&self, keys: &[K::Ref<'_>], values: &mut [Option<u64>]) -> Result<(), IndexError> {
        self.find_many(keys, values)
    }

    #[inline]
    fn insert_words(&self, key: K::Ref<'_>, value: &[u64]) -> Result<bool, IndexError> {
        Self::expect_one_word(value.len())?;
        self.ended(self.insert(key, value[0], false)).map(|found| found.is_none())
    }

    #[inline]
    fn update_words(
        &self,
        key: K::Ref<'_>,
        value: &[u64],
        old: &mut [u64],
    ) -> Result<bool, IndexError> {
        Self::expect_one_word(value.len())?;
        Self::expect_one_word(old.len())?;
        self.ended(self.update(key, value[0])).map(|found| hand_over(found, old))
    }

    #[inline]
    fn upsert_words(
        &self,
        key: K::Ref<'_>,
        value: &[u64],
        old: &mut [u64],
    ) -> Result<bool, IndexError> {
        Self::expect_one_word(value.len())?;
        Self::expect_one_word(old.len())?;
        self.ended(self.insert(key, value[0], true)).map(|found| hand_over(found, old))
    }

    #[inline]
    fn remove_words(&self, key: K::Ref<'_>, old: &mut [u64]) -> Result<bool, IndexError> {
        Self::expect_one_word(old.len())?;
        self.ended(self.remove(key)).map(|found| hand_over(found, old))
    }

    fn scan(
        &self,
        from: Bound<K::Ref<'_>>,
        direction: Direction,
        visit: &mut Visit<'_, K>,
    ) -> Result<(), IndexError> {
        self.ended(self.scan_from(from, direction, visit))
    }

    fn len(&self) -> u64 {
        self.keys.get()
    }

    fn statistics(&self) -> IndexStatistics {
        IndexStatistics {
            keys: self.keys.get(),
            leaf_slots: self.leaf_slots as u64,
            pm_bytes: self.memory.bytes(),
            dram_bytes: self.memory.dram_bytes() + size_of::<Self>() as u64,
            conflicts: Conflicts {
                restarts: self.restarts.load(Ordering::Relaxed),
                ..Conflicts::default()
            },
            concurrency: Concurrency::VersionLocks,
            ..IndexStatistics::default()
        }
    }

    /// No other operation may run meanwhile.
    fn check(&self, audit: &mut Audit) -> Result<CheckReport, IndexError> {
        self.check_all(audit)
    }
}
