//! The extents of a pool, looked at without a lock: they only ever become more, and the last one
//! longer.
//!
//! Every operation of the allocator asks where the line of a chunk is. A lock that all threads
//! share, even one of readers, would be the busiest line of the machine.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use everleaf_pmem::{PPtr, WORD};

use super::{LINES_PER_CHUNK, table_chunks};
use crate::layout::{CHUNK, ChunkLine, FIRST_EXTENT_CHUNK, Header, MAX_EXTENTS};
use crate::word::{SEALED_BITS, Sealed};
use crate::{Corruption, PoolError};

/// Some chunks in a row, their table first. The last extent of a pool can become longer where it
/// is, as long as its table has lines for more chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub start: u64,
    /// Those that there are, those of the table among them.
    pub chunks: u64,
    /// Those of the table.
    pub table: u64,
}

impl Extent {
    /// Bits of the word in the header that hold the number of chunks: 4 TiB. The rest holds the
    /// length of the table.
    const CHUNK_BITS: u32 = 30;
    /// Chunks that an extent can have.
    pub const MAX_CHUNKS: u64 = (1 << Self::CHUNK_BITS) - 1;
    /// Chunks that a table can have lines for ahead of them: 64 GiB.
    pub const MAX_LINES: u64 = ((1 << (SEALED_BITS - Self::CHUNK_BITS)) - 1) * LINES_PER_CHUNK;

    /// One whose table has lines for its chunks and no more.
    pub fn exact(start: u64, chunks: u64) -> Self {
        Self { start, chunks, table: table_chunks(chunks) }
    }

    /// What the word of an extent that begins at `start` says of it; none if it is damaged. An
    /// extent without chunks ends the list.
    pub fn unseal(word: Sealed, start: u64) -> Option<Self> {
        let content = word.open()?;
        let (chunks, table) = (content & Self::MAX_CHUNKS, content >> Self::CHUNK_BITS);
        let exact = Self::exact(start, chunks);
        match table {
            0 => Some(exact),
            _ => (exact.table < table && table < chunks).then_some(Self { table, ..exact }),
        }
    }

    /// The extents that the words of a header list, in their order; the last item may be an error.
    pub fn listed(
        words: impl Iterator<Item = Sealed>,
    ) -> impl Iterator<Item = Result<Self, PoolError>> {
        let mut words = words.enumerate();
        let mut end = Some(FIRST_EXTENT_CHUNK);
        std::iter::from_fn(move || {
            let (start, (i, word)) = (end.take()?, words.next()?);
            let Some(extent) = Self::unseal(word, start) else {
                let place = std::mem::offset_of!(Header, extents) + i * WORD;
                return Some(Err(PoolError::corrupt(place as u64, Corruption::Word)));
            };
            end = (extent.chunks > 0).then(|| extent.end());
            end.map(|_| Ok(extent))
        })
    }

    /// The word. A table without lines for more chunks is not mentioned.
    pub fn seal(&self) -> Sealed {
        let table = if self.table == table_chunks(self.chunks) { 0 } else { self.table };
        Sealed::of(table << Self::CHUNK_BITS | self.chunks)
    }

    pub fn first_usable(&self) -> u64 {
        self.start + self.table
    }
    pub fn end(&self) -> u64 {
        self.start + self.chunks
    }
    /// What is left of it in a pool that ends before this chunk; it begins before that.
    pub fn cut_off_at(&self, end: u64) -> Self {
        let chunks = self.chunks.min(end - self.start);
        Self { start: self.start, chunks, table: self.table.min(chunks) }
    }
    /// Chunks for which the table has lines.
    pub fn lines(&self) -> u64 {
        self.table * LINES_PER_CHUNK
    }
    /// Where the line of a chunk of this extent is.
    pub fn line_pointer(&self, chunk: u64) -> PPtr<ChunkLine> {
        PPtr::at(self.start * CHUNK + (chunk - self.start) * size_of::<ChunkLine>() as u64)
    }
}

/// The extents in their order. One thread adds at a time; any number look.
pub(super) struct Extents {
    count: AtomicUsize,
    /// The first chunk of each, and behind the last where it ends and the next will begin. What is
    /// below `count` never changes; the end only grows, and a thread that learned of a chunk from
    /// another thread sees an end behind it.
    starts: Box<[AtomicU64]>,
    /// The chunks of the table of each.
    tables: Box<[AtomicU64]>,
    /// Whether the shadow of its chunks is filled. Changed and asked under the lock of the free
    /// chunks.
    scanned: Box<[AtomicBool]>,
}

impl Extents {
    pub fn new() -> Self {
        let starts: Box<[AtomicU64]> = (0..=MAX_EXTENTS).map(|_| AtomicU64::new(0)).collect();
        starts[0].store(FIRST_EXTENT_CHUNK, Ordering::Relaxed);
        let tables = (0..MAX_EXTENTS).map(|_| AtomicU64::new(0)).collect();
        let scanned = (0..MAX_EXTENTS).map(|_| AtomicBool::new(false)).collect();
        Self { count: AtomicUsize::new(0), starts, tables, scanned }
    }

    /// Adds one, which begins at [`end`](Self::end); there must be a place for it among
    /// [`MAX_EXTENTS`].
    pub fn add(&self, extent: Extent) {
        let count = self.count.load(Ordering::Relaxed);
        debug_assert_eq!(extent.start, self.start(count));
        self.tables[count].store(extent.table, Ordering::Relaxed);
        self.starts[count + 1].store(extent.end(), Ordering::Relaxed);
        self.count.store(count + 1, Ordering::Release);
    }

    /// Makes the last one longer.
    pub fn lengthen(&self, chunks: u64) {
        self.starts[self.count.load(Ordering::Relaxed)].fetch_add(chunks, Ordering::Release);
    }

    /// The chunk behind the last extent.
    pub fn end(&self) -> u64 {
        self.start(self.count())
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
        Extent {
            start,
            chunks: self.start(at + 1) - start,
            table: self.tables[at].load(Ordering::Relaxed),
        }
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
        assert_eq!(
            (extents.count(), extents.position(0), extents.position(FIRST_EXTENT_CHUNK)),
            (0, None, None)
        );
        let sizes = [5, 1, 300, 64, 65];
        sizes.iter().for_each(|chunks| extents.add(Extent::exact(extents.end(), *chunks)));
        extents.add(Extent { start: extents.end(), chunks: 10, table: 2 });
        extents.lengthen(7);
        assert_eq!(
            extents.get(5),
            Extent { start: FIRST_EXTENT_CHUNK + 435, chunks: 17, table: 2 }
        );
        let sizes = [5, 1, 300, 64, 65, 17];
        let expected: Vec<usize> =
            sizes.iter().enumerate().flat_map(|(at, chunks)| vec![at; *chunks as usize]).collect();
        for (place, at) in expected.iter().enumerate() {
            let chunk = FIRST_EXTENT_CHUNK + place as u64;
            assert_eq!(extents.position(chunk), Some(*at));
            let extent = extents.get(*at);
            assert!((extent.start..extent.end()).contains(&chunk));
        }
        let end = FIRST_EXTENT_CHUNK + expected.len() as u64;
        assert_eq!([0, 2, end, u64::MAX].map(|chunk| extents.position(chunk)), [None; 4]);
        assert_eq!(
            (extents.iter().last().map(|extent| extent.end()), extents.end()),
            (Some(end), end)
        );
    }

    #[test]
    fn words_of_extents_round_trip() {
        let [most, lines] = [Extent::MAX_CHUNKS, Extent::MAX_LINES];
        for chunks in [2, 63, 64, 65, 200, 4096, most] {
            for table in [table_chunks(chunks), table_chunks(chunks) + 1, 150, table_chunks(lines)]
            {
                let extent = Extent { start: 77, chunks, table };
                let fits = table == table_chunks(chunks) || table <= table_chunks(lines);
                if fits && table_chunks(chunks) <= table && table < chunks {
                    assert_eq!(Extent::unseal(extent.seal(), 77), Some(extent));
                }
            }
        }
        assert_eq!(Extent::unseal(Sealed::ZERO, 3), Some(Extent { start: 3, chunks: 0, table: 0 }));
        assert_eq!(
            Extent::exact(3, 5).seal(),
            Sealed::of(5),
            "as pools had it before tables had lines for more"
        );
        for (chunks, table) in [(0, 1), (5, 5), (5, 6), (65, 1), (65, 2)] {
            let word = Sealed::of(table << Extent::CHUNK_BITS | chunks);
            assert_eq!(Extent::unseal(word, 3), None, "{chunks} chunks, a table of {table}");
        }
    }
}
