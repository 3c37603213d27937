//! SCAN and its like, KEYS, RANDOMKEY.
//!
//! A cursor is a number that the server remembers a key for: where the next step begins. A key that
//! is there all the while comes, and comes once. Cursors are forgotten when there are too many, and
//! when the server stops; a forgotten one is an error, never an end that was not reached.

use std::ops::{Bound, ControlFlow};

use everleaf::Direction;

use super::call::Call;
use super::failure::{Failure, NOT_INTEGER, Outcome, SYNTAX};
use super::long::Rows;
use crate::data::{Kind, Part, behind, part_prefix, part_row};
use crate::resp::argument::is;
use crate::resp::glob;
use crate::resp::number::{integer, of_ordered, show};

/// The most entries that one step looks at.
const MAX_COUNT: usize = 10_000;

struct Options<'a> {
    pattern: Option<&'a [u8]>,
    count: usize,
    kind: Option<&'a [u8]>,
    /// Where it goes on.
    after: Option<Vec<u8>>,
}

impl Options<'_> {
    fn shows(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, name))
    }
}

const INVALID_CURSOR: Failure = Failure::Said("ERR invalid cursor");

/// The number of a cursor, with a sign or without.
fn cursor(arg: &[u8]) -> Outcome<u64> {
    let text = str::from_utf8(arg).unwrap_or_default();
    let (text, negative) = text.strip_prefix('-').map_or((text, false), |text| (text, true));
    let number = text.parse::<u64>().map_err(|_| INVALID_CURSOR)?;
    Ok(if negative { number.wrapping_neg() } else { number })
}

/// The options behind a cursor. One that nothing is remembered for is told last.
fn options<'a>(call: &Call<'a, '_, '_>, at: usize) -> Outcome<Options<'a>> {
    let number = cursor(call.args[at])?;
    let mut options = Options { pattern: None, count: 10, kind: None, after: None };
    for option in call.rest(at + 1).chunks(2) {
        match option {
            [name, pattern] if is(name, "MATCH") => options.pattern = Some(pattern),
            [name, kind] if is(name, "TYPE") && at == 1 => options.kind = Some(kind),
            [name, count] if is(name, "COUNT") => {
                let count = integer(count).ok_or(Failure::Said(NOT_INTEGER))?;
                if count < 1 {
                    return Err(SYNTAX.into());
                }
                options.count = (count as usize).min(MAX_COUNT);
            }
            _ => return Err(SYNTAX.into()),
        }
    }
    if number != 0 {
        options.after = Some(call.shared.cursors.place(number).ok_or(INVALID_CURSOR)?);
    }
    Ok(options)
}

fn show_cursor(call: &mut Call<'_, '_, '_>, next: Option<Vec<u8>>) {
    let cursor = next.map_or(0, |place| call.shared.cursors.remember(place));
    call.reply.array(2);
    call.reply.bulk(cursor.to_string());
}

/// SCAN.
pub fn scan(call: &mut Call<'_, '_, '_>) -> Outcome {
    let options = options(call, 1)?;
    // A reply of long keys ends early: the cursor says where it goes on.
    let bytes = call.shared.options.limits.reply_bytes;
    let listed =
        call.work.keys_after(call.database, options.after.as_deref(), (options.count, bytes))?;
    let shown = listed.keys.into_iter().filter(|one| {
        options.kind.is_none_or(|kind| is(kind, one.header.kind.name())) && options.shows(&one.key)
    });
    let shown: Vec<Vec<u8>> = shown.map(|one| one.key).collect();
    show_cursor(call, listed.next);
    call.reply.array(shown.len());
    shown.iter().for_each(|key| call.reply.bulk(key));
    Ok(())
}

fn scan_members(call: &mut Call<'_, '_, '_>, kind: Kind) -> Outcome {
    let row = call.row(1)?;
    cursor(call.args[2])?;
    let Some((_, collection)) = call.collection(&row, kind)? else {
        show_cursor(call, None);
        call.reply.array(0);
        return Ok(());
    };
    let options = options(call, 2)?;
    let (mut shown, mut next, mut looked_at, mut bytes) = (Vec::new(), None, 0, 0);
    let limit_bytes = call.shared.options.limits.reply_bytes;
    let id = collection.id;
    let from = match &options.after {
        Some(after) => Bound::Excluded(part_row(id, Part::Member, after)),
        None => Bound::Included(part_prefix(id, Part::Member)),
    };
    let prefix = part_prefix(id, Part::Member).len();
    let ends = (from, Bound::Excluded(behind(id, Part::Member)));
    call.work.scan(ends, Direction::Forward, |row, value| {
        let name = &row[prefix..];
        if options.shows(name) {
            bytes += name.len() + value.len();
            shown.push(name.to_vec());
            match kind {
                Kind::Hash => shown.push(value.to_vec()),
                Kind::SortedSet => shown.push(show(of_ordered(value).unwrap_or(0.0)).into_bytes()),
                _ => {}
            }
        }
        looked_at += 1;
        if looked_at < options.count && bytes < limit_bytes {
            return ControlFlow::Continue(());
        }
        next = Some(name.to_vec());
        ControlFlow::Break(())
    })?;
    show_cursor(call, next);
    call.reply.array(shown.len());
    shown.iter().for_each(|one| call.reply.bulk(one));
    Ok(())
}

/// HSCAN.
pub fn hscan(call: &mut Call<'_, '_, '_>) -> Outcome {
    scan_members(call, Kind::Hash)
}

/// SSCAN.
pub fn sscan(call: &mut Call<'_, '_, '_>) -> Outcome {
    scan_members(call, Kind::Set)
}

/// ZSCAN.
pub fn zscan(call: &mut Call<'_, '_, '_>) -> Outcome {
    scan_members(call, Kind::SortedSet)
}

/// KEYS.
pub fn keys(call: &mut Call<'_, '_, '_>) -> Outcome {
    call.rows(Rows::keys(call.database, call.args[1], call.live()))
}

/// RANDOMKEY.
pub fn randomkey(call: &mut Call<'_, '_, '_>) -> Outcome {
    let shared = call.shared;
    let key = call.work.random_key(call.database, |limit| shared.random_below(limit))?;
    call.reply.maybe(key);
    Ok(())
}
