//! Commands about strings.

use super::call::Call;
use super::failure::{
    Failure, NO_SUM, NOT_FLOAT, NOT_INTEGER, Outcome, SYNTAX, WRONG_TYPE, check_length,
};
use super::long::{More, show_string};
use crate::data::{HEADER_BYTES, Header, Kind, Source};
use crate::resp::argument::{is, slice};
use crate::resp::long_double::LongDouble;
use crate::resp::number::integer;

const INVALID_EXPIRE: &str = "ERR invalid expire time in";

/// When something expires, by an option and its number.
///
/// # Errors
/// The sentence that Redis says.
pub fn expiry_of(option: &[u8], number: i64, now_ms: u64, command: &str) -> Outcome<u64> {
    let unit = if is(option, "EX") || is(option, "EXAT") { 1000 } else { 1 };
    let relative = is(option, "EX") || is(option, "PX");
    let base = if relative { now_ms as i64 } else { 0 };
    let at = number.checked_mul(unit).and_then(|ms| ms.checked_add(base));
    match at {
        Some(at) if number > 0 => Ok(at as u64),
        _ => Err(Failure::Text(format!("{INVALID_EXPIRE} '{command}' command"))),
    }
}

fn is_expiry(option: &[u8]) -> bool {
    ["EX", "PX", "EXAT", "PXAT"].iter().any(|name| is(option, name))
}

/// GET.
pub fn get(call: &mut Call<'_, '_, '_>) -> Outcome {
    let row = call.row(1)?;
    let live = call.live();
    let reply = &mut call.reply;
    let found = call.work.show(&row, |value| {
        let header = Header::read(value).filter(|header| live.shows(header))?;
        let string = header.kind == Kind::String;
        if string {
            reply.bulk(&value[HEADER_BYTES..]);
        }
        Some(string)
    })?;
    match found.flatten() {
        Some(true) => {}
        Some(false) => return Err(WRONG_TYPE.into()),
        None => call.reply.null(),
    }
    call.work.looked_up(found.flatten().is_some());
    Ok(())
}

/// MGET: what is not a string is not there.
pub fn mget(call: &mut Call<'_, '_, '_>) -> Outcome {
    call.rest(1).iter().try_for_each(|key| check_length(key))?;
    call.reply.array(call.args.len() - 1);
    let live = call.live();
    for (at, key) in call.args.iter().enumerate().skip(1) {
        if call.is_full() {
            call.more = Some(More::Strings(at));
            break;
        }
        let row = call.row_of(key)?;
        show_string(Source::Work(call.work), &row, live, &mut call.reply)?;
    }
    Ok(())
}

/// The options of SET and GETEX.
#[derive(Default)]
struct Options<'a> {
    absent: bool,
    present: bool,
    get: bool,
    keep: bool,
    persist: bool,
    /// How the number is meant, and the number.
    expiry: Option<(&'a [u8], &'a [u8])>,
}

impl<'a> Options<'a> {
    fn of(args: &[&'a [u8]], sets: bool) -> Outcome<Self> {
        let mut options = Self::default();
        let mut args = args.iter();
        while let Some(option) = args.next() {
            let expires = options.expiry.is_some();
            match option {
                o if sets && is(o, "NX") && !options.present => options.absent = true,
                o if sets && is(o, "XX") && !options.absent => options.present = true,
                o if sets && is(o, "GET") => options.get = true,
                o if sets && is(o, "KEEPTTL") && !expires => options.keep = true,
                o if !sets && is(o, "PERSIST") && !expires => options.persist = true,
                o if is_expiry(o)
                    && !(options.keep || options.persist)
                    && options.expiry.is_none_or(|(unit, _)| unit.eq_ignore_ascii_case(o)) =>
                {
                    options.expiry = Some((o, args.next().ok_or(Failure::Said(SYNTAX))?));
                }
                _ => return Err(SYNTAX.into()),
            }
        }
        Ok(options)
    }

    fn expires_ms(&self, now_ms: u64, command: &str) -> Outcome<Option<u64>> {
        let Some((unit, number)) = self.expiry else { return Ok(None) };
        let number = integer(number).ok_or(Failure::Said(NOT_INTEGER))?;
        expiry_of(unit, number, now_ms, command).map(Some)
    }
}

/// SET with all its options.
pub fn set(call: &mut Call<'_, '_, '_>) -> Outcome {
    let (row, body) = (call.row(1)?, call.args[2]);
    let options = Options::of(call.rest(3), true)?;
    let expires_ms = options.expires_ms(call.work.now_ms, "set")?;
    let Options { absent, present, get, keep, .. } = options;
    let asks = absent || present || keep;
    let there = if asks { call.work.header(&row)? } else { None };
    let old = if get { call.string(&row)? } else { None };
    let done = !(absent && there.is_some() || present && there.is_none());
    if done {
        let kept = there.and_then(|(header, _)| header.expires_ms).filter(|_| keep);
        call.put_string(&row, body, expires_ms.or(kept))?;
    }
    match (get, done) {
        (true, _) => call.reply.maybe(old.map(|(_, body)| body)),
        (false, true) => call.reply.ok(),
        (false, false) => call.reply.null(),
    }
    Ok(())
}

/// SETNX.
pub fn setnx(call: &mut Call<'_, '_, '_>) -> Outcome {
    let row = call.row(1)?;
    let done = call.work.header(&row)?.is_none();
    if done {
        call.put_string(&row, call.args[2], None)?;
    }
    call.reply.flag(done);
    Ok(())
}

fn set_for(call: &mut Call<'_, '_, '_>, option: &[u8], command: &str) -> Outcome {
    let row = call.row(1)?;
    let at = expiry_of(option, call.integer(2)?, call.work.now_ms, command)?;
    call.put_string(&row, call.args[3], Some(at))?;
    call.reply.ok();
    Ok(())
}

/// SETEX.
pub fn setex(call: &mut Call<'_, '_, '_>) -> Outcome {
    set_for(call, b"EX", "setex")
}

/// PSETEX.
pub fn psetex(call: &mut Call<'_, '_, '_>) -> Outcome {
    set_for(call, b"PX", "psetex")
}

/// GETSET.
pub fn getset(call: &mut Call<'_, '_, '_>) -> Outcome {
    let row = call.row(1)?;
    let old = call.string(&row)?;
    call.put_string(&row, call.args[2], None)?;
    call.reply.maybe(old.map(|(_, body)| body));
    Ok(())
}

/// GETDEL.
pub fn getdel(call: &mut Call<'_, '_, '_>) -> Outcome {
    let row = call.row(1)?;
    let old = call.string(&row)?;
    if old.is_some() {
        call.work.remove_key(&row)?;
    }
    call.reply.maybe(old.map(|(_, body)| body));
    Ok(())
}

/// GETEX.
pub fn getex(call: &mut Call<'_, '_, '_>) -> Outcome {
    let row = call.row(1)?;
    let options = Options::of(call.rest(2), false)?;
    let found = call.string(&row)?;
    if let Some((header, body)) = &found {
        let expires_ms = options.expires_ms(call.work.now_ms, "getex")?;
        if expires_ms.is_some_and(|expires_ms| expires_ms <= call.work.now_ms) {
            call.work.remove_key(&row)?;
        } else if expires_ms.is_some() || options.persist && header.expires_ms.is_some() {
            call.work.put(row, Header { expires_ms, ..*header }.with(body));
        }
    }
    call.reply.maybe(found.map(|(_, body)| body));
    Ok(())
}

fn set_all(call: &mut Call<'_, '_, '_>) -> Outcome {
    for pair in call.rest(1).chunks(2) {
        let row = call.row_of(pair[0])?;
        call.put_string(&row, pair[1], None)?;
    }
    Ok(())
}

fn check_pairs(call: &Call<'_, '_, '_>, command: &str) -> Outcome {
    if call.args.len().is_multiple_of(2) {
        return Err(Failure::Text(format!(
            "ERR wrong number of arguments for '{command}' command"
        )));
    }
    let longest = call.rest(1).iter().map(|arg| arg.len()).max().unwrap_or(0);
    call.check_value(longest)?;
    call.rest(1).iter().step_by(2).try_for_each(|key| check_length(key))
}

/// MSET.
pub fn mset(call: &mut Call<'_, '_, '_>) -> Outcome {
    check_pairs(call, "mset")?;
    set_all(call)?;
    call.reply.ok();
    Ok(())
}

/// MSETNX.
pub fn msetnx(call: &mut Call<'_, '_, '_>) -> Outcome {
    check_pairs(call, "msetnx")?;
    for key in call.rest(1).iter().step_by(2) {
        if call.work.header(&call.row_of(key)?)?.is_some() {
            call.reply.integer(0);
            return Ok(());
        }
    }
    set_all(call)?;
    call.reply.integer(1);
    Ok(())
}

/// Changes a string's bytes and keeps when it expires; the new length is the reply.
pub fn rewrite(
    call: &mut Call<'_, '_, '_>,
    row: Vec<u8>,
    old: Option<Header>,
    body: &[u8],
) -> Outcome {
    call.check_value(body.len())?;
    let sequence = call.work.data.next_number()?;
    let flags = old.map_or(0, |old| old.flags);
    let expires_ms = old.and_then(|old| old.expires_ms);
    let header = Header { flags, expires_ms, ..Header::new(Kind::String, sequence) };
    Ok(call.work.put_string(&row, &header, body)?)
}

/// APPEND.
pub fn append(call: &mut Call<'_, '_, '_>) -> Outcome {
    let row = call.row(1)?;
    let (old, mut body) = call.string(&row)?.map_or((None, Vec::new()), |(h, b)| (Some(h), b));
    body.extend_from_slice(call.args[2]);
    rewrite(call, row, old, &body)?;
    call.reply.count(body.len());
    Ok(())
}

/// STRLEN.
pub fn strlen(call: &mut Call<'_, '_, '_>) -> Outcome {
    let row = call.row(1)?;
    let length = call.string(&row)?.map_or(0, |(_, body)| body.len());
    call.reply.count(length);
    Ok(())
}

/// The part of a string of `length` that two positions, which may count from its end, stand for. An
/// end in front of the string means its first byte, unless both are given from the end.
pub fn byte_range(from: i64, to: i64, length: u64) -> std::ops::Range<u64> {
    if from < 0 && to < 0 && from > to {
        return 0..0;
    }
    let before = to.saturating_add(i64::try_from(length).unwrap_or(i64::MAX)) < 0;
    slice(from, if before { 0 } else { to }, length)
}

/// GETRANGE, SUBSTR.
pub fn getrange(call: &mut Call<'_, '_, '_>) -> Outcome {
    let (row, from, to) = (call.row(1)?, call.integer(2)?, call.integer(3)?);
    let body = call.string(&row)?.map_or(Vec::new(), |(_, body)| body);
    let range = byte_range(from, to, body.len() as u64);
    call.reply.bulk(&body[range.start as usize..range.end as usize]);
    Ok(())
}

/// SETRANGE.
pub fn setrange(call: &mut Call<'_, '_, '_>) -> Outcome {
    let (row, part) = (call.row(1)?, call.args[3]);
    let from = usize::try_from(call.integer(2)?)
        .map_err(|_| Failure::Said("ERR offset is out of range"))?;
    let (old, mut body) = call.string(&row)?.map_or((None, Vec::new()), |(h, b)| (Some(h), b));
    if !part.is_empty() {
        let end = from.saturating_add(part.len());
        call.check_value(end)?;
        body.resize(body.len().max(end), 0);
        body[from..end].copy_from_slice(part);
        rewrite(call, row, old, &body)?;
    }
    call.reply.count(body.len());
    Ok(())
}

fn count(call: &mut Call<'_, '_, '_>, by: i64) -> Outcome {
    let row = call.row(1)?;
    let (old, body) = call.string(&row)?.map_or((None, b"0".to_vec()), |(h, b)| (Some(h), b));
    let number = integer(&body).ok_or(Failure::Said(NOT_INTEGER))?;
    let number =
        number.checked_add(by).ok_or(Failure::Said("ERR increment or decrement would overflow"))?;
    rewrite(call, row, old, number.to_string().as_bytes())?;
    call.reply.integer(number);
    Ok(())
}

/// INCR.
pub fn incr(call: &mut Call<'_, '_, '_>) -> Outcome {
    count(call, 1)
}

/// DECR.
pub fn decr(call: &mut Call<'_, '_, '_>) -> Outcome {
    count(call, -1)
}

/// INCRBY.
pub fn incrby(call: &mut Call<'_, '_, '_>) -> Outcome {
    let by = call.integer(2)?;
    count(call, by)
}

/// DECRBY.
pub fn decrby(call: &mut Call<'_, '_, '_>) -> Outcome {
    let by = call.integer(2)?.checked_neg();
    count(call, by.ok_or(Failure::Said("ERR decrement would overflow"))?)
}

/// INCRBYFLOAT.
pub fn incrbyfloat(call: &mut Call<'_, '_, '_>) -> Outcome {
    let row = call.row(1)?;
    let (old, body) = call.string(&row)?.map_or((None, b"0".to_vec()), |(h, b)| (Some(h), b));
    let read = |word: &[u8]| LongDouble::read(word).ok_or(Failure::Said(NOT_FLOAT));
    let sum = read(&body)?.plus(read(call.args[2])?).ok_or(Failure::Said(NO_SUM))?;
    let text = sum.show();
    rewrite(call, row, old, text.as_bytes())?;
    call.reply.bulk(text);
    Ok(())
}
