//! Commands that are about the server: stats, flush_all, version and the like.

use std::io::Write;

use tracing::warn;

use super::parse::{expiry, seconds, unsigned};
use super::session::{Request, Session, Taken, failed};
use super::{VERSION, items, meta, stats};
use crate::data::{HEADER_BYTES, Header, Kind, Work};
use crate::protocol::is_http;
use crate::shared::Used;

const OK: &[u8] = b"OK\r\n";
const BAD_LINE: &[u8] = b"CLIENT_ERROR bad command line format\r\n";
/// Keys that are looked at for one part of a dump.
const DUMPED: usize = 1024;
/// Keys that `stats cachedump` tells, at most: about as many as memcached does.
const LISTED: u64 = 16_384;
/// Numbers of classes that memcached may have.
const CLASSES: u64 = 64;

/// Answers a request that is about no key.
pub fn serve<'i>(
    session: &mut Session,
    command: &[u8],
    request: Request<'i>,
    out: &mut Vec<u8>,
) -> Taken {
    match command {
        b"version" => {
            out.extend_from_slice(format!("VERSION {VERSION}\r\n").as_bytes());
            request.done()
        }
        b"verbosity" => verbosity(request, out),
        b"flush_all" => flush_all(session, request, out),
        b"stats" => tell_stats(session, request, out),
        b"cache_memlimit" => memory_limit(session, request, out),
        b"lru_crawler" => crawler(session, request, out),
        b"lru" => request.reply(b"ERROR there are no LRU queues\r\n", out),
        b"slabs" => slabs(request, out),
        b"watch" => request.reply(b"ERROR watch commands not allowed\r\n", out),
        b"shutdown" => request.reply(b"ERROR: shutdown not enabled\r\n", out),
        _ if is_http(command, request.words.last().unwrap_or(command)) => {
            warn!("closed a connection: a request of HTTP");
            Taken::Close
        }
        _ => request.reply(b"ERROR\r\n", out),
    }
}

/// Logs have no levels that could be chosen here, so any number will do.
fn verbosity(mut request: Request<'_>, out: &mut Vec<u8>) -> Taken {
    let words = [(); 3].map(|()| request.words.next());
    match words {
        [None, ..] | [_, _, Some(_)] => request.reply(b"ERROR\r\n", out),
        [Some(level), ..] if unsigned(level).is_some() => request.reply(OK, out),
        _ => request.reply(BAD_LINE, out),
    }
}

fn flush_all<'i>(session: &mut Session, mut request: Request<'i>, out: &mut Vec<u8>) -> Taken {
    let due_ms = match request.words.next() {
        None | Some(b"noreply") => None,
        Some(delay) => match seconds(delay) {
            None => return request.reply(b"CLIENT_ERROR invalid exptime argument\r\n", out),
            Some(..=0) => None,
            Some(delay) => expiry(delay, request.now_ms),
        },
    };
    session.shared.counters.flushes.add(1);
    match session.shared.data.flush_all(due_ms) {
        Ok(()) => request.reply(OK, out),
        Err(error) => {
            failed(&error, out);
            request.done()
        }
    }
}

/// The room is the pool's, which `everleaf create --max-size` limits; where keys are evicted, they
/// are beyond this limit.
fn memory_limit<'i>(session: &Session, mut request: Request<'i>, out: &mut Vec<u8>) -> Taken {
    let data = &session.shared.data;
    let reply: &[u8] = match (request.words.next().map(unsigned), data.evicts_beyond()) {
        (None | Some(None), _) => b"ERROR\r\n",
        (Some(Some(..8)), _) => b"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n",
        (Some(Some(mebibytes)), Some(_)) => {
            data.evict_beyond(mebibytes.saturating_mul(1 << 20));
            b"OK\r\n"
        }
        _ => b"MEMLIMIT_ADJUST_FAILED the limit is the pool's, which create --max-size sets\r\n",
    };
    request.reply(reply, out)
}

fn slabs<'i>(mut request: Request<'i>, out: &mut Vec<u8>) -> Taken {
    match request.words.next() {
        Some(b"reassign") => request.reply(b"CLIENT_ERROR slab reassignment disabled\r\n", out),
        Some(b"automove") => match request.words.next() {
            None => request.reply(b"ERROR\r\n", out),
            Some(how) if unsigned(how).is_none() => request.reply(BAD_LINE, out),
            Some(_) => request.reply(b"CLIENT_ERROR slab reassignment disabled\r\n", out),
        },
        _ => request.reply(b"ERROR\r\n", out),
    }
}

// ---- dumps
// -------------------------------------------------------------------------------------------------

fn crawler<'i>(session: &mut Session, mut request: Request<'i>, out: &mut Vec<u8>) -> Taken {
    let (action, what) = (request.words.next(), request.words.next());
    match (action, what) {
        (Some(b"metadump"), Some(b"all" | b"hash" | b"1")) => dump(session, &request, out),
        (Some(b"metadump"), Some(_)) => request.reply(b"BADCLASS invalid class id\r\n", out),
        (Some(b"crawl"), Some(_))
        | (Some(b"enable" | b"disable"), None)
        | (Some(b"sleep" | b"tocrawl"), Some(_)) => request.reply(OK, out),
        _ => request.reply(b"ERROR\r\n", out),
    }
}

/// A line for each item, some at a time: `resume` counts the parts that were sent, and the last key
/// of each part is remembered.
fn dump(session: &mut Session, request: &Request<'_>, out: &mut Vec<u8>) -> Taken {
    let after = (session.resume > 0).then(|| std::mem::take(&mut session.dumped));
    let keys = Work::new(&session.shared.data, request.now_ms).keys_after(
        items::DATABASE,
        after.as_deref(),
        (DUMPED, usize::MAX),
    );
    let listed = match keys {
        Ok(listed) => listed,
        Err(error) => {
            session.resume = 0;
            failed(&error, out);
            return request.done();
        }
    };
    for one in &listed.keys {
        let used = session.shared.uses.of(&items::row_of(&one.key));
        dump_line(&one.key, &one.header, one.bytes, used, out);
    }
    match listed.next {
        Some(next) => {
            session.dumped = next;
            session.resume += 1;
            Taken::Unfinished
        }
        None => {
            session.resume = 0;
            request.reply(b"END\r\n", out)
        }
    }
}

fn dump_line(key: &[u8], header: &Header, bytes: u64, used: Used, out: &mut Vec<u8>) {
    out.extend_from_slice(b"key=");
    for byte in key {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(*byte),
            // Writing to a vector does not fail.
            _ => drop(write!(out, "%{byte:02X}")),
        }
    }
    let exp = header.expires_ms.map_or(-1, |ms| (ms / 1000) as i64);
    let (la, cas, fetch) = (used.second, header.cas, meta::fetch(used));
    let _ = write!(out, " exp={exp} la={la} cas={cas} fetch={fetch} cls=1 size={bytes}\r\n");
}

// ---- stats
// -------------------------------------------------------------------------------------------------

fn tell_stats<'i>(session: &mut Session, mut request: Request<'i>, out: &mut Vec<u8>) -> Taken {
    let shared = &session.shared;
    let what = request.words.next();
    let counts = matches!(what, None | Some(b"items" | b"slabs"));
    if counts && !shared.data.count_some().unwrap_or(true) {
        return Taken::Unfinished;
    }
    let lines = match what {
        None => stats::lines(shared),
        Some(b"items") => stats::items(shared),
        Some(b"slabs") => stats::slabs(shared),
        Some(b"settings") => stats::settings(shared),
        Some(b"sizes" | b"sizes_disable") => Ok(vec![("sizes_status", "disabled".to_owned())]),
        Some(b"sizes_enable") => Ok(vec![
            ("sizes_status", "error".to_owned()),
            ("sizes_error", "items are not counted by their size".to_owned()),
        ]),
        Some(b"extstore") => Ok(Vec::new()),
        Some(b"conns") => return connections(session, request, out),
        Some(b"detail") => return detail(session, request, out),
        Some(b"cachedump") => return cachedump(session, request, out),
        Some(b"reset") => {
            shared.counters.reset();
            shared.data.reset_counters();
            shared.prefixes.reset();
            return request.reply(b"RESET\r\n", out);
        }
        Some(_) => return request.reply(b"ERROR\r\n", out),
    };
    match lines {
        Ok(lines) => {
            for (name, value) in lines {
                // Writing to a vector does not fail.
                let _ = write!(out, "STAT {name} {value}\r\n");
            }
            request.reply(b"END\r\n", out)
        }
        Err(error) => {
            failed(&error, out);
            request.done()
        }
    }
}

fn connections<'i>(session: &Session, request: Request<'i>, out: &mut Vec<u8>) -> Taken {
    let mut lines = String::new();
    session.shared.connections.tell(session.connected.as_ref(), &mut lines);
    out.extend_from_slice(lines.as_bytes());
    request.reply(b"END\r\n", out)
}

fn detail<'i>(session: &Session, mut request: Request<'i>, out: &mut Vec<u8>) -> Taken {
    let prefixes = &session.shared.prefixes;
    match request.words.next() {
        Some(b"dump") => {
            prefixes.tell(out);
            request.reply(b"END\r\n", out)
        }
        Some(how @ (b"on" | b"off")) => {
            prefixes.turn(how == b"on");
            request.reply(OK, out)
        }
        _ => request.reply(b"CLIENT_ERROR usage: stats detail on|off|dump\r\n", out),
    }
}

/// Some items: all are of class 1.
fn cachedump<'i>(session: &Session, mut request: Request<'i>, out: &mut Vec<u8>) -> Taken {
    let (Some(class), Some(limit)) = (request.words.next(), request.words.next()) else {
        return request.reply(b"CLIENT_ERROR bad command line\r\n", out);
    };
    let (Some(class), Some(limit)) = (unsigned(class), unsigned(limit)) else {
        return request.reply(BAD_LINE, out);
    };
    if class >= CLASSES {
        return request.reply(b"CLIENT_ERROR Illegal slab id\r\n", out);
    }
    let limit = if limit == 0 { LISTED } else { limit.min(LISTED) };
    let work = Work::new(&session.shared.data, request.now_ms);
    let keys = match class {
        1 => work.keys_after(items::DATABASE, None, (limit as usize, usize::MAX)),
        _ => return request.reply(b"END\r\n", out),
    };
    match keys {
        Ok(listed) => {
            for one in listed.keys.iter().filter(|one| one.header.kind == Kind::String) {
                out.extend_from_slice(b"ITEM ");
                out.extend_from_slice(&one.key);
                let bytes = one.bytes - HEADER_BYTES as u64;
                let expires = one.header.expires_ms.unwrap_or(0) / 1000;
                // Writing to a vector does not fail.
                let _ = write!(out, " [{bytes} b; {expires} s]\r\n");
            }
            request.reply(b"END\r\n", out)
        }
        Err(error) => {
            failed(&error, out);
            request.done()
        }
    }
}
