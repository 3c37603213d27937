//! Settings of Redis that change no reply: how it keeps values in memory, what it does in the
//! background, what it logs. They are taken and told, and change nothing here.

use super::failure::{Failure, Outcome};
use crate::resp::argument::is;
use crate::resp::number::integer;

/// What a setting may be.
#[derive(Clone, Copy)]
enum Takes {
    /// A number.
    Number,
    /// A number of bytes, with a unit.
    Bytes,
    /// The same, or a part of the memory.
    Share,
    /// Yes or no.
    YesNo,
    /// One of some words.
    Words(&'static [&'static str]),
}

use Takes::{Bytes, Number, Share, Words, YesNo};

/// Their names, and what Redis begins with.
const IGNORED: &[(&str, &str, Takes)] = &[
    ("active-expire-effort", "1", Number),
    ("activedefrag", "no", YesNo),
    ("activerehashing", "yes", YesNo),
    ("client-query-buffer-limit", "1073741824", Bytes),
    ("dynamic-hz", "yes", YesNo),
    ("hash-max-listpack-entries", "512", Number),
    ("hash-max-listpack-value", "64", Number),
    ("hash-max-ziplist-entries", "512", Number),
    ("hash-max-ziplist-value", "64", Number),
    ("hll-sparse-max-bytes", "3000", Bytes),
    ("hz", "10", Number),
    ("jemalloc-bg-thread", "yes", YesNo),
    ("lazyfree-lazy-eviction", "no", YesNo),
    ("lazyfree-lazy-expire", "no", YesNo),
    ("lazyfree-lazy-server-del", "no", YesNo),
    ("lazyfree-lazy-user-del", "no", YesNo),
    ("lazyfree-lazy-user-flush", "no", YesNo),
    ("lfu-decay-time", "1", Number),
    ("lfu-log-factor", "10", Number),
    ("list-compress-depth", "0", Number),
    ("list-max-listpack-size", "-2", Number),
    ("list-max-ziplist-size", "-2", Number),
    ("loglevel", "notice", Words(&["debug", "verbose", "notice", "warning"])),
    ("maxmemory-clients", "0", Share),
    ("maxmemory-eviction-tenacity", "10", Number),
    ("maxmemory-samples", "5", Number),
    ("rdbcompression", "yes", YesNo),
    ("repl-backlog-size", "1048576", Bytes),
    ("set-max-intset-entries", "512", Number),
    ("stop-writes-on-bgsave-error", "yes", YesNo),
    ("stream-node-max-bytes", "4096", Bytes),
    ("zset-max-listpack-entries", "128", Number),
    ("zset-max-listpack-value", "64", Number),
    ("zset-max-ziplist-entries", "128", Number),
    ("zset-max-ziplist-value", "64", Number),
];

/// All of them, as they begin.
pub fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    IGNORED.iter().map(|(name, value, _)| (*name, *value))
}

/// A number of bytes with a unit, as Redis reads it.
pub fn bytes(text: &[u8]) -> Option<i64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = integer(&text[..digits])?;
    let unit = match text[digits..].to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(unit)
}

/// Says why a setting is not set.
pub fn refused(name: &str, why: &str) -> Failure {
    Failure::Text(format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}"))
}

/// What a value of one of them is told as; none: it is no such setting.
pub fn value(name: &str, value: &[u8]) -> Outcome<Option<(&'static str, String)>> {
    let Some((name, _, takes)) = IGNORED.iter().find(|(known, ..)| *known == name) else {
        return Ok(None);
    };
    let told = match takes {
        Number => integer(value)
            .map(|number| number.to_string())
            .ok_or_else(|| refused(name, "argument couldn't be parsed into an integer"))?,
        Bytes => bytes(value)
            .map(|number| number.to_string())
            .ok_or_else(|| refused(name, "argument must be a memory value"))?,
        Share => match value.strip_suffix(b"%") {
            None => bytes(value)
                .map(|number| number.to_string())
                .ok_or_else(|| refused(name, "argument must be a memory or percent value"))?,
            Some(percent) => match integer(percent) {
                Some(percent @ 0..=100) => format!("{percent}%"),
                Some(101..) => {
                    let why = "percentage argument must be less or equal to 100";
                    return Err(refused(name, why));
                }
                _ => return Err(refused(name, "argument must be a memory or percent value")),
            },
        },
        YesNo => ["yes", "no"]
            .into_iter()
            .find(|word| is(value, word))
            .map(str::to_owned)
            .ok_or_else(|| refused(name, "argument must be 'yes' or 'no'"))?,
        Words(words) => {
            words.iter().find(|word| is(value, word)).map(|word| (*word).to_owned()).ok_or_else(
                || {
                    let words = words.join(", ");
                    refused(name, &format!("argument(s) must be one of the following: {words}"))
                },
            )?
        }
    };
    Ok(Some((name, told)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_told_as_redis_tells_them() {
        let told =
            |name: &str, text: &str| value(name, text.as_bytes()).map(|found| found.unwrap().1);
        assert_eq!(told("hll-sparse-max-bytes", "2k").unwrap(), "2000");
        assert_eq!(told("hll-sparse-max-bytes", "2Kb").unwrap(), "2048");
        assert_eq!(told("maxmemory-clients", "5%").unwrap(), "5%");
        assert_eq!(told("maxmemory-clients", "1k").unwrap(), "1000");
        assert!(told("maxmemory-clients", "200%").is_err());
        assert_eq!(told("activedefrag", "YES").unwrap(), "yes");
        assert_eq!(told("loglevel", "Debug").unwrap(), "debug");
        for (name, text) in [("hz", "x"), ("activedefrag", "1"), ("loglevel", "x")] {
            assert!(told(name, text).is_err(), "{name} {text}");
        }
        assert!(value("appendonly", b"yes").is_ok_and(|found| found.is_none()));
        assert!(IGNORED.is_sorted_by_key(|(name, ..)| *name));
    }
}
