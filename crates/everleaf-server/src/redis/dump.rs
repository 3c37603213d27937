//! DUMP and RESTORE: a key as bytes, which another server of the same version takes.
//!
//! ```text
//! 0   kind (1)      as in `data/record.rs`
//! 1   flags (4)     memcached's
//! 5   body          the bytes of a string; of a collection its entries: length (4), bytes
//! -8  "elv"         whose it is
//! -5  version (1)
//! -4  checksum (4)  CRC-32C of all that stands in front of it
//! ```
//!
//! A hash has a name and a value in turn, a sorted set a member and its score; streams are told in
//! `stream_dump.rs`. Words are little-endian. A payload is never trusted: what it says is looked at
//! like a client's command.

use std::ops::ControlFlow;

use everleaf::Direction;

use super::call::Call;
use super::failure::{Failure, Outcome, SYNTAX, TOO_LONG, check_length};
use super::payload::{BAD_FORMAT, entries};
use super::sorted_sets::{self, Members};
use super::{lists, roles, stream_dump};
use crate::data::{Collection, HEADER_BYTES, Header, Kind, Part, add_string, part_row};
use crate::resp::argument::is;
use crate::resp::number::{of_ordered, to_ordered};

/// Whose payload it is, and of which version.
const TAIL: [u8; 4] = *b"elv\x01";
/// Bytes in front of the body.
const HEAD_BYTES: usize = 5;

/// Which of a collection's rows are told.
const fn part_of(kind: Kind) -> Part {
    match kind {
        Kind::List => Part::Element,
        Kind::Stream => Part::Entry,
        _ => Part::Member,
    }
}

/// DUMP.
pub fn dump(call: &mut Call<'_, '_, '_>) -> Outcome {
    let row = call.row(1)?;
    let Some((header, value)) = call.work.value(&row)? else {
        call.reply.null();
        return Ok(());
    };
    let mut payload = vec![header.kind as u8];
    payload.extend_from_slice(&header.flags.to_le_bytes());
    match Collection::read(&value).filter(|_| header.kind != Kind::String) {
        None => payload.extend_from_slice(&value[HEADER_BYTES..]),
        Some(_) if header.kind == Kind::Stream => stream_dump::tell(call, &row, &mut payload)?,
        Some(collection) => {
            let (part, end) = (part_of(header.kind), call.reply.end);
            call.work.scan_part(collection.id, part, Direction::Forward, |name, value| {
                if header.kind != Kind::List {
                    add_string(&mut payload, name);
                }
                if header.kind != Kind::Set {
                    add_string(&mut payload, value);
                }
                if payload.len() > end { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
        }
    }
    if payload.len() > call.reply.end {
        return Err(TOO_LONG.into());
    }
    payload.extend_from_slice(&TAIL);
    payload.extend_from_slice(&crc32c::crc32c(&payload).to_le_bytes());
    call.reply.bulk(payload);
    Ok(())
}

/// What a payload says in front of its tail.
fn checked(payload: &[u8]) -> Outcome<&[u8]> {
    let wrong = Failure::Said("ERR DUMP payload version or checksum are wrong");
    let Some((told, checksum)) = payload.split_last_chunk::<4>() else { return Err(wrong) };
    match told.strip_suffix(&TAIL) {
        Some(body) if crc32c::crc32c(told).to_le_bytes() == *checksum => Ok(body),
        _ => Err(wrong),
    }
}

/// The options of RESTORE.
struct Restoring {
    replace: bool,
    absolute: bool,
}

fn restoring(call: &Call<'_, '_, '_>) -> Outcome<Restoring> {
    let mut options = Restoring { replace: false, absolute: false };
    // How long and how often it was used is not kept; what is said of it is looked at.
    let (mut idle, mut frequency, mut at) = (false, false, 4);
    while at < call.args.len() {
        let valued = at + 1 < call.args.len();
        match call.args[at] {
            o if is(o, "REPLACE") => options.replace = true,
            o if is(o, "ABSTTL") => options.absolute = true,
            o if is(o, "IDLETIME") && valued && !frequency => {
                at += 1;
                idle = true;
                if call.integer(at)? < 0 {
                    return Err("ERR Invalid IDLETIME value, must be >= 0".into());
                }
            }
            o if is(o, "FREQ") && valued && !idle => {
                at += 1;
                frequency = true;
                if !(0..=255).contains(&call.integer(at)?) {
                    return Err("ERR Invalid FREQ value, must be >= 0 and <= 255".into());
                }
            }
            _ => return Err(SYNTAX.into()),
        }
        at += 1;
    }
    Ok(options)
}

/// RESTORE.
pub fn restore(call: &mut Call<'_, '_, '_>) -> Outcome {
    let (row, options) = (call.row(1)?, restoring(call)?);
    if !options.replace && call.work.header(&row)?.is_some() {
        return Err("BUSYKEY Target key name already exists.".into());
    }
    let time = u64::try_from(call.integer(2)?)
        .map_err(|_| Failure::Said("ERR Invalid TTL value, must be >= 0"))?;
    let now_ms = call.work.now_ms;
    let expires_ms = match (time, options.absolute) {
        (0, _) => None,
        (time, true) => Some(time),
        (time, false) => Some(time.saturating_add(now_ms)),
    };
    let told = checked(call.args[3])?;
    call.work.remove_key(&row)?;
    if expires_ms.is_none_or(|at| at > now_ms) {
        make(call, &row, told, expires_ms)?;
    }
    call.reply.ok();
    Ok(())
}

/// Stores what a payload tells under a key that is not there.
fn make(call: &mut Call<'_, '_, '_>, row: &[u8], told: &[u8], expires_ms: Option<u64>) -> Outcome {
    let Some((head, body)) = told.split_first_chunk::<HEAD_BYTES>() else {
        return Err(BAD_FORMAT.into());
    };
    let kind = Kind::of(head[0]).ok_or(Failure::Said(BAD_FORMAT))?;
    let flags = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
    match kind {
        Kind::String => {
            call.check_value(body.len())?;
            let header = Header { flags, ..Header::new(kind, call.work.data.next_number()?) };
            call.work.put_string(row, &header, body)?;
        }
        Kind::List => {
            let values = entries(body)?;
            values.iter().try_for_each(|value| call.check_value(value.len()))?;
            lists::replace(call, row, &values)?;
        }
        Kind::SortedSet => {
            let members = scored(&entries(body)?)?;
            sorted_sets::store(call, row.to_vec(), &members)?;
        }
        Kind::Hash | Kind::Set => make_members(call, row, kind, &entries(body)?)?,
        Kind::Stream => stream_dump::make(call, row, body)?,
    }
    let Some((header, value)) = call.work.value(row)? else { return Err(BAD_FORMAT.into()) };
    call.work.put(row.to_vec(), Header { expires_ms, ..header }.with(&value[HEADER_BYTES..]));
    Ok(())
}

fn make_members(
    call: &mut Call<'_, '_, '_>,
    row: &[u8],
    kind: Kind,
    entries: &[Vec<u8>],
) -> Outcome {
    let step = if kind == Kind::Hash { 2 } else { 1 };
    let (header, mut collection) = call.work.new_collection(kind)?;
    for entry in entries.chunks(step) {
        let value = match entry {
            [_] if kind == Kind::Set => Vec::new(),
            [_, value] => value.clone(),
            _ => return Err(BAD_FORMAT.into()),
        };
        check_length(&entry[0])?;
        call.check_value(value.len())?;
        let member = part_row(collection.id, Part::Member, &entry[0]);
        if call.work.show(&member, |_| ())?.is_some() {
            return Err(BAD_FORMAT.into());
        }
        call.work.put(member, value);
        collection.members += 1;
    }
    call.work.changed_collection(row, &header, &collection, true);
    Ok(())
}

/// Members in the order of their names, none twice, and their scores.
fn scored(entries: &[Vec<u8>]) -> Outcome<Members> {
    let mut members = Members::new();
    for entry in entries.chunks(2) {
        let [name, score] = entry else { return Err(BAD_FORMAT.into()) };
        check_length(name)?;
        let number = of_ordered(score).filter(|number| to_ordered(*number)[..] == score[..]);
        let number = number.filter(|number| !number.is_nan()).ok_or(Failure::Said(BAD_FORMAT))?;
        if members.last().is_some_and(|(last, _)| last >= name) {
            return Err(BAD_FORMAT.into());
        }
        members.push((name.clone(), number));
    }
    Ok(members)
}

// ---- MEMORY
// -------------------------------------------------------------------------------------------------

/// MEMORY USAGE: bytes of the key's rows; those of a collection by some of them.
pub fn memory(call: &mut Call<'_, '_, '_>) -> Outcome {
    if is(call.args[1], "HELP") {
        call.help(&[
            "DOCTOR",
            "    Return memory problems reports: there are none.",
            "STATS",
            "    Return information about the memory usage of the server.",
            "USAGE <key> [SAMPLES <count>]",
            "    Return memory in bytes used by <key> and its value. Nested values are",
            "    sampled up to <count> times (default: 5, 0 means sample all).",
        ]);
        return Ok(());
    }
    if is(call.args[1], "STATS") {
        return roles::memory_stats(call);
    }
    if is(call.args[1], "PURGE") {
        call.reply.ok();
        return Ok(());
    }
    if is(call.args[1], "DOCTOR") {
        call.reply.text("The values are in the pool: INFO memory tells how full it is.\n");
        return Ok(());
    }
    let samples = match call.rest(3) {
        [] => 5,
        [option, _] if is(option, "SAMPLES") => match call.integer(4)? {
            0 => u64::MAX,
            samples => u64::try_from(samples).map_err(|_| Failure::Said(SYNTAX))?,
        },
        _ => return Err(SYNTAX.into()),
    };
    let row = call.row(2)?;
    let Some((header, value)) = call.work.value(&row)? else {
        call.reply.null();
        return Ok(());
    };
    let mut bytes = (row.len() + value.len()) as u64;
    if let Some(collection) = Collection::read(&value).filter(|_| header.kind != Kind::String) {
        let (mut seen, mut of_seen) = (0, 0);
        let part = part_of(header.kind);
        let prefix = part_row(collection.id, part, &[]).len();
        call.work.scan_part(collection.id, part, Direction::Forward, |name, value| {
            seen += 1;
            of_seen += (prefix + name.len() + value.len()) as u64;
            // A sorted set has a second row of each member.
            if header.kind == Kind::SortedSet {
                of_seen += (prefix + value.len() + name.len()) as u64;
            }
            if seen < samples { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        bytes += (of_seen as f64 / seen.max(1) as f64 * collection.members as f64) as u64;
    }
    call.reply.integer(bytes as i64);
    Ok(())
}
