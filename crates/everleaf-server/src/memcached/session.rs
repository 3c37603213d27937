//! A connection of a memcached client: which bytes are a request, and what follows a mistake.

use std::sync::Arc;
use std::time::Instant;

use everleaf::Error;
use tracing::{error, warn};

use super::items::{self, Storing};
use super::parse::{Front, Search, Words};
use super::{COMMANDS, admin, classic, meta};
use crate::net::{Served, Then, is_http};
use crate::shared::Shared;

/// The first byte of a request of the binary protocol.
const BINARY: u8 = 0x80;

/// What became of the bytes at the front.
pub(super) enum Taken {
    /// They were a request of this length.
    Request(usize),
    /// They are the beginning of a request.
    Incomplete,
    /// They are a request that is not answered to its end: what was written must be sent first.
    Unfinished,
    /// The connection is to be closed.
    Close,
}

/// A connection.
pub struct Session {
    pub(super) shared: Arc<Shared>,
    search: Search,
    /// Bytes that the request at the front takes with its value: before they have come, nothing of
    /// it needs to be looked at.
    wanted: usize,
    /// Bytes of a refused value that are still to come.
    pub(super) skip: u64,
    /// Where a retrieval of many keys goes on in its line.
    pub(super) resume: usize,
    /// The last key of a dump that was sent.
    pub(super) dumped: Vec<u8>,
    authenticated: bool,
    /// The command at the front: its place in [`COMMANDS`].
    command: usize,
}

/// A reply of the server's own mistakes, or of a full pool.
pub(super) fn failed(error: &Error, out: &mut Vec<u8>) {
    if error.is_full() {
        out.extend_from_slice(b"SERVER_ERROR out of memory storing object\r\n");
    } else {
        error!(%error, "a request failed in the store");
        out.extend_from_slice(format!("SERVER_ERROR {error}\r\n").as_bytes());
    }
}

impl Session {
    /// A new connection.
    pub fn new(shared: Arc<Shared>) -> Self {
        let authenticated = shared.options.memcached_users.is_none();
        let (search, dumped) = (Search::default(), Vec::new());
        let command = COMMANDS.len() - 1;
        Self { shared, search, wanted: 0, skip: 0, resume: 0, dumped, authenticated, command }
    }

    /// Bytes of memory that it holds for requests that have not come to their end.
    pub fn held_bytes(&self) -> usize {
        0
    }

    /// Answers the requests at the front of `input`.
    pub fn serve(&mut self, input: &[u8], out: &mut Vec<u8>) -> Served {
        let (mut consumed, mut looked_at) = (0, 0);
        let mut begun = Instant::now();
        while out.len() < self.shared.options.limits.reply_bytes {
            let rest = &input[consumed..];
            if self.skip > 0 {
                let skipped = self.skip.min(rest.len() as u64);
                self.skip -= skipped;
                consumed += skipped as usize;
                if self.skip > 0 {
                    return Served { consumed, then: Then::Read };
                }
                continue;
            }
            if rest.len() < self.wanted {
                return Served { consumed, then: Then::Read };
            }
            if consumed >= looked_at && self.authenticated && self.search.is_new() {
                looked_at = consumed + self.look_ahead(rest);
                begun = Instant::now();
            }
            match self.take(rest, out) {
                Taken::Request(bytes) => {
                    consumed += bytes;
                    self.wanted = 0;
                    self.search.next_line();
                    // The next one begins where this one ends.
                    let took = begun.elapsed();
                    begun += took;
                    self.shared.metrics.memcached.add(self.command, took);
                }
                Taken::Incomplete => return Served { consumed, then: Then::Read },
                Taken::Unfinished => return Served { consumed, then: Then::Write },
                Taken::Close => return Served { consumed: input.len(), then: Then::Close },
            }
        }
        Served { consumed, then: Then::Write }
    }

    fn take(&mut self, input: &[u8], out: &mut Vec<u8>) -> Taken {
        if input.first() == Some(&BINARY) {
            warn!("closed a connection: the binary protocol is not offered");
            return Taken::Close;
        }
        let (line, bytes) = match self.search.front(input) {
            Front::Line(line, bytes) => (line, bytes),
            Front::Incomplete => return Taken::Incomplete,
            Front::TooLong => {
                out.extend_from_slice(b"CLIENT_ERROR line too long\r\n");
                return Taken::Close;
            }
        };
        if !self.authenticated {
            return self.authenticate(line, &input[bytes..], bytes, out);
        }
        let now_ms = match self.shared.data.begin_request() {
            Ok(now_ms) => now_ms,
            Err(error) => {
                failed(&error, out);
                return Taken::Close;
            }
        };
        let mut words = Words::of(line);
        let command = words.next().unwrap_or_default();
        let named = COMMANDS.iter().position(|name| name.as_bytes() == command);
        self.command = named.unwrap_or(COMMANDS.len() - 1);
        let quiet = wants_no_reply(command, words);
        let request = Request { words, now_ms, line_bytes: bytes, behind: &input[bytes..], quiet };
        let start = out.len();
        let taken = self.answer(command, request, out);
        if quiet {
            // Of mistakes neither: the client would take them for the reply to its next request.
            out.truncate(start);
        }
        taken
    }

    fn answer(&mut self, command: &[u8], request: Request<'_>, out: &mut Vec<u8>) -> Taken {
        match command {
            b"get" | b"gets" | b"gat" | b"gats" => classic::retrieve(self, command, request, out),
            b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas" => {
                classic::store(self, command, request, out)
            }
            b"incr" | b"decr" => classic::count(self, command == b"incr", request, out),
            b"delete" => classic::delete(self, request, out),
            b"touch" => classic::touch(self, request, out),
            b"mg" | b"ms" | b"md" | b"ma" | b"mn" | b"me" => {
                meta::serve(self, command, request, out)
            }
            b"quit" => Taken::Close,
            _ => admin::serve(self, command, request, out),
        }
    }

    /// The first request must be a `set` of any key, whose value is a name and a password. The
    /// connection stays until they are right.
    fn authenticate(
        &mut self,
        line: &[u8],
        behind: &[u8],
        line_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Taken {
        /// The longest name and password together.
        const LIMIT: u64 = 1024;
        let mut words = Words::of(line);
        let (command, length) = (words.next(), words.nth(3).and_then(super::parse::unsigned));
        let Some(length) = length.filter(|_| command == Some(b"set")) else {
            let last = Words::of(line).last().unwrap_or_default();
            if is_http(command.unwrap_or_default(), last) {
                warn!("closed a connection: a request of HTTP");
                return Taken::Close;
            }
            out.extend_from_slice(b"CLIENT_ERROR unauthenticated\r\n");
            return Taken::Request(line_bytes);
        };
        if length > LIMIT {
            out.extend_from_slice(b"CLIENT_ERROR unauthenticated\r\n");
            return Taken::Close; // What follows is no request.
        }
        let length = length as usize;
        let Some(block) = behind.get(..length + 2) else {
            self.wanted = line_bytes + length + 2;
            return Taken::Incomplete;
        };
        self.shared.counters.authentications.add(1);
        let users = self.shared.options.memcached_users.as_ref();
        let (given, end) = block.split_at(length);
        let said: &[u8] = if end != b"\r\n" {
            b"CLIENT_ERROR bad command line termination\r\n"
        } else if users.is_some_and(|users| users.know(given)) {
            self.authenticated = true;
            b"STORED\r\n"
        } else if Words::of(given).count() < 2 {
            b"CLIENT_ERROR bad authentication token format\r\n"
        } else {
            b"CLIENT_ERROR authentication failure\r\n"
        };
        self.shared.counters.refused_authentications.add(u64::from(!self.authenticated));
        out.extend_from_slice(said);
        Taken::Request(line_bytes + length + 2)
    }

    /// The bytes of a value behind a line.
    pub(super) fn block<'i>(
        &mut self,
        request: &Request<'i>,
        length: u64,
        out: &mut Vec<u8>,
    ) -> Block<'i> {
        let limit = self.shared.options.limits.value_bytes as u64;
        if length > limit {
            out.extend_from_slice(b"SERVER_ERROR object too large for cache\r\n");
            self.skip = length + 2;
            return Block::Refused(Taken::Request(request.line_bytes));
        }
        let length = length as usize;
        let Some(block) = request.behind.get(..length + 2) else {
            self.wanted = request.line_bytes + length + 2;
            return Block::Refused(Taken::Incomplete);
        };
        let taken = Taken::Request(request.line_bytes + block.len());
        match block.strip_suffix(b"\r\n") {
            Some(body) => Block::Body(body, taken),
            None => {
                out.extend_from_slice(b"CLIENT_ERROR bad data chunk\r\n");
                Block::Refused(taken)
            }
        }
    }

    /// Stores a value; the reply is the caller's.
    pub(super) fn store(
        &self,
        row: &[u8],
        now_ms: u64,
        storing: &Storing<'_>,
    ) -> Result<items::Stored, Error> {
        self.shared.counters.sets.add(1);
        let limit = self.shared.options.limits.value_bytes;
        let stored = items::store(&self.shared.data, row, now_ms, storing, limit)?;
        if storing.compare.is_some() {
            let counters = &self.shared.counters;
            match stored {
                items::Stored::Done(_) => counters.cas_hits.add(1),
                items::Stored::Exists => counters.cas_others.add(1),
                _ => counters.cas_misses.add(1),
            }
        }
        Ok(stored)
    }
}

/// Whether a line ends in `noreply`, and its command is one of those that take it. Where a key
/// follows the command, `noreply` is no key.
fn wants_no_reply(command: &[u8], words: Words<'_>) -> bool {
    let skipped = match command {
        b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas" | b"incr" | b"decr"
        | b"delete" | b"touch" => 1,
        b"flush_all" | b"verbosity" | b"cache_memlimit" | b"slabs" | b"lru" | b"watch" => 0,
        _ => return false,
    };
    words.skip(skipped).last() == Some(b"noreply")
}

/// A request whose first word is known.
#[derive(Clone, Copy)]
pub(super) struct Request<'i> {
    /// The words behind it.
    pub(super) words: Words<'i>,
    /// When it is answered.
    pub(super) now_ms: u64,
    /// Bytes of the line with its end.
    pub(super) line_bytes: usize,
    /// What came behind the line.
    pub(super) behind: &'i [u8],
    /// Whether nothing of the reply is sent, mistakes included.
    pub(super) quiet: bool,
}

/// A value behind a line.
pub(super) enum Block<'i> {
    /// Its bytes, and what the whole request takes.
    Body(&'i [u8], Taken),
    /// It has not come, or is refused.
    Refused(Taken),
}

impl<'i> Request<'i> {
    /// The request is answered; it is the line.
    pub(super) const fn done(&self) -> Taken {
        Taken::Request(self.line_bytes)
    }

    /// The same with a reply.
    pub(super) fn reply(&self, reply: &[u8], out: &mut Vec<u8>) -> Taken {
        out.extend_from_slice(reply);
        self.done()
    }
}
