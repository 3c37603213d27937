//! Sizes, shape, and the outcome of a check.

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
    /// Bytes of persistent memory that the index takes from the pool.
    pub pm_bytes: u64,
    /// Bytes of DRAM.
    pub dram_bytes: u64,
    /// How often threads met since the index was opened; all 0 for an engine with one lock.
    pub conflicts: Conflicts,
}

/// How often threads that share an index got in each other's way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conflicts {
    /// Searches that began again because another thread changed what they had read.
    pub restarts: u64,
    /// Turns of a loop that waited for a lock.
    pub waits: u64,
    /// Changes that took the one lock that orders splits of inner nodes.
    pub structure_changes: u64,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Keys that were counted.
    pub keys: u64,
    /// Each a sentence with the number of the invariant and the place.
    pub violations: Vec<String>,
}
