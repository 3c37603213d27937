//! Streams: what their commands reply, who waits for entries, and what is left of them.

use std::io::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use everleaf::Clock;
use everleaf_server::ServeOptions;

use crate::common::{Client, PATIENCE, Served, options, tcp};
use crate::keyspace::Pool;
use crate::redis::Redis;
use crate::stock::redis_server;

fn serve() -> (Served, SocketAddr) {
    let redis = vec!["127.0.0.1:0".parse().unwrap()];
    let served = Served::with(ServeOptions { redis, ..options() }, Clock::system());
    let address = tcp(&served.server.redis_addresses()[0]);
    (served, address)
}

/// Returns when so many clients wait.
fn wait_until(served: &Served, waiting: u64) {
    let end = Instant::now() + PATIENCE;
    while served.shared().data.waiting.clients() != waiting {
        assert!(Instant::now() < end, "{waiting} clients never wait");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A client that has sent a request which waits.
fn waiting(served: &Served, address: SocketAddr, request: &str) -> Client {
    let before = served.shared().data.waiting.clients();
    let mut client = Client::connect(address);
    client.stream.write_all(format!("{request}\r\n").as_bytes()).unwrap();
    wait_until(served, before + 1);
    client
}

/// What a reader of one stream gets for one entry `a b`.
fn one(key: &str, id: &str) -> String {
    let (key_bytes, id_bytes) = (key.len(), id.len());
    format!(
        "*1\r\n*2\r\n${key_bytes}\r\n{key}\r\n*1\r\n*2\r\n${id_bytes}\r\n{id}\r\n*2\r\n$1\r\na\r\n\
         $1\r\nb\r\n"
    )
}

// ---- waiting
// -------------------------------------------------------------------------------------------------

#[test]
fn each_reader_gets_each_new_entry() {
    let (served, address) = serve();
    let mut other = Redis::connect(address);
    other.ask("XADD s 1-1 a b");
    let mut readers: Vec<Client> = (0..20)
        .map(|at| {
            let request = match at % 3 {
                0 => "XREAD BLOCK 0 STREAMS s $",
                1 => "XREAD BLOCK 100000 COUNT 5 STREAMS none s 0 $",
                _ => "XREAD BLOCK 0 STREAMS s 1-1",
            };
            waiting(&served, address, request)
        })
        .collect();
    other.ask("XADD s 2-2 a b");
    readers.iter_mut().for_each(|reader| reader.expect(one("s", "2-2")));
    wait_until(&served, 0);
    // Where it has waited for is kept, also for who sees an entry come and go.
    let mut reader = waiting(&served, address, "XREAD BLOCK 0 STREAMS s t $ $");
    other.ask("MULTI");
    other.ask("XADD t 1-1 a b");
    other.ask("DEL t");
    other.ask("EXEC");
    other.ask("XTRIM s MAXLEN 0");
    other.ask("XADD t 0-1 a b");
    reader.expect(one("t", "0-1"));
    wait_until(&served, 0);
}

#[test]
fn who_reads_waits_through_other_types_and_until_its_time_is_over() {
    let (served, address) = serve();
    let mut other = Redis::connect(address);
    let mut reader = waiting(&served, address, "XREAD BLOCK 0 STREAMS s $");
    let mut popper = waiting(&served, address, "BLPOP s 0");
    other.ask("RPUSH s x y");
    popper.expect("*2\r\n$1\r\ns\r\n$1\r\nx\r\n");
    other.ask("DEL s");
    other.ask("XADD s 5-5 a b");
    reader.expect(one("s", "5-5"));
    let mut reader = waiting(&served, address, "XREAD BLOCK 20 STREAMS s $");
    reader.expect("*-1\r\n");
    // No more than a thousand entries wake anybody at once.
    let mut reader = waiting(&served, address, "XREAD BLOCK 0 STREAMS t 0");
    other.ask("MULTI");
    (1..=1500).for_each(|at| drop(other.ask(&format!("XADD t {at}-0 a b"))));
    other.ask("EXEC");
    reader.expect("*1\r\n*2\r\n$1\r\nt\r\n*1000\r\n");
    wait_until(&served, 0);
}

// ---- what is kept
// -------------------------------------------------------------------------------------------------

#[test]
fn streams_survive_a_restart_and_their_ids_go_on() {
    let (served, address) = serve();
    let mut redis = Redis::connect(address);
    let last = redis.ask("XADD s * a b");
    redis.ask("XADD t 5-1 a b c \"\"");
    redis.ask("XADD t 6-1 a b");
    redis.ask("XDEL t 6-1");
    redis.ask("XTRIM s MAXLEN 0");
    let served = served.restarted();
    let mut redis = Redis::connect(tcp(&served.server.redis_addresses()[0]));
    assert_eq!(redis.ask("XLEN s"), ":0\r\n");
    assert_eq!(redis.ask("TYPE s"), "+stream\r\n");
    let last = last.lines().nth(1).unwrap();
    assert!(redis.ask(&format!("XADD s {last} a b")).starts_with("-ERR"), "{last}");
    assert!(redis.ask("XADD t 6-1 a b").starts_with("-ERR"));
    let entry = "*1\r\n*2\r\n$3\r\n5-1\r\n*4\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$0\r\n\r\n";
    assert_eq!(redis.ask("XRANGE t - +"), entry);
}

#[test]
fn a_watched_stream_has_changed_when_its_entries_have() {
    let pool = Pool::new();
    let (mut one, mut two) = (pool.client(), pool.client());
    two.ask("XADD s 1-1 a b");
    for (change, changes) in [
        ("XADD s 2-1 a b", true),
        ("XDEL s 9-9", false),
        ("XDEL s 1-1", true),
        ("XTRIM s MAXLEN 1", false),
        ("XADD s 2-1 a b", false),
        ("XRANGE s - +", false),
        // As in Redis: what a group does changes nothing of the stream.
        ("XGROUP CREATE s g 0", false),
        ("XREADGROUP GROUP g c STREAMS s >", false),
        ("XACK s g 2-1", false),
        ("XTRIM s MAXLEN 0", true),
        ("XADD s NOMKSTREAM 3-1 a b", true),
        ("DEL s", true),
        ("XADD s NOMKSTREAM 3-1 a b", false),
        ("XADD s 1-1 a b", true),
    ] {
        one.ask("WATCH s");
        two.ask(change);
        one.ask("MULTI");
        assert_eq!(one.ask("EXEC"), if changes { "*-1\r\n" } else { "*0\r\n" }, "{change}");
    }
}

#[test]
fn a_trim_that_may_be_approximate_does_bounded_work() {
    let pool = Pool::new();
    let mut client = pool.client();
    (1..=25_050).for_each(|at| drop(client.ask(&format!("XADD s {at}-0 a b"))));
    assert_eq!(client.number("XTRIM s MAXLEN ~ 10"), 10_000);
    assert_eq!(client.number("XTRIM s MINID ~ 10300 LIMIT 1000"), 200);
    assert_eq!(client.number("XTRIM s MAXLEN ~ 0 LIMIT 0"), 14_850);
    assert_eq!(client.number("XLEN s"), 0);
    assert_eq!(client.number("EXISTS s"), 1);
    client.ask("CONFIG SET stream-node-max-entries 10");
    (1..=25).for_each(|at| drop(client.ask(&format!("XADD s 30000-{at} a b"))));
    assert_eq!(client.number("XTRIM s MAXLEN ~ 1"), 20);
}

// ---- groups
// -------------------------------------------------------------------------------------------------

/// What one of a group gets for a new entry `a b`, who waits for it.
#[test]
fn each_entry_is_for_one_of_a_group_and_who_came_first_is_served_first() {
    let (served, address) = serve();
    let mut other = Redis::connect(address);
    for group in ["g", "h"] {
        other.ask(&format!("XGROUP CREATE s {group} $ MKSTREAM"));
    }
    let read = |group: &str, consumer: &str| {
        let request = format!("XREADGROUP GROUP {group} {consumer} BLOCK 0 COUNT 1 STREAMS s >");
        waiting(&served, address, &request)
    };
    let mut of_g = [read("g", "a"), read("g", "b"), read("g", "c")];
    let mut of_h = [read("h", "a"), read("h", "b")];
    let mut reader = waiting(&served, address, "XREAD BLOCK 0 STREAMS s $");
    other.ask("XADD s 1-1 a b");
    reader.expect(one("s", "1-1"));
    of_g[0].expect(one("s", "1-1"));
    of_h[0].expect(one("s", "1-1"));
    wait_until(&served, 3);
    other.ask("MULTI");
    other.ask("XADD s 2-1 a b");
    other.ask("XADD s 3-1 a b");
    other.ask("XADD s 4-1 a b");
    other.ask("EXEC");
    of_g[1].expect(one("s", "2-1"));
    of_g[2].expect(one("s", "3-1"));
    of_h[1].expect(one("s", "2-1"));
    wait_until(&served, 0);
    assert_eq!(other.ask("XREADGROUP GROUP g a STREAMS s >"), one("s", "4-1"));
    let pending = other.ask("XPENDING s g");
    assert!(pending.starts_with("*4\r\n:4\r\n$3\r\n1-1\r\n$3\r\n4-1\r\n*3\r\n"), "{pending}");
}

#[test]
fn many_of_a_group_share_what_comes() {
    const READERS: usize = 8;
    const ENTRIES: usize = 400;
    let (served, address) = serve();
    let mut other = Redis::connect(address);
    other.ask("XGROUP CREATE s g $ MKSTREAM");
    let readers: Vec<_> = (0..READERS)
        .map(|reader| {
            std::thread::spawn(move || {
                let mut redis = Redis::connect(address);
                let mut got = Vec::new();
                loop {
                    let line = format!("XREADGROUP GROUP g c{reader} BLOCK 0 COUNT 3 STREAMS s >");
                    let reply = redis.ask(&line);
                    let ids: Vec<String> =
                        reply.lines().filter(|l| l.ends_with("-7")).map(str::to_owned).collect();
                    assert!(!ids.is_empty(), "{reply}");
                    let acknowledged = redis.ask(&format!("XACK s g {}", ids.join(" ")));
                    assert_eq!(acknowledged, format!(":{}\r\n", ids.len()));
                    let is_last = reply.contains("last");
                    got.extend(ids);
                    if is_last {
                        return got;
                    }
                }
            })
        })
        .collect();
    for at in 1..=ENTRIES {
        other.ask(&format!("XADD s {at}-7 a b"));
    }
    // Each of them ends with an entry of its own.
    for at in 1..=READERS {
        wait_until(&served, (READERS - at + 1) as u64);
        other.ask(&format!("XADD s {}-7 last b", ENTRIES + at));
        wait_until(&served, (READERS - at) as u64);
    }
    let mut all: Vec<String> = readers.into_iter().flat_map(|r| r.join().unwrap()).collect();
    all.sort();
    let mut expected: Vec<String> = (1..=ENTRIES + READERS).map(|at| format!("{at}-7")).collect();
    expected.sort();
    assert_eq!(all, expected);
    assert_eq!(other.ask("XPENDING s g"), "*4\r\n:0\r\n$-1\r\n$-1\r\n*-1\r\n");
}

#[test]
fn who_waits_for_a_group_that_goes_is_told() {
    let (served, address) = serve();
    let mut other = Redis::connect(address);
    let gone = "-UNBLOCKED the stream key no longer exists\r\n";
    for (change, told) in [
        ("DEL s", gone),
        ("SET s x", gone),
        ("RENAME s t", gone),
        ("FLUSHALL", gone),
        ("PEXPIRE s -1", gone),
        (
            "XGROUP DESTROY s g",
            "-NOGROUP the consumer group this client was blocked on no longer exists\r\n",
        ),
    ] {
        other.ask("DEL s t");
        other.ask("XGROUP CREATE s g $ MKSTREAM");
        other.ask("XGROUP CREATE s h $");
        let mut first = waiting(&served, address, "XREADGROUP GROUP g a BLOCK 0 STREAMS s >");
        let mut second = waiting(&served, address, "XREADGROUP GROUP g b BLOCK 0 STREAMS s >");
        let mut reader = waiting(&served, address, "XREAD BLOCK 0 STREAMS s $");
        other.ask(change);
        first.expect(told);
        second.expect(told);
        wait_until(&served, 1);
        other.ask("DEL s");
        other.ask("XADD s 1-1 a b");
        reader.expect(one("s", "1-1"));
        wait_until(&served, 0);
    }
}

#[test]
fn groups_survive_a_restart_a_copy_and_another_name() {
    let (served, address) = serve();
    let mut redis = Redis::connect(address);
    for at in 1..=5 {
        redis.ask(&format!("XADD s {at}-1 a b"));
    }
    redis.ask("XGROUP CREATE s g 0");
    redis.ask("XREADGROUP GROUP g c COUNT 3 STREAMS s >");
    redis.ask("XREADGROUP GROUP g d COUNT 1 STREAMS s >");
    redis.ask("XACK s g 2-1");
    redis.ask("COPY s t");
    let told = |redis: &mut Redis, key: &str| {
        let ends = "- + 10";
        let lines = [
            format!("XPENDING {key} g"),
            format!("XINFO GROUPS {key}"),
            format!("XREADGROUP GROUP g c STREAMS {key} 0"),
            format!("XPENDING {key} g {ends} d"),
        ];
        lines.map(|line| masked(&redis.ask(&line)).replace(&format!("\n{key}\n"), ""))
    };
    let before = told(&mut redis, "s");
    assert_eq!(told(&mut redis, "t"), before);
    let served = served.restarted();
    let mut redis = Redis::connect(tcp(&served.server.redis_addresses()[0]));
    redis.ask("RENAME t u");
    assert_eq!(told(&mut redis, "s"), before);
    assert_eq!(told(&mut redis, "u"), before);
    // A copy's groups are its own.
    redis.ask("XGROUP DESTROY s g");
    redis.ask("XACK u g 1-1");
    assert!(redis.ask("XPENDING u g").starts_with("*4\r\n:2\r\n"));
    assert_eq!(redis.ask("XREADGROUP GROUP g c STREAMS u >"), one("u", "5-1"));
}

#[test]
fn nothing_is_left_of_a_stream_with_groups() {
    let pool = Pool::new();
    let mut client = pool.client();
    let rows = || pool.shared.data.store().tree("everleaf.server").unwrap().len().unwrap();
    let fill = |client: &mut crate::keyspace::Client, key: &str| {
        client.ask(&format!("XGROUP CREATE {key} g 0 MKSTREAM"));
        client.ask(&format!("XGROUP CREATE {key} h 0"));
        (1..=300).for_each(|at| drop(client.ask(&format!("XADD {key} {at}-1 a b"))));
        client.ask(&format!("XREADGROUP GROUP g c COUNT 200 STREAMS {key} >"));
        client.ask(&format!("XREADGROUP GROUP g d STREAMS {key} >"));
        client.ask(&format!("XREADGROUP GROUP h c STREAMS {key} >"));
    };
    client.ask("SET warm x");
    client.ask("DEL warm");
    let empty = rows();
    fill(&mut client, "s");
    // A head, entries, groups, consumers, pending entries twice.
    assert_eq!(rows(), empty + 1 + 300 + 2 + 3 + 2 * 600);
    assert_eq!(client.number("XGROUP DELCONSUMER s g c"), 200);
    assert_eq!(rows(), empty + 1 + 300 + 2 + 2 + 2 * 400);
    assert_eq!(client.number("XGROUP DESTROY s g"), 1);
    assert_eq!(rows(), empty + 1 + 300 + 1 + 1 + 2 * 300);
    assert_eq!(client.number("XTRIM s MAXLEN 100"), 200);
    assert_eq!(rows(), empty + 1 + 100 + 1 + 1 + 2 * 300);
    assert_eq!(client.number("DEL s"), 1);
    fill(&mut client, "t");
    client.ask("COPY t u");
    client.ask("SET u x");
    client.ask("PEXPIRE t -1");
    client.ask("DEL u");
    let sweeper = pool.shared.data.sweep(Duration::from_millis(1));
    let end = Instant::now() + PATIENCE;
    while rows() > empty {
        assert!(Instant::now() < end, "{} rows are left", rows() - empty);
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(sweeper);
}

/// What there is of some streams, all of it.
fn all_of(client: &mut crate::keyspace::Client, keys: [&str; 2]) -> Vec<String> {
    keys.map(|key| client.ask(&format!("XINFO STREAM {key} FULL COUNT 0"))).into()
}

/// The number behind each line with this word.
fn told(reply: &str, word: &str) -> usize {
    let lines: Vec<&str> = reply.lines().collect();
    let numbers = lines.windows(2).filter(|two| two[0] == word);
    numbers.map(|two| two[1][1..].parse::<usize>().unwrap()).sum()
}

/// Whatever is done, a stream says how many rows it has, and a restart changes nothing of it.
#[test]
fn random_commands_leave_the_rows_that_they_tell() {
    let mut pool = Pool::new();
    pool.client().ask("SET warm x");
    pool.client().ask("DEL warm");
    for seed in 0..30 {
        let (mut random, mut client) = (Random(1000 + seed), pool.client());
        client.ask("FLUSHALL");
        pool.sweeps_to(0, &format!("seed {seed}"));
        for at in 0..400 {
            let line = random.command(1 + at / 20);
            client.ask(line.trim_end());
        }
        let all = all_of(&mut client, ["s", "t"]);
        let mut expected = 0;
        for reply in all.iter().filter(|reply| !reply.starts_with('-')) {
            // The group's own number of pending entries, and those of its consumers.
            let pending = told(reply, "pel-count");
            assert_eq!(pending % 2, 0, "seed {seed}: {reply}");
            let consumers = reply.lines().filter(|line| *line == "seen-time").count();
            let groups = reply.lines().filter(|line| *line == "entries-read").count();
            expected += 1 + told(reply, "length") + groups + consumers + pending;
        }
        pool.sweeps_to(expected, &format!("seed {seed}: {all:?}"));
        drop(client);
        pool = pool.again(seed % 2 == 0);
        assert_eq!(all_of(&mut pool.client(), ["s", "t"]), all, "seed {seed}");
    }
}

#[test]
fn streams_with_groups_are_evicted_wholly() {
    let pool = Pool::of(8 << 20);
    pool.shared.data.evict_beyond(u64::MAX);
    let sweeper = pool.shared.data.sweep(Duration::from_millis(5));
    let (mut client, value) = (pool.client(), "v".repeat(1000));
    for key in 0..400 {
        let made = client.ask(&format!("XGROUP CREATE s{key} g 0 MKSTREAM"));
        assert_eq!(made, "+OK\r\n", "{key}");
        for at in 1..=30 {
            // A key may go between two commands.
            let id = client.ask(&format!("XADD s{key} {at}-1 a {value}"));
            assert!(id.starts_with('$'), "{key} {at}: {id}");
        }
        let read = client.ask(&format!("XREADGROUP GROUP g c STREAMS s{key} >"));
        assert!(read.starts_with('*') || read.starts_with("-NOGROUP"), "{read}");
    }
    drop(sweeper);
    client.check();
    let keys = client.number("DBSIZE");
    assert!((20..390).contains(&keys), "{keys} are left");
    // What is there is whole.
    for key in 0..400 {
        let length = client.number(&format!("XLEN s{key}"));
        let shown = client.ask(&format!("XRANGE s{key} - +"));
        assert!(shown.starts_with(&format!("*{length}\r\n")), "{key}");
    }
}

#[test]
fn streams_are_dumped_and_restored() {
    let pool = Pool::new();
    let shared = &pool.shared;
    let mut session = everleaf_server::redis::Session::new(std::sync::Arc::clone(shared));
    let mut ask = |words: &[&[u8]]| {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend(format!("${}\r\n", word.len()).bytes().chain(word.iter().copied()));
            request.extend(b"\r\n");
        }
        let mut out = Vec::new();
        session.serve_long(&request, &mut out);
        out
    };
    let told = |ask: &mut dyn FnMut(&[&[u8]]) -> Vec<u8>, key: &str| {
        ask(&[b"XINFO", b"STREAM", key.as_bytes(), b"FULL", b"COUNT", b"0"])
    };
    for line in [
        "XADD s 1-1 a b",
        "XADD s 2-1 c d e f",
        "XADD s 3-1 a b",
        "XADD s 4-1 a b",
        "XDEL s 2-1",
        "XGROUP CREATE s g 0",
        "XGROUP CREATE s h $ ENTRIESREAD 7",
        "XGROUP CREATECONSUMER s g none",
        "XREADGROUP GROUP g c COUNT 2 STREAMS s >",
        "XCLAIM s g d 0 3-1 TIME 1000 RETRYCOUNT 5",
        "XREADGROUP GROUP h c STREAMS s 0",
        "XGROUP CREATE empty g $ MKSTREAM",
    ] {
        let reply = ask(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        assert_ne!(reply[0], b'-', "{line}");
    }
    for key in ["s", "empty"] {
        let reply = ask(&[b"DUMP", key.as_bytes()]);
        let head = reply.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        let payload = &reply[head..reply.len() - 2];
        assert_eq!(ask(&[b"RESTORE", b"t", b"0", payload, b"REPLACE"]), b"+OK\r\n");
        assert_eq!(told(&mut ask, "t"), told(&mut ask, key));
        // What is sealed and lies is refused, or it is another stream, but whole.
        let told_of = &payload[..payload.len() - 4];
        for at in 5..told_of.len() - 4 {
            for bit in [1, 0x80] {
                let mut other = told_of.to_vec();
                other[at] ^= bit;
                let sum = crc32c::crc32c(&other).to_le_bytes();
                let reply = ask(&[b"RESTORE", b"u", b"0", &[&other[..], &sum].concat()]);
                let there = ask(&[b"EXISTS", b"u"]) == b":1\r\n";
                assert_eq!(reply == b"+OK\r\n", there, "{at} {}", reply.escape_ascii());
                if there {
                    assert_eq!(told(&mut ask, "u")[0], b'*');
                    assert_eq!(ask(&[b"DEL", b"u"]), b":1\r\n");
                }
            }
        }
    }
    assert_eq!(told(&mut ask, "t")[0], b'*');
}

// ---- Redis itself
// -------------------------------------------------------------------------------------------------

/// A reply without times, and without what Redis tells of its own nodes.
fn masked(reply: &str) -> String {
    const TIMED: [&str; 4] = ["idle", "seen-time", "radix-tree-keys", "radix-tree-nodes"];
    let lines: Vec<&str> = reply.lines().collect();
    let is_number = |at: usize| lines.get(at).is_some_and(|line| line.starts_with(':'));
    let shown = lines.iter().enumerate().map(|(at, line)| {
        let is_timed = at > 0 && TIMED.contains(&lines[at - 1]);
        // A time stands before a number of deliveries.
        if is_timed || is_number(at) && is_number(at + 1) { "#" } else { line }
    });
    shown.collect::<Vec<_>>().join("\n")
}

/// Numbers from a seed (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    fn of<'t>(&mut self, words: &[&'t str]) -> &'t str {
        words[self.below(words.len() as u64) as usize]
    }

    /// An id that may be there, of what was added up to a time.
    fn id(&mut self, time: u64) -> String {
        format!("{}-{}", self.below(time + 2), self.below(3))
    }

    fn end(&mut self, time: u64, end: &str) -> String {
        match self.below(6) {
            0 | 1 => end.to_owned(),
            2 => format!("({}", self.id(time)),
            3 => self.below(time + 2).to_string(),
            _ => self.id(time),
        }
    }

    fn ids(&mut self, time: u64) -> String {
        let ids: Vec<String> = (0..=self.below(4)).map(|_| self.id(time)).collect();
        ids.join(" ")
    }

    /// A command; ids are added up to `time`.
    fn command(&mut self, time: u64) -> String {
        let (key, group) = (self.of(&["s", "s", "s", "t"]), self.of(&["g", "g", "h"]));
        let (consumer, count) = (self.of(&["a", "b", "c"]), self.below(4));
        let trim = match self.below(12) {
            0 => format!("MAXLEN {} ", self.below(30)),
            1 => format!("MINID = {} ", self.id(time)),
            2 => "MAXLEN ~ 1000 ".to_owned(),
            _ => String::new(),
        };
        let counted = if self.below(2) == 0 { format!("COUNT {count} ") } else { String::new() };
        let (from, to) = (self.end(time, "-"), self.end(time, "+"));
        let idle = self.of(&["0", "0", "1000000"]);
        match self.below(30) {
            0..=7 => {
                let id = format!("{time}-{}", self.of(&["*", "*", "0", "1", "2"]));
                format!("XADD {key} {trim}{id} f{count} {time}")
            }
            8 => format!("XRANGE {key} {from} {to}"),
            9 => format!("XREVRANGE {key} {to} {from} {counted}"),
            10 => format!("XDEL {key} {}", self.ids(time)),
            11 if self.below(4) == 0 => format!("XTRIM {key} MAXLEN {}", self.below(20)),
            11 => format!("XTRIM {key} MINID {}", self.id(time / 2)),
            12 => format!("XREAD {counted}STREAMS s t {} {}", self.id(time), self.id(time)),
            13 => {
                format!("XGROUP CREATE {key} {group} {} {}", self.of(&["0", "$", "3"]), "MKSTREAM")
            }
            14 if self.below(3) == 0 => format!("XGROUP DESTROY {key} {group}"),
            14 => format!("XGROUP CREATECONSUMER {key} {group} {consumer}"),
            15 if self.below(3) == 0 => format!("XGROUP DELCONSUMER {key} {group} {consumer}"),
            15 => format!("XGROUP SETID {key} {group} {}", self.id(time)),
            16..=18 => {
                let noack = self.of(&["", "", "NOACK "]);
                format!("XREADGROUP GROUP {group} {consumer} {counted}{noack}STREAMS {key} >")
            }
            19 => format!("XREADGROUP GROUP g {consumer} {counted}STREAMS {key} {}", self.id(time)),
            20 => format!("XACK {key} {group} {}", self.ids(time)),
            21 => format!("XPENDING {key} {group}"),
            22 => format!("XPENDING {key} {group} IDLE {idle} {from} {to} {count}"),
            23 => format!("XPENDING {key} {group} {from} {to} {count} {consumer}"),
            24 => {
                let option = self.of(&["", "TIME 1000", "FORCE", "JUSTID", "FORCE RETRYCOUNT 3"]);
                let last = self.of(&["", "", "LASTID 4-1"]);
                let ids = self.ids(time);
                format!("XCLAIM {key} {group} {consumer} {idle} {ids} {option} {last}")
            }
            25 => {
                let just = self.of(&["", "JUSTID"]);
                let count = count + 1;
                format!("XAUTOCLAIM {key} {group} {consumer} {idle} {from} COUNT {count} {just}")
            }
            26 => format!("XINFO GROUPS {key}"),
            27 => format!("XINFO STREAM {key} FULL COUNT {}", self.below(4)),
            28 => format!("XINFO CONSUMERS {key} {group}"),
            29 if self.below(8) == 0 => format!("DEL {key}"),
            29 if self.below(8) == 0 => "COPY s t REPLACE".to_owned(),
            29 if self.below(4) == 0 => {
                format!("XSETID {key} {time}-9 ENTRIESADDED 500 MAXDELETEDID 1-1")
            }
            _ => format!("XINFO STREAM {key}"),
        }
    }
}

#[test]
fn random_commands_about_streams_are_answered_as_redis_answers_them() {
    let Some(stock) = redis_server() else { return };
    let (_served, address) = serve();
    let (mut ours, mut theirs) = (Redis::connect(address), Redis::connect(stock.address));
    for seed in 0..20 {
        let mut random = Random(seed);
        let greeting = format!("HELLO {}", 2 + seed % 2);
        for line in [&greeting[..], "FLUSHALL"] {
            for redis in [&mut ours, &mut theirs] {
                redis.ask(line);
            }
        }
        let mut lines = Vec::new();
        for at in 0..600 {
            let line = random.command(1 + at / 20);
            lines.push(line.clone());
            let (ours, theirs) = (masked(&ours.ask(&line)), masked(&theirs.ask(&line)));
            if ours != theirs {
                panic!("seed {seed}: {}\n{ours}\ninstead of\n{theirs}", lines.join("\n"));
            }
        }
        for line in ["XINFO STREAM s FULL COUNT 0", "XINFO STREAM t FULL COUNT 0"] {
            let (ours, theirs) = (masked(&ours.ask(line)), masked(&theirs.ask(line)));
            assert_eq!(ours, theirs, "seed {seed}: {}", lines.join("\n"));
        }
    }
}
