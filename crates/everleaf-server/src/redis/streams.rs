//! Commands about streams, but for their groups: an entry is one row, by its id, so what is added
//! or removed is what is paid for.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use everleaf::Direction;

use super::call::Call;
use super::failure::{Failure, NO_KEY, NOT_INTEGER, Outcome, SYNTAX, WRONG_TYPE, wrong_number};
use super::long::{Rows, Show};
use super::stream_ids::{count, first, id, ids, last};
use super::trimming::{By, NODES, Trim, Wanted, options};
use crate::data::{Header, Id, Kind, Stream, Work, add_string};
use crate::resp::argument::is;
use crate::resp::number::integer;

// ---- a stream
// -------------------------------------------------------------------------------------------------

/// A stream and its key.
pub struct Open {
    row: Vec<u8>,
    header: Header,
    pub stream: Stream,
}

impl Open {
    /// The stream of a key; none if the key is not there.
    pub fn find(call: &Call<'_, '_, '_>, row: &[u8]) -> Outcome<Option<Self>> {
        match call.work.value(row)? {
            None => Ok(None),
            Some((header, _)) if header.kind != Kind::Stream => Err(WRONG_TYPE.into()),
            Some((header, value)) => {
                let stream =
                    Stream::read(&value).ok_or(Failure::Said("ERR a stream is damaged"))?;
                Ok(Some(Self { row: row.to_vec(), header, stream }))
            }
        }
    }

    /// A new one, of a key that is not there.
    pub fn new(call: &mut Call<'_, '_, '_>, row: &[u8]) -> Outcome<Self> {
        call.work.remove_key(row)?; // What expired may still lie there.
        let (header, collection) = call.work.new_collection(Kind::Stream)?;
        Ok(Self { row: row.to_vec(), header, stream: Stream::new(collection.id) })
    }

    /// Its key will hold it.
    pub fn store(&self, work: &mut Work<'_>) {
        work.put(self.row.clone(), self.header.with(&self.stream.bytes()));
    }

    /// Appends an entry whose id is greater than the last one.
    pub fn append(&mut self, work: &mut Work<'_>, id: Id, entry: Vec<u8>) {
        work.put(self.stream.entry(id), entry);
        self.stream.length += 1;
        self.stream.added = self.stream.added.wrapping_add(1);
        self.stream.last = id;
    }

    /// Removes an entry; whether it was there.
    pub fn remove(&mut self, work: &mut Work<'_>, id: Id) -> Outcome<bool> {
        let there = self.has(work, id)?;
        if there {
            work.delete(self.stream.entry(id));
            self.stream.length = self.stream.length.saturating_sub(1);
        }
        Ok(there)
    }

    /// Whether an entry is there.
    pub fn has(&self, work: &Work<'_>, id: Id) -> Outcome<bool> {
        Ok(work.show(&self.stream.entry(id), |_| ())?.is_some())
    }

    /// The first entry of a range, or the last one of it.
    pub fn edge(
        &self,
        work: &Work<'_>,
        (from, to): (Id, Id),
        direction: Direction,
    ) -> Outcome<Option<(Id, Vec<u8>)>> {
        let mut found = None;
        work.scan(self.stream.entries(from, to), direction, |row, value| {
            found = Some((Id::of_row(row), value.to_vec()));
            ControlFlow::Break(())
        })?;
        Ok(found)
    }

    /// The id of the first entry; the least one where there is none.
    pub fn first_id(&self, work: &Work<'_>) -> Outcome<Id> {
        let first = self.edge(work, (Id::MIN, Id::MAX), Direction::Forward)?;
        Ok(first.map_or(Id::MIN, |(id, _)| id))
    }

    /// Removes entries at the front; how many.
    fn trim(&mut self, work: &mut Work<'_>, trim: &Trim) -> Outcome<u64> {
        let (length, added) = (self.stream.length, self.stream.added);
        let nodes = (length, added.saturating_sub(length));
        let (to, most) = match trim.by {
            By::Length(kept) => (Some(Id::MAX), trim.rounded(length.saturating_sub(kept), nodes)),
            By::Id(id) => (id.previous(), trim.limit.unwrap_or(u64::MAX)),
        };
        let mut rows = Vec::new();
        if let Some(to) = to.filter(|_| most > 0) {
            work.scan(self.stream.entries(Id::MIN, to), Direction::Forward, |row, _| {
                rows.push(row.to_vec());
                match (rows.len() as u64) < most {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            })?;
        }
        rows.truncate(trim.rounded(rows.len() as u64, nodes) as usize);
        let removed = rows.len() as u64;
        rows.into_iter().for_each(|row| work.delete(row));
        self.stream.length -= removed.min(length);
        Ok(removed)
    }
}

// ---- XADD, XTRIM
// -------------------------------------------------------------------------------------------------

fn node(call: &Call<'_, '_, '_>) -> u64 {
    match call.shared.settings.stream_node_entries.load(Ordering::Relaxed) {
        0 => NODES,
        entries => entries,
    }
}

/// The bytes of an entry.
fn entry(call: &Call<'_, '_, '_>, fields: &[&[u8]]) -> Outcome<Vec<u8>> {
    let bytes: usize = fields.iter().map(|string| string.len() + 4).sum();
    if bytes > call.shared.longest.redis.saturating_add(4 * fields.len()) {
        return Err("ERR Elements are too large to be stored".into());
    }
    let mut entry = Vec::with_capacity(bytes);
    fields.iter().for_each(|string| add_string(&mut entry, string));
    Ok(entry)
}

/// XADD.
pub fn xadd(call: &mut Call<'_, '_, '_>) -> Outcome {
    let row = call.row(1)?;
    let (options, at) = options(call.args, node(call))?;
    let fields = call.rest(at);
    if fields.len() < 2 || !fields.len().is_multiple_of(2) {
        return Err(wrong_number(call.args[0]));
    }
    if options.wanted == Wanted::This(Id::MIN) {
        return Err("ERR The ID specified in XADD must be greater than 0-0".into());
    }
    let mut open = match Open::find(call, &row)? {
        Some(open) => open,
        None if options.only_present => {
            call.reply.null();
            return Ok(());
        }
        None => Open::new(call, &row)?,
    };
    let last = open.stream.last;
    if last == Id::MAX {
        let sentence =
            "ERR The stream has exhausted the last possible ID, unable to add more items";
        return Err(sentence.into());
    }
    let smaller =
        "ERR The ID specified in XADD is equal or smaller than the target stream top item";
    let id = options.wanted.behind(last, call.work.now_ms).ok_or(Failure::Said(smaller))?;
    let entry = entry(call, fields)?;
    open.append(call.work, id, entry);
    if let Some(trim) = &options.trim {
        open.trim(call.work, trim)?;
    }
    open.store(call.work);
    call.reply.bulk(id.to_string());
    Ok(())
}

/// XTRIM.
pub fn xtrim(call: &mut Call<'_, '_, '_>) -> Outcome {
    let row = call.row(1)?;
    let (options, _) = options(call.args, node(call))?;
    let mut removed = 0;
    if let (Some(mut open), Some(trim)) = (Open::find(call, &row)?, &options.trim) {
        removed = open.trim(call.work, trim)?;
        if removed > 0 {
            open.store(call.work);
        }
    }
    call.reply.integer(removed as i64);
    Ok(())
}

/// XDEL.
pub fn xdel(call: &mut Call<'_, '_, '_>) -> Outcome {
    let row = call.row(1)?;
    let mut removed = 0;
    if let Some(mut open) = Open::find(call, &row)? {
        for id in ids(call.rest(2))? {
            if open.remove(call.work, id)? {
                open.stream.deleted = open.stream.deleted.max(id);
                removed += 1;
            }
        }
        if removed > 0 {
            open.store(call.work);
        }
    }
    call.reply.integer(removed);
    Ok(())
}

/// XLEN.
pub fn xlen(call: &mut Call<'_, '_, '_>) -> Outcome {
    let row = call.row(1)?;
    let length = Open::find(call, &row)?.map_or(0, |open| open.stream.length);
    call.reply.integer(length as i64);
    Ok(())
}

/// XSETID.
pub fn xsetid(call: &mut Call<'_, '_, '_>) -> Outcome {
    let (row, last) = (call.row(1)?, id(call.args[2], 0)?);
    let (mut added, mut deleted) = (None, Id::MIN);
    for option in call.rest(3).chunks(2) {
        match option {
            [name, number] if is(name, "ENTRIESADDED") => {
                let number = integer(number).ok_or(Failure::Said(NOT_INTEGER))?;
                let wrong = |_| Failure::Said("ERR entries_added must be positive");
                added = Some(u64::try_from(number).map_err(wrong)?);
            }
            [name, greatest] if is(name, "MAXDELETEDID") => {
                deleted = id(greatest, 0)?;
                if last < deleted {
                    let sentence = "ERR The ID specified in XSETID is smaller than the provided \
                                    max_deleted_entry_id";
                    return Err(sentence.into());
                }
            }
            _ => return Err(SYNTAX.into()),
        }
    }
    let Some(mut open) = Open::find(call, &row)? else { return Err(NO_KEY.into()) };
    if let Some((top, _)) = open.edge(call.work, (Id::MIN, Id::MAX), Direction::Backward)? {
        if last < top {
            let sentence =
                "ERR The ID specified in XSETID is smaller than the target stream top item";
            return Err(sentence.into());
        }
        if added.is_some_and(|added| added < open.stream.length) {
            let sentence = "ERR The entries_added specified in XSETID is smaller than the target \
                            stream length";
            return Err(sentence.into());
        }
    }
    open.stream.last = last;
    open.stream.added = added.unwrap_or(open.stream.added);
    if deleted > Id::MIN {
        open.stream.deleted = deleted;
    }
    open.store(call.work);
    call.reply.ok();
    Ok(())
}

// ---- ranges
// -------------------------------------------------------------------------------------------------

fn range(call: &mut Call<'_, '_, '_>, direction: Direction) -> Outcome {
    let (from, to) = match direction {
        Direction::Forward => (2, 3),
        Direction::Backward => (3, 2),
    };
    let (row, from, to) = (call.row(1)?, first(call.args[from])?, last(call.args[to])?);
    let mut most = u64::MAX;
    for option in call.rest(4).chunks(2) {
        match option {
            [name, number] if is(name, "COUNT") => most = count(number)?,
            _ => return Err(SYNTAX.into()),
        }
    }
    let Some(open) = Open::find(call, &row)? else {
        call.reply.array(0);
        return Ok(());
    };
    if most == 0 {
        call.reply.null_array();
        return Ok(());
    }
    let is_whole = from == Id::MIN && to == Id::MAX;
    let most = if is_whole { most.min(open.stream.length) } else { most };
    let ends = open.stream.entries(from, to);
    let rows = Rows::of(ends, direction, (0, most), Show::Stream(None));
    call.rows(if is_whole { rows.known() } else { rows })
}

/// XRANGE.
pub fn xrange(call: &mut Call<'_, '_, '_>) -> Outcome {
    range(call, Direction::Forward)
}

/// XREVRANGE.
pub fn xrevrange(call: &mut Call<'_, '_, '_>) -> Outcome {
    range(call, Direction::Backward)
}
