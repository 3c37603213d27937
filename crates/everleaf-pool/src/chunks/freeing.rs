//! Blocks that are being freed: their bit is clear, and an intent still speaks of them.
//!
//! Recovery sets or clears the bit of a block that an intent speaks of, whoever has it by then. So a block must not be anybody's between the moment
//! its bit is cleared and the moment the intent is durably retired. What is between the two stands here, one block a worker, in DRAM: after a
//! crash no worker is in between.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::layout::{CHUNK, WORKER_SLOTS};

/// The offset of the block that each worker is freeing, or 0.
pub(super) struct Freeing([AtomicU64; WORKER_SLOTS]);

impl Freeing {
    pub fn new() -> Self {
        Self([const { AtomicU64::new(0) }; WORKER_SLOTS])
    }

    /// The worker is about to clear the bit of the block at `offset`. Whoever sees the cleared bit (a Release store, loaded with Acquire) sees
    /// this as well.
    pub fn begin(&self, slot: usize, offset: u64) {
        self.0[slot].store(offset, Ordering::Relaxed);
    }

    /// The intent is durably retired. Under the lock of the free chunks, so that a chunk which became empty is given back once.
    pub fn end(&self, slot: usize) {
        self.0[slot].store(0, Ordering::Release);
    }

    /// Whether the block at `offset` is being freed.
    pub fn has(&self, offset: u64) -> bool {
        self.0.iter().any(|freed| freed.load(Ordering::Acquire) == offset)
    }

    /// Whether a block of `chunk` is being freed.
    pub fn has_in(&self, chunk: u64) -> bool {
        self.0.iter().any(|freed| freed.load(Ordering::Acquire) / CHUNK == chunk)
    }
}
