//! Scripts: what they answer, beside Redis where it is installed, what they may take, and that they
//! happen wholly or not at all.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use everleaf::Clock;
use everleaf_server::{Limits, ServeOptions};

use crate::common::{Client, PATIENCE, Served, options, tcp};
use crate::redis::Redis;
use crate::stock::redis_server;

const TABLE: &str = include_str!("scripts.commands");
const FUNCTIONS: &str = include_str!("functions.commands");

fn serve_with(limits: Limits) -> (Served, SocketAddr) {
    let redis = vec!["127.0.0.1:0".parse().unwrap()];
    let served = Served::with(ServeOptions { redis, limits, ..options() }, Clock::system());
    let address = tcp(&served.server.redis_addresses()[0]);
    (served, address)
}

fn serve() -> (Served, SocketAddr) {
    serve_with(Limits::default())
}

/// The reply to a script with keys and values.
fn eval(redis: &mut Redis, script: &str, keys: &[&str], values: &[&str]) -> String {
    let count = keys.len().to_string();
    let words: Vec<&[u8]> = [&["EVAL", script, &count][..], keys, values]
        .concat()
        .into_iter()
        .map(str::as_bytes)
        .collect();
    String::from_utf8_lossy(&redis.ask_bytes(&words)).into_owned()
}

/// Two clients: one that monitors, and one that is told of all events of keys.
fn told(address: SocketAddr) -> (Redis, Redis) {
    let (mut monitor, mut events) = (Redis::connect(address), Redis::connect(address));
    events.ask("CONFIG SET notify-keyspace-events KEA");
    events.ask("PSUBSCRIBE __keyevent@*");
    monitor.ask("MONITOR");
    (monitor, events)
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

/// Asks both for the lines of a table, in both versions of the protocol.
fn compare(table: &str, ask: impl Fn(&mut Redis, &str) -> String) {
    let Some(stock) = redis_server() else { return };
    let (_served, address) = serve();
    let mut different = Vec::new();
    for greeting in ["HELLO 2", "HELLO 3"] {
        let (mut ours, mut theirs) = (Redis::connect(address), Redis::connect(stock.address));
        for redis in [&mut ours, &mut theirs] {
            redis.ask(greeting);
        }
        for line in table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let [ours, theirs] = [&mut ours, &mut theirs].map(|redis| ask(redis, line));
            if ours != theirs {
                different.push(format!("{greeting}: {line}: {ours:?} instead of {theirs:?}"));
            }
        }
    }
    assert!(different.is_empty(), "{different:#?}");
}

#[test]
fn scripts_are_answered_as_redis_answers_them() {
    compare(TABLE, |redis, line| match line.strip_prefix("! ") {
        Some(command) => redis.ask(command),
        None => eval(redis, &line.replace(" \\n ", "\n"), &[], &[]),
    });
}

#[test]
fn functions_are_answered_as_redis_answers_them() {
    compare(FUNCTIONS, |redis, line| redis.ask(line));
}

/// Loads a library of one function.
fn load(redis: &mut Redis, name: &str, function: &str) -> String {
    let code = format!("#!lua name={name}\nredis.register_function('{name}', {function})");
    let reply = redis.ask_bytes(&[b"FUNCTION", b"LOAD", b"REPLACE", code.as_bytes()]);
    String::from_utf8_lossy(&reply).into_owned()
}

/// Libraries are there after a restart, with the last code that was acknowledged.
#[test]
fn functions_survive_a_restart() {
    let (served, address) = serve();
    let mut redis = Redis::connect(address);
    for name in ["a", "b", "c"] {
        assert_eq!(load(&mut redis, name, "function() return 1 end"), bulk(name));
    }
    assert_eq!(load(&mut redis, "b", "function() return 2 end"), bulk("b"));
    assert_eq!(redis.ask("FUNCTION DELETE c"), "+OK\r\n");
    redis.ask("FLUSHALL");
    let served = served.restarted();
    let mut redis = Redis::connect(tcp(&served.server.redis_addresses()[0]));
    assert_eq!(redis.ask("FCALL a 0"), ":1\r\n");
    assert_eq!(redis.ask("FCALL b 0"), ":2\r\n");
    assert_eq!(redis.ask("FCALL c 0"), "-ERR Function not found\r\n");
    redis.ask("FUNCTION FLUSH");
    let served = served.restarted();
    let mut redis = Redis::connect(tcp(&served.server.redis_addresses()[0]));
    assert_eq!(redis.ask("FUNCTION LIST"), "*0\r\n");
}

#[test]
fn libraries_are_dumped_and_restored() {
    let (_served, address) = serve();
    let mut redis = Redis::connect(address);
    let said = |reply: Vec<u8>| String::from_utf8_lossy(&reply).into_owned();
    for name in ["a", "b"] {
        load(&mut redis, name, "function() return 1 end");
    }
    let dump = redis.ask_bytes(&[b"FUNCTION", b"DUMP"]);
    let start = dump.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let payload = &dump[start..dump.len() - 2];
    let restore = |redis: &mut Redis, how: &str| {
        said(redis.ask_bytes(&[b"FUNCTION", b"RESTORE", payload, how.as_bytes()]))
    };
    redis.ask("FUNCTION DELETE b");
    load(&mut redis, "a", "function() return 2 end");
    assert_eq!(restore(&mut redis, "APPEND"), "-ERR Library a already exists\r\n");
    assert_eq!(redis.ask("FCALL b 0"), "-ERR Function not found\r\n");
    assert_eq!(restore(&mut redis, "REPLACE"), "+OK\r\n");
    assert_eq!([redis.ask("FCALL a 0"), redis.ask("FCALL b 0")], [":1\r\n", ":1\r\n"]);
    load(&mut redis, "c", "function() return 3 end");
    assert_eq!(restore(&mut redis, "FLUSH"), "+OK\r\n");
    assert_eq!(redis.ask("FCALL c 0"), "-ERR Function not found\r\n");
    // Another library has the function.
    redis.ask("FUNCTION FLUSH");
    let code = b"#!lua name=d\nredis.register_function('a', function() return 4 end)";
    redis.ask_bytes(&[b"FUNCTION", b"LOAD", code]);
    assert_eq!(restore(&mut redis, "REPLACE"), "-ERR Function a already exists\r\n");
    assert_eq!(redis.ask("FCALL a 0"), ":4\r\n");
    for at in 0..payload.len() {
        let mut damaged = payload.to_vec();
        damaged[at] ^= 1;
        let reply = said(redis.ask_bytes(&[b"FUNCTION", b"RESTORE", &damaged, b"FLUSH"]));
        assert_eq!(reply, "-ERR DUMP payload version or checksum are wrong\r\n");
    }
}

/// All libraries of a payload have together the time that one has: locks are held meanwhile.
#[test]
fn many_slow_libraries_are_not_restored() {
    let (_served, address) = serve();
    let mut redis = Redis::connect(address);
    // Far below the limit of half a second, and far above a hundredth of it.
    let code = |name: &str| {
        format!(
            "#!lua name={name}\nlocal n = 0 for i = 1, 2e6 do n = n + 1 end \
             redis.register_function('{name}', function() return 1 end)"
        )
    };
    for number in 0..100 {
        let name = format!("l{number}");
        let code = code(&name);
        let loaded = redis.ask_bytes(&[b"FUNCTION", b"LOAD", code.as_bytes()]);
        assert_eq!(loaded, bulk(&name).into_bytes());
    }
    let dump = redis.ask_bytes(&[b"FUNCTION", b"DUMP"]);
    let start = dump.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let payload = &dump[start..dump.len() - 2];
    redis.ask("FUNCTION DELETE l0");
    let said = redis.ask_bytes(&[b"FUNCTION", b"RESTORE", payload, b"REPLACE"]);
    let late = "-ERR Error registering functions: ERR FUNCTION LOAD timeout\r\n";
    assert_eq!(String::from_utf8_lossy(&said), late);
    assert_eq!(redis.ask("FCALL l0 0"), "-ERR Function not found\r\n");
    assert_eq!(redis.ask("FCALL l1 0"), ":1\r\n");
}

/// A transaction sees the libraries that it changes, others when it has counted; what a call has
/// changed of a library's variables is not there for the next one.
#[test]
fn functions_are_parts_of_transactions_and_keep_nothing() {
    let (_served, address) = serve();
    let (mut redis, mut other) = (Redis::connect(address), Redis::connect(address));
    let counts = b"#!lua name=n\nlocal n = 0\n\
                   redis.register_function('n', function() n = n + 1 return n end)";
    redis.ask("MULTI");
    redis.ask_bytes(&[b"FUNCTION", b"LOAD", counts]);
    for _ in 0..2 {
        redis.ask("FCALL n 0");
    }
    assert_eq!(other.ask("FCALL n 0"), "-ERR Function not found\r\n");
    assert_eq!(redis.ask("EXEC"), "*3\r\n$1\r\nn\r\n:1\r\n:1\r\n");
    assert_eq!(other.ask("FCALL n 0"), ":1\r\n");
    // One that is thrown away changes nothing.
    redis.ask("MULTI");
    redis.ask("FUNCTION FLUSH");
    redis.ask("DISCARD");
    assert_eq!(redis.ask("FCALL n 0"), ":1\r\n");
    let open = "function() redis.call('INCR', 'count') return redis.call('GET', 'count') end";
    load(&mut redis, "open", open);
    for count in ["1", "2", "3"] {
        assert_eq!(redis.ask("FCALL open 0"), bulk(count));
    }
}

/// The code of a library has the memory that scripts have, also where it was run before, and what
/// it registers is counted as its code is.
#[test]
fn libraries_take_no_more_memory_than_scripts_may() {
    let limits = Limits { script_bytes: 8 << 20, buffered_bytes: 16 << 20, ..Limits::default() };
    let (_served, address) = serve_with(limits);
    let mut redis = Redis::connect(address);
    let mut load = |code: &str| {
        let reply = redis.ask_bytes(&[b"FUNCTION", b"LOAD", b"REPLACE", code.as_bytes()]);
        String::from_utf8_lossy(&reply).into_owned()
    };
    let none = "-ERR Error registering functions: not enough memory\r\n";
    let long = "#!lua name=long\nlocal s = 'x' for i = 1, 26 do s = s .. s end \
                redis.register_function('f', function() return 1 end)";
    let told = "#!lua name=told\nlocal s = 'x' for i = 1, 20 do s = s .. s end for i = 1, 64 do \
                redis.register_function{function_name='t' .. i, description=s, \
                callback=function() return 1 end} end";
    for code in [long, told] {
        for _ in 0..3 {
            assert_eq!(load(code), none);
        }
    }
    let many = |name: &str| {
        format!(
            "#!lua name={name}\nfor i = 1, 2000 do \
             redis.register_function('{name}' .. i, function() return i end) end"
        )
    };
    let mut name = "a".to_owned();
    while load(&many(&name)) == bulk(&name) {
        name.push('a');
        assert!(name.len() < 20, "their functions are not counted");
    }
    assert!(load(&many(&name)).starts_with("-ERR too many libraries are loaded"));
    assert!(name.len() > 1);
    assert_eq!(load(&many("a")), bulk("a"), "it replaces itself");
}

/// A library that cannot be loaded any more is removed with the others.
#[test]
fn a_library_that_was_left_out_is_flushed_too() {
    let code = b"#!lua name=l\nlocal s = 'x' for i = 1, 22 do s = s .. s end \
                 redis.register_function('f', function() return 1 end)";
    let connect = |served: &Served| Redis::connect(tcp(&served.server.redis_addresses()[0]));
    let (mut served, _) = serve();
    for restores in [false, true] {
        let mut redis = connect(&served);
        assert_eq!(redis.ask_bytes(&[b"FUNCTION", b"LOAD", code]), bulk("l").into_bytes());
        served = served.restarted_with(|options| options.limits.script_bytes = 1 << 20);
        let mut redis = connect(&served);
        assert_eq!(redis.ask("FUNCTION LIST"), "*0\r\n");
        let none = redis.ask_bytes(&[b"FUNCTION", b"DUMP"]);
        let start = none.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        let payload = &none[start..none.len() - 2];
        let flushed = match restores {
            true => redis.ask_bytes(&[b"FUNCTION", b"RESTORE", payload, b"FLUSH"]),
            false => redis.ask_bytes(&[b"FUNCTION", b"FLUSH"]),
        };
        assert_eq!(flushed, b"+OK\r\n");
        served = served.restarted_with(|options| options.limits.script_bytes = 64 << 20);
        assert_eq!(connect(&served).ask("FUNCTION LIST"), "*0\r\n");
    }
}

/// What changes libraries waits while writers are paused.
#[test]
fn libraries_are_not_changed_while_writers_are_paused() {
    let (_served, address) = serve();
    let (mut redis, mut other) = (Redis::connect(address), Redis::connect(address));
    let code = b"#!lua name=l\nredis.register_function{function_name='l', flags={'no-writes'}, \
                 callback=function() return 1 end}";
    redis.ask_bytes(&[b"FUNCTION", b"LOAD", code]);
    redis.ask("CLIENT PAUSE 100000 WRITE");
    assert!(other.ask("FUNCTION LIST").contains("library_name"));
    other.send("FUNCTION DELETE l");
    while !redis.ask("CLIENT LIST").contains("flags=b") {
        assert_eq!(redis.ask("FCALL_RO l 0"), ":1\r\n");
    }
    redis.ask("CLIENT UNPAUSE");
    assert_eq!(other.next(), "+OK\r\n");
}

/// A transaction is done again where a script of it uses a key that it does not declare; those who
/// monitor and wait for events are told of it once.
#[test]
fn a_transaction_that_is_done_again_is_told_once() {
    let (_served, address) = serve();
    let mut redis = Redis::connect(address);
    let (mut monitor, mut events) = told(address);
    let mut subscriber = Redis::connect(address);
    subscriber.ask("SUBSCRIBE news");
    for _ in 0..2 {
        redis.ask("MULTI");
        redis.ask("PUBLISH news again");
        redis.ask("SET first 1");
        eval(&mut redis, "return redis.call('SET', 'second', 2)", &[], &[]);
        assert_eq!(redis.ask("EXEC"), "*3\r\n:1\r\n+OK\r\n+OK\r\n");
    }
    redis.ask("SET last 1");
    redis.ask("PUBLISH news last");
    let told = |client: &mut Redis, what: fn(&str) -> bool| {
        let mut told = Vec::new();
        while told.last().is_none_or(|line: &String| !line.contains("last")) {
            told.push(client.next());
        }
        told.retain(|line| what(line));
        told.iter()
            .map(|line| line.split('"').nth(3).unwrap_or(line).to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(told(&mut subscriber, |_| true).len(), 3);
    let keys = told(&mut monitor, |line| line.contains("\"SET\" "));
    assert_eq!(keys, ["first", "second", "first", "second", "last"]);
    let keys = told(&mut events, |line| line.contains(":set\r\n"));
    let ends = ["first", "second", "first", "second", "last"];
    assert!(keys.len() == ends.len(), "{keys:?}");
    for (told, key) in keys.iter().zip(ends) {
        assert!(told.ends_with(&bulk(key)), "{told}");
    }
}

/// What it has done is counted once as well.
#[test]
fn a_transaction_that_is_done_again_is_counted_once() {
    let (_served, address) = serve();
    let mut redis = Redis::connect(address);
    redis.ask("SET k v");
    redis.ask("CONFIG RESETSTAT");
    for round in 0..2 {
        redis.ask("MULTI");
        for line in ["INCR n", "GET k", "EXISTS nothing", "INCR k"] {
            redis.ask(line);
        }
        eval(&mut redis, &format!("return redis.call('GET', 'k') .. {round}"), &[], &[]);
        let done = redis.ask("EXEC");
        assert!(done.starts_with("*5\r\n:") && done.ends_with(&format!("v{round}\r\n")), "{done}");
    }
    let said = redis.ask("INFO commandstats errorstats stats");
    for (name, counts) in [
        ("cmdstat_incr", "failed_calls=2"),
        ("cmdstat_incr", "calls=4,"),
        ("cmdstat_get", "calls=2,"),
        ("cmdstat_eval", "calls=2,"),
        ("cmdstat_exec", "calls=2,"),
        ("errorstat_ERR", "count=2"),
        ("total_error_replies", "2"),
        ("keyspace_hits", "4"),
        ("keyspace_misses", "2"),
    ] {
        let line = said.lines().find(|line| line.starts_with(&format!("{name}:"))).unwrap();
        assert!(line.contains(counts), "{line} instead of {counts}");
    }
}

/// Scripts that say that they write nothing go on while writers are paused.
#[test]
fn scripts_that_write_nothing_are_not_paused() {
    let (_served, address) = serve();
    let (mut redis, mut other) = (Redis::connect(address), Redis::connect(address));
    let reads = "#!lua flags=no-writes\nreturn redis.call('GET', 'k')";
    let name = redis.ask_bytes(&[b"SCRIPT", b"LOAD", reads.as_bytes()]);
    let name = String::from_utf8_lossy(&name).lines().nth(1).unwrap().to_owned();
    let code = b"#!lua name=l\nredis.register_function{function_name='f', flags={'no-writes'}, \
                 callback=function() return redis.call('GET', 'k') end}";
    redis.ask_bytes(&[b"FUNCTION", b"LOAD", code]);
    redis.ask("SET k v");
    redis.ask("CLIENT PAUSE 100000 WRITE");
    assert_eq!(eval(&mut other, reads, &[], &[]), bulk("v"));
    for line in [&format!("EVALSHA {name} 0"), "FCALL f 0", "FCALL_RO f 0"] {
        assert_eq!(other.ask(line), bulk("v"), "{line}");
    }
    other.ask("MULTI");
    other.ask("FCALL f 0");
    assert_eq!(other.ask("EXEC"), format!("*1\r\n{}", bulk("v")));
    other.send("EVAL \"return redis.call('GET', 'k')\" 0");
    while !redis.ask("CLIENT LIST").contains("flags=b") {
        std::thread::yield_now();
    }
    redis.ask("CLIENT UNPAUSE");
    assert_eq!(other.next(), bulk("v"));
}

/// What a script does is told as what single commands do: to who monitors, who tracks keys and who
/// waits for events of keys.
#[test]
fn commands_of_scripts_are_told() {
    let (_served, address) = serve();
    let mut redis = Redis::connect(address);
    let (mut monitor, mut events) = told(address);
    let script = "redis.call('SET', KEYS[1], 'v') redis.call('SELECT', 1) \
                  redis.pcall('INCR', KEYS[1]) redis.call('LPUSH', 'list', 1)";
    for _ in 0..2 {
        // The second time it is known that it uses a key that it does not declare.
        eval(&mut redis, script, &["k"], &[]);
        assert!(monitor.next().contains("\"EVAL\""));
        for (database, line) in [
            ("0", "\"SET\" \"k\" \"v\""),
            ("0", "\"SELECT\" \"1\""),
            ("1", "\"INCR\" \"k\""),
            ("1", "\"LPUSH\" \"list\" \"1\""),
        ] {
            let told = monitor.next();
            assert!(told.contains(&format!("[{database} lua] {line}")), "{told}");
        }
        for (event, key) in [("0__:set", "k"), ("1__:incrby", "k"), ("1__:lpush", "list")] {
            let told = events.next();
            assert!(told.contains(event) && told.contains(key), "{event}: {told}");
        }
    }
    load(&mut redis, "f", "function(keys) return redis.call('GET', keys[1]) end");
    redis.ask("MULTI");
    redis.ask("FCALL f 1 k");
    redis.ask("EXEC");
    let lines: Vec<_> = (0..5).map(|_| monitor.next()).collect();
    assert!(lines[2].contains("\"FCALL\"") && lines[3].contains("lua] \"GET\""), "{lines:?}");
    // Keys that a script reads, and those that it declares, are tracked.
    let mut tracks = Redis::connect(address);
    tracks.ask("HELLO 3");
    tracks.ask("CLIENT TRACKING on");
    for (script, key, is_told) in [
        ("return redis.call('SET', 'x', 1)", "a", false),
        ("return redis.call('GET', 'x')", "a", true),
        ("return redis.call('GET', 'x')", "x", true),
    ] {
        eval(&mut tracks, script, &["a", "b"], &[]);
        redis.ask(&format!("SET {key} 1"));
        redis.ask("SET other 1");
        tracks.send("PING");
        let told = tracks.next();
        assert_eq!(told.contains("invalidate"), is_told, "{script}: {told}");
        if is_told {
            tracks.next();
        }
    }
}

#[test]
fn scripts_that_are_kept_are_called_by_their_names() {
    let (_served, address) = serve();
    let mut redis = Redis::connect(address);
    let name = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"; // of `return 1`
    let missing = "-NOSCRIPT No matching script. Please use EVAL.\r\n";
    assert_eq!(redis.ask(&format!("EVALSHA {name} 0")), missing);
    assert_eq!(redis.ask("SCRIPT LOAD \"return 1\""), bulk(name));
    assert_eq!(redis.ask(&format!("EVALSHA {} 0", name.to_uppercase())), ":1\r\n");
    assert_eq!(redis.ask(&format!("SCRIPT EXISTS {name} abc")), "*2\r\n:1\r\n:0\r\n");
    assert_eq!(redis.ask("SCRIPT FLUSH"), "+OK\r\n");
    assert_eq!(redis.ask(&format!("EVALSHA_RO {name} 0")), missing);
    assert_eq!(eval(&mut redis, "return 1", &[], &[]), ":1\r\n");
    assert_eq!(redis.ask(&format!("EVALSHA {name} 0")), ":1\r\n");
    // Those that nobody has loaded go when there are many.
    for number in 0..600 {
        eval(&mut redis, &format!("return {number} + 1"), &[], &[]);
    }
    assert_eq!(redis.ask(&format!("EVALSHA {name} 0")), missing);
}

/// Nothing of a script is left for another one, and what all see stays as it is.
#[test]
fn scripts_leave_nothing_behind() {
    let (_served, address) = serve();
    let mut redis = Redis::connect(address);
    let before = eval(&mut redis, "return tostring(string.format('%d', 7))", &[], &[]);
    for script in [
        "rawset(string, 'format', nil)",
        "string.format = nil",
        "table.insert(string, 7)",
        "table.insert(_G, 7)",
        "for _, t in ipairs({redis, string, math, table, cjson, os}) do table.insert(t, 1) end",
        "getmetatable('').__index = nil",
        "getmetatable(_G).__index = nil",
        "redis.left = 1",
        "KEYS.left = 1",
        "collectgarbage('stop')",
        "cjson.encode_max_depth(1)",
    ] {
        eval(&mut redis, script, &["a"], &[]);
        assert_eq!(eval(&mut redis, "return string.format('%d', 7)", &[], &[]), before);
        let left = "return {rawget(string, 1) or 0, rawget(_G, 1) or 0, redis[1] or 0, \
                    KEYS.left or 0, #KEYS, rawget(_G, 'left') or 0}";
        let none = "*6\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n";
        assert_eq!(eval(&mut redis, left, &[], &[]), none, "{script}");
    }
    let ways = "return {rawget(_G, 'io') == nil, rawget(_G, 'require') == nil, \
                rawget(_G, 'dofile') == nil, rawget(_G, 'debug') == nil, \
                rawget(_G, 'getfenv') == nil, rawget(_G, 'package') == nil, \
                os.execute == nil, os.clock() >= 0}";
    let all = format!("*8\r\n{}", ":1\r\n".repeat(8));
    assert_eq!(eval(&mut redis, ways, &[], &[]), all);
    let code = "local f, why = loadstring('\\27Lua') return {f == nil, why}";
    assert!(eval(&mut redis, code, &[], &[]).starts_with("*2\r\n:1\r\n"));
}

/// What a script writes is there at once for itself, and for others when it has ended.
#[test]
fn scripts_read_what_they_write_and_keep_what_was_before_an_error() {
    let (_served, address) = serve();
    let mut redis = Redis::connect(address);
    let script = "redis.call('SET', KEYS[1], 'v') redis.call('RPUSH', KEYS[2], 1, 2) \
                  return {redis.call('GET', KEYS[1]), redis.call('LLEN', KEYS[2])}";
    assert_eq!(eval(&mut redis, script, &["a", "b"], &[]), "*2\r\n$1\r\nv\r\n:2\r\n");
    let fails = "redis.call('SET', KEYS[1], 'w') redis.pcall('INCR', KEYS[1]) \
                 redis.call('INCR', KEYS[1]) redis.call('SET', KEYS[1], 'x')";
    assert!(eval(&mut redis, fails, &["a"], &[]).starts_with("-ERR value is not an integer"));
    assert_eq!(redis.ask("GET a"), "$1\r\nw\r\n");
    // A command that fails has done nothing, though it may have begun to.
    let moves = "redis.call('RPUSH', KEYS[1], 1, 2) redis.call('SET', KEYS[2], 'v') \
                 local e = redis.pcall('LMOVE', KEYS[1], KEYS[2], 'LEFT', 'LEFT') \
                 return {e.err ~= nil, redis.call('LLEN', KEYS[1])}";
    assert_eq!(eval(&mut redis, moves, &["l", "s"], &[]), "*2\r\n:1\r\n:2\r\n");
    redis.ask("MULTI");
    redis.ask("LMOVE l s LEFT LEFT");
    redis.ask("LLEN l");
    let done = redis.ask("EXEC");
    assert!(done.starts_with("*2\r\n-WRONGTYPE") && done.ends_with("\r\n:2\r\n"), "{done}");
    redis.ask("DEL l s");
    // Keys that are not declared are used as well.
    let open = "redis.call('INCR', KEYS[1]) redis.call('INCR', 'other') \
                redis.call('PUBLISH', 'news', 'x') return redis.call('DBSIZE')";
    let mut subscriber = Redis::connect(address);
    subscriber.ask("SUBSCRIBE news");
    for count in 1..4 {
        assert_eq!(eval(&mut redis, open, &["n"], &[]), ":4\r\n");
        for key in ["n", "other"] {
            assert_eq!(redis.ask(&format!("GET {key}")), bulk(&count.to_string()));
        }
        assert!(subscriber.next().contains("news"));
    }
    redis.ask("PUBLISH news end");
    assert!(subscriber.next().contains("end"), "a message came twice");
}

/// A script has the locks of keys that it does not declare, too.
#[test]
fn scripts_that_count_lose_nothing_whether_they_declare_their_key_or_not() {
    const TIMES: u64 = 300;
    let (_served, address) = serve();
    let counts = |key: &str| {
        format!("redis.call('SET', {key}, (redis.call('GET', {key}) or 0) + 1) return 1")
    };
    std::thread::scope(|scope| {
        for (key, keys) in [("KEYS[1]", &["n"][..]), ("'n'", &[]), ("'n'", &["other"])] {
            let script = counts(key);
            scope.spawn(move || {
                let mut redis = Redis::connect(address);
                for _ in 0..TIMES {
                    assert_eq!(eval(&mut redis, &script, keys, &[]), ":1\r\n");
                }
            });
        }
    });
    let all = (3 * TIMES).to_string();
    assert_eq!(Redis::connect(address).ask("GET n"), bulk(&all));
}

#[test]
fn scripts_are_parts_of_transactions() {
    let (_served, address) = serve();
    let (mut redis, mut other) = (Redis::connect(address), Redis::connect(address));
    let set = "EVAL \"redis.call('SET', KEYS[1], ARGV[1]) return 5\" 1 a v";
    for (declared, script) in [
        ("declared", set),
        ("not declared", "EVAL \"redis.call('SET', 'a', 'v') return 5\" 0"),
        ("again", "EVAL \"redis.call('SET', 'a', 'v') return 5\" 0"),
    ] {
        redis.ask("DEL a n");
        redis.ask("MULTI");
        for line in ["INCR n", script, "GET a", "INCR a", "INCR n"] {
            assert_eq!(redis.ask(line), "+QUEUED\r\n");
        }
        let done = redis.ask("EXEC");
        assert!(done.starts_with("*5\r\n:1\r\n:5\r\n$1\r\nv\r\n-ERR"), "{declared}: {done}");
        assert!(done.ends_with(":2\r\n"), "{declared}: {done}");
    }
    // What a script writes has changed for who watches it.
    redis.ask("WATCH a");
    assert_eq!(other.ask(set), ":5\r\n");
    redis.ask("MULTI");
    redis.ask("SET a w");
    assert_eq!(redis.ask("EXEC"), "*-1\r\n");
}

/// It would be called some two hundred times, with what is on the stack of each call.
#[test]
fn an_error_in_a_handler_of_errors_is_not_handled() {
    let (_served, address) = serve();
    let mut redis = Redis::connect(address);
    let script = "local calls = 0 \
        local ok = xpcall(redis.call, function() calls = calls + 1 redis.call('NONSENSE') end) \
        return {tostring(ok), calls}";
    assert_eq!(eval(&mut redis, script, &[], &[]), "*2\r\n$5\r\nfalse\r\n:1\r\n");
}

/// A script that takes too long or too much is ended, whatever it catches, and the rest goes on.
#[test]
fn scripts_have_an_end() {
    let limits = Limits {
        script_time: Duration::from_millis(300),
        script_bytes: 8 << 20,
        ..Limits::default()
    };
    let (_served, address) = serve_with(limits.clone());
    let mut redis = Redis::connect(address);
    let backtracks = format!("return string.find(string.rep('a', 60), '{}b')", "a*".repeat(60));
    for script in [
        "while true do end",
        "redis.call('SET', KEYS[1], 1) while true do pcall(function() while true do end end) end",
        "while true do xpcall(function() while true do end end, function() while true do end end) \
         end",
        "local function f() while true do end end \
         while true do coroutine.resume(coroutine.create(f)) end",
        "while true do coroutine.wrap(function() while true do coroutine.yield() end end)() end",
        "while true do redis.pcall('GET', KEYS[1]) end",
        "for i = 1, 1e9 do string.rep('x', 1e6) end",
        &backtracks,
        "return string.gsub(string.rep('a', 1e6), '.-b', '')",
        "local s = string.rep('x', 1e6) while true do string.gsub(s, 'x', function() end) end",
    ] {
        let said = eval(&mut redis, script, &["k"], &[]);
        assert!(said.starts_with("-ERR the script ran for 300ms"), "{script}: {said}");
        assert_eq!(redis.ask("EXISTS k"), ":0\r\n", "{script}");
    }
    let (_served, address) = serve_with(Limits { script_time: PATIENCE, ..limits });
    let mut redis = Redis::connect(address);
    for (script, sentence) in [
        ("return string.rep('x', 2^31)", "not enough memory"),
        ("local s = 'x' while true do s = s .. s end", "not enough memory"),
        ("local t = {} while true do t[#t + 1] = {} end", "not enough memory"),
        (
            "local t = {} while true do t[#t + 1] = redis.call('ECHO', ('x'):rep(9999) .. #t) end",
            "memory",
        ),
        ("local function f() return 1 + f() end return f()", "stack overflow"),
        ("local s = '' for i = 1, 300 do s = s .. '(' end return loadstring(s)", ""),
        (
            "local t = {} for i = 1, 60 do t = {t, t} end return cjson.encode(t)",
            "not enough memory",
        ),
        ("local t = {} for i = 1, 60 do t = {t, t} end return t", "takes too much memory"),
        ("for i = 1, 1e6 do redis.call('SET', 'k' .. i, ('x'):rep(1e4)) end", "a script writes at"),
        ("return string.find(('a'):rep(1e5), ('a?'):rep(1e5))", "pattern too complex"),
        ("local f f = function(s) return (s:gsub('.', f)) end return f('x')", "stack overflow"),
        ("return #table.concat({('x'):rep(7e6), ('x'):rep(7e6)})", "not enough memory"),
        ("return unpack({}, -2147483648, 2147483647)", "too many results to unpack"),
        ("return unpack({}, 1, 1e300)", "too many results to unpack"),
        ("return select('#', unpack({}, 1, 7000))", ":7000"),
    ] {
        let said = eval(&mut redis, script, &[], &[]);
        assert!(said.contains(sentence), "{script}: {said}");
    }
    assert_eq!(eval(&mut redis, "return 1", &[], &[]), ":1\r\n");
    let mut t = eval(&mut redis, "local x = {} x[1] = x return x", &[], &[]);
    t.drain(..t.find('-').unwrap());
    assert_eq!(t, "-ERR reached lua stack limit\r\n");
}

/// A script that others wait for does not hold up who needs nothing of it, and can be ended.
#[test]
fn who_waits_for_a_script_is_turned_away_and_others_are_answered() {
    let (served, address) = serve();
    let mut redis = Redis::connect(address);
    assert_eq!(redis.ask("CONFIG SET lua-time-limit 100"), "+OK\r\n");
    let told = "*2\r\n$20\r\nbusy-reply-threshold\r\n$3\r\n100\r\n";
    assert_eq!(redis.ask("CONFIG GET busy-reply-threshold"), told);
    assert_eq!(redis.ask("SCRIPT KILL"), "-NOTBUSY No scripts in execution right now.\r\n");
    let busy = "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN \
                NOSAVE.\r\n";
    for (keys, waits) in [
        (&["k"][..], &["DEL k", "SET k 2", "DEL k other", "FLUSHALL", "SORT k BY w_*"][..]),
        (&[], &["DEL k", "SET k 2", "SET other 2", "FLUSHALL"]),
    ] {
        let mut runs = Client::connect(address);
        // Without keys it takes all locks.
        let count = keys.len();
        let key = keys.first().copied().unwrap_or_default();
        runs.send(format!(
            "EVAL \"redis.call('SET', 'k', 1) while true do end\" {count} {key}\r\n"
        ));
        let begun = Instant::now();
        let mut others: Vec<Redis> = waits.iter().map(|_| Redis::connect(address)).collect();
        while others[0].ask(waits[0]) != busy {
            assert!(begun.elapsed() < Duration::from_secs(60), "it is not turned away");
        }
        for (redis, line) in others.iter_mut().zip(waits) {
            assert_eq!(redis.ask(line), busy, "{line}");
        }
        let (mut second, mut memcached) = (Redis::connect(address), served.memcached());
        assert_eq!(second.ask("GET k"), "$-1\r\n");
        assert_eq!(second.ask("PING"), "+PONG\r\n");
        if count > 0 {
            assert_eq!(second.ask("SET other 1"), "+OK\r\n");
            memcached.ask("set another 0 0 1\r\nx\r\n", "STORED\r\n");
            assert_eq!(
                eval(&mut second, "return redis.call('INCR', KEYS[1])", &["n"], &[]),
                ":1\r\n"
            );
        }
        assert_eq!(second.ask("SCRIPT KILL"), "+OK\r\n");
        assert!(runs.line().starts_with("-ERR Script killed by user with SCRIPT KILL."));
        assert_eq!(second.ask("EXISTS k"), ":0\r\n");
        assert_eq!(second.ask("SCRIPT KILL"), "-NOTBUSY No scripts in execution right now.\r\n");
    }
}

/// A memcached client waits for a script that has its key, also for one that has just begun.
#[test]
fn memcached_waits_for_scripts() {
    let (served, address) = serve();
    let mut memcached = served.memcached();
    let runs = std::thread::spawn(move || {
        let mut redis = Redis::connect(address);
        // Each run is one of those that take long, so it is done twice.
        let script = "local n = 0 while n < 1e5 do n = n + 1 end \
                      for i = 1, ARGV[1] do redis.call('ECHO', ('x'):rep(1e5)) end \
                      return redis.call('SET', KEYS[1], 'script')";
        for round in 0..40 {
            let script = format!("{script} -- {round}");
            assert_eq!(eval(&mut redis, &script, &["k"], &["40"]), "+OK\r\n");
        }
    });
    while !runs.is_finished() {
        memcached.ask("set k 0 0 1\r\nx\r\n", "STORED\r\n");
    }
    runs.join().unwrap();
}

/// Messages and events of a script wait until it has ended, and count as what it writes.
#[test]
fn what_a_script_tells_is_counted_as_what_it_writes() {
    let (_served, address) = serve_with(Limits { script_bytes: 4 << 20, ..Limits::default() });
    let mut redis = Redis::connect(address);
    redis.ask("CONFIG SET notify-keyspace-events KEA");
    let text = "x".repeat(1 << 20);
    for script in [
        "for i = 1, 16 do redis.call('PUBLISH', 'c', ARGV[1]) end",
        "for i = 1, 100000 do redis.call('SET', KEYS[1], i) end",
    ] {
        let said = eval(&mut redis, script, &["k"], &[&text]);
        assert!(said.starts_with("-ERR a script writes at most 4194304 bytes"), "{said}");
    }
    assert_eq!(redis.ask("EXISTS k"), ":0\r\n");
}

/// A script that writes the same rows very often needs no more memory than one that writes them
/// once, and what it keeps of them is counted.
#[test]
fn what_a_script_has_written_before_is_counted() {
    let (_served, address) = serve_with(Limits { script_bytes: 4 << 20, ..Limits::default() });
    let mut redis = Redis::connect(address);
    redis.ask("SET k before");
    let writes = "for i = 1, 100000 do redis.call('SET', KEYS[1], ARGV[1] .. i) end";
    let text = "x".repeat(100);
    assert_eq!(eval(&mut redis, writes, &["k"], &[&text]), "$-1\r\n");
    assert_eq!(redis.ask("GET k"), bulk(&format!("{text}100000")));
    // At an error all of it is still known.
    redis.ask("MULTI");
    redis.ask("SET k first");
    let fails =
        format!("{writes} redis.call('APPEND', KEYS[1], 'y') return redis.call('INCR', 'l')");
    redis.ask("LPUSH l 1");
    eval(&mut redis, &fails, &["k", "l"], &[&text]);
    let done = redis.ask("EXEC");
    assert!(done.starts_with("*3\r\n+OK\r\n:1\r\n-WRONGTYPE"), "{done}");
    // A field of a hash leaves the key's own row as it is.
    redis.ask("HSET h f 0");
    let fields = "for i = 1, 300000 do redis.call('HSET', KEYS[1], 'f', i) end";
    let said = eval(&mut redis, fields, &["h"], &[]);
    assert!(said.starts_with("-ERR a script writes at most 4194304 bytes"), "{said}");
    assert_eq!(redis.ask("HGET h f"), bulk("0"));
}

/// Values on the way into scripts and out of them, in both versions of the protocol.
#[test]
fn what_redis_answers_otherwise() {
    let (_served, address) = serve();
    let mut redis = Redis::connect(address);
    // What waits elsewhere does not wait here; later versions of Redis have it so.
    assert_eq!(eval(&mut redis, "return redis.call('BLPOP', KEYS[1], 0)", &["l"], &[]), "$-1\r\n");
    // Redis itself ends here.
    let sentence = "-ERR unknown error script: ";
    assert!(eval(&mut redis, "error({1, 2})", &[], &[]).starts_with(sentence));
    assert!(redis.ask("SCRIPT DEBUG YES").starts_with("-ERR scripts cannot be stepped through"));
}

/// A server that stops does not wait for a script without an end, which has done nothing.
#[test]
fn a_server_that_stops_ends_its_scripts() {
    let (served, address) = serve();
    let mut runs = Client::connect(address);
    runs.send("EVAL \"redis.call('SET', KEYS[1], 1) while true do end\" 1 k\r\n");
    std::thread::sleep(Duration::from_millis(100));
    let begun = Instant::now();
    let served = served.restarted();
    assert!(begun.elapsed() < Duration::from_secs(30));
    let mut redis = Redis::connect(tcp(&served.server.redis_addresses()[0]));
    assert_eq!(redis.ask("EXISTS k"), ":0\r\n");
}
