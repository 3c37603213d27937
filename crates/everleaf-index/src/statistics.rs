//! Sizes, shape, and the outcome of a check.

use std::fmt;

use everleaf_pmem::TransactionCounts;

/// Sizes and shape of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexStatistics {
    /// Number of keys.
    pub keys: u64,
    /// Levels, leaves included.
    pub height: u32,
    /// Leaves that hold keys.
    pub leaves: u64,
    /// Entries that a leaf has room for; 0 where that is not one number.
    pub leaf_slots: u64,
    /// Inner nodes.
    pub inner_nodes: u64,
    /// Bytes of persistent memory that the index takes from the pool, with the records of its keys.
    pub pm_bytes: u64,
    /// Bytes of its nodes there, without records of keys.
    pub node_bytes: u64,
    /// Bytes of DRAM.
    pub dram_bytes: u64,
    /// Where its inner nodes came from when it was opened.
    pub inner_from: InnerFrom,
    /// What keeps its threads apart.
    pub concurrency: Concurrency,
    /// How often threads met since the index was opened; all 0 for an engine with one lock.
    pub conflicts: Conflicts,
    /// The epochs that have ended since it was opened; all 0 for a strict engine.
    pub epochs: EpochStatistics,
    /// How nodes of which several words change together are written, by an engine that has several
    /// ways to do so: `line` at once, by a `log`, or as a `copy`.
    pub node_writes: Option<&'static str>,
}

/// Where inner nodes came from when an index was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum InnerFrom {
    /// They are in the pool.
    #[default]
    Pool,
    /// From the image that the close before has stored: no leaf was read.
    Image,
    /// From the leaves, because of this there was no image to be taken.
    Leaves(NoImage),
}

impl InnerFrom {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pool => "pool",
            Self::Image => "image",
            Self::Leaves(_) => "leaves",
        }
    }
}

impl fmt::Display for InnerFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pool => f.write_str("in the pool"),
            Self::Image => f.write_str("from the image"),
            Self::Leaves(why) => write!(f, "rebuilt from the leaves: {why}"),
        }
    }
}

/// Words of this program. (To serde, a reference would be one into what is read.)
type Words = &'static str;

/// Why there was no image of inner nodes to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum NoImage {
    /// The pool was not closed.
    #[error("the pool was not closed")]
    Crash,
    /// It was closed, and without an image: there was no room, or it is new, or an older release
    /// closed it.
    #[error("the pool was closed without an image")]
    None,
    /// What the pool holds is of another close.
    #[error("the image is of an earlier close")]
    Stale,
    /// It belongs to another pool, or to another kind of tree.
    #[error("the image is of {0}")]
    #[cfg_attr(feature = "serde", serde(deserialize_with = "word"))]
    Foreign(Words),
    /// It cannot be trusted.
    #[error("the image is damaged: {0}")]
    #[cfg_attr(feature = "serde", serde(deserialize_with = "word"))]
    Damaged(Words),
}

/// Words that another process has said. They stay in memory: a process reads them once, and they
/// are few.
#[cfg(feature = "serde")]
fn word<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Words, D::Error> {
    <String as serde::Deserialize>::deserialize(from).map(|word| &*word.leak())
}

/// The epochs of a buffered engine that have ended since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct EpochStatistics {
    /// How many.
    pub ended: u64,
    /// The longest time, in nanoseconds, that the end of one kept writers waiting.
    pub longest_stall_ns: u64,
    /// Nanoseconds of all ends together.
    pub stalled_ns: u64,
    /// Nodes that were copied to a log, by which a crash takes their changes back, in all epochs
    /// together and the one under way.
    pub nodes_logged: u64,
}

/// What keeps threads that share an index apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Concurrency {
    /// One lock around it all.
    #[default]
    OneLock,
    /// Optimistic locks with versions: readers look whether anything has changed.
    VersionLocks,
    /// Transactions of the processor, and locks of leaves.
    Rtm,
    /// The same with simulated transactions.
    SimulatedRtm,
}

impl Concurrency {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OneLock => "one-lock",
            Self::VersionLocks => "version-locks",
            Self::Rtm => "rtm",
            Self::SimulatedRtm => "simulated-rtm",
        }
    }
}

/// How often threads that share an index got in each other's way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Conflicts {
    /// Searches that began again because another thread changed what they had read.
    pub restarts: u64,
    /// Turns of a loop that waited for a lock.
    pub waits: u64,
    /// Changes that took the one lock that orders splits of inner nodes.
    pub structure_changes: u64,
    /// Transactions, and why they aborted.
    pub transactions: TransactionCounts,
}

impl Conflicts {
    /// What happened since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            restarts: self.restarts.saturating_sub(earlier.restarts),
            waits: self.waits.saturating_sub(earlier.waits),
            structure_changes: self.structure_changes.saturating_sub(earlier.structure_changes),
            transactions: self.transactions.since(&earlier.transactions),
        }
    }
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Keys that were counted.
    pub keys: u64,
    /// Each a sentence with the number of the invariant and the place.
    pub violations: Vec<String>,
}
