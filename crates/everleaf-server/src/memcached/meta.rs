//! The meta commands: mg, ms, md, ma, mn, me.

use std::io::Write;

use everleaf::Error;

use super::flags::{Flags, MetaKey, OPAQUE_TOO_LONG};
use super::items::{self, Counted, Counting, Mode, Stored, Storing};
use super::parse::{MAX_KEY_BYTES, Words, expiry, length};
use super::session::{Block, Request, Session, Taken, failed};
use crate::counters::Counters;
use crate::data::{Database, HEADER_BYTES, Header, Kind, Work};
use crate::shared::Used;

/// A reply that says what is wrong with the request.
type Refused = &'static [u8];

const BAD_LINE: Refused = b"CLIENT_ERROR bad command line format\r\n";
const TOO_MANY_FLAGS: Refused = b"CLIENT_ERROR options flags too long\r\n";

/// Answers a meta command.
pub fn serve<'i>(
    session: &mut Session,
    command: &[u8],
    mut request: Request<'i>,
    out: &mut Vec<u8>,
) -> Taken {
    if command == b"mn" {
        return request.reply(b"MN\r\n", out);
    }
    session.shared.counters.meta_commands.add(1);
    let Some(sent) = request.words.next() else {
        let refused = if command == b"me" { BAD_LINE } else { b"ERROR\r\n" };
        return request.reply(refused, out);
    };
    if sent.len() > MAX_KEY_BYTES {
        return request.reply(BAD_LINE, out);
    }
    if command == b"ms" {
        return set(session, sent, request, out);
    }
    if command == b"me" {
        // Of flags it knows this one only, if it comes first.
        let is_encoded = request.words.next() == Some(b"b");
        request.words = Words::of(if is_encoded { b"b" } else { b"" });
    }
    let start = out.len();
    let answered = read(command, sent, &request).and_then(|(flags, key)| {
        let asked = Asked { session, key, flags, now_ms: request.now_ms, shown: shown(command) };
        match command {
            b"mg" => asked.get(out),
            b"md" => asked.delete(out),
            b"ma" => asked.count(out)?,
            _ => asked.debug(out),
        }
        Ok(())
    });
    if let Err(refused) = answered {
        out.truncate(start);
        out.extend_from_slice(refused);
    }
    request.done()
}

/// The flags whose values a reply of this command repeats. `ms` has `s` of later versions.
const fn shown(command: &[u8]) -> &'static [u8] {
    match command {
        b"mg" => b"cfhklOst",
        b"ma" => b"ckOt",
        b"ms" => b"ckOs",
        _ => b"kO",
    }
}

/// The flags and the key.
fn read<'i>(
    command: &[u8],
    sent: &'i [u8],
    request: &Request<'i>,
) -> Result<(Flags<'i>, MetaKey<'i>), Refused> {
    if Flags::are_too_many(request.words, 2) {
        return Err(match command {
            b"mg" => b"CLIENT_ERROR options flags are too long\r\n",
            _ => TOO_MANY_FLAGS,
        });
    }
    let read = Flags::read(request.words).and_then(|flags| Ok((flags, flags.key(sent)?)));
    read.map_err(|refused| match command {
        b"md" | b"ma" if refused != OPAQUE_TOO_LONG => {
            b"CLIENT_ERROR invalid or duplicate flag\r\n"
        }
        _ => refused,
    })
}

/// A request about a key.
struct Asked<'a, 'i> {
    session: &'a Session,
    key: MetaKey<'i>,
    flags: Flags<'i>,
    now_ms: u64,
    /// The flags whose values are repeated.
    shown: &'static [u8],
}

/// What a reply tells of an item.
struct Item<'h> {
    header: &'h Header,
    bytes: usize,
    /// When it would have expired before this request.
    expired_ms: Option<u64>,
    /// Whether this request made it.
    is_new: bool,
}

impl<'h> Item<'h> {
    /// One that was there, and whose time stays.
    const fn there(header: &'h Header, bytes: usize) -> Self {
        Self { header, bytes, expired_ms: header.expires_ms, is_new: false }
    }

    /// One that was made.
    const fn made(header: &'h Header, bytes: usize) -> Self {
        Self { header, bytes, expired_ms: None, is_new: true }
    }
}

/// Whether an item was fetched, as dumps tell it.
pub const fn fetch(used: Used) -> &'static str {
    if used.fetched { "yes" } else { "no" }
}

/// Ends a line.
fn end_line(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
}

/// Seconds that are left; -1 for ever.
fn seconds_left(expires_ms: Option<u64>, now_ms: u64) -> i64 {
    expires_ms.map_or(-1, |at| (at.saturating_sub(now_ms).div_ceil(1000)) as i64)
}

impl Asked<'_, '_> {
    fn row(&self) -> Vec<u8> {
        items::row_of(self.key.bytes())
    }

    fn data(&self) -> &Database {
        &self.session.shared.data
    }

    fn counters(&self) -> &Counters {
        &self.session.shared.counters
    }

    /// When it was used before this request.
    fn used(&self) -> Used {
        self.session.shared.uses.of(&self.row())
    }

    /// Seconds since then.
    fn unused_seconds(&self) -> u64 {
        (self.now_ms / 1000).saturating_sub(self.used().second)
    }

    /// When it expires by the token of a flag, if the flag is there.
    fn expiry(&self, letter: u8) -> Option<Option<u64>> {
        self.flags.seconds(letter).map(|seconds| expiry(seconds, self.now_ms))
    }

    /// When an item expires, behind a flag.
    fn expiry_behind(&self, letter: u8, before: Option<u64>, is_new: bool) -> Option<u64> {
        match letter {
            b'N' if !is_new => before,
            b'N' | b'T' => self.expiry(letter).unwrap_or(before),
            _ => before,
        }
    }

    /// When an item expires that the request makes.
    fn expiry_of_new(&self) -> Option<u64> {
        self.flags.each().fold(None, |at, (letter, _)| self.expiry_behind(letter, at, true))
    }

    /// A line: its code, and what the flags ask for. Flags T and N take effect where they stand, so
    /// that flag t tells the time before them or behind them.
    fn line(&self, code: &[u8], item: Option<&Item<'_>>, out: &mut Vec<u8>) {
        out.extend_from_slice(code);
        let mut expires_ms = item.and_then(|item| item.expired_ms);
        let is_new = item.is_some_and(|item| item.is_new);
        for (letter, token) in self.flags.each() {
            expires_ms = self.expiry_behind(letter, expires_ms, is_new);
            if !self.shown.contains(&letter) || Flags::repeat(&self.key, letter, token, out) {
                continue;
            }
            // Writing to a vector does not fail.
            let _ = match (letter, item) {
                (b'c', Some(item)) => write!(out, " c{}", item.header.cas),
                (b'c', None) if self.shown == shown(b"ms") => write!(out, " c0"),
                (b'f', Some(item)) => write!(out, " f{}", item.header.flags),
                (b's', Some(item)) => write!(out, " s{}", item.bytes),
                (b't', Some(_)) => write!(out, " t{}", seconds_left(expires_ms, self.now_ms)),
                (b'h', Some(_)) => write!(out, " h{}", u8::from(self.used().fetched)),
                (b'l', Some(_)) => write!(out, " l{}", self.unused_seconds()),
                _ => Ok(()),
            };
        }
    }

    /// A line that flag q suppresses: what the client expects.
    fn nominal(&self, code: &[u8], out: &mut Vec<u8>) {
        if !self.flags.has(b'q') {
            self.refusal(code, out);
        }
    }

    /// A line that flag q does not suppress.
    fn refusal(&self, code: &[u8], out: &mut Vec<u8>) {
        self.line(code, None, out);
        end_line(out);
    }

    // ---- mg
    // ---------------------------------------------------------------------------------------------

    fn get(&self, out: &mut Vec<u8>) {
        let counters = self.counters();
        counters.gets.add(1);
        let row = self.row();
        let start = out.len();
        let plain = !b"TNR".iter().any(|letter| self.flags.has(*letter));
        let found = if plain {
            items::show((self.data(), counters), &row, self.now_ms, |header, body| {
                let item = Item::there(header, body.len());
                self.show(&item, body, header.won, false, out);
                // Somebody must be told to make a stale one anew, which is written down.
                header.stale && !header.won
            })
        } else {
            Ok(Some(true))
        };
        let found = match found {
            Ok(Some(true)) => {
                out.truncate(start);
                self.get_and_change(&row, out)
            }
            found => found.map(|found| found.is_some()),
        };
        match found {
            Ok(true) => {
                counters.get_hits.add(1);
                if !self.flags.has(b'u') {
                    self.session.shared.uses.fetched(&row, self.now_ms);
                }
            }
            Ok(false) => self.nominal(b"EN", out),
            Err(error) => failed(&error, out),
        }
    }

    fn get_and_change(&self, row: &[u8], out: &mut Vec<u8>) -> Result<bool, Error> {
        let data = self.data();
        let _held = data.lock(row)?;
        let mut work = Work::new(data, self.now_ms);
        let Some((before, value)) = work.value(row)? else {
            // Counts what is there no more.
            items::show((data, self.counters()), row, self.now_ms, |_, _| ())?;
            if !self.flags.has(b'N') {
                return Ok(false);
            }
            let expires_ms = self.expiry_of_new();
            let sequence = data.next_number()?;
            let cas = self.flags.number(b'E').unwrap_or(sequence);
            let header =
                Header { expires_ms, won: true, cas, ..Header::new(Kind::String, sequence) };
            work.put_string(row, &header, b"")?;
            work.commit()?;
            self.counters().stored.add(1);
            self.session.shared.uses.stored(row, self.now_ms);
            self.show(&Item::made(&header, 0), b"", false, true, out);
            return Ok(true);
        };
        if before.kind != Kind::String {
            return Ok(false);
        }
        let wins = !before.won && (before.stale || self.is_due(&before));
        let expires_ms = self.expiry(b'T').unwrap_or(before.expires_ms);
        let after = Header { expires_ms, won: before.won || wins, ..before };
        let body = value.get(HEADER_BYTES..).unwrap_or_default();
        if after != before {
            work.put(row.to_vec(), after.with(body));
            work.commit()?;
        }
        let item = Item { expired_ms: before.expires_ms, ..Item::there(&after, body.len()) };
        self.show(&item, body, before.won, wins, out);
        Ok(true)
    }

    /// Whether a value lives for less time than flag R says.
    fn is_due(&self, header: &Header) -> bool {
        let (Some(expires_ms), Some(due_ms)) = (header.expires_ms, self.expiry(b'R').flatten())
        else {
            return false;
        };
        seconds_left(Some(expires_ms), self.now_ms) < seconds_left(Some(due_ms), self.now_ms)
    }

    /// `won`: a client was told before this request; `wins`: this one is.
    fn show(&self, item: &Item<'_>, body: &[u8], won: bool, wins: bool, out: &mut Vec<u8>) {
        let with_value = self.flags.has(b'v');
        let code = if with_value { format!("VA {}", body.len()) } else { "HD".to_owned() };
        self.line(code.as_bytes(), Some(item), out);
        for (mark, told) in [(b'Z', won), (b'X', item.header.stale), (b'W', wins)] {
            if told {
                out.extend_from_slice(&[b' ', mark]);
            }
        }
        end_line(out);
        if with_value {
            out.extend_from_slice(body);
            end_line(out);
        }
    }

    // ---- md
    // ---------------------------------------------------------------------------------------------

    fn delete(&self, out: &mut Vec<u8>) {
        let compare = self.flags.number(b'C');
        let deleted = if self.flags.has(b'I') || self.flags.has(b'x') {
            self.make_stale(compare)
        } else {
            items::delete(self.data(), &self.row(), self.now_ms, compare)
        };
        let counters = self.counters();
        match deleted {
            Ok(Stored::Done(_)) => {
                counters.delete_hits.add(1);
                self.nominal(b"HD", out);
            }
            Ok(Stored::Exists) => self.refusal(b"EX", out),
            Ok(_) => {
                counters.delete_misses.add(1);
                self.refusal(b"NF", out);
            }
            Err(error) => failed(&error, out),
        }
    }

    /// Flag I marks it stale, flag x removes its bytes and its client's flags.
    fn make_stale(&self, compare: Option<u64>) -> Result<Stored, Error> {
        let (data, row) = (self.data(), self.row());
        let changed = items::change(data, &row, self.now_ms, |header, body| {
            if compare.is_some_and(|compare| compare != header.cas) {
                return Ok(Stored::Exists);
            }
            if self.flags.has(b'x') {
                (header.flags, *body) = (0, Vec::new());
            }
            if self.flags.has(b'I') {
                (header.stale, header.won) = (true, false);
                header.expires_ms = self.expiry(b'T').unwrap_or(header.expires_ms);
            }
            header.sequence = data.next_number()?;
            header.cas = self.flags.number(b'E').unwrap_or(header.sequence);
            Ok(Stored::Done(*header))
        })?;
        Ok(changed.unwrap_or(Stored::NotFound))
    }

    // ---- ma
    // ---------------------------------------------------------------------------------------------

    fn count(&self, out: &mut Vec<u8>) -> Result<(), Refused> {
        let up = match self.flags.token(b'M') {
            None | Some(b"I" | b"+") => true,
            Some(b"D" | b"-") => false,
            Some(_) => return Err(b"CLIENT_ERROR invalid mode for ma M token\r\n"),
        };
        let first = self.flags.number(b'J').unwrap_or(0);
        let counting = Counting {
            up,
            delta: self.flags.number(b'D').unwrap_or(1),
            compare: self.flags.number(b'C'),
            cas: self.flags.number(b'E'),
            expires_ms: self.expiry(b'T'),
            vivify: self.flags.has(b'N').then(|| (first, self.expiry_of_new())),
        };
        match self.session.count(&self.row(), self.now_ms, &counting) {
            Ok(Counted::Done(..) | Counted::Made(..)) if self.flags.has(b'q') => {}
            Ok(Counted::Done(header, expired_ms, number)) => {
                let body = number.to_string();
                let item = Item { expired_ms, ..Item::there(&header, body.len()) };
                self.show(&item, body.as_bytes(), false, false, out);
            }
            Ok(Counted::Made(header, number)) => {
                let body = number.to_string();
                self.show(&Item::made(&header, body.len()), body.as_bytes(), false, false, out);
            }
            Ok(Counted::NotFound) => self.refusal(b"NF", out),
            Ok(Counted::Exists) => self.refusal(b"EX", out),
            Ok(Counted::NotNumeric) => {
                return Err(b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n");
            }
            Err(error) => failed(&error, out),
        }
        Ok(())
    }

    // ---- me
    // ---------------------------------------------------------------------------------------------

    fn debug(&self, out: &mut Vec<u8>) {
        let row = self.row();
        let shown =
            items::show((self.data(), self.counters()), &row, self.now_ms, |header, body| {
                out.extend_from_slice(b"ME ");
                out.extend_from_slice(self.key.sent);
                let exp = seconds_left(header.expires_ms, self.now_ms);
                let size = row.len() + HEADER_BYTES + body.len();
                // Writing to a vector does not fail.
                let (la, fetch) = (self.unused_seconds(), fetch(self.used()));
                let _ = write!(
                    out,
                    " exp={exp} la={la} cas={} fetch={fetch} cls=1 size={size}",
                    header.cas
                );
                if self.key.decoded.is_some() {
                    out.extend_from_slice(b" b");
                }
                end_line(out);
            });
        match shown {
            Ok(Some(())) => {}
            Ok(None) => out.extend_from_slice(b"EN\r\n"),
            Err(error) => failed(&error, out),
        }
    }
}

// ---- ms
// -------------------------------------------------------------------------------------------------

fn set<'i>(
    session: &mut Session,
    sent: &'i [u8],
    mut request: Request<'i>,
    out: &mut Vec<u8>,
) -> Taken {
    let length = request.words.next().and_then(length);
    if length.is_some() && Flags::are_too_many(request.words, 3) {
        return request.reply(TOO_MANY_FLAGS, out);
    }
    let Some(length) = length else {
        return request.reply(BAD_LINE, out);
    };
    let asked = Flags::read(request.words)
        .and_then(|flags| Ok((flags, flags.key(sent)?, storing(&flags, request.now_ms)?)));
    let (flags, key, storing) = match asked {
        Ok(asked) => asked,
        Err(refused) => {
            // The value that comes is not a request.
            session.skip = length.saturating_add(2);
            return request.reply(refused, out);
        }
    };
    let (body, taken) = match session.block(&request, length, out) {
        Block::Body(body, taken) => (body, taken),
        Block::Refused(taken) => {
            if session.skip > 0 && storing.mode == Mode::Set {
                items::forget_refused(&session.shared.data, key.bytes(), request.now_ms);
            }
            return taken;
        }
    };
    let stored =
        session.store(&items::row_of(key.bytes()), request.now_ms, &Storing { body, ..storing });
    let asked = Asked { session, key, flags, now_ms: request.now_ms, shown: shown(b"ms") };
    match stored {
        Ok(Stored::Done(header)) if !flags.has(b'q') => {
            asked.line(b"HD", Some(&Item::there(&header, body.len())), out);
            end_line(out);
        }
        Ok(Stored::Done(_)) => {}
        Ok(Stored::TooLong) => {
            out.extend_from_slice(b"SERVER_ERROR object too large for cache\r\n")
        }
        Ok(other) => {
            let code: &[u8] = match other {
                Stored::Exists => b"EX",
                Stored::NotFound => b"NF",
                _ => b"NS",
            };
            asked.refusal(code, out);
        }
        Err(error) => failed(&error, out),
    }
    taken
}

fn storing(flags: &Flags<'_>, now_ms: u64) -> Result<Storing<'static>, Refused> {
    let mode = match flags.token(b'M') {
        None | Some(b"S") => Mode::Set,
        Some(b"E") => Mode::Add,
        Some(b"A") => Mode::Append,
        Some(b"P") => Mode::Prepend,
        Some(b"R") => Mode::Replace,
        Some(_) => return Err(b"CLIENT_ERROR invalid mode for ms M token\r\n"),
    };
    Ok(Storing {
        flags: flags.number(b'F').unwrap_or(0) as u32, // It was checked.
        expires_ms: flags.seconds(b'T').and_then(|seconds| expiry(seconds, now_ms)),
        compare: flags.number(b'C'),
        cas: flags.number(b'E'),
        invalidate: flags.has(b'I'),
        vivify: flags.seconds(b'N').map(|seconds| expiry(seconds, now_ms)),
        ..Storing::new(mode, b"")
    })
}
