//! What is done to an allocator.

use std::collections::BTreeMap;
use std::fmt;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Bytes of a node, and of a named root.
pub(super) const NODE_BYTES: u64 = 256;
pub(super) const ROOT_BYTES: u64 = NODE_BYTES;
/// Places of each kind.
pub(super) const SLOTS: usize = 8;

/// What is at a place, in bytes, or in chunks for a run. What is nowhere is not allocated.
pub type Content = BTreeMap<(Kind, usize), u64>;

/// Kinds of places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Record,
    Link,
    Node,
    Run,
    Root,
    Mark,
}

/// One operation, by one of two workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocatorOperation {
    /// 0 or 1.
    pub worker: usize,
    /// What it does.
    pub action: Action,
}

/// What an operation does; the first number is the place, the second the size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Allocates a record of so many bytes into a place that is empty.
    Record(usize, u64),
    /// Frees it.
    FreeRecord(usize),
    /// Allocates a node.
    Node(usize),
    /// Frees it.
    FreeNode(usize),
    /// Links a record of so many bytes in place of what is there.
    Link(usize, u64),
    /// Removes it.
    Unlink(usize),
    /// Begins to link a record of so many bytes; the index refuses.
    RefusedLink(u64),
    /// As `Link`, by an index that takes part in it: of less than a chunk.
    Doubt(usize, u64),
    /// Removes it so.
    DoubtOff(usize),
    /// As `RefusedLink`, of such an index.
    RefusedDoubt(u64),
    /// Writes a record of so many bytes for a batch that is given up.
    RefusedBatch(u64),
    /// Allocates a run of so many chunks.
    Run(usize, u64),
    /// Frees it.
    FreeRun(usize),
    /// Allocates a run of so many chunks, whose preparation fails.
    RefusedRun(u64),
    /// Makes the root of this number.
    Root(usize),
    /// Makes a mark.
    Mark,
    /// Takes it away.
    Unmark,
    /// A session whose stores stay in the caches of the processor (its medium is none that it can
    /// flush to), allocates a record of so many bytes, and ends without closing the pool.
    Unflushed(usize, u64),
    /// Opens the pool, which no session has open.
    Open,
    /// Closes and opens the pool.
    Reopen,
    /// Makes the pool: the first operation of all.
    Create,
}

impl AllocatorOperation {
    /// Whether another thread than that of its worker may do it: it begins and ends with nothing
    /// that is not fenced.
    pub(super) fn is_handed_over(&self) -> bool {
        matches!(
            self.action,
            Action::Doubt(..)
                | Action::DoubtOff(_)
                | Action::RefusedDoubt(_)
                | Action::RefusedBatch(_)
        )
    }

    pub(super) fn model(&self, content: &mut Content) {
        match self.action {
            Action::Record(slot, bytes) | Action::Unflushed(slot, bytes) => {
                _ = content.insert((Kind::Record, slot), bytes)
            }
            Action::Root(slot) => _ = content.insert((Kind::Root, slot), ROOT_BYTES),
            Action::Mark => _ = content.insert((Kind::Mark, 0), 0),
            Action::Unmark => _ = content.remove(&(Kind::Mark, 0)),
            Action::FreeRecord(slot) => _ = content.remove(&(Kind::Record, slot)),
            Action::Node(slot) => _ = content.insert((Kind::Node, slot), NODE_BYTES),
            Action::FreeNode(slot) => _ = content.remove(&(Kind::Node, slot)),
            Action::Link(slot, bytes) | Action::Doubt(slot, bytes) => {
                _ = content.insert((Kind::Link, slot), bytes)
            }
            Action::Unlink(slot) | Action::DoubtOff(slot) => {
                _ = content.remove(&(Kind::Link, slot))
            }
            Action::Run(slot, chunks) => _ = content.insert((Kind::Run, slot), chunks),
            Action::FreeRun(slot) => _ = content.remove(&(Kind::Run, slot)),
            Action::RefusedLink(_)
            | Action::RefusedDoubt(_)
            | Action::RefusedBatch(_)
            | Action::RefusedRun(_)
            | Action::Open
            | Action::Reopen
            | Action::Create => {}
        }
    }

    /// Operations that are possible one after the other.
    pub(super) fn random(count: usize, seed: u64) -> Vec<Self> {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut content = Content::new();
        (0..count)
            .map(|_| {
                let operation = Self {
                    worker: rng.random_range(0..2),
                    action: random_action(&mut rng, &content),
                };
                operation.model(&mut content);
                operation
            })
            .collect()
    }
}

fn random_action(rng: &mut StdRng, content: &Content) -> Action {
    const BYTES: [u64; 6] = [8, 40, 100, 100, 110, 250];
    let (slot, bytes) = (rng.random_range(0..SLOTS), BYTES[rng.random_range(0..BYTES.len())]);
    let there = |kind| content.contains_key(&(kind, slot));
    match rng.random_range(0..20) {
        0..5 if there(Kind::Record) => Action::FreeRecord(slot),
        0..5 => Action::Record(slot, bytes),
        5..7 if there(Kind::Link) && rng.random_ratio(1, 2) => Action::Unlink(slot),
        5..7 => Action::Link(slot, bytes),
        7..10 if there(Kind::Link) && rng.random_ratio(1, 2) => Action::DoubtOff(slot),
        7..10 => Action::Doubt(slot, bytes),
        10..13 if there(Kind::Node) => Action::FreeNode(slot),
        10..13 => Action::Node(slot),
        13..16 if there(Kind::Run) => Action::FreeRun(slot),
        13..16 => Action::Run(slot, bytes % 3 + 1),
        16 => Action::RefusedLink(bytes),
        17 => Action::RefusedRun(bytes % 5 + 1),
        18 => Action::Reopen,
        _ => Action::Doubt(slot, 100),
    }
}

impl fmt::Display for AllocatorOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker {}: {:?}", self.worker, self.action)
    }
}
