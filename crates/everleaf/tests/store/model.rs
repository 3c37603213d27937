//! A store is indistinguishable from a `BTreeMap`, through reopenings and crashes of the process.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use crate::common::{folder, key, tiny, value};
use everleaf::{KeyType, OwnedKey, Range, Scan, Shutdown, Store};
use proptest::prelude::*;

type Model = BTreeMap<OwnedKey, Vec<u8>>;

#[derive(Clone, Debug)]
enum Step {
    Put {
        key: u64,
        seed: u64,
        bytes: usize,
    },
    Insert {
        key: u64,
        seed: u64,
        bytes: usize,
    },
    Delete {
        key: u64,
    },
    Get {
        key: u64,
    },
    Scan {
        from: u64,
        to: u64,
        backward: bool,
    },
    /// Closes, or drops, and opens again.
    Reopen {
        drop: bool,
    },
    /// Goes on with a copy of the file as it is while the store is open: what a killed process
    /// leaves.
    Kill,
    Check,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = 0..120u64;
    let bytes = prop_oneof![3 => 0..40usize, 2 => 0..5000usize];
    let step = prop_oneof![
        20 => (key.clone(), any::<u64>(), bytes.clone())
            .prop_map(|(key, seed, bytes)| Step::Put { key, seed, bytes }),
        10 => (key.clone(), any::<u64>(), bytes)
            .prop_map(|(key, seed, bytes)| Step::Insert { key, seed, bytes }),
        14 => key.clone().prop_map(|key| Step::Delete { key }),
        10 => key.clone().prop_map(|key| Step::Get { key }),
        3 => (key.clone(), key, any::<bool>())
            .prop_map(|(from, to, backward)| Step::Scan { from, to, backward }),
        1 => any::<bool>().prop_map(|drop| Step::Reopen { drop }),
        1 => Just(Step::Kill),
        1 => Just(Step::Check),
    ];
    proptest::collection::vec(step, 1..300)
}

fn entries(range: Range<'_>) -> Vec<(OwnedKey, Vec<u8>)> {
    range.collect::<Result<_, _>>().unwrap()
}

fn expect_sound(store: &Store, model: &Model) {
    let outcome = store.check().unwrap();
    assert!(outcome.ok, "{outcome:?}");
    assert_eq!(outcome.keys, model.len() as u64);
    assert_eq!(store.len().unwrap(), model.len() as u64);
    assert_eq!(
        entries(store.iter()),
        model.iter().map(|(k, v)| (k.clone(), v.clone())).collect::<Vec<_>>()
    );
}

fn expect_scan(store: &Store, model: &Model, from: OwnedKey, to: OwnedKey, backward: bool) {
    let scan = Scan::all().starting_at(from.clone()).ending_before(to.clone());
    let mut expected: Vec<_> = match from < to {
        true => model
            .range((Bound::Included(from), Bound::Excluded(to)))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect(),
        false => Vec::new(),
    };
    if backward {
        expected.reverse();
        assert_eq!(entries(store.scan(scan.backward())), expected);
    } else {
        assert_eq!(entries(store.scan(scan)), expected);
    }
}

/// A store and the file that it is in.
struct Subject {
    folder: tempfile::TempDir,
    path: PathBuf,
    store: Option<Store>,
    copies: u32,
}

impl Subject {
    fn new(key_type: KeyType) -> Self {
        let folder = folder();
        let path = folder.path().join("0.pool");
        let store = Some(tiny(key_type).create(&path).unwrap());
        Self { folder, path, store, copies: 0 }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    fn reopen(&mut self, drop: bool) {
        let store = self.store.take().unwrap();
        match drop {
            true => std::mem::drop(store),
            false => store.close().unwrap(),
        }
        self.open(Shutdown::Clean);
    }

    fn kill(&mut self) {
        self.copies += 1;
        let copy = self.folder.path().join(format!("{}.pool", self.copies));
        std::fs::copy(&self.path, &copy).unwrap();
        self.store = None;
        std::fs::remove_file(&self.path).unwrap();
        self.path = copy;
        self.open(Shutdown::Crash);
    }

    fn open(&mut self, found: Shutdown) {
        let store = crate::common::open(Path::new(&self.path)).unwrap();
        assert_eq!(store.statistics().unwrap().shutdown, found);
        self.store = Some(store);
    }
}

fn run(key_type: KeyType, steps: &[Step]) {
    let mut subject = Subject::new(key_type);
    let mut model = Model::new();
    for step in steps {
        let store = subject.store();
        match step {
            Step::Put { key: n, seed, bytes } => {
                let (key, value) = (key(key_type, *n), value(*seed, *bytes));
                assert_eq!(store.put(&key, &value).unwrap(), model.insert(key, value).is_some());
            }
            Step::Insert { key: n, seed, bytes } => {
                let (key, value) = (key(key_type, *n), value(*seed, *bytes));
                let absent = !model.contains_key(&key);
                assert_eq!(store.put_if_absent(&key, &value).unwrap(), absent);
                model.entry(key).or_insert(value);
            }
            Step::Delete { key: n } => {
                let key = key(key_type, *n);
                assert_eq!(store.delete(&key).unwrap(), model.remove(&key).is_some());
            }
            Step::Get { key: n } => {
                let key = key(key_type, *n);
                assert_eq!(store.get(&key).unwrap().as_ref(), model.get(&key));
                assert_eq!(store.contains_key(&key).unwrap(), model.contains_key(&key));
            }
            Step::Scan { from, to, backward } => {
                expect_scan(store, &model, key(key_type, *from), key(key_type, *to), *backward);
            }
            Step::Reopen { drop } => subject.reopen(*drop),
            Step::Kill => subject.kill(),
            Step::Check => expect_sound(store, &model),
        }
    }
    expect_sound(subject.store(), &model);
    subject.reopen(false);
    expect_sound(subject.store(), &model);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_store_of_u64_keys_is_a_map(steps in steps()) {
        run(KeyType::U64, &steps);
    }

    #[test]
    fn a_store_of_byte_keys_is_a_map(steps in steps()) {
        run(KeyType::Bytes, &steps);
    }
}

#[test]
fn long_values_come_back_whole_and_give_their_room_back() {
    let folder = folder();
    let path = folder.path().join("a.pool");
    let store = tiny(KeyType::Bytes).create(&path).unwrap();
    let (long, longer) = (value(1, 5 << 20), value(2, (7 << 20) + 13));
    let before = store.statistics().unwrap().used_bytes;
    store.put("long", &long).unwrap();
    assert_eq!(store.get_with("long", |value| value == long).unwrap(), Some(true));
    assert!(store.put("long", &longer).unwrap());
    store.put("short", b"s").unwrap();
    store.close().unwrap();
    let store = crate::common::open(&path).unwrap();
    assert_eq!(store.get("long").unwrap().unwrap(), longer);
    assert_eq!(
        store.iter().map(|entry| entry.unwrap().1.len()).collect::<Vec<_>>(),
        [longer.len(), 1]
    );
    assert!(store.check().unwrap().ok);
    store.delete("long").unwrap();
    let after = store.statistics().unwrap().used_bytes;
    assert!(
        after < before + (1 << 20),
        "{before} {after}: the run of a long value was not given back"
    );
}

#[test]
fn get_with_shows_the_value_where_it_lies() {
    let folder = folder();
    let store = tiny(KeyType::U64).create(folder.path().join("a.pool")).unwrap();
    store.put(1u64, b"value").unwrap();
    let place = |key: u64| store.get_with(key, |value| value.as_ptr().addr()).unwrap();
    assert_eq!(place(1), place(1), "a copy would lie elsewhere each time");
    store.put(1u64, b"other").unwrap();
    assert_eq!(
        store.get_with(1u64, |value| value.to_vec()).unwrap().as_deref(),
        Some(b"other".as_slice())
    );
    assert_eq!(store.get_with(2u64, |_| ()).unwrap(), None);
}

#[test]
fn many_threads_read_and_write() {
    let folder = folder();
    let path = folder.path().join("a.pool");
    let store = tiny(KeyType::U64).create(&path).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let store = &store;
            scope.spawn(move || {
                for i in 0..500u64 {
                    let key = i * 4 + thread;
                    assert!(!store.put(key, value(key, (key % 300) as usize)).unwrap());
                    assert_eq!(store.get(key).unwrap().unwrap(), value(key, (key % 300) as usize));
                    if i % 5 == 0 {
                        assert!(store.delete(key).unwrap());
                    }
                    if i % 100 == 0 {
                        let keys: Vec<_> = store.iter().map(|entry| entry.unwrap().0).collect();
                        assert!(keys.is_sorted_by(|a, b| a < b));
                    }
                }
            });
        }
    });
    assert_eq!(store.len().unwrap(), 1600);
    drop(store);
    let store = crate::common::open(&path).unwrap();
    assert!(store.check().unwrap().ok);
    assert_eq!(store.len().unwrap(), 1600);
}
