//! Numbers at random.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// Draws numbers that no client can foretell, for several threads.
#[derive(Debug)]
pub struct Random(AtomicU64);

impl Default for Random {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0).into())
    }
}

impl Random {
    /// Draws the same numbers each time.
    #[cfg(test)]
    pub fn of(seed: u64) -> Self {
        Self(seed.into())
    }

    /// A number below `limit`; 0 if there is none.
    pub fn below(&self, limit: u64) -> u64 {
        // Steps of the golden ratio, mixed (splitmix64).
        let mut bits = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % limit.max(1)
    }
}
