//! The media of the transient twins: the same trees in memory that does not survive.

use everleaf_pmem::{
    Cpu, FlushInstruction, Line, LineAtomicity, MapError, Mapped, Media, PCell, Persistent, Region,
    Rtm, SimdLevel, Site, Word,
};

/// DRAM: flushes and fences are compiled away.
#[derive(Debug)]
pub struct Dram(Mapped, Growth);

/// Whether a region grows, up to its greatest size.
#[derive(Debug, PartialEq, Eq)]
enum Growth {
    Possible,
    Refused,
}

impl Dram {
    /// Any region will do; an anonymous one is natural.
    pub fn new(region: Region, cpu: &Cpu) -> Self {
        let hardware = Mapped::forced(region, cpu, FlushInstruction::None);
        let hardware = hardware.expect("no processor lacks an instruction that is none");
        Self(hardware, Growth::Possible)
    }

    /// The same as if it were a file on a disk that is full.
    #[must_use]
    pub fn on_a_full_disk(self) -> Self {
        Self(self.0, Growth::Refused)
    }
}

impl Media for Dram {
    #[inline(always)]
    fn region(&self) -> &Region {
        self.0.region()
    }
    #[inline(always)]
    fn simd(&self) -> SimdLevel {
        self.0.simd()
    }
    fn rtm(&self) -> Option<Rtm> {
        self.0.rtm()
    }
    #[inline(always)]
    fn load<T: Word>(&self, cell: &PCell<T>) -> T {
        self.0.load(cell)
    }
    #[inline(always)]
    fn store<T: Word>(&self, cell: &PCell<T>, value: T) {
        self.0.store(cell, value);
    }
    #[inline(always)]
    fn compare_exchange<T: Word>(&self, cell: &PCell<T>, current: T, new: T) -> Result<(), T> {
        self.0.compare_exchange(cell, current, new)
    }
    #[inline(always)]
    fn match_line(&self, line: &Line, byte: u8) -> (u64, u64) {
        self.0.match_line(line, byte)
    }
    #[inline(always)]
    fn match_word(&self, line: &Line, word: u64) -> (u64, u64) {
        self.0.match_word(line, word)
    }
    #[inline(always)]
    fn prefetch<T: Persistent>(&self, object: &T) {
        self.0.prefetch(object);
    }
    #[inline(always)]
    fn flush<T: Word>(&self, _site: Site, _cell: &PCell<T>) {}
    #[inline(always)]
    fn flush_object<T: Persistent>(&self, _site: Site, _object: &T) {}
    #[inline(always)]
    fn fence(&self, _site: Site) {}
    #[inline(always)]
    fn order(&self, _site: Site) {}
    /// Nothing is left after a failure, so nothing is torn either.
    fn line_atomicity(&self) -> LineAtomicity {
        LineAtomicity::Line
    }
    fn write_line(&self, _site: Site, line: &Line, words: [u64; 8]) -> LineAtomicity {
        for (cell, word) in line.0.iter().zip(words) {
            self.store(cell, word);
        }
        self.line_atomicity()
    }
    #[inline(always)]
    fn relax(&self) {
        self.0.relax();
    }
    #[inline(always)]
    fn end_operation(&self) {}
    fn grow(&self, new_len: u64) -> Result<(), MapError> {
        let requested_bytes = new_len.saturating_sub(self.region().len());
        match self.1 {
            Growth::Possible => self.region().grow(new_len),
            Growth::Refused => Err(MapError::DiskFull { requested_bytes }),
        }
    }
}
