//! Commands that write sorted sets, and that ask for one member.
//!
//! A member is two rows: by name, with its score; and by score and name, which is the order.

use std::ops::ControlFlow;

use everleaf::Direction;

use super::call::Call;
use super::failure::{Failure, NOT_FLOAT, Outcome, SYNTAX, check_length};
use super::lists::pop_count;
use crate::data::{Collection, Header, Kind, Part, Work, part_row};
use crate::resp::argument::is;
use crate::resp::number::{float, of_ordered, to_ordered};

/// Members and their scores.
pub type Members = Vec<(Vec<u8>, f64)>;

/// A sorted set that is written.
pub struct SortedSet {
    row: Vec<u8>,
    header: Header,
    pub collection: Collection,
    before: u64,
}

/// Stores a sorted set under a key, whatever it held; nothing if it has no members.
pub fn store(call: &mut Call<'_, '_, '_>, row: Vec<u8>, members: &Members) -> Outcome {
    call.work.remove_key(&row)?;
    if !members.is_empty() {
        let mut set = SortedSet::open(call, row)?;
        members.iter().for_each(|(member, score)| set.put(call.work, member, None, *score));
        set.close(call.work);
    }
    Ok(())
}

fn score_row(id: u64, score: f64, member: &[u8]) -> Vec<u8> {
    part_row(id, Part::Score, &[&to_ordered(score), member].concat())
}

/// The score of a member.
pub fn score_of(work: &Work<'_>, id: u64, member: &[u8]) -> Outcome<Option<f64>> {
    let score = work.part(id, Part::Member, member)?;
    Ok(score.and_then(|bytes| of_ordered(&bytes)))
}

impl SortedSet {
    /// To be written; a new one if it is not there.
    pub fn open(call: &mut Call<'_, '_, '_>, row: Vec<u8>) -> Outcome<Self> {
        let (header, collection) = call.collection_to_write(&row, Kind::SortedSet)?;
        Ok(Self { row, header, collection, before: collection.members })
    }

    /// Gives a member a score; it had `old`.
    pub fn put(&mut self, work: &mut Work<'_>, member: &[u8], old: Option<f64>, score: f64) {
        let id = self.collection.id;
        match old {
            Some(old) => work.delete(score_row(id, old, member)),
            None => self.collection.members += 1,
        }
        work.put(part_row(id, Part::Member, member), to_ordered(score).to_vec());
        work.put(score_row(id, score, member), Vec::new());
    }

    /// Removes a member that is there.
    pub fn remove(&mut self, work: &mut Work<'_>, member: &[u8], score: f64) {
        let id = self.collection.id;
        work.delete(part_row(id, Part::Member, member));
        work.delete(score_row(id, score, member));
        self.collection.members = self.collection.members.saturating_sub(1);
    }

    /// Its header is written where its number of members has changed.
    pub fn close(self, work: &mut Work<'_>) {
        let changed = self.collection.members != self.before;
        work.changed_collection(&self.row, &self.header, &self.collection, changed);
    }
}

/// The options of ZADD.
#[derive(Default)]
struct Adding {
    absent: bool,
    present: bool,
    greater: bool,
    less: bool,
    changed: bool,
    increment: bool,
}

fn adding(call: &Call<'_, '_, '_>) -> Outcome<(Adding, usize)> {
    let (mut options, mut at) = (Adding::default(), 2);
    while let Some(option) = call.args.get(at) {
        match option {
            o if is(o, "NX") => options.absent = true,
            o if is(o, "XX") => options.present = true,
            o if is(o, "GT") => options.greater = true,
            o if is(o, "LT") => options.less = true,
            o if is(o, "CH") => options.changed = true,
            o if is(o, "INCR") => options.increment = true,
            _ => break,
        }
        at += 1;
    }
    let pairs = call.args.len() - at.min(call.args.len());
    if pairs == 0 || !pairs.is_multiple_of(2) {
        return Err(SYNTAX.into());
    }
    if options.absent && options.present {
        return Err("ERR XX and NX options at the same time are not compatible".into());
    }
    let exclusive = [options.absent, options.greater, options.less];
    if exclusive.iter().filter(|option| **option).count() > 1 {
        let sentence = "ERR GT, LT, and/or NX options at the same time are not compatible";
        return Err(sentence.into());
    }
    if options.increment && pairs > 2 {
        return Err("ERR INCR option supports a single increment-element pair".into());
    }
    Ok((options, at))
}

/// ZADD.
pub fn zadd(call: &mut Call<'_, '_, '_>) -> Outcome {
    let row = call.row(1)?;
    let (options, at) = adding(call)?;
    let mut pairs = Vec::new();
    for pair in call.rest(at).chunks(2) {
        check_length(pair[1])?;
        pairs.push((float(pair[0]).ok_or(Failure::Said(NOT_FLOAT))?, pair[1]));
    }
    let mut set = SortedSet::open(call, row)?;
    let (mut added, mut updated, mut last) = (0, 0, None);
    for (score, member) in pairs {
        let old = score_of(call.work, set.collection.id, member)?;
        let score = if options.increment { old.unwrap_or(0.0) + score } else { score };
        if score.is_nan() {
            return Err("ERR resulting score is not a number (NaN)".into());
        }
        let refused = options.absent && old.is_some()
            || options.present && old.is_none()
            || options.greater && old.is_some_and(|old| score <= old)
            || options.less && old.is_some_and(|old| score >= old);
        last = (!refused).then_some(score);
        if refused || old == Some(score) {
            continue;
        }
        set.put(call.work, member, old, score);
        if old.is_none() { added += 1 } else { updated += 1 }
    }
    if set.collection.members > 0 {
        set.close(call.work);
    }
    match (options.increment, last) {
        (false, _) => call.reply.integer(added + if options.changed { updated } else { 0 }),
        (true, Some(score)) => call.reply.double(score),
        (true, None) => call.reply.null(),
    }
    Ok(())
}

/// ZINCRBY.
pub fn zincrby(call: &mut Call<'_, '_, '_>) -> Outcome {
    let (row, by, member) = (call.row(1)?, call.float(2)?, call.args[3]);
    check_length(member)?;
    let mut set = SortedSet::open(call, row)?;
    let old = score_of(call.work, set.collection.id, member)?;
    let score = old.unwrap_or(0.0) + by;
    if score.is_nan() {
        return Err("ERR resulting score is not a number (NaN)".into());
    }
    if old != Some(score) {
        set.put(call.work, member, old, score);
    }
    set.close(call.work);
    call.reply.double(score);
    Ok(())
}

/// ZREM.
pub fn zrem(call: &mut Call<'_, '_, '_>) -> Outcome {
    let row = call.row(1)?;
    let mut removed = 0;
    if call.collection(&row, Kind::SortedSet)?.is_some() {
        let mut set = SortedSet::open(call, row)?;
        for member in call.rest(2) {
            if let Some(score) = score_of(call.work, set.collection.id, member)? {
                set.remove(call.work, member, score);
                removed += 1;
            }
        }
        set.close(call.work);
    }
    call.reply.integer(removed);
    Ok(())
}

/// ZCARD.
pub fn zcard(call: &mut Call<'_, '_, '_>) -> Outcome {
    let row = call.row(1)?;
    let members = call.collection(&row, Kind::SortedSet)?.map_or(0, |(_, set)| set.members);
    call.reply.integer(members as i64);
    Ok(())
}

/// ZSCORE.
pub fn zscore(call: &mut Call<'_, '_, '_>) -> Outcome {
    let row = call.row(1)?;
    let score = match call.collection(&row, Kind::SortedSet)? {
        Some((_, set)) => score_of(call.work, set.id, call.args[2])?,
        None => None,
    };
    match score {
        Some(score) => call.reply.double(score),
        None => call.reply.null(),
    }
    Ok(())
}

/// ZMSCORE.
pub fn zmscore(call: &mut Call<'_, '_, '_>) -> Outcome {
    let row = call.row(1)?;
    let set = call.collection(&row, Kind::SortedSet)?;
    call.reply.array(call.args.len() - 2);
    for member in call.rest(2) {
        let score = match set {
            Some((_, set)) => score_of(call.work, set.id, member)?,
            None => None,
        };
        match score {
            Some(score) => call.reply.double(score),
            None => call.reply.null(),
        }
    }
    Ok(())
}

fn rank(call: &mut Call<'_, '_, '_>, direction: Direction) -> Outcome {
    let row = call.row(1)?;
    let with_score = match call.rest(3) {
        [] => false,
        [option] if is(option, "WITHSCORE") => true,
        _ => return Err(SYNTAX.into()),
    };
    let mut rank = None;
    if let Some((_, set)) = call.collection(&row, Kind::SortedSet)?
        && let Some(score) = score_of(call.work, set.id, call.args[2])?
    {
        let before = call.rank(&set, Part::Score, &score_row(set.id, score, call.args[2]))?;
        let before = match direction {
            Direction::Forward => before,
            Direction::Backward => set.members.saturating_sub(before + 1),
        };
        rank = Some((before, score));
    }
    match (rank, with_score) {
        (None, true) => call.reply.null_array(),
        (None, false) => call.reply.null(),
        (Some((before, _)), false) => call.reply.integer(before as i64),
        (Some((before, score)), true) => {
            call.reply.array(2);
            call.reply.integer(before as i64);
            call.reply.double(score);
        }
    }
    Ok(())
}

/// ZRANK.
pub fn zrank(call: &mut Call<'_, '_, '_>) -> Outcome {
    rank(call, Direction::Forward)
}

/// ZREVRANK.
pub fn zrevrank(call: &mut Call<'_, '_, '_>) -> Outcome {
    rank(call, Direction::Backward)
}

/// Takes up to `count` members off one end.
pub fn take(
    call: &mut Call<'_, '_, '_>,
    row: Vec<u8>,
    direction: Direction,
    count: u64,
) -> Outcome<Members> {
    let mut taken = Members::new();
    if count == 0 || call.collection(&row, Kind::SortedSet)?.is_none() {
        return Ok(taken);
    }
    let mut set = SortedSet::open(call, row)?;
    call.work.scan_part(set.collection.id, Part::Score, direction, |rest, _| {
        taken.extend(of_ordered(rest).map(|score| (rest[8..].to_vec(), score)));
        match (taken.len() as u64) < count {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    })?;
    taken.iter().for_each(|(member, score)| set.remove(call.work, member, *score));
    set.close(call.work);
    Ok(taken)
}

fn pop(call: &mut Call<'_, '_, '_>, direction: Direction) -> Outcome {
    if call.args.len() > 3 {
        return Err(SYNTAX.into());
    }
    let row = call.row(1)?;
    let counted = call.args.len() > 2;
    let count = match counted {
        true => call.at_least(2, 0, "ERR value is out of range, must be positive")?,
        false => 1,
    };
    // The type is told also where nothing is asked for.
    call.collection(&row, Kind::SortedSet)?;
    let taken = take(call, row, direction, count)?;
    // RESP3 has a pair for each, but for one that was asked for without a count.
    let pairs = call.reply.three && counted;
    call.reply.array(if pairs { taken.len() } else { 2 * taken.len() });
    for (member, score) in taken {
        if pairs {
            call.reply.array(2);
        }
        call.reply.bulk(member);
        call.reply.double(score);
    }
    Ok(())
}

/// ZMPOP, which waits if an argument says how long.
pub fn pop_of_many(call: &mut Call<'_, '_, '_>, numkeys: usize, timeout: Option<usize>) -> Outcome {
    let (keys, end) = call.counted_keys(numkeys)?;
    let direction = match call.args[end] {
        arg if is(arg, "MIN") => Direction::Forward,
        arg if is(arg, "MAX") => Direction::Backward,
        _ => return Err(SYNTAX.into()),
    };
    let count = pop_count(call, end + 1)?;
    let timeout = timeout.map(|at| call.timeout(at)).transpose()?;
    for key in keys {
        let row = call.row_of(key)?;
        if timeout.is_some() && !call.may_pop(&row, Kind::SortedSet)? {
            continue;
        }
        let taken = take(call, row, direction, count)?;
        if !taken.is_empty() {
            call.reply.array(2);
            call.reply.bulk(key);
            call.reply.array(taken.len());
            for (member, score) in taken {
                call.reply.array(2);
                call.reply.bulk(member);
                call.reply.double(score);
            }
            return Ok(());
        }
    }
    match timeout {
        Some(timeout) => call.wait_for(keys, Kind::SortedSet, timeout),
        None => {
            call.reply.null_array();
            Ok(())
        }
    }
}

/// ZMPOP.
pub fn zmpop(call: &mut Call<'_, '_, '_>) -> Outcome {
    pop_of_many(call, 1, None)
}

/// ZPOPMIN.
pub fn zpopmin(call: &mut Call<'_, '_, '_>) -> Outcome {
    pop(call, Direction::Forward)
}

/// ZPOPMAX.
pub fn zpopmax(call: &mut Call<'_, '_, '_>) -> Outcome {
    pop(call, Direction::Backward)
}
