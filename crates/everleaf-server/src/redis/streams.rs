//! Commands about streams, but for their groups: an entry is one row, by its id, so what is added
//! or removed is what is paid for.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use everleaf::Direction;

use super::call::Call;
use super::failure::{Failure, NO_KEY, NOT_INTEGER, Outcome, SYNTAX, WRONG_TYPE, wrong_number};
use super::long::{Rows, Show};
use crate::data::{Header, Id, Kind, Stream, Work, add_string};
use crate::resp::argument::is;
use crate::resp::number::integer;

const INVALID_ID: &str = "ERR Invalid stream ID specified as stream command argument";
const TWO_TRIMS: &str =
    "ERR syntax error, MAXLEN and MINID options at the same time are not compatible";
/// Digits of an id, at most, with what stands before and between them.
const LONGEST_ID: usize = 127;
/// How many nodes of Redis are trimmed at a time where that may be approximate.
const NODES: u64 = 100;

// ---- ids
// -------------------------------------------------------------------------------------------------

/// A word of an id, as C's `strtoull` reads it.
fn word(text: &str) -> Option<u64> {
    let digits = text.trim_ascii_start();
    let digits = digits.strip_prefix('+').unwrap_or(digits);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

fn read(arg: &[u8]) -> Option<(u64, Option<&str>)> {
    let text = str::from_utf8(arg).ok().filter(|text| text.len() <= LONGEST_ID)?;
    match text.split_once('-') {
        Some((ms, number)) => Some((word(ms)?, Some(number))),
        None => Some((word(text)?, None)),
    }
}

/// An id; none if the argument is no id.
pub fn maybe_id(arg: &[u8], missing: u64) -> Option<Id> {
    let (ms, number) = read(arg)?;
    Some(Id::new(ms, number.map_or(Some(missing), word)?))
}

/// An id, the number of which may be missing.
pub fn id(arg: &[u8], missing: u64) -> Outcome<Id> {
    maybe_id(arg, missing).ok_or(Failure::Said(INVALID_ID))
}

/// The same, or a sign for the first or the last one.
pub fn id_or_end(arg: &[u8], missing: u64) -> Outcome<Id> {
    match arg {
        b"-" => Ok(Id::MIN),
        b"+" => Ok(Id::MAX),
        arg => id(arg, missing),
    }
}

/// The first id of a range.
pub fn first(arg: &[u8]) -> Outcome<Id> {
    match arg {
        [b'(', rest @ ..] if !rest.is_empty() => {
            id(rest, 0)?.next().ok_or(Failure::Said("ERR invalid start ID for the interval"))
        }
        arg => id_or_end(arg, 0),
    }
}

/// The last id of a range.
pub fn last(arg: &[u8]) -> Outcome<Id> {
    match arg {
        [b'(', rest @ ..] if !rest.is_empty() => {
            let end = id(rest, u64::MAX)?.previous();
            end.ok_or(Failure::Said("ERR invalid end ID for the interval"))
        }
        arg => id_or_end(arg, u64::MAX),
    }
}

/// All ids among arguments.
pub fn ids(args: &[&[u8]]) -> Outcome<Vec<Id>> {
    args.iter().map(|arg| id(arg, 0)).collect()
}

/// A whole number, none below 0.
pub fn count(arg: &[u8]) -> Outcome<u64> {
    let count = integer(arg).ok_or(Failure::Said(NOT_INTEGER))?;
    Ok(count.max(0).unsigned_abs())
}

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

/// What decides which entries go.
#[derive(Clone, Copy)]
enum By {
    /// So many stay.
    Length(u64),
    /// Those with lesser ids go.
    Id(Id),
}

/// What is trimmed.
#[derive(Clone, Copy)]
struct Trim {
    by: By,
    /// Where that may be approximate: entries go by so many.
    node: Option<u64>,
    /// No more go.
    limit: Option<u64>,
}

impl Trim {
    /// How many go of those that may, where the stream has `length` and `gone` went before.
    fn rounded(&self, most: u64, (length, gone): (u64, u64)) -> u64 {
        let most = most.min(self.limit.unwrap_or(u64::MAX));
        match self.node {
            // The last node may have fewer.
            Some(node) if most < length => {
                (gone.saturating_add(most) / node * node).saturating_sub(gone)
            }
            _ => most,
        }
    }
}

/// The id that a new entry is to have.
#[derive(Clone, Copy, PartialEq)]
enum Wanted {
    /// The time.
    Any,
    /// Any of these milliseconds.
    Of(u64),
    This(Id),
}

impl Wanted {
    fn read(arg: &[u8]) -> Outcome<Self> {
        match read(arg) {
            Some((ms, Some("*"))) => Ok(Self::Of(ms)),
            _ => Ok(Self::This(id(arg, 0)?)),
        }
    }

    /// The id behind `last`; none: there is none.
    fn behind(self, last: Id, now_ms: u64) -> Option<Id> {
        let id = match self {
            Self::Any if now_ms > last.ms() => Id::new(now_ms, 0),
            Self::Any => last.next()?,
            Self::Of(ms) if ms == last.ms() => last.next().filter(|id| id.ms() == ms)?,
            Self::Of(ms) => Id::new(ms, 0),
            Self::This(id) => id,
        };
        (id > last).then_some(id)
    }
}

/// The options of XADD and XTRIM.
struct Options {
    wanted: Wanted,
    only_present: bool,
    trim: Option<Trim>,
}

/// Reads the options, and where the fields of an entry begin. `node` is how many entries go at a
/// time where that may be approximate.
fn options(args: &[&[u8]], node: u64) -> Outcome<(Options, usize)> {
    let adds = is(args[0], "XADD");
    let mut options = Options { wanted: Wanted::Any, only_present: false, trim: None };
    let (mut limit, mut is_exact, mut at) = (None, true, 2);
    while at < args.len() {
        let valued = at + 1 < args.len();
        match args[at] {
            b"*" if adds => break,
            o if (is(o, "MAXLEN") || is(o, "MINID")) && valued => {
                if options.trim.is_some() {
                    return Err(TWO_TRIMS.into());
                }
                at += 1;
                let is_signed = matches!(args[at], b"~" | b"=") && at + 1 < args.len();
                is_exact = !(is_signed && args[at] == b"~");
                at += usize::from(is_signed);
                let by = if is(o, "MINID") { By::Id(id(args[at], 0)?) } else { length(args[at])? };
                options.trim = Some(Trim { by, node: None, limit: None });
            }
            o if is(o, "LIMIT") && valued => {
                at += 1;
                limit = Some(integer(args[at]).ok_or(Failure::Said(NOT_INTEGER))?);
                if limit < Some(0) {
                    return Err("ERR The LIMIT argument must be >= 0.".into());
                }
            }
            o if adds && is(o, "NOMKSTREAM") => options.only_present = true,
            o if adds => {
                options.wanted = Wanted::read(o)?;
                break;
            }
            _ => return Err(SYNTAX.into()),
        }
        at += 1;
    }
    let is_limited = limit.is_some_and(|limit| limit > 0);
    match &mut options.trim {
        None if is_limited => {
            let sentence =
                "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy";
            return Err(sentence.into());
        }
        None if adds && limit.is_none() => {}
        None if !adds => {
            let sentence = "ERR syntax error, XTRIM must be called with a trimming strategy";
            return Err(sentence.into());
        }
        Some(_) if is_exact && limit.is_none() => {}
        _ if is_exact => {
            let sentence = "ERR syntax error, LIMIT cannot be used without the special ~ option";
            return Err(sentence.into());
        }
        None => {}
        Some(trim) => {
            trim.node = Some(node);
            let limit = limit.map_or(NODES.saturating_mul(node).min(1_000_000), i64::unsigned_abs);
            trim.limit = (limit > 0).then_some(limit);
        }
    }
    Ok((options, at + 1))
}

fn length(arg: &[u8]) -> Outcome<By> {
    match integer(arg) {
        None => Err(NOT_INTEGER.into()),
        Some(length) if length < 0 => Err("ERR The MAXLEN argument must be >= 0.".into()),
        Some(length) => Ok(By::Length(length.unsigned_abs())),
    }
}

/// The most entries that a command about a stream reads or removes, if the stream has `length`. It
/// is asked for the length only where the command does not say how many.
pub fn most_read(args: &[&[u8]], length: impl FnOnce() -> u64) -> u64 {
    /// Pending entries that XAUTOCLAIM looks at for each that it claims.
    const LOOKED_AT: u64 = 10;
    let number = |at: usize| args.get(at).and_then(|arg| count(arg).ok());
    let named = || args.iter().position(|arg| is(arg, "COUNT")).and_then(|at| number(at + 1));
    match args[0] {
        name if is(name, "XADD") || is(name, "XTRIM") => {
            let Some(trim) = options(args, NODES).ok().and_then(|(options, _)| options.trim) else {
                return 0;
            };
            let most = match trim.by {
                By::Length(kept) => length().saturating_sub(kept),
                By::Id(_) => length(),
            };
            most.min(trim.limit.unwrap_or(u64::MAX))
        }
        name if is(name, "XAUTOCLAIM") => named().unwrap_or(NODES).saturating_mul(LOOKED_AT),
        name if is(name, "XPENDING") => {
            let is_idle = args.get(3).is_some_and(|arg| is(arg, "IDLE"));
            number(if is_idle { 7 } else { 5 }).unwrap_or(0)
        }
        name if is(name, "XGROUP") => length(),
        name if is(name, "XINFO") && args.len() < 4 => 0,
        _ => named().filter(|most| *most > 0).unwrap_or_else(length),
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_redis_reads_them() {
        for (text, read) in [
            ("5", Some("5-9")),
            ("5-6", Some("5-6")),
            ("0-007", Some("0-7")),
            ("18446744073709551615-18446744073709551615", Some(&*Id::MAX.to_string())),
            ("18446744073709551616", None),
            ("5-", None),
            ("-5", None),
            ("-", None),
            ("+", None),
            ("", None),
            ("5-*", None),
            ("5-6-7", None),
            ("x", None),
        ] {
            let found = maybe_id(text.as_bytes(), 9).map(|id| id.to_string());
            assert_eq!(found.as_deref(), read, "{text}");
        }
    }

    #[test]
    fn what_is_approximate_goes_by_whole_nodes() {
        let trim = |node, limit| Trim { by: By::Length(0), node, limit };
        for (trim, most, nodes, goes) in [
            (trim(None, None), 5, (9, 7), 5),
            (trim(Some(100), None), 99, (1000, 0), 0),
            (trim(Some(100), None), 250, (1000, 0), 200),
            (trim(Some(100), None), 250, (250, 0), 250),
            (trim(Some(100), None), 111, (555, 445), 55),
            (trim(Some(100), None), 54, (555, 445), 0),
            (trim(Some(100), Some(220)), 250, (250, 0), 200),
            (trim(Some(100), Some(100)), 950, (1000, 0), 100),
            (trim(Some(1), Some(100)), 101, (102, 0), 100),
            (trim(Some(100), Some(1)), 3, (3, 0), 0),
        ] {
            assert_eq!(trim.rounded(most, nodes), goes, "{most} of {nodes:?}");
        }
    }
}
