//! A pipeline's next requests: they are understood together, and their keys are brought into the
//! processor's caches, before the first of them is answered.

use std::ops::Range;

use super::session::Session;
use super::table::find;
use crate::data::{MAX_KEY_BYTES, key_row};
use crate::resp::parse::{Front, Parser};

/// Requests that are looked at together.
const REQUESTS: usize = 32;
/// Keys that are brought together.
const KEYS: usize = 64;

/// Requests behind the one at the front that are understood and not answered.
#[derive(Default)]
pub(super) struct Understood {
    /// Bytes of each, and how many arguments it has.
    requests: Vec<(usize, usize)>,
    /// The arguments of all, by where they are from where their request begins.
    arguments: Vec<Range<usize>>,
    /// Requests and arguments that were given.
    given: (usize, usize),
}

impl Understood {
    /// Whether all were given.
    pub(super) fn is_empty(&self) -> bool {
        self.given.0 == self.requests.len()
    }

    fn clear(&mut self) {
        self.requests.clear();
        self.arguments.clear();
        self.given = (0, 0);
    }

    fn add(&mut self, bytes: usize, arguments: &[Range<usize>]) {
        self.requests.push((bytes, arguments.len()));
        self.arguments.extend_from_slice(arguments);
    }

    /// Gives the next one to the parser that looks at it, if that knows nothing of it.
    pub(super) fn give(&mut self, parser: &mut Parser) {
        let (request, from) = self.given;
        if let Some((bytes, arguments)) = self.requests.get(request)
            && parser.is_new()
        {
            parser.understood(*bytes, &self.arguments[from..from + arguments]);
            self.given = (request + 1, from + arguments);
        }
    }
}

impl Session {
    /// Looks at the request at the front of `input`, which `parser` has understood, and at those
    /// behind it. Nothing is said of what cannot be understood: it is met again.
    pub(super) fn look_ahead(&self, parser: &Parser, input: &[u8], behind: &mut Understood) {
        behind.clear();
        if !self.authenticated {
            return;
        }
        let value_bytes = Some(self.shared.longest.redis);
        let (mut rows, mut at) = (Vec::with_capacity(REQUESTS), parser.bytes());
        self.keys_of(parser, input, &mut rows);
        let mut parser = Parser::default();
        while behind.requests.len() + 1 < REQUESTS && rows.len() < KEYS {
            let Front::Request(bytes) = parser.front(&input[at..], value_bytes) else { break };
            let Some(arguments) = parser.unquoted() else { break };
            behind.add(bytes, arguments);
            self.keys_of(&parser, &input[at..], &mut rows);
            parser.next_request();
            at += bytes;
        }
        self.shared.data.prefetch(&rows);
    }

    /// Adds the rows of the keys that the request at the front names.
    fn keys_of(&self, parser: &Parser, input: &[u8], rows: &mut Vec<Vec<u8>>) {
        let words = parser.len() as i64;
        let Some(command) = find(parser.argument(input, 0)) else { return };
        let (first, last, step) = command.keys.positions();
        let last = if last < 0 { words + last } else { last.min(words - 1) };
        let mut at = first;
        while 0 < at && at <= last && rows.len() < KEYS {
            let key = parser.argument(input, at as usize);
            if key.len() <= MAX_KEY_BYTES {
                rows.push(key_row(self.database, key));
            }
            at += step;
        }
    }
}
