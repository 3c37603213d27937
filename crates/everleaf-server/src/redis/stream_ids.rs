//! Ids of streams' entries, and ranges of them, as arguments of commands.

use super::failure::{Failure, NOT_INTEGER, Outcome};
use crate::data::Id;
use crate::resp::number::integer;

const INVALID_ID: &str = "ERR Invalid stream ID specified as stream command argument";
/// Digits of an id, at most, with what stands before and between them.
const LONGEST_ID: usize = 127;

/// A word of an id, as C's `strtoull` reads it.
fn word(text: &str) -> Option<u64> {
    let digits = text.trim_ascii_start();
    let digits = digits.strip_prefix('+').unwrap_or(digits);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

/// The milliseconds of an id, and what stands behind them.
pub fn read(arg: &[u8]) -> Option<(u64, Option<&str>)> {
    let text = str::from_utf8(arg).ok().filter(|text| text.len() <= LONGEST_ID)?;
    match text.split_once('-') {
        Some((ms, number)) => Some((word(ms)?, Some(number))),
        None => Some((word(text)?, None)),
    }
}

/// An id; none if the argument is no id.
pub fn maybe_id(arg: &[u8], missing: u64) -> Option<Id> {
    let (ms, number) = read(arg)?;
    Some(Id::new(ms, number.map_or(Some(missing), word)?))
}

/// An id, the number of which may be missing.
pub fn id(arg: &[u8], missing: u64) -> Outcome<Id> {
    maybe_id(arg, missing).ok_or(Failure::Said(INVALID_ID))
}

/// The same, or a sign for the first or the last one.
pub fn id_or_end(arg: &[u8], missing: u64) -> Outcome<Id> {
    match arg {
        b"-" => Ok(Id::MIN),
        b"+" => Ok(Id::MAX),
        arg => id(arg, missing),
    }
}

/// The first id of a range.
pub fn first(arg: &[u8]) -> Outcome<Id> {
    match arg {
        [b'(', rest @ ..] if !rest.is_empty() => {
            id(rest, 0)?.next().ok_or(Failure::Said("ERR invalid start ID for the interval"))
        }
        arg => id_or_end(arg, 0),
    }
}

/// The last id of a range.
pub fn last(arg: &[u8]) -> Outcome<Id> {
    match arg {
        [b'(', rest @ ..] if !rest.is_empty() => {
            let end = id(rest, u64::MAX)?.previous();
            end.ok_or(Failure::Said("ERR invalid end ID for the interval"))
        }
        arg => id_or_end(arg, u64::MAX),
    }
}

/// All ids among arguments.
pub fn ids(args: &[&[u8]]) -> Outcome<Vec<Id>> {
    args.iter().map(|arg| id(arg, 0)).collect()
}

/// A whole number, none below 0.
pub fn count(arg: &[u8]) -> Outcome<u64> {
    let count = integer(arg).ok_or(Failure::Said(NOT_INTEGER))?;
    Ok(count.max(0).unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_redis_reads_them() {
        for (text, read) in [
            ("5", Some("5-9")),
            ("5-6", Some("5-6")),
            ("0-007", Some("0-7")),
            ("18446744073709551615-18446744073709551615", Some(&*Id::MAX.to_string())),
            ("18446744073709551616", None),
            ("5-", None),
            ("-5", None),
            ("-", None),
            ("+", None),
            ("", None),
            ("5-*", None),
            ("5-6-7", None),
            ("x", None),
        ] {
            let found = maybe_id(text.as_bytes(), 9).map(|id| id.to_string());
            assert_eq!(found.as_deref(), read, "{text}");
        }
    }
}
