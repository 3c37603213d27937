//! Records that were freed while threads may still read them.
//!
//! A thread that reads records as byte slices is *pinned* (it holds a
//! [`RecordGuard`](crate::RecordGuard)): the epoch in which it began stands in a slot of its own. A
//! record that is freed while any thread is pinned goes into limbo: its bit is clear, but its
//! memory is not used again before every thread that was pinned then has left.
//!
//! The order of a reader is: its slot, then the index. That of a thread that frees is: the index,
//! then all slots. There is a full barrier between the two of each, so at least one of them sees
//! the other. A thread that is pinned in an epoch after that in which a record was freed cannot
//! have found it.
//!
//! All of this is in DRAM: after a crash nothing is pinned. Where no thread is pinned, freeing
//! costs a look at the slots that were ever used.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU16, AtomicU64, AtomicUsize, Ordering, fence};

use crossbeam_utils::CachePadded;
use everleaf_pmem::Media;
use parking_lot::Mutex;

use super::{Block, lock_relaxing};
use crate::layout::{CHUNK, WORKER_SLOTS};

/// Threads that can be pinned at a time, each in a slot. Those beyond are only counted.
pub(crate) const PIN_SLOTS: usize = 64;
/// Records that a worker frees into limbo before it looks which of them it can have back.
const BETWEEN_LOOKS: usize = 32;
/// Parts of the set of records in limbo, each with a lock.
const PARTS: usize = 16;
/// A slot in which no thread is pinned.
const VACANT: u64 = 0;

/// Which threads are pinned, and since when.
pub(super) struct Pins {
    epoch: CachePadded<AtomicU64>,
    slots: [CachePadded<AtomicU64>; PIN_SLOTS],
    /// Slots from this one on were never used.
    used: AtomicUsize,
    /// Threads that are pinned and found no slot. While there are any, nothing leaves limbo.
    crowd: AtomicU64,
}

/// Where a thread is pinned.
pub(crate) struct Pin(Option<usize>);

impl Pins {
    fn new() -> Self {
        Self {
            epoch: CachePadded::new(AtomicU64::new(VACANT + 1)),
            slots: [const { CachePadded::new(AtomicU64::new(VACANT)) }; PIN_SLOTS],
            used: AtomicUsize::new(0),
            crowd: AtomicU64::new(0),
        }
    }

    /// Pins the calling thread. `first`: the slot that it tries first.
    #[inline]
    pub fn pin(&self, first: usize) -> Pin {
        let epoch = self.epoch.load(Ordering::Acquire);
        for at in 0..PIN_SLOTS {
            let slot = (first + at) % PIN_SLOTS;
            let pinned = &self.slots[slot];
            // The exchange is the full barrier between the slot and what is read afterwards.
            if pinned.load(Ordering::Relaxed) == VACANT
                && pinned
                    .compare_exchange(VACANT, epoch, Ordering::SeqCst, Ordering::Relaxed)
                    .is_ok()
            {
                if self.used.load(Ordering::Relaxed) <= slot {
                    self.used.fetch_max(slot + 1, Ordering::SeqCst);
                    fence(Ordering::SeqCst);
                }
                return Pin(Some(slot));
            }
        }
        self.crowd.fetch_add(1, Ordering::SeqCst);
        Pin(None)
    }

    #[inline]
    pub fn unpin(&self, pin: &Pin) {
        match pin.0 {
            Some(slot) => self.slots[slot].store(VACANT, Ordering::Release),
            None => _ = self.crowd.fetch_sub(1, Ordering::Release),
        }
    }

    /// The oldest epoch in which a thread is pinned; none if none is. What the caller did before is
    /// seen by threads that are pinned afterwards.
    fn oldest(&self) -> Option<u64> {
        fence(Ordering::SeqCst);
        if self.crowd.load(Ordering::Acquire) > 0 {
            return Some(VACANT);
        }
        let used = self.used.load(Ordering::Acquire);
        let pinned = self.slots[..used].iter().map(|slot| slot.load(Ordering::Acquire));
        pinned.filter(|epoch| *epoch != VACANT).min()
    }
}

/// Records in limbo.
pub(super) struct Limbo {
    pub pins: Pins,
    /// How many are in each chunk.
    by_chunk: Box<[AtomicU16]>,
    /// Which, by parts that follow from the chunk.
    offsets: [Mutex<BTreeSet<u64>>; PARTS],
    /// What each worker has freed, the oldest first, with the epoch in which that was.
    freed: [CachePadded<Mutex<VecDeque<(u64, Block)>>>; WORKER_SLOTS],
    count: AtomicUsize,
}

impl Limbo {
    pub fn new(chunks: usize) -> Self {
        Self {
            pins: Pins::new(),
            by_chunk: super::zeroed_counts(chunks),
            offsets: [const { Mutex::new(BTreeSet::new()) }; PARTS],
            freed: [const { CachePadded::new(Mutex::new(VecDeque::new())) }; WORKER_SLOTS],
            count: AtomicUsize::new(0),
        }
    }

    fn part(&self, chunk: u64) -> &Mutex<BTreeSet<u64>> {
        &self.offsets[chunk as usize % PARTS]
    }

    /// Whether a thread may still read a record that was unlinked before this call.
    pub fn is_needed(&self) -> bool {
        self.pins.oldest().is_some()
    }

    /// Puts a record into limbo; returns whether it is time to look what can leave it.
    pub fn hold<M: Media>(&self, media: &M, slot: usize, block: Block) -> bool {
        let chunk = block.offset / CHUNK;
        lock_relaxing(self.part(chunk), media).insert(block.offset);
        self.by_chunk[chunk as usize].fetch_add(1, Ordering::SeqCst);
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut freed = lock_relaxing(&self.freed[slot], media);
        freed.push_back((self.pins.epoch.load(Ordering::SeqCst), block));
        freed.len().is_multiple_of(BETWEEN_LOOKS)
    }

    /// What a worker freed that no thread can be reading any more. It stays in limbo until it is
    /// [let go](Limbo::let_go).
    pub fn take_unread<M: Media>(&self, media: &M, slot: usize) -> Vec<Block> {
        let mut freed = lock_relaxing(&self.freed[slot], media);
        if freed.is_empty() {
            return Vec::new();
        }
        // Threads that are pinned from here on do not keep what is there already.
        self.pins.epoch.fetch_add(1, Ordering::SeqCst);
        let oldest = self.pins.oldest();
        let unread = freed.iter().take_while(|(epoch, _)| oldest.is_none_or(|old| *epoch < old));
        let unread = unread.count();
        freed.drain(..unread).map(|(_, block)| block).collect()
    }

    /// The block is any worker's again.
    pub fn let_go<M: Media>(&self, media: &M, block: Block) {
        let chunk = block.offset / CHUNK;
        lock_relaxing(self.part(chunk), media).remove(&block.offset);
        self.by_chunk[chunk as usize].fetch_sub(1, Ordering::SeqCst);
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether anything is in limbo.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Whether the record at `offset` is in limbo. Asked after its bit was seen to be clear, and
    /// after it was seen that no worker is just freeing it.
    #[inline]
    pub fn has(&self, offset: u64) -> bool {
        self.has_in(offset / CHUNK) && self.part(offset / CHUNK).lock().contains(&offset)
    }

    /// Whether a record of `chunk` is in limbo.
    #[inline]
    pub fn has_in(&self, chunk: u64) -> bool {
        self.by_chunk[chunk as usize].load(Ordering::SeqCst) > 0
    }
}
