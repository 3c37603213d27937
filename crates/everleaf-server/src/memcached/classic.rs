//! get, set, incr, delete, touch and their like.

use super::items::{self, Counted, Counting, Mode, Stored, Storing};
use super::parse::{MAX_KEY_BYTES, Words, expiry, length as length_of, seconds, unsigned};
use super::session::{Block, Request, Session, Taken, failed};
use crate::data::Header;
use crate::shared::Shared;
use crate::shared::prefixes::Use;

const BAD_LINE: &[u8] = b"CLIENT_ERROR bad command line format\r\n";
const BAD_TIME: &[u8] = b"CLIENT_ERROR invalid exptime argument\r\n";

/// The words that a request needs, behind which one more may stand: `noreply`.
fn needed<const N: usize>(mut words: Words<'_>) -> Option<[&[u8]; N]> {
    let mut needed = [&b""[..]; N];
    for word in &mut needed {
        *word = words.next()?;
    }
    words.nth(1).is_none().then_some(needed)
}

// ---- retrieval
// -------------------------------------------------------------------------------------------------

/// get, gets, gat, gats.
pub fn retrieve<'i>(
    session: &mut Session,
    command: &[u8],
    mut request: Request<'i>,
    out: &mut Vec<u8>,
) -> Taken {
    let with_cas = command.ends_with(b"s");
    let mut touched = None;
    if command.starts_with(b"gat") {
        let Some(time) = request.words.next() else { return request.reply(b"ERROR\r\n", out) };
        let Some(time) = seconds(time) else { return request.reply(BAD_TIME, out) };
        touched = Some(expiry(time, request.now_ms));
    }
    let all = request.words.rest();
    // gat and gats without a key find nothing, as memcached has it.
    if request.words.next().is_none() && touched.is_none() {
        return request.reply(b"ERROR\r\n", out);
    }
    if session.resume == 0 && Words::of(all).any(|key| key.len() > MAX_KEY_BYTES) {
        return request.reply(BAD_LINE, out);
    }
    let mut words = Words::of(&all[session.resume.min(all.len())..]);
    session.resume = 0;
    let limit = session.shared.options.limits.reply_bytes;
    while let Some(key) = words.next() {
        let before = out.len();
        if let Err(error) = retrieve_one(session, key, touched, with_cas, request.now_ms, out) {
            out.truncate(before);
            failed(&error, out);
            return request.done();
        }
        if out.len() >= limit && !words.rest().is_empty() {
            session.resume = all.len() - words.rest().len();
            return Taken::Unfinished;
        }
    }
    request.reply(b"END\r\n", out)
}

fn retrieve_one(
    session: &Session,
    key: &[u8],
    touched: Option<Option<u64>>,
    with_cas: bool,
    now_ms: u64,
    out: &mut Vec<u8>,
) -> Result<(), everleaf::Error> {
    let Shared { data, counters, uses, prefixes, .. } = &*session.shared;
    let row = items::row_of(key);
    let found = match touched {
        Some(expires_ms) => items::change(data, &row, now_ms, |header, body| {
            header.expires_ms = expires_ms;
            show_item(key, header, body, with_cas, out);
            Ok(())
        }),
        None => items::show((data, counters), &row, now_ms, |header, body| {
            show_item(key, header, body, with_cas, out)
        }),
    };
    let found = found?.is_some();
    prefixes.add(key, Use::Get(found));
    counters.gets.add(1);
    if found {
        uses.fetched(&row, now_ms);
        counters.get_hits.add(1);
        counters.touch_hits.add(u64::from(touched.is_some()));
    } else if touched.is_some() {
        items::show((data, counters), &row, now_ms, |_, _| ())?; // Counts what is there no more.
    }
    Ok(())
}

fn show_item(key: &[u8], header: &Header, body: &[u8], with_cas: bool, out: &mut Vec<u8>) {
    use std::io::Write;
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(key);
    // Writing to a vector does not fail.
    let _ = write!(out, " {} {}", header.flags, body.len());
    if with_cas {
        let _ = write!(out, " {}", header.cas);
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body);
    out.extend_from_slice(b"\r\n");
}

// ---- storage
// -------------------------------------------------------------------------------------------------

/// set, add, replace, append, prepend, cas.
pub fn store<'i>(
    session: &mut Session,
    command: &[u8],
    request: Request<'i>,
    out: &mut Vec<u8>,
) -> Taken {
    let words = match command {
        b"cas" => needed(request.words),
        _ => {
            needed(request.words).map(|[key, flags, time, length]| [key, flags, time, length, b"0"])
        }
    };
    let Some([key, flags, time, length, compare]) = words else {
        return request.reply(b"ERROR\r\n", out);
    };
    let numbers = (unsigned(flags).and_then(|f| u32::try_from(f).ok()), seconds(time));
    let length = length_of(length);
    let compare = unsigned(compare);
    let (Some(flags), Some(time), Some(length), Some(compare), ..=MAX_KEY_BYTES) =
        (numbers.0, numbers.1, length, compare, key.len())
    else {
        if let (true, Some(length)) = (request.quiet, length) {
            session.skip = length + 2; // The value is no request, which would be answered.
        }
        return request.reply(BAD_LINE, out);
    };
    let row = items::row_of(key);
    session.shared.prefixes.add(key, Use::Set);
    let (body, taken) = match session.block(&request, length, out) {
        Block::Body(body, taken) => (body, taken),
        Block::Refused(taken) => {
            if session.skip > 0 && command == b"set" {
                items::forget_refused(&session.shared.data, key, request.now_ms);
            }
            return taken;
        }
    };
    let storing = Storing {
        flags,
        expires_ms: expiry(time, request.now_ms),
        compare: (command == b"cas").then_some(compare),
        ..Storing::new(mode_of(command), body)
    };
    match session.store(&row, request.now_ms, &storing) {
        Ok(stored) => out.extend_from_slice(reply_of(stored)),
        Err(error) => failed(&error, out),
    }
    taken
}

fn mode_of(command: &[u8]) -> Mode {
    match command {
        b"add" => Mode::Add,
        b"replace" => Mode::Replace,
        b"append" => Mode::Append,
        b"prepend" => Mode::Prepend,
        _ => Mode::Set,
    }
}

const fn reply_of(stored: Stored) -> &'static [u8] {
    match stored {
        Stored::Done(_) => b"STORED\r\n",
        Stored::NotStored => b"NOT_STORED\r\n",
        Stored::Exists => b"EXISTS\r\n",
        Stored::NotFound => b"NOT_FOUND\r\n",
        Stored::TooLong => b"SERVER_ERROR object too large for cache\r\n",
    }
}

// ---- what needs no value
// -------------------------------------------------------------------------------------------------

/// incr, decr.
pub fn count<'i>(
    session: &mut Session,
    up: bool,
    request: Request<'i>,
    out: &mut Vec<u8>,
) -> Taken {
    let Some([key, delta]) = needed(request.words) else {
        return request.reply(b"ERROR\r\n", out);
    };
    if key.len() > MAX_KEY_BYTES {
        return request.reply(BAD_LINE, out);
    }
    let Some(delta) = unsigned(delta) else {
        return request.reply(b"CLIENT_ERROR invalid numeric delta argument\r\n", out);
    };
    let counting = Counting { up, delta, compare: None, cas: None, expires_ms: None, vivify: None };
    match session.count(&items::row_of(key), request.now_ms, &counting) {
        Ok(Counted::Done(_, _, number) | Counted::Made(_, number)) => {
            out.extend_from_slice(format!("{number}\r\n").as_bytes())
        }
        Ok(Counted::NotFound) => out.extend_from_slice(b"NOT_FOUND\r\n"),
        Ok(Counted::Exists) => out.extend_from_slice(b"EXISTS\r\n"),
        Ok(Counted::NotNumeric) => out
            .extend_from_slice(b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"),
        Err(error) => failed(&error, out),
    }
    request.done()
}

/// delete.
pub fn delete<'i>(session: &mut Session, mut request: Request<'i>, out: &mut Vec<u8>) -> Taken {
    const USAGE: &[u8] =
        b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n";
    let Some(key) = request.words.next() else { return request.reply(b"ERROR\r\n", out) };
    match [(); 3].map(|()| request.words.next()) {
        [None | Some(b"0" | b"noreply"), None, _] | [Some(b"0"), Some(b"noreply"), None] => {}
        [_, _, Some(_)] => return request.reply(b"ERROR\r\n", out),
        _ => return request.reply(USAGE, out),
    }
    if key.len() > MAX_KEY_BYTES {
        return request.reply(BAD_LINE, out);
    }
    let counters = &session.shared.counters;
    session.shared.prefixes.add(key, Use::Delete);
    match items::delete(&session.shared.data, &items::row_of(key), request.now_ms, None) {
        Ok(Stored::Done(_)) => {
            counters.delete_hits.add(1);
            out.extend_from_slice(b"DELETED\r\n");
        }
        Ok(_) => {
            counters.delete_misses.add(1);
            out.extend_from_slice(b"NOT_FOUND\r\n");
        }
        Err(error) => failed(&error, out),
    }
    request.done()
}

/// touch.
pub fn touch<'i>(session: &mut Session, request: Request<'i>, out: &mut Vec<u8>) -> Taken {
    let Some([key, time]) = needed(request.words) else {
        return request.reply(b"ERROR\r\n", out);
    };
    if key.len() > MAX_KEY_BYTES {
        return request.reply(BAD_LINE, out);
    }
    let Some(time) = seconds(time) else { return request.reply(BAD_TIME, out) };
    let expires_ms = expiry(time, request.now_ms);
    let row = items::row_of(key);
    let touched = items::change(&session.shared.data, &row, request.now_ms, |header, _| {
        header.expires_ms = expires_ms;
        Ok(())
    });
    let counters = &session.shared.counters;
    match touched {
        Ok(Some(())) => {
            session.shared.uses.fetched(&row, request.now_ms);
            counters.touch_hits.add(1);
            out.extend_from_slice(b"TOUCHED\r\n");
        }
        Ok(None) => {
            counters.touch_misses.add(1);
            out.extend_from_slice(b"NOT_FOUND\r\n");
        }
        Err(error) => failed(&error, out),
    }
    request.done()
}
