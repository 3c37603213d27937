//! A pipeline's next requests: their keys are brought into the processor's caches together, before
//! the first of them is answered.

use super::items;
use super::parse::{Front, MAX_KEY_BYTES, Search, Words, length};
use super::session::Session;

/// Requests that are looked at together.
const REQUESTS: usize = 32;
/// Keys that are brought together.
const KEYS: usize = 64;

impl Session {
    /// Looks at requests at the front of `input`; how many bytes they take. Nothing is said of what
    /// cannot be understood: it is met again.
    pub(super) fn look_ahead(&self, input: &[u8]) -> usize {
        let (mut rows, mut at) = (Vec::new(), 0);
        for request in 0..REQUESTS {
            let rest = &input[at..];
            let Front::Line(line, line_bytes) = Search::default().front(rest) else { break };
            let mut words = Words::of(line);
            let command = words.next().unwrap_or_default();
            let mut behind = words;
            let keys = match command {
                b"get" | b"gets" => KEYS,
                b"gat" | b"gats" => words.next().map_or(0, |_| KEYS),
                _ => 1,
            };
            let value_bytes = match command {
                b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas" => behind.nth(3),
                b"ms" => behind.nth(1),
                _ => None,
            };
            let value_bytes = value_bytes.and_then(length).map_or(0, |length| length as usize + 2);
            let bytes = line_bytes.saturating_add(value_bytes).min(rest.len());
            if request == 0 && bytes == input.len() && keys == 1 {
                return bytes;
            }
            if rows.len() >= KEYS {
                break;
            }
            let keys = words.take(keys.min(KEYS - rows.len()));
            rows.extend(keys.filter(|key| key.len() <= MAX_KEY_BYTES).map(items::row_of));
            at += bytes;
        }
        self.shared.data.prefetch(&rows);
        at
    }
}
