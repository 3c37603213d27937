//! Vector compares over lines that other threads may be writing: inline assembly, because the
//! compiler may not vectorise atomic loads. With AVX-512 the registers are `zmm16` and up, which
//! need no `vzeroupper` and do not slow later SSE code down; with AVX2 each compare ends with one.

use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(target_arch = "x86_64")]
use crate::cpu::Vectors;
use crate::{Line, SimdLevel};

/// A cache line of DRAM as eight atomic words: what the volatile parts of trees consist of.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct DramLine(
    /// The words, lowest address first.
    pub [AtomicU64; 8],
);

impl DramLine {
    /// A line whose eight words are all `word`.
    pub fn filled(word: u64) -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(word)))
    }

    /// Asks for the line ahead of its use.
    #[inline(always)]
    pub fn prefetch(&self) {
        crate::instructions::prefetch(self.0.as_ptr().addr());
    }

    /// How many of the eight words are at most `key` (unsigned). In a sorted node: the rank of
    /// `key` within the line.
    #[inline(always)]
    pub fn count_at_most(&self, level: SimdLevel, key: u64) -> usize {
        match level.0 {
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx512 => self.count_at_most_avx512(key),
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx2 => self.count_at_most_avx2(key),
            _ => self.count_at_most_by_words(key),
        }
    }

    /// Apart: inlined into a search it would take the registers of the vector versions.
    #[inline(never)]
    fn count_at_most_by_words(&self, key: u64) -> usize {
        self.0.iter().map(|word| usize::from(word.load(Ordering::Relaxed) <= key)).sum()
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn count_at_most_avx512(&self, key: u64) -> usize {
        let count: u64;
        // SAFETY: reads the 64 aligned bytes of `self`, each word atomically; only `Cpu::detect`
        // makes this level, where the CPU has AVX-512 and popcnt (which the baseline that Rust
        // compiles for has not, so `count_ones` would be a dozen instructions).
        unsafe {
            std::arch::asm!(
                "vpbroadcastq zmm16, {key}",
                "vpcmpuq k1, zmm16, zmmword ptr [{line}], 5", // 5: not less than, key >= word
                "kmovb {count:e}, k1",
                "popcnt {count:e}, {count:e}",
                key = in(reg) key, line = in(reg) self.0.as_ptr(), count = lateout(reg) count,
                out("xmm16") _, out("k1") _, options(nostack, readonly, pure)
            );
        }
        count as usize
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn count_at_most_avx2(&self, key: u64) -> usize {
        let greater_bits: u64;
        // SAFETY: reads the 64 aligned bytes of `self`, each word atomically; only `Cpu::detect`
        // makes this level, where the CPU has AVX2 and popcnt.
        unsafe {
            std::arch::asm!(
                // The compares are signed ones: of both sides the highest bit is turned.
                "vpcmpeqd ymm1, ymm1, ymm1",
                "vpsllq ymm1, ymm1, 63",
                "vmovq xmm0, {key}",
                "vpbroadcastq ymm0, xmm0",
                "vpxor ymm2, ymm1, ymmword ptr [{line}]",
                "vpxor ymm3, ymm1, ymmword ptr [{line} + 32]",
                "vpcmpgtq ymm2, ymm2, ymm0",
                "vpcmpgtq ymm3, ymm3, ymm0",
                "vpackssdw ymm2, ymm2, ymm3", // four bytes a word
                "vpmovmskb {bits:e}, ymm2",
                "popcnt {bits:e}, {bits:e}",
                "vzeroupper",
                key = in(reg) key ^ 1 << 63, line = in(reg) self.0.as_ptr(),
                bits = lateout(reg) greater_bits,
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                options(nostack, readonly, pure)
            );
        }
        8 - greater_bits as usize / 4
    }
}

/// Asks for the line where an object of DRAM begins, ahead of its use.
#[inline(always)]
pub fn prefetch<T>(object: &T) {
    crate::instructions::prefetch((object as *const T).addr());
}

/// As [`prefetch`], for a store: a line that another core has changed comes once, and not once to
/// be read and once to be written.
#[inline(always)]
pub fn prefetch_to_write<T>(object: &T) {
    crate::instructions::prefetch_to_write((object as *const T).addr());
}

/// The first word of the line, and the mask of its bytes that equal `byte`.
#[inline(always)]
pub(crate) fn match_line(level: SimdLevel, line: &Line, byte: u8) -> (u64, u64) {
    match level.0 {
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx512 => match_line_avx512(line, byte),
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx2 => match_line_avx2(line, byte),
        #[cfg(target_arch = "x86_64")]
        Vectors::Sse2 => match_line_sse2(line, byte),
        _ => match_line_scalar(|i| line.0[i].load(Ordering::Acquire), byte),
    }
}

/// Word by word, from any source of words.
pub(crate) fn match_line_scalar(word: impl Fn(usize) -> u64, byte: u8) -> (u64, u64) {
    let first = word(0);
    let mut mask = 0;
    for i in 0..8 {
        let bytes = if i == 0 { first } else { word(i) }.to_le_bytes();
        for (j, b) in bytes.iter().enumerate() {
            mask |= u64::from(*b == byte) << (i * 8 + j);
        }
    }
    (first, mask)
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn match_line_avx512(line: &Line, byte: u8) -> (u64, u64) {
    let (first, mask): (u64, u64);
    // SAFETY: reads the 64 aligned bytes of `line`, each word atomically; only `Cpu::detect` makes
    // this level, where the CPU has AVX-512 BW.
    unsafe {
        std::arch::asm!(
            "vmovdqa64 zmm16, zmmword ptr [{line}]",
            "vpbroadcastb zmm17, {byte:e}",
            "vpcmpeqb k1, zmm16, zmm17",
            "vmovq {first}, xmm16",
            "kmovq {mask}, k1",
            line = in(reg) line.0.as_ptr(), byte = in(reg) u32::from(byte),
            first = lateout(reg) first, mask = lateout(reg) mask,
            out("xmm16") _, out("xmm17") _, out("k1") _, options(nostack, preserves_flags, readonly)
        );
    }
    (first, mask)
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn match_line_avx2(line: &Line, byte: u8) -> (u64, u64) {
    let (first, mask): (u64, u64);
    // SAFETY: reads the 64 aligned bytes of `line`, each word atomically; only `Cpu::detect` makes
    // this level, where the CPU has AVX2.
    unsafe {
        std::arch::asm!(
            "vmovdqa ymm1, ymmword ptr [{line}]",
            "vmovd xmm0, {byte:e}",
            "vpbroadcastb ymm0, xmm0",
            "vpcmpeqb ymm2, ymm0, ymmword ptr [{line} + 32]",
            "vmovq {first}, xmm1",
            "vpcmpeqb ymm1, ymm1, ymm0",
            "vpmovmskb {mask:e}, ymm2",
            "vpmovmskb {low:e}, ymm1",
            "shl {mask}, 32",
            "or {mask}, {low}",
            "vzeroupper",
            line = in(reg) line.0.as_ptr(), byte = in(reg) u32::from(byte),
            first = out(reg) first, mask = out(reg) mask, low = out(reg) _,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, options(nostack, readonly)
        );
    }
    (first, mask)
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn match_line_sse2(line: &Line, byte: u8) -> (u64, u64) {
    let (first, mask): (u64, u64);
    // SAFETY: reads the 64 aligned bytes of `line`, each word atomically; SSE2 is part of x86-64.
    unsafe {
        std::arch::asm!(
            "movq {v}, {pattern}",
            "punpcklqdq {v}, {v}",
            "movdqa {a}, xmmword ptr [{line}]",
            "movq {first}, {a}",
            "pcmpeqb {a}, {v}",
            "pmovmskb {mask:e}, {a}",
            "movdqa {a}, xmmword ptr [{line} + 16]",
            "pcmpeqb {a}, {v}",
            "pmovmskb {t:e}, {a}",
            "shl {t}, 16",
            "or {mask}, {t}",
            "movdqa {a}, xmmword ptr [{line} + 32]",
            "pcmpeqb {a}, {v}",
            "pmovmskb {t:e}, {a}",
            "shl {t}, 32",
            "or {mask}, {t}",
            "movdqa {a}, xmmword ptr [{line} + 48]",
            "pcmpeqb {a}, {v}",
            "pmovmskb {t:e}, {a}",
            "shl {t}, 48",
            "or {mask}, {t}",
            line = in(reg) line.0.as_ptr(),
            pattern = in(reg) u64::from(byte) * 0x0101_0101_0101_0101,
            a = out(xmm_reg) _, v = out(xmm_reg) _, t = out(reg) _,
            first = out(reg) first, mask = out(reg) mask,
            options(nostack, readonly)
        );
    }
    (first, mask)
}

/// The mask of the words of the line that equal `word`, and that of those that are 0.
#[inline(always)]
pub(crate) fn match_word(level: SimdLevel, line: &Line, word: u64) -> (u64, u64) {
    match level.0 {
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx512 => match_word_avx512(line, word),
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx2 => match_word_avx2(line, word),
        _ => match_word_scalar(|i| line.0[i].load(Ordering::Acquire), word),
    }
}

/// Word by word, from any source of words.
#[inline]
pub(crate) fn match_word_scalar(words: impl Fn(usize) -> u64, word: u64) -> (u64, u64) {
    (0..8).fold((0, 0), |(equal, zero), i| {
        let held = words(i);
        (equal | u64::from(held == word) << i, zero | u64::from(held == 0) << i)
    })
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn match_word_avx512(line: &Line, word: u64) -> (u64, u64) {
    let (equal, zero): (u64, u64);
    // SAFETY: reads the 64 aligned bytes of `line`, each word atomically; only `Cpu::detect` makes
    // this level, where the CPU has AVX-512.
    unsafe {
        std::arch::asm!(
            "vmovdqa64 zmm16, zmmword ptr [{line}]",
            "vpbroadcastq zmm17, {word}",
            "vpcmpeqq k1, zmm16, zmm17",
            "vptestnmq k2, zmm16, zmm16",
            "kmovb {equal:e}, k1",
            "kmovb {zero:e}, k2",
            line = in(reg) line.0.as_ptr(), word = in(reg) word,
            equal = lateout(reg) equal, zero = lateout(reg) zero,
            out("xmm16") _, out("xmm17") _, out("k1") _, out("k2") _,
            options(nostack, preserves_flags, readonly)
        );
    }
    (equal, zero)
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn match_word_avx2(line: &Line, word: u64) -> (u64, u64) {
    let (equal, zero): (u64, u64);
    // SAFETY: reads the 64 aligned bytes of `line`, each word atomically; only `Cpu::detect` makes
    // this level, where the CPU has AVX2.
    unsafe {
        std::arch::asm!(
            "vmovdqa ymm2, ymmword ptr [{line}]",
            "vmovdqa ymm3, ymmword ptr [{line} + 32]",
            "vmovq xmm0, {word}",
            "vpbroadcastq ymm0, xmm0",
            "vpxor xmm1, xmm1, xmm1",
            "vpcmpeqq ymm4, ymm2, ymm0",
            "vpcmpeqq ymm5, ymm3, ymm0",
            "vpcmpeqq ymm2, ymm2, ymm1",
            "vpcmpeqq ymm3, ymm3, ymm1",
            "vmovmskpd {equal:e}, ymm5",
            "vmovmskpd {low:e}, ymm4",
            "shl {equal:e}, 4",
            "or {equal:e}, {low:e}",
            "vmovmskpd {zero:e}, ymm3",
            "vmovmskpd {low:e}, ymm2",
            "shl {zero:e}, 4",
            "or {zero:e}, {low:e}",
            "vzeroupper",
            line = in(reg) line.0.as_ptr(), word = in(reg) word,
            equal = out(reg) equal, zero = out(reg) zero, low = out(reg) _,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _,
            out("xmm5") _, options(nostack, readonly)
        );
    }
    (equal, zero)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cpu, PCell};

    fn levels() -> impl Iterator<Item = SimdLevel> {
        Cpu::detect().simd().and_lower()
    }

    fn words(seed: u64) -> [u64; 8] {
        std::array::from_fn(|i| {
            (seed ^ i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(seed as u32)
                & 0x0303_0303_ff03_0303
        })
    }

    #[test]
    fn every_level_matches_bytes_like_the_scalar_one() {
        let line = Line([const { PCell::zeroed() }; 8]);
        for seed in 0..500 {
            for (cell, word) in line.0.iter().zip(words(seed)) {
                cell.store(word, Ordering::Relaxed);
            }
            for byte in [0u8, 1, 2, 3, 0xff] {
                let expected = match_line_scalar(|i| words(seed)[i], byte);
                for level in levels() {
                    assert_eq!(
                        match_line(level, &line, byte),
                        expected,
                        "{level:?}, seed {seed}, byte {byte}"
                    );
                }
            }
        }
    }

    #[test]
    fn every_level_matches_words_like_the_scalar_one() {
        let line = Line([const { PCell::zeroed() }; 8]);
        for seed in 0..500 {
            let held: [u64; 8] =
                std::array::from_fn(|i| words(seed)[i] >> ((seed + i as u64) % 64));
            for (cell, word) in line.0.iter().zip(held) {
                cell.store(word, Ordering::Relaxed);
            }
            for word in held.into_iter().chain([0, 1, u64::MAX]) {
                let expected = match_word_scalar(|i| held[i], word);
                for level in levels() {
                    let found = match_word(level, &line, word);
                    assert_eq!(found, expected, "{level:?}, seed {seed}, word {word}");
                }
            }
        }
    }

    #[test]
    fn every_level_counts_unsigned_words_at_most_the_key() {
        let ends = [0, 1, 5, 1 << 62, 1 << 63, u64::MAX - 1, u64::MAX, 5];
        let random = (0..500).map(|seed| words(seed).map(|word| word << (seed % 40)));
        for held in random.chain([ends]) {
            let line = DramLine(held.map(AtomicU64::new));
            for key in [0, 1, 4, 6, i64::MAX as u64].into_iter().chain(ends).chain(held) {
                let expected = held.iter().filter(|word| **word <= key).count();
                for level in levels() {
                    let counted = line.count_at_most(level, key);
                    assert_eq!(counted, expected, "{level:?}, {key} in {held:?}");
                }
            }
        }
    }
}
