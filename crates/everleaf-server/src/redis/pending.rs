//! What consumers have pending: XPENDING, XCLAIM, XAUTOCLAIM.

use std::ops::ControlFlow;

use everleaf::Direction;

use super::call::Call;
use super::failure::{Failure, Outcome, SYNTAX};
use super::groups::{OpenGroup, collect, no_key_or_group};
use super::long::show_entry;
use super::stream_ids::{count, first, id, last, maybe_id};
use super::streams::Open;
use crate::data::{Consumer, Id, Pending};
use crate::resp::argument::is;
use crate::resp::number::integer;

/// Pending entries that XAUTOCLAIM looks at, for each that it may claim.
const ATTEMPTS: u64 = 10;
/// Pending entries that are read at a time.
const TOGETHER: u64 = 128;

/// How long an entry has been pending.
fn idle_ms(pending: &Pending, now_ms: u64) -> u64 {
    now_ms.saturating_sub(pending.delivered_ms)
}

// ---- XPENDING
// -------------------------------------------------------------------------------------------------

/// Which pending entries are shown.
struct Shown<'a> {
    idle_ms: u64,
    from: Id,
    to: Id,
    count: u64,
    consumer: Option<&'a [u8]>,
}

fn shown<'a>(call: &Call<'a, '_, '_>) -> Outcome<Shown<'a>> {
    let (args, mut idle_ms, mut at) = (call.args, 0, 3);
    if is(args[3], "IDLE") {
        idle_ms = count(args[4])?;
        if args.len() < 8 {
            return Err(SYNTAX.into());
        }
        at = 5;
    }
    let count = count(args[at + 2])?;
    let (from, to) = (first(args[at])?, last(args[at + 1])?);
    Ok(Shown { idle_ms, from, to, count, consumer: args.get(at + 3).copied() })
}

/// XPENDING.
pub fn xpending(call: &mut Call<'_, '_, '_>) -> Outcome {
    let row = call.row(1)?;
    let shown = match call.args.len() {
        3 => None,
        6..=9 => Some(shown(call)?),
        _ => return Err(SYNTAX.into()),
    };
    let Some((_, group)) = OpenGroup::of_key(call, &row, call.args[2])? else {
        return Err(no_key_or_group(call.args[1], call.args[2]));
    };
    match shown {
        None => summary(call, &group),
        Some(shown) => some(call, group, &shown),
    }
}

/// How many entries are pending, the first and the last, and how many each consumer has.
fn summary(call: &mut Call<'_, '_, '_>, group: &OpenGroup) -> Outcome {
    let group = &group.group;
    call.reply.array(4);
    call.reply.integer(group.pending as i64);
    for direction in [Direction::Forward, Direction::Backward] {
        let mut edge = None;
        call.work.scan(group.pending_rows(Id::MIN, Id::MAX), direction, |row, _| {
            edge = Some(Id::of_row(row).to_string());
            ControlFlow::Break(())
        })?;
        call.reply.maybe(edge);
    }
    if group.pending == 0 {
        call.reply.null_array();
        return Ok(());
    }
    let consumers = collect(call.work, group.consumer_rows(), u64::MAX, |row, value| {
        Consumer::read(row, value).filter(|consumer| consumer.pending > 0)
    })?;
    call.reply.array(consumers.len());
    for consumer in consumers {
        call.reply.array(2);
        call.reply.bulk(&consumer.name);
        call.reply.bulk(consumer.pending.to_string());
    }
    Ok(())
}

fn some(call: &mut Call<'_, '_, '_>, mut group: OpenGroup, shown: &Shown<'_>) -> Outcome {
    let now_ms = call.work.now_ms;
    let is_shown = |pending: &Pending| idle_ms(pending, now_ms) >= shown.idle_ms;
    let mut found = Vec::new();
    match shown.consumer {
        None => {
            let rows = group.group.pending_rows(shown.from, shown.to);
            found = collect(call.work, rows, shown.count, |row, value| {
                let pending = Pending::read(value).filter(is_shown)?;
                Some((Id::of_row(row), pending))
            })?;
        }
        Some(name) => {
            let mut from = Some(shown.from);
            let consumer = group.consumer(call.work, name)?.cloned();
            while let (Some(consumer), Some(begin)) = (&consumer, from.take()) {
                let rows = group.group.delivered_rows(consumer, begin, shown.to);
                let ids = collect(call.work, rows, TOGETHER, |row, _| Some(Id::of_row(row)))?;
                from = ids.last().and_then(|last| last.next());
                for id in ids {
                    let pending = group.pending(call.work, id)?.filter(is_shown);
                    let is_enough = found.len() as u64 == shown.count;
                    found.extend(pending.filter(|_| !is_enough).map(|pending| (id, pending)));
                }
                from = from.filter(|_| (found.len() as u64) < shown.count);
            }
        }
    }
    call.reply.array(found.len());
    for (id, pending) in found {
        call.reply.array(4);
        call.reply.bulk(id.to_string());
        call.reply.bulk(&pending.consumer);
        call.reply.integer(idle_ms(&pending, now_ms) as i64);
        call.reply.integer(pending.deliveries);
    }
    Ok(())
}

// ---- XCLAIM, XAUTOCLAIM
// -------------------------------------------------------------------------------------------------

/// How entries are claimed.
struct Claim<'a> {
    consumer: &'a [u8],
    idle_ms: u64,
    delivered_ms: u64,
    deliveries: Option<i64>,
    force: bool,
    only_ids: bool,
}

impl Claim<'_> {
    /// Claims an entry that is there; what it holds, if it may be claimed.
    fn entry(
        &self,
        call: &mut Call<'_, '_, '_>,
        (open, group): (&Open, &mut OpenGroup),
        id: Id,
        had: Option<&Pending>,
    ) -> Outcome<bool> {
        let now_ms = call.work.now_ms;
        let may = match had {
            Some(had) => idle_ms(had, now_ms) >= self.idle_ms,
            None => self.force,
        };
        if !may {
            return Ok(false);
        }
        group.see(call.work, self.consumer)?;
        // One that is made pending here counts as delivered before.
        let before = had.map_or(1, |had| had.deliveries);
        let deliveries = match self.deliveries {
            Some(deliveries) => deliveries,
            None => before.wrapping_add(i64::from(!self.only_ids)),
        };
        let consumer = self.consumer.to_vec();
        let pending = Pending { delivered_ms: self.delivered_ms, deliveries, consumer };
        group.give(call.work, id, &pending, had)?;
        if self.only_ids {
            call.reply.bulk(id.to_string());
        } else {
            let value = call.work.get(&open.stream.entry(id))?.unwrap_or_default();
            show_entry(id, &value, &mut call.reply);
        }
        Ok(true)
    }
}

/// Whole milliseconds that an argument says, none below 0.
fn least_idle(arg: &[u8], wrong: &'static str) -> Outcome<u64> {
    Ok(integer(arg).ok_or(Failure::Said(wrong))?.max(0).unsigned_abs())
}

/// The moment that an entry counts as delivered at: not one that is to come.
fn moment(ms: Option<i64>, now_ms: u64) -> u64 {
    // A client says -1 where it says nothing.
    let ms = ms.and_then(|ms| u64::try_from(ms).ok());
    ms.filter(|ms| *ms <= now_ms).unwrap_or(now_ms)
}

/// XCLAIM.
pub fn xclaim(call: &mut Call<'_, '_, '_>) -> Outcome {
    let (row, now_ms) = (call.row(1)?, call.work.now_ms);
    let Some((open, mut group)) = OpenGroup::of_key(call, &row, call.args[2])? else {
        return Err(no_key_or_group(call.args[1], call.args[2]));
    };
    let idle_ms = least_idle(call.args[4], "ERR Invalid min-idle-time argument for XCLAIM")?;
    let ids: Vec<Id> = call.rest(5).iter().map_while(|arg| maybe_id(arg, 0)).collect();
    let mut claim = Claim {
        consumer: call.args[3],
        idle_ms,
        delivered_ms: now_ms,
        deliveries: None,
        force: false,
        only_ids: false,
    };
    let before = group.group.last;
    let mut at = 5 + ids.len();
    while let Some(option) = call.args.get(at) {
        let value = call.args.get(at + 1);
        let number =
            |wrong| value.map(|value| integer(value).ok_or(Failure::Said(wrong))).transpose();
        match value {
            _ if is(option, "FORCE") => claim.force = true,
            _ if is(option, "JUSTID") => claim.only_ids = true,
            Some(_) if is(option, "IDLE") => {
                let idle = number("ERR Invalid IDLE option argument for XCLAIM")?;
                let moment_ms = idle.map(|idle| (now_ms as i64).wrapping_sub(idle));
                claim.delivered_ms = moment(moment_ms, now_ms);
                at += 1;
            }
            Some(_) if is(option, "TIME") => {
                let time = number("ERR Invalid TIME option argument for XCLAIM")?;
                claim.delivered_ms = moment(time, now_ms);
                at += 1;
            }
            Some(_) if is(option, "RETRYCOUNT") => {
                let wrong = "ERR Invalid RETRYCOUNT option argument for XCLAIM";
                claim.deliveries = number(wrong)?.filter(|deliveries| *deliveries >= 0);
                at += 1;
            }
            Some(last) if is(option, "LASTID") => {
                group.group.last = group.group.last.max(id(last, 0)?);
                at += 1;
            }
            _ => {
                let option = option.escape_ascii();
                return Err(Failure::Text(format!("ERR Unrecognized XCLAIM option '{option}'")));
            }
        }
        at += 1;
    }
    let start = call.reply.out.len();
    let (mut claimed, mut changed) = (0, group.group.last != before);
    for id in ids {
        let had = group.pending(call.work, id)?;
        if open.has(call.work, id)? {
            if claim.entry(call, (&open, &mut group), id, had.as_ref())? {
                claimed += 1;
            }
        } else if let Some(had) = had {
            group.take(call.work, id, &had)?; // It is there no more.
            changed = true;
        }
    }
    if changed || claimed > 0 {
        group.store(call.work);
        group.tell(call, &row);
    }
    let entries = call.reply.out.split_off(start);
    call.reply.array(claimed);
    call.reply.out.extend_from_slice(&entries);
    Ok(())
}

/// XAUTOCLAIM.
pub fn xautoclaim(call: &mut Call<'_, '_, '_>) -> Outcome {
    let (row, now_ms) = (call.row(1)?, call.work.now_ms);
    let idle_ms = least_idle(call.args[4], "ERR Invalid min-idle-time argument for XAUTOCLAIM")?;
    let mut from = Some(first(call.args[5])?);
    let (mut left, mut only_ids, mut at) = (100, false, 6);
    while let Some(option) = call.args.get(at) {
        if is(option, "COUNT") && at + 1 < call.args.len() {
            left = autoclaim_count(call.args[at + 1])?;
            at += 1;
        } else if is(option, "JUSTID") {
            only_ids = true;
        } else {
            return Err(SYNTAX.into());
        }
        at += 1;
    }
    let Some((open, mut group)) = OpenGroup::of_key(call, &row, call.args[2])? else {
        return Err(no_key_or_group(call.args[1], call.args[2]));
    };
    let (consumer, deliveries) = (call.args[3], None);
    let claim =
        Claim { consumer, idle_ms, delivered_ms: now_ms, deliveries, force: false, only_ids };
    let start = call.reply.out.len();
    let (mut attempts, mut claimed) = (left * ATTEMPTS, 0);
    let (mut gone, mut next) = (Vec::new(), Id::MIN);
    'all: while let Some(begin) = from.take() {
        for (id, had) in group.some_pending(call.work, begin, TOGETHER.min(attempts + 1))? {
            if attempts == 0 || left == 0 {
                next = id;
                break 'all;
            }
            attempts -= 1;
            from = id.next();
            if !open.has(call.work, id)? {
                group.take(call.work, id, &had)?;
                gone.push(id);
                left -= 1;
            } else if claim.entry(call, (&open, &mut group), id, Some(&had))? {
                claimed += 1;
                left -= 1;
            }
        }
    }
    if claimed > 0 || !gone.is_empty() {
        group.store(call.work);
        group.tell(call, &row);
    }
    let entries = call.reply.out.split_off(start);
    call.reply.array(3);
    call.reply.bulk(next.to_string());
    call.reply.array(claimed);
    call.reply.out.extend_from_slice(&entries);
    call.reply.array(gone.len());
    gone.iter().for_each(|id| call.reply.bulk(id.to_string()));
    Ok(())
}

fn autoclaim_count(arg: &[u8]) -> Outcome<u64> {
    /// So many ids would not be answered.
    const MOST: i64 = i64::MAX / 16;
    let count = integer(arg).filter(|count| (1..=MOST).contains(count));
    Ok(count.ok_or(Failure::Said("ERR COUNT must be > 0"))?.unsigned_abs())
}
