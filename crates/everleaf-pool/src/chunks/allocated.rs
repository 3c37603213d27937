//! How many bytes of blocks are allocated, so that telling it reads no table.
//!
//! A worker counts what it marks in a word of its own, which no other thread writes: that costs an
//! allocation a store to a line that it has in its cache. To tell the sum is to read as many words
//! as there may be workers. What a worker frees another one may have allocated, so only the sum
//! means something. A block counts while its bit is set, in extents that were scanned: the scan of
//! an extent counts what it finds, before anybody changes a bit there.

use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

use crate::layout::WORKER_SLOTS;

/// Bytes of allocated blocks, as each worker has changed them.
pub(super) struct Allocated([CachePadded<AtomicU64>; WORKER_SLOTS]);

impl Allocated {
    pub fn new() -> Self {
        Self([const { CachePadded::new(AtomicU64::new(0)) }; WORKER_SLOTS])
    }

    /// A block is allocated, or no longer is. The caller has this slot.
    #[inline]
    pub fn change(&self, slot: usize, bytes: u64, allocated: bool) {
        let (word, by) = (&self.0[slot], if allocated { bytes } else { bytes.wrapping_neg() });
        word.store(word.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
    }

    /// Of all blocks.
    pub fn bytes(&self) -> u64 {
        let sum = |sum: u64, word: &CachePadded<AtomicU64>| {
            sum.wrapping_add(word.load(Ordering::Relaxed))
        };
        self.0.iter().fold(0, sum)
    }
}
