//! Every call of a store, on all of its trees, against a model: through batches, snapshots, expiry,
//! reopenings and crashes of the process.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use crate::common::{folder, key, tiny, value};
use everleaf::{
    Clock, Engine, EngineParameters, Expiry, KeyType, OwnedKey, Scan, Shutdown, Snapshot, Store,
    Tree, View,
};
use proptest::prelude::*;

/// By tree and key: the value, and when it expires.
type Model = BTreeMap<(usize, OwnedKey), (Vec<u8>, Option<u64>)>;

/// The trees of a store with byte-string keys: itself, and two by name.
const NAMES: [&str; 3] = ["", "words", "numbers"];

/// One write of a batch: what, tree, key, seed of the value, its length.
type BatchStep = (u8, usize, u64, u64, usize);

/// What is done, on which tree, to which key, and when what is written expires if that is said.
type ToldStep = (Step, usize, u64, Option<Expiry>);

#[derive(Clone, Debug)]
enum Step {
    Put {
        seed: u64,
        bytes: usize,
        life: Option<u64>,
    },
    Insert {
        seed: u64,
        bytes: usize,
    },
    Update {
        seed: u64,
        bytes: usize,
    },
    CompareAndSwap {
        right: bool,
        new: Option<u64>,
    },
    Change {
        new: Option<u64>,
    },
    /// None: for ever.
    Touch {
        life: Option<u64>,
    },
    Delete,
    Take,
    Get,
    GetMany(Vec<u64>),
    PutMany(Vec<u64>),
    Batch(Vec<BatchStep>),
    Ends,
    Pop {
        last: bool,
    },
    DeleteRange {
        to: u64,
    },
    Count {
        to: u64,
    },
    Snapshot,
    Advance(u64),
    RemoveExpired,
    DropTree,
    Reopen,
    /// Goes on with a copy of the file as it is while the store is open: what a killed process
    /// leaves.
    Kill,
    Check,
}

fn steps() -> impl Strategy<Value = Vec<ToldStep>> {
    let key = 0..60u64;
    let bytes = prop_oneof![4 => 0..40usize, 1 => 0..5000usize];
    let seed = any::<u64>();
    let write = (0..6u8, 0..3usize, key.clone(), any::<u64>(), bytes.clone());
    let step = prop_oneof![
        12 => (seed, bytes.clone(), proptest::option::weighted(0.3, 1..100u64))
            .prop_map(|(seed, bytes, life)| Step::Put { seed, bytes, life }),
        5 => (seed, bytes.clone()).prop_map(|(seed, bytes)| Step::Insert { seed, bytes }),
        5 => (seed, bytes).prop_map(|(seed, bytes)| Step::Update { seed, bytes }),
        5 => (any::<bool>(), proptest::option::of(seed))
            .prop_map(|(right, new)| Step::CompareAndSwap { right, new }),
        3 => proptest::option::of(seed).prop_map(|new| Step::Change { new }),
        4 => proptest::option::of(1..50u64).prop_map(|life| Step::Touch { life }),
        4 => Just(Step::Delete),
        3 => Just(Step::Take),
        6 => Just(Step::Get),
        2 => proptest::collection::vec(key.clone(), 0..100).prop_map(Step::GetMany),
        2 => proptest::collection::vec(key.clone(), 0..20).prop_map(Step::PutMany),
        8 => proptest::collection::vec(write, 0..20).prop_map(Step::Batch),
        2 => Just(Step::Ends),
        3 => any::<bool>().prop_map(|last| Step::Pop { last }),
        2 => key.clone().prop_map(|to| Step::DeleteRange { to }),
        2 => key.clone().prop_map(|to| Step::Count { to }),
        2 => Just(Step::Snapshot),
        4 => (1..60u64).prop_map(Step::Advance),
        1 => Just(Step::RemoveExpired),
        1 => Just(Step::DropTree),
        1 => Just(Step::Reopen),
        1 => Just(Step::Kill),
        2 => Just(Step::Check),
    ];
    let told = prop_oneof![
        Just(Expiry::Never),
        Just(Expiry::Kept),
        (1..100u64).prop_map(|life| Expiry::After(Duration::from_millis(life))),
        (1000..3000u64).prop_map(|ms| Expiry::At(UNIX_EPOCH + Duration::from_millis(ms))),
    ];
    let told = proptest::option::weighted(0.4, told);
    proptest::collection::vec((step, 0..3usize, key, told), 1..160)
}

/// The store under test, its model, and a snapshot with what it has to show.
struct Subject {
    folder: tempfile::TempDir,
    path: PathBuf,
    key_type: KeyType,
    clock: Clock,
    store: Option<Store>,
    model: Model,
    /// When what the step writes expires, if that is said.
    told: Option<Expiry>,
    snapshot: Option<(Snapshot, Model)>,
    copies: u32,
}

impl Subject {
    fn new(engine: Engine, key_type: KeyType) -> Self {
        let folder = folder();
        let path = folder.path().join("0.pool");
        let clock = Clock::manual(1000);
        let mut options = tiny(key_type).engine(engine).clock(clock.clone());
        if !engine.entry().parameters.contains(&EngineParameters::GROUP_BYTES) {
            options.parameters.group_bytes = None;
        }
        let store = Some(options.create(&path).unwrap());
        Self {
            folder,
            path,
            key_type,
            clock,
            store,
            model: Model::new(),
            told: None,
            snapshot: None,
            copies: 0,
        }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    /// A store with `u64` keys has itself only.
    fn trees(&self) -> usize {
        if self.key_type == KeyType::U64 { 1 } else { NAMES.len() }
    }

    fn tree(&self, tree: usize) -> Tree {
        let tree = match tree {
            0 => self.store().default_tree().clone(),
            1 => self.store().tree(NAMES[1]).unwrap(),
            _ => self.store().tree_with(NAMES[2], KeyType::U64).unwrap(),
        };
        self.told.map_or(tree.clone(), |told| tree.with_expiry(told))
    }

    fn key(&self, tree: usize, n: u64) -> OwnedKey {
        key(if tree == 2 { KeyType::U64 } else { self.key_type }, n)
    }

    /// What the model shows of a tree at a time.
    fn entries(model: &Model, tree: usize, now: u64) -> Vec<(OwnedKey, Vec<u8>)> {
        let of_tree = model.iter().filter(|((t, _), (_, expires))| {
            *t == tree && expires.is_none_or(|expires| expires > now)
        });
        of_tree.map(|((_, key), (value, _))| (key.clone(), value.clone())).collect()
    }

    fn get(&self, tree: usize, key: &OwnedKey) -> Option<Vec<u8>> {
        let found = self.model.get(&(tree, key.clone()));
        found
            .filter(|(_, expires)| expires.is_none_or(|expires| expires > self.clock.now_ms()))
            .map(|(value, _)| value.clone())
    }

    /// What is there, if it has not expired, keeps its expiry, unless something else is said.
    fn change(&mut self, tree: usize, key: &OwnedKey, value: Option<Vec<u8>>) {
        self.store_in_model(tree, key, value, self.told.unwrap_or(Expiry::Kept));
    }

    fn set(&mut self, tree: usize, key: &OwnedKey, value: Option<Vec<u8>>) {
        self.store_in_model(tree, key, value, self.told.unwrap_or(Expiry::Never));
    }

    fn store_in_model(&mut self, tree: usize, key: &OwnedKey, value: Option<Vec<u8>>, by: Expiry) {
        let (at, now) = ((tree, key.clone()), self.clock.now_ms());
        let there = self.model.remove(&at).and_then(|(_, expires)| expires);
        let Some(value) = value else { return };
        let expires = match by {
            Expiry::Never => None,
            Expiry::Kept => there.filter(|expires| *expires > now),
            Expiry::After(life) => Some(now + life.as_millis() as u64),
            Expiry::At(at) => Some(at.duration_since(UNIX_EPOCH).unwrap().as_millis() as u64),
        };
        self.model.insert(at, (value, expires));
    }

    /// The life of the value that is there changes; none: for ever.
    fn touch(&mut self, tree: usize, key: &OwnedKey, life: Option<u64>) {
        let by = life.map_or(Expiry::Never, |ms| Expiry::After(Duration::from_millis(ms)));
        if let Some(value) = self.get(tree, key) {
            self.store_in_model(tree, key, Some(value), by);
        }
    }

    fn within(&self, tree: usize, from: &OwnedKey, to: &OwnedKey) -> Vec<OwnedKey> {
        let entries = Self::entries(&self.model, tree, self.clock.now_ms());
        entries.into_iter().map(|(key, _)| key).filter(|key| from <= key && key < to).collect()
    }

    fn open(&mut self, found: Shutdown) {
        let store = crate::common::opening().clock(self.clock.clone()).open(&self.path).unwrap();
        assert_eq!(store.statistics().unwrap().shutdown, found);
        self.store = Some(store);
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

    fn batch(&mut self, steps: &[BatchStep]) {
        let trees: Vec<Tree> = (0..self.trees()).map(|tree| self.tree(tree)).collect();
        let mut batch = self.store().batch();
        let mut expected = Vec::new();
        for (what, tree, n, seed, bytes) in steps {
            let tree = tree % trees.len();
            let (key, value) = (self.key(tree, *n), value(*seed, *bytes));
            let mut on = batch.on(&trees[tree]).unwrap();
            let there = self.get(tree, &key).is_some();
            match what {
                0 => on.put(&key, &value).unwrap(),
                1 => on.put_if_absent(&key, &value).unwrap(),
                2 => on.replace(&key, &value).unwrap(),
                3 => on.touch(&key, Duration::from_millis(*n)).unwrap(),
                4 => on.persist(&key).unwrap(),
                _ => on.delete(&key).unwrap(),
            };
            let done = [true, !there, there, there, there, there][*what as usize];
            expected.push(done);
            match what {
                3 => self.touch(tree, &key, Some(*n)),
                4 => self.touch(tree, &key, None),
                5 => self.set(tree, &key, None), // What had expired is removed as well.
                _ if done => self.set(tree, &key, Some(value)),
                _ => {}
            }
        }
        assert_eq!(batch.commit().unwrap(), expected);
    }

    fn expect(view: &View, entries: &[(OwnedKey, Vec<u8>)]) {
        assert_eq!(view.iter().collect::<Result<Vec<_>, _>>().unwrap(), entries);
        assert_eq!(view.scan(Scan::all().backward()).count(), entries.len());
        assert_eq!(view.first().unwrap().as_ref(), entries.first());
        assert_eq!(view.last().unwrap().as_ref(), entries.last());
    }

    fn expect_sound(&self) {
        for tree in 0..self.trees() {
            let expected = Self::entries(&self.model, tree, self.clock.now_ms());
            Self::expect(&self.tree(tree).view(), &expected);
            assert_eq!(self.tree(tree).len().unwrap(), expected.len() as u64, "tree {tree}");
        }
        let outcome = self.store().check().unwrap();
        assert!(outcome.ok, "{outcome:?}");
    }

    fn expect_snapshot(&self) {
        let Some((snapshot, model)) = &self.snapshot else { return };
        for tree in 0..self.trees() {
            let expected = Self::entries(model, tree, 0);
            let view = snapshot.of(&self.tree(tree)).unwrap();
            Self::expect(&view, &expected);
            for n in 0..60 {
                let key = self.key(tree, n);
                let found =
                    expected.iter().find(|(k, _)| *k == key).map(|(_, value)| value.clone());
                assert_eq!(view.get(&key).unwrap(), found);
            }
        }
    }

    fn write(&mut self, step: &Step, tree: usize, key: &OwnedKey) {
        let (on, old) = (self.tree(tree), self.get(tree, key));
        match step {
            Step::Put { seed, bytes, life } => {
                let value = value(*seed, *bytes);
                let life = life.map(Duration::from_millis);
                let replaced = match life {
                    None => on.put(key, &value).unwrap(),
                    Some(life) => on.put_for(key, &value, life).unwrap(),
                };
                assert_eq!(replaced, old.is_some());
                let expiry = life.map(Expiry::After).or(self.told).unwrap_or(Expiry::Never);
                self.store_in_model(tree, key, Some(value), expiry);
            }
            Step::Insert { seed, bytes } => {
                let value = value(*seed, *bytes);
                assert_eq!(on.put_if_absent(key, &value).unwrap(), old.is_none());
                if old.is_none() {
                    self.set(tree, key, Some(value));
                }
            }
            Step::Update { seed, bytes } => {
                let value = value(*seed, *bytes);
                assert_eq!(on.replace(key, &value).unwrap(), old.is_some());
                if old.is_some() {
                    self.set(tree, key, Some(value));
                }
            }
            Step::CompareAndSwap { right, new } => {
                let (wrong, new) =
                    (Some(b"what it is not".to_vec()), new.map(|seed| value(seed, 20)));
                let expected = if *right { &old } else { &wrong };
                let swapped =
                    on.compare_and_swap(key, expected.as_deref(), new.as_deref()).unwrap();
                assert_eq!(swapped, *right);
                if swapped {
                    self.change(tree, key, new);
                }
            }
            Step::Change { new } => {
                let new = new.map(|seed| value(seed, 30));
                on.update(key, |found| {
                    assert_eq!(found, old.as_deref());
                    new.clone()
                })
                .unwrap();
                self.change(tree, key, new);
            }
            Step::Touch { life } => {
                let touched = match life {
                    None => on.persist(key).unwrap(),
                    Some(life) => on.touch(key, Duration::from_millis(*life)).unwrap(),
                };
                assert_eq!(touched, old.is_some());
                self.touch(tree, key, *life);
            }
            Step::Delete => {
                assert_eq!(on.delete(key).unwrap(), old.is_some());
                self.set(tree, key, None); // What had expired is removed as well.
            }
            Step::Take => {
                assert_eq!(on.remove(key).unwrap(), old);
                if old.is_some() {
                    self.set(tree, key, None);
                }
            }
            other => unreachable!("{other:?} is no write of one key"),
        }
    }

    fn apply(&mut self, step: &Step, tree: usize, n: u64) {
        let tree = tree % self.trees();
        let key = self.key(tree, n);
        let on = self.tree(tree);
        match step {
            Step::Get => {
                assert_eq!(on.get(&key).unwrap(), self.get(tree, &key));
                assert_eq!(on.contains_key(&key).unwrap(), self.get(tree, &key).is_some());
                assert_eq!(on.expiry(&key).unwrap().is_some(), self.get(tree, &key).is_some());
                let expires =
                    self.model.get(&(tree, key.clone())).and_then(|(_, expires)| *expires);
                let left = expires.map(|at| at.saturating_sub(self.clock.now_ms()));
                let there = self.get(tree, &key).map(|_| left.map(Duration::from_millis));
                assert_eq!(on.ttl(&key).unwrap(), there);
            }
            Step::GetMany(numbers) => {
                let keys: Vec<OwnedKey> = numbers.iter().map(|n| self.key(tree, *n)).collect();
                let expected: Vec<_> = keys.iter().map(|key| self.get(tree, key)).collect();
                assert_eq!(on.get_many(&keys).unwrap(), expected);
            }
            Step::PutMany(numbers) => {
                let entries: Vec<_> =
                    numbers.iter().map(|n| (self.key(tree, *n), value(*n, 30))).collect();
                on.put_many(entries.iter().map(|(key, value)| (key, value))).unwrap();
                entries.into_iter().for_each(|(key, value)| self.set(tree, &key, Some(value)));
            }
            Step::Batch(steps) => self.batch(steps),
            Step::Ends => {
                Self::expect(&on.view(), &Self::entries(&self.model, tree, self.clock.now_ms()))
            }
            Step::Pop { last } => {
                let mut entries = Self::entries(&self.model, tree, self.clock.now_ms());
                let (found, expected) = if *last {
                    (on.pop_last(), entries.pop())
                } else {
                    (on.pop_first(), entries.into_iter().next())
                };
                assert_eq!(found.unwrap(), expected);
                expected.into_iter().for_each(|(key, _)| self.set(tree, &key, None));
            }
            Step::DeleteRange { to } => {
                let to = self.key(tree, *to);
                let within = self.within(tree, &key, &to);
                assert_eq!(on.delete_range(key.clone()..to.clone()).unwrap(), within.len() as u64);
                self.model.retain(|(t, k), _| *t != tree || *k < key || to <= *k);
            }
            Step::Count { to } => {
                let to = self.key(tree, *to);
                let scan = Scan::of(key.clone()..to.clone());
                assert_eq!(on.count_in(scan).unwrap(), self.within(tree, &key, &to).len() as u64);
            }
            Step::Snapshot => {
                self.expect_snapshot();
                let now = self.clock.now_ms();
                let model = self
                    .model
                    .clone()
                    .into_iter()
                    .filter(|(_, (_, expires))| expires.is_none_or(|e| e > now));
                let model = model.map(|(key, (value, _))| (key, (value, None))).collect();
                self.snapshot = Some((self.store().snapshot().unwrap(), model));
            }
            Step::Advance(ms) => self.clock.advance(Duration::from_millis(*ms)),
            Step::RemoveExpired => {
                let (now, before) = (self.clock.now_ms(), self.model.len());
                self.model.retain(|_, (_, expires)| expires.is_none_or(|expires| expires > now));
                assert_eq!(
                    self.store().remove_expired().unwrap().removed,
                    (before - self.model.len()) as u64
                );
            }
            Step::DropTree if tree > 0 => {
                self.expect_snapshot();
                self.snapshot = None;
                assert!(self.store().drop_tree(NAMES[tree]).unwrap());
                assert!(self.store().existing_tree(NAMES[tree]).unwrap().is_none());
                self.model.retain(|(t, _), _| *t != tree);
            }
            Step::DropTree => {}
            Step::Reopen | Step::Kill => {
                self.expect_snapshot();
                self.snapshot = None;
                if matches!(step, Step::Kill) {
                    return self.kill();
                }
                self.store.take().unwrap().close().unwrap();
                self.open(Shutdown::Clean);
            }
            Step::Check => {
                self.expect_sound();
                self.expect_snapshot();
            }
            write => self.write(write, tree, &key),
        }
    }
}

fn run(engine: Engine, key_type: KeyType, steps: &[ToldStep]) {
    let mut subject = Subject::new(engine, key_type);
    for (step, tree, n, told) in steps {
        subject.told = *told;
        subject.apply(step, *tree, *n);
    }
    subject.expect_snapshot();
    subject.expect_sound();
    subject.snapshot = None;
    subject.kill();
    subject.expect_sound();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_store_of_byte_keys_and_its_trees_are_maps(steps in steps()) {
        run(Engine::FPTREE_C, KeyType::Bytes, &steps);
    }

    #[test]
    fn so_are_those_of_an_engine_for_one_writer(steps in steps()) {
        run(Engine::FPTREE, KeyType::Bytes, &steps);
    }

    #[test]
    fn a_store_of_u64_keys_is_a_map(steps in steps()) {
        run(Engine::FPTREE_C, KeyType::U64, &steps);
    }
}
