//! What a store is made with.

use everleaf_pmem::Transactions;

use crate::core::attached::Terms;
use crate::durability::DurabilityContext;
use crate::{Clock, DurabilityMode};

/// Which identity a new pool gets.
#[derive(Clone, Copy)]
pub(crate) enum PoolIdentity {
    /// One of its own, if it has a file.
    New,
    /// This one, which its log bears too.
    As(u128),
}

/// The terms on which a store on this ground promises what the mode says.
pub(crate) fn terms(
    ground: DurabilityContext,
    mode: DurabilityMode,
    writable: bool,
    transactions: Transactions,
    clock: &Clock,
) -> Terms {
    let DurabilityContext { medium, log, .. } = ground;
    let durability = ground.survives(mode);
    Terms { writable, medium, log, durability, mode, transactions, clock: clock.clone() }
}
