//! Clients of the server, whose bytes come in pieces.

use std::sync::Arc;
use std::time::Duration;

use everleaf::{Clock, KeyType};
use everleaf_server::{Database, Limits, ServeOptions, Served, Shared, Then, memcached, redis};

use crate::store::in_memory;

/// Some time of the year 2023, in milliseconds.
const NOW_MS: u64 = 1_700_000_000_000;

/// A server with small limits, so that they are met, and its clock.
fn server() -> (Arc<Shared>, Clock) {
    let clock = Clock::manual(NOW_MS);
    let store = in_memory(KeyType::Bytes, &clock);
    let data = Arc::new(Database::over(store, clock.clone()).expect("an empty database"));
    let limits = Limits {
        value_bytes: Some(4 << 10),
        reply_bytes: 256,
        buffered_bytes: 64 << 10,
        whole_bytes: 16 << 10,
        script_time: Duration::from_millis(500),
        script_bytes: 4 << 20,
        ..Limits::default()
    };
    (Shared::new(data, ServeOptions { limits, ..ServeOptions::default() }), clock)
}

/// Answers as a connection does. The first byte says how long the pieces are; 0: all at once.
fn converse(input: &[u8], clock: &Clock, mut serve: impl FnMut(&[u8], &mut Vec<u8>) -> Served) {
    let Some((piece, input)) = input.split_first() else { return };
    let piece = if *piece == 0 { usize::MAX } else { usize::from(*piece) };
    let (mut start, mut end, mut out) = (0, 0, Vec::new());
    while end < input.len() {
        end = input.len().min(end.saturating_add(piece));
        clock.advance(Duration::from_millis(1));
        loop {
            let served = serve(&input[start..end], &mut out);
            start += served.consumed;
            assert!(start <= end, "more was answered than came");
            out.clear();
            match served.then {
                Then::Read | Then::Wait(_) => break,
                Then::Write | Then::Long | Then::Locked | Then::Script => {}
                Then::Close | Then::Leave => return,
            }
        }
    }
}

/// Whatever clients did, the store is sound.
fn check(shared: &Shared) {
    assert!(shared.data.store().check().is_ok_and(|outcome| outcome.ok), "a client did damage");
}

/// A connection of a memcached client.
pub fn memcached(input: &[u8]) {
    let (shared, clock) = server();
    let mut session = memcached::Session::new(Arc::clone(&shared));
    converse(input, &clock, |input, out| session.serve(input, out));
    check(&shared);
}

/// A connection of a Redis client.
pub fn redis(input: &[u8]) {
    let (shared, clock) = server();
    let mut session = redis::Session::new(Arc::clone(&shared));
    converse(input, &clock, |input, out| session.serve_long(input, out));
    check(&shared);
}

/// A script of a Redis client, with a key and a value.
pub fn lua(script: &[u8]) {
    let (shared, clock) = server();
    let mut session = redis::Session::new(Arc::clone(&shared));
    let words: [&[u8]; 5] = [b"EVAL", script, b"1", b"key", b"value"];
    let mut request = vec![0];
    request.extend(format!("*{}\r\n", words.len()).bytes());
    for word in words {
        request.extend(format!("${}\r\n", word.len()).bytes());
        request.extend([word, b"\r\n"].concat());
    }
    converse(&request, &clock, |input, out| session.serve_long(input, out));
    check(&shared);
}
