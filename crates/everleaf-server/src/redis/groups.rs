//! Groups of consumers of a stream: XGROUP, XACK, and what the other commands do with a group.
//!
//! A pending entry is two rows, by its id and by its consumer. The group and each consumer know how
//! many they have, so each command costs what it touches.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use everleaf::Direction;

use super::call::Call;
use super::failure::{Failure, NOT_INTEGER, Outcome, check_length};
use super::stream_ids::{id, id_or_end, ids};
use super::streams::Open;
use crate::data::{
    Consumer, Ends, Group, Id, MAX_KEY_BYTES, Pending, Stream, Work, group_row, groups,
};
use crate::resp::argument::is;
use crate::resp::number::integer;

/// A number of entries that is not known.
const UNKNOWN: i64 = -1;

/// What rows of a range hold, at most so many.
pub fn collect<T>(
    work: &Work<'_>,
    ends: Ends,
    most: u64,
    mut read: impl FnMut(&[u8], &[u8]) -> Option<T>,
) -> Outcome<Vec<T>> {
    let mut found = Vec::new();
    if most > 0 {
        work.scan(ends, Direction::Forward, |row, value| {
            found.extend(read(row, value));
            match (found.len() as u64) < most {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        })?;
    }
    Ok(found)
}

/// All groups of a stream.
pub fn all(work: &Work<'_>, stream: u64) -> Outcome<Vec<Group>> {
    collect(work, groups(stream), u64::MAX, |row, value| Group::read(stream, row, value))
}

/// What is said where a group of a key is not there.
pub fn no_group(group: &[u8], key: &[u8]) -> Failure {
    let (group, key) = (group.escape_ascii(), key.escape_ascii());
    Failure::Text(format!("NOGROUP No such consumer group '{group}' for key name '{key}'"))
}

/// What is said where the key may not be there either.
pub fn no_key_or_group(key: &[u8], group: &[u8]) -> Failure {
    let (group, key) = (group.escape_ascii(), key.escape_ascii());
    Failure::Text(format!("NOGROUP No such key '{key}' or consumer group '{group}'"))
}

/// What is said of a second word with other arguments than it has.
pub fn wrong_subcommand(call: &Call<'_, '_, '_>) -> Failure {
    let (name, word) = (call.args[0].to_ascii_uppercase(), call.args[1]);
    let (name, word) = (name.escape_ascii(), word[..word.len().min(128)].escape_ascii());
    Failure::Text(format!(
        "ERR unknown subcommand or wrong number of arguments for '{word}'. Try {name} HELP."
    ))
}

// ---- a group
// -------------------------------------------------------------------------------------------------

/// A group that is at work.
pub struct OpenGroup {
    pub group: Group,
    /// Consumers that were looked at.
    consumers: BTreeMap<Vec<u8>, Consumer>,
    /// How many of them are new.
    made: usize,
}

impl OpenGroup {
    const fn of(group: Group) -> Self {
        Self { group, consumers: BTreeMap::new(), made: 0 }
    }

    /// A new group of a stream: the last id that it was given, and how many entries it has read.
    pub fn new(
        work: &Work<'_>,
        stream: u64,
        name: &[u8],
        (last, read): (Id, i64),
    ) -> Outcome<Self> {
        check_length(name)?;
        let number = work.data.next_number()?;
        Ok(Self::of(Group::new(stream, name, number, last, read)))
    }

    /// A group of a stream; none if there is none of this name.
    pub fn find(work: &Work<'_>, stream: u64, name: &[u8]) -> Outcome<Option<Self>> {
        if name.len() > MAX_KEY_BYTES {
            return Ok(None);
        }
        let row = group_row(stream, name);
        let found = work.show(&row, |value| Group::read(stream, &row, value))?;
        Ok(found.flatten().map(Self::of))
    }

    /// A group of the stream of a key, and the stream; none if either is not there.
    pub fn of_key(
        call: &Call<'_, '_, '_>,
        row: &[u8],
        name: &[u8],
    ) -> Outcome<Option<(Open, Self)>> {
        let Some(open) = Open::find(call, row)? else { return Ok(None) };
        Ok(Self::find(call.work, open.stream.id, name)?.map(|group| (open, group)))
    }

    /// A consumer; none if there is none of this name.
    pub fn consumer(&mut self, work: &Work<'_>, name: &[u8]) -> Outcome<Option<&mut Consumer>> {
        if name.len() <= MAX_KEY_BYTES && !self.consumers.contains_key(name) {
            let row = self.group.consumer_row(name);
            let found = work.show(&row, |value| Consumer::read(&row, value))?.flatten();
            self.consumers.extend(found.map(|consumer| (name.to_vec(), consumer)));
        }
        Ok(self.consumers.get_mut(name))
    }

    /// Makes a consumer, unless it is there; whether it is new.
    pub fn make_consumer(&mut self, work: &Work<'_>, name: &[u8]) -> Outcome<bool> {
        if self.consumer(work, name)?.is_some() {
            return Ok(false);
        }
        check_length(name)?;
        let number = work.data.next_number()?;
        let consumer = Consumer { name: name.to_vec(), number, seen_ms: work.now_ms, pending: 0 };
        self.consumers.insert(name.to_vec(), consumer);
        self.group.consumers += 1;
        self.made += 1;
        Ok(true)
    }

    /// Tells of the consumers that are new.
    pub fn tell(&self, call: &mut Call<'_, '_, '_>, row: &[u8]) {
        (0..self.made).for_each(|_| call.tell(b't', "xgroup-createconsumer", row));
    }

    /// A consumer is seen, which is made if it is not there.
    pub fn see(&mut self, work: &Work<'_>, name: &[u8]) -> Outcome<()> {
        self.make_consumer(work, name)?;
        if let Some(consumer) = self.consumer(work, name)? {
            consumer.seen_ms = work.now_ms;
        }
        Ok(())
    }

    /// What is known of a pending entry.
    pub fn pending(&self, work: &Work<'_>, id: Id) -> Outcome<Option<Pending>> {
        Ok(work.show(&self.group.pending_row(id), Pending::read)?.flatten())
    }

    /// Pending entries from an id on, at most so many.
    pub fn some_pending(
        &self,
        work: &Work<'_>,
        from: Id,
        most: u64,
    ) -> Outcome<Vec<(Id, Pending)>> {
        collect(work, self.group.pending_rows(from, Id::MAX), most, |row, value| {
            Some((Id::of_row(row), Pending::read(value)?))
        })
    }

    /// Makes an entry pending, of a consumer that was seen, and takes it from whose it is.
    pub fn give(
        &mut self,
        work: &mut Work<'_>,
        id: Id,
        pending: &Pending,
        had: Option<&Pending>,
    ) -> Outcome {
        if had.is_none_or(|had| had.consumer != pending.consumer) {
            had.map(|had| self.take(work, id, had)).transpose()?;
            if let Some(consumer) = self.consumer(work, &pending.consumer)? {
                consumer.pending += 1;
                let consumer = consumer.clone();
                work.put(self.group.delivered_row(&consumer, id), Vec::new());
                self.group.pending += 1;
            }
        }
        work.put(self.group.pending_row(id), pending.bytes());
        Ok(())
    }

    /// An entry is pending no more.
    pub fn take(&mut self, work: &mut Work<'_>, id: Id, had: &Pending) -> Outcome {
        work.delete(self.group.pending_row(id));
        if let Some(consumer) = self.consumer(work, &had.consumer)? {
            consumer.pending = consumer.pending.saturating_sub(1);
            let consumer = consumer.clone();
            work.delete(self.group.delivered_row(&consumer, id));
            self.group.pending = self.group.pending.saturating_sub(1);
        }
        Ok(())
    }

    /// The group, and the consumers that were looked at, will be stored.
    pub fn store(&self, work: &mut Work<'_>) {
        work.put(self.group.row(), self.group.bytes());
        for (name, consumer) in &self.consumers {
            work.put(self.group.consumer_row(name), consumer.bytes());
        }
    }

    /// Removes a consumer with what it has pending; how many entries that was.
    fn remove_consumer(&mut self, work: &mut Work<'_>, name: &[u8]) -> Outcome<u64> {
        let Some(consumer) = self.consumer(work, name)?.cloned() else { return Ok(0) };
        let delivered = self.group.delivered_rows(&consumer, Id::MIN, Id::MAX);
        let rows = collect(work, delivered, u64::MAX, |row, _| Some(row.to_vec()))?;
        for row in rows {
            work.delete(self.group.pending_row(Id::of_row(&row)));
            work.delete(row);
        }
        work.delete(self.group.consumer_row(name));
        self.consumers.remove(name);
        self.group.consumers = self.group.consumers.saturating_sub(1);
        self.group.pending = self.group.pending.saturating_sub(consumer.pending);
        Ok(consumer.pending)
    }

    /// Removes all rows of the group.
    fn remove(&self, work: &mut Work<'_>) -> Outcome {
        for ends in self.group.rows() {
            let rows = collect(work, ends, u64::MAX, |row, _| Some(row.to_vec()))?;
            rows.into_iter().for_each(|row| work.delete(row));
        }
        work.delete(self.group.row());
        Ok(())
    }
}

// ---- how much a group has read
// -------------------------------------------------------------------------------------------------

/// Whether an entry may be missing at an id or behind it. `first` is the id of the first entry.
fn has_gaps_behind(stream: &Stream, first: Id, id: Id) -> bool {
    let is_any = stream.length > 0 && stream.deleted > Id::MIN;
    is_any && first <= stream.deleted && id <= stream.deleted
}

/// How many entries were added up to one with this id, if that can be told.
fn added_up_to(stream: &Stream, first: Id, id: Id) -> i64 {
    let (added, length) = (stream.added as i64, stream.length as i64);
    if added == 0 {
        0
    } else if stream.length == 0 && id <= stream.last || id == stream.last {
        added
    } else if id > stream.last {
        UNKNOWN
    } else if stream.deleted == Id::MIN || stream.deleted < first {
        match id.cmp(&first) {
            std::cmp::Ordering::Less => added.wrapping_sub(length),
            std::cmp::Ordering::Equal => added.wrapping_sub(length).wrapping_add(1),
            std::cmp::Ordering::Greater => UNKNOWN,
        }
    } else {
        UNKNOWN
    }
}

/// The number of entries that a group has read when it is given the next one.
pub fn read_with(stream: &Stream, first: Id, read: i64, id: Id) -> i64 {
    if read != UNKNOWN && !has_gaps_behind(stream, first, id) {
        read.wrapping_add(1)
    } else if stream.added > 0 {
        added_up_to(stream, first, id)
    } else {
        read
    }
}

/// How many entries a group has not read, if that can be told.
pub fn lag(stream: &Stream, first: Id, group: &Group) -> Option<i64> {
    let added = stream.added as i64;
    if added == 0 {
        return Some(0);
    }
    let read = match group.read {
        read if read != UNKNOWN && !has_gaps_behind(stream, first, group.last) => read,
        _ => Some(added_up_to(stream, first, group.last)).filter(|read| *read != UNKNOWN)?,
    };
    Some(added.wrapping_sub(read))
}

// ---- XGROUP, XACK
// -------------------------------------------------------------------------------------------------

/// The options of XGROUP CREATE and SETID.
fn options(call: &Call<'_, '_, '_>) -> Outcome<(bool, i64)> {
    let creates = is(call.args[1], "CREATE");
    let (mut makes_stream, mut read, mut at) = (false, UNKNOWN, 5);
    while let Some(option) = call.args.get(at) {
        if creates && is(option, "MKSTREAM") {
            makes_stream = true;
            at += 1;
        } else if (creates || is(call.args[1], "SETID"))
            && is(option, "ENTRIESREAD")
            && let Some(number) = call.args.get(at + 1)
        {
            read = integer(number).ok_or(Failure::Said(NOT_INTEGER))?;
            if read < UNKNOWN {
                return Err("ERR value for ENTRIESREAD must be positive or -1".into());
            }
            at += 2;
        } else {
            return Err(wrong_subcommand(call));
        }
    }
    Ok((makes_stream, read))
}

/// XGROUP.
pub fn xgroup(call: &mut Call<'_, '_, '_>) -> Outcome {
    let what = call.args[1];
    if is(what, "HELP") {
        call.help(&[
            "CREATE <key> <groupname> <id|$> [option]",
            "    Create a new consumer group. Options are:",
            "    * MKSTREAM",
            "      Create the empty stream if it does not exist.",
            "    * ENTRIESREAD entries_read",
            "      Set the group's entries_read counter (internal use).",
            "CREATECONSUMER <key> <groupname> <consumer>",
            "    Create a new consumer in the specified group.",
            "DELCONSUMER <key> <groupname> <consumer>",
            "    Remove the specified consumer.",
            "DESTROY <key> <groupname>",
            "    Remove the specified group.",
            "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
            "    Set the current group ID and entries_read counter.",
        ]);
        return Ok(());
    }
    let (row, name) = (call.row(2)?, call.args[3]);
    let (makes_stream, read) = options(call)?;
    let open = Open::find(call, &row)?;
    if is(what, "CREATE") {
        return create(call, open, (makes_stream, read));
    }
    let Some(open) = open else { return Err(no_stream()) };
    let found = OpenGroup::find(call.work, open.stream.id, name)?;
    if is(what, "DESTROY") {
        if let Some(group) = &found {
            group.remove(call.work)?;
            open.store(call.work); // Who waits for its entries is told.
            call.tell(b't', "xgroup-destroy", &row);
        }
        call.reply.flag(found.is_some());
        return Ok(());
    }
    let mut group = found.ok_or_else(|| no_group(name, call.args[2]))?;
    if is(what, "SETID") {
        group.group.last = match call.args[4] {
            b"$" => open.stream.last,
            arg => id_or_end(arg, 0)?,
        };
        if !matches!(call.args.len(), 5 | 7) {
            return Err(wrong_subcommand(call));
        }
        group.group.read = read;
        call.tell(b't', "xgroup-setid", &row);
        call.reply.ok();
    } else if is(what, "CREATECONSUMER") {
        let is_new = group.make_consumer(call.work, call.args[4])?;
        call.reply.flag(is_new);
    } else {
        let was_there = group.consumer(call.work, call.args[4])?.is_some();
        let pending = group.remove_consumer(call.work, call.args[4])?;
        if was_there {
            call.tell(b't', "xgroup-delconsumer", &row);
        }
        call.reply.integer(pending as i64);
    }
    group.store(call.work);
    group.tell(call, &row);
    Ok(())
}

fn no_stream() -> Failure {
    Failure::Said(
        "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to \
         use the MKSTREAM option to create an empty stream automatically.",
    )
}

fn create(
    call: &mut Call<'_, '_, '_>,
    open: Option<Open>,
    (makes_stream, read): (bool, i64),
) -> Outcome {
    let (row, name) = (call.row(2)?, call.args[3]);
    if open.is_none() && !makes_stream {
        return Err(no_stream());
    }
    if call.args.len() > 8 {
        return Err(wrong_subcommand(call));
    }
    let last = match call.args[4] {
        b"$" => open.as_ref().map_or(Id::MIN, |open| open.stream.last),
        arg => id(arg, 0)?,
    };
    check_length(name)?;
    let open = match open {
        Some(open) => open,
        None => {
            let open = Open::new(call, &row)?;
            open.store(call.work);
            open
        }
    };
    let stream = open.stream.id;
    if OpenGroup::find(call.work, stream, name)?.is_some() {
        return Err("BUSYGROUP Consumer Group name already exists".into());
    }
    OpenGroup::new(call.work, stream, name, (last, read))?.store(call.work);
    call.tell(b't', "xgroup-create", &row);
    call.reply.ok();
    Ok(())
}

/// XACK.
pub fn xack(call: &mut Call<'_, '_, '_>) -> Outcome {
    let row = call.row(1)?;
    let mut acknowledged = 0;
    if let Some((_, mut group)) = OpenGroup::of_key(call, &row, call.args[2])? {
        for id in ids(call.rest(3))? {
            if let Some(pending) = group.pending(call.work, id)? {
                group.take(call.work, id, &pending)?;
                acknowledged += 1;
            }
        }
        if acknowledged > 0 {
            group.store(call.work);
        }
    }
    call.reply.integer(acknowledged);
    Ok(())
}
