//! Memory that all connections share: budgets, and what is taken of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Memory that all connections share.
#[derive(Debug)]
pub struct MemoryBudget {
    limit: u64,
    taken: AtomicU64,
    /// Tells who waits that there is room again: below the limit, and below half of it.
    freed: Notify,
}

impl MemoryBudget {
    /// Nothing of it is taken.
    pub fn of(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit, taken: AtomicU64::new(0), freed: Notify::new() })
    }

    /// Bytes that are taken.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Whether no more than the limit is taken.
    pub(crate) fn has_room(&self) -> bool {
        self.taken() <= self.limit
    }

    /// Whether no more than half of the limit is taken.
    pub(crate) fn has_half(&self) -> bool {
        self.taken() <= self.limit / 2
    }

    /// Returns when one of these has become true that was not when this was called.
    pub(crate) fn freed(&self) -> Notified<'_> {
        self.freed.notified()
    }

    fn give_back(&self, bytes: u64) {
        let before = self.taken.fetch_sub(bytes, Ordering::Relaxed);
        let is_crossed = |limit| before > limit && before - bytes <= limit;
        if is_crossed(self.limit) || is_crossed(self.limit / 2) {
            self.freed.notify_waiters();
        }
    }

    /// Bytes that are not taken.
    pub fn left(&self) -> u64 {
        self.limit.saturating_sub(self.taken.load(Ordering::Relaxed))
    }

    /// A reservation of no bytes.
    pub fn reserve(self: &Arc<Self>) -> Reservation {
        Reservation { budget: Arc::clone(self), bytes: 0 }
    }
}

/// Memory that is taken of a budget; it is given back when this is dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: Arc<MemoryBudget>,
    bytes: u64,
}

impl Reservation {
    /// Takes so much instead of what it took before; false if the budget has not as much more.
    #[must_use]
    pub fn set(&mut self, bytes: u64) -> bool {
        let before = std::mem::replace(&mut self.bytes, bytes);
        if bytes == before {
            return true;
        }
        if bytes < before {
            self.budget.give_back(before - bytes);
            return true;
        }
        let grown = bytes - before;
        let taken = self.budget.taken.fetch_add(grown, Ordering::Relaxed);
        taken.saturating_add(grown) <= self.budget.limit
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}
