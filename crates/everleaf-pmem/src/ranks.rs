//! The order of a few words, for scans of leaves that are not sorted. Each word is compared with
//! every other, many at a time: no branch depends on what the words are, so none is guessed wrong,
//! which is what sorting so few costs by the usual ways.

use crate::SimdLevel;
use crate::cpu::Vectors;

/// The most words that are put in order.
pub const MAX_RANKED: usize = 64;
/// Words whose ranks are counted together: two registers of AVX-512, four of AVX2.
const TOGETHER: usize = 16;

/// Counts for each word how many of the others are less: its place in ascending order. False, and
/// the ranks mean nothing, if two words are equal, if there are more than [`MAX_RANKED`], or if
/// this processor would be slower at it than at sorting. Costs the square of the number of words,
/// an eighth of it in compares with AVX-512: 45 words take a fifth of the time of `sort_unstable`.
///
/// ```
/// use everleaf_pmem::{Cpu, MAX_RANKED, ranks};
///
/// let mut places = [0; MAX_RANKED];
/// if ranks(Cpu::detect().simd(), &[30, 10, 20], &mut places) {
///     assert_eq!(places[..3], [2, 0, 1]);
/// }
/// assert!(!ranks(Cpu::detect().simd(), &[30, 10, 30], &mut places));
/// ```
#[inline]
pub fn ranks(level: SimdLevel, words: &[u64], places: &mut [u8; MAX_RANKED]) -> bool {
    if words.len() > MAX_RANKED {
        return false;
    }
    // The compares are signed ones.
    let mut signed = [i64::MAX; MAX_RANKED];
    signed.iter_mut().zip(words).for_each(|(signed, word)| *signed = (word ^ 1 << 63) as i64);
    match level.0 {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: only `Cpu::detect` makes this level, where the CPU has AVX-512 F.
        Vectors::Avx512 => unsafe { count_avx512(&signed, words.len(), places) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: only `Cpu::detect` makes this level, where the CPU has AVX2.
        Vectors::Avx2 => unsafe { count_avx2(&signed, words.len(), places) },
        #[cfg(target_arch = "aarch64")]
        Vectors::Scalar => count(&signed, words.len(), places),
        #[cfg(not(target_arch = "aarch64"))]
        _ => return false,
    }
    let taken = places[..words.len()]
        .iter()
        .fold(0, |taken, place| taken | 1u64.wrapping_shl(u32::from(*place)));
    taken.count_ones() as usize == words.len()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn count_avx512(words: &[i64; MAX_RANKED], length: usize, ranks: &mut [u8; MAX_RANKED]) {
    use std::arch::x86_64::*;
    let one = _mm512_set1_epi64(1);
    for (own, ranks) in parts(words, ranks, length) {
        // SAFETY: reads the 128 bytes of `own`; these loads want no alignment.
        let own =
            unsafe { [_mm512_loadu_epi64(own.as_ptr()), _mm512_loadu_epi64(own[8..].as_ptr())] };
        let mut less = [_mm512_setzero_si512(); 2];
        for word in &words[..length] {
            let word = _mm512_set1_epi64(*word);
            for (less, own) in less.iter_mut().zip(own) {
                *less =
                    _mm512_mask_add_epi64(*less, _mm512_cmplt_epi64_mask(word, own), *less, one);
            }
        }
        let bytes =
            _mm_unpacklo_epi64(_mm512_cvtepi64_epi8(less[0]), _mm512_cvtepi64_epi8(less[1]));
        // SAFETY: writes the 16 bytes of `ranks`; the store wants no alignment.
        unsafe { _mm_storeu_si128(ranks.as_mut_ptr().cast(), bytes) };
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn count_avx2(words: &[i64; MAX_RANKED], length: usize, ranks: &mut [u8; MAX_RANKED]) {
    use std::arch::x86_64::*;
    for (own, ranks) in parts(words, ranks, length) {
        // SAFETY: reads the 128 bytes of `own`; these loads want no alignment.
        let own = unsafe { [0, 4, 8, 12].map(|at| _mm256_loadu_si256(own[at..].as_ptr().cast())) };
        let mut less = [_mm256_setzero_si256(); 4];
        for word in &words[..length] {
            let word = _mm256_set1_epi64x(*word);
            for (less, own) in less.iter_mut().zip(own) {
                // -1 where the word is less
                *less = _mm256_sub_epi64(*less, _mm256_cmpgt_epi64(own, word));
            }
        }
        for (ranks, less) in ranks.as_chunks_mut::<4>().0.iter_mut().zip(less) {
            ranks[0] = _mm256_extract_epi8::<0>(less) as u8;
            ranks[1] = _mm256_extract_epi8::<8>(less) as u8;
            ranks[2] = _mm256_extract_epi8::<16>(less) as u8;
            ranks[3] = _mm256_extract_epi8::<24>(less) as u8;
        }
    }
}

/// In plain words, of which the compiler makes vectors where it may.
#[cfg(target_arch = "aarch64")]
fn count(words: &[i64; MAX_RANKED], length: usize, ranks: &mut [u8; MAX_RANKED]) {
    for (own, ranks) in parts(words, ranks, length) {
        let mut less = [0i64; TOGETHER];
        for word in &words[..length] {
            less.iter_mut().zip(own).for_each(|(less, own)| *less += i64::from(word < own));
        }
        ranks.iter_mut().zip(less).for_each(|(rank, less)| *rank = less as u8);
    }
}

/// The words and the places of their ranks, as many at a time as are counted together.
#[inline(always)]
fn parts<'a>(
    words: &'a [i64; MAX_RANKED],
    ranks: &'a mut [u8; MAX_RANKED],
    length: usize,
) -> impl Iterator<Item = (&'a [i64; TOGETHER], &'a mut [u8; TOGETHER])> {
    words.as_chunks().0.iter().zip(ranks.as_chunks_mut().0).take(length.div_ceil(TOGETHER))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cpu;

    fn levels() -> impl Iterator<Item = SimdLevel> {
        Cpu::detect().simd().and_lower().filter(|level| level.bytes() >= 32)
    }

    fn words(seed: u64, count: usize) -> Vec<u64> {
        let word = |i: usize| {
            (seed ^ i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(seed as u32 % 64)
        };
        (0..count).map(word).collect()
    }

    #[test]
    fn ranks_are_places_in_ascending_order() {
        for level in levels() {
            for count in 0..=MAX_RANKED {
                for seed in 0..20 {
                    let mut unsorted = words(seed, count);
                    if let Some(extreme) = unsorted.first_mut() {
                        *extreme = [0, u64::MAX, 1 << 63, i64::MAX as u64][seed as usize % 4];
                    }
                    let mut sorted = unsorted.clone();
                    sorted.sort_unstable();
                    sorted.dedup();
                    let mut places = [0; MAX_RANKED];
                    assert_eq!(
                        ranks(level, &unsorted, &mut places),
                        sorted.len() == count,
                        "{level:?}, {count} words, seed {seed}"
                    );
                    for (word, place) in
                        unsorted.iter().zip(places).filter(|_| sorted.len() == count)
                    {
                        assert_eq!(
                            sorted[usize::from(place)],
                            *word,
                            "{level:?}, {count} words, seed {seed}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn equal_words_and_too_many_are_told() {
        for level in Cpu::detect().simd().and_lower() {
            for count in 2..=MAX_RANKED {
                let mut equal = words(7, count);
                equal[count - 1] = equal[count / 3];
                assert!(!ranks(level, &equal, &mut [0; MAX_RANKED]), "{level:?}, {count} words");
            }
            assert!(!ranks(level, &words(7, MAX_RANKED + 1), &mut [0; MAX_RANKED]), "{level:?}");
        }
    }
}
