//! Clients that behave badly: the server stays up, and what they take is bounded.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use everleaf::Clock;
use everleaf_server::{Address, Limits, ServeError, ServeOptions, Server};

use crate::common::{Client, PATIENCE, Served, options, tcp};

#[test]
fn the_binary_protocol_and_endless_lines_close_the_connection() {
    let served = Served::new();
    let mut client = served.memcached();
    client.send(b"\x80\x00\x00\x01");
    assert_eq!(client.rest(), b"");
    let mut client = served.memcached();
    client.send("x".repeat(3000));
    assert_eq!(client.rest(), b"CLIENT_ERROR line too long\r\n");
}

/// Options that speak both protocols.
fn both() -> ServeOptions {
    ServeOptions { redis: vec!["127.0.0.1:0".parse().unwrap()], ..options() }
}

fn redis_client(served: &Served) -> Client {
    Client::connect(tcp(&served.server.redis_addresses()[0]))
}

/// A client of each protocol.
fn each(served: &Served) -> [Client; 2] {
    [served.memcached(), redis_client(served)]
}

#[test]
fn a_page_of_the_web_writes_nothing() {
    let served = Served::with(both(), Clock::system());
    served.memcached().ask("set kept 0 0 1\r\nx\r\n", "STORED\r\n");
    let commands = "flush_all\r\nset a 0 0 1\r\nx\r\nFLUSHALL\r\nSET b 1\r\n";
    let headers = "Host: localhost\r\nContent-Type: text/plain\r\n\r\n";
    for method in ["POST", "PUT", "GET", "OPTIONS", "post"] {
        for mut client in each(&served) {
            client.send(format!("{method} /x HTTP/1.1\r\n{headers}{commands}"));
            // Redis' GET has too many arguments; the next line closes.
            let said = String::from_utf8(client.rest()).unwrap();
            assert!(said.is_empty() || method == "GET" && said.starts_with("-ERR wrong"), "{said}");
        }
    }
    for line in ["POST\r\n", "hOST: a\r\n", "x HTTP/2\r\n", "*1\r\n$4\r\nPOST\r\n"] {
        let [_, mut redis] = each(&served);
        redis.send(format!("{line}{commands}"));
        assert_eq!(redis.rest(), b"", "{line}");
    }
    let get = "get kept a b\r\n";
    served.memcached().ask(get, "VALUE kept 0 1\r\nx\r\nEND\r\n");
    // Words of a command that is known are its own.
    let [_, mut redis] = each(&served);
    redis.ask("ECHO HTTP/1.1\r\n", "$8\r\nHTTP/1.1\r\n");
    redis.ask("SELECT HTTP/1.1\r\n", "-ERR value is not an integer or out of range\r\n");
}

#[test]
fn a_page_of_the_web_guesses_no_password() {
    let redis_password = Some(b"secret".to_vec());
    let served = Served::with(ServeOptions { redis_password, ..both() }, Clock::system());
    let [_, mut redis] = each(&served);
    redis.send("POST / HTTP/1.1\r\nHost: a\r\n\r\nAUTH secret\r\nFLUSHALL\r\n");
    assert_eq!(redis.rest(), b"");
}

#[test]
fn half_a_request_does_not_hold_its_connection_for_ever() {
    let idle = Some(Duration::from_millis(200));
    let limits = Limits { connections: 4, ..Limits::default() };
    let served = Served::with(ServeOptions { idle, limits, ..both() }, Clock::system());
    let halves = ["", "get a", "set a 0 0 10\r\nabc", "*2\r\n$3\r\nGET\r\n"];
    let clients = each(&served).into_iter().chain(each(&served));
    let mut clients: Vec<Client> = clients.collect();
    for (client, half) in clients.iter_mut().zip(halves) {
        client.send(half);
    }
    clients.iter_mut().for_each(|client| assert_eq!(client.rest(), b""));
    // Their places are free again.
    let mut again = served.memcached();
    while again.stream.write_all(b"mn\r\n").is_err() || again.rest_of_line() != "MN" {
        again = served.memcached();
    }
    assert_eq!(served.shared().counters.idle_connections.get(), 4);
}

#[test]
fn who_reads_slowly_is_not_idle() {
    let idle = Some(Duration::from_millis(50));
    let served = Served::with(ServeOptions { idle, ..both() }, Clock::system());
    let value = "v".repeat(1_000_000);
    let mut client = served.memcached();
    client.ask(format!("set big 0 0 1000000\r\n{value}\r\n"), "STORED\r\n");
    let mut slow = served.memcached();
    slow.send(format!("get{}\r\n", " big".repeat(64)));
    std::thread::sleep(Duration::from_millis(500));
    slow.expect(format!("VALUE big 0 1000000\r\n{value}\r\n").repeat(64));
    slow.expect("END\r\n");
    assert_eq!(slow.rest(), b"", "then it is idle");
}

#[test]
fn the_system_asks_after_clients_that_say_nothing() {
    let served = Served::with(both(), Clock::system());
    for client in each(&served) {
        let (ours, theirs) = (client.stream.peer_addr().unwrap(), client.stream.local_addr());
        let ports = format!("{:04X} 0100007F:{:04X} 01", ours.port(), theirs.unwrap().port());
        let is_asked_after = || {
            let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
            let line = table.lines().find(|line| line.contains(&ports)).unwrap_or_default();
            // The sixth word is the timer that runs: 02 is that of keepalive.
            line.split_whitespace().nth(5).is_some_and(|timer| timer.starts_with("02:"))
        };
        let begun = Instant::now();
        while !is_asked_after() {
            assert!(begun.elapsed() < PATIENCE);
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn a_client_that_does_not_read_stops_nobody_else() {
    let served = Served::new();
    let mut client = served.memcached();
    let value = "v".repeat(100_000);
    client.ask(format!("set big 0 0 100000\r\n{value}\r\n"), "STORED\r\n");
    let mut deaf = served.memcached();
    deaf.stream.set_nonblocking(true).unwrap();
    // Sends until the server reads no more.
    let requests = "get big big big big\r\n".repeat(1000);
    let mut sent = 0;
    while sent < 10_000 && deaf.stream.write(requests.as_bytes()).is_ok() {
        sent += 1;
    }
    for _ in 0..100 {
        client.ask("get nothing\r\n", "END\r\n");
    }
}

#[test]
fn a_long_line_of_keys_is_answered_in_parts() {
    let limits = Limits { reply_bytes: 10_000, ..Limits::default() };
    let served = Served::with(ServeOptions { limits, ..options() }, Clock::system());
    let mut client = served.memcached();
    let value = "v".repeat(5_000);
    client.ask(format!("set a 0 0 5000\r\n{value}\r\n"), "STORED\r\n");
    let one = format!("VALUE a 0 5000\r\n{value}\r\n");
    client.ask(
        format!("get{}\r\nget b\r\n", " a".repeat(500)),
        format!("{}END\r\nEND\r\n", one.repeat(500)),
    );
}

#[test]
fn connections_beyond_the_limit_are_told_so() {
    let limits = Limits { connections: 3, ..Limits::default() };
    let served = Served::with(ServeOptions { limits, ..options() }, Clock::system());
    let mut clients: Vec<Client> = (0..3).map(|_| served.memcached()).collect();
    clients.iter_mut().for_each(|client| client.ask("mn\r\n", "MN\r\n"));
    assert_eq!(served.memcached().rest(), b"ERROR Too many open connections\r\n");
    clients[0].send("quit\r\n");
    assert_eq!(clients[0].rest(), b"");
    let mut again = served.memcached();
    while again.stream.write_all(b"mn\r\n").is_err() || again.rest_of_line() != "MN" {
        again = served.memcached(); // The one that ended is counted until its thread saw it.
    }
}

#[test]
fn unfinished_requests_share_a_limit() {
    let limits =
        Limits { buffered_bytes: 1 << 20, value_bytes: Some(8 << 20), ..Limits::default() };
    let served = Served::with(ServeOptions { limits, ..options() }, Clock::system());
    let mut client = served.memcached();
    client.send("set a 0 0 4000000\r\n");
    let mut failed = false;
    for _ in 0..400 {
        failed |= client.stream.write_all(&[b'x'; 10_000]).is_err();
    }
    assert!(failed || client.rest().is_empty());
    served.memcached().ask("mn\r\n", "MN\r\n");
}

#[test]
fn thousands_of_idle_connections_hinder_nobody() {
    let served = Served::new();
    let idle: Vec<Client> = (0..400).map(|_| served.memcached()).collect();
    served.memcached().ask("set a 0 0 1\r\na\r\n", "STORED\r\n");
    drop(idle);
}

#[test]
fn sockets_in_the_file_system_are_served_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let memcached = vec![Address::Unix(path.clone())];
    let served = Served::with(ServeOptions { memcached, ..options() }, Clock::system());
    let stream = UnixStream::connect(&path).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut client = Client { stream };
    client.ask("set a 0 0 1\r\na\r\nget a\r\n", "STORED\r\nVALUE a 0 1\r\na\r\nEND\r\n");
    // Connections are closed when the server stops.
    served.server.stop();
    assert_eq!(client.rest(), b"");
    assert!(!path.exists());
}

#[test]
fn what_cannot_be_served_is_refused() {
    let served = Served::new();
    let data = std::sync::Arc::clone(&served.shared().data);
    let start = |options| Server::start(std::sync::Arc::clone(&data), options).err().unwrap();
    let none = ServeOptions { threads: 0, ..options() };
    assert!(matches!(start(none), ServeError::NoThreads));
    let none = ServeOptions { memcached: Vec::new(), ..options() };
    assert!(matches!(start(none), ServeError::NoAddress));
    let taken = served.server.memcached_addresses().to_vec();
    let taken = ServeOptions { memcached: taken, ..options() };
    assert!(matches!(start(taken), ServeError::Bind { .. }));
}

/// A request with a value of so many bytes.
fn set(bytes: usize) -> Vec<u8> {
    let head = format!("*3\r\n$3\r\nSET\r\n$1\r\na\r\n${bytes}\r\n");
    [head.as_bytes(), &vec![b'x'; bytes], b"\r\n"].concat()
}

#[test]
fn redis_values_may_be_as_long_as_the_pool_lets_them_and_memcacheds_a_mebibyte() {
    if crate::common::cluster::is_wanted() {
        return; // In a cluster they have less than 64 MiB.
    }
    const LONG: usize = 100 << 20;
    let served = Served::sized(both(), Clock::system(), 16 << 20, 1 << 30);
    let [mut memcached, mut redis] = each(&served);
    redis.ask("CONFIG GET proto-max-bulk-len\r\n", "*2\r\n$18\r\nproto-max-bulk-len\r\n");
    redis.expect("$9\r\n536870912\r\n");
    redis.ask(set(LONG), "+OK\r\n");
    redis.ask("STRLEN a\r\n", format!(":{LONG}\r\n"));
    // A single value has room, whatever others have: GET, and what is made whole.
    let mut other = redis_client(&served);
    for client in [&mut redis, &mut other] {
        client.send("GET a\r\n");
    }
    for client in [&mut redis, &mut other] {
        client.expect(format!("${LONG}\r\n"));
        let mut value = vec![0; LONG + 2];
        client.stream.read_exact(&mut value).unwrap();
        assert!(value[..LONG].iter().all(|byte| *byte == b'x'));
    }
    memcached.send(format!("set b 0 0 1048577\r\n{}\r\n", "x".repeat(1_048_577)));
    memcached.expect("SERVER_ERROR object too large for cache\r\n");
    redis.send("*2\r\n$4\r\nECHO\r\n$536870913\r\n");
    assert_eq!(redis.rest(), b"-ERR Protocol error: invalid bulk length\r\n");
}

#[test]
fn a_value_that_is_longer_than_the_pool_is_refused_in_a_sentence() {
    let served = Served::sized(both(), Clock::system(), 1 << 20, 4 << 20);
    let [_, mut redis] = each(&served);
    redis.ask("SETRANGE a 4194304 x\r\n", "-ERR string exceeds maximum allowed size");
    let [_, mut redis] = each(&served);
    redis.send("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$4194304\r\n");
    let said = String::from_utf8(redis.rest()).unwrap();
    assert!(said.starts_with("-ERR Protocol error: invalid bulk length; a value has"), "{said}");
}

#[test]
fn one_limit_for_both_protocols_can_be_chosen() {
    let limits = Limits { value_bytes: Some(2 << 20), ..Limits::default() };
    let served = Served::with(ServeOptions { limits, ..both() }, Clock::system());
    let [mut memcached, mut redis] = each(&served);
    redis.ask(set(2 << 20), "+OK\r\n");
    memcached.send(format!("set b 0 0 {}\r\n{}\r\n", 2 << 20, "x".repeat(2 << 20)));
    memcached.expect("STORED\r\n");
    redis.send(set((2 << 20) + 1));
    assert!(redis.rest_of_line().contains("invalid bulk length"));
}

/// The keys of both databases count for what SWAPDB writes anew.
#[test]
fn databases_that_change_places_have_a_limit_together() {
    let limits = Limits { buffered_bytes: 16 << 20, ..Limits::default() };
    let served = Served::with(ServeOptions { limits, ..both() }, Clock::system());
    let mut redis = redis_client(&served);
    for database in 0..3 {
        redis.ask(format!("SELECT {database}\r\n"), "+OK\r\n");
        redis.ask(format!("SETRANGE k {} x\r\n", 400 << 10), format!(":{}\r\n", (400 << 10) + 1));
    }
    redis.ask("SWAPDB 0 1\r\n", "+OK\r\n");
    redis.ask(format!("SETRANGE k {} x\r\n", 700 << 10), format!(":{}\r\n", (700 << 10) + 1));
    redis.send("SWAPDB 1 2\r\n");
    assert!(redis.line().starts_with("-ERR SWAPDB writes all keys anew"));
    redis.ask("DBSIZE\r\n", ":1\r\n");
}
