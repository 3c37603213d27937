//! What keeps two threads from one line: odd while somebody has it.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A latch that is held.
pub(crate) struct Latch<'c> {
    stripe: &'c AtomicU64,
    /// Grows with each hold, by two: the order of captures of one line.
    pub(crate) count: u64,
}

impl<'c> Latch<'c> {
    /// That of this stripe, if nobody has it.
    #[inline]
    pub(crate) fn of(stripe: &'c AtomicU64) -> Option<Self> {
        let count = stripe.load(Relaxed);
        let free = count & 1 == 0
            && stripe.compare_exchange_weak(count, count | 1, Acquire, Relaxed).is_ok();
        free.then(|| Self { stripe, count }) // None is made in vain: dropping it stores.
    }
}

impl Drop for Latch<'_> {
    #[inline]
    fn drop(&mut self) {
        self.stripe.store(self.count + 2, Release);
    }
}
