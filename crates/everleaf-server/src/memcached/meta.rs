//! The meta commands: mg, ms, md, ma, mn, me.

use std::io::Write;

use everleaf::Error;

use super::flags::{Flags, MetaKey};
use super::items::{self, Counted, Counting, Mode, Stored, Storing};
use super::parse::{expiry, length};
use super::session::{Block, Request, Session, Taken, failed};
use crate::data::{Database, HEADER_BYTES, Header, Kind, Work};

/// A reply that says what is wrong with the request.
type Refused = &'static [u8];

const BAD_LINE: Refused = b"CLIENT_ERROR bad command line format\r\n";

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
    let Some(sent) = request.words.next() else {
        let refused = if command == b"me" { BAD_LINE } else { b"ERROR\r\n" };
        return request.reply(refused, out);
    };
    if command == b"ms" {
        return set(session, sent, request, out);
    }
    let allowed: &[u8] = match command {
        // Flag u asks that the time of use stays as it is: none is told.
        b"mg" => b"bcfhklOqstuvENRT",
        b"md" => b"bCEIkOqTx",
        b"ma" => b"bCDEJMNOTqtcvk",
        _ => b"b",
    };
    let start = out.len();
    let answered = Flags::read(request.words, allowed).and_then(|flags| {
        let (key, now_ms) = (flags.key(sent)?, request.now_ms);
        let asked = Asked { session, key, flags, now_ms, stores: false };
        match command {
            b"mg" => asked.get(out),
            b"md" => asked.delete(out),
            b"ma" => asked.count(out),
            _ => asked.debug(out),
        }
    });
    if let Err(refused) = answered {
        out.truncate(start);
        out.extend_from_slice(refused);
    }
    request.done()
}

/// A request about a key.
struct Asked<'a, 'i> {
    session: &'a Session,
    key: MetaKey<'i>,
    flags: Flags<'i>,
    now_ms: u64,
    /// Whether it is `ms`.
    stores: bool,
}

/// Ends a line.
fn end_line(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
}

/// Seconds that are left; -1 for ever.
fn seconds_left(header: &Header, now_ms: u64) -> i64 {
    header.expires_ms.map_or(-1, |at| (at.saturating_sub(now_ms).div_ceil(1000)) as i64)
}

impl Asked<'_, '_> {
    fn row(&self) -> Vec<u8> {
        items::row_of(self.key.bytes())
    }

    fn data(&self) -> &Database {
        &self.session.shared.data
    }

    /// When it expires by the token of a flag, if the flag is there.
    fn expiry(&self, letter: u8) -> Result<Option<Option<u64>>, Refused> {
        Ok(self.flags.signed(letter)?.map(|seconds| expiry(seconds, self.now_ms)))
    }

    /// A line: its code, and what the flags ask for of the header.
    fn line(&self, code: &[u8], header: Option<(&Header, usize)>, out: &mut Vec<u8>) {
        out.extend_from_slice(code);
        for (letter, token) in self.flags.each() {
            if Flags::repeat(&self.key, letter, token, out) {
                continue;
            }
            let Some((header, bytes)) = header else {
                if self.stores && letter == b'c' {
                    out.extend_from_slice(b" c0"); // Nothing was stored.
                }
                continue;
            };
            // Writing to a vector does not fail.
            let _ = match letter {
                b'c' => write!(out, " c{}", header.cas),
                b'f' => write!(out, " f{}", header.flags),
                b's' => write!(out, " s{bytes}"),
                b't' => write!(out, " t{}", seconds_left(header, self.now_ms)),
                b'h' => write!(out, " h0"),
                b'l' => write!(out, " l0"),
                _ => Ok(()),
            };
        }
    }

    /// A line that flag q suppresses.
    fn nominal(&self, code: &[u8], out: &mut Vec<u8>) {
        if !self.flags.has(b'q') {
            self.line(code, None, out);
            end_line(out);
        }
    }

    // ---- mg
    // ---------------------------------------------------------------------------------------------

    fn get(&self, out: &mut Vec<u8>) -> Result<(), Refused> {
        let counters = &self.session.shared.counters;
        counters.gets.add(1);
        let (ttl, vivify) = (self.expiry(b'T')?, self.expiry(b'N')?);
        let recache = self.flags.signed(b'R')?;
        self.flags.unsigned(b'E')?;
        let row = self.row();
        let start = out.len();
        let plain = ttl.is_none() && vivify.is_none() && recache.is_none();
        let found = if plain {
            items::show(self.data(), &row, self.now_ms, |header, body| {
                self.show(header, body, false, out);
                // Somebody must be told to make a stale one anew, which is written down.
                header.stale && !header.won
            })
        } else {
            Ok(Some(true))
        };
        let found = match found {
            Ok(Some(true)) => {
                out.truncate(start);
                self.get_and_change(&row, ttl, vivify, recache, out)
            }
            found => found.map(|found| found.is_some()),
        };
        match found {
            Ok(true) => counters.get_hits.add(1),
            Ok(false) if !self.flags.has(b'q') => out.extend_from_slice(b"EN\r\n"),
            Ok(false) => {}
            Err(error) => failed(&error, out),
        }
        Ok(())
    }

    fn get_and_change(
        &self,
        row: &[u8],
        ttl: Option<Option<u64>>,
        vivify: Option<Option<u64>>,
        recache: Option<i64>,
        out: &mut Vec<u8>,
    ) -> Result<bool, Error> {
        let data = self.data();
        let _held = data.lock(row);
        let mut work = Work::new(data, self.now_ms);
        let Some((before, value)) = work.value(row)? else {
            let Some(expires_ms) = vivify else { return Ok(false) };
            let sequence = data.next_number()?;
            let cas = self.flags.unsigned(b'E').ok().flatten().unwrap_or(sequence);
            let header =
                Header { expires_ms, won: true, cas, ..Header::new(Kind::String, sequence) };
            work.put_string(row, &header, b"")?;
            work.commit()?;
            self.show(&Header { won: false, ..header }, b"", true, out);
            return Ok(true);
        };
        if before.kind != Kind::String {
            return Ok(false);
        }
        let due = recache.is_some_and(|seconds| {
            before.expires_ms.is_some() && seconds_left(&before, self.now_ms) < seconds
        });
        let wins = !before.won && (before.stale || due);
        let mut after = before;
        after.expires_ms = ttl.unwrap_or(before.expires_ms);
        after.won |= wins;
        let body = value.get(HEADER_BYTES..).unwrap_or_default();
        if after != before {
            work.put(row.to_vec(), after.with(body));
            work.commit()?;
        }
        self.show(&Header { won: before.won, ..after }, body, wins, out);
        Ok(true)
    }

    /// `header.won`: a client was told before this request.
    fn show(&self, header: &Header, body: &[u8], wins: bool, out: &mut Vec<u8>) {
        let with_value = self.flags.has(b'v');
        let code = if with_value { format!("VA {}", body.len()) } else { "HD".to_owned() };
        self.line(code.as_bytes(), Some((header, body.len())), out);
        for (mark, told) in [(b'Z', header.won), (b'X', header.stale), (b'W', wins)] {
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

    fn delete(&self, out: &mut Vec<u8>) -> Result<(), Refused> {
        let compare = self.flags.unsigned(b'C')?;
        let cas = self.flags.unsigned(b'E')?;
        let ttl = self.expiry(b'T')?;
        let deleted = if self.flags.has(b'I') || self.flags.has(b'x') {
            self.make_stale(compare, cas, ttl)
        } else {
            items::delete(self.data(), &self.row(), self.now_ms, compare)
        };
        let counters = &self.session.shared.counters;
        match deleted {
            Ok(Stored::Done(_)) => {
                counters.delete_hits.add(1);
                self.nominal(b"HD", out);
            }
            Ok(Stored::Exists) => {
                self.line(b"EX", None, out);
                end_line(out);
            }
            Ok(_) => {
                counters.delete_misses.add(1);
                self.nominal(b"NF", out);
            }
            Err(error) => failed(&error, out),
        }
        Ok(())
    }

    /// Flag I marks it stale, flag x removes its bytes and its client's flags.
    fn make_stale(
        &self,
        compare: Option<u64>,
        cas: Option<u64>,
        ttl: Option<Option<u64>>,
    ) -> Result<Stored, Error> {
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
                header.expires_ms = ttl.unwrap_or(header.expires_ms);
            }
            header.sequence = data.next_number()?;
            header.cas = cas.unwrap_or(header.sequence);
            Ok(Stored::Done(*header))
        })?;
        Ok(changed.unwrap_or(Stored::NotFound))
    }

    // ---- ma
    // ---------------------------------------------------------------------------------------------

    fn count(&self, out: &mut Vec<u8>) -> Result<(), Refused> {
        let up = match self.flags.token(b'M') {
            None | Some(b"I" | b"i" | b"+" | b"INCR" | b"incr") => true,
            Some(b"D" | b"d" | b"-" | b"DECR" | b"decr") => false,
            Some(_) => return Err(b"CLIENT_ERROR invalid mode for ma M token\r\n"),
        };
        let first = self.flags.unsigned(b'J')?.unwrap_or(0);
        let counting = Counting {
            up,
            delta: self.flags.unsigned(b'D')?.unwrap_or(1),
            compare: self.flags.unsigned(b'C')?,
            cas: self.flags.unsigned(b'E')?,
            expires_ms: self.expiry(b'T')?,
            vivify: self.expiry(b'N')?.map(|expires_ms| (first, expires_ms)),
        };
        let counted = items::count(self.data(), &self.row(), self.now_ms, &counting);
        self.session.shared.counters.counted(up, matches!(counted, Ok(Counted::Done(..))));
        match counted {
            Ok(Counted::Done(header, number) | Counted::Made(header, number)) => {
                self.show_number(&header, number, out)
            }
            Ok(Counted::NotFound) => self.nominal(b"NF", out),
            Ok(Counted::Exists) => {
                self.line(b"EX", None, out);
                end_line(out);
            }
            Ok(Counted::NotNumeric) => {
                return Err(b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n");
            }
            Err(error) => failed(&error, out),
        }
        Ok(())
    }

    fn show_number(&self, header: &Header, number: u64, out: &mut Vec<u8>) {
        let number = number.to_string();
        if self.flags.has(b'v') {
            let code = format!("VA {}", number.len());
            self.line(code.as_bytes(), Some((header, number.len())), out);
            end_line(out);
            out.extend_from_slice(number.as_bytes());
            end_line(out);
        } else if !self.flags.has(b'q') {
            self.line(b"HD", Some((header, number.len())), out);
            end_line(out);
        }
    }

    // ---- me
    // ---------------------------------------------------------------------------------------------

    fn debug(&self, out: &mut Vec<u8>) -> Result<(), Refused> {
        let row = self.row();
        let shown = items::show(self.data(), &row, self.now_ms, |header, body| {
            out.extend_from_slice(b"ME ");
            out.extend_from_slice(self.key.sent);
            let exp = seconds_left(header, self.now_ms);
            let size = row.len() + HEADER_BYTES + body.len();
            // Writing to a vector does not fail.
            let _ = write!(out, " exp={exp} la=0 cas={} fetch=no cls=1 size={size}", header.cas);
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
        Ok(())
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
    let Some(length) = length else {
        return request.reply(BAD_LINE, out);
    };
    let asked = Flags::read(request.words, b"bcCEFIkOqsTMN").and_then(|flags| {
        let key = flags.key(sent)?;
        Ok((flags, key, storing(&flags, request.now_ms)?))
    });
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
        Block::Refused(taken) => return taken,
    };
    let stored =
        session.store(&items::row_of(key.bytes()), request.now_ms, &Storing { body, ..storing });
    let asked = Asked { session, key, flags, now_ms: request.now_ms, stores: true };
    match stored {
        Ok(Stored::Done(header)) if !flags.has(b'q') => {
            asked.line(b"HD", Some((&header, body.len())), out);
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
            asked.line(code, None, out);
            end_line(out);
        }
        Err(error) => failed(&error, out),
    }
    taken
}

fn storing(flags: &Flags<'_>, now_ms: u64) -> Result<Storing<'static>, Refused> {
    let mode = match flags.token(b'M') {
        None | Some(b"S" | b"s" | b"SET" | b"set") => Mode::Set,
        Some(b"E" | b"e" | b"ADD" | b"add") => Mode::Add,
        Some(b"A" | b"a" | b"APPEND" | b"append") => Mode::Append,
        Some(b"P" | b"p" | b"PREPEND" | b"prepend") => Mode::Prepend,
        Some(b"R" | b"r" | b"REPLACE" | b"replace") => Mode::Replace,
        Some(_) => return Err(b"CLIENT_ERROR invalid mode for ms M token\r\n"),
    };
    let client_flags = flags.unsigned(b'F')?.unwrap_or(0);
    Ok(Storing {
        flags: u32::try_from(client_flags).map_err(|_| BAD_LINE)?,
        expires_ms: flags.signed(b'T')?.and_then(|seconds| expiry(seconds, now_ms)),
        compare: flags.unsigned(b'C')?,
        cas: flags.unsigned(b'E')?,
        invalidate: flags.has(b'I'),
        vivify: flags.signed(b'N')?.map(|seconds| expiry(seconds, now_ms)),
        ..Storing::new(mode, b"")
    })
}
