//! What takes long or waits holds nobody else up: it leaves the thread that answers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use everleaf::{Clock, CreateOptions, DurabilityMode};
use everleaf_server::{Database, Limits, ServeOptions, Shared, Then, redis};
use tempfile::TempDir;

use crate::common::{Client, Served, options, tcp};

/// Elements that a thread that answers may read.
const FEW: usize = 2_000;
/// More than these.
const MANY: usize = FEW + 200;

fn limits() -> Limits {
    Limits { short_elements: FEW as u64, ..Limits::default() }
}

/// A session on a pool of its own.
struct Alone {
    session: redis::Session,
    _folder: TempDir,
}

impl Alone {
    fn with(durability: DurabilityMode) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Clock::manual(1_700_000_000_000);
        let create = CreateOptions::new().size_bytes(32 << 20).max_size_bytes(1 << 30);
        let create = create.clock(clock.clone()).durability(durability);
        let store = create.create(folder.path().join("a.pool")).unwrap();
        let data = Arc::new(Database::over(store, clock).unwrap());
        let shared = Shared::new(data, ServeOptions { limits: limits(), ..options() });
        Self { session: redis::Session::new(shared), _folder: folder }
    }

    /// Answers, wherever; the reply.
    fn ask(&mut self, request: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut start = 0;
        loop {
            let served = self.session.serve_long(&request[start..], &mut out);
            start += served.consumed;
            if served.then == Then::Read {
                return out;
            }
        }
    }

    /// Whether the last request of these is left for a thread that others do not wait for.
    fn leaves(&mut self, requests: &str) -> bool {
        let (mut out, mut start) = (Vec::new(), 0);
        loop {
            let served = self.session.serve(&requests.as_bytes()[start..], &mut out);
            start += served.consumed;
            match served.then {
                Then::Write => {}
                Then::Long => {
                    let rest = requests[start..].to_owned();
                    assert_eq!(rest.matches("\r\n").count(), 1, "{rest} is left of {requests}");
                    self.ask(rest.as_bytes());
                    return true;
                }
                _ => return false,
            }
        }
    }

    fn fill(&mut self, command: &str, element: impl Fn(usize) -> String) {
        let elements: Vec<String> = (0..MANY).map(element).collect();
        for some in elements.chunks(1000) {
            let replied = self.ask(format!("{command} {}\r\n", some.join(" ")).as_bytes());
            assert_eq!(replied[0], b':', "{command}: {}", replied.escape_ascii());
        }
    }

    fn filled() -> Self {
        let mut alone = Self::with(DurabilityMode::Process);
        alone.fill("RPUSH list", |at| at.to_string());
        alone.fill("SADD set", |at| at.to_string());
        alone.fill("HSET hash", |at| format!("{at} {at}"));
        alone.fill("ZADD sorted", |at| format!("{at} {at}"));
        alone
    }
}

#[test]
fn what_takes_long_leaves_the_thread_that_answers_alone_and_in_a_transaction() {
    let mut alone = Alone::filled();
    for (request, is_long) in [
        // Replies in parts leave it in transactions only.
        ("LRANGE list 0 -1", false),
        ("HGETALL hash", false),
        ("ZRANGE sorted 0 -1", false),
        ("SMEMBERS set", false),
        ("LLEN list", false),
        ("LINSERT list BEFORE none x", true),
        ("SUNION set", true),
        ("SPOP set", false),
        ("COPY set other", true),
    ] {
        assert_eq!(alone.leaves(&format!("{request}\r\n")), is_long, "{request}");
    }
    for (requests, is_long) in [
        ("LRANGE list 0 -1", true),
        ("LRANGE list 0 10;ZRANGE sorted 5 20;ZREVRANGE sorted 0 9 WITHSCORES", false),
        ("LRANGE list 0 1099;PING", false),
        ("LRANGE list 0 1099;LRANGE list 0 1099", true),
        ("HGETALL hash", true),
        ("ZRANGEBYSCORE sorted -inf inf", true),
        ("ZRANK sorted 7", true),
        ("SMEMBERS set", true),
        ("HGET hash 7;HSET hash 7 8;ZADD sorted 1 1;SADD set 1;LPUSH list 1", false),
        ("LREM list 0 none", true),
        ("ZREMRANGEBYRANK sorted 0 9", true),
    ] {
        let queued = requests.replace(';', "\r\n");
        let request = format!("MULTI\r\n{queued}\r\nEXEC\r\n");
        assert_eq!(alone.leaves(&request), is_long, "{requests}");
    }
    // Many short commands are long together.
    let sets = "SET key value\r\n".repeat(MANY / 3);
    assert!(alone.leaves(&format!("MULTI\r\n{sets}EXEC\r\n")));
    assert!(!alone.leaves(&format!("MULTI\r\n{}EXEC\r\n", "SET key value\r\n".repeat(100))));
}

#[test]
fn requests_of_very_many_words_and_keys_take_long() {
    let mut alone = Alone::with(DurabilityMode::Process);
    for command in ["DEL", "SADD set", "RPUSH list", "SREM set", "EXISTS"] {
        let [few, many] = [100, MANY].map(|count| {
            let words: Vec<&str> = command.split(' ').collect();
            let mut request = format!("*{}\r\n", words.len() + count);
            let numbers: Vec<String> = (0..count).map(|at| at.to_string()).collect();
            for word in words.into_iter().chain(numbers.iter().map(String::as_str)) {
                request += &format!("${}\r\n{word}\r\n", word.len());
            }
            request
        });
        let mut out = Vec::new();
        let served = alone.session.serve(few.as_bytes(), &mut out);
        assert_eq!(served.then, Then::Read, "{command}");
        let served = alone.session.serve(many.as_bytes(), &mut out);
        assert_eq!((served.consumed, served.then), (0, Then::Long), "{command}");
        alone.ask(many.as_bytes());
    }
    alone.ask(b"DBSIZE\r\n"); // From here on their number is known.
    assert!(!alone.leaves("KEYS x*\r\n"));
    for from in (0..MANY).step_by(100) {
        let pairs: String = (from..from + 100).map(|at| format!(" key{at} v")).collect();
        assert_eq!(alone.ask(format!("MSET{pairs}\r\n").as_bytes()), b"+OK\r\n");
    }
    // A pattern that shows little reads all keys, in each part of the reply.
    assert!(alone.leaves("KEYS x*\r\n"));
    assert!(alone.leaves("MULTI\r\nKEYS x*\r\nEXEC\r\n"));
    let (request, mut out) = (b"KEYS *\r\n", Vec::new());
    assert_eq!(alone.session.serve(request, &mut out).then, Then::Long);
}

/// A server of one thread that answers.
fn single() -> Served {
    let redis = vec!["127.0.0.1:0".parse().unwrap()];
    Served::without_syncs(ServeOptions { redis, threads: 1, limits: limits(), ..options() })
}

fn redis_of(served: &Served) -> Client {
    Client::connect(tcp(&served.server.redis_addresses()[0]))
}

/// The transaction cannot end before the test lets it: what is answered before that is answered
/// while it is under way.
#[test]
fn others_are_answered_while_a_long_transaction_is_under_way() {
    let served = single();
    let (mut long, mut other) = (redis_of(&served), redis_of(&served));
    for _ in 0..MANY / 100 {
        other.send(format!("RPUSH list{}\r\n", " element".repeat(100)));
        other.line();
    }
    let row = [b"\x01\x00", &b"list"[..]].concat();
    let shared = served.shared();
    let held = shared.data.lock(&row);
    long.ask("MULTI\r\nLRANGE list 0 -1\r\nPING\r\n", "+OK\r\n+QUEUED\r\n+QUEUED\r\n");
    long.send("EXEC\r\n");
    other.stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    (0..20).for_each(|_| other.ask("PING\r\nSET k v\r\n", "+PONG\r\n+OK\r\n"));
    drop(held);
    assert_eq!(long.line(), "*2");
}

/// A short request of a key that a long one has waits, and only its own connection does. Each is
/// done once, and in its order.
#[test]
fn others_are_answered_while_short_requests_wait_for_the_key_of_a_long_one() {
    let served = single();
    let (mut other, row) = (redis_of(&served), [b"\x01\x00", &b"list"[..]].concat());
    other.ask("RPUSH list a\r\n", ":1\r\n");
    let requests = [
        ("PING\r\nRPUSH list b\r\nRPUSH list c\r\n", "+PONG\r\n"),
        ("WATCH list\r\nMULTI\r\nLLEN list\r\nEXEC\r\nPING\r\n", ""),
        ("MULTI\r\nLLEN list\r\nEXEC\r\n", "+OK\r\n+QUEUED\r\n"),
        ("BLPOP list 0\r\n", ""),
        ("MULTI\r\nPING\r\nEXEC\r\n", "+OK\r\n+QUEUED\r\n"),
        ("FLUSHALL\r\n", ""),
    ];
    let shared = served.shared();
    let held = shared.data.lock(&row);
    let mut clients = requests.map(|(request, before)| {
        let mut client = redis_of(&served);
        client.stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        client.send(request);
        client.expect(before);
        client
    });
    other.stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    (0..20).for_each(|_| other.ask("PING\r\nGET none\r\n", "+PONG\r\n$-1\r\n"));
    drop(held);
    // In whatever order: one of them empties everything, and one waits for what comes.
    other.send("RPUSH list d\r\n");
    let last = clients.each_mut().map(|client| client.line());
    assert!(last[0].starts_with(':') && last[1] == "+OK", "{last:?}");
    assert!(last[2] == "*1" && last[4] == "*1" && last[5] == "+OK", "{last:?}");
    assert_eq!(last[3], "*2", "the client that waits for an element has one");
}

#[test]
fn who_waits_for_replicas_holds_nobody_up() {
    let served = single();
    let (mut waits, mut other) = (redis_of(&served), redis_of(&served));
    waits.send("SET k v\r\nWAIT 1 0\r\nPING\r\n");
    waits.expect("+OK\r\n");
    (0..20).for_each(|_| other.ask("PING\r\n", "+PONG\r\n"));
    // Nobody waits where nothing is waited for, or in a transaction.
    other.ask("WAIT 0 0\r\nWAIT -1 0\r\nWAITAOF 1 0 0\r\n", ":0\r\n:0\r\n*2\r\n:1\r\n:0\r\n");
    other.ask("MULTI\r\nWAIT 1 0\r\nEXEC\r\n", "+OK\r\n+QUEUED\r\n*1\r\n:0\r\n");
    let begun = Instant::now();
    other.ask("WAIT 1 100\r\nWAITAOF 0 1 100\r\n", ":0\r\n*2\r\n:1\r\n:0\r\n");
    assert!(begun.elapsed() >= Duration::from_millis(200));
    for (request, error) in [
        ("WAIT x 0", "value is not an integer or out of range"),
        ("WAIT 1 x", "timeout is not an integer or out of range"),
        ("WAIT 1 -1", "timeout is negative"),
        ("WAITAOF 2 0 0", "value is out of range, value must between 0 and 1"),
        ("WAITAOF 1 -1 0", "value is out of range, must be positive"),
    ] {
        other.ask(format!("{request}\r\n"), format!("-ERR {error}\r\n"));
    }
}

#[test]
fn who_waits_for_a_sync_holds_nobody_up() {
    let mut alone = Alone::with(DurabilityMode::Process);
    assert!(!alone.leaves("WAIT 0 0\r\n") && !alone.leaves("WAITAOF 1 0 0\r\n"));
    let mut alone = Alone::with(DurabilityMode::Buffered { interval_ms: 64 });
    for request in ["WAIT 0 0\r\n", "WAITAOF 1 0 0\r\n", "MULTI\r\nWAIT 1 0\r\nEXEC\r\n"] {
        assert!(alone.leaves(request), "{request}");
    }
    assert!(!alone.leaves("MULTI\r\nPING\r\nEXEC\r\n"));
}
