//! The media that users run on: real memory and real instructions, with a log or without one.
//!
//! With a log what stores and flushes does so by way of the log; all else is the same. That arm is
//! a call of a function that is never inlined, so that the other, which persistent memory runs on,
//! is one test of a field and the instruction.

use std::sync::atomic::Ordering;

use crate::cpu::{Cpu, FlushInstruction, LineWriteMethod, Rtm, SimdLevel};
use crate::{
    Durability, DurablePoint, LINE, Line, LineAtomicity, LogCounts, MapError, Media, MediaError,
    Medium, PCell, Persistent, RedoLog, Region, Site, Word, instructions, simd,
};

/// Real memory. What a flush and a fence are is decided once, by the medium (or by force, for
/// measurements):
///
/// | medium | flush | fence |
/// |---|---|---|
/// | DAX, ADR | `clwb`, `clflushopt` or `clflush`, the first that there is | `sfence` |
/// | DAX, ADR, on aarch64 | `dc cvap` | `dsb sy` |
/// | DAX, eADR | none | `sfence` or `dsb sy`: store buffers are outside the domain |
/// | tmpfs, page cache, anonymous | none: the caches outlive the process | none |
/// | any memory with a log | a copy of what is new in the line | none: a wait makes it durable |
#[derive(Debug)]
pub struct Mapped {
    /// Before the region: it writes what the memory holds when it is dropped.
    log: Option<Box<dyn RedoLog>>,
    region: Region,
    flush: FlushInstruction,
    fence: bool,
    line_write: LineWriteMethod,
    simd: SimdLevel,
    rtm: Option<Rtm>,
}

impl Mapped {
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
        Ok(Self::with(region, cpu, flush, fence))
    }

    fn with(region: Region, cpu: &Cpu, flush: FlushInstruction, fence: bool) -> Self {
        let (line_write, simd, rtm) = (cpu.best_line_write(flush), cpu.simd(), cpu.rtm());
        Self { log: None, region, flush, fence, line_write, simd, rtm }
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
        Ok(Self::with(region, cpu, flush, flush != FlushInstruction::None))
    }

    /// What is stored and flushed from now on goes to `log`, which has another handle of the
    /// memory. What is flushed is durable when it was waited for, and not before; a line that is
    /// written whole is durable whole or not at all.
    #[must_use]
    pub fn with_log(self, log: Box<dyn RedoLog>) -> Self {
        Self { log: Some(log), flush: FlushInstruction::None, fence: false, ..self }
    }

    /// The log of what is flushed, if there is one.
    pub fn log(&self) -> Option<&(dyn RedoLog + 'static)> {
        self.log.as_deref()
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
        if let Some(log) = &self.log {
            log.write_line(self.region.pointer_to(line).offset(), line, words);
            return Ok(1);
        }
        let attempts = instructions::try_write_line(self.line_write, line, &words)?;
        if self.line_write != LineWriteMethod::Movdir64b {
            self.flush(site, &line.0[0]);
        }
        Ok(attempts)
    }

    #[cold]
    #[inline(never)]
    fn store_logged(&self, log: &dyn RedoLog, cell: &PCell, word: u64) {
        log.store(self.region.pointer_to(cell).offset(), cell, word);
    }

    #[cold]
    #[inline(never)]
    fn exchange_logged(
        &self,
        log: &dyn RedoLog,
        cell: &PCell,
        current: u64,
        new: u64,
    ) -> Result<(), u64> {
        log.compare_exchange(self.region.pointer_to(cell).offset(), cell, current, new)
    }

    /// Captures the lines of what has an address and a size in bytes.
    #[cold]
    #[inline(never)]
    fn capture(&self, log: &dyn RedoLog, address: usize, bytes: u64) {
        let first = self.region.offset_of(address);
        log.capture(first / LINE as u64..(first + bytes).div_ceil(LINE as u64));
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

impl Media for Mapped {
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
        if self.log.is_some() {
            return Durability::PowerFail;
        }
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
        match &self.log {
            None => cell.store(value.into_word(), Ordering::Release),
            Some(log) => self.store_logged(&**log, cell.as_word(), value.into_word()),
        }
    }
    #[inline(always)]
    fn compare_exchange<T: Word>(&self, cell: &PCell<T>, current: T, new: T) -> Result<(), T> {
        let (current, new) = (current.into_word(), new.into_word());
        match &self.log {
            None => cell.compare_exchange(current, new).map(|_| ()),
            Some(log) => self.exchange_logged(&**log, cell.as_word(), current, new),
        }
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
        match &self.log {
            None => instructions::flush(self.flush, cell.address()),
            Some(log) => self.capture(&**log, cell.address(), 1),
        }
    }
    #[inline(always)]
    fn flush_object<T: Persistent>(&self, _site: Site, object: &T) {
        if let Some(log) = &self.log {
            let address = (object as *const T).addr();
            self.capture(&**log, address, size_of::<T>() as u64);
        } else if self.flush != FlushInstruction::None {
            for line in lines_of(object) {
                instructions::flush(self.flush, line);
            }
        }
    }
    fn flush_lines(&self, site: Site, mut lines: impl Iterator<Item = u64>) {
        if let Some(log) = &self.log {
            return log.capture_at(&mut lines);
        }
        if self.flush != FlushInstruction::None {
            instructions::loads_before_flushes();
        }
        for offset in lines {
            let line = self.region.at::<PCell>(offset);
            self.flush(site, line.expect("lines are noted as they are written to"));
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
    fn line_atomicity(&self) -> LineAtomicity {
        if self.log.is_some() { LineAtomicity::Line } else { LineAtomicity::Words }
    }
    /// What no processor documents: that a line is kept whole on its way to memory. A pool may
    /// assume it.
    fn may_write_lines(&self) -> bool {
        self.log.is_some() || self.line_write != LineWriteMethod::Words
    }
    fn try_write_line(&self, site: Site, line: &Line, words: [u64; 8]) -> bool {
        self.line_write_attempts(site, line, words).is_ok()
    }
    fn write_line(&self, site: Site, line: &Line, words: [u64; 8]) -> LineAtomicity {
        if let Some(log) = &self.log {
            log.write_line(self.region.pointer_to(line).offset(), line, words);
            return LineAtomicity::Line;
        }
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

    #[inline(always)]
    fn is_durable_later(&self) -> bool {
        self.log.is_some()
    }
    #[inline]
    fn durable_point(&self) -> DurablePoint {
        self.log.as_ref().map_or(DurablePoint::REACHED, |log| log.point())
    }
    #[inline]
    fn is_durable(&self, point: DurablePoint) -> bool {
        self.log.as_ref().is_none_or(|log| log.is_durable(point))
    }
    #[inline]
    fn wait_durable(&self, upto: DurablePoint) -> Result<(), MediaError> {
        self.log.as_ref().map_or(Ok(()), |log| log.wait_durable(upto))
    }
    fn sync(&self) -> Result<(), MediaError> {
        match &self.log {
            None => self.region.sync(),
            Some(log) => log.sync(),
        }
    }
    /// The last checkpoint of a log. Nothing may be stored afterwards.
    fn finish(&self) -> Result<(), MediaError> {
        self.log.as_ref().map_or(Ok(()), |log| log.finish())
    }
    fn grow(&self, new_len: u64) -> Result<(), MapError> {
        if let Some(log) = &self.log {
            let max_bytes = self.region.max_len();
            if new_len > max_bytes {
                return Err(MapError::MaxSize { requested_bytes: new_len, max_bytes });
            }
            log.lengthen(new_len)?;
        }
        self.region.grow(new_len)
    }
    fn log_counts(&self) -> Option<LogCounts> {
        self.log.as_ref().map(|log| log.counts())
    }
}

/// The addresses of the lines that an object touches.
#[inline(always)]
pub(crate) fn lines_of<T>(object: &T) -> impl Iterator<Item = usize> + use<T> {
    let start = (object as *const T).addr();
    (start / LINE * LINE..start + size_of::<T>()).step_by(LINE)
}
