//! Who is told of changes of keys: by messages of channels, by invalidations, and by MONITOR.

use std::time::{Duration, Instant};

use everleaf::Clock;
use everleaf_server::ServeOptions;

use crate::common::{PATIENCE, Served, options, tcp};
use crate::dialog::compare;
use crate::redis::{Redis, serve};
use crate::stock::redis_server;

/// Commands of one client; another one has subscribed to all events.
const WRITES: &str = "SET a 1
SET a 2
SET a 3 EX 100
SETEX b 100 x
PSETEX b 100000 x
SETNX c 1
SETNX c 2
GETSET c 3
GETDEL c
GETEX b EX 50
GETEX b PERSIST
GETEX b PERSIST
GETEX b EXAT 1
MSET z 1 y 2 x 3
MSETNX z 1 w 2
MSETNX w 1 v 2
APPEND a x
SETRANGE a 1 yy
SETBIT bits 3 1
BITFIELD bits SET u8 0 7
BITOP NOT bits2 bits
BITOP AND bits2 none none2
INCR n
DECR n
INCRBY n 5
DECRBY n 2
INCRBYFLOAT n 1.5
EXPIRE n 100
PEXPIRE n 100000
EXPIREAT n 99999999999
EXPIRE n 100 NX
PERSIST n
PERSIST n
EXPIRE n -1
EXPIRE n 100
DEL z y none
UNLINK x
COPY a a2
COPY a a2
COPY a a2 REPLACE
RENAME a2 a3
RENAME a a3
RENAMENX a3 a4
SET a5 1
RENAMENX a4 a5
MOVE a4 3
RPUSH l a b c
LPUSH l x
LPUSHX l y
RPUSHX nope y
LINSERT l BEFORE a z
LINSERT l BEFORE nope z
LSET l 0 q
LREM l 1 q
LREM l 1 nope
LTRIM l 0 3
LPOP l
RPOP l
LMPOP 2 nope l LEFT COUNT 1
RPOPLPUSH l l2
LMOVE l2 l LEFT RIGHT
LPOP l 10
RPUSH l a b
BLPOP l 0
BRPOP l 0
SORT none STORE sorted
RPUSH l 2 1
SORT l STORE sorted
SADD s a b c
SADD s a
SREM s a nope
SREM s nope
SMOVE s t b
SMOVE s t c
SPOP t
SADD s a b
SADD t b c
SUNIONSTORE u s t
SINTERSTORE u s t
SDIFFSTORE u s s
HSET h f 1
HSET h f 2
HMSET h g 1
HSETNX h g 1
HSETNX h i 1
HINCRBY h f 1
HINCRBYFLOAT h f 1.5
HDEL h nope
HDEL h f g i
ZADD zs 1 a 2 b 3 c 4 d 5 e 6 f
ZADD zs 1 a
ZADD zs INCR 1 a
ZINCRBY zs 1 a
ZREM zs a nope
ZPOPMIN zs
ZPOPMAX zs
ZMPOP 1 zs MIN
ZRANGESTORE zd zs 0 -1
ZUNIONSTORE zu 2 zs zd
ZINTERSTORE zi 1 none
ZDIFFSTORE zu 2 zs zd
ZREMRANGEBYSCORE zs 0 0
ZREMRANGEBYRANK zs 0 0
ZREMRANGEBYSCORE zs 0 100
GET nothere
HGET nothere f
MGET nothere a5 nothere2
XGROUP CREATE xs g $ MKSTREAM
XGROUP CREATECONSUMER xs g c
XGROUP CREATECONSUMER xs g c
XADD xs 1-1 f v
XREADGROUP GROUP g d STREAMS xs >
XREADGROUP GROUP g d STREAMS xs >
XCLAIM xs g e 0 1-1
XAUTOCLAIM xs g h 0 0
XACK xs g 1-1
XGROUP DELCONSUMER xs g nope
XGROUP DELCONSUMER xs g c
XGROUP SETID xs g 0
XGROUP DESTROY xs nope
XGROUP DESTROY xs g
FLUSHDB
SET last 1";

#[test]
fn events_of_keys_are_those_of_redis() {
    let Some(stock) = redis_server() else { return };
    let (_served, address) = serve();
    let mut different = Vec::new();
    for classes in ["KEA", "KA", "Eg$", "Kn", "El", "Em", "KEhszx", "AKEnm"] {
        let told = [address, stock.address].map(|address| {
            let mut writer = Redis::connect(address);
            writer.ask("FLUSHALL");
            writer.ask(&format!("CONFIG SET notify-keyspace-events {classes}"));
            let mut listener = Redis::connect(address);
            listener.ask("PSUBSCRIBE __key*");
            let mut told = Vec::new();
            for line in WRITES.lines() {
                let reply = writer.ask(line);
                assert!(!reply.starts_with('-'), "{line}: {reply}");
                // Nothing else comes behind this.
                writer.ask("PUBLISH __key_end x");
                loop {
                    let message = listener.next();
                    if message.contains("__key_end") {
                        break;
                    }
                    told.push(format!("{line}: {}", message.escape_debug()));
                }
            }
            told
        });
        let of = |told: &[String], line: &str| -> Vec<String> {
            let front = format!("{line}: ");
            told.iter().filter(|told| told.starts_with(&front)).cloned().collect()
        };
        for line in WRITES.lines() {
            let [ours, theirs] = [of(&told[0], line), of(&told[1], line)];
            if ours != theirs {
                different.push(format!("{classes}: {ours:#?} instead of {theirs:#?}"));
            }
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn events_of_a_transaction_come_when_it_is_done_and_not_at_all_if_it_fails() {
    compare(
        &["CONFIG SET notify-keyspace-events KEA"],
        "b: PSUBSCRIBE __keyspace*
         a: MULTI
         a: SET k 1
         a: RPUSH l 1
         a: LPOP l
         a: INCR l x
         a: PUBLISH __keyspace_x m
         a: EXEC
         a: MULTI
         a: SET k 1
         a: INCR k
         a: RPUSH k 1
         a: LPUSH l 1
         a: LPOP l
         a: DEL k
         a: EXEC
         b?
         b?
         b?
         b?
         b?
         b?",
    );
}

#[test]
fn keys_that_expire_are_told() {
    compare(
        &["CONFIG SET notify-keyspace-events Ex"],
        "b: PSUBSCRIBE *
         a: PSETEX one 20 x
         b?
         a: HSET two f v
         a: PEXPIRE two 20
         b?",
    );
}

#[test]
fn keys_that_are_evicted_are_told() {
    let redis = vec!["127.0.0.1:0".parse().unwrap()];
    let options = ServeOptions { redis, evict: Some(u64::MAX), ..options() };
    let served = Served::sized(options, Clock::system(), 4 << 20, 4 << 20);
    let address = tcp(&served.server.redis_addresses()[0]);
    let [mut writer, mut listener, mut tracker] = [(); 3].map(|()| Redis::connect(address));
    writer.ask("CONFIG SET notify-keyspace-events Ee");
    listener.ask("PSUBSCRIBE *");
    tracker.ask("HELLO 3");
    tracker.ask("CLIENT TRACKING ON BCAST PREFIX key");
    let value = "v".repeat(10_000);
    (0..1000).for_each(|at| drop(writer.ask(&format!("SET key{at} {value}"))));
    let message = listener.next();
    let (_, key) = message.split_once("__keyevent@0__:evicted\r\n").unwrap();
    // It was set, and has gone.
    let told = std::iter::repeat_with(|| tracker.next());
    assert_eq!(told.filter(|told| told.contains(key)).take(2).count(), 2);
}

#[test]
fn settings_of_events_are_told_as_redis_tells_them() {
    compare(
        &[],
        "a: CONFIG SET notify-keyspace-events gKE
         a: CONFIG GET notify-keyspace-events
         a: CONFIG SET notify-keyspace-events $lshzxeKE
         a: CONFIG GET notify-keyspace-events
         a: CONFIG SET notify-keyspace-events AEm
         a: CONFIG GET notify-keyspace-events
         a: CONFIG SET notify-keyspace-events q
         a: CONFIG SET notify-keyspace-events \"\"
         a: CONFIG GET notify-keyspace-events
         a: CONFIG GET tracking-table-max-keys
         a: CONFIG SET tracking-table-max-keys x",
    );
}

// ---- invalidations
// -------------------------------------------------------------------------------------------------

#[test]
fn clients_are_told_of_changes_of_what_they_have_read() {
    compare(
        &[],
        "c: SUBSCRIBE __redis__:invalidate
         b: SET k 1
         a: CLIENT TRACKINGINFO
         a: CLIENT GETREDIR
         a: CLIENT TRACKING ON REDIRECT {c}
         a: CLIENT TRACKINGINFO
         a: CLIENT GETREDIR
         a: GET k
         b: SET other 1
         b: SET k 2
         c?
         b: SET k 3
         a: MGET k other
         a: GET p
         b: MSET k 1 other 2 p 3
         c?
         c?
         c?
         a: GET k
         a: SET k own
         c?
         a: HGET h f
         b: HSET h f 1
         c?
         a: HGET h f
         b: HSET h f 2
         c?
         a: SMEMBERS h2
         a: MULTI
         a: GET k
         a: EXEC
         b: PEXPIRE k 10
         c?
         a: GET other
         b: FLUSHALL
         c?
         a: CLIENT TRACKING OFF
         a: GET k
         b: SET k 1
         b: PUBLISH __redis__:invalidate end
         c?
         a: CLIENT TRACKINGINFO",
    );
}

#[test]
fn options_of_tracking_are_those_of_redis() {
    compare(
        &[],
        "c: SUBSCRIBE __redis__:invalidate
         a: CLIENT TRACKING
         a: CLIENT TRACKING MAYBE
         a: CLIENT TRACKING ON FOO
         a: CLIENT TRACKING ON REDIRECT
         a: CLIENT TRACKING ON REDIRECT x
         a: CLIENT TRACKING ON REDIRECT 99999
         a: CLIENT TRACKING ON REDIRECT {c} REDIRECT {c}
         a: CLIENT TRACKING ON PREFIX a
         a: CLIENT TRACKING ON BCAST OPTIN
         a: CLIENT TRACKING ON OPTIN OPTOUT
         a: CLIENT TRACKING ON BCAST PREFIX FOOBAR PREFIX FOO
         a: CLIENT TRACKING ON BCAST PREFIX FOO PREFIX FOOBAR
         a: CLIENT CACHING YES
         a: CLIENT TRACKING ON OPTIN REDIRECT {c}
         a: CLIENT TRACKING ON BCAST
         a: CLIENT TRACKING ON OPTOUT
         a: CLIENT CACHING NO
         a: CLIENT CACHING MAYBE
         a: GET k
         b: SET k 1
         a: CLIENT CACHING YES
         a: CLIENT TRACKINGINFO
         a: GET k
         a: CLIENT TRACKINGINFO
         b: SET k 2
         c?
         a: CLIENT CACHING YES
         a: MULTI
         a: GET k
         a: GET k2
         a: EXEC
         a: GET k3
         b: MSET k 1 k2 2 k3 3
         c?
         c?
         a: CLIENT TRACKING OFF
         a: CLIENT TRACKING ON OPTOUT REDIRECT {c}
         a: CLIENT CACHING YES
         a: CLIENT CACHING NO
         a: GET k
         a: GET k2
         b: MSET k 1 k2 2
         c?
         a: CLIENT TRACKING OFF
         a: CLIENT TRACKING ON NOLOOP REDIRECT {c}
         a: MGET k k2
         a: SET k 1
         b: SET k2 1
         c?
         a: CLIENT TRACKINGINFO",
    );
}

#[test]
fn fronts_of_keys_are_tracked() {
    compare(
        &[],
        "c: SUBSCRIBE __redis__:invalidate
         a: CLIENT TRACKING ON BCAST REDIRECT {c} PREFIX a: PREFIX b:
         a: CLIENT TRACKINGINFO
         b: SET c:1 1
         b: SET a:1 1
         c?
         b: MULTI
         b: INCR a:1
         b: INCR b:1
         b: INCR c:1
         b: EXEC
         c?
         c?
         a: CLIENT TRACKING ON BCAST REDIRECT {c} PREFIX c:
         a: CLIENT TRACKING ON BCAST REDIRECT {c} PREFIX c:1
         a: CLIENT TRACKINGINFO
         b: INCR c:1
         c?
         a: CLIENT TRACKING OFF
         a: CLIENT TRACKING ON BCAST NOLOOP REDIRECT {c}
         a: SET own 1
         b: SET theirs 1
         c?
         b: PSETEX short 10 x
         c?
         c?",
    );
}

#[test]
fn a_client_of_resp3_is_told_itself_and_of_a_client_that_is_gone() {
    let Some(stock) = redis_server() else { return };
    let (_served, address) = serve();
    let told = [address, stock.address].map(|address| {
        let [mut one, mut writer, mut other] = [(); 3].map(|()| Redis::connect(address));
        writer.ask("SET k 1");
        one.ask("HELLO 3");
        let id = other.ask("CLIENT ID");
        let mut told = vec![one.ask("CLIENT TRACKING ON"), one.ask("GET k")];
        writer.ask("SET k 2");
        told.push(one.next());
        one.ask("GET k");
        told.extend([one.ask("SET k own"), one.next()]);
        one.ask("GET k");
        writer.ask("FLUSHALL");
        told.push(one.next());
        told.push(one.ask("CLIENT REPLY ON"));
        one.ask("GET k");
        one.send("CLIENT REPLY OFF");
        one.send("GET k2");
        one.send("CLIENT REPLY ON");
        told.push(one.next());
        writer.ask("SET k2 2");
        told.push(one.next());
        let id = id.trim_start_matches(':').trim();
        told.push(one.ask(&format!("CLIENT TRACKING ON REDIRECT {id}")));
        one.ask("GET k");
        other.ask("QUIT");
        let end = Instant::now() + PATIENCE;
        while writer.ask("CLIENT LIST").contains(&format!("id={id} ")) {
            assert!(Instant::now() < end, "it is still there");
            std::thread::sleep(Duration::from_millis(1));
        }
        writer.ask("SET k 3");
        let id = format!(":{id}\r\n");
        told.push(one.next().replace(&id, "ID"));
        told.push(one.ask("CLIENT TRACKINGINFO").replace(&id, "ID"));
        told
    });
    assert_eq!(told[0], told[1]);
}

/// The sweep gives back the room of keys that were emptied long after all were told of it.
#[test]
fn what_was_emptied_is_told_once() {
    let (served, address) = serve();
    let [mut one, mut writer] = [(); 2].map(|()| Redis::connect(address));
    one.ask("HELLO 3");
    one.ask("CLIENT TRACKING ON");
    for key in ["a", "b"] {
        writer.ask(&format!("SET {key} 1"));
        one.ask(&format!("GET {key}"));
    }
    writer.ask("FLUSHALL");
    assert_eq!(one.next(), ">2\r\n$10\r\ninvalidate\r\n_\r\n");
    assert_eq!([one.ask("GET a"), one.ask("WATCH b")], ["_\r\n", "+OK\r\n"]);
    let (mut memcached, end) = (served.memcached(), Instant::now() + PATIENCE);
    loop {
        memcached.send("stats\r\n");
        let lines = std::iter::from_fn(|| Some(memcached.line()).filter(|line| line != "END"));
        if lines.collect::<Vec<_>>().contains(&"STAT reclaimed 2".to_owned()) {
            break;
        }
        assert!(Instant::now() < end, "their room is not given back");
    }
    assert_eq!([one.ask("MULTI"), one.ask("EXEC")], ["+OK\r\n", "*0\r\n"]);
    assert_eq!(one.ask("PING"), "+PONG\r\n");
}

/// memcached's clients change the same keys.
#[test]
fn what_memcached_changes_is_told() {
    let (served, address) = serve();
    let mut redis = Redis::connect(address);
    redis.ask("HELLO 3");
    redis.ask("CLIENT TRACKING ON");
    redis.ask("GET k");
    let mut memcached = served.memcached();
    memcached.ask("set k 0 0 1\r\nx\r\n", "STORED\r\n");
    assert!(redis.next().ends_with("invalidate\r\n*1\r\n$1\r\nk\r\n"));
    redis.ask("GET k");
    memcached.ask("flush_all\r\n", "OK\r\n");
    assert!(redis.next().ends_with("invalidate\r\n_\r\n"));
}

#[test]
fn what_is_tracked_is_told_and_bounded() {
    let (_served, address) = serve();
    let [mut one, mut other] = [(); 2].map(|()| Redis::connect(address));
    one.ask("HELLO 3");
    one.ask("CLIENT TRACKING ON");
    one.ask("MGET a b c");
    let said = other.ask("INFO");
    assert!(said.contains("tracking_clients:1\r\n") && said.contains("tracking_total_keys:3\r\n"));
    assert_eq!(other.ask("CONFIG SET tracking-table-max-keys 2"), "+OK\r\n");
    assert!(one.next().contains("invalidate"));
    assert!(other.ask("INFO").contains("tracking_total_items:2\r\n"));
    drop(one);
    let end = Instant::now() + PATIENCE;
    while !other.ask("INFO").contains("tracking_total_keys:0\r\n") {
        assert!(Instant::now() < end, "what it has tracked is remembered");
    }
}

// ---- MONITOR
// -------------------------------------------------------------------------------------------------

/// A line without the time and the address.
fn settled(line: &str) -> String {
    let rest = line.split_once(" [").map_or(line, |(_, rest)| rest);
    let (who, what) = rest.split_once("] ").unwrap_or((rest, ""));
    format!("{} {}", who.split(' ').next().unwrap_or_default(), what.trim_end())
}

#[test]
fn commands_are_shown_as_redis_shows_them() {
    const LINES: &[&str] = &[
        "SET a 1",
        "GET \"a b\\x00\\n\\\"\\\\\"",
        "SELECT 3",
        "GET a b",
        "NONSENSE",
        "CONFIG GET save",
        "CLIENT LIST",
        "CLIENT GETNAME",
        "SLOWLOG LEN",
        "AUTH secret",
        "AUTH user secret",
        "HELLO 2 AUTH user secret",
        "LPUSH a b",
        "MULTI",
        "SET foo bar",
        "LPUSH foo bar",
        "EXEC",
        "MULTI",
        "NONSENSE",
        "EXEC",
        "MULTI",
        "PING",
        "DISCARD",
        "BLPOP none 0.01",
        "INFO cpu",
        "ECHO end",
    ];
    let Some(stock) = redis_server() else { return };
    let (_served, address) = serve();
    let told = [address, stock.address].map(|address| {
        let [mut monitor, mut client] = [(); 2].map(|()| Redis::connect(address));
        assert_eq!(monitor.ask("MONITOR"), "+OK\r\n");
        LINES.iter().for_each(|line| drop(client.ask(line)));
        let mut told: Vec<String> = Vec::new();
        while !told.last().is_some_and(|line| line.contains("\"end\"")) {
            told.push(settled(&monitor.next()));
        }
        told.push(monitor.ask("RESET").trim_end().to_owned());
        client.ask("PING");
        told.push(monitor.ask("ECHO last"));
        told
    });
    assert_eq!(told[0], told[1]);
}

#[test]
fn a_monitor_that_does_not_read_is_closed() {
    let (served, address) = serve();
    let shared = served.shared();
    let before = shared.replies.left();
    let [mut monitor, mut client] = [(); 2].map(|()| Redis::connect(address));
    monitor.ask("MONITOR");
    let (value, end) = ("v".repeat(60_000), Instant::now() + PATIENCE);
    while client.ask("CLIENT LIST").contains("flags=O ") {
        client.ask(&format!("SET k {value}"));
        assert!(shared.replies.left() > before - (34 << 20));
        assert!(Instant::now() < end, "it is never closed");
    }
    assert_eq!(client.ask("GET k").len(), 60_000 + "$60000\r\n\r\n".len());
}
