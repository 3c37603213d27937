//! A pipeline's next requests: their keys are brought into the processor's caches together, before
//! the first of them is answered.

use super::session::Session;
use super::table::find;
use crate::data::{MAX_KEY_BYTES, key_row};
use crate::resp::parse::{Front, Parser};

/// Requests that are looked at together.
const REQUESTS: usize = 32;
/// Keys that are brought together.
const KEYS: usize = 64;

impl Session {
    /// Looks at requests at the front of `input`; how many bytes they take. Nothing is said of what
    /// cannot be understood: it is met again.
    pub(super) fn look_ahead(&self, input: &[u8]) -> usize {
        if !self.authenticated {
            return input.len();
        }
        let value_bytes = Some(self.shared.longest.redis);
        let (mut parser, mut rows, mut at) = (Parser::default(), Vec::new(), 0);
        for _ in 0..REQUESTS {
            let Front::Request(bytes) = parser.front(&input[at..], value_bytes) else { break };
            if rows.len() >= KEYS {
                break;
            }
            self.keys_of(&parser, &input[at..], &mut rows);
            parser.next_request();
            at += bytes;
        }
        self.shared.data.prefetch(&rows);
        at
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
