//! Both ends within one process: the owner's store, and askers that are well-behaved or not.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::listener::{CONNECTIONS, Listener};
use super::open_elsewhere;
use super::socket::Socket;
use super::wire::REQUEST_BYTES;
use crate::{CreateOptions, Engine, Error, KeyType, OpenOptions, Store};

const SNAPSHOT: &[u8] = b"{\"snapshot\":{\"limit_bytes\":1000000}}\n";
const ENTRIES: &[u8] =
    b"{\"entries\":{\"from\":\"Unbounded\",\"backward\":false,\"limit\":128,\"once\":false}}\n";

/// A store that answers, and its folder.
struct Owner {
    folder: tempfile::TempDir,
    store: Store,
}

impl Owner {
    fn new() -> Self {
        Self::of(&CreateOptions::new().size_bytes(1 << 20))
    }

    fn of(options: &CreateOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p");
        options.create(&path).unwrap().close().unwrap();
        let store = OpenOptions::new().control_socket(true).open(&path).unwrap();
        assert_eq!(store.no_control_socket(), None);
        Self { folder, store }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("p")
    }

    fn asked(&self) -> Store {
        open_elsewhere(&self.path()).unwrap().unwrap()
    }

    fn connect(&self) -> Raw {
        Raw(BufReader::new(UnixStream::connect(self.folder.path().join("p.sock")).unwrap()))
    }
}

/// A peer that sends what it likes.
struct Raw(BufReader<UnixStream>);

impl Raw {
    fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).unwrap();
    }

    /// The next line; none at the end.
    fn line(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.0.read_line(&mut line).unwrap_or(0) {
            0 => None,
            _ => Some(serde_json::from_str(&line).unwrap()),
        }
    }
}

#[test]
fn an_asker_sees_one_moment_of_all_trees_and_cannot_write() {
    let owner = Owner::new();
    for number in 0..1000 {
        owner.store.put(format!("key {number:04}"), format!("value {number}")).unwrap();
    }
    let herbs = owner.store.tree_with("herbs", KeyType::U64).unwrap();
    herbs.put(7, "mint").unwrap();
    owner.store.put_for("brief", "", Duration::ZERO).unwrap();
    owner.store.put_for("long", "", Duration::from_secs(3600)).unwrap();
    let (asked, mut before) = (owner.asked(), Vec::new());
    owner.store.dump(&mut before).unwrap();
    assert_eq!(asked.get("key 0007").unwrap().as_deref(), Some(&b"value 7"[..]));
    owner.store.delete("key 0007").unwrap();
    owner.store.put("key 0008", "new").unwrap();
    owner.store.drop_tree("herbs").unwrap();
    assert_eq!(asked.get("key 0008").unwrap().as_deref(), Some(&b"value 8"[..]));
    assert_eq!((asked.get("key").unwrap(), asked.get("brief").unwrap()), (None, None));
    let expiry = |store: &Store| store.expiry("long").unwrap().unwrap();
    assert_eq!(expiry(&asked), expiry(&owner.store));
    let forward: Vec<_> = asked.iter().map(Result::unwrap).collect();
    let mut backward: Vec<_> = asked.iter().rev().map(Result::unwrap).collect();
    backward.reverse();
    assert!(forward.len() == 1001 && forward == backward);
    assert_eq!(asked.count_in("key 0100".."key 0200").unwrap(), 100);
    assert_eq!(asked.tree_names().unwrap(), [b"herbs"]);
    let herbs = asked.existing_tree("herbs").unwrap().unwrap();
    assert_eq!(herbs.get(7).unwrap().as_deref(), Some(&b"mint"[..]));
    let mut dump = Vec::new();
    asked.dump(&mut dump).unwrap();
    assert!(dump == before, "the dump is of another moment");
    assert_eq!(asked.len().unwrap(), 1000, "it is counted now");
    assert!(matches!(asked.put("a", "b"), Err(Error::ReadOnly)));
    assert!(matches!(asked.tree("new"), Err(Error::NoSuchTree { .. })));
    assert!(matches!(asked.transaction(|tx| tx.get("a").map(drop)), Err(Error::ReadOnly)));
    assert!(asked.remove_expired().is_err() && asked.sweep_every(None).is_err());
}

#[test]
fn a_copy_has_engine_sizes_and_durability_of_every_engine() {
    for engine in Engine::available() {
        for key_type in [KeyType::U64, KeyType::Bytes] {
            if !engine.has_keys(key_type) {
                continue;
            }
            let options = CreateOptions::new().size_bytes(1 << 20).engine(engine);
            let owner = Owner::of(&options.max_size_bytes(1 << 24).key_type(key_type));
            match key_type {
                KeyType::U64 => owner.store.put_many((0..500u64).map(|key| (key, "value"))),
                KeyType::Bytes => owner.store.put_many((0..500).map(|i| (i.to_string(), "value"))),
            }
            .unwrap();
            let (asked, copy) = (owner.asked(), owner.folder.path().join("copy"));
            let (mut here, mut there) = (owner.store.statistics(), asked.statistics());
            for statistics in [&mut here, &mut there] {
                // What goes on beside it.
                let statistics = statistics.as_mut().unwrap();
                (statistics.log_counts, statistics.epochs) = (None, Default::default());
            }
            assert_eq!(here.unwrap(), there.unwrap());
            assert_eq!(asked.check().unwrap(), owner.store.check().unwrap());
            assert_eq!(asked.copy(&copy).unwrap().entries, 500);
            let copy = Store::open(copy).unwrap();
            assert!(copy.check().unwrap().ok);
            assert_eq!((copy.engine(), copy.key_type()), (engine, key_type));
            assert_eq!(copy.statistics().unwrap().max_bytes, 1 << 24);
            assert_eq!(copy.capabilities(), owner.store.capabilities());
            assert!(copy.iter().map(Result::unwrap).eq(owner.store.iter().map(Result::unwrap)));
        }
    }
}

#[test]
fn long_keys_and_values_come_whole() {
    let owner = Owner::new();
    let (key, value) = (vec![255; crate::MAX_KEY_BYTES - 2], vec![7; 3 << 20]);
    owner.store.put(&key, &value).unwrap();
    owner.store.put("", "").unwrap();
    let asked = owner.asked();
    assert!(asked.get(&key).unwrap() == Some(value.clone()));
    assert_eq!(asked.get("").unwrap().as_deref(), Some(&b""[..]));
    assert!(asked.range(&key[..]..).next().unwrap().unwrap().1 == value);
}

#[test]
fn a_snapshot_that_is_lost_is_said_to_be_and_another_asker_goes_on() {
    let owner = Owner::new();
    owner.store.put("key", "value").unwrap();
    let mut raw = owner.connect();
    assert_eq!(raw.line().unwrap()["protocol"], 1);
    raw.send(b"{\"snapshot\":{\"limit_bytes\":0}}\n");
    assert!(raw.line().unwrap()["Ok"].is_u64());
    owner.store.put("key", "new").unwrap();
    let entries = br#"{"entries":{"from":"Unbounded","backward":false,"limit":9,"once":false}}"#;
    raw.send(&[&entries[..], b"\n"].concat());
    assert_eq!(raw.line().unwrap()["Err"]["lost_limit_bytes"], 0);
    assert_eq!(owner.asked().get("key").unwrap().as_deref(), Some(&b"new"[..]));
}

#[test]
fn what_a_dump_has_passed_is_kept_no_more() {
    let owner = Owner::new();
    owner.store.put_many((0..5000).map(|i| (format!("{i:05}"), [0; 100]))).unwrap();
    let asked = owner.asked();
    let _moment = asked.snapshot_with_limit(50_000).unwrap();
    let mut written = 0;
    let dumped = asked.dump_with(std::io::sink(), |progress| {
        // What lies two steps behind. Were all of it kept, it would be a million bytes.
        let behind = progress.entries.saturating_sub(512);
        for number in written..behind {
            owner.store.put(format!("{number:05}"), "new").unwrap();
        }
        written = behind;
        std::ops::ControlFlow::Continue(())
    });
    assert_eq!((dumped.unwrap().entries, written > 4000), (5000, true));
}

/// What is inserted and removed ahead of a dump makes no difference to it.
#[test]
fn a_dump_beside_insertions_and_removals_is_of_one_moment() {
    let owner = Owner::new();
    let key = |i: usize| format!("{i:05}");
    owner.store.put_many((0..3000).map(|i| (key(i), key(i)))).unwrap();
    let (asked, mut dump, mut begun) = (owner.asked(), Vec::new(), false);
    let dumped = asked.dump_with(&mut dump, |_| {
        if !std::mem::replace(&mut begun, true) {
            (0..3000).for_each(|i| _ = owner.store.put(key(i) + "a", "later").unwrap());
            (1000..2000).for_each(|i| _ = owner.store.delete(key(i)).unwrap());
            (2000..2500).for_each(|i| _ = owner.store.put(key(i), [7; 5000]).unwrap());
        }
        std::ops::ControlFlow::Continue(())
    });
    assert_eq!((dumped.unwrap().entries, begun), (3000, true));
    let restored = Store::create(owner.folder.path().join("restored")).unwrap();
    restored.restore(&*dump).unwrap();
    assert_eq!(restored.len().unwrap(), 3000);
    for i in 0..3000 {
        assert_eq!(restored.get(key(i)).unwrap().as_deref(), Some(key(i).as_bytes()), "{i}");
    }
}

#[test]
fn garbage_is_answered_and_a_line_without_end_ends_the_connection() {
    let owner = Owner::new();
    let mut raw = owner.connect();
    raw.line().unwrap();
    for garbage in [
        &b"\n"[..],
        b"garbage\n",
        b"\xff\xfe\0\n",
        b"{}\n",
        b"{\"snapshot\":{}}\n",
        b"{\"snapshot\":{\"limit_bytes\":-1}}\n",
        b"{\"drop_everything\":{}}\n",
        b"[[[[[[[[[[[[[[[[[[[[\n",
        b"\"check\" \"check\"\n",
        br#"{"entries":{"from":{"Included":[300]},"backward":true,"limit":1,"once":true}}
"#,
    ] {
        raw.send(garbage);
        let what = raw.line().unwrap();
        assert!(what["Err"]["what"].as_str().unwrap().contains("no request"), "{what}");
    }
    // Of a key that can be none, and before there is a snapshot.
    raw.send(br#"{"entries":{"from":"Unbounded","backward":false,"limit":0,"once":false}}"#);
    raw.send(b"\n");
    assert!(raw.line().unwrap()["Err"].is_object());
    raw.send(b"{\"count\":{\"space\":{\"Named\":[9,\"U64\"]}}}\n");
    assert_eq!(raw.line().unwrap(), json!({"Ok": 0}));
    raw.send(b"\"check\"\n");
    assert_eq!(raw.line().unwrap()["outcome"]["Ok"]["ok"], true);
    raw.send(&vec![b'x'; REQUEST_BYTES as usize]);
    assert!(raw.line().unwrap()["Err"]["what"].as_str().unwrap().contains("too long"));
    assert!(raw.line().is_none());
    // One that ends in the middle of a line.
    let mut raw = owner.connect();
    raw.send(b"{\"snap");
    drop(raw);
    assert!(owner.asked().is_empty().unwrap());
}

#[test]
fn connections_are_bounded_and_their_places_are_free_again() {
    let owner = Owner::new();
    let mut peers: Vec<Raw> = (0..100).map(|_| owner.connect()).collect();
    let admitted =
        peers.iter_mut().filter_map(Raw::line).filter(|hello| hello["pool"]["Ok"].is_object());
    assert_eq!(admitted.count(), CONNECTIONS);
    match open_elsewhere(&owner.path()) {
        Err(Error::Elsewhere { what, .. }) => assert!(what.contains("try again"), "{what}"),
        other => panic!("{other:?}"),
    }
    drop(peers);
    // They are noticed one after the other, and so is the end of this one.
    let asked = loop {
        match open_elsewhere(&owner.path()) {
            Ok(asked) => break asked.unwrap(),
            Err(_) => std::thread::yield_now(),
        }
    };
    assert!(asked.is_empty().unwrap());
}

#[test]
fn a_reader_that_never_reads_holds_neither_writers_nor_the_close_up() {
    let owner = Owner::new();
    owner.store.put_many((0..100).map(|i| (i.to_string(), [0; 5000]))).unwrap();
    let mut raw = owner.connect();
    raw.send(SNAPSHOT);
    (0..100).for_each(|_| raw.send(ENTRIES));
    owner.store.put_many((0..100).map(|i| (i.to_string(), "new"))).unwrap();
    assert!(owner.store.check().unwrap().ok);
    let path = owner.path();
    owner.store.close().unwrap();
    assert!(open_elsewhere(&path).unwrap().is_none() && Store::open(&path).is_ok());
    let mut rest = Vec::new();
    let _ = raw.0.read_to_end(&mut rest); // The end comes, after what was under way.
}

#[test]
fn an_asker_of_a_pool_that_was_closed_is_told_so() {
    let owner = Owner::new();
    owner.store.put("key", "value").unwrap();
    let asked = owner.asked();
    assert!(asked.contains_key("key").unwrap());
    drop(owner.store);
    for _ in 0..2 {
        match asked.get("key") {
            Err(error @ Error::Elsewhere { .. }) => {
                assert!(error.to_string().contains("it has ended, or closed the pool"), "{error}")
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(!owner.folder.path().join("p.sock").exists());
}

/// A store that answers, but gives up early.
fn impatient() -> (Owner, Listener) {
    let mut owner = Owner::new();
    let path = owner.path();
    owner.store.close().unwrap();
    owner.store = Store::open(&path).unwrap();
    owner.store.put_many((0..100).map(|i| (i.to_string(), [0; 5000]))).unwrap();
    let socket = Socket::bind(&path).unwrap();
    let backend = Arc::clone(owner.store.backend());
    (owner, Listener::start(socket, backend, Duration::from_millis(50)).unwrap())
}

#[test]
fn an_asker_that_asked_nothing_for_too_long_is_told_so() {
    let (owner, _listener) = impatient();
    let asked = owner.asked();
    let error = loop {
        match asked.contains_key("1") {
            Ok(_) => std::thread::sleep(Duration::from_millis(100)),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("or waited too long for this one; try again"), "{error}");
    owner.store.put("key", "the owner lives on").unwrap();
}

#[test]
fn an_asker_that_reads_nothing_for_too_long_is_given_up() {
    let (owner, listener) = impatient();
    let mut raw = owner.connect();
    raw.line().unwrap();
    // The answers fill the socket, unless it is given up before it has asked.
    let _ = raw.0.get_mut().write_all(&[SNAPSHOT, &ENTRIES.repeat(100)].concat());
    while listener.connections() > 0 {
        std::thread::yield_now();
    }
    let mut rest = Vec::new();
    let _ = raw.0.read_to_end(&mut rest); // What was under way comes, and then the end.
    assert!(rest.len() < 100 * 100 * 5000, "all of it was answered");
    owner.store.put("key", "the owner lives on").unwrap();
}

/// Whatever is missing of an answer, the asker says that the owner is gone.
#[test]
fn an_answer_that_is_cut_off_is_the_end_of_the_owner() {
    let owner = Owner::new();
    owner.store.put("key", "value").unwrap();
    let mut raw = owner.connect();
    raw.send(SNAPSHOT);
    raw.send(ENTRIES);
    raw.0.get_ref().shutdown(Shutdown::Write).unwrap();
    let [hello, begun] = [(); 2].map(|()| raw.line().unwrap().to_string() + "\n");
    let mut entries = Vec::new();
    raw.0.read_to_end(&mut entries).unwrap();
    let other = Owner::new();
    other.store.close().unwrap();
    let listener = UnixListener::bind(other.folder.path().join("p.sock")).unwrap();
    for length in 0..entries.len() {
        let (said, answer) = (hello.clone() + &begun, &entries[..length]);
        let path = other.folder.path().join("p");
        let got = std::thread::scope(|scope| {
            let asker = scope.spawn(|| open_elsewhere(&path).unwrap().unwrap().get("key"));
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(said.as_bytes()).unwrap();
            let mut requests = BufReader::new(stream.try_clone().unwrap());
            (0..2).for_each(|_| _ = requests.read_line(&mut String::new()).unwrap());
            stream.write_all(answer).unwrap();
            drop((stream, requests));
            asker.join().unwrap()
        });
        let error = got.unwrap_err().to_string();
        assert!(error.contains("it has ended, or closed the pool"), "{length}: {error}");
    }
}

#[test]
fn what_is_no_owner_is_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, socket) = (folder.path().join("p"), folder.path().join("p.sock"));
    assert!(open_elsewhere(&path).unwrap().is_none());
    let listener = UnixListener::bind(&socket).unwrap();
    let answer = |line: &'static [u8]| {
        let asker = std::thread::spawn({
            let path = path.clone();
            move || open_elsewhere(&path).map(|store| store.is_some())
        });
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(line).unwrap();
        drop(stream);
        asker.join().unwrap()
    };
    assert!(!answer(b"").unwrap());
    assert!(!answer(b"220 mail.example.com ESMTP\r\n").unwrap());
    assert!(!answer(b"{\"protocol\":").unwrap());
    let error = answer(b"{\"protocol\":2,\"pool\":\"anything\"}\n").unwrap_err().to_string();
    assert!(error.contains("another release"), "{error}");
    assert!(answer(b"{\"protocol\":1,\"pool\":{\"Ok\":{\"engine\":\"bogus\"}}}\n").is_err());
    assert!(answer(b"{\"protocol\":1,\"pool\":[]}\n").is_err());
}

#[test]
fn a_pool_that_is_being_restored_is_not_shown() {
    let owner = Owner::new();
    owner.store.backend().mark_being_restored(true).unwrap();
    let error = open_elsewhere(&owner.path()).unwrap_err().to_string();
    assert!(error.contains("being restored"), "{error}");
    owner.store.backend().mark_being_restored(false).unwrap();
    assert!(owner.asked().is_empty().unwrap());
}
