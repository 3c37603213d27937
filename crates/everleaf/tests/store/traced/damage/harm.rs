//! What can happen to a pool file.

use rand::rngs::StdRng;
use rand::{Rng, RngExt};

/// Words of the header, the intents, the anchor and the first table.
const SYSTEM_WORDS: usize = 4 * 512;

/// What an unused word of the allocator holds: 0, with its checksum.
pub const SEALED_ZERO: u64 = 0x5ea1 << 48;

/// Damages a pool in one of many ways, or in several; says what was done.
pub fn harm(words: &mut Vec<u64>, random: &mut StdRng) -> String {
    let times = if random.random_bool(0.7) { 1 } else { random.random_range(2..6) };
    (0..times).map(|_| harm_once(words, random)).collect::<Vec<_>>().join("; ")
}

fn harm_once(words: &mut Vec<u64>, random: &mut StdRng) -> String {
    match random.random_range(0..12) {
        0..4 => {
            let (at, bit) = (used(words, random), random.random_range(0..64));
            words[at] ^= 1 << bit;
            format!("bit {bit} of the word at {:#x} flipped", at * 8)
        }
        4 => {
            let (at, bit) =
                (random.random_range(0..words.len().min(SYSTEM_WORDS)), random.random_range(0..64));
            words[at] ^= 1 << bit;
            format!("bit {bit} of the word at {:#x} flipped", at * 8)
        }
        5 => {
            let at = used(words, random);
            set(words, at, random.next_u64())
        }
        6 => {
            let at = used(words, random);
            set(words, at, 0)
        }
        7 => {
            let (at, other) = (used(words, random), words[used(words, random)]);
            set(words, at, other)
        }
        8 => {
            let (at, place) = (used(words, random), random.random_range(0..words.len() as u64) * 8);
            set(words, at, place)
        }
        9 => {
            // A line that was never written back, or another's content.
            words.resize(words.len().next_multiple_of(8), 0);
            let (from, to) = (random.random_range(0..words.len() / 8), used(words, random) / 8);
            words.copy_within(from * 8..from * 8 + 8, to * 8);
            format!("the line at {:#x} holds what is at {:#x}", to * 64, from * 64)
        }
        10 => {
            let (start, length) = (used(words, random), random.random_range(1..300));
            let end = words.len().min(start + length);
            let zero = random.random_bool(0.5);
            words[start..end]
                .iter_mut()
                .for_each(|word| *word = if zero { 0 } else { random.next_u64() });
            format!(
                "{:#x}..{:#x} overwritten with {}",
                start * 8,
                end * 8,
                if zero { "zeros" } else { "garbage" }
            )
        }
        _ => {
            words.truncate(random.random_range(1..words.len().max(2)));
            format!("cut to {:#x} bytes", words.len() * 8)
        }
    }
}

/// A word that says something: most of a pool is free, where damage means nothing.
pub fn used(words: &[u64], random: &mut StdRng) -> usize {
    let start = random.random_range(0..words.len());
    (start..words.len())
        .chain(0..start)
        .find(|at| ![0, SEALED_ZERO].contains(&words[*at]))
        .unwrap_or(0)
}

fn set(words: &mut [u64], at: usize, to: u64) -> String {
    words[at] = to;
    format!("the word at {:#x} set to {to:#x}", at * 8)
}
