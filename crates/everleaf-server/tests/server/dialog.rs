//! What several clients say to a server in turn, and what it tells them: the same to our server and
//! to Redis itself.
//!
//! A line begins with the letter of a client. Behind it stands what it does:
//! * `: REQUEST` asks, and waits for the reply;
//! * `! REQUEST` asks, and does not wait;
//! * `?` waits for a reply or a message;
//! * `.` finds that the server has closed its connection;
//! * `~NUMBER` waits until so many clients are blocked;
//! * `-TEXT` waits for a reply that is not compared, which has this text.
//!
//! `{a}` stands for the number of client `a`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::common::PATIENCE;
use crate::redis::{Redis, serve};
use crate::stock::redis_server;

/// All that the clients are told, line by line.
fn told(address: SocketAddr, version: u8, script: &str) -> Vec<String> {
    let mut clients: BTreeMap<char, (Redis, String)> = BTreeMap::new();
    let lines: Vec<&str> = script.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    for line in &lines {
        clients.entry(line.chars().next().unwrap()).or_insert_with(|| {
            let mut client = Redis::connect(address);
            client.ask(&format!("HELLO {version}"));
            let id = client.ask("CLIENT ID");
            (client, id.trim_start_matches(':').trim_end().to_owned())
        });
    }
    let ids: Vec<_> = clients.iter().map(|(name, (_, id))| (*name, id.clone())).collect();
    let mut told = Vec::new();
    for line in lines {
        let mut rest = line[1..].to_owned();
        for (name, id) in &ids {
            rest = rest.replace(&format!("{{{name}}}"), id);
        }
        let (client, _) = clients.get_mut(&line.chars().next().unwrap()).unwrap();
        let (act, words) = rest.split_at(1);
        let got = match act {
            ":" => client.ask(words.trim()),
            "!" => {
                client.send(words.trim());
                continue;
            }
            "?" => client.next(),
            "." => client.is_closed().to_string(),
            "~" => {
                wait_for_blocked(client, words);
                continue;
            }
            "-" => {
                let got = client.next();
                assert!(got.contains(words), "{line}: {got}");
                continue;
            }
            _ => panic!("nothing begins so: {line}"),
        };
        let got = if line.contains("REDIR") || line.contains("TRACKINGINFO") {
            ids.iter().fold(got, |got, (name, id)| {
                got.replace(&format!(":{id}\r\n"), &format!(":{{{name}}}\r\n"))
            })
        } else {
            got
        };
        told.push(format!("{line} => {}", got.escape_debug()));
    }
    told
}

fn wait_for_blocked(client: &mut Redis, count: &str) {
    let (line, end) = (format!("blocked_clients:{count}\r\n"), Instant::now() + PATIENCE);
    loop {
        let said = client.ask("INFO clients");
        if said.contains(&line) {
            return;
        }
        assert!(Instant::now() < end, "not {line} but {said}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Both servers must tell the same; `set` is what each is told first.
pub fn compare(set: &[&str], script: &str) {
    let Some(stock) = redis_server() else { return };
    for version in [2, 3] {
        let (_served, address) = serve();
        for address in [address, stock.address] {
            let mut client = Redis::connect(address);
            for line in ["FLUSHALL"].iter().chain(set) {
                assert!(!client.ask(line).starts_with('-'), "{line}");
            }
        }
        let (ours, theirs) = (told(address, version, script), told(stock.address, version, script));
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours, theirs, "RESP{version}");
        }
    }
}
