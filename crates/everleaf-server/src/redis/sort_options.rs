//! The options of SORT, and which keys they name.

use super::failure::{Failure, NOT_INTEGER, Outcome, SYNTAX};
use crate::resp::argument::is;
use crate::resp::number::integer;

/// The options behind the key.
pub struct Options<'a> {
    /// The pattern of what is compared; none: the elements.
    pub by: Option<&'a [u8]>,
    /// The patterns of what is told; none: the elements.
    pub get: Vec<&'a [u8]>,
    /// Where it begins, and how many there are; negative: all.
    pub limit: (i64, i64),
    /// From the greatest on.
    pub descending: bool,
    /// By bytes; else by numbers.
    pub alpha: bool,
    /// Where the result goes.
    pub store: Option<&'a [u8]>,
}

/// Reads them.
pub fn options<'a>(words: &[&'a [u8]], may_store: bool) -> Outcome<Options<'a>> {
    let mut options = Options {
        by: None,
        get: Vec::new(),
        limit: (0, -1),
        descending: false,
        alpha: false,
        store: None,
    };
    let number = |word: &[u8]| integer(word).ok_or(Failure::Said(NOT_INTEGER));
    let mut rest = words;
    loop {
        rest = match rest {
            [] => return Ok(options),
            [o, rest @ ..] if is(o, "ASC") => {
                options.descending = false;
                rest
            }
            [o, rest @ ..] if is(o, "DESC") => {
                options.descending = true;
                rest
            }
            [o, rest @ ..] if is(o, "ALPHA") => {
                options.alpha = true;
                rest
            }
            [o, from, count, rest @ ..] if is(o, "LIMIT") => {
                options.limit = (number(from)?, number(count)?);
                rest
            }
            [o, to, rest @ ..] if is(o, "STORE") && may_store => {
                options.store = Some(to);
                rest
            }
            [o, pattern, rest @ ..] if is(o, "BY") => {
                options.by = Some(pattern);
                rest
            }
            [o, pattern, rest @ ..] if is(o, "GET") => {
                options.get.push(pattern);
                rest
            }
            _ => return Err(SYNTAX.into()),
        }
    }
}

/// Whether other keys are meant by a pattern.
pub fn looks_up(pattern: &[u8]) -> bool {
    pattern.contains(&b'*')
}

/// The keys among the arguments; none: others are looked up as well.
pub fn keys<'a>(args: &[&'a [u8]]) -> Option<Vec<&'a [u8]>> {
    let (key, words) = args.split_first()?;
    let Ok(options) = options(words, true) else { return Some(vec![key]) };
    let mut patterns = options.get.iter().chain(&options.by);
    if patterns.any(|pattern| looks_up(pattern)) {
        return None;
    }
    Some([Some(*key), options.store].into_iter().flatten().collect())
}
