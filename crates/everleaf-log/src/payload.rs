//! The payload of a group: captures of lines, packed.
//!
//! ```text
//! capture   lines between this one and the one before, 7 bits a byte, the lowest first, bit 7:
//!           more follow · bit i: word i follows · bit i: word i is whole · words
//! word      whole: 8 bytes; else bit i: byte i is not zero · these bytes; 255: as the word before
//! ```
//!
//! Offsets, bitmaps, lengths and small numbers have bytes of zeros, at either end or between; a
//! word with no more than one is whole. The word before is that of the line before, too. Lines
//! ascend, so whatever bytes are decoded, no line comes twice and none is more than a pool has.

use crate::group::{Capture, WORDS};

/// Stands for the word before; none that is not whole has eight bytes.
const SAME: u8 = u8::MAX;
/// The line behind the last one of which each byte has an offset.
const LINES: u64 = u64::MAX / 64;

/// Appends merged captures to `bytes`.
pub(crate) fn encode_payload(captures: &[Capture], bytes: &mut Vec<u8>) {
    let (mut next, mut before) = (0, 0);
    for Capture { line, mask, words, .. } in captures {
        put_number(line - next, bytes);
        next = line + 1;
        bytes.extend([*mask, 0]);
        let whole = bytes.len() - 1;
        for at in ones(*mask) {
            let (word, given) = (words[at], given(words[at]));
            if word == before {
                bytes.push(SAME);
            } else if given.count_ones() < 7 {
                bytes.push(given);
                ones(given).for_each(|i| bytes.push((word >> (8 * i)) as u8));
            } else {
                bytes[whole] |= 1 << at;
                bytes.extend(word.to_le_bytes());
            }
            before = word;
        }
    }
}

/// Shows the captures of a payload; false if it is not one.
pub(crate) fn decode_payload(mut bytes: &[u8], mut show: impl FnMut(Capture)) -> bool {
    let (mut next, mut before) = (0, 0);
    while !bytes.is_empty() {
        let Some(capture) = decode_capture(&mut bytes, next, &mut before) else { return false };
        next = capture.line + 1;
        show(capture);
    }
    true
}

/// Takes a capture of the line `next` or a later one.
fn decode_capture(bytes: &mut &[u8], next: u64, before: &mut u64) -> Option<Capture> {
    let line = next.checked_add(take_number(bytes)?).filter(|line| *line < LINES)?;
    let [mask, whole] = take(bytes)?;
    let mut capture = Capture { line, order: 0, mask, words: [0; WORDS] };
    for at in ones(mask) {
        let word = if whole & 1 << at != 0 {
            u64::from_le_bytes(take(bytes)?)
        } else {
            match take(bytes)? {
                [SAME] => *before,
                [given] => {
                    let mut word = 0;
                    for i in ones(given) {
                        let [byte] = take(bytes)?;
                        word |= u64::from(byte) << (8 * i);
                    }
                    word
                }
            }
        };
        (capture.words[at], *before) = (word, word);
    }
    (whole & !mask == 0).then_some(capture)
}

/// Bit i: byte i is not zero.
fn given(word: u64) -> u8 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let highest = (((word & LOW) + LOW) | word) & !LOW; // Of each byte that is not zero.
    (highest.wrapping_mul(0x0002_0408_1020_4081) >> 56) as u8 // Side by side.
}

/// The numbers of the bits.
fn ones(mut bits: u8) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
        bits &= bits - 1;
        Some(bit)
    })
}

fn put_number(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Takes a number of at most 63 bits.
fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..63).step_by(7) {
        let [byte] = take(bytes)?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::group::merge;

    /// Words of each kind, some again and again.
    fn any_word() -> impl Strategy<Value = u64> {
        prop_oneof![
            any::<u64>(),
            0..300_u64,
            (0..=64_u32, 0..=64_u32).prop_map(|(low, high)| {
                let ones = |bits: u32| u64::MAX.checked_shl(bits).unwrap_or(0);
                ones(low) & !ones(high)
            }),
            any::<[bool; 8]>().prop_map(|given| u64::from_le_bytes(given.map(u8::from))),
            Just(0x5a5a_5a5a_5a5a_5a5a),
        ]
    }

    fn any_line() -> impl Strategy<Value = u64> {
        prop_oneof![0..40_u64, 0..1_u64 << 20, 0..LINES, Just(LINES - 1)]
    }

    /// Captures as a group has them: words that are not given are zero.
    fn any_captures() -> impl Strategy<Value = Vec<Capture>> {
        let capture = (any_line(), any::<u8>(), proptest::array::uniform8(any_word()));
        let given = |mask: u8, words: [u64; WORDS]| {
            std::array::from_fn(|at| if mask & 1 << at != 0 { words[at] } else { 0 })
        };
        vec(capture, 0..60).prop_map(move |captures| {
            let of =
                |(line, mask, words)| Capture { line, order: 0, mask, words: given(mask, words) };
            let mut captures: Vec<Capture> = captures.into_iter().map(of).collect();
            merge(&mut captures);
            captures
        })
    }

    fn encoded(captures: &[Capture]) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_payload(captures, &mut bytes);
        bytes
    }

    /// What is shown of any bytes, and whether they are a payload.
    fn decoded(bytes: &[u8]) -> (Vec<Capture>, bool) {
        let mut found = Vec::new();
        let whole = decode_payload(bytes, |capture| found.push(capture));
        (found, whole)
    }

    /// What holds of any bytes.
    fn is_sound(bytes: &[u8]) -> Result<(), TestCaseError> {
        let (found, _) = decoded(bytes);
        prop_assert!(found.len() * 3 <= bytes.len());
        prop_assert!(found.is_sorted_by(|a, b| a.line < b.line));
        prop_assert!(found.iter().all(|capture| capture.line < LINES));
        // What was shown is a payload again.
        prop_assert_eq!(decoded(&encoded(&found)), (found, true));
        Ok(())
    }

    proptest! {
        #[test]
        fn payloads_round_trip_and_are_never_longer_than_a_line_and_eleven_bytes(
            captures in any_captures()
        ) {
            let bytes = encoded(&captures);
            prop_assert!(bytes.len() <= captures.len() * 75);
            prop_assert_eq!(decoded(&bytes), (captures.clone(), true));
            // What is cut is a payload only between two captures.
            let whole = (0..bytes.len()).filter(|end| decoded(&bytes[..*end]).1).count();
            prop_assert_eq!(whole, captures.len());
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in vec(any::<u8>(), 0..400)) {
            is_sound(&bytes)?;
        }

        #[test]
        fn changed_payloads_are_decoded_or_refused(
            captures in any_captures(),
            changes in vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 1..6),
        ) {
            let mut bytes = encoded(&captures);
            for (at, byte, change) in changes {
                let at = at.index(bytes.len() + 1);
                match change {
                    0 => bytes.insert(at, byte),
                    _ if at == bytes.len() => {}
                    1 => bytes[at] = byte,
                    2 => bytes[at] ^= 1 << (byte % 8),
                    _ => _ = bytes.remove(at),
                }
            }
            is_sound(&bytes)?;
        }
    }

    #[test]
    fn a_word_takes_its_bytes_that_are_not_zero_and_a_repeated_one_takes_one() {
        let length = |words: [u64; WORDS]| {
            encoded(&[Capture { line: 7, order: 0, mask: u8::MAX, words }]).len() - 3
        };
        assert_eq!(length([0; WORDS]), 8);
        assert_eq!(length([0x54ff_0000_ffff_ffff; WORDS]), 7 + 7);
        assert_eq!(length(std::array::from_fn(|i| 1 << (8 * i))), 16);
        assert_eq!(length(std::array::from_fn(|i| u64::MAX - i as u64)), 64);
    }

    #[test]
    fn numbers_and_lines_that_are_too_great_are_refused() {
        let of = |number: &[u8]| [number, &[0, 0]].concat();
        let is_one = |number: &[u8]| decoded(&of(number)).1;
        let mut most = Vec::new();
        put_number(LINES - 1, &mut most);
        assert!(is_one(&most));
        let mut beyond = Vec::new();
        put_number(LINES, &mut beyond);
        assert!(!is_one(&beyond));
        assert!(!is_one(&[u8::MAX; 9]) && !is_one(&[0x80; 9]) && !is_one(&[0x80; 3]));
        assert!(!decoded(&[of(&most), of(&[0])].concat()).1, "the line behind the last");
        assert!(decoded(&[0, 1, 0, 0]).1);
        assert!(!decoded(&[0, 1, 2, 0]).1, "a whole word that is not given");
    }
}
