//! A model of a last-level cache, which tells the reads that would have gone to memory.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use everleaf_pmem::LINE;

/// Bytes of the modelled cache: that of the emulation platforms of the papers (20 MB), rounded.
const CACHE_BYTES: usize = 16 << 20;

/// A direct-mapped cache of 16 MiB that reads and exchanges ask and stores do not. Places are
/// those of offsets, so where a region is mapped makes no difference.
///
/// ```
/// let cache = everleaf_crash::CacheModel::default();
/// let far = 64 + everleaf_crash::CacheModel::BYTES;
/// assert!(cache.misses(64) && !cache.misses(64 + 56), "one line");
/// assert!(cache.misses(far) && cache.misses(64), "they share a place");
/// ```
#[derive(Debug)]
pub struct CacheModel {
    /// The line that each place holds, plus 1: 0 is none.
    lines: Box<[AtomicU64]>,
}

impl Default for CacheModel {
    fn default() -> Self {
        Self { lines: (0..CACHE_BYTES / LINE).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl CacheModel {
    /// Bytes that it holds.
    pub const BYTES: u64 = CACHE_BYTES as u64;

    /// Whether the cache does not hold the line at `offset`. It does afterwards.
    #[inline]
    pub fn misses(&self, offset: u64) -> bool {
        let line = offset / LINE as u64 + 1;
        let place = &self.lines[line as usize % (CACHE_BYTES / LINE)];
        let misses = place.load(Relaxed) != line;
        if misses {
            place.store(line, Relaxed);
        }
        misses
    }
}
