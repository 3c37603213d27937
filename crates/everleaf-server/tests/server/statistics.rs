//! What memcached's `stats` tells, and what is known of items: when they were used, and whether.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use everleaf::Clock;
use everleaf_server::{Limits, ServeOptions};

use crate::common::{Client, PATIENCE, Served, options, tcp};
use crate::stock;

/// The lines that `stats` tells, by their names.
fn stats(client: &mut Client, what: &str) -> BTreeMap<String, String> {
    client.send(format!("stats{what}\r\n"));
    let mut told = BTreeMap::new();
    loop {
        let line = client.line();
        if line == "END" {
            return told;
        }
        let words = line.strip_prefix("STAT ").unwrap_or_else(|| panic!("{what}: {line}"));
        let (name, value) = words.split_once(' ').unwrap();
        assert_eq!(told.insert(name.to_owned(), value.to_owned()), None, "{name} twice");
    }
}

/// What connections do, as `stats conns` tells it, and the names of the lines.
fn connections(client: &mut Client) -> (Vec<String>, Vec<String>) {
    let told = stats(client, " conns");
    let states = told.iter().filter(|(name, _)| name.ends_with(":state"));
    let mut states: Vec<String> = states.map(|(_, state)| state.clone()).collect();
    states.sort();
    let mut names: Vec<String> =
        told.keys().map(|name| name.split_once(':').unwrap().1.to_owned()).collect();
    names.sort();
    (states, names)
}

/// Waits until connections do this.
#[track_caller]
fn wait_for_states(client: &mut Client, states: &[&str]) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let (told, names) = connections(client);
        if told == states {
            return names;
        }
        assert!(begun.elapsed() < PATIENCE, "{told:?} instead of {states:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The number that a line tells.
fn number(client: &mut Client, name: &str) -> u64 {
    stats(client, "")[name].parse().unwrap()
}

#[test]
fn stats_has_the_lines_of_a_memcached_without_queues() {
    let served = Served::new();
    let mut ours = served.memcached();
    ours.ask("set a 0 0 1\r\nx\r\n", "STORED\r\n");
    assert_eq!(stats(&mut ours, "").len(), 83);
    let Some(stock) = stock::memcached_with(&["-o", "no_lru_crawler,no_lru_maintainer"]) else {
        return;
    };
    let mut theirs = Client::connect(stock.address);
    theirs.ask("set a 0 0 1\r\nx\r\n", "STORED\r\n");
    for what in ["", " items", " slabs", " sizes"] {
        let names = [&mut ours, &mut theirs].map(|client| stats(client, what).into_keys());
        let [ours, theirs] = names.map(Vec::from_iter);
        assert_eq!(ours, theirs, "{what}");
    }
    let known = stats(&mut theirs, " settings");
    let unknown =
        stats(&mut ours, " settings").into_keys().filter(|name| !known.contains_key(name));
    assert_eq!(unknown.collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn what_is_refused_or_gone_is_counted() {
    let clock = Clock::manual(1_700_000_000_000);
    let limits = Limits { value_bytes: Some(100), ..Limits::default() };
    let served = Served::with(ServeOptions { limits, ..options() }, clock.clone());
    let mut client = served.memcached();
    let long = "x".repeat(101);
    client.ask(
        format!("set long 0 0 101\r\n{long}\r\n"),
        "SERVER_ERROR object too large for cache\r\n",
    );
    client.ask("set a 0 10 1\r\na\r\nset b 0 0 1\r\nb\r\n", "STORED\r\nSTORED\r\n");
    client.ask("add b 0 0 1\r\nb\r\n", "NOT_STORED\r\n");
    assert_eq!(number(&mut client, "store_too_large"), 1);
    assert_eq!((number(&mut client, "cmd_set"), number(&mut client, "total_items")), (3, 2));
    clock.advance(Duration::from_secs(10));
    client.ask("get a nothing\r\nmg a\r\ngat 5 a\r\n", "END\r\nEN\r\nEND\r\n");
    client.ask("mg a T5\r\n", "EN\r\n");
    // The sweep may have removed it, from when on nothing is known of it.
    assert!(number(&mut client, "get_expired") <= 4);
    client.ask("flush_all\r\n", "OK\r\n");
    assert_eq!(number(&mut client, "curr_items"), 0);
    client.ask("set b 0 0 1\r\nb\r\n", "STORED\r\n");
    let reclaimed = number(&mut client, "reclaimed");
    assert!((1..=2).contains(&reclaimed), "{reclaimed}");
    assert_eq!(number(&mut client, "cmd_meta"), 2);
    client.ask("stats reset\r\n", "RESET\r\n");
    for name in ["store_too_large", "cmd_set", "total_items", "get_expired", "cmd_meta"] {
        assert_eq!(number(&mut client, name), 0, "{name}");
    }
}

#[test]
fn what_finds_no_room_is_counted() {
    let served = Served::sized(options(), Clock::system(), 1 << 20, 1 << 20);
    let mut client = served.memcached();
    let value = "v".repeat(10_000);
    for stored in 0.. {
        client.send(format!("set key{stored} 0 0 10000\r\n{value}\r\n"));
        if client.line() != "STORED" {
            break;
        }
    }
    assert_eq!(number(&mut client, "store_no_memory"), 1);
    assert_eq!(stats(&mut client, " items")["items:1:outofmemory"], "1");
}

#[test]
fn an_item_is_known_to_be_hit_and_when() {
    let clock = Clock::manual(1_700_000_000_000);
    let served = Served::with(options(), clock.clone());
    let mut client = served.memcached();
    client.ask("set a 0 0 1\r\na\r\n", "STORED\r\n");
    clock.advance(Duration::from_secs(2));
    client.ask("mg a h l t u\r\n", "HD h0 l2 t-1\r\n"); // Flag u: not a use.
    client.ask("mg a l h\r\n", "HD l2 h0\r\n");
    clock.advance(Duration::from_secs(3));
    client.ask("mg a h l\r\n", "HD h1 l3\r\n");
    client.ask("set a 0 0 1\r\na\r\nmg a h l\r\n", "STORED\r\nHD h0 l0\r\n");
    // Every way to fetch one.
    for fetch in ["get a", "gat 0 a"] {
        client.ask("set a 0 0 1\r\na\r\n", "STORED\r\n");
        client.ask(format!("{fetch}\r\n"), "VALUE a 0 1\r\na\r\nEND\r\n");
        client.ask("mg a h u\r\n", "HD h1\r\n");
    }
    client.ask("set a 0 0 1\r\na\r\ntouch a 0\r\nmg a h\r\n", "STORED\r\nTOUCHED\r\nHD h1\r\n");
    client.ask("set n 0 0 1\r\n1\r\nincr n 1\r\nmg n h\r\n", "STORED\r\n2\r\nHD h0\r\n");
    client.ask("incr n 1\r\nmg n h\r\n", "3\r\nHD h1\r\n");
    client.ask("mg new N30 h l\r\nmg new h\r\n", "HD h0 l0 W\r\nHD h1 Z\r\n");
    clock.advance(Duration::from_secs(5));
    client.send("me n\r\n");
    let said = client.line();
    assert!(said.contains(" la=5 ") && said.contains(" fetch=yes "), "{said}");
    // It is in memory alone.
    let served = served.restarted();
    clock.advance(Duration::from_secs(7));
    served.memcached().ask("mg n h l\r\n", "HD h0 l7\r\n");
}

#[test]
fn threads_count_together() {
    let served = Served::new();
    let mut clients: Vec<Client> = (0..8).map(|_| served.memcached()).collect();
    for client in &mut clients {
        client.ask("set a 0 0 1\r\na\r\n", "STORED\r\n");
    }
    assert_eq!(number(&mut clients[0], "cmd_set"), 8);
}

#[test]
fn evictions_are_forgotten_when_asked_to() {
    let serve = ServeOptions { evict: Some(u64::MAX), ..options() };
    let served = Served::sized(serve, Clock::system(), 1 << 20, 1 << 20);
    let mut client = served.memcached();
    let value = "v".repeat(10_000);
    for at in 0..200 {
        client.ask(format!("set key{at} 0 0 10000\r\n{value}\r\n"), "STORED\r\n");
    }
    let evicted = number(&mut client, "evictions");
    assert!(evicted > 0);
    client.ask("stats reset\r\n", "RESET\r\n");
    assert!(number(&mut client, "evictions") < evicted);
}

/// The lines of `stats conns`, beside memcached: a connection that asks, one that has said nothing,
/// one in the middle of a value, and one whose request was answered.
#[test]
fn connections_are_told_as_memcached_tells_them() {
    let served = Served::new();
    let ours = tcp(&served.server.memcached_addresses()[0]);
    let stock = stock::memcached_with(&[]);
    let told = [Some(ours), stock.as_ref().map(|stock| stock.address)].map(|address| {
        let address = address?;
        let mut client = Client::connect(address);
        // Who has asked whether a stock server listens may still be there.
        wait_for_states(&mut client, &["conn_listening", "conn_parse_cmd"]);
        let silent = Client::connect(address);
        let [mut half, mut done] = [(); 2].map(|()| Client::connect(address));
        half.send("set a 0 0 10\r\n12345");
        done.ask("get a\r\n", "END\r\n");
        let all = ["conn_listening", "conn_new_cmd", "conn_nread", "conn_parse_cmd", "conn_read"];
        let names = wait_for_states(&mut client, &all);
        let told = stats(&mut client, " conns");
        for stream in [&silent, &half, &done, &client].map(|client| &client.stream) {
            let own = format!("tcp:{}", stream.local_addr().unwrap());
            let (name, _) = told.iter().find(|(_, value)| **value == own).unwrap();
            let file = name.strip_suffix(":addr").unwrap();
            assert_eq!(told[&format!("{file}:listen_addr")], format!("tcp:{address}"));
        }
        half.ask("67890\r\n", "STORED\r\n");
        drop(silent);
        let left = ["conn_listening", "conn_parse_cmd", "conn_read", "conn_read"];
        wait_for_states(&mut client, &left);
        Some(names)
    });
    if let [Some(ours), Some(theirs)] = told {
        assert_eq!(ours, theirs);
    }
}
