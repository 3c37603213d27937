//! What memcached's commands do to a key, for the classic and for the meta commands.
//!
//! A collection of Redis is not an item: it is not found by reading, and it is there for `add`.

use everleaf::Error;

use super::parse::unsigned;
use crate::counters::Counters;
use crate::data::{Database, HEADER_BYTES, Header, Kind, Work, key_row};

/// The database that memcached's keys are in.
pub const DATABASE: u8 = 0;

/// How a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Whatever is there.
    Set,
    /// If nothing is there.
    Add,
    /// If something is there.
    Replace,
    /// Behind what is there.
    Append,
    /// In front of what is there.
    Prepend,
}

/// A value that is to be stored.
#[derive(Clone, Copy, Debug)]
pub struct Storing<'i> {
    /// How.
    pub mode: Mode,
    /// The client's flags.
    pub flags: u32,
    /// When it expires, in milliseconds since 1970.
    pub expires_ms: Option<u64>,
    /// The bytes.
    pub body: &'i [u8],
    /// Only if the CAS number is this one.
    pub compare: Option<u64>,
    /// The CAS number that it gets, if a client chose one.
    pub cas: Option<u64>,
    /// A CAS number that is too small makes it stale instead of refusing it, unless it is joined.
    pub invalidate: bool,
    /// Appending to nothing stores it, to expire then.
    pub vivify: Option<Option<u64>>,
}

impl<'i> Storing<'i> {
    /// Without conditions.
    pub const fn new(mode: Mode, body: &'i [u8]) -> Self {
        Self {
            mode,
            flags: 0,
            expires_ms: None,
            body,
            compare: None,
            cas: None,
            invalidate: false,
            vivify: None,
        }
    }
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It was done; the header that is stored.
    Done(Header),
    /// Its mode did not allow it.
    NotStored,
    /// The CAS number is another one.
    Exists,
    /// Nothing is there.
    NotFound,
    /// The value would be too long.
    TooLong,
}

/// What became of counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// It was there: when it would have expired, and the new number.
    Done(Header, Option<u64>, u64),
    /// It was not there and was made; this is its number.
    Made(Header, u64),
    /// Nothing is there.
    NotFound,
    /// What is there is no number.
    NotNumeric,
    /// The CAS number is another one.
    Exists,
}

/// How to count.
#[derive(Clone, Copy, Debug)]
pub struct Counting {
    /// Up, else down: up goes around at 2^64, down ends at 0.
    pub up: bool,
    /// By how much.
    pub delta: u64,
    /// Only if the CAS number is this one.
    pub compare: Option<u64>,
    /// The CAS number that it gets, if a client chose one.
    pub cas: Option<u64>,
    /// When it expires from now on, if that is to change.
    pub expires_ms: Option<Option<u64>>,
    /// If nothing is there: the first number, and when it expires.
    pub vivify: Option<(u64, Option<u64>)>,
}

/// The row of a key.
pub fn row_of(key: &[u8]) -> Vec<u8> {
    key_row(DATABASE, key)
}

/// Shows an item where it lies: its header and its bytes. One that is there no more is counted.
///
/// # Errors
/// Damage.
pub fn show<R>(
    (data, counters): (&Database, &Counters),
    row: &[u8],
    now_ms: u64,
    show: impl FnOnce(&Header, &[u8]) -> R,
) -> Result<Option<R>, Error> {
    let shown = data.show(row, |value| match item(data, value, now_ms) {
        Some((header, body)) => Some(show(&header, body)),
        None => {
            count_gone(data, counters, value, now_ms);
            None
        }
    })?;
    Ok(shown.flatten())
}

/// Counts an item that was asked for and is there no more.
#[cold]
fn count_gone(data: &Database, counters: &Counters, value: &[u8], now_ms: u64) {
    let live = data.live(DATABASE, now_ms);
    match Header::read(value) {
        Some(header) if header.sequence < live.since => counters.get_flushed.add(1),
        Some(header) if !live.shows(&header) => counters.get_expired.add(1),
        _ => {}
    }
}

/// The header and the bytes of an item, if it is there.
pub fn item<'v>(data: &Database, value: &'v [u8], now_ms: u64) -> Option<(Header, &'v [u8])> {
    let header = Header::read(value)?;
    let there = header.kind == Kind::String && data.live(DATABASE, now_ms).shows(&header);
    there.then(|| (header, &value[HEADER_BYTES..]))
}

/// Stores a value.
///
/// # Errors
/// [`Error::is_full`], damage.
pub fn store(
    data: &Database,
    row: &[u8],
    now_ms: u64,
    storing: &Storing<'_>,
    max_bytes: usize,
) -> Result<Stored, Error> {
    let _held = data.lock(row)?;
    let mut work = Work::new(data, now_ms);
    let joins = matches!(storing.mode, Mode::Append | Mode::Prepend);
    // The bytes that are there are needed to join them only, and `set` asks for nothing.
    let asks = storing.mode != Mode::Set || storing.compare.is_some();
    let old = if asks { work.header(row)?.map(|(header, _)| header) } else { None };
    let mut mode = storing.mode;
    let mut expires_ms = storing.expires_ms;
    let (mut stale, mut won) = (false, false);
    if let Some(compare) = storing.compare {
        match old {
            None => return Ok(Stored::NotFound),
            Some(old) if old.cas == compare => {}
            Some(old) if storing.invalidate && compare < old.cas && !joins => {
                // The time stays, and who was told to make it anew still is to.
                (stale, won, expires_ms) = (true, old.won, old.expires_ms);
            }
            Some(_) => return Ok(Stored::Exists),
        }
    }
    if joins
        && old.is_none()
        && let Some(vivified) = storing.vivify
    {
        (mode, expires_ms) = (Mode::Set, vivified);
    }
    let allowed = match mode {
        Mode::Set => true,
        Mode::Add => old.is_none(),
        Mode::Replace => old.is_some(),
        Mode::Append | Mode::Prepend => old.is_some_and(|old| old.kind == Kind::String),
    };
    if !allowed {
        return Ok(Stored::NotStored);
    }
    let sequence = data.next_number()?;
    let mut header = Header::new(Kind::String, sequence);
    (header.flags, header.expires_ms, header.stale) = (storing.flags, expires_ms, stale);
    header.won = won;
    header.cas = storing.cas.unwrap_or(sequence);
    let joined = match (mode, old) {
        (Mode::Append | Mode::Prepend, Some(old)) => {
            let value = work.get(row)?.unwrap_or_default();
            let there = value.get(HEADER_BYTES..).unwrap_or_default();
            if there.len() + storing.body.len() > max_bytes {
                return Ok(Stored::TooLong);
            }
            (header.flags, header.expires_ms) = (old.flags, old.expires_ms);
            Some(match mode {
                Mode::Append => [there, storing.body].concat(),
                _ => [storing.body, there].concat(),
            })
        }
        _ => None,
    };
    work.put_string(row, &header, joined.as_deref().unwrap_or(storing.body))?;
    work.commit()?;
    Ok(Stored::Done(header))
}

/// A value that was too long to be set must not leave the old one to be read as if it were new.
pub fn forget_refused(data: &Database, key: &[u8], now_ms: u64) {
    // The client is told of a failure already.
    let _ = delete(data, &row_of(key), now_ms, None);
}

/// Removes an item.
///
/// # Errors
/// Damage.
pub fn delete(
    data: &Database,
    row: &[u8],
    now_ms: u64,
    compare: Option<u64>,
) -> Result<Stored, Error> {
    let _held = data.lock(row)?;
    let mut work = Work::new(data, now_ms);
    let Some((header, _)) = work.header(row)? else { return Ok(Stored::NotFound) };
    if compare.is_some_and(|compare| compare != header.cas) {
        return Ok(Stored::Exists);
    }
    work.remove_key(row)?;
    work.commit()?;
    Ok(Stored::Done(header))
}

/// Changes the header of an item, and maybe its bytes: none where nothing is there.
///
/// # Errors
/// As a write.
pub fn change<R>(
    data: &Database,
    row: &[u8],
    now_ms: u64,
    change: impl FnOnce(&mut Header, &mut Vec<u8>) -> Result<R, Error>,
) -> Result<Option<R>, Error> {
    let _held = data.lock(row)?;
    let mut work = Work::new(data, now_ms);
    let Some((before, mut value)) = work.value(row)? else { return Ok(None) };
    if before.kind != Kind::String {
        return Ok(None);
    }
    let mut header = before;
    let mut body = value.split_off(HEADER_BYTES);
    let bytes = body.len();
    let result = change(&mut header, &mut body)?;
    if header != before || bytes != body.len() {
        work.put(row.to_vec(), header.with(&body));
        work.commit()?;
    }
    Ok(Some(result))
}

/// Counts.
///
/// # Errors
/// As a write.
pub fn count(
    data: &Database,
    row: &[u8],
    now_ms: u64,
    counting: &Counting,
) -> Result<Counted, Error> {
    let _held = data.lock(row)?;
    let mut work = Work::new(data, now_ms);
    let new_header = |sequence, expires_ms| Header {
        expires_ms,
        cas: counting.cas.unwrap_or(sequence),
        ..Header::new(Kind::String, sequence)
    };
    let Some((old, value)) = work.value(row)? else {
        let Some((first, expires_ms)) = counting.vivify else { return Ok(Counted::NotFound) };
        let header = new_header(data.next_number()?, expires_ms);
        work.put_string(row, &header, first.to_string().as_bytes())?;
        work.commit()?;
        return Ok(Counted::Made(header, first));
    };
    if counting.compare.is_some_and(|compare| compare != old.cas) {
        return Ok(Counted::Exists);
    }
    let number = value.get(HEADER_BYTES..).filter(|_| old.kind == Kind::String).and_then(unsigned);
    let Some(number) = number else { return Ok(Counted::NotNumeric) };
    let number = if counting.up {
        number.wrapping_add(counting.delta)
    } else {
        number.saturating_sub(counting.delta)
    };
    let expires_ms = counting.expires_ms.unwrap_or(old.expires_ms);
    let header = Header { flags: old.flags, ..new_header(data.next_number()?, expires_ms) };
    work.put(row.to_vec(), header.with(number.to_string().as_bytes()));
    work.commit()?;
    Ok(Counted::Done(header, old.expires_ms, number))
}
