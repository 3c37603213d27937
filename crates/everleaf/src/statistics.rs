//! What a store tells about itself.

pub use everleaf_index::{Concurrency, Conflicts, EpochStatistics, InnerFrom, NoImage};
pub use everleaf_pmem::{DaxHint, FlushInstruction, LogCounts, TransactionCounts};

use everleaf_index::Contract;
use everleaf_pmem::{Durability, Medium};
use everleaf_pool::{KeyType, Shutdown};

use crate::{DurabilityMode, Engine};

/// Sizes and states of a store at a moment.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "control", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Statistics {
    /// The engine.
    pub engine: Engine,
    /// The kind of keys.
    pub key_type: KeyType,
    /// Entries of the index: the keys of all trees, those whose values have expired and that are
    /// not removed yet, and the names of the trees. See [`View::len`](crate::View::len) and
    /// [`Store::len_of_all_trees`](crate::Store::len_of_all_trees) for what is there.
    pub entries: u64,
    /// Levels of the tree, leaves included.
    pub height: u32,
    /// Leaves that hold keys.
    pub leaves: u64,
    /// Inner nodes.
    pub inner_nodes: u64,
    /// Entries of a leaf that are used, on average: 0 to 1. None where the engine cannot tell.
    pub fill: Option<f64>,
    /// Bytes of persistent memory that the index takes from the pool; with byte-string keys, whose
    /// records share chunks with values, all that is used.
    pub pm_bytes: u64,
    /// Bytes of persistent memory that the nodes of the index take: no records of keys or values.
    pub node_bytes: u64,
    /// Bytes of DRAM that the index takes.
    pub dram_bytes: u64,
    /// Bytes of the pool in use: index, values, and the pool's own tables.
    pub used_bytes: u64,
    /// Bytes that can be allocated without growing the pool.
    pub free_bytes: u64,
    /// Those of them that are held back, so that a full pool does not refuse what makes room.
    pub reserve_bytes: u64,
    /// How much of the free bytes lies between blocks that are in use, and so serves values of like
    /// sizes only: 0 to 1.
    pub fragmentation: f64,
    /// Bytes of the pool now.
    pub total_bytes: u64,
    /// Bytes that the pool can grow to.
    pub max_bytes: u64,
    /// The strongest failure that acknowledged writes survive.
    pub durability: Durability,
    /// When an acknowledged write is durable.
    pub durability_mode: DurabilityMode,
    /// What the memory is.
    pub medium: Medium,
    /// Whether a log beside the pool makes writes durable, on an ordinary file.
    pub log: bool,
    /// What that log has done since the pool was opened.
    pub log_counts: Option<LogCounts>,
    /// The instruction that flushes lines; none where none is needed.
    pub flush: FlushInstruction,
    /// Whether the processor's caches are inside the persistence domain of the pool's device
    /// (eADR), as the kernel tells.
    pub caches_persist: bool,
    /// What could be done to have persistent memory here, where the pool's device offers it.
    pub dax_hint: Option<DaxHint>,
    /// How the pool had been left when it was opened. A pool that was just created counts as clean.
    pub shutdown: Shutdown,
    /// Where the inner nodes came from when it was opened.
    pub inner_from: InnerFrom,
    /// Milliseconds that opening took, recovery included.
    pub recovery_ms: f64,
    /// Writes that a crash had cut and that opening completed or undid.
    pub recovered_writes: u64,
    /// What keeps threads apart.
    pub concurrency: Concurrency,
    /// How often threads met since it was opened.
    pub conflicts: Conflicts,
    /// The epochs that have ended since it was opened; all 0 for an engine without any.
    pub epochs: EpochStatistics,
    /// How nodes of which several words change together are written, by an engine that has several
    /// ways to do so: `line` at once, by a `log`, or as a `copy`.
    #[cfg_attr(feature = "control", serde(deserialize_with = "node_writes"))]
    pub node_writes: NodeWrites,
}

/// (To serde, a reference would be one into what is read.)
type NodeWrites = Option<&'static str>;

/// One of the words that [`Statistics::node_writes`] may be, as another process has said it.
#[cfg(feature = "control")]
fn node_writes<'de, D: serde::Deserializer<'de>>(from: D) -> Result<NodeWrites, D::Error> {
    let said = <Option<String> as serde::Deserialize>::deserialize(from)?;
    Ok(said.and_then(|said| ["line", "log", "copy"].into_iter().find(|word| *word == said)))
}

/// What a store can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "control", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Capabilities {
    /// The strongest failure that acknowledged writes survive.
    pub durability: Durability,
    /// When an acknowledged write is durable.
    pub durability_mode: DurabilityMode,
    /// What the engine promises of a call that has returned, on a medium that keeps it.
    pub contract: Contract,
    /// Whether several threads write at the same time; else writers wait for each other.
    pub concurrent_writers: bool,
    /// Whether it can be written to.
    pub writable: bool,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "control", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct CheckOutcome {
    /// Whether nothing is wrong: no violation and no leak.
    pub ok: bool,
    /// Keys of all trees whose values have not expired.
    pub keys: u64,
    /// What is wrong, each a sentence.
    pub violations: Vec<String>,
    /// Blocks that are allocated and that nothing leads to.
    pub leaked_blocks: u64,
}
