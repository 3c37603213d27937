//! XREAD and XREADGROUP: entries of streams that are new, and what waits for some.
//!
//! Who waits for entries keeps the ids that they are to lie behind: what `$` stood for was decided
//! when it began to wait (`data/waiting.rs`).

use std::ops::ControlFlow;

use everleaf::Direction;

use super::call::{Call, Timeout};
use super::failure::{Failure, Outcome, SYNTAX, TOO_LONG};
use super::groups::{OpenGroup, collect, read_with};
use super::long::{Rows, Show, show_entry};
use super::stream_ids::{count, id};
use super::streams::Open;
use crate::data::{Awaited, Id, Kind, Pending};
use crate::resp::argument::is;

/// The most entries that who has waited gets, where it has not said how many.
const AWAITED: u64 = 1000;

/// What is to be read.
pub struct Reading<'a> {
    pub timeout: Option<Timeout>,
    /// 0: all.
    pub count: u64,
    /// Its name, and that of the consumer.
    pub group: Option<[&'a [u8]; 2]>,
    pub acknowledged: bool,
    pub keys: &'a [&'a [u8]],
    pub ids: &'a [&'a [u8]],
}

impl<'a> Reading<'a> {
    /// Reads the arguments of either command.
    pub fn of(call: &Call<'a, '_, '_>) -> Outcome<Self> {
        let in_group = is(call.args[0], "XREADGROUP");
        let (args, mut at) = (call.args, 1);
        let (mut timeout, mut most, mut group, mut acknowledged) = (None, 0, None, false);
        let streams = loop {
            let more = args.len().saturating_sub(at + 1);
            match args.get(at) {
                Some(option) if is(option, "BLOCK") && more > 0 => {
                    timeout = Some(call.timeout_ms(at + 1)?);
                    at += 2;
                }
                Some(option) if is(option, "COUNT") && more > 0 => {
                    most = count(args[at + 1])?;
                    at += 2;
                }
                Some(option) if is(option, "STREAMS") && more > 0 => break &args[at + 1..],
                Some(option) if is(option, "GROUP") && more > 1 => {
                    if !in_group {
                        return Err(only_for_groups("GROUP"));
                    }
                    group = Some([args[at + 1], args[at + 2]]);
                    at += 3;
                }
                Some(option) if is(option, "NOACK") => {
                    if !in_group {
                        return Err(only_for_groups("NOACK"));
                    }
                    acknowledged = true;
                    at += 1;
                }
                _ => return Err(SYNTAX.into()),
            }
        };
        if !streams.len().is_multiple_of(2) {
            let sentence = "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' \
                            must be specified.";
            return Err(sentence.into());
        }
        if in_group && group.is_none() {
            return Err("ERR Missing GROUP option for XREADGROUP".into());
        }
        let (keys, ids) = streams.split_at(streams.len() / 2);
        Ok(Self { timeout, count: most, group, acknowledged, keys, ids })
    }

    /// How many entries of one stream are shown, at most.
    pub fn most(&self, call: &Call<'_, '_, '_>) -> u64 {
        match self.count {
            0 if call.blocking.place.is_some() => AWAITED,
            0 => u64::MAX,
            count => count,
        }
    }

    /// Waits, if it is asked to; else there is nothing.
    pub fn wait(&self, call: &mut Call<'_, '_, '_>, since: Vec<Id>) -> Outcome {
        let group = self.group.map(|[group, _]| group.to_vec());
        match self.timeout {
            Some(timeout) => {
                let awaited = (Kind::Stream, Awaited { since, group });
                call.wait_for_some(self.keys, awaited, timeout)
            }
            None => {
                call.reply.null_array();
                Ok(())
            }
        }
    }
}

fn only_for_groups(option: &str) -> Failure {
    Failure::Text(format!(
        "ERR The {option} option is only supported by XREADGROUP. You called XREAD instead."
    ))
}

/// XREAD.
pub fn xread(call: &mut Call<'_, '_, '_>) -> Outcome {
    let reading = Reading::of(call)?;
    let place = call.blocking.place;
    let since = match place {
        Some(place) => place.since.clone(),
        None => all_since(call, &reading)?,
    };
    let mut found = Vec::new();
    for (key, since) in reading.keys.iter().zip(&since) {
        let row = call.row_of(key)?;
        let open = match (Open::find(call, &row), place) {
            (Err(Failure::Said(_)), Some(_)) => None, // Something else is there now.
            (open, _) => open?,
        };
        let (Some(open), Some(from)) = (open, since.next()) else { continue };
        if open.edge(call.work, (from, Id::MAX), Direction::Forward)?.is_some() {
            let ends = open.stream.entries(from, Id::MAX);
            let show = Show::Stream(Some(key.to_vec()));
            found.push(Rows::of(ends, Direction::Forward, (0, reading.most(call)), show));
            if place.is_some() {
                break; // Who has waited gets what has woken it.
            }
        }
    }
    match found.is_empty() {
        true => reading.wait(call, since),
        false => call.streams(found),
    }
}

/// The ids behind which entries are new.
fn all_since(call: &Call<'_, '_, '_>, reading: &Reading<'_>) -> Outcome<Vec<Id>> {
    let mut since = Vec::new();
    for (key, arg) in reading.keys.iter().zip(reading.ids) {
        let open = Open::find(call, &call.row_of(key)?)?;
        since.push(match *arg {
            b"$" => open.map_or(Id::MIN, |open| open.stream.last),
            b">" => {
                let sentence = "ERR The > ID can be specified only when calling XREADGROUP using \
                                the GROUP <group> <consumer> option.";
                return Err(sentence.into());
            }
            arg => id(arg, 0)?,
        });
    }
    Ok(since)
}

// ---- XREADGROUP
// -------------------------------------------------------------------------------------------------

/// An entry that is shown; none: it is pending, and there no more.
type Shown = (Id, Option<Vec<u8>>);

/// Finds the group of a key, or says that it is not there, in other words to who has waited.
fn group_of(
    call: &Call<'_, '_, '_>,
    (key, row): (&[u8], &[u8]),
    name: &[u8],
) -> Outcome<(Open, OpenGroup)> {
    let has_waited = call.blocking.place.is_some();
    let gone = Failure::Said("UNBLOCKED the stream key no longer exists");
    let open = match Open::find(call, row) {
        Ok(None) | Err(Failure::Said(_)) if has_waited => return Err(gone),
        open => open?,
    };
    let found = match &open {
        Some(open) => OpenGroup::find(call.work, open.stream.id, name)?,
        None => None,
    };
    match open.zip(found) {
        Some(found) => Ok(found),
        None if has_waited => {
            let sentence = "NOGROUP the consumer group this client was blocked on no longer exists";
            Err(sentence.into())
        }
        None => {
            let (key, name) = (key.escape_ascii(), name.escape_ascii());
            Err(Failure::Text(format!(
                "NOGROUP No such key '{key}' or consumer group '{name}' in XREADGROUP with GROUP \
                 option"
            )))
        }
    }
}

/// XREADGROUP.
pub fn xreadgroup(call: &mut Call<'_, '_, '_>) -> Outcome {
    let reading = Reading::of(call)?;
    let Some([name, consumer]) = reading.group else { return Err(SYNTAX.into()) };
    let mut streams = Vec::new();
    for (key, arg) in reading.keys.iter().zip(reading.ids) {
        let row = call.row_of(key)?;
        group_of(call, (key, &row), name)?;
        let behind = match *arg {
            b"$" => {
                let sentence = "ERR The $ ID is meaningless in the context of XREADGROUP: you want \
                                to read the history of this consumer by specifying a proper ID, or \
                                use the > ID to get new messages. The $ ID would just return an \
                                empty result set.";
                return Err(sentence.into());
            }
            b">" => None,
            // The greatest id is none that is pending.
            arg => id(arg, 0)?.next(),
        };
        streams.push((key, row, behind));
    }
    let mut served = Vec::new();
    for (key, row, behind) in streams {
        let (open, mut group) = group_of(call, (key, &row), name)?;
        let entries = match behind {
            Some(from) => {
                group.see(call.work, consumer)?;
                Some(history(call, &open, &mut group, consumer, (from, reading.most(call)))?)
            }
            None if is_turn(call, &reading, &row) => new(call, &reading, &open, &mut group)?,
            None => None,
        };
        let Some(entries) = entries else { continue };
        group.store(call.work);
        group.tell(call, &row);
        served.push((key, entries));
        if call.blocking.place.is_some() {
            break; // Who has waited gets what has woken it.
        }
    }
    if served.is_empty() {
        return reading.wait(call, Vec::new());
    }
    call.reply.streams(served.len());
    for (key, entries) in served {
        call.reply.stream(key);
        call.reply.array(entries.len());
        for (id, value) in entries {
            match value {
                Some(value) => show_entry(id, &value, &mut call.reply),
                None => {
                    call.reply.array(2);
                    call.reply.bulk(id.to_string());
                    call.reply.null_array();
                }
            }
        }
    }
    Ok(())
}

/// Whether new entries of a stream are for this one: who waits for them comes first.
fn is_turn(call: &Call<'_, '_, '_>, reading: &Reading<'_>, row: &[u8]) -> bool {
    if reading.timeout.is_none() || !call.blocking.may_wait {
        return true;
    }
    let line = (Kind::Stream, reading.group.map(|[group, _]| group));
    call.work.data.waiting.is_turn(row, line, call.blocking.place)
}

/// Entries that the group was not given yet; none: there are none.
fn new(
    call: &mut Call<'_, '_, '_>,
    reading: &Reading<'_>,
    open: &Open,
    group: &mut OpenGroup,
) -> Outcome<Option<Vec<Shown>>> {
    let Some(from) = group.group.last.next() else { return Ok(None) };
    let (mut entries, mut bytes, most) = (Vec::new(), 0, reading.most(call));
    call.work.scan(open.stream.entries(from, Id::MAX), Direction::Forward, |row, value| {
        bytes += value.len();
        entries.push((Id::of_row(row), Some(value.to_vec())));
        // What is given to a consumer must be replied.
        match bytes > call.reply.end || entries.len() as u64 == most {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })?;
    if bytes > call.reply.end {
        return Err(TOO_LONG.into());
    }
    if entries.is_empty() {
        return Ok(None);
    }
    let Some([_, consumer]) = reading.group else { return Ok(None) };
    group.see(call.work, consumer)?;
    // Where a group was set back, others may have what it is given again.
    let has_pending = !group.some_pending(call.work, from, 1)?.is_empty();
    let first = open.first_id(call.work)?;
    for (id, _) in &entries {
        group.group.read = read_with(&open.stream, first, group.group.read, *id);
        group.group.last = *id;
        if !reading.acknowledged {
            let had = if has_pending { group.pending(call.work, *id)? } else { None };
            let (delivered_ms, consumer) = (call.work.now_ms, consumer.to_vec());
            let pending = Pending { delivered_ms, deliveries: 1, consumer };
            group.give(call.work, *id, &pending, had.as_ref())?;
        }
    }
    Ok(Some(entries))
}

/// Entries that a consumer has pending, which are delivered once more.
fn history(
    call: &mut Call<'_, '_, '_>,
    open: &Open,
    group: &mut OpenGroup,
    consumer: &[u8],
    (from, most): (Id, u64),
) -> Outcome<Vec<Shown>> {
    let Some(consumer) = group.consumer(call.work, consumer)?.cloned() else {
        return Ok(Vec::new());
    };
    let rows = group.group.delivered_rows(&consumer, from, Id::MAX);
    let ids = collect(call.work, rows, most, |row, _| Some(Id::of_row(row)))?;
    let (mut entries, mut bytes) = (Vec::new(), 0);
    for id in ids {
        let value = call.work.get(&open.stream.entry(id))?;
        if value.is_some()
            && let Some(mut pending) = group.pending(call.work, id)?
        {
            pending.delivered_ms = call.work.now_ms;
            pending.deliveries = pending.deliveries.wrapping_add(1);
            call.work.put(group.group.pending_row(id), pending.bytes());
        }
        bytes += value.as_ref().map_or(0, Vec::len);
        if bytes > call.reply.end {
            return Err(TOO_LONG.into());
        }
        entries.push((id, value));
    }
    Ok(entries)
}
