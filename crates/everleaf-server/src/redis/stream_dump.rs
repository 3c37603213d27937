//! A stream as bytes, for DUMP and RESTORE (`dump.rs`): strings, the first of which is the body of
//! the key. A mark begins each of the others.
//!
//! ```text
//! e id (16) fields     an entry, in the order of ids
//! g group (48) name    a group
//! c consumer (24) name one of its consumers
//! p id (16) pending    one of its pending entries, behind all of its consumers
//! ```
//!
//! What follows a mark is what a row holds (`data/stream.rs`). Numbers of groups and consumers are
//! given anew, and what can be counted is counted.

use std::ops::ControlFlow;

use everleaf::Direction;

use super::call::Call;
use super::failure::{Failure, Outcome};
use super::groups::{OpenGroup, all};
use super::payload::{BAD_FORMAT, entries};
use super::streams::Open;
use crate::data::{
    Consumer, Ends, Group, Id, Pending, Stream, Work, add_string, group_row, part_rest,
};

const WRONG: Failure = Failure::Said(BAD_FORMAT);

/// Adds the rows of a range, until there are more bytes than `end`.
fn add_rows(
    work: &Work<'_>,
    ends: Ends,
    (payload, end): (&mut Vec<u8>, usize),
    show: impl Fn(&[u8], &[u8]) -> Vec<u8>,
) -> Outcome {
    work.scan(ends, Direction::Forward, |row, value| {
        add_string(payload, &show(part_rest(row), value));
        if payload.len() > end { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(())
}

/// Appends all that there is of a stream, or more than the reply may have.
pub fn tell(call: &Call<'_, '_, '_>, row: &[u8], payload: &mut Vec<u8>) -> Outcome {
    let Some(open) = Open::find(call, row)? else { return Ok(()) };
    let (stream, work, end) = (open.stream, &*call.work, call.reply.end);
    add_string(payload, &stream.bytes());
    let entry = |id: &[u8], value: &[u8]| [b"e", id, value].concat();
    add_rows(work, stream.entries(Id::MIN, Id::MAX), (payload, end), entry)?;
    for group in all(work, stream.id)? {
        add_string(payload, &[b"g", &group.bytes()[..], &group.name].concat());
        // In front of a name, and of an id, is what tells the group.
        let consumer = |rest: &[u8], value: &[u8]| [b"c", value, &rest[9..]].concat();
        add_rows(work, group.consumer_rows(), (payload, end), consumer)?;
        let pending = |rest: &[u8], value: &[u8]| [b"p", &rest[9..], value].concat();
        add_rows(work, group.pending_rows(Id::MIN, Id::MAX), (payload, end), pending)?;
    }
    Ok(())
}

/// Stores what a payload tells under a key that is not there.
pub fn make(call: &mut Call<'_, '_, '_>, row: &[u8], body: &[u8]) -> Outcome {
    let told = entries(body)?;
    let (head, rest) = told.split_first().ok_or(WRONG)?;
    let head = Stream::of_body(head).ok_or(WRONG)?;
    let mut open = Open::new(call, row)?;
    let mut group: Option<OpenGroup> = None;
    for string in rest {
        let (mark, rest) = string.split_first().ok_or(WRONG)?;
        match (mark, &mut group) {
            (b'e', None) => make_entry(call, &mut open, rest)?,
            (b'g', _) => {
                group.take().iter().for_each(|group| group.store(call.work));
                group = Some(make_group(call, &open, rest)?);
            }
            (b'c', Some(group)) => make_consumer(call, group, rest)?,
            (b'p', Some(group)) => make_pending(call, group, rest)?,
            _ => return Err(WRONG),
        }
    }
    group.iter().for_each(|group| group.store(call.work));
    if head.last < open.stream.last || head.added < open.stream.length {
        return Err(WRONG);
    }
    let Stream { id, length, .. } = open.stream;
    open.stream = Stream { id, length, ..head };
    open.store(call.work);
    Ok(())
}

fn make_entry(call: &mut Call<'_, '_, '_>, open: &mut Open, told: &[u8]) -> Outcome {
    let (id, fields) = told.split_first_chunk::<16>().ok_or(WRONG)?;
    let id = Id::of_row(id);
    call.check_value(fields.len())?;
    if id <= open.stream.last || !entries(fields)?.len().is_multiple_of(2) {
        return Err(WRONG);
    }
    open.append(call.work, id, fields.to_vec());
    Ok(())
}

fn make_group(call: &mut Call<'_, '_, '_>, open: &Open, told: &[u8]) -> Outcome<OpenGroup> {
    let (words, name) = told.split_first_chunk::<48>().ok_or(WRONG)?;
    let stream = open.stream.id;
    let told = Group::read(stream, &group_row(stream, name), words).ok_or(WRONG)?;
    if told.read < -1 || OpenGroup::find(call.work, stream, name)?.is_some() {
        return Err(WRONG);
    }
    OpenGroup::new(call.work, stream, name, (told.last, told.read))
}

fn make_consumer(call: &mut Call<'_, '_, '_>, group: &mut OpenGroup, told: &[u8]) -> Outcome {
    let (words, name) = told.split_first_chunk::<24>().ok_or(WRONG)?;
    let told = Consumer::read(&group.group.consumer_row(name), words).ok_or(WRONG)?;
    if !group.make_consumer(call.work, name)? {
        return Err(WRONG);
    }
    if let Some(consumer) = group.consumer(call.work, name)? {
        consumer.seen_ms = told.seen_ms;
    }
    Ok(())
}

fn make_pending(call: &mut Call<'_, '_, '_>, group: &mut OpenGroup, told: &[u8]) -> Outcome {
    let (id, rest) = told.split_first_chunk::<16>().ok_or(WRONG)?;
    let (id, pending) = (Id::of_row(id), Pending::read(rest).ok_or(WRONG)?);
    let is_known = group.consumer(call.work, &pending.consumer)?.is_some();
    if !is_known || group.pending(call.work, id)?.is_some() {
        return Err(WRONG);
    }
    group.give(call.work, id, &pending, None)
}
