//! Hardware with the latencies of slower memory, for measurements only.

use std::time::{Duration, Instant};

use crate::{CacheModel, Hardware, Hook, Instrumented, Site, instructions};

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

/// [`Hardware`] with added latencies: a calibrated spin on the time-stamp counter after each flush
/// and fence, and before each read of a line that a [`CacheModel`] does not hold.
pub type Emulated = Instrumented<AddedLatency>;

/// The hook of [`Emulated`].
pub struct AddedLatency {
    flush_ticks: u64,
    fence_ticks: u64,
    read_ticks: u64,
    /// None where reads cost nothing.
    cache: Option<CacheModel>,
}

impl Emulated {
    /// Calibrates the time-stamp counter (10 ms) and adds `latencies` to `hardware`.
    pub fn new(hardware: Hardware, latencies: Latencies) -> Self {
        let per_ns = ticks_per_nanosecond();
        let ticks = |ns: u64| (ns as f64 * per_ns).round() as u64;
        let added = AddedLatency {
            flush_ticks: ticks(latencies.flush_ns),
            fence_ticks: ticks(latencies.fence_ns),
            read_ticks: ticks(latencies.read_ns),
            cache: (latencies.read_ns > 0).then(CacheModel::default),
        };
        Self::with_hook(hardware, added)
    }
}

impl Hook for AddedLatency {
    #[inline]
    fn before_load(&self, offset: u64) {
        if self.cache.as_ref().is_some_and(|cache| cache.misses(offset)) {
            spin(self.read_ticks);
        }
    }
    #[inline]
    fn after_flush(&self, _site: Site, _offset: u64) {
        spin(self.flush_ticks);
    }
    #[inline]
    fn after_fence(&self, _site: Site) {
        spin(self.fence_ticks);
    }
    #[inline]
    fn after_line_write(&self, _offset: u64) {
        spin(self.flush_ticks);
    }
}

fn ticks_per_nanosecond() -> f64 {
    let (start, ticks) = (Instant::now(), instructions::timestamp());
    while start.elapsed() < Duration::from_millis(10) {
        std::hint::spin_loop();
    }
    (instructions::timestamp() - ticks) as f64 / start.elapsed().as_nanos() as f64
}

#[inline]
fn spin(ticks: u64) {
    if ticks > 0 {
        let start = instructions::timestamp();
        while instructions::timestamp().wrapping_sub(start) < ticks {
            std::hint::spin_loop();
        }
    }
}
