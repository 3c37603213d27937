//! The media that users run on: real memory and real instructions.

use std::sync::atomic::Ordering;

use crate::cpu::{Cpu, FlushInstruction, LineWriteMethod, Rtm, SimdLevel};
use crate::{
    Durability, LINE, Line, LineAtomicity, MapError, Media, Medium, PCell, Persistent, Region,
    Site, Word, instructions, simd,
};

/// Real memory. What a flush and a fence are is decided once, by the medium (or by force, for
/// measurements):
///
/// | medium | flush | fence |
/// |---|---|---|
/// | DAX, ADR | `clwb`, `clflushopt` or `clflush`, the first that there is | `sfence` |
/// | DAX, eADR | none | `sfence`: store buffers are outside the domain |
/// | tmpfs, page cache, anonymous | none: the caches outlive the process | none |
#[derive(Debug)]
pub struct Hardware {
    region: Region,
    flush: FlushInstruction,
    fence: bool,
    line_write: LineWriteMethod,
    simd: SimdLevel,
    rtm: Option<Rtm>,
}

impl Hardware {
    /// As the region's medium needs it.
    ///
    /// # Errors
    /// [`MapError::Unsupported`] if the medium needs a flush instruction and the processor has
    /// none.
    pub fn new(region: Region, cpu: &Cpu) -> Result<Self, MapError> {
        let flush = match region.medium() {
            Medium::Dax if !region.caches_persist() => {
                let purpose = "power-fail durability";
                cpu.best_flush()
                    .ok_or(MapError::Unsupported { instruction: "flush instruction", purpose })?
            }
            _ => FlushInstruction::None,
        };
        let fence = region.medium() == Medium::Dax;
        Ok(Self {
            region,
            flush,
            fence,
            line_write: cpu.best_line_write(flush),
            simd: cpu.simd(),
            rtm: cpu.rtm(),
        })
    }

    /// Flushes with `flush` and fences whatever the medium, for measurements;
    /// `FlushInstruction::None` leaves both out.
    ///
    /// # Errors
    /// [`MapError::Unsupported`] if the processor lacks the instruction.
    pub fn forced(region: Region, cpu: &Cpu, flush: FlushInstruction) -> Result<Self, MapError> {
        if !cpu.has(flush) {
            let instruction = match flush {
                FlushInstruction::Clwb => "clwb",
                FlushInstruction::ClflushOpt => "clflushopt",
                _ => "clflush",
            };
            return Err(MapError::Unsupported { instruction, purpose: "the forced flush" });
        }
        let fence = flush != FlushInstruction::None;
        Ok(Self {
            region,
            flush,
            fence,
            line_write: cpu.best_line_write(flush),
            simd: cpu.simd(),
            rtm: cpu.rtm(),
        })
    }

    /// How whole lines are written.
    pub fn line_write_method(&self) -> LineWriteMethod {
        self.line_write
    }

    /// Writes whole lines by `method`, for measurements.
    ///
    /// # Errors
    /// [`MapError::Unsupported`] if the processor lacks it.
    pub fn with_line_write(mut self, cpu: &Cpu, method: LineWriteMethod) -> Result<Self, MapError> {
        if !cpu.has_line_write(method) {
            let instruction = match method {
                LineWriteMethod::Movdir64b => "movdir64b",
                _ => "rtm",
            };
            return Err(MapError::Unsupported { instruction, purpose: "whole lines" });
        }
        self.line_write = method;
        Ok(self)
    }

    /// As [`try_write_line`](Media::try_write_line). How many attempts it took.
    ///
    /// # Errors
    /// How many attempts aborted, if all did: nothing is written. 0 if there is no way to.
    #[inline]
    pub fn line_write_attempts(
        &self,
        site: Site,
        line: &Line,
        words: [u64; 8],
    ) -> Result<u32, u32> {
        let attempts = instructions::try_write_line(self.line_write, line, &words)?;
        if self.line_write != LineWriteMethod::Movdir64b {
            self.flush(site, &line.0[0]);
        }
        Ok(attempts)
    }

    /// The memory, exclusively.
    pub fn region_mut(&mut self) -> &mut Region {
        &mut self.region
    }

    /// The memory, of which nothing is used as this media any more.
    pub fn into_region(self) -> Region {
        self.region
    }

    /// Limits vector compares to `level`, for measurements.
    pub fn with_simd(mut self, level: SimdLevel) -> Self {
        self.simd = self.simd.min(level);
        self
    }
}

impl Media for Hardware {
    #[inline(always)]
    fn region(&self) -> &Region {
        &self.region
    }
    fn flush_instruction(&self) -> FlushInstruction {
        self.flush
    }
    #[inline(always)]
    fn simd(&self) -> SimdLevel {
        self.simd
    }
    fn durability(&self) -> Durability {
        let promised = self.region.medium().durability();
        // Where flushes are forced off there are no fences either.
        if self.fence { promised } else { promised.min(Durability::ProcessCrash) }
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
    fn match_word(&self, line: &Line, word: u64) -> (u64, u64) {
        simd::match_word(self.simd, line, word)
    }
    #[inline(always)]
    fn prefetch<T: Persistent>(&self, object: &T) {
        instructions::prefetch((object as *const T).addr());
    }
    #[inline(always)]
    fn flush<T: Word>(&self, _site: Site, cell: &PCell<T>) {
        instructions::flush(self.flush, cell.address());
    }
    #[inline(always)]
    fn flush_object<T: Persistent>(&self, _site: Site, object: &T) {
        if self.flush != FlushInstruction::None {
            for line in lines_of(object) {
                instructions::flush(self.flush, line);
            }
        }
    }
    #[inline(always)]
    fn fence(&self, _site: Site) {
        if self.fence {
            instructions::store_fence();
        } else {
            std::sync::atomic::compiler_fence(Ordering::SeqCst);
        }
    }
    #[inline(always)]
    fn order(&self, _site: Site) {
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
    }
    /// What no processor documents: that a line is kept whole on its way to memory. A pool may
    /// assume it.
    fn may_write_lines(&self) -> bool {
        self.line_write != LineWriteMethod::Words
    }
    fn try_write_line(&self, site: Site, line: &Line, words: [u64; 8]) -> bool {
        self.line_write_attempts(site, line, words).is_ok()
    }
    fn write_line(&self, site: Site, line: &Line, words: [u64; 8]) -> LineAtomicity {
        let promised = instructions::write_line(self.line_write, line, &words);
        if self.line_write != LineWriteMethod::Movdir64b {
            self.flush(site, &line.0[0]);
        }
        promised
    }
    #[inline(always)]
    fn relax(&self) {
        std::hint::spin_loop();
    }
    #[inline(always)]
    fn end_operation(&self) {}
}

/// The addresses of the lines that an object touches.
#[inline(always)]
pub(crate) fn lines_of<T>(object: &T) -> impl Iterator<Item = usize> + use<T> {
    let start = (object as *const T).addr();
    (start / LINE * LINE..start + size_of::<T>()).step_by(LINE)
}
