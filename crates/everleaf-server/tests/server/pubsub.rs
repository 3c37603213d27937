//! Messages between clients.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use everleaf::Clock;
use everleaf_server::ServeOptions;

use crate::common::{Client, PATIENCE, Served, options, tcp};
use crate::stock::redis_server;

fn serve() -> (Served, SocketAddr) {
    serve_sized(16 << 20, None)
}

fn serve_sized(bytes: u64, idle: Option<Duration>) -> (Served, SocketAddr) {
    let redis = vec!["127.0.0.1:0".parse().unwrap()];
    let options = ServeOptions { redis, idle, ..options() };
    let served = Served::sized(options, Clock::system(), bytes, bytes);
    let address = tcp(&served.server.redis_addresses()[0]);
    (served, address)
}

/// What two clients are told, `a` and `b`; behind a line without a `!` in front a client waits for
/// its replies.
const SCRIPT: &[(char, &str)] = &[
    ('a', "SUBSCRIBE x y"),
    ('a', "PSUBSCRIBE p*"),
    ('a', "SUBSCRIBE x"),
    ('a', "PING"),
    ('a', "PING a b"),
    ('a', "GET none"),
    ('a', "GET"),
    ('a', "NONSENSE"),
    ('a', "DISCARD"),
    ('a', "CLIENT GETNAME"),
    ('b', "PUBLISH x hello"),
    ('b', "PUBLISH pxy hello"),
    ('b', "PUBLISH none hello"),
    ('a', "PUBLISH x self"),
    ('a', "SUBSCRIBE"),
    ('b', "PUBSUB CHANNELS x*"),
    ('b', "PUBSUB CHANNELS q"),
    ('b', "PUBSUB CHANNELS a b"),
    ('b', "PUBSUB NUMSUB x none"),
    ('b', "PUBSUB NUMSUB"),
    ('b', "PUBSUB NUMPAT"),
    ('b', "PUBSUB NUMPAT x"),
    ('b', "PUBSUB FOO"),
    ('b', "PUBSUB"),
    ('b', "PUBLISH x"),
    ('a', "UNSUBSCRIBE x"),
    ('b', "PUBSUB CHANNELS"),
    ('b', "PUBLISH x unheard"),
    ('a', "UNSUBSCRIBE"),
    ('a', "UNSUBSCRIBE"),
    ('b', "PUBLISH p \"\""),
    ('a', "PUNSUBSCRIBE p* q"),
    ('a', "PUNSUBSCRIBE"),
    ('a', "PING"),
    ('a', "UNSUBSCRIBE zz"),
    ('a', "SUBSCRIBE x"),
    ('a', "PSUBSCRIBE x"),
    ('b', "PUBLISH x twice"),
    ('b', "!MULTI"),
    ('b', "!PUBLISH x m"),
    ('b', "!SUBSCRIBE x z"),
    ('b', "!PUBLISH x n"),
    ('b', "!PING"),
    ('b', "EXEC"),
    ('b', "UNSUBSCRIBE x"),
    ('b', "UNSUBSCRIBE z"),
    ('b', "!MULTI"),
    ('b', "!PUBLISH x never"),
    ('b', "!NONSENSE"),
    ('b', "EXEC"),
    ('a', "RESET"),
    ('a', "PING"),
    ('b', "PUBLISH x unheard"),
    ('b', "PUBSUB CHANNELS"),
    ('a', "!QUIT"),
    ('b', "!QUIT"),
];

/// All that the two clients are told.
fn told(address: SocketAddr, version: char) -> [String; 2] {
    let mut clients = [(); 2].map(|()| (Client::connect(address), Vec::new()));
    for (client, told) in &mut clients {
        client.send(format!("CLIENT SETNAME me\r\nHELLO {version}\r\nPING hello\r\n"));
        read_until(client, told, b"hello\r\n");
        told.clear();
    }
    for (at, (who, line)) in SCRIPT.iter().enumerate() {
        let (client, told) = &mut clients[usize::from(*who == 'b')];
        match line.strip_prefix('!') {
            Some(line) => client.send(format!("{line}\r\n")),
            None => {
                client.send(format!("{line}\r\nPING step{at}\r\n"));
                read_until(client, told, format!("step{at}\r\n").as_bytes());
            }
        }
    }
    clients.map(|(mut client, mut told)| {
        told.extend(client.rest());
        String::from_utf8(told).unwrap()
    })
}

fn read_until(client: &mut Client, told: &mut Vec<u8>, end: &[u8]) {
    let mut byte = [0];
    while !told.ends_with(end) {
        client.stream.read_exact(&mut byte).unwrap();
        told.push(byte[0]);
    }
}

#[test]
fn messages_are_told_as_redis_tells_them() {
    let Some(stock) = redis_server() else { return };
    let (_served, address) = serve();
    for version in ['2', '3'] {
        let (ours, theirs) = (told(address, version), told(stock.address, version));
        for (ours, theirs) in ours.iter().zip(&theirs) {
            for (at, (ours, theirs)) in ours.lines().zip(theirs.lines()).enumerate() {
                assert_eq!(ours, theirs, "RESP{version}, line {at}");
            }
            assert_eq!(ours, theirs);
        }
    }
}

#[test]
fn a_transaction_that_fails_publishes_nothing() {
    let (_served, address) = serve_sized(1 << 20, None);
    let [mut one, mut other] = [(); 2].map(|()| Client::connect(address));
    other.ask("SUBSCRIBE c\r\n", "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    one.ask("MULTI\r\nPUBLISH c wrong\r\n", "+OK\r\n+QUEUED\r\n");
    one.ask("SUBSCRIBE c\r\n", "+QUEUED\r\n");
    for at in 0..40 {
        one.ask(format!("SET key{at} {}\r\n", "v".repeat(50_000)), "+QUEUED\r\n");
    }
    one.send("EXEC\r\n");
    assert!(one.line().starts_with("-OOM"));
    // It has subscribed to nothing.
    one.ask("PUBLISH c right\r\n", ":1\r\n");
    other.expect("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$5\r\nright\r\n");
}

#[test]
fn who_is_gone_has_subscribed_to_nothing() {
    let (_served, address) = serve();
    let [mut one, mut other] = [(); 2].map(|()| Client::connect(address));
    other.ask("SUBSCRIBE c\r\n", "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    one.ask("PUBLISH c 1\r\n", ":1\r\n");
    drop(other);
    let end = Instant::now() + PATIENCE;
    loop {
        one.send("PUBSUB NUMSUB c\r\n");
        if (0..4).map(|_| one.line()).last().unwrap() == ":0" {
            return;
        }
        assert!(Instant::now() < end, "it still has");
    }
}

#[test]
fn who_has_subscribed_is_not_idle() {
    let (_served, address) = serve_sized(16 << 20, Some(Duration::from_millis(100)));
    let mut client = Client::connect(address);
    client.ask("SUBSCRIBE c\r\n", "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    std::thread::sleep(Duration::from_millis(300));
    Client::connect(address).ask("PUBLISH c 1\r\n", ":1\r\n");
    client.expect("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n1\r\n");
    client.ask("UNSUBSCRIBE\r\n", "*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n");
    assert_eq!(client.rest(), b"");
}

#[test]
fn many_messages_come_in_their_order() {
    const MESSAGES: usize = 20_000;
    let (_served, address) = serve();
    let mut client = Client::connect(address);
    client.ask("PSUBSCRIBE c*\r\n", "*3\r\n$10\r\npsubscribe\r\n$2\r\nc*\r\n:1\r\n");
    let mut other = Client::connect(address);
    let publish: String = (0..MESSAGES).map(|at| format!("PUBLISH ch {at:06}\r\n")).collect();
    let mut writer = other.stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || writer.write_all(publish.as_bytes()).unwrap());
    other.expect(":1\r\n".repeat(MESSAGES));
    writing.join().unwrap();
    for at in 0..MESSAGES {
        let head = "*4\r\n$8\r\npmessage\r\n$2\r\nc*\r\n$2\r\nch\r\n$6\r\n";
        client.expect(format!("{head}{at:06}\r\n"));
    }
}

/// One that never reads, also while the server sends to it.
#[test]
fn a_subscriber_that_does_not_read_is_closed() {
    let (served, address) = serve();
    let shared = served.shared();
    let mut slow = Client::connect(address);
    slow.ask("SUBSCRIBE c\r\n", "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    let mut other = Client::connect(address);
    let before = shared.replies.left();
    // A line has fewer bytes.
    let message = "m".repeat(1 << 20);
    let publish = format!("*3\r\n$7\r\nPUBLISH\r\n$1\r\nc\r\n$1048576\r\n{message}\r\n");
    let messages = (0..200)
        .find(|_| {
            other.send(&publish);
            assert!(shared.replies.left() > before - (33 << 20));
            other.line() == ":0"
        })
        .expect("it is never closed");
    // 32 of them, with what stands around each, are more than 32 MiB.
    assert!(messages >= 31, "closed behind {messages} MiB");
    let end = Instant::now() + PATIENCE;
    while shared.replies.left() != before {
        assert!(Instant::now() < end, "its room is not given back");
        std::thread::sleep(Duration::from_millis(1));
    }
    // What was sent ends somewhere.
    let mut rest = Vec::new();
    let _ = slow.stream.read_to_end(&mut rest);
    assert!(rest.len() < 200 << 20);
}
