//! Words and ranges among arguments.

use std::ops::Range;

/// Whether an argument is this word, in any case.
pub fn is(arg: &[u8], word: &str) -> bool {
    arg.eq_ignore_ascii_case(word.as_bytes())
}

/// The part of a list of `length` that two indexes, which may count from its end, stand for.
pub fn slice(from: i64, to: i64, length: u64) -> Range<u64> {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let absolute = |at: i64| if at < 0 { at.saturating_add(length) } else { at };
    let (from, to) = (absolute(from).max(0), absolute(to).min(length - 1));
    if from > to { 0..0 } else { from as u64..to as u64 + 1 }
}
