//! How often transactions were committed, and why they were not.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crossbeam_utils::CachePadded;

use super::AbortCause;

/// Parts of the count of what was committed; every thread adds to one of its own, or nearly so.
const PARTS: usize = 32;
/// Stacks of two threads are further apart than this.
const STACK_SHIFT: u32 = 16;

/// The counts of one tree.
#[derive(Debug, Default)]
pub(super) struct Tally {
    committed: [CachePadded<AtomicU64>; PARTS],
    /// What follows is touched only where something went wrong.
    aborted: CachePadded<[AtomicU64; AbortCause::ALL.len()]>,
    fallbacks: AtomicU64,
}

impl Tally {
    /// Counts a transaction that was committed. Readers must not meet on a line for the sake of
    /// being counted: the part is chosen by where the stack is, the one thing that tells threads
    /// apart and costs nothing.
    #[inline(always)]
    pub fn committed(&self) {
        let here = 0u8;
        let stack = (&raw const here).addr() as u64 >> STACK_SHIFT;
        let part = stack.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - PARTS.ilog2());
        self.committed[part as usize].fetch_add(1, Relaxed);
    }

    /// Counts one that aborted, and returns how many did so earlier for the same reason.
    #[cold]
    pub fn aborted(&self, cause: AbortCause) -> u64 {
        self.aborted[cause as usize].fetch_add(1, Relaxed)
    }

    #[cold]
    pub fn fell_back(&self) {
        self.fallbacks.fetch_add(1, Relaxed);
    }

    pub fn counts(&self) -> TransactionCounts {
        TransactionCounts {
            committed: self.committed.iter().map(|part| part.load(Relaxed)).sum(),
            aborted: std::array::from_fn(|cause| self.aborted[cause].load(Relaxed)),
            fallbacks: self.fallbacks.load(Relaxed),
        }
    }
}

/// Transactions since a tree was opened; all 0 where there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TransactionCounts {
    /// Those that took effect.
    pub committed: u64,
    /// Those that did not, in the order of [`AbortCause::ALL`].
    pub aborted: [u64; AbortCause::ALL.len()],
    /// Operations that gave up trying and went the way without transactions.
    pub fallbacks: u64,
}

impl TransactionCounts {
    /// Those that aborted for this reason.
    pub fn aborted_by(&self, cause: AbortCause) -> u64 {
        self.aborted[cause as usize]
    }

    /// Those that aborted.
    pub fn aborts(&self) -> u64 {
        self.aborted.iter().sum()
    }

    /// All that were begun.
    pub fn begun(&self) -> u64 {
        self.committed + self.aborts()
    }

    /// What happened since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            committed: self.committed.saturating_sub(earlier.committed),
            aborted: std::array::from_fn(|cause| {
                self.aborted[cause].saturating_sub(earlier.aborted[cause])
            }),
            fallbacks: self.fallbacks.saturating_sub(earlier.fallbacks),
        }
    }
}
