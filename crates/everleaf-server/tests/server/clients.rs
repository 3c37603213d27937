//! What clients tell of themselves, and do to each other.

use std::collections::BTreeMap;

use crate::dialog::compare;
use crate::redis::{Redis, serve};
use crate::stock::redis_server;

/// The fields of a line of CLIENT LIST, in their order.
fn fields(line: &str) -> Vec<(String, String)> {
    let pair = |word: &str| {
        let (name, value) = word.split_once('=').unwrap();
        (name.to_owned(), value.to_owned())
    };
    line.split_whitespace().map(pair).collect()
}

/// The lines of a reply that is text.
fn lines(reply: &str) -> Vec<String> {
    reply.lines().filter(|line| line.contains("id=")).map(str::to_owned).collect()
}

#[test]
fn clients_are_listed_with_the_fields_of_redis() {
    let Some(stock) = redis_server() else { return };
    let (_served, address) = serve();
    let told = [address, stock.address].map(|address| {
        let [mut one, mut other] = [(); 2].map(|()| Redis::connect(address));
        one.ask("CLIENT SETNAME me");
        one.ask("SELECT 3");
        one.ask("SUBSCRIBE a b");
        one.next();
        one.ask("PSUBSCRIBE c*");
        other.ask("MULTI");
        other.ask("SET a 1");
        let mut asks = Redis::connect(address);
        let mut list = lines(&asks.ask("CLIENT LIST"));
        // Connections that are made at about the same time may come in another order.
        list.sort_by_key(|line| fields(line)[24].1.clone());
        let compared = ["name", "db", "sub", "psub", "ssub", "multi", "qbuf", "flags", "events"];
        let more = ["cmd", "user", "redir", "resp", "multi-mem", "omem"];
        list.iter()
            .map(|line| {
                let fields = fields(line);
                let names: Vec<_> = fields.iter().map(|(name, _)| name.clone()).collect();
                let values: BTreeMap<_, _> = fields.into_iter().collect();
                let shown = compared.iter().chain(&more).map(|name| match *name {
                    // Of the client that asks alone the request is there, and what it holds.
                    "qbuf" if !line.contains("client|list") => String::new(),
                    "multi-mem" => (values["multi-mem"] != "0").to_string(),
                    name => values[name].clone(),
                });
                (names, shown.collect::<Vec<_>>())
            })
            .collect::<Vec<_>>()
    });
    assert_eq!(told[0], told[1]);
    assert_eq!(told[0].len(), 3);
}

#[test]
fn a_client_tells_what_library_it_is() {
    let (_served, address) = serve();
    let mut client = Redis::connect(address);
    assert_eq!(client.ask("CLIENT SETINFO LIB-NAME lettuce"), "+OK\r\n");
    assert_eq!(client.ask("CLIENT SETINFO lib-ver 6.3"), "+OK\r\n");
    let sentence = "-ERR lib-ver cannot contain spaces, newlines or special characters.\r\n";
    assert_eq!(client.ask("CLIENT SETINFO lib-ver \"a b\""), sentence);
    assert_eq!(client.ask("CLIENT SETINFO foo bar"), "-ERR Unrecognized option 'foo'\r\n");
    assert_eq!(client.ask("RESET"), "+RESET\r\n");
    let line = client.ask("CLIENT INFO");
    assert!(line.contains(" name= ") && line.contains(" lib-name=lettuce lib-ver=6.3"), "{line}");
}

#[test]
fn clients_are_ended_by_what_they_are() {
    compare(
        &[],
        "b: PING
         c: SUBSCRIBE x
         a: CLIENT KILL
         a: CLIENT KILL ID
         a: CLIENT KILL ID 1 x
         a: CLIENT KILL ID x
         a: CLIENT KILL ID 0
         a: CLIENT KILL ID -1
         a: CLIENT KILL TYPE x
         a: CLIENT KILL USER nobody
         a: CLIENT KILL SKIPME maybe
         a: CLIENT KILL FOO bar
         a: CLIENT KILL 1.2.3.4:5
         a: CLIENT KILL ADDR 1.2.3.4:5
         a: CLIENT KILL LADDR 1.2.3.4:5 TYPE NORMAL
         a: CLIENT KILL TYPE master
         a: CLIENT KILL ID {b} TYPE pubsub
         a: CLIENT KILL ID {b} TYPE normal USER default
         b.
         a: CLIENT KILL ID {b}
         a: CLIENT KILL TYPE pubsub
         c.
         a: CLIENT KILL ID {a}
         a: CLIENT KILL ID {a} SKIPME no
         a.",
    );
}

#[test]
fn a_client_can_be_ended_by_its_address() {
    let (_served, address) = serve();
    let [mut one, mut other] = [(); 2].map(|()| Redis::connect(address));
    other.ask("PING"); // It is known now.
    let peer = other.stream.local_addr().unwrap();
    assert_eq!(one.ask(&format!("CLIENT KILL {peer}")), "+OK\r\n");
    assert!(other.is_closed());
    let peer = one.stream.local_addr().unwrap();
    assert_eq!(one.ask(&format!("CLIENT KILL ADDR {peer} LADDR {address}")), ":0\r\n");
    assert_eq!(one.ask(&format!("CLIENT KILL {peer}")), "+OK\r\n");
    assert!(one.is_closed());
}

/// Also one that asks for more and more is met.
#[test]
fn a_busy_client_can_be_ended() {
    let (_served, address) = serve();
    let [mut one, mut other] = [(); 2].map(|()| Redis::connect(address));
    let id = other.ask("CLIENT ID");
    let mut writer = other.stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || {
        use std::io::Write;
        while writer.write_all(&b"PING\r\n".repeat(1000)).is_ok() {}
    });
    let id = id.trim_start_matches(':').trim();
    assert_eq!(one.ask(&format!("CLIENT KILL ID {id}")), ":1\r\n");
    while !other.is_closed() {}
    drop(other);
    writing.join().unwrap();
    assert_eq!(lines(&one.ask("CLIENT LIST")).len(), 1);
}

#[test]
fn who_waits_for_a_key_is_unblocked() {
    compare(
        &[],
        "b! BLPOP k 0
         a~1
         a: CLIENT UNBLOCK {b} MAYBE
         a: CLIENT UNBLOCK x
         a: CLIENT UNBLOCK {a}
         a: CLIENT UNBLOCK 999999
         a: CLIENT UNBLOCK {b}
         b?
         b! BLPOP k 0
         a~1
         a: CLIENT UNBLOCK {b} ERROR
         b?
         b! BZPOPMIN k 0
         a~1
         a: CLIENT UNBLOCK {b} TIMEOUT
         b?
         b: PING
         a: CLIENT UNBLOCK {b}
         b! BLPOP k 0
         a~1
         a: RPUSH k v
         b?
         a: CLIENT UNBLOCK {b} ERROR
         b: PING",
    );
}

#[test]
fn replies_are_left_out_as_they_are_asked_for() {
    compare(
        &[],
        "a: CLIENT REPLY MAYBE
         a: CLIENT REPLY ON
         a! CLIENT REPLY OFF
         a! PING 1
         a! GET a b
         a! NONSENSE
         a! CLIENT REPLY SKIP
         a! SUBSCRIBE c
         a?
         b: PUBLISH c m
         a?
         a! UNSUBSCRIBE c
         a?
         a! MULTI
         a! PING 2
         a! EXEC
         a: CLIENT REPLY ON
         a: PING 3
         a! CLIENT REPLY SKIP
         a! PING 4
         a: PING 5
         a! CLIENT REPLY SKIP
         a: CLIENT REPLY ON
         a: PING 6
         a! CLIENT REPLY SKIP
         a! CLIENT REPLY SKIP
         a! PING 7
         a: PING 8
         a! CLIENT REPLY SKIP
         a! SET a b c d
         a: SET a 1
         a! CLIENT REPLY OFF
         a! RESET
         a! CLIENT REPLY ON
         a: PING 9",
    );
}

#[test]
fn clients_are_paused() {
    compare(
        &[],
        "a: CLIENT PAUSE
         a: CLIENT PAUSE x
         a: CLIENT PAUSE -1
         a: CLIENT PAUSE 1 SOME
         a: CLIENT PAUSE 100000 WRITE
         b: GET k
         b: PING
         b: SET k
         b! SET k 1
         a~1
         c! PUBLISH x y
         a~2
         d: MULTI
         d: GET k
         d: EXEC
         e: MULTI
         a: CLIENT UNPAUSE
         b?
         c?
         e: SET k 2
         a: CLIENT PAUSE 100000 WRITE
         e! EXEC
         a~1
         a: GET k
         a: CLIENT UNBLOCK {a}
         a: CLIENT PAUSE 1 WRITE
         a: GET k
         a: CLIENT UNPAUSE
         e?
         a: GET k
         a: MULTI
         a: CLIENT PAUSE 100000 WRITE
         a: INCR k
         a: EXEC
         b! INCR k
         a~1
         a: CLIENT UNPAUSE
         b?
         a: CLIENT PAUSE 50
         b: PING
         a: PING",
    );
}
