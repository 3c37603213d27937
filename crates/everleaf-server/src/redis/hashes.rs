//! Commands about hashes: a field is one row, so what is touched is what is paid for.

use super::call::Call;
use super::failure::{Failure, NO_SUM, NOT_FLOAT, Outcome, check_length};
use super::long::{More, Rows, Show, show_field};
use crate::data::{Kind, Part, Source, part_row};
use crate::resp::long_double::LongDouble;
use crate::resp::number::integer;

fn wrong_number(command: &str) -> Failure {
    Failure::Text(format!("ERR wrong number of arguments for '{command}' command"))
}

/// Stores fields; how many are new.
fn put(call: &mut Call<'_, '_, '_>, pairs: &[&[u8]], only_absent: bool) -> Outcome<u64> {
    let row = call.row(1)?;
    for pair in pairs.chunks(2) {
        check_length(pair[0])?;
        call.check_value(pair[1].len())?;
    }
    let (header, mut hash) = call.collection_to_write(&row, Kind::Hash)?;
    let mut new = 0;
    for pair in pairs.chunks(2) {
        let field = part_row(hash.id, Part::Member, pair[0]);
        let there = call.work.show(&field, |_| ())?.is_some();
        if !(there && only_absent) {
            call.work.put(field, pair[1].to_vec());
        }
        new += u64::from(!there);
    }
    hash.members += new;
    call.work.changed_collection(&row, &header, &hash, new > 0);
    Ok(new)
}

/// HSET.
pub fn hset(call: &mut Call<'_, '_, '_>) -> Outcome {
    if !call.args.len().is_multiple_of(2) {
        return Err(wrong_number("hset"));
    }
    let new = put(call, call.rest(2), false)?;
    call.reply.integer(new as i64);
    Ok(())
}

/// HMSET.
pub fn hmset(call: &mut Call<'_, '_, '_>) -> Outcome {
    if !call.args.len().is_multiple_of(2) {
        return Err(wrong_number("hmset"));
    }
    put(call, call.rest(2), false)?;
    call.reply.ok();
    Ok(())
}

/// HSETNX.
pub fn hsetnx(call: &mut Call<'_, '_, '_>) -> Outcome {
    let new = put(call, call.rest(2), true)?;
    call.reply.integer(new as i64);
    Ok(())
}

fn field(call: &Call<'_, '_, '_>, name: &[u8]) -> Outcome<Option<Vec<u8>>> {
    let row = call.row(1)?;
    match call.collection(&row, Kind::Hash)? {
        Some((_, hash)) => Ok(call.work.part(hash.id, Part::Member, name)?),
        None => Ok(None),
    }
}

/// HGET.
pub fn hget(call: &mut Call<'_, '_, '_>) -> Outcome {
    let value = field(call, call.args[2])?;
    call.reply.maybe(value);
    Ok(())
}

/// HEXISTS.
pub fn hexists(call: &mut Call<'_, '_, '_>) -> Outcome {
    let there = field(call, call.args[2])?.is_some();
    call.reply.flag(there);
    Ok(())
}

/// HSTRLEN.
pub fn hstrlen(call: &mut Call<'_, '_, '_>) -> Outcome {
    let length = field(call, call.args[2])?.map_or(0, |value| value.len());
    call.reply.count(length);
    Ok(())
}

/// HMGET.
pub fn hmget(call: &mut Call<'_, '_, '_>) -> Outcome {
    let row = call.row(1)?;
    let hash = call.collection(&row, Kind::Hash)?.map(|(_, hash)| hash.id);
    call.reply.array(call.args.len() - 2);
    for (at, name) in call.args.iter().enumerate().skip(2) {
        if call.is_full() {
            call.more = Some(More::Fields(hash, at));
            break;
        }
        show_field(Source::Work(call.work), hash, name, &mut call.reply)?;
    }
    Ok(())
}

/// HLEN.
pub fn hlen(call: &mut Call<'_, '_, '_>) -> Outcome {
    let row = call.row(1)?;
    let members = call.collection(&row, Kind::Hash)?.map_or(0, |(_, hash)| hash.members);
    call.reply.integer(members as i64);
    Ok(())
}

/// HDEL.
pub fn hdel(call: &mut Call<'_, '_, '_>) -> Outcome {
    let row = call.row(1)?;
    let Some((header, mut hash)) = call.collection(&row, Kind::Hash)? else {
        call.reply.integer(0);
        return Ok(());
    };
    let before = hash.members;
    for name in call.rest(2) {
        let field = part_row(hash.id, Part::Member, name);
        if call.work.show(&field, |_| ())?.is_some() {
            call.work.delete(field);
            hash.members = hash.members.saturating_sub(1);
        }
    }
    call.work.changed_collection(&row, &header, &hash, hash.members != before);
    call.reply.integer((before - hash.members) as i64);
    Ok(())
}

fn all(call: &mut Call<'_, '_, '_>, show: Show) -> Outcome {
    let row = call.row(1)?;
    let hash = call.collection(&row, Kind::Hash)?;
    let (id, members) = hash.map_or((0, 0), |(_, hash)| (hash.id, hash.members));
    call.rows(Rows::all(id, Part::Member, members, show))
}

/// HGETALL.
pub fn hgetall(call: &mut Call<'_, '_, '_>) -> Outcome {
    all(call, Show::Entries)
}

/// HKEYS.
pub fn hkeys(call: &mut Call<'_, '_, '_>) -> Outcome {
    all(call, Show::Names)
}

/// HVALS.
pub fn hvals(call: &mut Call<'_, '_, '_>) -> Outcome {
    all(call, Show::Values)
}

/// HINCRBY.
pub fn hincrby(call: &mut Call<'_, '_, '_>) -> Outcome {
    let by = call.integer(3)?;
    let old = field(call, call.args[2])?.unwrap_or(b"0".to_vec());
    let number = integer(&old).ok_or(Failure::Said("ERR hash value is not an integer"))?;
    let number =
        number.checked_add(by).ok_or(Failure::Said("ERR increment or decrement would overflow"))?;
    put(call, &[call.args[2], number.to_string().as_bytes()], false)?;
    call.reply.integer(number);
    Ok(())
}

/// HINCRBYFLOAT.
pub fn hincrbyfloat(call: &mut Call<'_, '_, '_>) -> Outcome {
    let by = LongDouble::read(call.args[3]).ok_or(Failure::Said(NOT_FLOAT))?;
    if !by.is_finite() {
        return Err("ERR value is NaN or Infinity".into());
    }
    let old = field(call, call.args[2])?.unwrap_or(b"0".to_vec());
    let old = LongDouble::read(&old).ok_or(Failure::Said("ERR hash value is not a float"))?;
    let text = old.plus(by).ok_or(Failure::Said(NO_SUM))?.show();
    put(call, &[call.args[2], text.as_bytes()], false)?;
    call.reply.bulk(text);
    Ok(())
}
