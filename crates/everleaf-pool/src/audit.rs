//! The leak audit: every block of the pool is reachable exactly once, or free.

/// Collects the blocks that the owner of a structure reaches; [`Pool::finish_audit`](crate::Pool::finish_audit) compares them with
/// what the allocator says.
#[derive(Debug, Default)]
pub struct Audit {
    pub(crate) reached: Vec<u64>,
}

impl Audit {
    /// Nothing reached yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The structure reaches the block, record or run that starts at `offset`.
    pub fn reach(&mut self, offset: u64) {
        self.reached.push(offset);
    }
}

/// What an audit found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditReport {
    /// Blocks that are allocated and that nobody reaches.
    pub leaked_blocks: u64,
    /// Blocks reached twice, or reached and free, or damaged allocator words: each a sentence.
    pub violations: Vec<String>,
}
