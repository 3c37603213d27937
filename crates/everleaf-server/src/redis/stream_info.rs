//! XINFO: what there is to know of a stream, its groups and their consumers.

use everleaf::Direction;

use super::call::Call;
use super::failure::{Failure, NO_KEY, NOT_INTEGER, Outcome};
use super::groups::{OpenGroup, all, collect, lag, no_group, wrong_subcommand};
use super::long::show_entry;
use super::streams::Open;
use crate::data::{Consumer, Group, Id, Pending};
use crate::resp::argument::is;
use crate::resp::number::integer;

/// Entries that FULL shows of each thing, where it is not told how many.
const SHOWN: u64 = 10;

/// XINFO.
pub fn xinfo(call: &mut Call<'_, '_, '_>) -> Outcome {
    let what = call.args[1];
    if is(what, "HELP") {
        call.help(&[
            "CONSUMERS <key> <groupname>",
            "    Show consumers of <groupname>.",
            "GROUPS <key>",
            "    Show the stream consumer groups.",
            "STREAM <key> [FULL [COUNT <count>]",
            "    Show information about the stream.",
        ]);
        return Ok(());
    }
    let row = call.row(2)?;
    let Some(open) = Open::find(call, &row)? else { return Err(NO_KEY.into()) };
    if is(what, "CONSUMERS") {
        consumers(call, &open)
    } else if is(what, "GROUPS") {
        groups(call, &open)
    } else {
        stream(call, &open)
    }
}

fn number(call: &mut Call<'_, '_, '_>, name: &str, number: u64) {
    call.reply.bulk(name);
    call.reply.integer(number as i64);
}

fn text(call: &mut Call<'_, '_, '_>, name: &str, text: impl AsRef<[u8]>) {
    call.reply.bulk(name);
    call.reply.bulk(text);
}

fn maybe(call: &mut Call<'_, '_, '_>, name: &str, number: Option<i64>) {
    call.reply.bulk(name);
    match number {
        Some(number) => call.reply.integer(number),
        None => call.reply.null(),
    }
}

fn consumers_of(call: &Call<'_, '_, '_>, group: &Group) -> Outcome<Vec<Consumer>> {
    collect(call.work, group.consumer_rows(), u64::MAX, Consumer::read)
}

fn consumers(call: &mut Call<'_, '_, '_>, open: &Open) -> Outcome {
    let found = OpenGroup::find(call.work, open.stream.id, call.args[3])?;
    let group = found.ok_or_else(|| no_group(call.args[3], call.args[2]))?;
    let consumers = consumers_of(call, &group.group)?;
    call.reply.array(consumers.len());
    for consumer in consumers {
        call.reply.map(3);
        text(call, "name", &consumer.name);
        number(call, "pending", consumer.pending);
        number(call, "idle", call.work.now_ms.saturating_sub(consumer.seen_ms));
    }
    Ok(())
}

fn groups(call: &mut Call<'_, '_, '_>, open: &Open) -> Outcome {
    let first = open.first_id(call.work)?;
    let groups = all(call.work, open.stream.id)?;
    call.reply.array(groups.len());
    for group in groups {
        call.reply.map(6);
        text(call, "name", &group.name);
        number(call, "consumers", group.consumers);
        number(call, "pending", group.pending);
        text(call, "last-delivered-id", group.last.to_string());
        maybe(call, "entries-read", Some(group.read).filter(|read| *read >= 0));
        maybe(call, "lag", lag(&open.stream, first, &group));
    }
    Ok(())
}

/// How many entries FULL shows, 0: all; none: it is not asked for.
fn full(call: &Call<'_, '_, '_>) -> Outcome<Option<u64>> {
    match call.rest(3) {
        [] => Ok(None),
        [option] if is(option, "FULL") => Ok(Some(SHOWN)),
        [option, name, count] if is(option, "FULL") && is(name, "COUNT") => {
            let count = integer(count).ok_or(Failure::Said(NOT_INTEGER))?;
            Ok(Some(u64::try_from(count).unwrap_or(SHOWN)))
        }
        _ => Err(wrong_subcommand(call)),
    }
}

fn stream(call: &mut Call<'_, '_, '_>, open: &Open) -> Outcome {
    let full = full(call)?;
    let (stream, first) = (open.stream, open.first_id(call.work)?);
    call.reply.map(if full.is_some() { 9 } else { 10 });
    number(call, "length", stream.length);
    // A row for each entry.
    number(call, "radix-tree-keys", stream.length);
    number(call, "radix-tree-nodes", stream.length);
    text(call, "last-generated-id", stream.last.to_string());
    text(call, "max-deleted-entry-id", stream.deleted.to_string());
    number(call, "entries-added", stream.added);
    text(call, "recorded-first-entry-id", first.to_string());
    if let Some(count) = full {
        return contents(call, open, first, if count == 0 { u64::MAX } else { count });
    }
    number(call, "groups", all(call.work, stream.id)?.len() as u64);
    for (name, direction) in
        [("first-entry", Direction::Forward), ("last-entry", Direction::Backward)]
    {
        call.reply.bulk(name);
        match open.edge(call.work, (Id::MIN, Id::MAX), direction)? {
            Some((id, value)) => show_entry(id, &value, &mut call.reply),
            None => call.reply.null(),
        }
    }
    Ok(())
}

/// Some entries, and all groups with some pending entries.
fn contents(call: &mut Call<'_, '_, '_>, open: &Open, first: Id, most: u64) -> Outcome {
    call.reply.bulk("entries");
    let entries = collect(call.work, open.stream.entries(Id::MIN, Id::MAX), most, |row, value| {
        Some((Id::of_row(row), value.to_vec()))
    })?;
    call.reply.array(entries.len());
    entries.iter().for_each(|(id, value)| show_entry(*id, value, &mut call.reply));
    call.reply.bulk("groups");
    let groups = all(call.work, open.stream.id)?;
    call.reply.array(groups.len());
    for group in groups {
        call.reply.map(7);
        text(call, "name", &group.name);
        text(call, "last-delivered-id", group.last.to_string());
        maybe(call, "entries-read", Some(group.read).filter(|read| *read >= 0));
        maybe(call, "lag", lag(&open.stream, first, &group));
        number(call, "pel-count", group.pending);
        call.reply.bulk("pending");
        let pending =
            collect(call.work, group.pending_rows(Id::MIN, Id::MAX), most, |row, value| {
                Some((Id::of_row(row), Pending::read(value)?))
            })?;
        call.reply.array(pending.len());
        for (id, pending) in pending {
            call.reply.array(4);
            call.reply.bulk(id.to_string());
            call.reply.bulk(&pending.consumer);
            call.reply.integer(pending.delivered_ms as i64);
            call.reply.integer(pending.deliveries);
        }
        call.reply.bulk("consumers");
        let consumers = consumers_of(call, &group)?;
        call.reply.array(consumers.len());
        for consumer in consumers {
            shown_consumer(call, &group, &consumer, most)?;
        }
    }
    Ok(())
}

fn shown_consumer(
    call: &mut Call<'_, '_, '_>,
    group: &Group,
    consumer: &Consumer,
    most: u64,
) -> Outcome {
    call.reply.map(4);
    text(call, "name", &consumer.name);
    number(call, "seen-time", consumer.seen_ms);
    number(call, "pel-count", consumer.pending);
    call.reply.bulk("pending");
    let delivered = group.delivered_rows(consumer, Id::MIN, Id::MAX);
    let ids = collect(call.work, delivered, most, |row, _| Some(Id::of_row(row)))?;
    call.reply.array(ids.len());
    for id in ids {
        let pending = call.work.show(&group.pending_row(id), Pending::read)?.flatten();
        call.reply.array(3);
        call.reply.bulk(id.to_string());
        call.reply.integer(pending.as_ref().map_or(0, |pending| pending.delivered_ms) as i64);
        call.reply.integer(pending.map_or(0, |pending| pending.deliveries));
    }
    Ok(())
}
