//! Replies that are longer than one part: what waits to be sent is bounded, the reply is that of
//! one moment, and what a command removes is what it replies.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use everleaf::{Clock, CreateOptions, DurabilityMode};
use everleaf_server::{Database, Limits, ServeOptions, Shared, Then, memcached, redis};
use tempfile::TempDir;

/// Bytes of a value.
const VALUE: usize = 10_000;
/// The limit of a part.
const PART: usize = 16_384;
/// What may wait to be sent: a part, a value, and what stands around it.
const WAITING: usize = PART + VALUE + 200;
/// The limit of replies that are made whole; one may have a quarter of it.
const WHOLE: usize = 1 << 20;

struct Pool {
    shared: Arc<Shared>,
    clock: Clock,
    _folder: TempDir,
}

fn pool() -> Pool {
    let folder = tempfile::tempdir().unwrap();
    let clock = Clock::manual(1_700_000_000_000);
    let create = CreateOptions::new().size_bytes(32 << 20).max_size_bytes(1 << 30);
    // Nothing here depends on what is durable.
    let create = create.clock(clock.clone()).durability(DurabilityMode::Process);
    let store = create.create(folder.path().join("a.pool")).unwrap();
    let data = Arc::new(Database::over(store, clock.clone()).unwrap());
    let limits = Limits {
        reply_bytes: PART,
        value_bytes: Some(VALUE),
        whole_bytes: WHOLE as u64,
        ..Limits::default()
    };
    let shared = Shared::new(data, ServeOptions { limits, ..ServeOptions::default() });
    Pool { shared, clock, _folder: folder }
}

impl Pool {
    fn client(&self) -> Client {
        let session = redis::Session::new(Arc::clone(&self.shared));
        Client { session, input: Vec::new() }
    }
}

/// A client that takes a part of a reply when it likes.
struct Client {
    session: redis::Session,
    input: Vec<u8>,
}

impl Client {
    fn ask(&mut self, words: &[&str]) {
        let mut request = format!("*{}\r\n", words.len());
        words.iter().for_each(|w| write!(request, "${}\r\n{w}\r\n", w.len()).unwrap());
        self.input.extend_from_slice(request.as_bytes());
    }

    /// What comes next, and whether it was all.
    fn part(&mut self) -> (Vec<u8>, Then) {
        let mut out = Vec::new();
        let mut served = self.session.serve(&self.input, &mut out);
        if served.then == Then::Long {
            self.input.drain(..served.consumed);
            served = self.session.serve_long(&self.input, &mut out);
        }
        self.input.drain(..served.consumed);
        (out, served.then)
    }

    /// The rest of the replies, whose parts are bounded.
    fn rest(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            let (part, then) = self.part();
            assert!(part.len() <= WAITING, "{} bytes wait to be sent", part.len());
            all.extend(part);
            match then {
                Then::Write | Then::Long | Then::Locked | Then::Script => {}
                Then::Read | Then::Wait(_) => return all,
                Then::Close | Then::Leave => panic!("closed behind {} bytes", all.len()),
            }
        }
    }

    fn reply(&mut self, words: &[&str]) -> String {
        self.ask(words);
        String::from_utf8(self.rest()).unwrap()
    }
}

fn value(number: usize) -> String {
    format!("{number:0>VALUE$}")
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

fn array<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let bulks: Vec<String> = texts.into_iter().map(bulk).collect();
    format!("*{}\r\n{}", bulks.len(), bulks.concat())
}

/// Keys, a list, a hash, a set, a sorted set and a stream of 40 long values.
fn fill(client: &mut Client) -> Vec<String> {
    let values: Vec<String> = (0..40).map(value).collect();
    for (at, value) in values.iter().enumerate() {
        let score = at.to_string();
        client.reply(&["SET", &format!("key{at:0>2}"), value]);
        client.reply(&["RPUSH", "list", value]);
        client.reply(&["HSET", "hash", &format!("field{at:0>2}"), value]);
        client.reply(&["SADD", "set", value]);
        client.reply(&["ZADD", "sorted", &score, value]);
        client.reply(&["XADD", "stream", &format!("{at}-1"), "f", entry(value)]);
    }
    values
}

/// What an entry has beside its field: together they are no longer than a value may be.
fn entry(value: &str) -> &str {
    value.get(10..).unwrap_or_default()
}

/// Entries of the stream, with their numbers.
fn entries<'v>(values: impl ExactSizeIterator<Item = (usize, &'v String)>) -> String {
    let head = format!("*{}\r\n", values.len());
    let shown = values.map(|(at, value)| {
        format!("*2\r\n{}{}", bulk(&format!("{at}-1")), array(["f", entry(value)]))
    });
    head + &shown.collect::<String>()
}

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|at| format!("{prefix}{at:0>2}")).collect()
}

/// Commands whose replies have many parts, and the replies.
fn long_replies(values: &[String]) -> Vec<(Vec<String>, String)> {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let all = || array(values.iter().map(String::as_str));
    let backward = array(values.iter().rev().map(String::as_str));
    let some = array(values[3..37].iter().map(String::as_str));
    let fields = names("field", 40);
    let pairs = fields.iter().zip(values).flat_map(|(f, v)| [f.as_str(), v.as_str()]);
    let scores: Vec<String> = (0..40).map(|score| score.to_string()).collect();
    let scored = values.iter().zip(&scores).flat_map(|(v, s)| [v.as_str(), s.as_str()]);
    let mget: Vec<String> = [words("MGET"), names("key", 40), words("no")].concat();
    let hmget: Vec<String> = [words("HMGET hash"), names("field", 40), words("no")].concat();
    let with_null = all().replacen("*40", "*41", 1) + "$-1\r\n";
    vec![
        (mget, with_null.clone()),
        (hmget, with_null),
        (words("LRANGE list 0 -1"), all()),
        (words("LRANGE list 3 36"), some.clone()),
        (words("HGETALL hash"), array(pairs)),
        (words("HVALS hash"), all()),
        (words("SMEMBERS set"), all()),
        (words("ZRANGE sorted 0 -1"), all()),
        (words("ZRANGE sorted 3 36"), some.clone()),
        (words("ZREVRANGE sorted 0 -1"), backward.clone()),
        (words("ZRANGE sorted 0 -1 WITHSCORES"), array(scored)),
        (words("ZRANGEBYSCORE sorted 3 36"), some.clone()),
        (words("ZRANGEBYSCORE sorted -inf inf LIMIT 3 34"), some.clone()),
        (words("ZREVRANGEBYSCORE sorted inf -inf"), backward),
        (words("ZRANGEBYLEX sorted - +"), all()),
        (words("ZRANGEBYLEX sorted - + LIMIT 3 34"), some),
        (words("XRANGE stream - +"), entries(values.iter().enumerate())),
        (words("XRANGE stream 0 38"), entries(values[..39].iter().enumerate())),
        (words("XREVRANGE stream + -"), entries(values.iter().enumerate().rev())),
        (words("XRANGE stream - + COUNT 30"), entries(values[..30].iter().enumerate())),
        (words("XREAD STREAMS stream no stream 0 0 9"), {
            let stream = format!("*2\r\n{}", bulk("stream"));
            let all = entries(values.iter().enumerate());
            let some = entries((9..40).zip(&values[9..]));
            format!("*2\r\n{stream}{all}{stream}{some}")
        }),
    ]
}

fn send(client: &mut Client, words: &[String]) {
    client.ask(&words.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn a_reply_of_many_values_waits_value_by_value() {
    let pool = pool();
    let mut client = pool.client();
    let values = fill(&mut client);
    for (words, reply) in long_replies(&values) {
        send(&mut client, &words);
        let got = String::from_utf8(client.rest()).unwrap();
        assert!(got == reply, "{}: {} bytes, not {}", words[..2].join(" "), got.len(), reply.len());
    }
    // Requests behind it are answered behind it.
    client.ask(&["LRANGE", "list", "0", "-1"]);
    client.ask(&["PING"]);
    assert!(client.rest().ends_with(b"\r\n+PONG\r\n"));
}

#[test]
fn memcacheds_retrieval_waits_value_by_value() {
    let pool = pool();
    let mut session = memcached::Session::new(Arc::clone(&pool.shared));
    let mut out = Vec::new();
    session.serve(format!("set a 0 0 {VALUE}\r\n{}\r\n", value(7)).as_bytes(), &mut out);
    for command in ["get", "gets", "gat 0", "gats 0"] {
        let request = format!("{command}{}\r\n", " a no".repeat(40));
        let (mut start, mut all) = (0, Vec::new());
        loop {
            let mut out = Vec::new();
            let served = session.serve(&request.as_bytes()[start..], &mut out);
            assert!(out.len() <= WAITING, "{command}: {} bytes wait to be sent", out.len());
            start += served.consumed;
            all.extend(out);
            if served.then == Then::Read {
                break;
            }
        }
        let found = all.windows(8).filter(|eight| eight == b"VALUE a ").count();
        assert_eq!((found, all.ends_with(b"\r\nEND\r\n")), (40, true), "{command}");
    }
}

#[test]
fn a_reply_in_parts_is_that_of_one_moment() {
    let pool = pool();
    let changes: [&[&[&str]]; 4] = [
        &[&["MSET", "key05", "x", "key39", "y"], &["LPOP", "list"], &["RPUSH", "list", "z"]],
        &[
            &["DEL", "list", "hash", "set", "sorted", "stream"],
            &["DEL", "key39"],
            &["SET", "no", "now"],
        ],
        &[&["FLUSHALL"]],
        &[],
    ];
    let reply_count = long_replies(&names("", 40)).len();
    for change in changes {
        for at in 0..reply_count {
            let (mut client, mut other) = (pool.client(), pool.client());
            other.reply(&["FLUSHALL"]);
            let values = fill(&mut other);
            (0..40).for_each(|at| drop(other.reply(&["EXPIRE", &format!("key{at:0>2}"), "10"])));
            let (words, reply) = long_replies(&values).swap_remove(at);
            send(&mut client, &words);
            let (mut got, then) = client.part();
            assert_eq!(then, Then::Write);
            change.iter().for_each(|words| drop(other.reply(words)));
            other.reply(&["HSET", "hash", "field39", "other", "field99", "new"]);
            other.reply(&["SADD", "set", "~"]);
            other.reply(&["XADD", "stream", "99-1", "f", "v"]);
            other.reply(&["XDEL", "stream", "38-1"]);
            other.reply(&["ZADD", "sorted", "99", "~", "39", "a"]);
            pool.clock.advance(Duration::from_secs(20));
            got.extend(client.rest());
            assert!(got == reply.as_bytes(), "{} with {change:?}", words[..2].join(" "));
        }
    }
}

#[test]
fn all_keys_are_listed_in_parts() {
    let pool = pool();
    let (mut client, mut other) = (pool.client(), pool.client());
    let keys: Vec<String> = (0..100).map(|at| format!("{at:0>1000}")).collect();
    keys.iter().for_each(|key| drop(client.reply(&["SET", key, "v"])));
    client.reply(&["SET", "other", "v"]);
    client.ask(&["KEYS", "0*"]);
    let (mut got, then) = client.part();
    assert_eq!(then, Then::Write);
    other.reply(&["FLUSHALL"]);
    other.reply(&["SET", "0", "v"]);
    got.extend(client.rest());
    assert!(got == array(keys.iter().map(String::as_str)).as_bytes());
    assert_eq!(client.reply(&["KEYS", "*"]), array(["0"]));
}

#[test]
fn steps_of_a_scan_end_where_a_part_does() {
    let pool = pool();
    let mut client = pool.client();
    fill(&mut client);
    for scan in ["HSCAN hash", "SSCAN set", "ZSCAN sorted"] {
        let (mut cursor, mut found) = ("0".to_owned(), 0);
        loop {
            let words: Vec<&str> = scan.split(' ').chain([&cursor[..], "COUNT", "9999"]).collect();
            let reply = client.reply(&words);
            let lines: Vec<&str> = reply.lines().collect();
            found += lines.iter().filter(|line| line.len() == VALUE).count();
            cursor = lines[2].to_owned();
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(found, 40, "{scan}");
    }
}

#[test]
fn what_is_removed_is_replied_or_stays() {
    let pool = pool();
    let mut client = pool.client();
    let values: Vec<String> = (0..60).map(value).collect();
    for value in &values {
        client.reply(&["RPUSH", "list", value]);
        client.reply(&["SADD", "set", value]);
        client.reply(&["ZADD", "sorted", "1", value]);
    }
    // A quarter of the room has less than 30 of the values.
    for (pop, length, key) in
        [("LPOP", "LLEN", "list"), ("SPOP", "SCARD", "set"), ("ZPOPMIN", "ZCARD", "sorted")]
    {
        let refused = client.reply(&[pop, key, "30"]);
        assert!(refused.starts_with("-ERR the reply takes too much memory"), "{pop}: {refused}");
        assert_eq!(client.reply(&[length, key]), ":60\r\n", "{pop}");
        client.ask(&[pop, key, "20"]);
        let (whole, _) = client.part();
        assert!(whole.len() > 20 * VALUE, "{pop}: {} bytes", whole.len());
        assert_eq!(client.reply(&[length, key]), ":40\r\n", "{pop}");
    }
    assert_eq!(client.reply(&["SRANDMEMBER", "set", "-100000"]).as_bytes()[0], b'-');
    assert_eq!(client.reply(&["SUNION", "set"]).as_bytes()[0], b'-');
}

#[test]
fn a_transaction_whose_replies_are_too_long_does_nothing() {
    let pool = pool();
    let mut client = pool.client();
    client.reply(&["SET", "big", &value(1)]);
    client.reply(&["MULTI"]);
    client.reply(&["SET", "done", "1"]);
    (0..30).for_each(|_| drop(client.reply(&["GET", "big"])));
    let refused = client.reply(&["EXEC"]);
    assert!(refused.starts_with("-ERR the reply takes too much memory"), "{refused}");
    assert_eq!(client.reply(&["GET", "done"]), "$-1\r\n");
    fill(&mut client);
    for read in ["LRANGE list 0 -1", "MGET{}", "KEYS *", "HVALS hash"] {
        client.reply(&["MULTI"]);
        client.reply(&["INCR", "done"]);
        let keys = names(" key", 40).concat();
        let read = read.replace("{}", &keys);
        client.reply(&read.split(' ').collect::<Vec<_>>());
        let reply = client.reply(&["EXEC"]);
        assert_eq!(reply.starts_with("*2\r\n:1\r\n"), read.starts_with("KEYS"), "{read}");
        client.reply(&["DEL", "done"]);
    }
}

#[test]
fn whole_replies_of_all_connections_share_their_room() {
    let pool = pool();
    let mut clients: Vec<Client> = (0..6).map(|_| pool.client()).collect();
    clients[0].reply(&["SET", "big", &value(1)]);
    let mut refused = 0;
    for client in &mut clients {
        client.reply(&["MULTI"]);
        (0..25).for_each(|_| drop(client.reply(&["GET", "big"])));
        client.ask(&["EXEC"]);
        refused += usize::from(client.part().0.starts_with(b"-ERR the reply takes too much"));
    }
    assert_eq!(refused, 2, "four of them fill the room");
    // Those who have read, and those who are gone, give it back.
    drop(clients.split_off(2));
    let mut client = pool.client();
    for _ in 0..3 {
        client.reply(&["MULTI"]);
        (0..25).for_each(|_| drop(client.reply(&["GET", "big"])));
        client.ask(&["EXEC"]);
        assert!(client.part().0.starts_with(b"*25\r\n"));
    }
}

#[test]
fn a_slow_reader_holds_little_of_what_changes_meanwhile() {
    let pool = pool();
    let (mut client, mut other) = (pool.client(), pool.client());
    let values = fill(&mut other);
    client.ask(&["LRANGE", "list", "0", "-1"]);
    let (mut got, then) = client.part();
    assert_eq!(then, Then::Write);
    for round in 0..10 {
        (0..40).for_each(|at| drop(other.reply(&["LSET", "list", &at.to_string(), &value(round)])));
        (0..40).for_each(|at| drop(other.reply(&["SET", &format!("k{round}-{at}"), "v"])));
    }
    // Images of the 40 elements fit.
    got.extend(client.rest());
    assert!(got == array(values.iter().map(String::as_str)).as_bytes());
}

#[test]
fn a_transaction_that_fails_selects_nothing() {
    let pool = pool();
    let mut client = pool.client();
    client.reply(&["SELECT", "1"]);
    client.reply(&["SET", "big", &value(1)]);
    client.reply(&["SELECT", "0"]);
    client.reply(&["MULTI"]);
    client.reply(&["SELECT", "1"]);
    client.reply(&["HELLO", "3", "SETNAME", "name"]);
    (0..30).for_each(|_| drop(client.reply(&["GET", "big"])));
    let refused = client.reply(&["EXEC"]);
    assert!(refused.starts_with("-ERR the reply takes too much memory"), "{refused}");
    assert_eq!(client.reply(&["GET", "big"]), "$-1\r\n");
    assert_eq!(client.reply(&["CLIENT", "GETNAME"]), "$-1\r\n");
}

#[test]
fn a_transaction_keeps_only_those_out_who_write_its_keys() {
    let pool = pool();
    let mut client = pool.client();
    client.reply(&["WATCH", "b"]);
    client.reply(&["MULTI"]);
    client.reply(&["SET", "a", "1"]);
    client.reply(&["GET", "a"]);
    client.ask(&["EXEC"]);
    let held = pool.shared.data.lock(b"another key");
    let (sender, receiver) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || sender.send(client.part().0));
    let replied = receiver.recv_timeout(Duration::from_secs(10));
    drop(held);
    let _ = thread.join();
    assert_eq!(replied.unwrap(), b"*2\r\n+OK\r\n$1\r\n1\r\n");
}

#[test]
fn what_a_connection_watches_and_is_called_is_bounded() {
    let pool = pool();
    let mut client = pool.client();
    client.reply(&["CLIENT", "SETNAME", &value(1)]);
    let named = client.session.held_bytes();
    assert!(named >= VALUE, "{named} bytes");
    for number in 0..100 {
        client.reply(&["WATCH", &value(0)]);
        let held = client.session.held_bytes() - named;
        assert!((VALUE..2 * VALUE).contains(&held), "{held} bytes of {number}");
    }
    let limit = pool.shared.options.limits.buffered_bytes as usize / 16;
    let refused = (1..).find_map(|number| {
        let reply = client.reply(&["WATCH", &value(number)]);
        assert!(client.session.held_bytes() <= named + limit);
        (reply != "+OK\r\n").then_some(reply)
    });
    assert!(refused.unwrap().starts_with("-ERR too many keys are watched"));
    client.reply(&["UNWATCH"]);
    assert_eq!(client.session.held_bytes(), named);
    assert_eq!(client.reply(&["WATCH", "a"]), "+OK\r\n");
}
