//! Lines of DRAM that are addressed by index and never move: where the volatile parts of trees
//! live.

use std::io;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::{DramLine, LINE, MapError, Region, SimdLevel, instructions};

/// Bytes of a huge page: beyond the first one, an arena grows by whole huge pages.
const HUGE_PAGE: u64 = 2 << 20;
/// The first growth: small, because the crash explorer makes trees by the thousand.
const SMALLEST: u64 = 16 << 10;

/// Lines of memory, all zero at first, that grow in place up to a reservation of addresses: one
/// base pointer, no slabs, and huge pages once there are two megabytes (a search in a large tree
/// would else miss the TLB at every level).
///
/// ```
/// use std::sync::atomic::Ordering;
/// use everleaf_pmem::DramArena;
///
/// let arena = DramArena::reserve(1 << 30)?;
/// arena.ensure(100)?;
/// arena.line(99).0[0].store(7, Ordering::Relaxed);
/// arena.ensure(1_000_000)?;
/// assert_eq!(arena.line(99).0[0].load(Ordering::Relaxed), 7);
/// # Ok::<(), everleaf_pmem::MapError>(())
/// ```
#[derive(Debug)]
pub struct DramArena {
    region: ManuallyDrop<Region>,
    /// Lines that can be used now: what the region says, and one load away for a search.
    lines: AtomicUsize,
    /// Takes the memory when the arena is dropped; without it the system does.
    spare: Option<Arc<SpareArenas>>,
}

/// Where a tree takes its DRAM from, and how its lines are compared:
/// [`Media::dram`](crate::Media::dram). From the system, unless the media keeps arenas for the next
/// tree: mapping and faulting in memory anew was a third of the crash explorer's time, which opens
/// trees by the million.
#[derive(Clone, Copy, Debug)]
pub struct DramSource<'a> {
    /// The widest vector compare that may be used.
    pub simd: SimdLevel,
    spare: Option<&'a Arc<SpareArenas>>,
}

/// Memory of dropped arenas, for later ones: for a media on which trees are opened by the million.
#[derive(Debug, Default)]
pub struct SpareArenas(Mutex<Vec<Region>>);

impl SpareArenas {
    /// Larger ones, and more of them, are not kept.
    const LARGEST: u64 = 1 << 20;
    const MOST: usize = 8;

    /// One with this reservation.
    fn take(&self, max_bytes: u64) -> Option<Region> {
        let mut spare = self.0.lock();
        let place = spare.iter().position(|region| region.max_len() == max_bytes)?;
        Some(spare.swap_remove(place))
    }

    fn keep(&self, region: Region) {
        let mut spare = self.0.lock();
        if region.len() <= Self::LARGEST && spare.len() < Self::MOST {
            spare.push(region);
        }
    }
}

impl From<SimdLevel> for DramSource<'_> {
    fn from(simd: SimdLevel) -> Self {
        Self { simd, spare: None }
    }
}

impl<'a> DramSource<'a> {
    /// From `spare`, where it has an arena of the wanted size, else from the system.
    pub fn with_spare(simd: SimdLevel, spare: &'a Arc<SpareArenas>) -> Self {
        Self { simd, spare: Some(spare) }
    }

    /// As [`DramArena::reserve`]; an arena that was kept has lines already, all zero again.
    ///
    /// # Errors
    /// As [`DramArena::reserve`].
    pub fn reserve(&self, max_bytes: u64) -> Result<DramArena, MapError> {
        let kept = self.spare.and_then(|spare| spare.take(max_bytes.next_multiple_of(HUGE_PAGE)));
        let mut arena = match kept {
            Some(region) => DramArena::over(region),
            None => DramArena::reserve(max_bytes)?,
        };
        let lines = arena.lines();
        arena
            .lines_at(0, lines)
            .iter()
            .flat_map(|line| &line.0)
            .for_each(|word| word.store(0, Ordering::Relaxed));
        arena.spare = self.spare.cloned();
        Ok(arena)
    }
}

impl Drop for DramArena {
    fn drop(&mut self) {
        // SAFETY: the region is taken once, here, and not used afterwards.
        let region = unsafe { ManuallyDrop::take(&mut self.region) };
        if let Some(spare) = &self.spare {
            spare.keep(region);
        }
    }
}

impl DramArena {
    fn over(region: Region) -> Self {
        let lines = AtomicUsize::new(region.len() as usize / LINE);
        Self { region: ManuallyDrop::new(region), lines, spare: None }
    }

    /// An empty arena that can grow to `max_bytes` (less if the system has not so many addresses).
    /// Takes no memory yet.
    ///
    /// # Errors
    /// [`MapError::System`] when the system has no addresses.
    pub fn reserve(max_bytes: u64) -> Result<Self, MapError> {
        Region::anonymous(0, max_bytes.next_multiple_of(HUGE_PAGE)).map(Self::over)
    }

    /// Lengthens the arena to at least `lines` lines; nothing to do if it has them. Only one thread
    /// may do so at a time.
    ///
    /// # Errors
    /// [`MapError::System`] when the reservation or the memory is exhausted; the arena is unchanged
    /// then.
    pub fn ensure(&self, lines: usize) -> Result<(), MapError> {
        let wanted = (lines as u64).saturating_mul(LINE as u64);
        if wanted <= self.region.len() { Ok(()) } else { self.grow(wanted) }
    }

    /// Whether an arena of so many lines lies in huge pages.
    pub fn takes_huge_pages(lines: usize) -> bool {
        (lines as u64).saturating_mul(LINE as u64) > HUGE_PAGE / 2
    }

    /// Huge pages that the arena has begun.
    pub fn huge_pages(&self) -> usize {
        self.region.len().div_ceil(HUGE_PAGE) as usize
    }

    /// Has the system give the memory of a huge page of the arena now rather than at the first
    /// store to it; false if it has no such page. Threads that will fill the arena together share
    /// out the zeroing of its pages in this way: when two of them come to a page at the same
    /// moment, both zero one.
    pub fn fault_in(&self, page: usize) -> bool {
        let line = (page as u64).saturating_mul(HUGE_PAGE / LINE as u64);
        let Some([line]) = u32::try_from(line).ok().and_then(|line| self.get(line, 1)) else {
            return false;
        };
        // Changes nothing, and is a store to the system; an addition of nothing would be compiled
        // to a load.
        let _ = line.0[0].compare_exchange(0, 0, Ordering::Relaxed, Ordering::Relaxed);
        true
    }

    #[cold]
    fn grow(&self, wanted: u64) -> Result<(), MapError> {
        let small = self.region.len() < HUGE_PAGE;
        let exhausted = || MapError::System {
            action: "taking memory for inner nodes",
            source: io::ErrorKind::OutOfMemory.into(),
        };
        if wanted > self.region.max_len() {
            return Err(exhausted());
        }
        let step = if Self::takes_huge_pages(wanted as usize / LINE) {
            wanted.next_multiple_of(HUGE_PAGE).min(self.region.max_len())
        } else {
            wanted.next_power_of_two().max(SMALLEST)
        };
        let partly_faulted = small && !self.region.is_empty() && step >= HUGE_PAGE;
        self.region.grow(step).map_err(|_| exhausted())?;
        self.lines.store(self.region.len() as usize / LINE, Ordering::Release);
        if partly_faulted {
            self.region.collapse(HUGE_PAGE);
        }
        Ok(())
    }

    /// Lines that can be used now.
    #[inline(always)]
    pub fn lines(&self) -> usize {
        self.lines.load(Ordering::Acquire)
    }

    /// Bytes that are mapped now.
    pub fn bytes(&self) -> u64 {
        self.region.len()
    }

    /// The line with this index.
    ///
    /// # Panics
    /// If the arena is shorter: a mistake of the programmer, indices come from the arena's owner
    /// and never from a file.
    #[inline(always)]
    pub fn line(&self, index: u32) -> &DramLine {
        &self.lines_at(index, 1)[0]
    }

    /// `count` lines that follow one another.
    ///
    /// # Panics
    /// As [`line`](DramArena::line).
    #[inline(always)]
    pub fn lines_at(&self, index: u32, count: usize) -> &[DramLine] {
        self.get(index, count).expect("the arena has such lines")
    }

    /// All lines that there are now: a loop that takes them once need not check each index.
    #[inline(always)]
    pub fn all(&self) -> &[DramLine] {
        // SAFETY: as in `get`, for as many lines as are inside; a mapping that grows keeps what it
        // has.
        unsafe { std::slice::from_raw_parts(self.region.base().cast::<DramLine>(), self.lines()) }
    }

    /// `count` lines that follow one another; none if the arena is shorter. One comparison.
    #[inline(always)]
    pub fn get(&self, index: u32, count: usize) -> Option<&[DramLine]> {
        let start = index as usize;
        if start.checked_add(count)? > self.lines() {
            return None;
        }
        let base = self.region.base().cast::<DramLine>();
        // SAFETY: inside the mapping, which never moves while `self` lives, and is not at address
        // 0; the base is aligned to a huge page, so every line is aligned; DramLine is eight atomic
        // words, for which any bit pattern is valid and racing accesses are defined.
        Some(unsafe {
            std::hint::assert_unchecked(!base.add(start).is_null());
            std::slice::from_raw_parts(base.add(start), count)
        })
    }

    /// Asks for a line ahead of its use. Any index will do.
    #[inline(always)]
    pub fn prefetch(&self, index: u32) {
        instructions::prefetch(self.region.base().addr().wrapping_add(index as usize * LINE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn an_arena_grows_in_place_and_keeps_its_words() {
        let arena = DramArena::reserve(64 << 20).unwrap();
        assert_eq!((arena.lines(), arena.bytes()), (0, 0));
        let mut last = 0;
        for lines in [1, 256, 257, 5_000, 20_000, 40_000, 100_000] {
            arena.ensure(lines).unwrap();
            assert!(arena.lines() >= lines);
            if last > 0 {
                assert_eq!(arena.line(last - 1).0[7].load(Ordering::Relaxed), u64::from(last));
            }
            last = lines as u32;
            assert_eq!(arena.line(last - 1).0[7].load(Ordering::Relaxed), 0, "new lines are zero");
            arena.line(last - 1).0[7].store(u64::from(last), Ordering::Relaxed);
        }
        assert_eq!(arena.bytes() % HUGE_PAGE, 0);
        assert!(
            arena.bytes() - 100_000 * LINE as u64 <= HUGE_PAGE,
            "no more than a huge page is spare"
        );
    }

    #[test]
    fn pages_that_are_faulted_in_keep_their_words() {
        let arena = DramArena::reserve(64 << 20).unwrap();
        assert!(!arena.fault_in(0), "there are no lines yet");
        assert_eq!(arena.huge_pages(), 0);
        arena.ensure(3 * HUGE_PAGE as usize / LINE).unwrap();
        assert_eq!(arena.huge_pages(), 3);
        arena.line(0).0[0].store(7, Ordering::Relaxed);
        assert_eq!(
            [0, 1, 2, 3, 1 << 20, usize::MAX].map(|page| arena.fault_in(page)),
            [true, true, true, false, false, false]
        );
        assert_eq!(
            (
                arena.line(0).0[0].load(Ordering::Relaxed),
                arena.line(HUGE_PAGE as u32 / 64).0[0].load(Ordering::Relaxed)
            ),
            (7, 0)
        );
    }

    #[test]
    fn an_arena_that_was_kept_is_zero_again() {
        let spare = Arc::default();
        let source = DramSource::with_spare(SimdLevel::SCALAR, &spare);
        let first = source.reserve(4 << 20).unwrap();
        let other = source.reserve(4 << 20).unwrap();
        for arena in [&first, &other] {
            arena.ensure(300).unwrap();
            (0..300).for_each(|i| arena.line(i).0[3].store(7, Ordering::Relaxed));
        }
        let (place, bytes) = (std::ptr::from_ref(first.line(0)), first.bytes());
        drop(first);
        let again = source.reserve(4 << 20).unwrap();
        assert_eq!(
            (std::ptr::from_ref(again.line(0)), again.bytes()),
            (place, bytes),
            "the same memory"
        );
        assert!(
            again
                .lines_at(0, 300)
                .iter()
                .all(|line| line.0.iter().all(|word| word.load(Ordering::Relaxed) == 0))
        );
        assert_eq!(other.line(299).0[3].load(Ordering::Relaxed), 7, "it is another one's still");
        drop(again);
        assert_eq!(source.reserve(8 << 20).unwrap().bytes(), 0, "another size");
    }

    #[test]
    fn an_exhausted_reservation_is_an_error() {
        let arena = DramArena::reserve(4 << 20).unwrap();
        assert!(arena.ensure(usize::MAX).is_err());
        arena.ensure(1).unwrap();
        assert!(arena.ensure((4 << 20) / LINE + 1).is_err());
        arena.ensure((4 << 20) / LINE).unwrap();
    }

    #[test]
    fn no_count_of_lines_is_so_large_that_it_looks_small() {
        let arena = DramArena::reserve(4 << 20).unwrap();
        arena.ensure(256).unwrap();
        // So many bytes are 64, and 0, of what fits into a word.
        for count in [usize::MAX / LINE + 2, usize::MAX / LINE + 1, usize::MAX, 1 << 60] {
            assert!(arena.get(1, count).is_none(), "{count}");
        }
        assert_eq!(arena.get(0, arena.lines()).map(<[_]>::len), Some(arena.lines()));
        assert!(arena.get(u32::MAX, 0).is_none() && arena.get(0, 0).is_some());
    }

    #[test]
    #[should_panic(expected = "such lines")]
    fn a_line_outside_is_refused() {
        let arena = DramArena::reserve(4 << 20).unwrap();
        arena.ensure(256).unwrap();
        arena.lines_at(arena.lines() as u32 - 1, 2);
    }
}
