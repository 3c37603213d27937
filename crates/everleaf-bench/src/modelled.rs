//! The media of counting runs: [`Counted`], and a model of a cache, which tells which reads would
//! have gone to persistent memory.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use everleaf_pmem::{
    Counted, Counter, Counts, LINE, Line, LineAtomicity, Media, PCell, PPtr, Persistent, Region,
    Rtm, SimdLevel, Site, Word,
};

/// Bytes of the modelled cache: those of the cache that [`Emulated`](everleaf_pmem::Emulated)
/// models.
const CACHE_BYTES: usize = 16 << 20;

/// What a counting run counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub counts: Counts,
    /// Reads of lines that the modelled cache did not hold.
    pub misses: u64,
}

/// Counts, and models the cache of the emulation: direct-mapped, asked by reads and exchanges and
/// not by stores.
pub(crate) struct Modelled {
    counted: Counted,
    /// Address of the region: places in the cache are those of offsets, so that the place of the
    /// mapping changes nothing.
    base: usize,
    cached_lines: Box<[AtomicU64]>,
    misses: AtomicU64,
}

impl Modelled {
    pub fn new(counted: Counted) -> Self {
        let cached_lines = (0..CACHE_BYTES / LINE).map(|_| AtomicU64::new(0)).collect();
        let second: &Line =
            counted.region().get(PPtr::at(LINE as u64)).expect("every region has two lines");
        let base = (second as *const Line).addr() - LINE;
        Self { counted, base, cached_lines, misses: AtomicU64::new(0) }
    }

    /// Everything counted since the last reset.
    pub fn tally(&self) -> Tally {
        Tally { counts: self.counted.counts(), misses: self.misses.load(Relaxed) }
    }

    /// Starts from zero; the cache keeps what it holds.
    pub fn reset(&self) {
        self.counted.reset();
        self.misses.store(0, Relaxed);
    }

    fn touch(&self, address: usize) {
        let line = ((address - self.base) / LINE) as u64 + 1; // 0 is no line.
        let place = &self.cached_lines[line as usize % self.cached_lines.len()];
        if place.load(Relaxed) != line {
            place.store(line, Relaxed);
            self.misses.fetch_add(1, Relaxed);
        }
    }
}

impl Media for Modelled {
    const COUNTS_READS: bool = true;
    const REPEATABLE: bool = true;

    fn region(&self) -> &Region {
        self.counted.region()
    }
    fn simd(&self) -> SimdLevel {
        self.counted.simd()
    }
    fn rtm(&self) -> Option<Rtm> {
        self.counted.rtm()
    }
    fn load<T: Word>(&self, cell: &PCell<T>) -> T {
        self.touch((cell as *const PCell<T>).addr());
        self.counted.load(cell)
    }
    fn store<T: Word>(&self, cell: &PCell<T>, value: T) {
        self.counted.store(cell, value);
    }
    fn compare_exchange<T: Word>(&self, cell: &PCell<T>, current: T, new: T) -> Result<(), T> {
        self.touch((cell as *const PCell<T>).addr());
        self.counted.compare_exchange(cell, current, new)
    }
    fn match_line(&self, line: &Line, byte: u8) -> (u64, u64) {
        self.touch((line as *const Line).addr());
        self.counted.match_line(line, byte)
    }
    fn prefetch<T: Persistent>(&self, object: &T) {
        self.counted.prefetch(object);
    }
    fn flush<T: Word>(&self, site: Site, cell: &PCell<T>) {
        self.counted.flush(site, cell);
    }
    fn flush_object<T: Persistent>(&self, site: Site, object: &T) {
        self.counted.flush_object(site, object);
    }
    fn fence(&self, site: Site) {
        self.counted.fence(site);
    }
    fn order(&self, site: Site) {
        self.counted.order(site);
    }
    fn line_atomicity(&self) -> LineAtomicity {
        self.counted.line_atomicity()
    }
    fn write_line(&self, site: Site, line: &Line, words: [u64; 8]) -> LineAtomicity {
        self.counted.write_line(site, line, words)
    }
    fn relax(&self) {
        self.counted.relax();
    }
    fn end_operation(&self) {
        self.counted.end_operation();
    }
    fn count(&self, counter: Counter, n: u64) {
        self.counted.count(counter, n);
    }
}

#[cfg(test)]
mod tests {
    use everleaf_pmem::{Cpu, Hardware, site};

    use super::*;

    #[test]
    fn a_line_misses_when_it_is_first_read_and_when_another_took_its_place() {
        let region = Region::anonymous(2 * CACHE_BYTES as u64, 4 * CACHE_BYTES as u64).unwrap();
        let media = Modelled::new(Counted::new(Hardware::new(region, &Cpu::detect()).unwrap()));
        let line = |offset: u64| media.region().get::<Line>(PPtr::at(offset)).unwrap();
        let misses = |offsets: &[u64]| {
            media.reset();
            for offset in offsets {
                media.load(&line(*offset).0[3]);
            }
            media.end_operation();
            (media.tally().misses, media.tally().counts.pm_lines_read)
        };
        let (a, far) = (640, 640 + CACHE_BYTES as u64);
        assert_eq!(misses(&[a, a, 704]), (2, 2));
        assert_eq!(misses(&[a, 704]), (0, 2), "the cache keeps what it holds");
        assert_eq!(misses(&[far, a, far]), (3, 2), "they share a place");
        media.store(&line(128).0[0], 1);
        media.flush(site!("test.flush"), &line(128).0[0]);
        assert_eq!(
            (media.tally().misses, media.tally().counts.flushes.len()),
            (3, 1),
            "stores are not asked about"
        );
    }
}
