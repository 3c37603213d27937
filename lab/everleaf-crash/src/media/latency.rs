//! The latencies of slower memory, for measurements only.

use std::time::{Duration, Instant};

use everleaf_pmem::timestamp;

use super::CacheModel;

/// Nanoseconds that are added to each instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Added to each flush of a line.
    pub flush_ns: u64,
    /// Added to each fence.
    pub fence_ns: u64,
    /// Added to each read of a line that misses the modelled last-level cache.
    pub read_ns: u64,
}

/// A calibrated spin on the time-stamp counter.
pub(super) struct AddedLatency {
    flush_ticks: u64,
    fence_ticks: u64,
    read_ticks: u64,
    /// None where reads cost nothing.
    cache: Option<CacheModel>,
}

impl AddedLatency {
    /// Calibrates the time-stamp counter (10 ms).
    pub fn new(latencies: Latencies) -> Self {
        let per_ns = ticks_per_nanosecond();
        let ticks = |ns: u64| (ns as f64 * per_ns).round() as u64;
        Self {
            flush_ticks: ticks(latencies.flush_ns),
            fence_ticks: ticks(latencies.fence_ns),
            read_ticks: ticks(latencies.read_ns),
            cache: (latencies.read_ns > 0).then(CacheModel::default),
        }
    }

    /// Before the line at `offset` is read: a spin unless the modelled cache holds it.
    #[inline]
    pub fn before_load(&self, offset: u64) {
        if self.cache.as_ref().is_some_and(|cache| cache.misses(offset)) {
            spin(self.read_ticks);
        }
    }

    /// After a line was flushed, or written as a whole.
    #[inline]
    pub fn after_flush(&self) {
        spin(self.flush_ticks);
    }

    /// After a fence.
    #[inline]
    pub fn after_fence(&self) {
        spin(self.fence_ticks);
    }
}

fn ticks_per_nanosecond() -> f64 {
    let (start, ticks) = (Instant::now(), timestamp());
    while start.elapsed() < Duration::from_millis(10) {
        std::hint::spin_loop();
    }
    (timestamp() - ticks) as f64 / start.elapsed().as_nanos() as f64
}

#[inline]
fn spin(ticks: u64) {
    if ticks > 0 {
        let start = timestamp();
        while timestamp().wrapping_sub(start) < ticks {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_a_fence_and_a_miss_take_their_ticks() {
        let cache = Some(CacheModel::default());
        let added = AddedLatency { flush_ticks: 1000, fence_ticks: 2000, read_ticks: 3000, cache };
        let ticks = |operation: &dyn Fn()| {
            let start = timestamp();
            operation();
            timestamp() - start
        };
        assert!(ticks(&|| added.after_flush()) >= 1000);
        assert!(ticks(&|| added.after_fence()) >= 2000);
        assert!(ticks(&|| added.before_load(64)) >= 3000);
        assert!(added.cache.as_ref().is_some_and(|cache| !cache.misses(64)), "it holds it now");
    }
}
