//! LCS: the longest text that two strings have in common, whose bytes need not stand together.

use std::ops::Range;

use super::call::Call;
use super::failure::{Failure, NOT_INTEGER, Outcome, SYNTAX};
use crate::data::Kind;
use crate::resp::argument::is;
use crate::resp::number::integer;

/// What is asked for.
#[derive(Default)]
struct Asked {
    length: bool,
    places: bool,
    with_lengths: bool,
    least: usize,
}

/// Lengths for all pairs of fronts of two strings.
struct Table {
    lengths: Vec<u32>,
    width: usize,
}

impl Table {
    fn of(one: &[u8], other: &[u8]) -> Self {
        let width = other.len() + 1;
        let mut lengths = vec![0; (one.len() + 1) * width];
        for (i, a) in one.iter().enumerate() {
            for (j, b) in other.iter().enumerate() {
                lengths[(i + 1) * width + j + 1] = if a == b {
                    lengths[i * width + j] + 1
                } else {
                    lengths[i * width + j + 1].max(lengths[(i + 1) * width + j])
                };
            }
        }
        Self { lengths, width }
    }

    fn at(&self, i: usize, j: usize) -> u32 {
        self.lengths[i * self.width + j]
    }

    /// Where both have the same, from the end on: ranges that are as long as they can be.
    fn places(&self, one: &[u8], other: &[u8]) -> Vec<(Range<usize>, Range<usize>)> {
        let (mut i, mut j) = (one.len(), other.len());
        let mut places: Vec<(Range<usize>, Range<usize>)> = Vec::new();
        while i > 0 && j > 0 {
            if one[i - 1] != other[j - 1] {
                if self.at(i - 1, j) > self.at(i, j - 1) {
                    i -= 1
                } else {
                    j -= 1
                }
                continue;
            }
            match places.last_mut() {
                Some((a, b)) if a.start == i && b.start == j => (a.start, b.start) = (i - 1, j - 1),
                _ => places.push((i - 1..i, j - 1..j)),
            }
            (i, j) = (i - 1, j - 1);
        }
        places
    }
}

fn asked(options: &[&[u8]]) -> Outcome<Asked> {
    let (mut asked, mut rest) = (Asked::default(), options);
    while let Some(option) = rest.first() {
        match rest {
            [o, ..] if is(o, "IDX") => asked.places = true,
            [o, ..] if is(o, "LEN") => asked.length = true,
            [o, ..] if is(o, "WITHMATCHLEN") => asked.with_lengths = true,
            [_, least, ..] if is(option, "MINMATCHLEN") => {
                let least = integer(least).ok_or(Failure::Said(NOT_INTEGER))?;
                asked.least = usize::try_from(least.max(0)).unwrap_or(usize::MAX);
                rest = &rest[1..];
            }
            _ => return Err(SYNTAX.into()),
        }
        rest = &rest[1..];
    }
    if asked.length && asked.places {
        let sentence = "ERR If you want both the length and indexes, please just use IDX.";
        return Err(sentence.into());
    }
    Ok(asked)
}

/// LCS.
pub fn lcs(call: &mut Call<'_, '_, '_>) -> Outcome {
    let read = |at| -> Outcome<Vec<u8>> {
        match call.work.value(&call.row(at)?)? {
            Some((header, _)) if header.kind != Kind::String => {
                Err("ERR The specified keys must contain string values".into())
            }
            Some((_, mut value)) => Ok(value.split_off(crate::data::HEADER_BYTES)),
            None => Ok(Vec::new()),
        }
    };
    let (one, other) = (read(1)?, read(2)?);
    let asked = asked(call.rest(3))?;
    let cells = (one.len() as u64 + 1) * (other.len() as u64 + 1);
    if cells.saturating_mul(4) > call.shared.longest.redis as u64 {
        let sentence = "ERR Insufficient memory, transient memory for LCS exceeds \
                        proto-max-bulk-len";
        return Err(sentence.into());
    }
    let table = Table::of(&one, &other);
    let length = i64::from(table.at(one.len(), other.len()));
    if asked.length {
        call.reply.integer(length);
        return Ok(());
    }
    let places = table.places(&one, &other);
    if !asked.places {
        let part: Vec<u8> = places.into_iter().rev().flat_map(|(a, _)| one[a].to_vec()).collect();
        call.reply.bulk(part);
        return Ok(());
    }
    let long: Vec<_> = places.into_iter().filter(|(a, _)| a.len() >= asked.least).collect();
    call.reply.map(2);
    call.reply.bulk("matches");
    call.reply.array(long.len());
    for (a, b) in long {
        call.reply.array(2 + usize::from(asked.with_lengths));
        for range in [&a, &b] {
            call.reply.array(2);
            call.reply.count(range.start);
            call.reply.count(range.end - 1);
        }
        if asked.with_lengths {
            call.reply.count(a.len());
        }
    }
    call.reply.bulk("len");
    call.reply.integer(length);
    Ok(())
}
