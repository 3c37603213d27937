//! Redis' protocol: the same commands to our server and, where it is installed, to Redis itself.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use everleaf::Clock;
use everleaf_server::ServeOptions;

use crate::common::{Client, PATIENCE, Served, options, tcp};
use crate::stock::{installed, python, redis_server, succeeds};

const COMMANDS: &str = include_str!("redis.commands");

/// A connection that reads whole replies.
pub struct Redis {
    pub stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Redis {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let reader = BufReader::new(stream.try_clone().unwrap());
        Self { stream, reader }
    }

    /// The bytes of the reply to a line.
    pub fn ask(&mut self, line: &str) -> String {
        self.send(line);
        self.next()
    }

    /// Sends a line.
    pub fn send(&mut self, line: &str) {
        self.stream.write_all(format!("{line}\r\n").as_bytes()).unwrap();
    }

    /// The bytes of the next reply or message.
    pub fn next(&mut self) -> String {
        let mut reply = Vec::new();
        self.reply(&mut reply);
        String::from_utf8_lossy(&reply).into_owned()
    }

    /// Whether the server has closed the connection, behind what it has sent.
    pub fn is_closed(&mut self) -> bool {
        matches!(self.reader.read(&mut [0]), Ok(0) | Err(_))
    }

    /// The bytes of the reply to words of any bytes.
    pub fn ask_bytes(&mut self, words: &[&[u8]]) -> Vec<u8> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(&[word, &b"\r\n"[..]].concat());
        }
        self.stream.write_all(&request).unwrap();
        let mut reply = Vec::new();
        self.reply(&mut reply);
        reply
    }

    fn reply(&mut self, reply: &mut Vec<u8>) {
        let start = reply.len();
        assert!(self.reader.read_until(b'\n', reply).unwrap() > 0, "the connection was closed");
        let head = String::from_utf8_lossy(&reply[start..]).trim_end().to_owned();
        let number = head[1..].parse::<i64>().unwrap_or(0);
        match head.as_bytes()[0] {
            b'$' | b'=' if number >= 0 => {
                let mut bulk = vec![0; number as usize + 2];
                self.reader.read_exact(&mut bulk).unwrap();
                reply.extend_from_slice(&bulk);
            }
            b'*' | b'~' | b'>' => (0..number).for_each(|_| self.reply(reply)),
            b'%' => (0..2 * number).for_each(|_| self.reply(reply)),
            _ => {}
        }
    }
}

fn redis_options() -> ServeOptions {
    ServeOptions { redis: vec!["127.0.0.1:0".parse().unwrap()], ..options() }
}

pub fn serve() -> (Served, SocketAddr) {
    let served = Served::with(redis_options(), Clock::system());
    let address = tcp(&served.server.redis_addresses()[0]);
    (served, address)
}

/// A reply without what Redis finds out by and by: the mean time that keys have.
fn settled(reply: &str) -> &str {
    let Some((told, _)) = reply.split_once(",avg_ttl=") else { return reply };
    told.split_once('\n').map_or(told, |(_, lines)| lines)
}

#[test]
fn commands_are_answered_as_redis_answers_them() {
    let Some(stock) = redis_server() else { return };
    let (_served, address) = serve();
    let mut different = Vec::new();
    for greeting in ["HELLO 2", "HELLO 3"] {
        let (mut ours, mut theirs) = (Redis::connect(address), Redis::connect(stock.address));
        for redis in [&mut ours, &mut theirs] {
            redis.ask(greeting);
            redis.ask("FLUSHALL");
        }
        for line in COMMANDS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (ours, theirs) = (ours.ask(line), theirs.ask(line));
            if settled(&ours) != settled(&theirs) {
                different.push(format!("{greeting}: {line}: {ours:?} instead of {theirs:?}"));
            }
        }
    }
    assert!(different.is_empty(), "{different:#?}");
}

/// Words that stand for numbers, in many forms, from a seed.
struct Numbers(u64);

impl Numbers {
    /// A number below another one (splitmix64).
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    fn word(&mut self) -> String {
        const ODD: [&str; 12] = [
            "inf",
            "-infinity",
            "nan",
            "1e4932",
            "-1e4932",
            "1e-4951",
            "1e-5000",
            "0x",
            "1e",
            ".",
            "5e-18",
            "0x1p-16446",
        ];
        let sign = ["", "", "-", "+"][self.below(4) as usize];
        let bits = self.below(64);
        let (whole, part) = (self.below(u64::MAX) >> bits, self.below(u64::MAX) >> bits);
        let (zeros, power) = (self.below(20) as usize, self.below(80) as i64 - 40);
        match self.below(8) {
            0 => format!("{sign}{whole}"),
            1 => format!("{sign}{whole}.{part}"),
            2 => format!("{sign}{}.{:02}", whole % 1_000_000, part % 100),
            3 => format!("{sign}0.{}{part}", "0".repeat(zeros)),
            4 => format!("{sign}{whole}e{}", power * 100),
            5 => format!("{sign}0x{whole:x}"),
            6 => format!("{sign}0x{whole:x}.{part:x}p{power}"),
            _ => ODD[self.below(ODD.len() as u64) as usize].to_owned(),
        }
    }
}

#[test]
fn sums_of_random_floats_are_those_of_redis() {
    let Some(stock) = redis_server() else { return };
    let (_served, address) = serve();
    let (mut ours, mut theirs) = (Redis::connect(address), Redis::connect(stock.address));
    let seed = 0x5eed;
    let mut numbers = Numbers(seed);
    for _ in 0..100 {
        let (a, b) = (numbers.word(), numbers.word());
        let lines = [
            "DEL n h z".to_owned(),
            format!("SET n {a}"),
            format!("INCRBYFLOAT n {b}"),
            format!("HSET h f {a}"),
            format!("HINCRBYFLOAT h f {b}"),
            format!("ZADD z {a} m"),
            format!("ZCOUNT z {b} inf"),
        ];
        let [ours, theirs] = [&mut ours, &mut theirs].map(|redis| {
            redis.stream.write_all((lines.join("\r\n") + "\r\n").as_bytes()).unwrap();
            let mut replies = Vec::new();
            lines.iter().for_each(|_| redis.reply(&mut replies));
            String::from_utf8(replies).unwrap()
        });
        assert_eq!(ours, theirs, "{a} and {b}, seed {seed}");
    }
}

/// Fields of a hash and strings until neither fits any more; how many strings and fields.
fn fill(redis: &mut Redis) -> (usize, usize) {
    let long = "x".repeat(1000);
    let short = "x".repeat(60);
    let early = 200;
    for n in 0..early {
        redis.ask(&format!("HSET hash field{n} {short}"));
    }
    let keys = (0..).find(|n| redis.ask(&format!("SET key{n} {long}")) != "+OK\r\n").unwrap();
    let fields =
        (early..).find(|n| redis.ask(&format!("HSET hash field{n} {short}")) != ":1\r\n").unwrap();
    assert!((0..).any(|n| redis.ask(&format!("SET more{n} x")) != "+OK\r\n"));
    (keys, fields)
}

/// The sweep gives the room back.
fn wait_for_room(redis: &mut Redis) {
    let end = std::time::Instant::now() + PATIENCE;
    while redis.ask(&format!("SET again {}", "x".repeat(50_000))) != "+OK\r\n" {
        assert!(std::time::Instant::now() < end, "no room comes back");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_full_pool_takes_what_makes_room() {
    if crate::common::cluster::is_wanted() {
        return; // A node of a cluster keeps half of so small a pool free.
    }
    for bytes in [1 << 20, 4 << 20] {
        let served = Served::sized(redis_options(), Clock::system(), bytes, bytes);
        let mut redis = Redis::connect(tcp(&served.server.redis_addresses()[0]));
        let mut memcached = served.memcached();
        for command in ["FLUSHALL", "flush_all", "FLUSHDB", "DEL hash"] {
            let (keys, fields) = fill(&mut redis);
            assert!(keys > 400 && fields > 10, "{keys} keys, {fields} fields before {command}");
            for key in [3, 300] {
                assert_eq!(redis.ask(&format!("EXPIRE key{key} 1000")), ":1\r\n");
                memcached.ask(format!("touch key{key} 1000\r\n"), "TOUCHED\r\n");
                let value = "y".repeat(1000);
                memcached.ask(format!("set key{key} 0 0 1000\r\n{value}\r\n"), "STORED\r\n");
            }
            assert_eq!(redis.ask(&format!("HSET hash field{} y", fields - 1)), ":0\r\n");
            memcached.ask("flush_all 1000\r\n", "OK\r\n");
            match command {
                "flush_all" => memcached.ask("flush_all\r\n", "OK\r\n"),
                "DEL hash" => {
                    assert_eq!(redis.ask(command), ":1\r\n");
                    assert_eq!(redis.ask("EXISTS hash"), ":0\r\n");
                    assert_eq!(redis.ask("HLEN hash"), ":0\r\n");
                    assert_eq!(redis.ask("DEL key7"), ":1\r\n");
                    continue;
                }
                _ => assert_eq!(redis.ask(command), "+OK\r\n"),
            }
            assert_eq!(redis.ask("DBSIZE"), ":0\r\n");
            wait_for_room(&mut redis);
            assert_eq!(redis.ask("FLUSHALL"), "+OK\r\n");
        }
    }
}

#[test]
fn both_protocols_see_the_same_keys() {
    let (served, address) = serve();
    let (mut redis, mut memcached) = (Redis::connect(address), served.memcached());
    assert_eq!(redis.ask("SET a 1"), "+OK\r\n");
    memcached.ask("incr a 5\r\n", "6\r\n");
    assert_eq!(redis.ask("GET a"), "$1\r\n6\r\n");
    redis.ask("HSET h f v");
    memcached.ask("get h\r\nadd h 0 0 1\r\nx\r\n", "END\r\nNOT_STORED\r\n");
    redis.ask("SELECT 1");
    redis.ask("SET b 1");
    memcached.ask("get b\r\n", "END\r\n");
}

#[test]
fn collections_expire_are_renamed_and_survive_a_restart() {
    let clock = Clock::manual(1_700_000_000_000);
    let served = Served::with(redis_options(), clock.clone());
    let mut redis = Redis::connect(tcp(&served.server.redis_addresses()[0]));
    redis.ask("HSET h a 1 b 2");
    redis.ask("ZADD z 1 a -inf b 1 c");
    redis.ask("RPUSH l 1 2 3");
    redis.ask("RENAME h g");
    redis.ask("EXPIRE l 10");
    let served = served.restarted();
    let mut redis = Redis::connect(tcp(&served.server.redis_addresses()[0]));
    assert_eq!(redis.ask("HMGET g a b"), "*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
    assert_eq!(redis.ask("ZRANGE z 0 -1"), "*3\r\n$1\r\nb\r\n$1\r\na\r\n$1\r\nc\r\n");
    assert_eq!(redis.ask("TTL l"), ":10\r\n");
    clock.advance(Duration::from_secs(10));
    assert_eq!(redis.ask("LLEN l"), ":0\r\n");
    assert_eq!(redis.ask("RPUSH l 9"), ":1\r\n");
    assert_eq!(redis.ask("LRANGE l 0 -1"), "*1\r\n$1\r\n9\r\n");
}

#[test]
fn a_transaction_that_watches_a_changed_key_does_nothing() {
    let (served, address) = serve();
    let (mut one, mut two) = (Redis::connect(address), Redis::connect(address));
    for change in ["SET w 1", "HSET h f 1", "HSET h f 2", "DEL w"] {
        one.ask("WATCH w h");
        assert_eq!(one.ask("MULTI"), "+OK\r\n");
        assert_eq!(one.ask("SET x 1"), "+QUEUED\r\n");
        two.ask(change);
        assert_eq!(one.ask("EXEC"), "*-1\r\n", "{change}");
    }
    two.ask("SADD s1 a b");
    two.ask("SADD s2 a");
    for (change, outcome) in [("SMOVE s1 s2 a", "*0\r\n"), ("SMOVE s1 s2 b", "*-1\r\n")] {
        one.ask("WATCH s2");
        two.ask(change);
        one.ask("MULTI");
        assert_eq!(one.ask("EXEC"), outcome, "{change}");
    }
    one.ask("WATCH w");
    served.memcached().ask("set w 0 0 1\r\nx\r\n", "STORED\r\n");
    one.ask("MULTI");
    assert_eq!(one.ask("EXEC"), "*-1\r\n");
    assert_eq!(one.ask("GET x"), "$-1\r\n");
}

#[test]
fn a_watched_key_that_expires_or_is_flushed_has_changed() {
    let clock = Clock::manual(1_700_000_000_000);
    let served = Served::with(redis_options(), clock.clone());
    let address = tcp(&served.server.redis_addresses()[0]);
    let (mut one, mut two) = (Redis::connect(address), Redis::connect(address));
    one.ask("SET w 1 EX 10");
    for (watched, change, outcome) in [
        ("w", "PING", "*1\r\n+PONG\r\n"),
        ("w absent", "EXPIRE", "*-1\r\n"),
        ("w absent", "FLUSHALL", "*1\r\n+PONG\r\n"),
        ("w absent", "SET w 1", "*-1\r\n"),
        ("w absent", "SELECT 1", "*1\r\n+PONG\r\n"),
        ("w absent", "FLUSHDB", "*1\r\n+PONG\r\n"),
        ("absent w", "FLUSHALL", "*-1\r\n"),
    ] {
        one.ask(&format!("WATCH {watched}"));
        if change == "EXPIRE" {
            clock.advance(Duration::from_secs(10));
        } else {
            two.ask(change);
        }
        one.ask("MULTI");
        one.ask("PING");
        assert_eq!(one.ask("EXEC"), outcome, "{watched} {change}");
    }
}

#[test]
fn a_flush_in_a_transaction_that_fails_empties_nothing() {
    let served = Served::sized(redis_options(), Clock::system(), 1 << 20, 1 << 20);
    let mut redis = Redis::connect(tcp(&served.server.redis_addresses()[0]));
    redis.ask("SET here 1");
    redis.ask("MULTI");
    redis.ask("FLUSHALL");
    let long = "v".repeat(50_000);
    (0..40).for_each(|at| drop(redis.ask(&format!("SET long{at} {long}"))));
    let outcome = redis.ask("EXEC");
    assert!(outcome.starts_with("-OOM"), "{outcome}");
    assert_eq!(redis.ask("GET here"), "$1\r\n1\r\n");
}

#[test]
fn deleted_collections_give_their_room_back() {
    let (served, address) = serve();
    let mut redis = Redis::connect(address);
    let rows = || {
        let shared = served.shared();
        shared.data.wait_for_store();
        shared.data.store().tree("everleaf.server").unwrap()
    };
    let empty = rows().len().unwrap();
    for i in 0..20 {
        let fields: String = (0..100).map(|f| format!(" {i}-{f} v")).collect();
        redis.ask(&format!("HSET big{fields}"));
    }
    let keys = || rows().len().unwrap();
    let full = keys();
    assert!(full > 2000, "{full}");
    assert_eq!(redis.ask("DEL big"), ":1\r\n");
    let begun = std::time::Instant::now();
    while keys() > empty + 10 {
        assert!(begun.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn all_keys_are_scanned_once() {
    let (_served, address) = serve();
    let mut redis = Redis::connect(address);
    let pairs: String = (0..500).map(|i| format!(" key{i} v")).collect();
    redis.ask(&format!("MSET{pairs}"));
    let (mut cursor, mut found) = ("0".to_owned(), std::collections::HashSet::new());
    loop {
        let reply = redis.ask(&format!("SCAN {cursor} COUNT 7 MATCH key*"));
        let words: Vec<&str> = reply.lines().collect();
        cursor = words[2].to_owned();
        let keys = words[4..].iter().filter(|word| word.starts_with("key"));
        keys.for_each(|key| assert!(found.insert(key.to_string()), "{key} came twice"));
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(found.len(), 500);
    assert!(redis.ask("SCAN 987654321").starts_with("-ERR invalid cursor"));
}

#[test]
fn who_has_no_password_is_refused() {
    let options = ServeOptions { redis_password: Some(b"secret".to_vec()), ..redis_options() };
    let served = Served::with(options, Clock::system());
    let mut redis = Redis::connect(tcp(&served.server.redis_addresses()[0]));
    assert!(redis.ask("GET a").starts_with("-NOAUTH"));
    assert!(redis.ask("HELLO 3").starts_with("-NOAUTH"));
    assert!(redis.ask("AUTH wrong").starts_with("-WRONGPASS"));
    assert_eq!(redis.ask("AUTH secret"), "+OK\r\n");
    assert_eq!(redis.ask("GET a"), "$-1\r\n");
}

#[test]
fn what_is_no_request_closes_the_connection() {
    let (_served, address) = serve();
    for (wrong, reply) in [
        ("*1\r\n$536870913\r\n", "-ERR Protocol error: invalid bulk length\r\n"),
        ("*x\r\n", "-ERR Protocol error: invalid multibulk length\r\n"),
        ("*1\r\nx\r\n", "-ERR Protocol error: expected '$', got 'x'\r\n"),
    ] {
        let mut client = Client::connect(address);
        client.send(wrong);
        assert_eq!(client.rest(), reply.as_bytes());
    }
}

#[test]
fn a_million_pipelined_commands_are_answered() {
    let (_served, address) = serve();
    let mut client = Client::connect(address);
    let mut writer = client.stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || {
        let some = "*1\r\n$4\r\nPING\r\n".repeat(10_000);
        (0..100).for_each(|_| writer.write_all(some.as_bytes()).unwrap());
    });
    let some = "+PONG\r\n".repeat(10_000);
    (0..100).for_each(|_| client.expect(&some));
    writing.join().unwrap();
}

/// Arrays, lines, quoted words, requests for nothing, what waits and what is refused, cut anywhere.
#[test]
fn a_pipeline_of_all_kinds_of_requests_is_answered_in_order() {
    let (_served, address) = serve();
    let mut client = Client::connect(address);
    let (mut asked, mut told) = (Vec::new(), Vec::new());
    for number in 0..400 {
        let (request, reply) = match number % 7 {
            0 => (format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3\r\n{number:03}\r\n"), "+OK\r\n".into()),
            1 => ("GET k\r\n".into(), format!("$3\r\n{:03}\r\n", number - 1)),
            2 => (format!("ECHO \"{number} \\x41\"\r\n"), {
                let echoed = format!("{number} A");
                format!("${}\r\n{echoed}\r\n", echoed.len())
            }),
            3 => ("\r\n*0\r\n".into(), String::new()),
            4 => ("BLPOP nothing 0.001\r\n".into(), "*-1\r\n".into()),
            5 => ("*2\r\n$3\r\nSET\r\n$1\r\nk\r\n".into(), {
                "-ERR wrong number of arguments for 'set' command\r\n".into()
            }),
            _ => ("*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n".into(), format!(":{}\r\n", number / 7 + 1)),
        };
        asked.extend(request.into_bytes());
        told.extend(reply.into_bytes());
    }
    client.ask(&asked, &told);
    for bytes in [1, 7, 100, 1000] {
        client.ask("DEL n\r\n", ":1\r\n");
        asked.chunks(bytes).for_each(|part| client.send(part));
        client.expect(&told);
    }
}

#[test]
fn stock_clients_of_redis_work() {
    let (_served, address) = serve();
    let port = address.port().to_string();
    if installed("redis-cli") {
        let said = succeeds(Command::new("redis-cli").args(["-p", &port, "SET", "a", "1"]));
        assert_eq!(said.trim(), "OK");
        succeeds(Command::new("redis-cli").args(["-3", "-p", &port, "HSET", "h", "f", "v"]));
    }
    if installed("redis-benchmark") {
        let arguments = ["-p", &port, "-n", "2000", "-P", "8", "-q"];
        let tests = "ping,set,get,incr,lpush,rpush,lpop,rpop,sadd,hset,spop,zadd,zpopmin,mset,\
                     lrange_100";
        let said = succeeds(Command::new("redis-benchmark").args(arguments).args(["-t", tests]));
        assert!(said.contains("LRANGE") && !said.contains("Error"), "{said}");
    }
}

#[test]
fn redis_py_works() {
    const PROGRAM: &str = "
import sys, redis
for protocol in (2, 3):
    r = redis.Redis(port=int(sys.argv[1]), protocol=protocol, decode_responses=True)
    r.flushall()
    assert r.set('a', 'x', ex=100) and r.get('a') == 'x' and 0 < r.ttl('a') <= 100
    assert r.hset('h', mapping={'f': 1, 'g': 2}) == 2 and r.hgetall('h') == {'f': '1', 'g': '2'}
    assert r.sadd('s', 1, 2, 3) == 3 and r.smembers('s') == {'1', '2', '3'}
    r.zadd('z', {'a': 1.5, 'b': 2})
    assert r.zrange('z', 0, -1, withscores=True) in (
        [('a', 1.5), ('b', 2.0)], [['a', 1.5], ['b', 2.0]])
    r.rpush('l', 1, 2, 3)
    assert r.lrange('l', 0, -1) == ['1', '2', '3']
    with r.pipeline(transaction=True) as p:
        assert p.incr('n').incr('n').get('n').execute() == [1, 2, '2']
    assert sorted(r.scan_iter()) == ['a', 'h', 'l', 'n', 's', 'z']
    assert r.info()['redis_mode'] == 'standalone' and r.dbsize() == 6
    assert r.config_get('save') == {'save': ''}
";
    let Some(python) = python("redis") else { return };
    let (_served, address) = serve();
    let port = address.port().to_string();
    succeeds(Command::new(python).args(["-c", PROGRAM, &port]));
}

/// The payload of a key.
fn dump(redis: &mut Redis, key: &str) -> Vec<u8> {
    let reply = redis.ask_bytes(&[b"DUMP", key.as_bytes()]);
    let head = reply.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    reply[head..reply.len() - 2].to_vec()
}

#[test]
fn keys_are_dumped_and_restored() {
    let clock = Clock::manual(1_700_000_000_000);
    let served = Served::with(redis_options(), clock.clone());
    let mut redis = Redis::connect(tcp(&served.server.redis_addresses()[0]));
    for line in ["SET string 1", "SET empty \"\"", "HSET hash a 1 b \"\"", "SADD set x y z"] {
        redis.ask(line);
    }
    redis.ask("ZADD zset 1 a -inf b 1 c");
    redis.ask("RPUSH list 1 2 1 \"\"");
    let show = |redis: &mut Redis, key: &str| {
        let (kind, ranges) = (redis.ask(&format!("TYPE {key}")), ["HGETALL", "SMEMBERS", "GET"]);
        let ranges = ranges.map(|command| redis.ask(&format!("{command} {key}")));
        let ends = ["LRANGE", "ZRANGE"].map(|command| redis.ask(&format!("{command} {key} 0 -1")));
        (kind, ranges, ends, redis.ask(&format!("ZRANGE {key} 0 -1 WITHSCORES")))
    };
    for key in ["string", "empty", "hash", "set", "zset", "list"] {
        let payload = dump(&mut redis, key);
        let restore = |redis: &mut Redis, to: &str, ttl: &str, payload: &[u8], option: &[&[u8]]| {
            let words = [b"RESTORE", to.as_bytes(), ttl.as_bytes(), payload];
            String::from_utf8(redis.ask_bytes(&[&words, option].concat())).unwrap()
        };
        assert_eq!(restore(&mut redis, "copy", "5000", &payload, &[]), "+OK\r\n", "{key}");
        assert_eq!(show(&mut redis, "copy"), show(&mut redis, key));
        assert_eq!(redis.ask("PTTL copy"), ":5000\r\n");
        assert!(restore(&mut redis, "copy", "0", &payload, &[]).starts_with("-BUSYKEY"));
        assert_eq!(restore(&mut redis, "copy", "0", &payload, &[b"REPLACE"]), "+OK\r\n");
        assert_eq!(redis.ask("PTTL copy"), ":-1\r\n");
        assert_eq!(dump(&mut redis, "copy"), payload);
        // A moment that is over.
        let over: &[&[u8]] = &[b"REPLACE", b"ABSTTL"];
        assert_eq!(restore(&mut redis, "copy", "1000", &payload, over), "+OK\r\n");
        assert_eq!(redis.ask("EXISTS copy"), ":0\r\n");
        let wrong = "-ERR DUMP payload version or checksum are wrong\r\n";
        for at in 0..payload.len() {
            assert_eq!(restore(&mut redis, "copy", "0", &payload[..at], &[]), wrong, "{key} {at}");
            let mut other = payload.clone();
            other[at] ^= 1;
            assert_eq!(restore(&mut redis, "copy", "0", &other, &[]), wrong, "{key} {at}");
        }
        redis.ask("DEL copy");
        let bytes = redis.ask(&format!("MEMORY USAGE {key}"));
        let bytes: u64 = bytes[1..].trim_end().parse().unwrap();
        assert!(bytes > payload.len() as u64, "{bytes}");
        clock.advance(Duration::from_millis(1));
    }
}

#[test]
fn payloads_that_lie_are_refused() {
    let (_served, address) = serve();
    let mut redis = Redis::connect(address);
    let sealed = |kind: u8, body: &[u8]| {
        let told = [&[kind, 0, 0, 0, 0], body, b"elv\x01"].concat();
        [&told[..], &crc32c::crc32c(&told).to_le_bytes()].concat()
    };
    let entry = |bytes: &[u8]| [&(bytes.len() as u32).to_le_bytes()[..], bytes].concat();
    let two = [entry(b"a"), entry(b"a")].concat();
    let nan = [entry(b"a"), entry(&[0xff; 8])].concat();
    let short = [entry(b"a"), entry(&[0x80; 7])].concat();
    let long = [&[255, 255, 255, 255][..], b"a"].concat();
    for (kind, body) in [
        (0, &b"x"[..]),
        (9, b"x"),
        (2, &entry(b"odd")),
        (2, &[two.clone(), two.clone()].concat()),
        (3, &two),
        (3, b""),
        (3, b"\x01"),
        (5, &long),
        (4, &nan),
        (4, &short),
        (3, &entry(&[b'x'; 65_500])),
    ] {
        let payload = sealed(kind, body);
        let reply = redis.ask_bytes(&[b"RESTORE", b"k", b"0", &payload]);
        assert_eq!(reply[0], b'-', "{kind} {}", body.escape_ascii());
        assert_eq!(redis.ask("EXISTS k"), ":0\r\n");
    }
    let reply = redis.ask_bytes(&[b"RESTORE", b"k", b"0", &sealed(5, &two)]);
    assert_eq!(reply, b"+OK\r\n");
    assert_eq!(redis.ask("LRANGE k 0 -1"), "*2\r\n$1\r\na\r\n$1\r\na\r\n");
}

#[test]
fn slow_commands_are_kept_without_passwords() {
    let (_served, address) = serve();
    let mut redis = Redis::connect(address);
    redis.ask("CLIENT SETNAME me");
    assert_eq!(redis.ask("CONFIG SET slowlog-log-slower-than 0 slowlog-max-len 2"), "+OK\r\n");
    redis.ask("SET a 1");
    redis.ask("AUTH secret");
    let got = redis.ask("SLOWLOG GET");
    let peer = redis.stream.local_addr().unwrap().to_string();
    assert!(got.starts_with("*2\r\n*6\r\n:1\r\n") && got.contains("$2\r\nme\r\n"), "{got}");
    assert!(got.contains("*3\r\n$3\r\nSET\r\n") && got.contains(&peer), "{got}");
    assert!(!got.contains("secret"), "{got}");
    assert_eq!(redis.ask("CONFIG SET slowlog-log-slower-than -1"), "+OK\r\n");
    assert_eq!(redis.ask("SLOWLOG LEN"), ":2\r\n");
}

/// A number that INFO tells.
fn told(redis: &mut Redis, name: &str) -> u64 {
    let said = redis.ask("INFO stats");
    let line = said.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.unwrap_or_else(|| panic!("no {name} in {said}")).parse().unwrap()
}

#[test]
fn keys_that_are_found_missed_and_expired_are_counted() {
    let clock = Clock::manual(1_700_000_000_000);
    let served = Served::with(redis_options(), clock.clone());
    let mut redis = Redis::connect(tcp(&served.server.redis_addresses()[0]));
    for line in ["SET a 1 PX 5", "GET a", "GET none", "MGET a none a", "EXISTS a", "HGET h f"] {
        redis.ask(line);
    }
    redis.ask("INCR n");
    assert_eq!(told(&mut redis, "keyspace_hits"), 4);
    assert_eq!(told(&mut redis, "keyspace_misses"), 3);
    clock.advance(Duration::from_millis(5));
    let end = std::time::Instant::now() + PATIENCE;
    while told(&mut redis, "expired_keys") != 1 {
        assert!(std::time::Instant::now() < end, "nothing expires");
        std::thread::sleep(Duration::from_millis(10));
    }
    redis.ask("CONFIG RESETSTAT");
    for name in ["keyspace_hits", "keyspace_misses", "expired_keys"] {
        assert_eq!(told(&mut redis, name), 0, "{name}");
    }
}

#[test]
fn the_number_of_clients_and_their_patience_can_be_changed() {
    let (_served, address) = serve();
    let mut redis = Redis::connect(address);
    assert_eq!(redis.ask("CONFIG SET maxclients 1"), "+OK\r\n");
    let mut other = Client::connect(address);
    assert_eq!(other.rest(), b"-ERR max number of clients reached\r\n");
    assert_eq!(redis.ask("CONFIG SET maxclients 2 timeout 1"), "+OK\r\n");
    assert_eq!(Client::connect(address).rest(), b"");
}

/// A collection that is read to its end is read by another thread, and the replies keep their
/// order; so does what the other connection of the only thread asks meanwhile.
#[test]
fn what_takes_long_is_answered_by_another_thread() {
    let options = ServeOptions { threads: 1, ..redis_options() };
    let served = Served::with(options, Clock::system());
    let address = tcp(&served.server.redis_addresses()[0]);
    let (mut redis, mut other) = (Redis::connect(address), Redis::connect(address));
    let members = 30_000;
    for some in (0..members).collect::<Vec<_>>().chunks(1000) {
        let names: Vec<String> = some.iter().map(|at| format!("m{at:05}")).collect();
        redis.ask(&format!("SADD s {}", names.join(" ")));
        redis.ask(&format!("RPUSH l {}", names.join(" ")));
    }
    let pipeline = "SCARD s\r\nSINTERCARD 1 s\r\nLPOS l m29999\r\nMULTI\r\nLREM l 1 m20000\r\n\
        SUNIONSTORE t s s\r\nEXEC\r\nLLEN l\r\n";
    redis.stream.write_all(pipeline.as_bytes()).unwrap();
    assert_eq!(other.ask("PING"), "+PONG\r\n");
    let mut replies = Vec::new();
    (0..8).for_each(|_| redis.reply(&mut replies));
    let replies = String::from_utf8(replies).unwrap();
    let expected = ":30000\r\n:30000\r\n:29999\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n\
        :30000\r\n:29999\r\n";
    assert_eq!(replies, expected);
    assert_eq!(other.ask("SCARD t"), ":30000\r\n");
}
