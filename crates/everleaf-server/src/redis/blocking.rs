//! Commands that wait until there is something to pop. In a transaction they do not wait.
//!
//! Such a command is done again when it is woken (`data/waiting.rs`), or when its time is over: the
//! reply that it makes of nothing is then sent.

use everleaf::Direction;

use super::call::Call;
use super::failure::Outcome;
use super::{lists, sorted_sets};
use crate::data::Kind;

fn pop(
    call: &mut Call<'_, '_, '_>,
    kind: Kind,
    pop: fn(&mut Call<'_, '_, '_>, &[u8], Vec<u8>) -> Outcome,
) -> Outcome {
    let last = call.args.len() - 1;
    let timeout = call.timeout(last)?;
    let keys = &call.args[1..last];
    for key in keys {
        let row = call.row_of(key)?;
        if call.may_pop(&row, kind)? {
            return pop(call, key, row);
        }
    }
    call.wait_for(keys, kind, timeout)
}

fn pop_element(call: &mut Call<'_, '_, '_>, key: &[u8], row: &[u8], left: bool) -> Outcome {
    let taken = lists::take(call, row, left, 1)?;
    call.reply.array(2);
    call.reply.bulk(key);
    call.reply.maybe(taken.first());
    Ok(())
}

/// BLPOP.
pub fn blpop(call: &mut Call<'_, '_, '_>) -> Outcome {
    pop(call, Kind::List, |call, key, row| pop_element(call, key, &row, true))
}

/// BRPOP.
pub fn brpop(call: &mut Call<'_, '_, '_>) -> Outcome {
    pop(call, Kind::List, |call, key, row| pop_element(call, key, &row, false))
}

fn pop_member(
    call: &mut Call<'_, '_, '_>,
    key: &[u8],
    row: Vec<u8>,
    direction: Direction,
) -> Outcome {
    let taken = sorted_sets::take(call, row, direction, 1)?;
    call.reply.array(3);
    call.reply.bulk(key);
    for (member, score) in taken {
        call.reply.bulk(member);
        call.reply.double(score);
    }
    Ok(())
}

/// BZPOPMIN.
pub fn bzpopmin(call: &mut Call<'_, '_, '_>) -> Outcome {
    pop(call, Kind::SortedSet, |call, key, row| pop_member(call, key, row, Direction::Forward))
}

/// BZPOPMAX.
pub fn bzpopmax(call: &mut Call<'_, '_, '_>) -> Outcome {
    pop(call, Kind::SortedSet, |call, key, row| pop_member(call, key, row, Direction::Backward))
}

/// BLMPOP.
pub fn blmpop(call: &mut Call<'_, '_, '_>) -> Outcome {
    lists::pop_of_many(call, 2, Some(1))
}

/// BZMPOP.
pub fn bzmpop(call: &mut Call<'_, '_, '_>) -> Outcome {
    sorted_sets::pop_of_many(call, 2, Some(1))
}

fn move_one(
    call: &mut Call<'_, '_, '_>,
    (from_left, to_left): (bool, bool),
    timeout: usize,
) -> Outcome {
    let timeout = call.timeout(timeout)?;
    let from = call.row(1)?;
    if call.may_pop(&from, Kind::List)? || !call.blocking.may_wait {
        return lists::move_one(call, from_left, to_left);
    }
    call.wait_for(&call.args[1..2], Kind::List, timeout)
}

/// BRPOPLPUSH.
pub fn brpoplpush(call: &mut Call<'_, '_, '_>) -> Outcome {
    move_one(call, (false, true), 3)
}

/// BLMOVE.
pub fn blmove(call: &mut Call<'_, '_, '_>) -> Outcome {
    let ends = (lists::is_left(call.args[3])?, lists::is_left(call.args[4])?);
    move_one(call, ends, 5)
}
