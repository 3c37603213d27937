//! What is decided anew each time a tree is opened.

use everleaf_pmem::Transactions;
use everleaf_pool::Shutdown;

/// What is decided anew each time a tree is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// How the pool was left.
    pub shutdown: Shutdown,
    /// How many threads look at the leaves; none: as many as there are processors for that much
    /// work.
    pub threads: Option<usize>,
    /// Which transactions the concurrent tree uses. Without any it has its version locks.
    pub transactions: Transactions,
}

impl From<Shutdown> for Opening {
    /// Left so, and opened with as many threads as the machine suggests, and with version locks.
    fn from(shutdown: Shutdown) -> Self {
        Self { shutdown, threads: None, transactions: Transactions::Off }
    }
}
