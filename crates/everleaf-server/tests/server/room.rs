//! A small pool that evicts refuses nothing that fits, whatever it is full of.

use std::sync::Arc;

use everleaf::{Clock, CreateOptions, DurabilityMode, Engine};
use everleaf_server::{Database, ServeOptions, Shared, memcached, redis};
use tempfile::TempDir;

use crate::keyspace::Client;

const MIB: u64 = 1 << 20;
/// A durable engine, and one whose freed memory comes back at the ends of epochs.
const ENGINES: [Engine; 2] = [Engine::FPTREE_C, Engine::MASSTREE];

struct Small {
    _folder: TempDir,
    shared: Arc<Shared>,
}

impl Small {
    fn new(engine: Engine, bytes: u64) -> Self {
        Self::on(tempfile::tempdir().unwrap(), engine, bytes, false)
    }

    /// With a log, if it is asked for, or the engine needs one there.
    fn on(folder: TempDir, engine: Engine, bytes: u64, log: bool) -> Self {
        let create = CreateOptions::new().engine(engine).size_bytes(bytes).max_size_bytes(bytes);
        let create = match log {
            _ if engine == Engine::MASSTREE => create,
            true => create.durability(DurabilityMode::Immediate),
            false => create.durability(DurabilityMode::Process),
        };
        let store = create.create(folder.path().join("a.pool")).unwrap();
        let data = Arc::new(Database::over(store, Clock::system()).unwrap());
        Self { _folder: folder, shared: Shared::new(data, ServeOptions::default()) }
    }

    fn evicting(engine: Engine, bytes: u64) -> Self {
        Self::new(engine, bytes).which_evicts()
    }

    fn which_evicts(self) -> Self {
        self.shared.data.evict_beyond(u64::MAX);
        self
    }

    fn client(&self) -> Client {
        Client(redis::Session::new(Arc::clone(&self.shared)))
    }

    /// Nothing is wrong with it, and something was evicted.
    #[track_caller]
    fn check(&self) {
        let checked = self.shared.data.store().check().unwrap();
        assert!(checked.ok, "{:?}: {:?}", self.shared.data.store().engine(), checked.violations);
    }

    #[track_caller]
    fn check_evicted(&self) {
        self.check();
        assert!(self.shared.data.evicted() > 0);
        let mut client = self.client();
        let told = format!("evicted_keys:{}\r\n", self.shared.data.evicted());
        assert!(client.ask("INFO stats").contains(&told), "{told}");
    }
}

#[track_caller]
fn ok(client: &mut Client, line: &str) {
    let reply = client.ask(line);
    let short = &line[..line.len().min(40)];
    assert!(!reply.starts_with('-') && !reply.contains("\r\n-"), "{short}: {reply}");
}

/// Commands of a kind, and how many fill 4 MiB some times over; given the number of one.
type Kind = (&'static str, u64, fn(u64) -> String);

fn value(bytes: u64) -> String {
    "v".repeat(bytes as usize)
}

const KINDS: [Kind; 10] = [
    ("strings", 14_000, |at| format!("SET key{at:06} {}", value(300))),
    ("hashes", 8_000, |at| format!("HSET hash{at:06} field {}", value(300))),
    ("growing hashes", 12_000, |at| format!("HSET hash{} f{at:06} {}", at / 50, value(300))),
    ("large hashes", 12_000, |at| format!("HSET hash{} f{at:06} {}", at / 2000, value(300))),
    ("lists", 12_000, |at| format!("RPUSH list{} {}", at / 30, value(300))),
    ("sets", 26_000, |at| format!("SADD set{} member{at:06}{}", at / 40, value(100))),
    ("sorted sets", 14_000, |at| format!("ZADD z{} {at} member{at:06}{}", at / 40, value(100))),
    ("appended", 14_000, |at| format!("APPEND key{} {}", at / 20, value(300))),
    ("ranges", 2000, |at| format!("SETRANGE key{at} {} {}", at * 7 % 5000, value(1000))),
    ("large", 100, |at| format!("SET key{at:06} {}", value(100_000))),
];

fn fill(engine: Engine, bytes: u64, kind: Kind) {
    fill_over(Small::evicting(engine, bytes), engine, bytes, kind);
}

fn fill_over(small: Small, engine: Engine, bytes: u64, (name, many, command): Kind) {
    let mut client = small.client();
    for at in 0..many * bytes / (4 * MIB) {
        let reply = client.ask(&command(at));
        assert!(reply.starts_with([':', '+']), "{name}, {at} on {engine:?}: {reply}");
    }
    assert!(small.shared.data.evicted() > 0, "{name}");
    small.check_evicted();
}

#[test]
fn every_type_is_evicted_and_none_is_refused() {
    for engine in ENGINES {
        KINDS.into_iter().for_each(|kind| fill(engine, MIB, kind));
    }
}

#[test]
fn every_type_follows_every_other_one() {
    for engine in ENGINES {
        let small = Small::evicting(engine, MIB);
        let mut client = small.client();
        for round in 0..1 {
            for (name, many, command) in KINDS {
                for at in 0..many / 12 {
                    let line = command(at).replacen(' ', &format!(" {round}{name:.3}"), 1);
                    let reply = client.ask(&line);
                    assert!(reply.starts_with([':', '+']), "{name}, {at} on {engine:?}: {reply}");
                }
            }
        }
        small.check_evicted();
    }
}

#[test]
fn long_values_follow_short_ones_and_short_ones_long_ones() {
    for engine in ENGINES {
        let small = Small::evicting(engine, 2 * MIB);
        let mut client = small.client();
        for round in 0..2 {
            for at in 0..12_000 / (1 + 3 * round) {
                ok(&mut client, &format!("SET short{round}{at} {}", value(20)));
            }
            // Of what is longer than an eighth of the pool nodes of the tree may be in the way.
            for (many, bytes) in [(15, 100_000), (4, 250_000)] {
                for at in 0..many {
                    ok(&mut client, &format!("SET long{round}{bytes}{at} {}", value(bytes)));
                }
            }
        }
        small.check_evicted();
    }
}

#[test]
fn what_has_no_place_whatever_goes_evicts_nothing() {
    for engine in ENGINES {
        let small = Small::evicting(engine, MIB);
        let mut client = small.client();
        (0..500).for_each(|at| ok(&mut client, &format!("SET short{at} {}", value(300))));
        for _ in 0..2 {
            let reply = client.ask(&format!("SET long {}", value(1_000_000)));
            assert!(reply.starts_with("-OOM"), "{reply}");
        }
        assert_eq!((small.shared.data.evicted(), &*client.ask("DBSIZE")), (0, ":500\r\n"));
        small.check();
    }
}

#[test]
fn a_long_value_does_not_evict_everything() {
    for engine in ENGINES {
        let small = Small::evicting(engine, 8 * MIB);
        let mut client = small.client();
        for at in 0..60_000 {
            ok(&mut client, &format!("SET key{at:06} {}", value(60)));
        }
        let before = client.number("DBSIZE");
        ok(&mut client, &format!("SET long {}", value(500_000)));
        let after = client.number("DBSIZE");
        assert!(8 * after > before, "{engine:?}: {before} keys, then {after}");
        small.check_evicted();
    }
}

#[test]
fn many_writes_at_once_find_room() {
    for engine in ENGINES {
        let small = Small::evicting(engine, 2 * MIB);
        let mut client = small.client();
        for at in 0..12_000 {
            ok(&mut client, &format!("SET short{at} {}", "v".repeat(20)));
        }
        for at in 0..6 {
            let pairs = (0..100).map(|n| format!("m{at}.{n} {}", "v".repeat(70 * n % 5000 + 1)));
            ok(&mut client, &format!("MSET {}", pairs.collect::<Vec<_>>().join(" ")));
            ok(&mut client, "MULTI");
            for n in 0..30 {
                ok(&mut client, &format!("SET e{at}.{n} {}", "v".repeat(10_000)));
                ok(&mut client, &format!("HSET h{at} f{n} {}", "v".repeat(1000)));
            }
            if at % 2 == 0 {
                ok(&mut client, "DBSIZE"); // All locks.
            }
            ok(&mut client, "EXEC");
            // What one request writes is never evicted for it.
            assert_eq!(client.ask(&format!("EXISTS e{at}.0 e{at}.29 h{at}")), ":3\r\n");
            assert_eq!(client.ask(&format!("HLEN h{at}")), ":30\r\n");
        }
        small.check_evicted();
    }
}

#[test]
fn memcacheds_items_are_evicted_too() {
    for engine in ENGINES {
        let small = Small::evicting(engine, 2 * MIB);
        let mut session = memcached::Session::new(Arc::clone(&small.shared));
        let mut ask = |request: String, reply: &str| {
            let mut out = Vec::new();
            session.serve(request.as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), reply, "{}", &request[..30]);
        };
        for bytes in [20, 3000, 100_000, 20, 300_000] {
            for at in 0..3_000_000_u64.div_euclid(bytes + 400) {
                let value = "v".repeat(bytes as usize);
                ask(format!("set k{bytes}.{at} 0 0 {bytes}\r\n{value}\r\n"), "STORED\r\n");
                if at % 4 == 0 {
                    let more = bytes / 2;
                    let value = "w".repeat(more as usize);
                    ask(format!("append k{bytes}.{at} 0 0 {more}\r\n{value}\r\n"), "STORED\r\n");
                }
            }
        }
        small.check_evicted();
    }
}

#[test]
fn what_does_not_fit_at_all_is_refused_and_evicts_nothing() {
    let small = Small::evicting(Engine::FPTREE_C, MIB);
    let mut client = small.client();
    for at in 0..100 {
        ok(&mut client, &format!("SET key{at} {}", "v".repeat(100)));
    }
    let long = "v".repeat(1_048_000);
    assert!(client.ask(&format!("MSET a {long} b {long}")).starts_with("-OOM"));
    assert_eq!((client.number("DBSIZE"), small.shared.data.evicted()), (100, 0));
}

/// Until nothing more goes in, by values that become shorter.
fn fill_up(client: &mut Client) {
    for bytes in [10_000, 1000, 100, 10] {
        let mut at = 0;
        while client.ask(&format!("SET k{bytes}.{at} {}", "v".repeat(bytes))) == "+OK\r\n" {
            at += 1;
        }
    }
}

#[test]
fn a_flush_of_a_full_pool_leaves_room_for_the_next_write() {
    for engine in ENGINES {
        for evicts in [false, true] {
            for (line, bytes) in [("FLUSHALL", 100_000), ("FLUSHDB", 20), ("FLUSHALL", 3000)] {
                let small = Small::new(engine, MIB);
                let mut client = small.client();
                fill_up(&mut client);
                if evicts {
                    small.shared.data.evict_beyond(u64::MAX);
                }
                for at in 0..3 {
                    ok(&mut client, line);
                    ok(&mut client, &format!("SET new{at} {}", "v".repeat(bytes)));
                    ok(&mut client, &format!("HSET hash{at} field {}", "v".repeat(bytes)));
                    assert_eq!(client.number("DBSIZE"), 2);
                }
                client.check();
                small.check();
            }
        }
    }
}

#[test]
fn a_large_collection_that_was_deleted_leaves_room_for_the_next_write() {
    for engine in ENGINES {
        let small = Small::new(engine, MIB);
        let mut client = small.client();
        let mut at = 0;
        while !client.ask(&format!("HSET hash f{at} {}", "v".repeat(300))).starts_with('-') {
            at += 1;
        }
        ok(&mut client, "DEL hash");
        ok(&mut client, &format!("SET long {}", "v".repeat(200_000)));
        small.check();
    }
}

#[test]
fn a_full_pool_that_does_not_evict_refuses_and_deletes() {
    for engine in ENGINES {
        let small = Small::new(engine, MIB);
        let mut client = small.client();
        fill_up(&mut client);
        assert!(client.ask("SET other 1234567890").starts_with("-OOM"));
        assert!(client.ask("HSET other field 1234567890").starts_with("-OOM"));
        for at in 0..20 {
            assert_eq!(client.ask(&format!("DEL k10000.{at}")), ":1\r\n");
        }
        ok(&mut client, "SET other 1234567890");
        assert_eq!(small.shared.data.evicted(), 0);
        small.check();
    }
}

#[test]
fn clients_that_write_at_once_are_not_refused_and_see_whole_hashes() {
    for engine in ENGINES {
        let small = Small::evicting(engine, MIB);
        std::thread::scope(|scope| {
            for thread in 0..4_usize {
                let mut client = small.client();
                scope.spawn(move || {
                    for at in 0..300_usize {
                        let value = "v".repeat([20, 400, 3000, 60_000][(at / 15 + thread) % 4]);
                        ok(&mut client, &format!("SET key{thread}.{at} {value}"));
                        let fields = (0..20).map(|field| format!("f{field} {at}"));
                        let fields = fields.collect::<Vec<_>>().join(" ");
                        ok(&mut client, &format!("HSET hash{} {fields}", at % 60));
                        let all = client.ask(&format!("HGETALL hash{}", (at * 7) % 60));
                        assert!(all.starts_with("*0\r\n") || all.starts_with("*40\r\n"), "{all}");
                    }
                });
            }
        });
        small.check_evicted();
    }
}

/// Some minutes: `cargo test --release -p everleaf-server --test server -- --ignored every_size`.
#[test]
#[ignore = "for minutes"]
fn every_type_is_evicted_at_every_size_on_a_disk_and_in_memory() {
    for (folder, log) in [("/dev/shm", false), ("/var/tmp", false), ("/var/tmp", true)] {
        for engine in ENGINES {
            for bytes in [4 * MIB, 8 * MIB, 16 * MIB, 64 * MIB] {
                for kind in KINDS {
                    let Ok(folder) = tempfile::tempdir_in(folder) else { continue };
                    let small = Small::on(folder, engine, bytes, log).which_evicts();
                    fill_over(small, engine, bytes, kind);
                }
                println!("{folder}, log {log}, {engine:?}, {} MiB: none refused", bytes / MIB);
            }
        }
    }
}
