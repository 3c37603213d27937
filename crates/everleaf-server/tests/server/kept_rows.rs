//! The rows by which a pool keeps what clients have stored stay as they are: docs/format.md, *What
//! the server keeps*.
//!
//! `kept_rows/NAME.dump` is the dump of a pool to which the server of a release has written
//! `NAME.writes`, by a clock that stands, so that each byte of it is settled. It is never made
//! anew: a release that adds to the rows adds three files, and their name here.
//!
//! ```sh
//! EVERLEAF_FIXTURES=NAME cargo test -p everleaf-server --features scripts --test server \
//!     kept_rows::make -- --ignored
//! ```
//!
//! A line of `NAME.writes` and `NAME.reads` is a request, ` => ` and the reply. `memcached:` begins
//! one of memcached's.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use everleaf::{Clock, CreateOptions, DurabilityMode, Key, OpenOptions, Store};
use everleaf_server::{Database, ServeOptions, Shared, Then, memcached, redis};

use crate::common::PATIENCE;

/// The last one has what this release writes.
const KEPT: [&str; 1] = ["rows-0.3"];
const NOW_MS: u64 = 1_700_000_000_000;
/// When it is read.
const READ_MS: u64 = NOW_MS + 1000;
/// When the first database is emptied, as `flush_all` has said.
const EMPTIED: Duration = Duration::from_secs(1000);

fn file(name: &str, what: &str) -> PathBuf {
    let name = format!("{name}.{what}");
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server/kept_rows").join(name)
}

fn create(path: &Path) -> Store {
    let create = CreateOptions::new().size_bytes(1 << 20).durability(DurabilityMode::Process);
    create.create(path).unwrap()
}

fn open(path: &Path, clock: &Clock) -> Arc<Database> {
    Arc::new(Database::open(path, &OpenOptions::new().clock(clock.clone())).unwrap())
}

/// The requests of a file, and what they are answered now.
fn asked(data: &Arc<Database>, lines: &str) -> String {
    let shared = Shared::new(Arc::clone(data), ServeOptions::default());
    let mut of_redis = redis::Session::new(Arc::clone(&shared));
    let mut of_memcached = memcached::Session::new(shared);
    let ask = |line: &str| {
        let (request, _) = line.split_once(" => ").unwrap_or((line, ""));
        let mut out = Vec::new();
        match request.strip_prefix("memcached:") {
            None => {
                let input = format!("{request}\r\n");
                let mut served = of_redis.serve(input.as_bytes(), &mut out);
                if served.then != Then::Read {
                    served = of_redis.serve_long(&input.as_bytes()[served.consumed..], &mut out);
                }
                assert_eq!(served.then, Then::Read, "{request}");
            }
            Some(lines) => {
                let input = lines.trim().replace("\\r\\n", "\r\n") + "\r\n";
                assert_eq!(of_memcached.serve(input.as_bytes(), &mut out).then, Then::Read);
            }
        }
        format!("{request} => {}\n", out.escape_ascii())
    };
    lines.lines().map(ask).collect()
}

#[track_caller]
fn answers_as_kept(data: &Arc<Database>, path: &Path) {
    let kept = fs::read_to_string(path).unwrap();
    let told = asked(data, &kept);
    kept.lines().zip(told.lines()).for_each(|(kept, told)| assert_eq!(told, kept));
}

/// Writes what a file asks for to a new pool, and closes it.
fn filled(path: &Path, writes: &Path) -> Store {
    let clock = Clock::manual(NOW_MS);
    let data = Arc::new(Database::over(create(path), clock).unwrap());
    answers_as_kept(&data, writes);
    Arc::into_inner(data).unwrap().close().unwrap();
    Store::open(path).unwrap()
}

fn dumped(store: &Store) -> Vec<u8> {
    let mut dump = Vec::new();
    store.dump(&mut dump).unwrap();
    dump
}

/// The rows of a store, a line each.
fn rows(store: &Store) -> Vec<String> {
    let line = |entry: Result<(_, Vec<u8>), _>| {
        let (row, value): (everleaf::OwnedKey, _) = entry.unwrap();
        format!("{} = {}", row.escape_ascii(), value.escape_ascii())
    };
    store.tree("everleaf.server").unwrap().iter().map(line).collect()
}

#[test]
#[ignore = "writes into the repository"]
fn make() {
    let name = std::env::var("EVERLEAF_FIXTURES").expect("the name of the files");
    let [writes, reads, dump] = ["writes", "reads", "dump"].map(|what| file(&name, what));
    assert!(!dump.exists(), "what is kept is never made anew");
    let folder = tempfile::tempdir().unwrap();
    let [now, later] = [NOW_MS, READ_MS].map(Clock::manual);
    let [first, second] = ["a.pool", "b.pool"].map(|name| folder.path().join(name));
    let data = Arc::new(Database::over(create(&first), now).unwrap());
    fs::write(&writes, asked(&data, &fs::read_to_string(&writes).unwrap())).unwrap();
    Arc::into_inner(data).unwrap().close().unwrap();
    fs::write(&dump, dumped(&filled(&second, &writes))).unwrap();
    fs::write(&reads, asked(&open(&first, &later), &fs::read_to_string(&reads).unwrap())).unwrap();
}

#[test]
fn what_this_release_writes_is_what_is_kept_to_the_last_byte() {
    let folder = tempfile::tempdir().unwrap();
    let name = KEPT[KEPT.len() - 1];
    let kept = create(&folder.path().join("kept.pool"));
    let dump = fs::read(file(name, "dump")).unwrap();
    kept.restore(&*dump).unwrap();
    let now = filled(&folder.path().join("now.pool"), &file(name, "writes"));
    let rows = [rows(&kept), rows(&now)];
    rows[0].iter().zip(&rows[1]).for_each(|(kept, now)| assert_eq!(now, kept));
    assert!(rows[0].len() == rows[1].len() && dumped(&now) == dump, "there are other rows");
}

#[test]
fn what_earlier_releases_kept_is_told_as_it_was_and_written_on() {
    for name in KEPT {
        let folder = tempfile::tempdir().unwrap();
        let (path, clock) = (folder.path().join("a.pool"), Clock::manual(READ_MS));
        create(&path).close().unwrap();
        everleaf::restore(&path, fs::File::open(file(name, "dump")).unwrap()).unwrap();
        let data = open(&path, &clock);
        answers_as_kept(&data, &file(name, "reads"));
        // What was deleted, and what is emptied when its time has come, goes.
        clock.advance(EMPTIED);
        let told = asked(&data, "DBSIZE\nEXISTS string hash\nSELECT 3\nGET elsewhere\nDBSIZE");
        let told: Vec<_> = told.lines().map(|line| line.split_once(" => ").unwrap().1).collect();
        let elsewhere = "$1\\r\\n3\\r\\n";
        assert_eq!(told, [":0\\r\\n", ":0\\r\\n", "+OK\\r\\n", elsewhere, ":1\\r\\n"]);
        let (sweeper, end) = (data.sweep(Duration::from_millis(1)), Instant::now() + PATIENCE);
        let tree = data.store().tree("everleaf.server").unwrap();
        let is_of_client = |key: Key<'_>| matches!(key, Key::Bytes([1..=3, ..]));
        while tree.keys().filter(|key| is_of_client(key.as_ref().unwrap().as_ref())).count() > 2 {
            assert!(Instant::now() < end, "{:?}", rows(data.store()));
            std::thread::sleep(Duration::from_millis(1));
        }
        drop((sweeper, tree));
        Arc::into_inner(data).unwrap().close().unwrap();
        assert!(Store::open(&path).unwrap().check().unwrap().ok);
    }
}
