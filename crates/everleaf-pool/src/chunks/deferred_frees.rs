//! Records that were freed while threads may still read them.
//!
//! A thread that reads records as byte slices is *pinned* (it holds a
//! [`RecordGuard`](crate::RecordGuard)). A record that is freed while any thread is pinned goes
//! into limbo: its bit is clear, but its memory is not used again before every thread that was
//! pinned then has left ([`Pins`]).
//!
//! All of this is in DRAM: after a crash nothing is pinned. Where no thread is pinned, freeing
//! costs a look at the slots that were ever used.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU16, AtomicU64, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;
use everleaf_pmem::{MapError, Media, planted};
use parking_lot::Mutex;

use super::{Block, lock_relaxing};
use crate::Pins;
use crate::layout::{CHUNK, WORKER_SLOTS};

/// Records that a worker frees into limbo before it looks which of them it can have back.
const BETWEEN_LOOKS: usize = 32;
/// How often threads that read records are waited for.
const READER_SPINS: usize = 1000;
/// How often where the reader is the caller itself, as far as can be told.
const OWN_SPINS: usize = 16;
/// Parts of the set of records in limbo, each with a lock.
const PARTS: usize = 16;

/// The blocks that one worker has freed, each with the epoch in which it was, oldest first.
type FreedByWorker = CachePadded<Mutex<VecDeque<(u64, Block)>>>;

/// Records in limbo.
pub(super) struct Limbo {
    pub pins: Pins,
    /// How many are in each chunk.
    by_chunk: Box<[AtomicU16]>,
    /// Which, and how many bytes each has, by parts that follow from the chunk.
    held: [Mutex<BTreeMap<u64, u64>>; PARTS],
    /// What each worker has freed, the oldest first, with the epoch in which that was.
    freed: [FreedByWorker; WORKER_SLOTS],
    count: AtomicUsize,
    bytes: AtomicU64,
    /// The epoch of readers that were waited for in vain.
    stuck: AtomicU64,
}

impl Limbo {
    pub fn new(chunks: usize) -> Result<Self, MapError> {
        Ok(Self {
            pins: Pins::default(),
            by_chunk: super::table(chunks)?,
            held: [const { Mutex::new(BTreeMap::new()) }; PARTS],
            freed: [const { CachePadded::new(Mutex::new(VecDeque::new())) }; WORKER_SLOTS],
            count: AtomicUsize::new(0),
            bytes: AtomicU64::new(0),
            stuck: AtomicU64::new(u64::MAX),
        })
    }

    /// How often readers are waited for, of which these are the oldest: not those that were waited
    /// for in vain, and hardly what seems to be the calling thread.
    pub fn patience_with<M: Media>(&self, media: &M, oldest: Option<u64>) -> usize {
        match oldest {
            Some(epoch) if epoch == self.stuck.load(Ordering::Relaxed) => 0,
            Some(epoch) if self.pins.is_caller_pinned_in(media, epoch) => OWN_SPINS,
            _ => READER_SPINS,
        }
    }

    /// The readers that were the oldest did not end while they were waited for so often.
    pub fn waited_in_vain(&self, patience: usize, oldest: Option<u64>) {
        // Of threads without a slot nobody knows whether they are the same.
        let known = oldest.filter(|epoch| patience == READER_SPINS && *epoch != Pins::CROWD);
        if let Some(epoch) = known {
            self.stuck.store(epoch, Ordering::Relaxed);
        }
    }

    fn part(&self, chunk: u64) -> &Mutex<BTreeMap<u64, u64>> {
        &self.held[chunk as usize % PARTS]
    }

    /// Whether a thread may still read a record that was unlinked before this call.
    pub fn is_needed(&self) -> bool {
        self.pins.oldest().is_some()
    }

    /// Puts a record that takes so many bytes into limbo; returns whether it is time to look what
    /// can leave it.
    pub fn hold<M: Media>(&self, media: &M, slot: usize, block: Block, bytes: u64) -> bool {
        let chunk = block.offset / CHUNK;
        lock_relaxing(self.part(chunk), media).insert(block.offset, bytes);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.by_chunk[chunk as usize].fetch_add(1, Ordering::SeqCst);
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut freed = lock_relaxing(&self.freed[slot], media);
        freed.push_back((self.pins.moment(), block));
        freed.len().is_multiple_of(BETWEEN_LOOKS)
    }

    /// What a worker freed that no thread can be reading any more. It stays in limbo until it is
    /// [let go](Limbo::let_go).
    pub fn take_unread<M: Media>(&self, media: &M, slot: usize) -> Vec<Block> {
        let mut freed = lock_relaxing(&self.freed[slot], media);
        if freed.is_empty() {
            return Vec::new();
        }
        let horizon = self.pins.horizon();
        let horizon = horizon.saturating_add(u64::from(planted(129)));
        let unread = freed.iter().take_while(|(moment, _)| *moment < horizon).count();
        freed.drain(..unread).map(|(_, block)| block).collect()
    }

    /// The block is any worker's again.
    pub fn let_go<M: Media>(&self, media: &M, block: Block) {
        let chunk = block.offset / CHUNK;
        let bytes = lock_relaxing(self.part(chunk), media).remove(&block.offset);
        self.bytes.fetch_sub(bytes.unwrap_or(0), Ordering::Relaxed);
        self.by_chunk[chunk as usize].fetch_sub(1, Ordering::SeqCst);
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether anything is in limbo.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Bytes of the pool that are in limbo.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether the record at `offset` is in limbo. Asked after its bit was seen to be clear, and
    /// after it was seen that no worker is just freeing it.
    #[inline]
    pub fn has(&self, offset: u64) -> bool {
        self.has_in(offset / CHUNK) && self.part(offset / CHUNK).lock().contains_key(&offset)
    }

    /// Whether a record of `chunk` is in limbo.
    #[inline]
    pub fn has_in(&self, chunk: u64) -> bool {
        self.by_chunk[chunk as usize].load(Ordering::SeqCst) > 0
    }
}

#[cfg(test)]
mod tests {
    use everleaf_pmem::{Cpu, Mapped, Region};

    use super::*;
    use crate::reader_pins::PIN_SLOTS;
    use crate::slots_of_thread;

    fn media() -> Mapped {
        Mapped::new(Region::anonymous(4096, 4096).unwrap(), &Cpu::detect()).unwrap()
    }

    #[test]
    fn readers_are_waited_for_in_vain_once() {
        let (limbo, media) = (Limbo::new(1).unwrap(), media());
        let patience = || limbo.patience_with(&media, limbo.pins.oldest());
        let own = slots_of_thread(&media, PIN_SLOTS);
        let of_another = (0..).find(|slot| !own.contains(slot)).unwrap();
        let early = limbo.pins.pin(of_another);
        assert_eq!(patience(), READER_SPINS);
        limbo.waited_in_vain(READER_SPINS, limbo.pins.oldest());
        limbo.pins.horizon();
        let late = limbo.pins.pin(of_another);
        assert_eq!(patience(), 0, "it is the same reader");
        limbo.pins.unpin(&early);
        assert_eq!(patience(), READER_SPINS, "it is another one");
        limbo.pins.unpin(&late);
        limbo.waited_in_vain(READER_SPINS, Some(Pins::CROWD));
        let crowd = limbo.patience_with(&media, Some(Pins::CROWD));
        assert_eq!(crowd, READER_SPINS, "nobody knows which");
    }

    #[test]
    fn a_thread_hardly_waits_for_itself() {
        let (limbo, media) = (Limbo::new(1).unwrap(), media());
        let patience = || limbo.patience_with(&media, limbo.pins.oldest());
        let pinned = limbo.pins.enter(&media);
        assert_eq!(patience(), OWN_SPINS);
        limbo.waited_in_vain(patience(), limbo.pins.oldest());
        assert_eq!(patience(), OWN_SPINS, "it may be another thread after all");
        drop(pinned);
        assert_eq!(patience(), READER_SPINS);
    }
}
