//! Blocks that are being freed: their bit is clear, and an intent still names them.
//!
//! Recovery sets or clears the bit of a block that an intent names, whichever worker has it by
//! then. So no worker may take a block between the moment its bit is cleared and the moment the
//! intent is durably retired. Blocks in between stand here, one block a worker, in DRAM: after a
//! crash no worker is in between. The blocks of batches stand here as well, many at a time: those
//! that a batch will free, and those that it has reserved and whose bits are not yet set; and the
//! blocks that a record will return to from the reserve (`reserve.rs`).

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;
use everleaf_pmem::planted;
use parking_lot::Mutex;

use crate::layout::{CHUNK, WORKER_SLOTS};

/// Offsets of blocks that are kept for a longer time.
#[derive(Default)]
struct Kept {
    of_batches: BTreeSet<u64>,
    /// Those that a record will return to.
    places: BTreeSet<u64>,
}

impl Kept {
    fn count(&self) -> usize {
        self.of_batches.len() + self.places.len()
    }

    fn has_in(&self, offsets: Range<u64>) -> bool {
        let has = |set: &BTreeSet<u64>| set.range(offsets.clone()).next().is_some();
        has(&self.of_batches) || has(&self.places)
    }
}

/// Blocks that no worker gets, whatever their bits say.
pub(super) struct Freeing {
    /// The offset of the block that each worker is freeing, or 0.
    by_worker: [CachePadded<AtomicU64>; WORKER_SLOTS],
    /// Highest slot that ever freed anything, plus one: a search for a free block looks at the
    /// slots below.
    slots_used: AtomicUsize,
    /// What is kept beside that.
    kept: Mutex<Kept>,
    /// How many there are.
    kept_count: AtomicUsize,
    /// How many batches have let go of theirs.
    ended_batches: AtomicUsize,
}

impl Freeing {
    pub fn new() -> Self {
        let by_worker = [const { CachePadded::new(AtomicU64::new(0)) }; WORKER_SLOTS];
        let [slots_used, kept_count, ended_batches] = [const { AtomicUsize::new(0) }; 3];
        Self { by_worker, slots_used, kept: Mutex::default(), kept_count, ended_batches }
    }

    /// The worker is about to clear the bit of the block at `offset`. A thread that sees the
    /// cleared bit (a Release store, loaded with Acquire) sees this as well.
    pub fn begin(&self, slot: usize, offset: u64) {
        // A thread that sees this also sees that the one before has ended.
        self.by_worker[slot].store(offset, Ordering::Release);
        if self.slots_used.load(Ordering::Relaxed) <= slot {
            self.slots_used.fetch_max(slot + 1, Ordering::Relaxed);
        }
    }

    /// What the workers are freeing, those that ever did.
    fn under_way(&self) -> impl Iterator<Item = u64> + '_ {
        self.by_worker[..self.slots_used.load(Ordering::Relaxed)]
            .iter()
            .map(|freed| freed.load(Ordering::SeqCst))
    }

    /// The intent is durably retired.
    pub fn end(&self, slot: usize) {
        self.by_worker[slot].store(0, Ordering::Release);
    }

    /// How many batches have ended. A thread that sees that a batch no longer keeps a block sees it
    /// counted here; one that saw it counted sees the bits that it has set (Release and Acquire,
    /// both).
    pub fn ended_batches(&self) -> usize {
        self.ended_batches.load(Ordering::Acquire)
    }

    /// Whether the block at `offset` is being freed, or kept. Asked after its bit was seen to be
    /// clear: a block that is freed stands here before its bit is cleared. A batch sets bits before
    /// it ends; so what was seen counts only if [none has ended](Self::ended_batches) since.
    pub fn has(&self, offset: u64) -> bool {
        self.under_way().any(|freed| freed == offset && !planted(103))
            || self.keeps(offset..offset + 1)
    }

    /// Whether a block of `chunk` is being freed.
    pub fn has_in(&self, chunk: u64) -> bool {
        self.under_way().any(|freed| freed / CHUNK == chunk)
            || self.keeps(chunk * CHUNK..(chunk + 1) * CHUNK)
    }

    fn keeps(&self, offsets: Range<u64>) -> bool {
        self.kept_count.load(Ordering::Acquire) > 0 && self.kept.lock().has_in(offsets)
    }

    fn change_kept(&self, change: impl FnOnce(&mut Kept)) {
        let mut kept = self.kept.lock();
        change(&mut kept);
        self.kept_count.store(kept.count(), Ordering::Release);
    }

    /// Keeps blocks of a batch, before their bits are cleared.
    pub fn keep(&self, offsets: impl Iterator<Item = u64>) {
        self.change_kept(|kept| kept.of_batches.extend(offsets));
    }

    /// The batch is over. Under the lock of the free chunks.
    pub fn let_go(&self, offsets: impl Iterator<Item = u64>) {
        self.change_kept(|kept| {
            self.ended_batches.fetch_add(1, Ordering::Release);
            offsets.for_each(|offset| _ = kept.of_batches.remove(&offset));
        });
    }

    /// Keeps the place that a record will return to, before its bit is cleared.
    pub fn keep_place(&self, offset: u64) {
        self.change_kept(|kept| _ = kept.places.insert(offset));
    }

    /// The record has returned, or does not. Under the lock of the free chunks.
    pub fn let_go_of_place(&self, offset: u64) {
        self.change_kept(|kept| {
            self.ended_batches.fetch_add(1, Ordering::Release);
            kept.places.remove(&offset);
        });
    }
}
