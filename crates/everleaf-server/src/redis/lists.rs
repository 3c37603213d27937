//! Commands about lists: an element is a row, found by its position.
//!
//! Both ends grow by one row and the header. What changes the middle moves the elements behind it.

use std::ops::{Bound, ControlFlow};

use everleaf::Direction;

use super::blocking::Timeout;
use super::call::{Call, Failure, NO_KEY, OUT_OF_RANGE, Outcome, SYNTAX, TOO_LONG, is, slice};
use super::long::{Rows, Show};
use crate::data::{Collection, Ends, Kind, Part, part_row};

fn element(list: &Collection, index: u64) -> Vec<u8> {
    part_row(list.id, Part::Element, &list.first.wrapping_add(index).to_be_bytes())
}

fn push(call: &mut Call<'_, '_, '_>, left: bool, only_present: bool) -> Outcome {
    let row = call.row(1)?;
    call.rest(2).iter().try_for_each(|value| call.check_value(value.len()))?;
    if only_present && call.collection(&row, Kind::List)?.is_none() {
        call.reply.integer(0);
        return Ok(());
    }
    let (header, mut list) = call.collection_to_write(&row, Kind::List)?;
    for value in call.rest(2) {
        let at = if left {
            list.first = list.first.wrapping_sub(1);
            0
        } else {
            list.members
        };
        call.work.put(element(&list, at), value.to_vec());
        list.members += 1;
    }
    call.work.changed_collection(&row, &header, &list, true);
    call.reply.integer(list.members as i64);
    Ok(())
}

/// LPUSH.
pub fn lpush(call: &mut Call<'_, '_, '_>) -> Outcome {
    push(call, true, false)
}

/// RPUSH.
pub fn rpush(call: &mut Call<'_, '_, '_>) -> Outcome {
    push(call, false, false)
}

/// LPUSHX.
pub fn lpushx(call: &mut Call<'_, '_, '_>) -> Outcome {
    push(call, true, true)
}

/// RPUSHX.
pub fn rpushx(call: &mut Call<'_, '_, '_>) -> Outcome {
    push(call, false, true)
}

/// Takes up to `count` elements off one end.
pub fn take(
    call: &mut Call<'_, '_, '_>,
    row: &[u8],
    left: bool,
    count: u64,
) -> Outcome<Vec<Vec<u8>>> {
    let Some((header, mut list)) = call.collection(row, Kind::List)? else {
        return Ok(Vec::new());
    };
    let (mut taken, mut bytes) = (Vec::new(), 0);
    for _ in 0..count.min(list.members) {
        let at = element(&list, if left { 0 } else { list.members - 1 });
        let value = call.work.get(&at)?.unwrap_or_default();
        bytes += value.len();
        // What is removed must be replied, and nothing is removed yet.
        if bytes > call.reply.end {
            return Err(TOO_LONG.into());
        }
        taken.push(value);
        call.work.delete(at);
        list.members -= 1;
        if left {
            list.first = list.first.wrapping_add(1);
        }
    }
    call.work.changed_collection(row, &header, &list, !taken.is_empty());
    Ok(taken)
}

fn pop(call: &mut Call<'_, '_, '_>, left: bool) -> Outcome {
    call.at_most(3)?;
    let row = call.row(1)?;
    let counted = call.args.len() > 2;
    let count = match counted {
        true => call.at_least(2, 0, "ERR value is out of range, must be positive")?,
        false => 1,
    };
    let there = call.collection(&row, Kind::List)?.is_some();
    let taken = take(call, &row, left, count)?;
    match (counted, there) {
        (false, _) => call.reply.maybe(taken.first()),
        (true, false) => call.reply.null_array(),
        (true, true) => {
            call.reply.array(taken.len());
            taken.iter().for_each(|value| call.reply.bulk(value));
        }
    }
    Ok(())
}

/// LPOP.
pub fn lpop(call: &mut Call<'_, '_, '_>) -> Outcome {
    pop(call, true)
}

/// RPOP.
pub fn rpop(call: &mut Call<'_, '_, '_>) -> Outcome {
    pop(call, false)
}

/// Moves an element of the first key to the second one.
pub fn move_one(call: &mut Call<'_, '_, '_>, from_left: bool, to_left: bool) -> Outcome {
    let (from, to) = (call.row(1)?, call.row(2)?);
    let Some(value) = take(call, &from, from_left, 1)?.pop() else {
        call.reply.null();
        return Ok(());
    };
    let (header, mut list) = call.collection_to_write(&to, Kind::List)?;
    list.first = if to_left { list.first.wrapping_sub(1) } else { list.first };
    call.work.put(element(&list, if to_left { 0 } else { list.members }), value.clone());
    list.members += 1;
    call.work.changed_collection(&to, &header, &list, true);
    call.reply.bulk(value);
    Ok(())
}

/// RPOPLPUSH.
pub fn rpoplpush(call: &mut Call<'_, '_, '_>) -> Outcome {
    move_one(call, false, true)
}

/// LMOVE.
pub fn lmove(call: &mut Call<'_, '_, '_>) -> Outcome {
    let (from_left, to_left) = (is_left(call.args[3])?, is_left(call.args[4])?);
    move_one(call, from_left, to_left)
}

/// LLEN.
pub fn llen(call: &mut Call<'_, '_, '_>) -> Outcome {
    let row = call.row(1)?;
    let members = call.collection(&row, Kind::List)?.map_or(0, |(_, list)| list.members);
    call.reply.integer(members as i64);
    Ok(())
}

/// An end of a list by its name.
pub fn is_left(arg: &[u8]) -> Outcome<bool> {
    match arg {
        arg if is(arg, "LEFT") => Ok(true),
        arg if is(arg, "RIGHT") => Ok(false),
        _ => Err(SYNTAX.into()),
    }
}

/// The count behind the ends of LMPOP and ZMPOP; 1 if there is none.
pub fn pop_count(call: &Call<'_, '_, '_>, at: usize) -> Outcome<u64> {
    match call.rest(at) {
        [] => Ok(1),
        [option, _] if is(option, "COUNT") => {
            call.at_least(at + 1, 1, "ERR count should be greater than 0")
        }
        _ => Err(SYNTAX.into()),
    }
}

/// LMPOP, which waits if a time is given.
pub fn pop_of_many(
    call: &mut Call<'_, '_, '_>,
    numkeys: usize,
    timeout: Option<Timeout>,
) -> Outcome {
    let (keys, end) = call.counted_keys(numkeys)?;
    let left = is_left(call.args[end])?;
    let count = pop_count(call, end + 1)?;
    for key in keys {
        let row = call.row_of(key)?;
        if timeout.is_some() && !call.may_pop(&row, Kind::List)? {
            continue;
        }
        let taken = take(call, &row, left, count)?;
        if !taken.is_empty() {
            call.reply.array(2);
            call.reply.bulk(key);
            call.reply.array(taken.len());
            taken.iter().for_each(|value| call.reply.bulk(value));
            return Ok(());
        }
    }
    match timeout {
        Some(timeout) => call.wait_for(keys, Kind::List, timeout),
        None => {
            call.reply.null_array();
            Ok(())
        }
    }
}

/// LMPOP.
pub fn lmpop(call: &mut Call<'_, '_, '_>) -> Outcome {
    pop_of_many(call, 1, None)
}

/// The rows of a part of a list.
fn ends(list: &Collection, range: std::ops::Range<u64>) -> Ends {
    (Bound::Included(element(list, range.start)), Bound::Excluded(element(list, range.end)))
}

/// The elements of a part of a list.
fn values(
    call: &Call<'_, '_, '_>,
    list: &Collection,
    range: std::ops::Range<u64>,
) -> Outcome<Vec<Vec<u8>>> {
    let mut values = Vec::new();
    call.work.scan(ends(list, range), Direction::Forward, |_, value| {
        values.push(value.to_vec());
        ControlFlow::Continue(())
    })?;
    Ok(values)
}

/// LRANGE.
pub fn lrange(call: &mut Call<'_, '_, '_>) -> Outcome {
    let (row, from, to) = (call.row(1)?, call.integer(2)?, call.integer(3)?);
    let Some((_, list)) = call.collection(&row, Kind::List)? else {
        call.reply.array(0);
        return Ok(());
    };
    let range = slice(from, to, list.members);
    let count = range.end - range.start;
    let rows = Rows::of(ends(&list, range), Direction::Forward, (0, count), Show::Values);
    call.rows(rows.known())
}

fn index_of(index: i64, list: &Collection) -> Option<u64> {
    let index = if index < 0 { index + list.members as i64 } else { index };
    u64::try_from(index).ok().filter(|index| *index < list.members)
}

/// LINDEX.
pub fn lindex(call: &mut Call<'_, '_, '_>) -> Outcome {
    let (row, index) = (call.row(1)?, call.integer(2)?);
    let list = call.collection(&row, Kind::List)?.map(|(_, list)| list);
    let at = list.and_then(|list| Some(element(&list, index_of(index, &list)?)));
    let value = match at {
        Some(at) => call.work.get(&at)?,
        None => None,
    };
    call.reply.maybe(value);
    Ok(())
}

/// What LPOS looks for.
struct Sought {
    /// Which match is the first that counts; negative: from the end of the list.
    rank: i64,
    /// How many are shown, 0: all; none: one, and not as an array.
    count: Option<u64>,
    /// How many elements are compared; 0: all.
    compared: u64,
}

fn sought(call: &Call<'_, '_, '_>) -> Outcome<Sought> {
    let mut sought = Sought { rank: 1, count: None, compared: 0 };
    for (at, option) in call.args.iter().enumerate().skip(3).step_by(2) {
        match option {
            _ if at + 1 == call.args.len() => return Err(SYNTAX.into()),
            o if is(o, "RANK") => sought.rank = call.integer(at + 1)?,
            o if is(o, "COUNT") => {
                sought.count = Some(call.at_least(at + 1, 0, "ERR COUNT can't be negative")?);
            }
            o if is(o, "MAXLEN") => {
                sought.compared = call.at_least(at + 1, 0, "ERR MAXLEN can't be negative")?;
            }
            _ => return Err(SYNTAX.into()),
        }
        if sought.rank == 0 {
            let sentence = "ERR RANK can't be zero: use 1 to start from the first match, 2 from \
                            the second ... or use negative to start from the end of the list";
            return Err(sentence.into());
        }
    }
    Ok(sought)
}

/// LPOS.
pub fn lpos(call: &mut Call<'_, '_, '_>) -> Outcome {
    let (row, wanted, sought) = (call.row(1)?, call.args[2], sought(call)?);
    let mut found = Vec::new();
    if let Some((_, list)) = call.collection(&row, Kind::List)? {
        let backward = sought.rank < 0;
        let direction = if backward { Direction::Backward } else { Direction::Forward };
        let most = if sought.count == Some(0) { u64::MAX } else { sought.count.unwrap_or(1) };
        let (mut at, mut matches) = (0_u64, 0_u64);
        call.work.scan(ends(&list, 0..list.members), direction, |_, value| {
            if value == wanted {
                matches += 1;
                if matches >= sought.rank.unsigned_abs() {
                    found.push(if backward { list.members - 1 - at } else { at });
                }
            }
            at += 1;
            match found.len() as u64 >= most || at == sought.compared {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })?;
    }
    match (sought.count, found.first()) {
        (None, None) => call.reply.null(),
        (None, Some(at)) => call.reply.integer(*at as i64),
        (Some(_), _) => {
            call.reply.array(found.len());
            found.iter().for_each(|at| call.reply.integer(*at as i64));
        }
    }
    Ok(())
}

/// LSET.
pub fn lset(call: &mut Call<'_, '_, '_>) -> Outcome {
    let (row, index) = (call.row(1)?, call.integer(2)?);
    call.check_value(call.args[3].len())?;
    let Some((header, list)) = call.collection(&row, Kind::List)? else {
        return Err(NO_KEY.into());
    };
    let at = index_of(index, &list).ok_or(Failure::Said(OUT_OF_RANGE))?;
    call.work.put(element(&list, at), call.args[3].to_vec());
    call.work.changed_collection(&row, &header, &list, false);
    call.reply.ok();
    Ok(())
}

/// LTRIM.
pub fn ltrim(call: &mut Call<'_, '_, '_>) -> Outcome {
    let (row, from, to) = (call.row(1)?, call.integer(2)?, call.integer(3)?);
    if let Some((header, mut list)) = call.collection(&row, Kind::List)? {
        let kept = slice(from, to, list.members);
        if !kept.is_empty() {
            for at in (0..kept.start).chain(kept.end..list.members) {
                call.work.delete(element(&list, at));
            }
        }
        list.first = list.first.wrapping_add(kept.start);
        let changed = kept.end - kept.start != list.members;
        list.members = kept.end - kept.start;
        call.work.changed_collection(&row, &header, &list, changed);
    }
    call.reply.ok();
    Ok(())
}

/// Stores a list under a key, whatever it held; nothing if it has no elements.
pub fn replace(call: &mut Call<'_, '_, '_>, row: &[u8], values: &[Vec<u8>]) -> Outcome {
    call.work.remove_key(row)?;
    if !values.is_empty() {
        let (header, mut list) = call.work.new_collection(Kind::List)?;
        for value in values {
            call.work.put(element(&list, list.members), value.clone());
            list.members += 1;
        }
        call.work.changed_collection(row, &header, &list, true);
    }
    Ok(())
}

/// Stores the elements anew from an index on.
fn rewrite(
    call: &mut Call<'_, '_, '_>,
    row: &[u8],
    change: impl FnOnce(&mut Vec<Vec<u8>>) -> i64,
) -> Outcome<i64> {
    let Some((header, mut list)) = call.collection(row, Kind::List)? else { return Ok(0) };
    let before = values(call, &list, 0..list.members)?;
    let mut after = before.clone();
    let result = change(&mut after);
    for (at, value) in (0..).zip(&after) {
        if before.get(at as usize) != Some(value) {
            call.work.put(element(&list, at), value.clone());
        }
    }
    for at in after.len()..before.len() {
        call.work.delete(element(&list, at as u64));
    }
    list.members = after.len() as u64;
    call.work.changed_collection(row, &header, &list, after.len() != before.len());
    Ok(result)
}

/// LREM.
pub fn lrem(call: &mut Call<'_, '_, '_>) -> Outcome {
    let (row, count, wanted) = (call.row(1)?, call.integer(2)?, call.args[3]);
    let removed = rewrite(call, &row, |values| {
        let mut left = if count == 0 { u64::MAX } else { count.unsigned_abs() };
        let before = values.len();
        let mut keep = |value: &Vec<u8>| {
            let remove = value == wanted && left > 0;
            left -= u64::from(remove);
            !remove
        };
        if count < 0 {
            values.reverse();
            values.retain(&mut keep);
            values.reverse();
        } else {
            values.retain(&mut keep);
        }
        (before - values.len()) as i64
    })?;
    call.reply.integer(removed);
    Ok(())
}

/// LINSERT.
pub fn linsert(call: &mut Call<'_, '_, '_>) -> Outcome {
    let (row, pivot, value) = (call.row(1)?, call.args[3], call.args[4]);
    call.check_value(value.len())?;
    let behind = match call.args[2] {
        arg if is(arg, "BEFORE") => 0,
        arg if is(arg, "AFTER") => 1,
        _ => return Err(SYNTAX.into()),
    };
    let length = rewrite(call, &row, |values| {
        let Some(at) = values.iter().position(|value| value == pivot) else { return -1 };
        values.insert(at + behind, value.to_vec());
        values.len() as i64
    })?;
    call.reply.integer(length);
    Ok(())
}
