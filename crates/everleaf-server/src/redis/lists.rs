//! Commands about lists: an element is a row, found by its position.
//!
//! Both ends grow by one row and the header. Positions are 8 bytes, one behind the other, until an
//! element is put between two others or removed from between: then the list's positions have gaps,
//! elements are found by counting rows (`data/ranks.rs`), and a new one gets a longer position,
//! which lies between those of its neighbours.

use std::ops::{Bound, ControlFlow};

use everleaf::Direction;

use super::call::Call;
use super::failure::{Failure, NO_KEY, OUT_OF_RANGE, Outcome, SYNTAX, TOO_LONG};
use super::long::{Rows, Show};
use crate::data::{
    Collection, Ends, Kind, MAX_KEY_BYTES, Part, Spot, behind, part_prefix, part_rest, part_row,
};
use crate::resp::argument::{is, slice};

/// The row of a position.
fn element(list: &Collection, position: u64) -> Vec<u8> {
    part_row(list.id, Part::Element, &position.to_be_bytes())
}

fn has_gaps(list: &Collection) -> bool {
    list.end != 0
}

/// A position behind the last element.
fn end(list: &Collection) -> u64 {
    if has_gaps(list) { list.end } else { list.first.wrapping_add(list.members) }
}

/// The row of a new element at one end.
fn grow(list: &mut Collection, left: bool) -> Vec<u8> {
    let position = if left { list.first.wrapping_sub(1) } else { end(list) };
    match left {
        true => list.first = position,
        false if has_gaps(list) => list.end = position.wrapping_add(1),
        false => {}
    }
    list.members += 1;
    element(list, position)
}

/// The row of the element with this index.
fn row_at(call: &Call<'_, '_, '_>, list: &Collection, index: u64) -> Outcome<Option<Vec<u8>>> {
    if !has_gaps(list) {
        return Ok(Some(element(list, list.first.wrapping_add(index))));
    }
    Ok(call.row_at(list, Part::Element, index)?.map(|(row, _)| row))
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
        call.work.put(grow(&mut list, left), value.to_vec());
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
    let (mut taken, mut rows, mut bytes) = (Vec::new(), Vec::new(), 0);
    let direction = if left { Direction::Forward } else { Direction::Backward };
    let count = count.min(list.members);
    if count > 0 {
        call.work.scan(all(&list), direction, |row, value| {
            bytes += value.len();
            taken.push(value.to_vec());
            rows.push(row.to_vec());
            // What is removed must be replied.
            match bytes > call.reply.end || taken.len() as u64 == count {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })?;
    }
    if bytes > call.reply.end {
        return Err(TOO_LONG.into());
    }
    list.members -= taken.len() as u64;
    if left && !has_gaps(&list) {
        list.first = list.first.wrapping_add(taken.len() as u64);
    }
    rows.into_iter().for_each(|row| call.work.delete(row));
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
    call.work.put(grow(&mut list, to_left), value.clone());
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
        [option, _, more @ ..] if is(option, "COUNT") => {
            let count = call.at_least(at + 1, 1, "ERR count should be greater than 0")?;
            if more.is_empty() { Ok(count) } else { Err(SYNTAX.into()) }
        }
        _ => Err(SYNTAX.into()),
    }
}

/// LMPOP, which waits if an argument says how long.
pub fn pop_of_many(call: &mut Call<'_, '_, '_>, numkeys: usize, timeout: Option<usize>) -> Outcome {
    let (keys, end) = call.counted_keys(numkeys)?;
    let left = is_left(call.args[end])?;
    let count = pop_count(call, end + 1)?;
    let timeout = timeout.map(|at| call.timeout(at)).transpose()?;
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

/// The rows of a list.
fn all(list: &Collection) -> Ends {
    let (from, to) = (part_prefix(list.id, Part::Element), behind(list.id, Part::Element));
    (Bound::Included(from), Bound::Excluded(to))
}

/// The rows of the elements from an index on, and how many of these come before it.
fn from(call: &Call<'_, '_, '_>, list: &Collection, index: u64) -> Outcome<(Ends, u64)> {
    let (_, to) = all(list);
    if !has_gaps(list) {
        let from = element(list, list.first.wrapping_add(index));
        return Ok(((Bound::Included(from), to), 0));
    }
    let Spot { from, skip, .. } = call.spot(list, Part::Element, index)?;
    Ok(((Bound::Included(from), to), skip))
}

/// LRANGE.
pub fn lrange(call: &mut Call<'_, '_, '_>) -> Outcome {
    let (row, first, last) = (call.row(1)?, call.integer(2)?, call.integer(3)?);
    let Some((_, list)) = call.collection(&row, Kind::List)? else {
        call.reply.array(0);
        return Ok(());
    };
    let range = slice(first, last, list.members);
    let count = range.end - range.start;
    let (ends, skip) = from(call, &list, range.start)?;
    let rows = Rows::of(ends, Direction::Forward, (skip, count), Show::Values);
    call.rows(rows.known())
}

fn index_of(index: i64, list: &Collection) -> Option<u64> {
    let index = if index < 0 { index + list.members as i64 } else { index };
    u64::try_from(index).ok().filter(|index| *index < list.members)
}

/// LINDEX.
pub fn lindex(call: &mut Call<'_, '_, '_>) -> Outcome {
    let row = call.row(1)?;
    let at = match call.collection(&row, Kind::List)? {
        Some((_, list)) => match index_of(call.integer(2)?, &list) {
            Some(index) => row_at(call, &list, index)?,
            None => None,
        },
        None => None,
    };
    let value = at.map(|at| call.work.get(&at)).transpose()?.flatten();
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
        call.work.scan(all(&list), direction, |_, value| {
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
    let row = call.row(1)?;
    call.check_value(call.args[3].len())?;
    let Some((header, list)) = call.collection(&row, Kind::List)? else {
        return Err(NO_KEY.into());
    };
    let index = index_of(call.integer(2)?, &list).ok_or(Failure::Said(OUT_OF_RANGE))?;
    let at = row_at(call, &list, index)?.ok_or(Failure::Said(OUT_OF_RANGE))?;
    call.work.put(at, call.args[3].to_vec());
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
            let (mut at, mut removed) = (0, Vec::new());
            let behind =
                (kept.end < list.members).then(|| self::from(call, &list, kept.end)).transpose()?;
            let mut remove = |ends: Ends, skip: u64, limit: u64| {
                at = 0;
                call.work.scan(ends, Direction::Forward, |row, _| {
                    if at >= skip {
                        removed.push(row.to_vec());
                    }
                    at += 1;
                    if at < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                })
            };
            if kept.start > 0 {
                remove(all(&list), 0, kept.start)?;
            }
            if let Some((ends, skip)) = behind {
                remove(ends, skip, u64::MAX)?;
            }
            removed.into_iter().for_each(|row| call.work.delete(row));
        }
        if !has_gaps(&list) {
            list.first = list.first.wrapping_add(kept.start);
        }
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
            call.work.put(grow(&mut list, false), value.clone());
        }
        call.work.changed_collection(row, &header, &list, true);
    }
    Ok(())
}

/// LREM.
pub fn lrem(call: &mut Call<'_, '_, '_>) -> Outcome {
    let (row, count, wanted) = (call.row(1)?, call.integer(2)?, call.args[3]);
    let mut removed = Vec::new();
    if let Some((header, mut list)) = call.collection(&row, Kind::List)? {
        let most = if count == 0 { u64::MAX } else { count.unsigned_abs() };
        let direction = if count < 0 { Direction::Backward } else { Direction::Forward };
        call.work.scan(all(&list), direction, |row, value| {
            if value == wanted {
                removed.push(row.to_vec());
            }
            match removed.len() as u64 == most {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })?;
        if !removed.is_empty() {
            list.end = end(&list);
            list.members -= removed.len() as u64;
        }
        removed.iter().for_each(|row| call.work.delete(row.clone()));
        call.work.changed_collection(&row, &header, &list, !removed.is_empty());
    }
    call.reply.count(removed.len());
    Ok(())
}

/// LINSERT.
pub fn linsert(call: &mut Call<'_, '_, '_>) -> Outcome {
    let (row, pivot, value) = (call.row(1)?, call.args[3], call.args[4]);
    call.check_value(value.len())?;
    let behind = match call.args[2] {
        arg if is(arg, "BEFORE") => false,
        arg if is(arg, "AFTER") => true,
        _ => return Err(SYNTAX.into()),
    };
    let Some((header, mut list)) = call.collection(&row, Kind::List)? else {
        call.reply.integer(0);
        return Ok(());
    };
    let Some([before, next]) = neighbours(call, &list, pivot, behind)? else {
        call.reply.integer(-1);
        return Ok(());
    };
    let at = match (before, next) {
        (None, _) => grow(&mut list, true),
        (_, None) => grow(&mut list, false),
        (Some(before), Some(next)) => {
            list.end = end(&list);
            list.members += 1;
            part_row(list.id, Part::Element, &between(&before, &next))
        }
    };
    if part_rest(&at).len() > MAX_KEY_BYTES {
        return Err("ERR the list has no room at that place; copy it by LRANGE and RPUSH".into());
    }
    call.work.put(at, value.to_vec());
    call.work.changed_collection(&row, &header, &list, true);
    call.reply.integer(list.members as i64);
    Ok(())
}

/// The positions between which an element comes that is put before or behind `pivot`; none where
/// the list ends, and none at all where there is no pivot.
fn neighbours(
    call: &Call<'_, '_, '_>,
    list: &Collection,
    pivot: &[u8],
    behind: bool,
) -> Outcome<Option<[Option<Vec<u8>>; 2]>> {
    let (mut last, mut found) = (None, None::<[Option<Vec<u8>>; 2]>);
    call.work.scan(all(list), Direction::Forward, |row, value| {
        let position = part_rest(row).to_vec();
        if let Some([_, next]) = &mut found {
            *next = Some(position);
            return ControlFlow::Break(());
        }
        if value == pivot && !behind {
            found = Some([last.take(), Some(position)]);
            return ControlFlow::Break(());
        }
        if value == pivot {
            found = Some([Some(position), None]);
        } else {
            last = Some(position);
        }
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// A position between two, of which none ends with a zero behind its first 8 bytes. It is longer by
/// a byte for each hundred elements that are put at one place.
fn between(before: &[u8], next: &[u8]) -> Vec<u8> {
    const MIDDLE: u8 = 0x80;
    let same = before.iter().zip(next).take_while(|(a, b)| a == b).count();
    if same == before.len() {
        // What is longer than the one before and less than the rest of the next one.
        let rest = &next[same..];
        let zeros = rest.iter().take_while(|byte| **byte == 0).count();
        let mut position = next[..same + zeros].to_vec();
        match rest.get(zeros) {
            Some(byte @ 2..) => position.push(byte - 1),
            _ => position.extend_from_slice(&[0, MIDDLE]),
        }
        return position;
    }
    // Whatever the one before begins is less than the next one.
    let last = before.len() - 1;
    let mut position = before.to_vec();
    if last >= 8 && last > same && before[last] < u8::MAX {
        position[last] += 1;
    } else {
        position.push(MIDDLE);
    }
    position
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_position_between_any_two() {
        let mut positions: Vec<Vec<u8>> = (0..3u64).map(|at| at.to_be_bytes().to_vec()).collect();
        // At the beginning, at the end, and all over.
        for round in 0..3000usize {
            let at = match round % 3 {
                0 => 0,
                1 => positions.len() - 2,
                _ => round * 7919 % (positions.len() - 1),
            };
            let new = between(&positions[at], &positions[at + 1]);
            assert!(positions[at] < new && new < positions[at + 1], "round {round}");
            assert!(new.len() > 8 && new.last() != Some(&0));
            positions.insert(at + 1, new);
        }
        let longest = positions.iter().map(Vec::len).max();
        assert!(longest < Some(60), "{longest:?} bytes");
    }
}
