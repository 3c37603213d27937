//! When keys were used last, and the limit beyond which they are evicted by it.
//!
//! When a key was used stands in DRAM alone, in one of some million words that keys share by their
//! hash: reading writes nothing to the pool, and after a start all keys count as old.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::time::Instant;

use everleaf::OwnedKey;

use super::rows::hash;
use crate::counters::Counter;
use crate::random::Random;

/// Words of the times of use: 8 MiB.
const WORDS: usize = 1 << 22;

/// What is evicted, and why.
#[derive(Default)]
pub struct Eviction {
    /// Set where there is any.
    used: OnceLock<Used>,
    /// Bytes of the pool beyond which keys go.
    limit: AtomicU64,
    /// Keys that were evicted.
    pub evicted: Counter,
    random: Random,
}

/// When keys were used last.
struct Used {
    began: Instant,
    /// Seconds since then and one more; 0: not since then.
    seconds: Box<[AtomicU16]>,
}

impl Used {
    fn now(&self) -> u16 {
        // Around it goes after 18 hours, when what was not used since looks new: it is about right.
        (self.began.elapsed().as_secs() % u64::from(u16::MAX)) as u16 + 1
    }

    fn word(&self, row: &[u8]) -> &AtomicU16 {
        &self.seconds[hash(row) % WORDS]
    }

    fn age(&self, row: &[u8]) -> u16 {
        match self.word(row).load(Ordering::Relaxed) {
            0 => u16::MAX,
            then => self.now().wrapping_sub(then),
        }
    }
}

impl Eviction {
    /// From now on keys are evicted where the pool has more than `bytes`, or is full.
    pub fn begin(&self, bytes: u64) {
        let words = || (0..WORDS).map(|_| AtomicU16::new(0)).collect();
        self.used.get_or_init(|| Used { began: Instant::now(), seconds: words() });
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// Bytes of the pool beyond which keys are evicted, if they are.
    pub fn limit(&self) -> Option<u64> {
        self.used.get().map(|_| self.limit.load(Ordering::Relaxed))
    }

    /// A key is used.
    pub fn touch(&self, row: &[u8]) {
        if let Some(used) = self.used.get() {
            let (word, now) = (used.word(row), used.now());
            if word.load(Ordering::Relaxed) != now {
                word.store(now, Ordering::Relaxed);
            }
        }
    }

    /// A number below a limit.
    pub fn below(&self, limit: u64) -> u64 {
        self.random.below(limit)
    }

    /// How many seconds ago a row was used.
    pub fn age(&self, row: &[u8]) -> u16 {
        self.used.get().map_or(0, |used| used.age(row))
    }

    /// The same of rows, on average.
    pub fn mean_age(&self, rows: &[OwnedKey]) -> u64 {
        let age = |row: &OwnedKey| match row {
            OwnedKey::Bytes(row) => u64::from(self.age(row)),
            OwnedKey::U64(_) => 0,
        };
        rows.iter().map(age).sum::<u64>() / rows.len().max(1) as u64
    }
}
