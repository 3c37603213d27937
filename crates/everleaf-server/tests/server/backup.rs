//! Backups that clients ask for, while the server goes on.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use everleaf::{Clock, OpenOptions, Store};
use everleaf_server::{Database, ServeError, ServeOptions, Server};
use tempfile::TempDir;

use crate::common::{Client, Served, options, tcp};
use crate::redis::Redis;

const IN_PROGRESS: &str = "-ERR Background save already in progress\r\n";
const FAILED: &str = "-ERR the backup failed; the log of the server says why\r\n";
const STARTED: &str = "+Background saving started\r\n";

/// A server with a folder for backups, and that folder.
fn serve() -> (Served, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let any = || vec!["127.0.0.1:0".parse().unwrap()];
    let backups = Some(folder.path().into());
    let options = ServeOptions { redis: any(), metrics: any(), backups, threads: 1, ..options() };
    (Served::with(options, Clock::system()), folder)
}

fn redis(served: &Served) -> Redis {
    Redis::connect(tcp(&served.server.redis_addresses()[0]))
}

/// Stores what takes a while to be dumped.
fn fill(redis: &mut Redis) {
    let value = vec![b'x'; 512 << 10];
    for number in 0..24 {
        let key = format!("long {number}");
        assert_eq!(redis.ask_bytes(&[b"SET", key.as_bytes(), &value]), b"+OK\r\n");
    }
}

/// A line of INFO.
fn told(redis: &mut Redis, name: &str) -> String {
    let info = redis.ask("INFO persistence");
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name} in {info}")).to_owned()
}

fn wait_for_end(redis: &mut Redis) {
    while told(redis, "rdb_bgsave_in_progress") == "1" {
        std::thread::yield_now();
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Serves what a backup holds, and asks for some keys.
fn restored<const N: usize>(backup: &Path, keys: [&str; N]) -> [String; N] {
    let folder = tempfile::tempdir().unwrap();
    let pool = folder.path().join("restored.pool");
    Store::create(&pool).unwrap().close().unwrap();
    everleaf::restore(&pool, fs::File::open(backup).unwrap()).unwrap();
    let data = Arc::new(Database::open(&pool, &OpenOptions::new()).unwrap());
    let redis_addresses = vec!["127.0.0.1:0".parse().unwrap()];
    let server = Server::start(data, ServeOptions { redis: redis_addresses, ..options() }).unwrap();
    let mut redis = Redis::connect(tcp(&server.redis_addresses()[0]));
    keys.map(|key| redis.ask(&format!("GET {key}")))
}

#[test]
fn a_backup_under_writes_is_of_the_moment_at_which_it_was_begun() {
    let (served, folder) = serve();
    let mut asks = redis(&served);
    fill(&mut asks);
    let written = Arc::new([const { AtomicU64::new(0) }; 2]);
    let writers = [0, 1].map(|writer: usize| {
        let (mut redis, written) = (redis(&served), Arc::clone(&written));
        std::thread::spawn(move || {
            for number in 1_u64.. {
                for line in ["MULTI", &format!("SET {{{writer}}}a {number}"), "INCR pairs"] {
                    redis.ask(line);
                }
                redis.ask(&format!("SET {{{writer}}}b {number}"));
                if !redis.ask("EXEC").starts_with("*3\r\n+OK\r\n") {
                    return;
                }
                if written[writer].swap(number, Ordering::Relaxed) == u64::MAX {
                    return;
                }
            }
        })
    });
    for number in 0..4 {
        let marked = asks.ask(&format!("SET mark {number}"));
        let before = [0, 1].map(|writer| written[writer].load(Ordering::Relaxed));
        assert_eq!((&marked[..], &asks.ask("BGSAVE")[..]), ("+OK\r\n", STARTED));
        asks.ask("SET mark later");
        wait_for_end(&mut asks);
        let name = names(folder.path()).pop().unwrap();
        let [mark, a0, b0, a1, b1] =
            restored(&folder.path().join(name), ["mark", "{0}a", "{0}b", "{1}a", "{1}b"]);
        assert_eq!(mark, format!("$1\r\n{number}\r\n"));
        assert!(a0 == b0 && a1 == b1, "halves of transactions: {a0:?} {b0:?} {a1:?} {b1:?}");
        for (before, found) in before.into_iter().zip([a0, a1]) {
            let found = found.lines().nth(1).map_or(0, |number| number.parse().unwrap());
            assert!(before <= found, "{before} was acknowledged, {found} is there");
        }
    }
    written.iter().for_each(|written| written.store(u64::MAX, Ordering::Relaxed));
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert_eq!(names(folder.path()).len(), 4, "nothing is replaced or removed");
}

#[test]
fn one_backup_is_made_at_a_time_and_the_others_are_refused_as_redis_refuses_them() {
    let (served, folder) = serve();
    let mut redis = redis(&served);
    fill(&mut redis);
    let mut made = 0;
    loop {
        made += 1;
        assert_eq!(redis.ask("BGSAVE SCHEDULE"), STARTED);
        let second = redis.ask(["BGSAVE", "SAVE", "BGSAVE schedule"][made % 3]);
        wait_for_end(&mut redis);
        match &second[..] {
            IN_PROGRESS => break,
            _ => made += 1, // The first had ended already.
        }
    }
    assert_eq!(redis.ask("BGSAVE now"), "-ERR syntax error\r\n");
    assert_eq!(redis.ask("MULTI"), "+OK\r\n");
    let refused = "-ERR Command not allowed inside a transaction\r\n";
    assert_eq!((redis.ask("BGSAVE"), redis.ask("SAVE")), (refused.into(), refused.into()));
    assert!(redis.ask("EXEC").starts_with("-EXECABORT"));
    assert_eq!(names(folder.path()).len(), made);
}

#[test]
fn save_holds_up_its_own_client_only() {
    let (served, folder) = serve();
    let (mut saves, mut other) = (redis(&served), redis(&served));
    fill(&mut saves);
    let began = saves.ask("LASTSAVE");
    assert_eq!(told(&mut other, "rdb_last_bgsave_time_sec"), "-1");
    assert_eq!(began, format!(":{}\r\n", told(&mut other, "rdb_last_save_time")));
    // The one thread of the server answers while it saves.
    loop {
        let mut client = Client::connect(tcp(&served.server.redis_addresses()[0]));
        client.send("SAVE\r\n");
        let seen = std::iter::repeat_with(|| told(&mut other, "rdb_bgsave_in_progress"));
        let seen = seen.take(1000).any(|told| told == "1");
        client.expect("+OK\r\n");
        if seen {
            break;
        }
    }
    assert!(saves.ask("LASTSAVE") >= began);
    assert_ne!(told(&mut other, "rdb_last_bgsave_time_sec"), "-1");
    assert!(names(folder.path()).iter().all(|name| name.ends_with(".dump")));
}

#[test]
fn without_a_folder_backups_are_refused_and_the_start_is_the_last_one() {
    let redis_addresses = vec!["127.0.0.1:0".parse().unwrap()];
    let options = ServeOptions { redis: redis_addresses, ..options() };
    let served = Served::with(options.clone(), Clock::manual(1_234_567));
    let mut redis = redis(&served);
    for line in ["BGSAVE", "BGSAVE SCHEDULE", "SAVE"] {
        assert!(redis.ask(line).starts_with("-ERR this server makes no backups; start"), "{line}");
    }
    assert_eq!(redis.ask("LASTSAVE"), ":1234\r\n");
    assert_eq!(told(&mut redis, "rdb_last_bgsave_status"), "ok");
    let wrong = ServeOptions { backups: Some("/none".into()), ..options };
    let started = Server::start(Arc::clone(&served.shared().data), wrong);
    assert!(matches!(started, Err(ServeError::Backups { .. })));
}

#[test]
fn a_folder_that_goes_fails_its_backup_and_not_the_server() {
    let (served, folder) = serve();
    let mut redis = redis(&served);
    redis.ask("SET leaf green");
    let moved = folder.path().with_extension("moved");
    fs::rename(folder.path(), &moved).unwrap();
    assert_eq!(redis.ask("SAVE"), FAILED);
    redis.ask("BGSAVE");
    wait_for_end(&mut redis);
    let metric = |name: &str| {
        let mut client = Client::connect(tcp(&served.server.metrics_addresses()[0]));
        client.send("GET /metrics HTTP/1.1\r\n\r\n");
        let text = String::from_utf8(client.rest()).unwrap();
        let name = format!("everleaf_backup_{name} ");
        text.lines().find_map(|line| line.strip_prefix(&name)).unwrap().to_owned()
    };
    assert_eq!(
        (told(&mut redis, "rdb_last_bgsave_status"), metric("ok")),
        ("err".into(), "0".into())
    );
    fs::rename(&moved, folder.path()).unwrap();
    assert!(names(folder.path()).is_empty(), "nothing is left of what failed");
    assert_eq!(redis.ask("SAVE"), "+OK\r\n");
    assert_eq!(
        (told(&mut redis, "rdb_last_bgsave_status"), metric("ok")),
        ("ok".into(), "1".into())
    );
    let saved = redis.ask("LASTSAVE");
    let saved = saved.trim().strip_prefix(':').unwrap();
    assert!(metric("timestamp_seconds").starts_with(saved));
    let name = names(folder.path()).pop().unwrap();
    assert_eq!(restored(&folder.path().join(name), ["leaf"]), ["$5\r\ngreen\r\n"]);
}

#[test]
fn a_server_that_stops_ends_its_backup_and_leaves_nothing_of_it() {
    let (served, folder) = serve();
    let mut redis = redis(&served);
    fill(&mut redis);
    assert_eq!(redis.ask("BGSAVE"), STARTED);
    let restarted = served.restarted();
    assert!(names(folder.path()).iter().all(|name| name.ends_with(".dump")));
    drop(restarted);
}
