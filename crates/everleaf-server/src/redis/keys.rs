//! Commands about keys of every type.

use std::ops::ControlFlow;

use everleaf::Direction;

use super::call::Call;
use super::failure::{Failure, NO_KEY, Outcome, SYNTAX};
use crate::data::{Collection, HEADER_BYTES, Header, Kind, Part, key_row, part_row};
use crate::resp::argument::is;
use crate::resp::number::integer;

/// DEL, UNLINK.
pub fn del(call: &mut Call<'_, '_, '_>) -> Outcome {
    let mut removed = 0;
    for key in call.rest(1) {
        let row = call.row_of(key)?;
        removed += i64::from(call.work.remove_key(&row)?);
    }
    call.reply.integer(removed);
    Ok(())
}

/// EXISTS, TOUCH.
pub fn exists(call: &mut Call<'_, '_, '_>) -> Outcome {
    let mut there = 0;
    for key in call.rest(1) {
        there += i64::from(call.work.header(&call.row_of(key)?)?.is_some());
    }
    call.reply.integer(there);
    Ok(())
}

/// TYPE.
pub fn type_of(call: &mut Call<'_, '_, '_>) -> Outcome {
    let found = call.work.header(&call.row(1)?)?;
    call.reply.simple(found.map_or("none", |(header, _)| header.kind.name()));
    Ok(())
}

// ---- expiry
// -------------------------------------------------------------------------------------------------

/// The value that lies in the store under a key, with another header.
fn with_header(call: &Call<'_, '_, '_>, row: &[u8], header: &Header) -> Outcome<Vec<u8>> {
    let value = call.work.get(row)?.unwrap_or_default();
    Ok(header.with(value.get(HEADER_BYTES..).unwrap_or_default()))
}

fn expire(call: &mut Call<'_, '_, '_>, unit: i64, relative: bool, command: &str) -> Outcome {
    let row = call.row(1)?;
    let (mut nx, mut xx, mut gt, mut lt) = (false, false, false, false);
    for option in call.rest(3) {
        match option {
            o if is(o, "NX") => nx = true,
            o if is(o, "XX") => xx = true,
            o if is(o, "GT") => gt = true,
            o if is(o, "LT") => lt = true,
            o => {
                let option = o.escape_ascii();
                return Err(Failure::Text(format!("ERR Unsupported option {option}")));
            }
        }
    }
    if nx && (xx || gt || lt) {
        return Err("ERR NX and XX, GT or LT options at the same time are not compatible".into());
    }
    if gt && lt {
        return Err("ERR GT and LT options at the same time are not compatible".into());
    }
    let number = call.integer(2)?;
    let base = if relative { call.work.now_ms as i64 } else { 0 };
    let at = number
        .checked_mul(unit)
        .and_then(|ms| ms.checked_add(base))
        .ok_or_else(|| Failure::Text(format!("ERR invalid expire time in '{command}' command")))?;
    let Some((header, _)) = call.work.header(&row)? else {
        call.reply.integer(0);
        return Ok(());
    };
    let now = header.expires_ms.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX));
    let refused = nx && now.is_some()
        || xx && now.is_none()
        || gt && now.is_none_or(|now| at <= now)
        || lt && now.is_some_and(|now| at >= now);
    if !refused {
        if at <= call.work.now_ms as i64 {
            call.work.remove_key(&row)?;
        } else {
            let header = Header { expires_ms: Some(at as u64), ..header };
            let value = with_header(call, &row, &header)?;
            call.work.put(row, value);
        }
    }
    call.reply.flag(!refused);
    Ok(())
}

/// EXPIRE.
pub fn expire_in(call: &mut Call<'_, '_, '_>) -> Outcome {
    expire(call, 1000, true, "expire")
}

/// PEXPIRE.
pub fn pexpire_in(call: &mut Call<'_, '_, '_>) -> Outcome {
    expire(call, 1, true, "pexpire")
}

/// EXPIREAT.
pub fn expire_at(call: &mut Call<'_, '_, '_>) -> Outcome {
    expire(call, 1000, false, "expireat")
}

/// PEXPIREAT.
pub fn pexpire_at(call: &mut Call<'_, '_, '_>) -> Outcome {
    expire(call, 1, false, "pexpireat")
}

fn time(call: &mut Call<'_, '_, '_>, show: impl FnOnce(u64, u64) -> u64) -> Outcome {
    let found = call.work.header(&call.row(1)?)?;
    let now_ms = call.work.now_ms;
    let number = match found {
        None => -2,
        Some((Header { expires_ms: None, .. }, _)) => -1,
        Some((Header { expires_ms: Some(at), .. }, _)) => {
            i64::try_from(show(at, now_ms)).unwrap_or(i64::MAX)
        }
    };
    call.reply.integer(number);
    Ok(())
}

/// TTL.
pub fn ttl(call: &mut Call<'_, '_, '_>) -> Outcome {
    time(call, |at, now_ms| (at.saturating_sub(now_ms) + 500) / 1000)
}

/// PTTL.
pub fn pttl(call: &mut Call<'_, '_, '_>) -> Outcome {
    time(call, |at, now_ms| at.saturating_sub(now_ms))
}

/// EXPIRETIME.
pub fn expiretime(call: &mut Call<'_, '_, '_>) -> Outcome {
    time(call, |at, _| at.saturating_add(500) / 1000)
}

/// PEXPIRETIME.
pub fn pexpiretime(call: &mut Call<'_, '_, '_>) -> Outcome {
    time(call, |at, _| at)
}

/// PERSIST.
pub fn persist(call: &mut Call<'_, '_, '_>) -> Outcome {
    let row = call.row(1)?;
    let header = call.work.header(&row)?.map(|(header, _)| header);
    let Some(header) = header.filter(|header| header.expires_ms.is_some()) else {
        call.reply.integer(0);
        return Ok(());
    };
    let value = with_header(call, &row, &Header { expires_ms: None, ..header })?;
    call.work.put(row, value);
    call.reply.integer(1);
    Ok(())
}

// ---- other names
// -------------------------------------------------------------------------------------------------

fn rename_to(call: &mut Call<'_, '_, '_>, only_absent: bool) -> Outcome<bool> {
    let (from, to) = (call.row(1)?, call.row(2)?);
    let Some((header, value)) = call.work.value(&from)? else { return Err(NO_KEY.into()) };
    let there = call.work.header(&to)?.is_some();
    if only_absent && there {
        return Ok(false);
    }
    if from != to {
        move_value(call, from, to, &header, &value)?;
    }
    Ok(true)
}

/// A collection's parts are found by its id, which moves with the value.
fn move_value(
    call: &mut Call<'_, '_, '_>,
    from: Vec<u8>,
    to: Vec<u8>,
    header: &Header,
    value: &[u8],
) -> Outcome {
    call.work.remove_key(&to)?;
    let sequence = call.work.data.next_number()?;
    let body = &value[HEADER_BYTES..];
    call.work.put(to, Header { sequence, cas: sequence, ..*header }.with(body));
    call.work.delete(from);
    Ok(())
}

/// RENAME.
pub fn rename(call: &mut Call<'_, '_, '_>) -> Outcome {
    rename_to(call, false)?;
    call.reply.ok();
    Ok(())
}

/// RENAMENX.
pub fn renamenx(call: &mut Call<'_, '_, '_>) -> Outcome {
    let done = rename_to(call, true)?;
    call.reply.flag(done);
    Ok(())
}

/// A database that an argument names.
fn database(call: &Call<'_, '_, '_>, at: usize) -> Outcome<u8> {
    let number = u8::try_from(call.integer(at)?).ok();
    let known = number.filter(|number| *number < crate::data::DATABASES);
    known.ok_or(Failure::Said("ERR DB index is out of range"))
}

/// MOVE.
pub fn move_to(call: &mut Call<'_, '_, '_>) -> Outcome {
    let (from, to) = (call.row(1)?, key_row(database(call, 2)?, call.args[1]));
    if from == to {
        return Err("ERR source and destination objects are the same".into());
    }
    let found = call.work.value(&from)?;
    let is_free = call.work.header(&to)?.is_none();
    let found = found.filter(|_| is_free);
    call.reply.flag(found.is_some());
    match found {
        Some((header, value)) => move_value(call, from, to, &header, &value),
        None => Ok(()),
    }
}

/// COPY.
pub fn copy(call: &mut Call<'_, '_, '_>) -> Outcome {
    let (mut to_database, mut replace, mut at) = (call.database, false, 3);
    while let Some(option) = call.args.get(at) {
        at += 1;
        if is(option, "REPLACE") {
            replace = true;
        } else if is(option, "DB") && at < call.args.len() {
            to_database = database(call, at)?;
            at += 1;
        } else {
            return Err(SYNTAX.into());
        }
    }
    let (from, _) = (call.row(1)?, call.row(2)?);
    let to = key_row(to_database, call.args[2]);
    if from == to {
        return Err("ERR source and destination objects are the same".into());
    }
    let Some((header, value)) = call.work.value(&from)? else {
        call.reply.integer(0);
        return Ok(());
    };
    if call.work.header(&to)?.is_some() && !replace {
        call.reply.integer(0);
        return Ok(());
    }
    call.work.remove_key(&to)?;
    let sequence = call.work.data.next_number()?;
    let new = Header { sequence, cas: sequence, ..header };
    if header.kind == Kind::String {
        call.work.put(to, new.with(&value[HEADER_BYTES..]));
    } else if let Some(collection) = Collection::read(&value) {
        copy_parts(call, collection.id, sequence)?;
        // The id is the first word of all bodies.
        let rest = &value[HEADER_BYTES + 8..];
        call.work.put(to, new.with(&[&sequence.to_le_bytes(), rest].concat()));
    }
    call.reply.integer(1);
    Ok(())
}

fn copy_parts(call: &mut Call<'_, '_, '_>, from: u64, to: u64) -> Outcome {
    let mut parts = Vec::new();
    for part in Part::ALL {
        call.work.scan_part(from, part, Direction::Forward, |rest, value| {
            parts.push((part_row(to, part, rest), value.to_vec()));
            ControlFlow::Continue(())
        })?;
    }
    parts.into_iter().for_each(|(row, value)| call.work.put(row, value));
    Ok(())
}

/// OBJECT ENCODING and its like.
pub fn object(call: &mut Call<'_, '_, '_>) -> Outcome {
    let subcommand = call.args[1];
    if is(subcommand, "HELP") {
        call.help(&[
            "ENCODING <key>",
            "    Return the kind of internal representation used in order to store the value",
            "    associated with a <key>.",
            "FREQ <key>",
            "    Return the access frequency index of the <key>. The returned integer is",
            "    proportional to the logarithm of the recent access frequency of the key.",
            "IDLETIME <key>",
            "    Return the idle time of the <key>, that is the approximated number of",
            "    seconds elapsed since the last access to the key.",
            "REFCOUNT <key>",
            "    Return the number of references of the value associated with the specified",
            "    <key>.",
        ]);
        return Ok(());
    }
    let row = call.row(2)?;
    let idle = call.work.data.idle_seconds(&row); // Before it is used by this.
    let Some((header, value)) = call.work.value(&row)? else {
        call.reply.null();
        return Ok(());
    };
    let body = &value[HEADER_BYTES..];
    match subcommand {
        s if is(s, "ENCODING") => call.reply.bulk(match header.kind {
            Kind::String if integer(body).is_some() => "int",
            Kind::String if body.len() <= 44 => "embstr",
            Kind::String => "raw",
            Kind::Hash | Kind::Set => "hashtable",
            Kind::SortedSet => "skiplist",
            Kind::List => "quicklist",
            Kind::Stream => "stream",
        }),
        s if is(s, "FREQ") => {
            let sentence = "ERR An LFU maxmemory policy is not selected, access frequency not \
                            tracked. Please note that when switching between policies at runtime \
                            LRU and LFU data will take some time to adjust.";
            return Err(sentence.into());
        }
        s if is(s, "IDLETIME") => call.reply.integer(i64::from(idle)),
        _ => call.reply.integer(1),
    }
    Ok(())
}
