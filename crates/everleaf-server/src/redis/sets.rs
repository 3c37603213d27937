//! Commands about sets.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use everleaf::Direction;

use super::call::Call;
use super::failure::{Failure, Outcome, SYNTAX, check_length};
use super::long::{Rows, Show};
use super::random::draw;
use crate::data::{Kind, Part, part_row};
use crate::resp::argument::is;

type Members = BTreeSet<Vec<u8>>;

/// SADD.
pub fn sadd(call: &mut Call<'_, '_, '_>) -> Outcome {
    let row = call.row(1)?;
    call.rest(2).iter().try_for_each(|member| check_length(member))?;
    let (header, mut set) = call.collection_to_write(&row, Kind::Set)?;
    let before = set.members;
    for member in call.rest(2) {
        let member = part_row(set.id, Part::Member, member);
        if call.work.show(&member, |_| ())?.is_none() {
            call.work.put(member, Vec::new());
            set.members += 1;
        }
    }
    call.work.changed_collection(&row, &header, &set, set.members != before);
    call.reply.integer((set.members - before) as i64);
    Ok(())
}

fn remove(call: &mut Call<'_, '_, '_>, row: &[u8], members: &[&[u8]]) -> Outcome<u64> {
    let Some((header, mut set)) = call.collection(row, Kind::Set)? else { return Ok(0) };
    let before = set.members;
    for member in members {
        let member = part_row(set.id, Part::Member, member);
        if call.work.show(&member, |_| ())?.is_some() {
            call.work.delete(member);
            set.members = set.members.saturating_sub(1);
        }
    }
    call.work.changed_collection(row, &header, &set, set.members != before);
    Ok(before - set.members)
}

/// SREM.
pub fn srem(call: &mut Call<'_, '_, '_>) -> Outcome {
    let row = call.row(1)?;
    let removed = remove(call, &row, call.rest(2))?;
    call.reply.integer(removed as i64);
    Ok(())
}

/// SCARD.
pub fn scard(call: &mut Call<'_, '_, '_>) -> Outcome {
    let row = call.row(1)?;
    let members = call.collection(&row, Kind::Set)?.map_or(0, |(_, set)| set.members);
    call.reply.integer(members as i64);
    Ok(())
}

fn has(call: &Call<'_, '_, '_>, row: &[u8], member: &[u8]) -> Outcome<bool> {
    match call.collection(row, Kind::Set)? {
        Some((_, set)) => Ok(call.work.part(set.id, Part::Member, member)?.is_some()),
        None => Ok(false),
    }
}

/// SISMEMBER.
pub fn sismember(call: &mut Call<'_, '_, '_>) -> Outcome {
    let there = has(call, &call.row(1)?, call.args[2])?;
    call.reply.flag(there);
    Ok(())
}

/// SMISMEMBER.
pub fn smismember(call: &mut Call<'_, '_, '_>) -> Outcome {
    let row = call.row(1)?;
    let set = call.collection(&row, Kind::Set)?.map(|(_, set)| set.id);
    call.reply.array(call.args.len() - 2);
    for member in call.rest(2) {
        let there = match set {
            Some(id) => call.work.show(&part_row(id, Part::Member, member), |_| ())?.is_some(),
            None => false,
        };
        call.reply.flag(there);
    }
    Ok(())
}

fn members(call: &Call<'_, '_, '_>, row: &[u8]) -> Outcome<Members> {
    let mut members = Members::new();
    if let Some((_, set)) = call.collection(row, Kind::Set)? {
        call.work.scan_part(set.id, Part::Member, Direction::Forward, |member, _| {
            members.insert(member.to_vec());
            ControlFlow::Continue(())
        })?;
    }
    Ok(members)
}

fn show(call: &mut Call<'_, '_, '_>, members: &Members) {
    call.reply.set(members.len());
    members.iter().for_each(|member| call.reply.bulk(member));
}

/// SMEMBERS.
pub fn smembers(call: &mut Call<'_, '_, '_>) -> Outcome {
    let set = call.collection(&call.row(1)?, Kind::Set)?;
    let (id, members) = set.map_or((0, 0), |(_, set)| (set.id, set.members));
    call.rows(Rows::all(id, Part::Member, members, Show::Members))
}

/// SMOVE.
pub fn smove(call: &mut Call<'_, '_, '_>) -> Outcome {
    let (from, to, member) = (call.row(1)?, call.row(2)?, call.args[3]);
    if call.collection(&from, Kind::Set)?.is_some() {
        call.collection(&to, Kind::Set)?;
    }
    let there = has(call, &from, member)?;
    if there && from != to {
        remove(call, &from, &[member])?;
        // A set that has it already has not changed.
        if !has(call, &to, member)? {
            let (header, mut set) = call.collection_to_write(&to, Kind::Set)?;
            set.members += 1;
            call.work.put(part_row(set.id, Part::Member, member), Vec::new());
            call.work.changed_collection(&to, &header, &set, true);
        }
    }
    call.reply.flag(there);
    Ok(())
}

// ---- several sets
// -------------------------------------------------------------------------------------------------

/// What is made of several sets.
#[derive(Clone, Copy)]
enum Algebra {
    Union,
    Intersection,
    Difference,
}

fn combined(call: &Call<'_, '_, '_>, keys: &[&[u8]], how: Algebra) -> Outcome<Members> {
    let mut result: Option<Members> = None;
    for key in keys {
        let next = members(call, &call.row_of(key)?)?;
        result = Some(match (result, how) {
            (None, _) => next,
            (Some(all), Algebra::Union) => &all | &next,
            (Some(all), Algebra::Intersection) => &all & &next,
            (Some(all), Algebra::Difference) => &all - &next,
        });
    }
    Ok(result.unwrap_or_default())
}

fn combine(call: &mut Call<'_, '_, '_>, how: Algebra) -> Outcome {
    let result = combined(call, call.rest(1), how)?;
    show(call, &result);
    Ok(())
}

fn store(call: &mut Call<'_, '_, '_>, how: Algebra) -> Outcome {
    let result = combined(call, call.rest(2), how)?;
    let row = call.row(1)?;
    call.work.remove_key(&row)?;
    if !result.is_empty() {
        let (header, mut set) = call.work.new_collection(Kind::Set)?;
        set.members = result.len() as u64;
        for member in &result {
            call.work.put(part_row(set.id, Part::Member, member), Vec::new());
        }
        call.work.changed_collection(&row, &header, &set, true);
    }
    call.reply.count(result.len());
    Ok(())
}

/// SUNION.
pub fn sunion(call: &mut Call<'_, '_, '_>) -> Outcome {
    combine(call, Algebra::Union)
}

/// SINTER.
pub fn sinter(call: &mut Call<'_, '_, '_>) -> Outcome {
    combine(call, Algebra::Intersection)
}

/// SDIFF.
pub fn sdiff(call: &mut Call<'_, '_, '_>) -> Outcome {
    combine(call, Algebra::Difference)
}

/// SINTERCARD.
pub fn sintercard(call: &mut Call<'_, '_, '_>) -> Outcome {
    let count = call.at_least(1, 1, "ERR numkeys should be greater than 0")?;
    let keys = usize::try_from(count).ok().and_then(|count| call.rest(2).get(..count));
    let sentence = "ERR Number of keys can't be greater than number of args";
    let keys = keys.ok_or(Failure::Said(sentence))?;
    let mut limit = 0;
    let end = 2 + keys.len();
    for at in (end..call.args.len()).step_by(2) {
        if at + 1 == call.args.len() || !is(call.args[at], "LIMIT") {
            return Err(SYNTAX.into());
        }
        limit = call.at_least(at + 1, 0, "ERR LIMIT can't be negative")?;
    }
    let found = combined(call, keys, Algebra::Intersection)?.len() as u64;
    let found = if limit == 0 { found } else { found.min(limit) };
    call.reply.integer(found as i64);
    Ok(())
}

/// SUNIONSTORE.
pub fn sunionstore(call: &mut Call<'_, '_, '_>) -> Outcome {
    store(call, Algebra::Union)
}

/// SINTERSTORE.
pub fn sinterstore(call: &mut Call<'_, '_, '_>) -> Outcome {
    store(call, Algebra::Intersection)
}

/// SDIFFSTORE.
pub fn sdiffstore(call: &mut Call<'_, '_, '_>) -> Outcome {
    store(call, Algebra::Difference)
}

// ---- at random
// -------------------------------------------------------------------------------------------------

/// SPOP.
pub fn spop(call: &mut Call<'_, '_, '_>) -> Outcome {
    call.at_most_or_syntax(3)?;
    let row = call.row(1)?;
    let counted = call.args.len() > 2;
    let count = match counted {
        true => call.at_least(2, 0, "ERR value is out of range, must be positive")?,
        false => 1,
    };
    let set = call.collection(&row, Kind::Set)?.map(|(_, set)| set);
    let drawn = draw(call, set, count as i64)?;
    let popped: Vec<&[u8]> = drawn.names().collect();
    remove(call, &row, &popped)?;
    if !counted {
        call.reply.maybe(popped.first());
        return Ok(());
    }
    call.reply.set(popped.len());
    popped.iter().for_each(|member| call.reply.bulk(member));
    Ok(())
}
