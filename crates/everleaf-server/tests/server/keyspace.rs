//! Numbers of keys that are kept up, and keys that are drawn: what they tell is what there is.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use everleaf::{Clock, CreateOptions, DurabilityMode, Key, OpenOptions};
use everleaf_server::{Database, ServeOptions, Shared, Then, redis};
use proptest::prelude::*;
use tempfile::TempDir;

use crate::common::PATIENCE;

pub struct Pool {
    folder: TempDir,
    clock: Clock,
    pub shared: Arc<Shared>,
}

impl Pool {
    pub fn new() -> Self {
        Self::of(1 << 30)
    }

    /// One that has at most so many bytes.
    pub fn of(max_bytes: u64) -> Self {
        let (folder, clock) = (tempfile::tempdir().unwrap(), Clock::manual(1_700_000_000_000));
        let create = CreateOptions::new().size_bytes(4 << 20).max_size_bytes(max_bytes);
        let create = create.clock(clock.clone()).durability(DurabilityMode::Process);
        create.create(folder.path().join("a.pool")).unwrap().close().unwrap();
        let shared = shared(folder.path().join("a.pool"), &clock);
        Self { folder, clock, shared }
    }

    /// The same pool, opened again: behind a close, which stores the numbers, or without one.
    pub fn again(self, closed: bool) -> Self {
        let Self { folder, clock, shared } = self;
        let data = Arc::clone(&shared.data);
        drop(shared);
        let data = Arc::into_inner(data).unwrap();
        if closed {
            data.close().unwrap();
        } else {
            drop(data);
        }
        let shared = shared_again(&folder, &clock);
        Self { folder, clock, shared }
    }

    pub fn client(&self) -> Client {
        Client(redis::Session::new(Arc::clone(&self.shared)))
    }

    /// Rows of keys and of parts of collections.
    fn rows(&self) -> usize {
        let tree = self.shared.data.store().tree("everleaf.server").unwrap();
        let keys = tree.keys().map(|key| key.unwrap());
        keys.filter(|key| matches!(key.as_ref(), Key::Bytes([1 | 2, ..]))).count()
    }

    /// Sweeps until there are so many rows: on a busy machine that is not done after a fixed time.
    #[track_caller]
    pub fn sweeps_to(&self, expected: usize, why: &str) {
        let _sweeper = self.shared.data.sweep(Duration::from_millis(1));
        let end = Instant::now() + PATIENCE;
        while self.rows() != expected {
            assert!(Instant::now() < end, "{} rows instead of {expected}, {why}", self.rows());
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn shared(path: PathBuf, clock: &Clock) -> Arc<Shared> {
    let open = OpenOptions::new().clock(clock.clone());
    Shared::new(Arc::new(Database::open(&path, &open).unwrap()), ServeOptions::default())
}

fn shared_again(folder: &TempDir, clock: &Clock) -> Arc<Shared> {
    shared(folder.path().join("a.pool"), clock)
}

pub struct Client(pub redis::Session);

impl Client {
    pub fn ask(&mut self, line: &str) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        let mut request = format!("*{}\r\n", words.len());
        words.iter().for_each(|w| write!(request, "${}\r\n{w}\r\n", w.len()).unwrap());
        let (mut input, mut out) = (request.into_bytes(), Vec::new());
        loop {
            let served = self.0.serve_long(&input, &mut out);
            input.drain(..served.consumed);
            if served.then == Then::Read {
                return String::from_utf8(out).unwrap();
            }
        }
    }

    pub fn number(&mut self, line: &str) -> usize {
        let reply = self.ask(line);
        reply.trim_matches(|c| c == ':' || c == '\r' || c == '\n').parse().expect(&reply)
    }

    /// DBSIZE of two databases is what KEYS shows of them, which reads them.
    pub fn check(&mut self) {
        for database in [1, 0] {
            self.ask(&format!("SELECT {database}"));
            let keys = self.ask("KEYS *");
            let shown: usize = keys[1..keys.find('\r').unwrap()].parse().unwrap();
            assert_eq!(self.number("DBSIZE"), shown, "of database {database}");
            let line = format!("db{database}:keys={shown},");
            assert_eq!(self.ask("INFO keyspace").contains(&line), shown > 0, "{line}");
        }
    }
}

/// What is done; none: the pool is opened again, without a close or behind one.
type Step = Result<String, bool>;

fn step() -> impl Strategy<Value = Step> {
    let key = || (0..12u8).prop_map(|key| format!("k{key}"));
    let command = prop_oneof![
        8 => key().prop_map(|k| format!("SET {k} 1")),
        4 => key().prop_map(|k| format!("DEL {k}")),
        2 => (key(), key()).prop_map(|(a, b)| format!("MSET {a} 1 {b} 2")),
        2 => (key(), key()).prop_map(|(a, b)| format!("DEL {a} {b}")),
        2 => key().prop_map(|k| format!("SADD {k} 1 2")),
        2 => key().prop_map(|k| format!("SREM {k} 1 2")),
        2 => (key(), key()).prop_map(|(a, b)| format!("RENAME {a} {b}")),
        1 => (key(), 0..2u8).prop_map(|(k, to)| format!("COPY {k} {k} DB {to} REPLACE")),
        2 => (0..2u8).prop_map(|database| format!("SELECT {database}")),
        1 => Just("FLUSHDB".to_owned()),
        1 => Just("FLUSHALL".to_owned()),
        2 => Just("MULTI".to_owned()),
        3 => Just("EXEC".to_owned()),
        1 => Just("DBSIZE".to_owned()),
    ];
    prop_oneof![20 => command.prop_map(Ok), 1 => any::<bool>().prop_map(Err)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_number_of_keys_is_that_of_the_keys(steps in prop::collection::vec(step(), 1..80)) {
        let mut pool = Pool::new();
        let mut client = pool.client();
        for step in steps {
            match step {
                Ok(line) => drop(client.ask(&line)),
                Err(closed) => {
                    drop(client);
                    pool = pool.again(closed);
                    client = pool.client();
                }
            }
        }
        client.ask("EXEC");
        client.check();
    }
}

#[test]
fn what_is_written_while_keys_are_counted_is_counted_once() {
    let mut pool = Pool::new();
    let mut client = pool.client();
    (0..9000).for_each(|key| drop(client.ask(&format!("SET key{key:05} 1"))));
    client.ask("SELECT 1");
    (0..3000).for_each(|key| drop(client.ask(&format!("SET key{key:05} 1"))));
    client.ask("FLUSHDB");
    drop(client);
    pool = pool.again(false);
    let mut client = pool.client();
    let mut steps = 0;
    while !pool.shared.data.count_some().unwrap() {
        for at in [10, 3000, 5000, 8990] {
            let key = at + steps;
            client.ask(&format!("DEL key{key:05}"));
            client.ask(&format!("SET new{key:05} 1"));
            client.ask(&format!("SET key{:05} 2", key + 1));
        }
        steps += 1;
    }
    assert!(steps >= 4, "{steps} steps");
    client.ask("SELECT 1");
    client.ask("SET key00001 1");
    client.check();
}

#[test]
fn what_has_expired_counts_until_it_is_swept_and_what_was_emptied_never() {
    let pool = Pool::new();
    let mut client = pool.client();
    (0..300).for_each(|key| drop(client.ask(&format!("SET key{key} 1 EX {}", 1 + key % 2))));
    client.ask("SELECT 1");
    (0..100).for_each(|key| drop(client.ask(&format!("SET key{key} 1"))));
    client.ask("FLUSHDB");
    client.ask("SET key1 1");
    client.check();
    assert!(client.ask("INFO keyspace").contains("db0:keys=300,expires=300,"));
    pool.clock.advance(std::time::Duration::from_millis(1500));
    assert_eq!(client.number("DBSIZE"), 300);
    let sweeper = pool.shared.data.sweep(std::time::Duration::from_millis(1));
    while client.number("DBSIZE") > 150 {
        std::thread::yield_now();
    }
    drop(sweeper);
    client.check();
    assert!(client.ask("INFO keyspace").contains("db0:keys=150,expires=150,"));
}

/// Also where the collection was made before the pool was opened.
#[test]
fn a_string_that_takes_the_place_of_a_collection_gives_its_room_back() {
    let mut pool = Pool::new();
    for reopens in [false, true] {
        let rows =
            |pool: &Pool| pool.shared.data.store().tree("everleaf.server").unwrap().len().unwrap();
        pool.client().ask("DEL key");
        pool.client().ask("SADD key 1 2 3 4 5 6 7 8 9");
        if reopens {
            pool = pool.again(true);
        }
        let before = rows(&pool) - 9;
        pool.client().ask("SET key 1");
        let sweeper = pool.shared.data.sweep(std::time::Duration::from_millis(1));
        let begun = std::time::Instant::now();
        while rows(&pool) > before {
            assert!(begun.elapsed().as_secs() < 30, "{} rows, not {before}", rows(&pool));
            std::thread::yield_now();
        }
        drop(sweeper);
    }
}

#[test]
fn keys_are_drawn_from_all_of_a_database() {
    let pool = Pool::new();
    let mut client = pool.client();
    assert_eq!(client.ask("RANDOMKEY"), "$-1\r\n");
    for keys in [10, 5000] {
        (0..keys).for_each(|key| drop(client.ask(&format!("SET key{key:05} 1"))));
        // The places of many keys are those of a round.
        let sweeper = pool.shared.data.sweep(std::time::Duration::from_millis(1));
        std::thread::sleep(std::time::Duration::from_millis(100));
        drop(sweeper);
        let mut tenths = [0; 10];
        for _ in 0..1000 {
            let reply = client.ask("RANDOMKEY");
            let key: usize = reply.trim_end().rsplit("key").next().unwrap().parse().unwrap();
            tenths[10 * key / keys] += 1;
        }
        assert!(tenths.iter().all(|drawn| *drawn > 30), "of {keys} keys: {tenths:?}");
    }
    client.ask("SELECT 1");
    assert_eq!(client.ask("RANDOMKEY"), "$-1\r\n");
}

/// A collection that has expired lies where a key of the other database goes to.
#[test]
fn what_has_expired_leaves_nothing_where_databases_change_places() {
    let pool = Pool::new();
    let mut client = pool.client();
    for line in ["SELECT 1", "RPUSH k 1 2 3", "PEXPIRE k 1", "SELECT 0", "SET k v"] {
        client.ask(line);
    }
    pool.clock.advance(Duration::from_millis(2));
    assert_eq!(client.ask("SWAPDB 0 1"), "+OK\r\n");
    assert_eq!(client.ask("DBSIZE"), ":0\r\n");
    client.ask("SELECT 1");
    assert_eq!(client.ask("GET k"), "$1\r\nv\r\n");
    pool.sweeps_to(1, "the key, and nothing of the list");
}
