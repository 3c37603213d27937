//! Spare chunks of workers. When a block of a full chunk without an owner is freed, the worker that
//! frees it owns the chunk from then on, and takes what it allocates next from there. So a value
//! that is replaced over and over takes no lock that all workers share.
//!
//! Each worker has its spare chunks to itself, except where memory runs out: then they are taken
//! back from all.

use crossbeam_utils::CachePadded;
use everleaf_pmem::Media;
use parking_lot::Mutex;

use super::lock_relaxing;
use crate::classes::Usage;
use crate::layout::WORKER_SLOTS;

/// Spare chunks that a worker keeps at most. A worker that only frees takes the common lock once
/// for so many, and an idle worker may hold back so many.
const MOST: usize = 16;

/// The spare chunks of a worker, the oldest first.
type OfWorker = Mutex<Vec<(Usage, u64)>>;

/// The spare chunks of each worker.
pub(super) struct Spares([CachePadded<OfWorker>; WORKER_SLOTS]);

impl Spares {
    pub fn new() -> Self {
        Self([const { CachePadded::new(Mutex::new(Vec::new())) }; WORKER_SLOTS])
    }

    /// The worker gets a spare chunk. Returns those that are too many.
    pub fn add<M: Media>(&self, media: &M, slot: usize, usage: Usage, chunk: u64) -> Vec<u64> {
        let mut spares = lock_relaxing(&self.0[slot], media);
        spares.push((usage, chunk));
        let too_many = if spares.len() > MOST { MOST / 2 } else { 0 };
        spares.drain(..too_many).map(|(_, chunk)| chunk).collect()
    }

    /// The chunk of this usage that the worker got last.
    pub fn take<M: Media>(&self, media: &M, slot: usize, usage: Usage) -> Option<u64> {
        let mut spares = lock_relaxing(&self.0[slot], media);
        let at = spares.iter().rposition(|(spare, _)| *spare == usage)?;
        Some(spares.remove(at).1)
    }

    /// All of a worker.
    pub fn take_of<M: Media>(&self, media: &M, slot: usize) -> Vec<u64> {
        lock_relaxing(&self.0[slot], media).drain(..).map(|(_, chunk)| chunk).collect()
    }

    /// All of all workers.
    pub fn take_all<M: Media>(&self, media: &M) -> Vec<u64> {
        (0..WORKER_SLOTS).flat_map(|slot| self.take_of(media, slot)).collect()
    }
}

#[cfg(test)]
mod tests {
    use everleaf_pmem::{Cpu, Mapped, Region};

    use super::*;
    use crate::NodeKind;
    use crate::classes::Class;

    #[test]
    fn a_worker_gets_its_youngest_chunk_of_a_usage_back_and_keeps_a_bounded_number() {
        let media =
            Mapped::new(Region::anonymous(1 << 16, 1 << 16).unwrap(), &Cpu::detect()).unwrap();
        let (records, nodes) = (
            Usage::RecordBlocks(Class::from_index(1).unwrap()),
            Usage::NodeBlocks(NodeKind::new(1), Class::from_index(1).unwrap()),
        );
        let spares = Spares::new();
        for (usage, chunk) in [(records, 1), (nodes, 2), (records, 3)] {
            assert!(spares.add(&media, 5, usage, chunk).is_empty());
        }
        assert_eq!(
            (spares.take(&media, 5, records), spares.take(&media, 4, records)),
            (Some(3), None)
        );
        assert_eq!(
            (spares.take(&media, 5, records), spares.take(&media, 5, records)),
            (Some(1), None)
        );
        let too_many: Vec<u64> = (10..10 + MOST as u64)
            .flat_map(|chunk| spares.add(&media, 5, records, chunk))
            .collect();
        assert_eq!(too_many[..2], [2, 10], "the oldest");
        assert_eq!(
            (too_many.len(), spares.take_all(&media).len()),
            (MOST / 2, MOST + 1 - MOST / 2)
        );
        assert!(spares.take_all(&media).is_empty());
    }
}
