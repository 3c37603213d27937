//! The media of the transient twins: the same trees in memory that does not survive.

use std::sync::atomic::Ordering;

use crate::cpu::{Cpu, Rtm, SimdLevel};
use crate::{
    Line, LineAtomicity, Media, PCell, Persistent, Region, Site, Word, instructions, simd,
};

/// DRAM: flushes and fences are compiled away.
#[derive(Debug)]
pub struct Dram {
    region: Region,
    simd: SimdLevel,
    rtm: Option<Rtm>,
}

impl Dram {
    /// Any region will do; an anonymous one is natural.
    pub fn new(region: Region, cpu: &Cpu) -> Self {
        Self { region, simd: cpu.simd(), rtm: cpu.rtm() }
    }
}

impl Media for Dram {
    #[inline(always)]
    fn region(&self) -> &Region {
        &self.region
    }
    #[inline(always)]
    fn simd(&self) -> SimdLevel {
        self.simd
    }
    fn rtm(&self) -> Option<Rtm> {
        self.rtm
    }
    #[inline(always)]
    fn load<T: Word>(&self, cell: &PCell<T>) -> T {
        T::from_word(cell.load(Ordering::Acquire))
    }
    #[inline(always)]
    fn store<T: Word>(&self, cell: &PCell<T>, value: T) {
        cell.store(value.into_word(), Ordering::Release);
    }
    #[inline(always)]
    fn compare_exchange<T: Word>(&self, cell: &PCell<T>, current: T, new: T) -> Result<(), T> {
        cell.compare_exchange(current.into_word(), new.into_word())
            .map(|_| ())
            .map_err(T::from_word)
    }
    #[inline(always)]
    fn match_line(&self, line: &Line, byte: u8) -> (u64, u64) {
        simd::match_line(self.simd, line, byte)
    }
    #[inline(always)]
    fn prefetch<T: Persistent>(&self, object: &T) {
        instructions::prefetch((object as *const T).addr());
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
        std::hint::spin_loop();
    }
    #[inline(always)]
    fn end_operation(&self) {}
}
