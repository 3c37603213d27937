//! get, set, incr, delete, touch and their like.

use super::items::{self, Counted, Counting, Mode, Stored, Storing};
use super::parse::{MAX_KEY_BYTES, Words, expiry, length as length_of, signed, unsigned};
use super::session::{Block, Request, Session, Taken, failed};
use crate::data::Header;

const BAD_LINE: &[u8] = b"CLIENT_ERROR bad command line format\r\n";
const BAD_TIME: &[u8] = b"CLIENT_ERROR invalid exptime argument\r\n";

/// A reply that `noreply` at the end of the line suppresses. Mistakes are told nevertheless.
fn answer(quiet: bool, reply: &[u8], out: &mut Vec<u8>) {
    if !quiet {
        out.extend_from_slice(reply);
    }
}

fn is_quiet(word: Option<&[u8]>) -> bool {
    word == Some(b"noreply")
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
        let Some(time) = signed(time) else { return request.reply(BAD_TIME, out) };
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
    let (data, counters) = (&session.shared.data, &session.shared.counters);
    let row = items::row_of(key);
    let found = match touched {
        Some(expires_ms) => items::change(data, &row, now_ms, |header, body| {
            header.expires_ms = expires_ms;
            show_item(key, header, body, with_cas, out);
            Ok(())
        }),
        None => items::show(data, &row, now_ms, |header, body| {
            show_item(key, header, body, with_cas, out)
        }),
    };
    let hits = u64::from(found?.is_some());
    counters.gets.add(1);
    counters.get_hits.add(hits);
    if touched.is_some() {
        counters.touch_hits.add(hits);
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
    mut request: Request<'i>,
    out: &mut Vec<u8>,
) -> Taken {
    let words = [(); 4].map(|()| request.words.next());
    let [Some(key), Some(flags), Some(time), Some(length)] = words else {
        return request.reply(b"ERROR\r\n", out);
    };
    let compare = (command == b"cas").then(|| request.words.next());
    if compare == Some(None) {
        return request.reply(b"ERROR\r\n", out);
    }
    let quiet = is_quiet(request.words.next());
    let numbers = (unsigned(flags).and_then(|f| u32::try_from(f).ok()), signed(time));
    let compare = compare.flatten().map(unsigned);
    let (Some(flags), Some(time), Some(length)) = (numbers.0, numbers.1, length_of(length)) else {
        return request.reply(BAD_LINE, out);
    };
    if key.len() > MAX_KEY_BYTES || compare == Some(None) {
        return request.reply(BAD_LINE, out);
    }
    let row = items::row_of(key);
    let (body, taken) = match session.block(&request, length, out) {
        Block::Body(body, taken) => (body, taken),
        Block::Refused(taken) => {
            if session.skip > 0 {
                forget_refused(session, command, &row, request.now_ms);
            }
            return taken;
        }
    };
    let storing = Storing {
        flags,
        expires_ms: expiry(time, request.now_ms),
        compare: compare.flatten(),
        ..Storing::new(mode_of(command), body)
    };
    match session.store(&row, request.now_ms, &storing) {
        Ok(stored) => answer(quiet, reply_of(stored), out),
        Err(error) => failed(&error, out),
    }
    taken
}

/// A value that was too long for `set` must not leave the old one to be read as if it were new.
fn forget_refused(session: &Session, command: &[u8], row: &[u8], now_ms: u64) {
    if command == b"set" {
        // The client is told of a failure already.
        let _ = items::delete(&session.shared.data, row, now_ms, None);
    }
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
    mut request: Request<'i>,
    out: &mut Vec<u8>,
) -> Taken {
    let (Some(key), Some(delta)) = (request.words.next(), request.words.next()) else {
        return request.reply(b"ERROR\r\n", out);
    };
    let quiet = is_quiet(request.words.next());
    if key.len() > MAX_KEY_BYTES {
        return request.reply(BAD_LINE, out);
    }
    let Some(delta) = unsigned(delta) else {
        return request.reply(b"CLIENT_ERROR invalid numeric delta argument\r\n", out);
    };
    let counting = Counting { up, delta, compare: None, cas: None, expires_ms: None, vivify: None };
    let counted =
        items::count(&session.shared.data, &items::row_of(key), request.now_ms, &counting);
    session.shared.counters.counted(up, matches!(counted, Ok(Counted::Done(..))));
    match counted {
        Ok(Counted::Done(_, number) | Counted::Made(_, number)) => {
            answer(quiet, format!("{number}\r\n").as_bytes(), out)
        }
        Ok(Counted::NotFound) => answer(quiet, b"NOT_FOUND\r\n", out),
        Ok(Counted::Exists) => answer(quiet, b"EXISTS\r\n", out),
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
    let quiet = match [(); 3].map(|()| request.words.next()) {
        [None, ..] | [Some(b"0"), None, _] => false,
        [Some(b"noreply"), None, _] | [Some(b"0"), Some(b"noreply"), None] => true,
        [_, _, Some(_)] => return request.reply(b"ERROR\r\n", out),
        [_, Some(b"noreply"), _] => return request.done(), // What is wrong is not told either.
        _ => return request.reply(USAGE, out),
    };
    if key.len() > MAX_KEY_BYTES {
        return request.reply(BAD_LINE, out);
    }
    let counters = &session.shared.counters;
    match items::delete(&session.shared.data, &items::row_of(key), request.now_ms, None) {
        Ok(Stored::Done(_)) => {
            counters.delete_hits.add(1);
            answer(quiet, b"DELETED\r\n", out);
        }
        Ok(_) => {
            counters.delete_misses.add(1);
            answer(quiet, b"NOT_FOUND\r\n", out);
        }
        Err(error) => failed(&error, out),
    }
    request.done()
}

/// touch.
pub fn touch<'i>(session: &mut Session, mut request: Request<'i>, out: &mut Vec<u8>) -> Taken {
    let (Some(key), Some(time)) = (request.words.next(), request.words.next()) else {
        return request.reply(b"ERROR\r\n", out);
    };
    let quiet = is_quiet(request.words.next());
    if key.len() > MAX_KEY_BYTES {
        return request.reply(BAD_LINE, out);
    }
    let Some(time) = signed(time) else { return request.reply(BAD_TIME, out) };
    let expires_ms = expiry(time, request.now_ms);
    let row = items::row_of(key);
    let touched = items::change(&session.shared.data, &row, request.now_ms, |header, _| {
        header.expires_ms = expires_ms;
        Ok(())
    });
    let counters = &session.shared.counters;
    match touched {
        Ok(Some(())) => {
            counters.touch_hits.add(1);
            answer(quiet, b"TOUCHED\r\n", out);
        }
        Ok(None) => {
            counters.touch_misses.add(1);
            answer(quiet, b"NOT_FOUND\r\n", out);
        }
        Err(error) => failed(&error, out),
    }
    request.done()
}
