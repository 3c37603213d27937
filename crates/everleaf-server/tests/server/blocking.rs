//! Clients that wait for something to pop.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use everleaf::Clock;
use everleaf_server::{ServeOptions, Then, redis};

use crate::common::{Client, PATIENCE, Served, options, tcp};

fn serve_with(idle: Option<Duration>) -> (Served, SocketAddr) {
    let redis = vec!["127.0.0.1:0".parse().unwrap()];
    let served = Served::with(ServeOptions { redis, idle, ..options() }, Clock::system());
    let address = tcp(&served.server.redis_addresses()[0]);
    (served, address)
}

fn serve() -> (Served, SocketAddr) {
    serve_with(None)
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
    client.send(format!("{request}\r\n"));
    wait_until(served, before + 1);
    client
}

#[test]
fn who_came_first_is_served_first() {
    let (served, address) = serve();
    let mut other = Client::connect(address);
    let blpop = |command| waiting(&served, address, command);
    let mut clients = [blpop("BLPOP l 0"), blpop("BRPOP none l 0"), blpop("BLPOP l 100")];
    other.ask("RPUSH l a b c d\r\n", ":4\r\n");
    for (client, element) in clients.iter_mut().zip(["a", "d", "b"]) {
        client.expect(format!("*2\r\n$1\r\nl\r\n$1\r\n{element}\r\n"));
    }
    wait_until(&served, 0);
    other.ask("LRANGE l 0 -1\r\n", "*1\r\n$1\r\nc\r\n");
    // One by one.
    other.ask("DEL l\r\n", ":1\r\n");
    let mut clients = [blpop("BLPOP l 0"), blpop("BLPOP l 0"), blpop("BLPOP l 0")];
    for (at, client) in clients.iter_mut().enumerate() {
        other.ask(format!("LPUSH l {at}\r\n"), ":1\r\n");
        client.expect(format!("*2\r\n$1\r\nl\r\n$1\r\n{at}\r\n"));
    }
    other.ask("EXISTS l\r\n", ":0\r\n");
}

/// Without the network, so that nobody is served before its turn is looked at.
#[test]
fn who_comes_later_takes_nothing_that_others_wait_for() {
    let (served, _) = serve();
    let session = || redis::Session::new(served.shared());
    let [mut first, mut second, mut later, mut other] =
        [session(), session(), session(), session()];
    let ask = |session: &mut redis::Session, request: &[u8]| {
        let mut reply = Vec::new();
        let mut served = session.serve(request, &mut reply);
        let mut consumed = served.consumed;
        // The sweep may hold a key at that moment.
        while served.then == Then::Locked {
            std::thread::yield_now();
            served = session.serve(&request[consumed..], &mut reply);
            consumed += served.consumed;
        }
        (served.then, String::from_utf8(reply).unwrap())
    };
    let (pop, waits) = (b"BLPOP k l 0\r\n", (Then::Wait(None), String::new()));
    let popped = |key, value| (Then::Read, format!("*2\r\n$1\r\n{key}\r\n$1\r\n{value}\r\n"));
    assert_eq!(ask(&mut first, pop), waits);
    assert_eq!(ask(&mut second, b"BLPOP l 0\r\n"), waits);
    assert_eq!(ask(&mut other, b"RPUSH l x y\r\n").1, ":2\r\n");
    assert_eq!(ask(&mut later, pop), waits);
    assert_eq!(ask(&mut second, b"BLPOP l 0\r\n"), waits);
    assert_eq!(ask(&mut first, pop), popped("l", "x"));
    // What the first leaves is the second's, also where the first took something else.
    assert_eq!(ask(&mut other, b"RPUSH k a\r\n").1, ":1\r\n");
    assert_eq!(ask(&mut later, pop), popped("k", "a"));
    assert_eq!(ask(&mut second, b"BLPOP l 0\r\n"), popped("l", "y"));
    assert_eq!(ask(&mut first, pop), waits);
    assert_eq!(ask(&mut second, b"BLPOP l 0\r\n"), waits);
    ask(&mut other, b"MULTI\r\nRPUSH k b\r\nRPUSH l c\r\nEXEC\r\n");
    assert_eq!(ask(&mut first, pop), popped("k", "b"));
    assert_eq!(ask(&mut second, b"BLPOP l 0\r\n"), popped("l", "c"));
    assert_eq!(served.shared().data.waiting.clients(), 0);
}

#[test]
fn each_waits_for_what_it_pops() {
    let (served, address) = serve();
    let mut other = Client::connect(address);
    let wait = |command| waiting(&served, address, command);
    let mut scored = wait("BZPOPMIN k z 0");
    let mut list = wait("BLPOP k 0");
    let mut greatest = wait("BZPOPMAX z 0");
    let mut many = wait("BLMPOP 0 2 k m RIGHT COUNT 2");
    let mut members = wait("BZMPOP 0 1 y MIN COUNT 2");
    // A string is nothing to pop, and neither is what is gone at once.
    other.ask("SET k x\r\nDEL k\r\nSET m x\r\n", "+OK\r\n:1\r\n+OK\r\n");
    other.ask("MULTI\r\nRPUSH k x\r\nDEL k\r\n", "+OK\r\n+QUEUED\r\n+QUEUED\r\n");
    other.ask("EXEC\r\nPING\r\n", "*2\r\n:1\r\n:1\r\n+PONG\r\n");
    assert_eq!(served.shared().data.waiting.clients(), 5);
    other.ask("RPUSH k a b c\r\n", ":3\r\n");
    list.expect("*2\r\n$1\r\nk\r\n$1\r\na\r\n");
    many.expect("*2\r\n$1\r\nk\r\n*2\r\n$1\r\nc\r\n$1\r\nb\r\n");
    other.ask("ZADD z 1 a 2 b\r\n", ":2\r\n");
    scored.expect("*3\r\n$1\r\nz\r\n$1\r\na\r\n$1\r\n1\r\n");
    greatest.expect("*3\r\n$1\r\nz\r\n$1\r\nb\r\n$1\r\n2\r\n");
    other.ask("ZADD x 1 a 2 b\r\nRENAME x y\r\n", ":2\r\n+OK\r\n");
    members
        .expect("*2\r\n$1\r\ny\r\n*2\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n*2\r\n$1\r\nb\r\n$1\r\n2\r\n");
    wait_until(&served, 0);
}

#[test]
fn what_is_moved_wakes_who_waits_for_it() {
    let (served, address) = serve();
    let mut other = Client::connect(address);
    let mut last = waiting(&served, address, "BLPOP c 0");
    let mut second = waiting(&served, address, "BLMOVE b c LEFT RIGHT 0");
    let mut first = waiting(&served, address, "BRPOPLPUSH a b 0");
    other.ask("RPUSH a x\r\n", ":1\r\n");
    first.expect("$1\r\nx\r\n");
    second.expect("$1\r\nx\r\n");
    last.expect("*2\r\n$1\r\nc\r\n$1\r\nx\r\n");
    other.ask("EXISTS a b c\r\n", ":0\r\n");
    // What cannot be moved stays, and is for the next one.
    other.ask("SET b x\r\n", "+OK\r\n");
    let mut first = waiting(&served, address, "BLMOVE a b LEFT RIGHT 0");
    let mut second = waiting(&served, address, "BLPOP a 0");
    other.ask("RPUSH a y\r\n", ":1\r\n");
    assert!(first.line().starts_with("-WRONGTYPE"));
    second.expect("*2\r\n$1\r\na\r\n$1\r\ny\r\n");
}

#[test]
fn who_waits_for_long_enough_gets_nothing() {
    let (served, address) = serve();
    let begun = Instant::now();
    let mut client = waiting(&served, address, "BLPOP l 0.2");
    client.expect("*-1\r\n");
    assert!(begun.elapsed() >= Duration::from_millis(200));
    wait_until(&served, 0);
    client.ask("HELLO 3\r\nBLMOVE l k LEFT LEFT 0.001\r\nRPUSH l a\r\n", "%7\r\n");
    while client.line() != "_" {}
    client.expect(":1\r\n");
    // It stays in line for its own time only.
    client.ask("DEL l\r\n", ":1\r\n");
    let mut short = waiting(&served, address, "BLPOP l 0.1");
    let mut long = waiting(&served, address, "BLPOP l 0");
    short.expect("*-1\r\n");
    client.ask("RPUSH l b\r\n", ":1\r\n");
    long.expect("*2\r\n$1\r\nl\r\n$1\r\nb\r\n");
}

#[test]
fn a_client_that_is_gone_takes_nothing() {
    let (served, address) = serve();
    let mut other = Client::connect(address);
    drop(waiting(&served, address, "BLPOP l 0"));
    wait_until(&served, 0);
    other.ask("RPUSH l a\r\nLLEN l\r\nDEL l\r\n", ":1\r\n:1\r\n:1\r\n");
    let gone = waiting(&served, address, "BLPOP k l 0");
    let mut stays = waiting(&served, address, "BLPOP l 0");
    drop(gone);
    wait_until(&served, 1);
    other.ask("RPUSH l b\r\n", ":1\r\n");
    stays.expect("*2\r\n$1\r\nl\r\n$1\r\nb\r\n");
    // Those that go at the moment at which something comes take it or leave it to the next one.
    for round in 0..50 {
        let gone: Vec<_> = (0..3).map(|_| waiting(&served, address, "BLPOP l 0")).collect();
        let mut stays = waiting(&served, address, "BLPOP l 0");
        let going = std::thread::spawn(move || drop(gone));
        other.ask("RPUSH l 1 2 3 4\r\n", ":4\r\n");
        let got = (0..5).map(|_| stays.line()).collect::<Vec<_>>();
        assert_eq!(got[2], "l", "round {round}: {got:?}");
        going.join().unwrap();
        wait_until(&served, 0);
        other.send("DEL l\r\n");
        other.line();
    }
}

#[test]
fn what_follows_a_request_that_waits_is_answered_behind_it() {
    let (served, address) = serve();
    let mut other = Client::connect(address);
    let mut client = waiting(&served, address, "SET a 1\r\nBLPOP l 0\r\nGET a");
    client.expect("+OK\r\n");
    client.send("GET b\r\nPI");
    other.ask("SET b 2\r\nRPUSH l x\r\n", "+OK\r\n:1\r\n");
    client.expect("*2\r\n$1\r\nl\r\n$1\r\nx\r\n$1\r\n1\r\n$1\r\n2\r\n");
    client.ask("NG\r\n", "+PONG\r\n");
}

#[test]
fn a_transaction_does_not_wait() {
    let (served, address) = serve();
    let mut client = Client::connect(address);
    client.ask("MULTI\r\nBLPOP l 0\r\nRPUSH l a\r\n", "+OK\r\n+QUEUED\r\n+QUEUED\r\n");
    client
        .ask("BLPOP l 0\r\nEXEC\r\n", "+QUEUED\r\n*3\r\n*-1\r\n:1\r\n*2\r\n$1\r\nl\r\n$1\r\na\r\n");
    assert_eq!(served.shared().data.waiting.clients(), 0);
}

#[test]
fn who_waits_is_not_idle_and_does_not_hold_the_server_up() {
    let (served, address) = serve_with(Some(Duration::from_millis(100)));
    let mut client = waiting(&served, address, "BLPOP l 0.5");
    client.expect("*-1\r\n");
    assert_eq!(client.rest(), b""); // Now it is.
    let mut client = waiting(&served, address, "BLPOP l 0");
    let begun = Instant::now();
    served.server.stop();
    assert_eq!(client.rest(), b"");
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}

#[test]
fn keys_that_are_waited_for_take_a_bounded_memory() {
    let (served, address) = serve();
    let shared = served.shared();
    let mut client = Client::connect(address);
    let keys = (0..5_000).map(|key| format!(" key{key}")).collect::<String>();
    client.send(format!("BLPOP{keys} 0\r\n"));
    wait_until(&served, 1);
    let end = Instant::now() + PATIENCE;
    let limit = shared.options.limits.buffered_bytes;
    while shared.requests.left() > limit - 500_000 {
        assert!(Instant::now() < end, "the keys are not counted");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Elements that are popped by many clients: each one by one client, and those of a producer in
/// their order.
#[test]
fn nothing_is_popped_twice_or_lost() {
    const CLIENTS: usize = 8;
    const ELEMENTS: usize = 500;
    let (served, address) = serve();
    let consume = || {
        let mut stream = TcpStream::connect(address).unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let (mut got, mut line) = (Vec::new(), String::new());
        loop {
            stream.write_all(b"BLPOP l m 0\r\n").unwrap();
            for _ in 0..5 {
                line.clear();
                reader.read_line(&mut line).unwrap();
            }
            match line.trim_end() {
                "end" => return got,
                element => got.push(element.to_owned()),
            }
        }
    };
    let produce = |producer: usize| {
        let mut client = Client::connect(address);
        for element in 0..ELEMENTS {
            let list = if element % 2 == 0 { "l" } else { "m" };
            client.send(format!("RPUSH {list} {producer}-{element:04}\r\n"));
            assert!(client.line().starts_with(':'));
        }
    };
    let mut popped = std::thread::scope(|scope| {
        let consumers: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(consume)).collect();
        let producers: Vec<_> = (0..3).map(|at| scope.spawn(move || produce(at))).collect();
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        let mut client = Client::connect(address);
        for _ in 0..CLIENTS {
            client.send("RPUSH m end\r\n");
            client.line();
        }
        let got = consumers.into_iter().map(|consumer| consumer.join().unwrap());
        got.flatten().collect::<Vec<_>>()
    });
    popped.sort();
    let all = (0..3).flat_map(|at| (0..ELEMENTS).map(move |element| format!("{at}-{element:04}")));
    assert!(popped == all.collect::<Vec<_>>(), "{} elements were popped", popped.len());
    assert_eq!(served.shared().data.waiting.clients(), 0);
    let mut rest = String::new();
    let mut client = Client::connect(address);
    client.send("EXISTS l m\r\nQUIT\r\n");
    client.stream.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, ":0\r\n+OK\r\n");
}
