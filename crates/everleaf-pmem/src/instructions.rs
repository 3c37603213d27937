//! The machine instructions of persistence. Each clobbers memory, so that the compiler moves no
//! store across it.
//!
//! All of them take addresses of cells inside a [`Region`](crate::Region); none reads or writes
//! Rust-visible memory except `write_line`, which stores whole words of a line.

use crate::{FlushInstruction, Line, LineAtomicity, LineWriteMethod};

#[cfg(target_arch = "x86_64")]
mod imp {
    use std::arch::asm;

    #[inline(always)]
    pub fn clwb(address: usize) {
        // SAFETY: writes a mapped line back; changes no value. The CPU has it: checked when the
        // media was made.
        unsafe { asm!("clwb [{}]", in(reg) address, options(nostack, preserves_flags)) }
    }
    #[inline(always)]
    pub fn clflushopt(address: usize) {
        // SAFETY: as `clwb`.
        unsafe { asm!("clflushopt [{}]", in(reg) address, options(nostack, preserves_flags)) }
    }
    #[inline(always)]
    pub fn clflush(address: usize) {
        // SAFETY: as `clwb`.
        unsafe { asm!("clflush [{}]", in(reg) address, options(nostack, preserves_flags)) }
    }
    #[inline(always)]
    pub fn store_fence() {
        // SAFETY: orders stores; changes no value.
        unsafe { asm!("sfence", options(nostack, preserves_flags)) }
    }
    /// A flush comes after every load before it.
    #[inline(always)]
    pub fn loads_before_flushes() {}
    #[inline(always)]
    pub fn prefetch(address: usize) {
        // SAFETY: a hint; never faults.
        unsafe {
            asm!("prefetcht0 [{}]", in(reg) address, options(nostack, preserves_flags, readonly))
        }
    }

    /// Asks for a line that will be written.
    #[inline(always)]
    pub fn prefetch_to_write(address: usize) {
        // SAFETY: a hint; never faults, and does nothing on a CPU that does not know it.
        unsafe {
            asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags, readonly))
        }
    }

    /// Stores 64 bytes with `movdir64b`; the caller fences.
    pub fn movdir64b(line: usize, words: &[u64; 8]) {
        // SAFETY: writes exactly the 64 bytes of one line-aligned `Line` of atomic words, from a
        // live array; CPU checked.
        unsafe {
            asm!(
                "movdir64b {dst}, [{src}]",
                dst = in(reg) line, src = in(reg) words.as_ptr(),
                options(nostack, preserves_flags)
            );
        }
    }

    /// Stores 64 bytes in one hardware transaction. False: it aborted and nothing was written.
    pub fn transactional_line(line: usize, words: &[u64; 8]) -> bool {
        let status: u32;
        // SAFETY: the whole transaction is one asm block: either all eight stores to the line's
        // atomic words happen and eax stays -1, or none does and eax holds the abort status. CPU
        // checked when the media was made.
        unsafe {
            asm!(
                "mov eax, -1",
                "xbegin 2f",
                "mov {t}, [{s}]",      "mov [{d}], {t}",
                "mov {t}, [{s} + 8]",  "mov [{d} + 8], {t}",
                "mov {t}, [{s} + 16]", "mov [{d} + 16], {t}",
                "mov {t}, [{s} + 24]", "mov [{d} + 24], {t}",
                "mov {t}, [{s} + 32]", "mov [{d} + 32], {t}",
                "mov {t}, [{s} + 40]", "mov [{d} + 40], {t}",
                "mov {t}, [{s} + 48]", "mov [{d} + 48], {t}",
                "mov {t}, [{s} + 56]", "mov [{d} + 56], {t}",
                "xend",
                "2:",
                d = in(reg) line, s = in(reg) words.as_ptr(), t = out(reg) _, out("eax") status,
                options(nostack)
            );
        }
        status == u32::MAX
    }

    /// The processor's counter of time, in ticks of its own.
    #[inline(always)]
    pub fn timestamp() -> u64 {
        // SAFETY: reads a counter.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
}

#[cfg(target_arch = "aarch64")]
mod imp {
    use std::arch::asm;

    #[inline(always)]
    pub fn clwb(address: usize) {
        // `dc cvap` by its encoding: the assembler knows the name only where the target has
        // FEAT_DPB, which is found out at run time. SAFETY: cleans a mapped line to the point of
        // persistence; changes no value. The CPU has it: checked by the media.
        unsafe {
            asm!("sys #3, c7, c12, #1, {}", in(reg) address, options(nostack, preserves_flags))
        }
    }
    pub fn clflushopt(address: usize) {
        clflush(address);
    }
    #[inline(always)]
    pub fn clflush(address: usize) {
        // SAFETY: cleans and invalidates a mapped line to the point of coherency; changes no value.
        unsafe { asm!("dc civac, {}", in(reg) address, options(nostack, preserves_flags)) }
    }
    #[inline(always)]
    pub fn store_fence() {
        // The whole system: the point of persistence may lie outside the inner shareable domain.
        // SAFETY: waits for cache maintenance and stores; changes no value.
        unsafe { asm!("dsb sy", options(nostack, preserves_flags)) }
    }
    /// Cache maintenance keeps its place among the thread's accesses to the same line, and among
    /// others by a full barrier alone: it may overtake a load with acquire of another line.
    #[inline(always)]
    pub fn loads_before_flushes() {
        // SAFETY: orders accesses; changes no value.
        unsafe { asm!("dmb sy", options(nostack, preserves_flags)) }
    }
    #[inline(always)]
    pub fn prefetch(address: usize) {
        // SAFETY: a hint; never faults.
        unsafe {
            asm!(
                "prfm pldl1keep, [{}]", in(reg) address,
                options(nostack, preserves_flags, readonly)
            )
        }
    }
    pub fn prefetch_to_write(address: usize) {
        // SAFETY: a hint; never faults.
        unsafe {
            asm!(
                "prfm pstl1keep, [{}]", in(reg) address,
                options(nostack, preserves_flags, readonly)
            )
        }
    }
    pub fn movdir64b(_line: usize, _words: &[u64; 8]) {
        unreachable!("Cpu::detect reports no movdir64b on aarch64");
    }
    pub fn transactional_line(_line: usize, _words: &[u64; 8]) -> bool {
        false
    }
    /// The processor's counter of time, in ticks of its own.
    #[inline(always)]
    pub fn timestamp() -> u64 {
        let ticks: u64;
        // SAFETY: reads a counter.
        unsafe {
            asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nostack, nomem, preserves_flags))
        }
        ticks
    }
}

pub use imp::timestamp;
pub(crate) use imp::{loads_before_flushes, prefetch, prefetch_to_write, store_fence};

/// Writes back the line that holds `address`.
#[inline(always)]
pub(crate) fn flush(instruction: FlushInstruction, address: usize) {
    match instruction {
        FlushInstruction::Clwb => imp::clwb(address),
        FlushInstruction::ClflushOpt => imp::clflushopt(address),
        FlushInstruction::Clflush => imp::clflush(address),
        FlushInstruction::None => {
            std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst)
        }
    }
}

/// How often a transactional line write is tried before the words are stored one by one.
const TRANSACTION_ATTEMPTS: u32 = 8;

/// Writes a line by the given method, and tells what that promises.
pub(crate) fn write_line(method: LineWriteMethod, line: &Line, words: &[u64; 8]) -> LineAtomicity {
    let address = line.0[0].address();
    match method {
        LineWriteMethod::Movdir64b => {
            imp::movdir64b(address, words);
            LineAtomicity::Line
        }
        LineWriteMethod::Transaction => {
            write_by_transaction(line, words, || imp::transactional_line(address, words))
        }
        LineWriteMethod::Words => write_by_words(line, words),
    }
}

/// Writes a line at once by the given method, or nothing. How many attempts it took, or, as an
/// error, how many were given up.
pub(crate) fn try_write_line(
    method: LineWriteMethod,
    line: &Line,
    words: &[u64; 8],
) -> Result<u32, u32> {
    let address = line.0[0].address();
    match method {
        LineWriteMethod::Movdir64b => {
            imp::movdir64b(address, words);
            Ok(1)
        }
        LineWriteMethod::Transaction => {
            try_transactions(line, words, || imp::transactional_line(address, words))
        }
        LineWriteMethod::Words => Err(0),
    }
}

/// Attempts of a transaction, until one does not abort; how many, or how many were given up.
fn try_transactions(
    line: &Line,
    words: &[u64; 8],
    mut attempt: impl FnMut() -> bool,
) -> Result<u32, u32> {
    // A page fault aborts every attempt until the page was touched outside a transaction.
    line.0[0].compare_exchange(words[0], words[0]).ok();
    (1..=TRANSACTION_ATTEMPTS).find(|_| attempt()).ok_or(TRANSACTION_ATTEMPTS)
}

/// Writes a line by attempts of a transaction; word by word, which promises less, if all abort.
fn write_by_transaction(
    line: &Line,
    words: &[u64; 8],
    attempt: impl FnMut() -> bool,
) -> LineAtomicity {
    if try_transactions(line, words, attempt).is_ok() {
        LineAtomicity::Line
    } else {
        write_by_words(line, words)
    }
}

fn write_by_words(line: &Line, words: &[u64; 8]) -> LineAtomicity {
    for (cell, word) in line.0.iter().zip(words) {
        cell.store(*word, std::sync::atomic::Ordering::Release);
    }
    LineAtomicity::Words
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::{Cpu, FlushInstruction, PCell};

    fn content(line: &Line) -> [u64; 8] {
        line.0.each_ref().map(|cell| cell.load(Relaxed))
    }

    #[test]
    fn a_line_write_whose_transactions_abort_promises_no_more_than_words() {
        let line = Line([const { PCell::zeroed() }; 8]);
        let mut attempts = 0;
        let promised = write_by_transaction(&line, &[7; 8], || {
            attempts += 1;
            false
        });
        assert_eq!((promised, attempts), (LineAtomicity::Words, TRANSACTION_ATTEMPTS));
        assert_eq!(content(&line), [7; 8], "it is written all the same");
        let given_up = try_transactions(&line, &[9; 8], || false);
        assert_eq!(given_up, Err(TRANSACTION_ATTEMPTS));
        assert_eq!(content(&line), [7; 8], "an attempt that aborts writes nothing");
        let promised = write_by_transaction(&line, &[8; 8], || {
            attempts += 1;
            attempts == TRANSACTION_ATTEMPTS + 3
        });
        assert_eq!(promised, LineAtomicity::Line);
        assert_eq!(content(&line), [7; 8], "the transaction would have written it");
        let mut attempts = 0;
        let third = try_transactions(&line, &[8; 8], || {
            attempts += 1;
            attempts == 3
        });
        assert_eq!(third, Ok(3));
    }

    #[test]
    fn every_method_of_this_processor_writes_the_line_and_says_what_it_promised() {
        let cpu = Cpu::detect();
        let line = Line([const { PCell::zeroed() }; 8]);
        let direct = cpu.best_line_write(FlushInstruction::Clflush) == LineWriteMethod::Movdir64b;
        let methods = [
            (LineWriteMethod::Words, true, LineAtomicity::Words),
            (LineWriteMethod::Movdir64b, direct, LineAtomicity::Line),
            (LineWriteMethod::Transaction, cpu.rtm().is_some(), LineAtomicity::Line),
        ];
        for (i, (method, available, promises)) in methods.into_iter().enumerate() {
            if !available {
                println!("not run: this processor has no {method:?}");
                continue;
            }
            let words = std::array::from_fn(|word| (i * 8 + word) as u64);
            let promised = write_line(method, &line, &words);
            assert_eq!(content(&line), words, "{method:?}: this thread sees it at once");
            // A transaction may abort now and then; it must not do so every time.
            let promised = (0..100).fold(promised, |promised, _| match promised {
                LineAtomicity::Line => promised,
                LineAtomicity::Words => write_line(method, &line, &words),
            });
            assert_eq!(promised, promises, "{method:?}");
        }
    }

    #[test]
    fn movdir64b_is_taken_only_where_lines_are_flushed() {
        let cpu = Cpu::detect();
        assert_ne!(cpu.best_line_write(FlushInstruction::None), LineWriteMethod::Movdir64b);
        let region = crate::Region::anonymous(4096, 4096).unwrap();
        let unflushed = crate::Mapped::new(region, &cpu).unwrap();
        assert_ne!(unflushed.line_write_method(), LineWriteMethod::Movdir64b);
    }
}
