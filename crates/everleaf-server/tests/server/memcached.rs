//! What the table of cases cannot say.

use std::time::Duration;

use everleaf::Clock;
use everleaf_server::Limits;

use crate::common::{Client, Served, options};
use crate::stock;

#[test]
fn half_requests_wait_for_their_other_half() {
    let served = Served::new();
    let mut client = served.memcached();
    for part in ["se", "t ke", "y 1 0 5", "\r", "\n", "ab", "cde", "\r"] {
        client.send(part);
        std::thread::sleep(Duration::from_millis(2));
    }
    client.ask("\n", "STORED\r\n");
    client.ask("get key\r\n", "VALUE key 1 5\r\nabcde\r\nEND\r\n");
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let served = Served::new();
    let mut client = served.memcached();
    let (mut requests, mut replies) = (String::new(), String::new());
    for i in 0..20_000 {
        requests += &format!("set key{i} 0 0 3\r\nabc\r\nget key{i}\r\n");
        replies += &format!("STORED\r\nVALUE key{i} 0 3\r\nabc\r\nEND\r\n");
    }
    let mut writer = client.stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || {
        std::io::Write::write_all(&mut writer, requests.as_bytes()).unwrap()
    });
    client.expect(replies);
    writing.join().unwrap();
}

#[test]
fn values_expire_by_the_clock_and_flushes_come_when_they_are_due() {
    let clock = Clock::manual(1_700_000_000_000);
    let served = Served::with(options(), clock.clone());
    let mut client = served.memcached();
    client.ask("set a 0 10 1\r\na\r\nset b 0 0 1\r\nb\r\n", "STORED\r\nSTORED\r\n");
    client.ask("set c 0 1700000020 1\r\nc\r\n", "STORED\r\n");
    clock.advance(Duration::from_secs(9));
    client.ask("mg a t\r\n", "HD t1\r\n");
    clock.advance(Duration::from_secs(1));
    client.ask("get a b c\r\n", "VALUE b 0 1\r\nb\r\nVALUE c 0 1\r\nc\r\nEND\r\n");
    clock.advance(Duration::from_secs(10));
    client.ask("get c\r\n", "END\r\n");
    client.ask("flush_all 5\r\n", "OK\r\n");
    clock.advance(Duration::from_secs(4));
    client.ask("get b\r\n", "VALUE b 0 1\r\nb\r\nEND\r\n");
    // Stored before the moment, so it goes with the others, also when the moment comes while nobody
    // serves.
    client.ask("set d 0 0 1\r\nd\r\n", "STORED\r\n");
    let served = served.restarted();
    clock.advance(Duration::from_secs(1));
    let mut client = served.memcached();
    client.ask("get b d\r\n", "END\r\n");
    client.ask("set e 0 0 1\r\ne\r\n", "STORED\r\n");
    client.ask("get e\r\n", "VALUE e 0 1\r\ne\r\nEND\r\n");
    client.ask("flush_all\r\nget e\r\n", "OK\r\nEND\r\n");
    client.ask("set e 0 0 1\r\ne\r\nget e\r\n", "STORED\r\nVALUE e 0 1\r\ne\r\nEND\r\n");
}

#[test]
fn cas_numbers_and_flags_survive_a_restart_and_no_number_comes_twice() {
    let served = Served::new();
    let mut client = served.memcached();
    let cas_of = |client: &mut Client, key: &str| -> u64 {
        client.send(format!("mg {key} c\r\n"));
        client.line().strip_prefix("HD c").unwrap().parse().unwrap()
    };
    client.ask("set a 77 0 1\r\na\r\n", "STORED\r\n");
    let before = cas_of(&mut client, "a");
    let served = served.restarted();
    let mut client = served.memcached();
    assert_eq!(cas_of(&mut client, "a"), before);
    client.ask("get a\r\n", "VALUE a 77 1\r\na\r\nEND\r\n");
    client.ask("set b 0 0 1\r\nb\r\n", "STORED\r\n");
    assert!(cas_of(&mut client, "b") > before);
    client.ask(format!("cas a 0 0 1 {before}\r\nz\r\n"), "STORED\r\n");
}

#[test]
fn counting_by_many_clients_loses_nothing() {
    let served = Served::new();
    served.memcached().ask("set n 0 0 1\r\n0\r\n", "STORED\r\n");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut client = served.memcached();
            scope.spawn(move || {
                for _ in 0..500 {
                    client.send("incr n 1\r\n");
                    client.line();
                }
            });
        }
    });
    served.memcached().ask("get n\r\n", "VALUE n 0 4\r\n2000\r\nEND\r\n");
}

#[test]
fn a_value_that_is_too_long_is_refused_and_the_old_one_goes() {
    let limits = Limits { value_bytes: Some(100), ..Limits::default() };
    let served =
        Served::with(everleaf_server::ServeOptions { limits, ..options() }, Clock::system());
    let mut client = served.memcached();
    client.ask("set a 0 0 1\r\na\r\n", "STORED\r\n");
    let long = "x".repeat(101);
    client.ask(
        format!("set a 0 0 101\r\n{long}\r\nget a\r\n"),
        "SERVER_ERROR object too large for cache\r\nEND\r\n",
    );
    client.ask(format!("set a 0 0 100\r\n{}\r\n", &long[1..]), "STORED\r\n");
    client.ask("append a 0 0 1\r\nx\r\n", "SERVER_ERROR object too large for cache\r\n");
}

#[test]
fn a_full_pool_is_said_and_loses_nothing() {
    let served = Served::sized(options(), Clock::system(), 1 << 20, 1 << 20);
    let mut client = served.memcached();
    let value = "v".repeat(10_000);
    let mut stored = 0;
    loop {
        client.send(format!("set key{stored} 0 0 10000\r\n{value}\r\n"));
        match client.line().as_str() {
            "STORED" => stored += 1,
            "SERVER_ERROR out of memory storing object" => break,
            other => panic!("{other}"),
        }
    }
    assert!(stored > 10);
    for i in 0..stored {
        let reply = format!("VALUE key{i} 0 10000\r\n{value}\r\nEND\r\n");
        client.ask(format!("get key{i}\r\n"), reply);
    }
    client.ask("delete key0\r\nset key0 0 0 1\r\nx\r\n", "DELETED\r\nSTORED\r\n");
}

#[test]
fn nothing_is_told_of_requests_without_a_reply_that_a_full_pool_refuses() {
    let served = Served::sized(options(), Clock::system(), 1 << 20, 1 << 20);
    let mut client = served.memcached();
    client.ask("set there 0 0 1\r\n1\r\n", "STORED\r\n");
    let value = "v".repeat(10_000);
    for i in 0..200 {
        client.send(format!("set key{i} 0 0 10000 noreply\r\n{value}\r\n"));
        client.send(format!("append there 0 0 10000 noreply\r\n{value}\r\n"));
        client.send("mn\r\n");
        assert_eq!(client.line(), "MN", "behind value {i}");
    }
    client.send(format!("set key 0 0 10000\r\n{value}\r\n"));
    assert_eq!(client.line(), "SERVER_ERROR out of memory storing object");
    client.send(format!("ms key 10000 q\r\n{value}\r\n"));
    assert_eq!(client.line(), "SERVER_ERROR out of memory storing object");
}

#[test]
fn all_items_are_dumped() {
    let served = Served::new();
    let mut client = served.memcached();
    for i in 0..3000 {
        client.send(format!("set key%{i} 0 0 1 noreply\r\nx\r\n"));
    }
    client.send("lru_crawler metadump all\r\n");
    let mut lines = 0;
    loop {
        let line = client.line();
        if line == "END" {
            break;
        }
        assert!(line.starts_with("key=key%25") && line.contains(" exp=-1 "), "{line}");
        lines += 1;
    }
    assert_eq!(lines, 3000);
}

#[test]
fn who_has_no_password_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    std::fs::write(&file, "ann:secret\n").unwrap();
    let users = everleaf_server::Users::read(&file).unwrap();
    let served = Served::with(
        everleaf_server::ServeOptions { memcached_users: Some(users), ..options() },
        Clock::system(),
    );
    let mut client = served.memcached();
    client.send("POST / HTTP/1.1\r\nset x 0 0 10\r\nann secret\r\nset y 0 0 1\r\nx\r\n");
    assert_eq!(client.rest(), b"");
    client = served.memcached();
    client.send("set x 0 0 1025\r\n");
    assert_eq!(client.rest(), b"CLIENT_ERROR unauthenticated\r\n");
    let stock = stock::memcached_with(&["-Y", file.to_str().unwrap()]);
    let clients = stock.iter().map(|stock| Client::connect(stock.address));
    for mut client in clients.chain([served.memcached()]) {
        for (request, reply) in [
            ("get a", "CLIENT_ERROR unauthenticated"),
            ("mn", "CLIENT_ERROR unauthenticated"),
            ("", "CLIENT_ERROR unauthenticated"),
            ("quit", "CLIENT_ERROR unauthenticated"),
            ("set x 0 0", "CLIENT_ERROR unauthenticated"),
            ("set x 0 0 x", "CLIENT_ERROR unauthenticated"),
            ("set x 0 0 9\r\nann wrong", "CLIENT_ERROR authentication failure"),
            ("set x 0 0 10 noreply\r\nbob secret", "CLIENT_ERROR authentication failure"),
            ("set x 0 0 3\r\nann", "CLIENT_ERROR bad authentication token format"),
            ("set x 0 0 0\r\n", "CLIENT_ERROR bad authentication token format"),
        ] {
            client.ask(format!("{request}\r\n"), format!("{reply}\r\n"));
        }
        let termination = "CLIENT_ERROR bad command line termination\r\n";
        client.ask("set x 0 0 8\r\nann secret", termination);
        client.ask("set x 0 0 10\r\nann secret\r\n", "STORED\r\n");
        client.ask("get y\r\n", "END\r\n");
    }
}
