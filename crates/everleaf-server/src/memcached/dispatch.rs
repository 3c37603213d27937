//! The way of requests to the commands: which bytes are a request, and what follows a mistake.

use std::time::{Duration, Instant};

use tracing::warn;

use super::parse::{Front, Words, unsigned};
use super::session::{Request, Session, Taken, failed};
use super::{COMMANDS, admin, classic, meta};
use crate::authentication::UNAUTHENTICATED_BYTES;
use crate::data::KEPT;
use crate::protocol::{Served, Then, is_http};
use crate::shared::State;

/// The first byte of a request of the binary protocol.
const BINARY: u8 = 0x80;
/// After how long it is looked again whether a script has ended.
const SCRIPT_PAUSE: Duration = Duration::from_millis(2);

/// Whether a script that takes long has what a request needs, as is asked of its keys, or of
/// everything. After a time such a script is not waited for any more, and the request fails.
fn needs(command: &[u8], mut words: Words<'_>, has: impl Fn(Option<&[u8]>) -> bool) -> bool {
    match command {
        b"get" | b"gets" | b"mn" | b"version" | b"quit" => false,
        b"flush_all" => has(None),
        b"gat" | b"gats" => words.skip(1).any(|key| has(Some(key))),
        _ => words.next().is_some_and(|key| has(Some(key))),
    }
}

/// Whether a reply says that a script keeps a key.
fn is_kept(reply: &[u8]) -> bool {
    let sentence = KEPT.as_bytes();
    reply.starts_with(b"SERVER_ERROR") && reply.windows(sentence.len()).any(|part| part == sentence)
}

impl Session {
    /// Answers the requests at the front of `input`.
    pub fn serve(&mut self, input: &[u8], out: &mut Vec<u8>) -> Served {
        let mut begun = Instant::now();
        let served = self.serve_all(input, out, &mut begun);
        if let Some(connected) = &self.connected
            && (!input.is_empty() || !connected.is_new())
        {
            connected.tell(begun, self.state(served.then));
        }
        served
    }

    /// What the connection does after what was answered.
    fn state(&self, then: Then) -> State {
        match then {
            Then::Close => State::Closing,
            Then::Wait(_) => State::Waiting,
            Then::Read if self.skip > 0 => State::Swallow,
            Then::Read if self.wanted > 0 => State::Value,
            Then::Read => State::Read,
            _ => State::Parse,
        }
    }

    /// The same; `begun` is when the first request was begun, and then the end of the last one.
    fn serve_all(&mut self, input: &[u8], out: &mut Vec<u8>, begun: &mut Instant) -> Served {
        let (mut consumed, mut looked_at) = (0, 0);
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
                *begun = Instant::now();
            }
            match self.take(rest, out) {
                Taken::Request(bytes) => {
                    consumed += bytes;
                    self.wanted = 0;
                    self.search.next_line();
                    // The next one begins where this one ends.
                    let took = begun.elapsed();
                    *begun += took;
                    self.shared.metrics.memcached.add(self.command, took);
                }
                Taken::Incomplete => return Served { consumed, then: Then::Read },
                Taken::Wait(until) => {
                    return Served { consumed, then: Then::Wait(Some(until)) };
                }
                Taken::Unfinished => break,
                Taken::Close => return Served { consumed: input.len(), then: Then::Close },
            }
        }
        self.shared.counters.yields.add(1);
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
        let data = &self.shared.data;
        if data.holders.any() && needs(command, words, |key| data.waits_for_script(key)) {
            return Taken::Wait(Instant::now() + SCRIPT_PAUSE);
        }
        let start = out.len();
        let taken = self.answer(command, request, out);
        // The script has begun meanwhile, so it is waited for as well.
        let data = &self.shared.data;
        if is_kept(&out[start..]) && !needs(command, words, |key| data.turns_away(key)) {
            out.truncate(start);
            return Taken::Wait(Instant::now() + SCRIPT_PAUSE);
        }
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
        let (command, length) = (words.next(), words.nth(3).and_then(unsigned));
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
        if let Some(until) = self.shared.attempts.wait(self.place) {
            return match behind.len() {
                ..=UNAUTHENTICATED_BYTES => Taken::Wait(until),
                _ => Taken::Close,
            };
        }
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
        if !self.authenticated {
            self.shared.counters.refused_authentications.add(1);
            self.shared.attempts.failed(self.place);
        }
        out.extend_from_slice(said);
        Taken::Request(line_bytes + length + 2)
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
