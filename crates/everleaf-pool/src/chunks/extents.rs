//! The extents of a pool, looked at without a lock: they only ever become more.
//!
//! Every operation of the allocator asks where the line of a chunk is. A lock that all threads share, even one of readers, would be the busiest line
//! of the machine.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use everleaf_pmem::PPtr;

use super::table_chunks;
use crate::layout::{CHUNK, ChunkLine, FIRST_EXTENT_CHUNK, MAX_EXTENTS};

/// Some chunks in a row that were added at once, their table first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub start: u64,
    pub chunks: u64,
}

impl Extent {
    pub fn first_usable(&self) -> u64 {
        self.start + table_chunks(self.chunks)
    }
    pub fn end(&self) -> u64 {
        self.start + self.chunks
    }
    /// Where the line of a chunk of this extent is.
    pub fn line_pointer(&self, chunk: u64) -> PPtr<ChunkLine> {
        PPtr::at(self.start * CHUNK + (chunk - self.start) * size_of::<ChunkLine>() as u64)
    }
}

/// The extents in their order. One thread adds at a time; any number look.
pub(super) struct Extents {
    count: AtomicUsize,
    /// The first chunk of each, and behind the last where the next will begin. What is below `count` never changes.
    starts: Box<[AtomicU64]>,
    /// Whether the shadow of its chunks is filled. Changed and asked under the lock of the free chunks.
    scanned: Box<[AtomicBool]>,
}

impl Extents {
    pub fn new() -> Self {
        let starts: Box<[AtomicU64]> = (0..=MAX_EXTENTS).map(|_| AtomicU64::new(0)).collect();
        starts[0].store(FIRST_EXTENT_CHUNK, Ordering::Relaxed);
        let scanned = (0..MAX_EXTENTS).map(|_| AtomicBool::new(false)).collect();
        Self { count: AtomicUsize::new(0), starts, scanned }
    }

    /// Adds one behind the last; there must be room for it among [`MAX_EXTENTS`].
    pub fn add(&self, chunks: u64) {
        let count = self.count.load(Ordering::Relaxed);
        self.starts[count + 1].store(self.start(count) + chunks, Ordering::Relaxed);
        self.count.store(count + 1, Ordering::Release);
    }

    pub fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    fn start(&self, at: usize) -> u64 {
        self.starts[at].load(Ordering::Relaxed)
    }

    /// The extent with this number, which must be below [`count`](Self::count).
    pub fn get(&self, at: usize) -> Extent {
        let start = self.start(at);
        Extent { start, chunks: self.start(at + 1) - start }
    }

    pub fn iter(&self) -> impl Iterator<Item = Extent> + '_ {
        (0..self.count()).map(|at| self.get(at))
    }

    /// The number of the extent that `chunk` is in, table or not; none beyond all of them.
    pub fn position(&self, chunk: u64) -> Option<usize> {
        let (mut low, mut high) = (0, self.count());
        if chunk < FIRST_EXTENT_CHUNK || chunk >= self.start(high) {
            return None;
        }
        // The chunk is at or behind the start of `low`, and before that of `high`.
        while high - low > 1 {
            let middle = low.midpoint(high);
            if self.start(middle) <= chunk {
                low = middle;
            } else {
                high = middle;
            }
        }
        Some(low)
    }

    pub fn is_scanned(&self, at: usize) -> bool {
        self.scanned[at].load(Ordering::Relaxed)
    }

    pub fn set_scanned(&self, at: usize) {
        self.scanned[at].store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chunk_is_in_one_extent() {
        let extents = Extents::new();
        assert_eq!((extents.count(), extents.position(0), extents.position(FIRST_EXTENT_CHUNK)), (0, None, None));
        let sizes = [5, 1, 300, 64, 65];
        sizes.iter().for_each(|chunks| extents.add(*chunks));
        let expected: Vec<usize> = sizes.iter().enumerate().flat_map(|(at, chunks)| vec![at; *chunks as usize]).collect();
        for (place, at) in expected.iter().enumerate() {
            let chunk = FIRST_EXTENT_CHUNK + place as u64;
            assert_eq!(extents.position(chunk), Some(*at));
            let extent = extents.get(*at);
            assert!((extent.start..extent.end()).contains(&chunk));
        }
        let end = FIRST_EXTENT_CHUNK + expected.len() as u64;
        assert_eq!([0, 2, end, u64::MAX].map(|chunk| extents.position(chunk)), [None; 4]);
        assert_eq!(extents.iter().last().map(|extent| extent.end()), Some(end));
    }
}
