//! What the bytes of an input change in a file.
//!
//! A change is twelve bytes: what, where (three bytes), and a word.

/// Bytes of a change.
const CHANGE: usize = 12;
/// Bytes of a word, and of a line.
const WORD: usize = 8;
const LINE: usize = 64;
/// What keeps checksums from being made right again.
pub const STAYS: u8 = 0x80;

/// The changes that an input asks for: what, where, and a word.
pub fn changes(bytes: &[u8]) -> impl Iterator<Item = (u8, usize, u64)> {
    bytes.chunks_exact(CHANGE).map(|change| {
        let place = change[1..4].iter().fold(0, |place, byte| place << 8 | usize::from(*byte));
        (change[0], place, word(change, 4))
    })
}

/// The word at a byte.
pub fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + WORD].try_into().expect("eight bytes"))
}

/// Changes a file; `used` are the places of the words that say something.
pub fn change(bytes: &mut Vec<u8>, used: &[usize], (what, place, value): (u8, usize, u64)) {
    let words = bytes.len() / WORD;
    let Some(anywhere) = place.checked_rem(words).map(|word| word * WORD) else { return };
    let at = used.get(place % used.len().max(1)).copied().filter(|at| at + WORD <= bytes.len());
    let at = at.unwrap_or(anywhere);
    let other = value as usize % words * WORD;
    let new = match what % 8 {
        0 => word(bytes, at) ^ value,
        1 => value,
        2 => word(bytes, other),
        3 => other as u64,
        4 => word(bytes, at).wrapping_add(value),
        5 => {
            let (from, to) = (other / LINE * LINE, at / LINE * LINE);
            let end = bytes.len().min(from + LINE).min(from + bytes.len() - to);
            return bytes.copy_within(from..end, to);
        }
        6 => return bytes[anywhere..].iter_mut().take(value as usize % 4096).for_each(|b| *b = 0),
        _ => return bytes.truncate(anywhere),
    };
    let sealed = what & STAYS == 0 && word(bytes, at) == seal(word(bytes, at));
    let new = if sealed { seal(new) } else { new };
    bytes[at..at + WORD].copy_from_slice(&new.to_le_bytes());
}

/// A word of the pool that carries its own checksum (everleaf-pool, `word.rs`).
fn seal(word: u64) -> u64 {
    let content = word & ((1 << 48) - 1);
    let mixed = (content ^ (content >> 23)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 48;
    content | (mixed ^ 0x5ea1) << 48
}
