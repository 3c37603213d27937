//! Readers of every kind beside writers of every kind, on every engine: what they are promised,
//! they get.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::common::{folder, value};
use everleaf::{
    Contract, CreateOptions, Engine, EngineParameters, Key, KeyType, OwnedKey, Scan, Store, View,
};

/// Keys 0, 3, 6 .. are always there; the others come and go. Those of a pair are only ever written
/// together.
const KEYS: u64 = 900;
/// Keys from here on are in pairs.
const PAIRS: u64 = 10_000;
const PAIR_COUNT: u64 = 40;
const WRITES: u64 = 4000;

struct Subject {
    store: Store,
    key_type: KeyType,
    done: AtomicBool,
    reads: AtomicU64,
}

impl Subject {
    fn key(&self, n: u64) -> OwnedKey {
        match self.key_type {
            KeyType::U64 => OwnedKey::U64(n),
            // Of several lengths, in the order of the numbers.
            KeyType::Bytes => {
                OwnedKey::from([&n.to_be_bytes()[..], &[b'k'; 40][..(n % 40) as usize]].concat())
            }
        }
    }

    fn number(key: Key<'_>) -> u64 {
        match key {
            Key::U64(n) => n,
            Key::Bytes(bytes) => u64::from_be_bytes(bytes[..8].try_into().unwrap()),
        }
    }

    /// A value says whose it is and of which write.
    fn value(n: u64, write: u64) -> Vec<u8> {
        [&n.to_le_bytes()[..], &write.to_le_bytes(), &value(n ^ write, (write * 13 % 300) as usize)]
            .concat()
    }

    fn write_of(n: u64, found: &[u8]) -> u64 {
        let word = |at: usize| u64::from_le_bytes(found[at..at + 8].try_into().unwrap());
        assert_eq!(word(0), n, "the value of another key");
        assert!(found == Self::value(n, word(8)), "a value that was never written, under {n}");
        word(8)
    }

    fn write(&self, writer: u64) {
        for i in 1..=WRITES {
            let n = (i * 7919 + writer * 131) % KEYS;
            let (key, new) = (self.key(n), Self::value(n, i));
            match (n % 3, i % 4) {
                (0, _) => assert!(self.store.put(&key, &new).unwrap(), "it is always there"),
                (_, 0) => _ = self.store.delete(&key).unwrap(),
                (_, 1) => _ = self.store.remove(&key).unwrap(),
                _ => _ = self.store.put(&key, &new).unwrap(),
            }
            if i % 8 == 0 {
                let pair = PAIRS + (i * 31 + writer) % PAIR_COUNT * 2;
                let both = [pair, pair + 1].map(|n| (self.key(n), Self::value(n, i * 2 + writer)));
                self.store.put_many(both.iter().map(|(key, value)| (key, value))).unwrap();
            }
        }
    }

    /// All that a view shows: in order, no key twice, every key that stays, each with a value of
    /// its own.
    fn expect_promised(
        entries: impl Iterator<Item = (u64, u64)>,
        backward: bool,
    ) -> BTreeMap<u64, u64> {
        let entries: Vec<(u64, u64)> = entries.collect();
        assert!(
            entries.is_sorted_by(|a, b| if backward { a.0 > b.0 } else { a.0 < b.0 }),
            "out of order"
        );
        let staying = entries.iter().filter(|(n, _)| *n < KEYS && n % 3 == 0).count() as u64;
        assert_eq!(staying, KEYS / 3, "a key that is always there does not come");
        assert_eq!(entries.iter().filter(|(n, _)| *n >= PAIRS).count() as u64, PAIR_COUNT * 2);
        entries.into_iter().collect()
    }

    fn all(view: &View, backward: bool) -> BTreeMap<u64, u64> {
        let scan = if backward { Scan::all().backward() } else { Scan::all() };
        let entry = |entry: Result<everleaf::Entry, everleaf::Error>| {
            let (key, value) = entry.unwrap();
            let n = Self::number(key.as_ref());
            (n, Self::write_of(n, &value))
        };
        Self::expect_promised(view.scan(scan).map(entry), backward)
    }

    fn expect_pairs(found: &BTreeMap<u64, u64>) {
        for pair in (PAIRS..PAIRS + 2 * PAIR_COUNT).step_by(2) {
            assert_eq!(found[&pair], found[&(pair + 1)], "half of a batch");
        }
    }

    fn read(&self, reader: u64) {
        for i in reader.. {
            if self.done.load(Ordering::Acquire) {
                return;
            }
            self.reads.fetch_add(1, Ordering::Relaxed);
            match i % 5 {
                0 => _ = Self::all(&self.store.view(), i % 2 == 0),
                1 => {
                    let keys: Vec<OwnedKey> = (0..KEYS).step_by(7).map(|n| self.key(n)).collect();
                    let found = self.store.get_many(&keys).unwrap();
                    for (key, found) in keys.iter().zip(found) {
                        let n = Self::number(key.as_ref());
                        assert!(found.is_some() || n % 3 != 0);
                        _ = found.map(|found| Self::write_of(n, &found));
                    }
                }
                2 => {
                    let pair = PAIRS + i % PAIR_COUNT * 2;
                    let both = self.store.get_many([&self.key(pair), &self.key(pair + 1)]).unwrap();
                    let [a, b] = [0, 1]
                        .map(|at| Self::write_of(pair + at as u64, both[at].as_ref().unwrap()));
                    assert_eq!(a, b, "half of a batch");
                }
                3 => {
                    let mut seen = Vec::new();
                    let shown = self.store.scan_with(Scan::all(), |key, value| {
                        let n = Self::number(key);
                        seen.push((n, Self::write_of(n, value)));
                        ControlFlow::Continue(())
                    });
                    shown.unwrap();
                    let seen = Self::expect_promised(seen.into_iter(), false);
                    // On an engine of epochs it goes in steps, and a pair may lie in two of them.
                    if self.store.capabilities().contract == Contract::Strict {
                        Self::expect_pairs(&seen);
                    }
                }
                _ => {
                    let snapshot = self.store.snapshot().unwrap();
                    let first = Self::all(&snapshot.view(), false);
                    Self::expect_pairs(&first);
                    assert!(Self::all(&snapshot.view(), true) == first, "a snapshot that changes");
                    for n in (0..KEYS).step_by(11) {
                        let found = snapshot
                            .get(self.key(n))
                            .unwrap()
                            .map(|found| Self::write_of(n, &found));
                        assert_eq!(found, first.get(&n).copied(), "a snapshot that changes at {n}");
                    }
                }
            }
        }
    }

    fn run(engine: Engine, key_type: KeyType) {
        let folder = folder();
        let path = folder.path().join("a.pool");
        let mut parameters = EngineParameters::default();
        if engine.entry().parameters.contains(&EngineParameters::LEAF_SLOTS) {
            let is_offered = |slots: &u32| {
                (engine.entry().pack)(&EngineParameters::default().leaf_slots(*slots), 1).is_ok()
            };
            parameters.leaf_slots = [8, 7].into_iter().find(is_offered);
        }
        let store = CreateOptions::new()
            .engine(engine)
            .key_type(key_type)
            .size_bytes(1 << 20)
            .engines(everleaf_engines::all())
            .parameters(parameters);
        let store = store.create(&path).unwrap();
        let subject =
            Self { store, key_type, done: AtomicBool::new(false), reads: AtomicU64::new(0) };
        for n in (0..KEYS).step_by(3).chain(PAIRS..PAIRS + 2 * PAIR_COUNT) {
            subject.store.put(subject.key(n), Self::value(n, 0)).unwrap();
        }
        std::thread::scope(|scope| {
            let subject = &subject;
            let writers = [0, 1].map(|writer| scope.spawn(move || subject.write(writer)));
            let readers = [0, 1].map(|reader| scope.spawn(move || subject.read(reader)));
            let wrote = writers.map(|writer| writer.join().is_ok());
            subject.done.store(true, Ordering::Release);
            assert!(
                readers.map(|reader| reader.join().is_ok()) == [true; 2] && wrote == [true; 2],
                "{engine} {key_type:?}"
            );
        });
        println!("{engine} {key_type:?}: {} reads", subject.reads.load(Ordering::Relaxed));
        let found = Self::all(&subject.store.view(), false);
        Self::expect_pairs(&found);
        let outcome = subject.store.check().unwrap();
        assert!(outcome.ok, "{engine} {key_type:?}: {outcome:?}");
        subject.store.close().unwrap();
        assert!(Self::all(&crate::common::open(&path).unwrap().view(), true) == found);
    }
}

#[test]
fn what_readers_of_u64_keys_are_promised_they_get() {
    Engine::available().for_each(|engine| Subject::run(engine, KeyType::U64));
}

#[test]
fn what_readers_of_byte_strings_are_promised_they_get() {
    let engines = Engine::available().filter(|engine| engine.has_keys(KeyType::Bytes));
    engines.for_each(|engine| Subject::run(engine, KeyType::Bytes));
}
