//! A tree beside a map that does the same: random operations, whose answers are compared; the tree
//! is opened again on the way, over the same pool or from its image at another address.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use everleaf_index::{BatchSteps, Direction, Index, IndexError, IndexStatistics, KeyKind};
use everleaf_pmem::Media;
use everleaf_pool::{Pool, Shutdown};
use everleaf_tree::Opening;
use proptest::prelude::*;

use super::{Entries, KeyOf, TestedTree, assert_sound, dram_pool, image_of, scanned, traced_pool};

/// What is done to the keys of numbers. Values are those of [`Twin`].
#[derive(Clone, Debug)]
pub enum Action {
    /// Of a key and its value.
    Insert(u64, u64),
    /// The same of a present key.
    Update(u64, u64),
    /// The same of any key.
    Upsert(u64, u64),
    /// Of a key.
    Remove(u64),
    /// Finds keys one by one and together.
    Find(Vec<u64>),
    /// Shows entries from a bound on.
    Scan {
        /// The key of the bound.
        from: u64,
        /// Included, excluded, or no bound at all.
        bound: u8,
        /// Towards greater keys.
        forward: bool,
        /// How many.
        limit: usize,
    },
    /// A row of insertions or removals.
    Row {
        /// The first key.
        start: u64,
        /// How many keys.
        count: u64,
        /// Towards greater numbers.
        up: bool,
        /// Else they are removed.
        insert: bool,
    },
    /// A value that changes so many times.
    Often(u64, u64),
    /// Values and removals, at once where the tree can do that.
    Batch(BTreeMap<u64, Option<u64>>),
    /// The tree is opened again.
    Reopen(Left),
}

/// How a tree was left.
#[derive(Clone, Copy, Debug)]
pub enum Left {
    /// In a crash.
    Crashed,
    /// Closed, and what that has left cannot be used.
    Closed,
    /// Closed, with what speeds opening up.
    Sealed,
}

/// Few numbers that are met often, many that are met seldom, and the greatest.
pub fn numbers() -> impl Strategy<Value = u64> + Clone {
    prop_oneof![0..20u64, 0..1000u64, Just(u64::MAX)]
}

/// Operations on the keys of these numbers, none of which opens the tree again.
pub fn operations(
    number: impl Strategy<Value = u64> + Clone + 'static,
) -> impl Strategy<Value = Action> {
    let value = prop_oneof![Just(0u64), Just(u64::MAX), Just(7), 0..1u64 << 45, any::<u64>()];
    let pair = (number.clone(), value);
    let changes = (number.clone(), prop::option::weighted(0.6, any::<u64>()));
    prop_oneof![
        10 => pair.clone().prop_map(|(number, value)| Action::Insert(number, value)),
        8 => pair.clone().prop_map(|(number, value)| Action::Update(number, value)),
        4 => pair.prop_map(|(number, value)| Action::Upsert(number, value)),
        12 => number.clone().prop_map(Action::Remove),
        1 => prop::collection::vec(number.clone(), 0..40).prop_map(Action::Find),
        1 => (number.clone(), 0..3u8, any::<bool>(), 1..80usize)
            .prop_map(|(from, bound, forward, limit)| Action::Scan { from, bound, forward, limit }),
        2 => (number.clone(), 40..=60u64, any::<bool>(), any::<bool>())
            .prop_map(|(start, count, up, insert)| Action::Row { start, count, up, insert }),
        2 => (number, 1..40u64).prop_map(|(number, times)| Action::Often(number, times)),
        2 => prop::collection::btree_map(changes.0, changes.1, 1..60).prop_map(Action::Batch),
    ]
}

/// Up to 200 operations, between which the tree is opened again.
pub fn actions(
    number: impl Strategy<Value = u64> + Clone + 'static,
) -> impl Strategy<Value = Vec<Action>> {
    let left =
        prop_oneof![2 => Just(Left::Crashed), 1 => Just(Left::Closed), 1 => Just(Left::Sealed)];
    let action = prop_oneof![20 => operations(number), 1 => left.prop_map(Action::Reopen)];
    prop::collection::vec(action, 1..200)
}

/// What a batch of the index alone has to do beside it.
pub struct NoSteps;

impl BatchSteps for NoSteps {
    fn commit(&mut self) -> Result<(), IndexError> {
        Ok(())
    }
    fn complete(&mut self) -> Result<(), IndexError> {
        Ok(())
    }
}

/// The map that a tree is compared with. Of a value `v` the words are odd multiples, the first `v`.
pub struct Twin<K: KeyKind> {
    key: KeyOf<K>,
    words: usize,
    entries: BTreeMap<K::Owned, Vec<u64>>,
}

impl<K: KeyKind> Clone for Twin<K> {
    fn clone(&self) -> Self {
        Self { entries: self.entries.clone(), ..*self }
    }
}

impl<K: KeyKind> Twin<K> {
    /// Empty, with values of so many words.
    pub fn new(key: KeyOf<K>, words: usize) -> Self {
        Self { key, words, entries: BTreeMap::new() }
    }

    fn value(&self, seed: u64) -> Vec<u64> {
        (0..self.words as u64).map(|i| seed.wrapping_mul(i * 2 + 1)).collect()
    }

    /// Does one operation on both, and compares what they answer.
    pub fn step(&mut self, tree: &dyn Index<K>, action: &Action) {
        match action {
            Action::Insert(number, value) => self.insert(tree, *number, *value),
            Action::Update(number, value) => {
                let (key, value, mut old) =
                    ((self.key)(*number), self.value(*value), self.unused());
                let done = tree.update_words(K::borrow(&key), &value, &mut old).unwrap();
                let place = self.entries.get_mut(&key);
                let before = place.map(|place| std::mem::replace(place, value));
                self.answered(done, old, before);
            }
            Action::Upsert(number, value) => self.upsert(tree, *number, *value),
            Action::Remove(number) => self.remove(tree, &(self.key)(*number)),
            Action::Find(numbers) => self.find(tree, numbers),
            Action::Scan { from, bound, forward, limit } => {
                let direction = if *forward { Direction::Forward } else { Direction::Backward };
                self.scan(tree, *from, *bound, direction, *limit);
            }
            Action::Row { start, count, up, insert } => (0..*count).for_each(|i| {
                let number = if *up { start.saturating_add(i) } else { start.saturating_sub(i) };
                match insert {
                    true => self.insert(tree, number, 3),
                    false => self.remove(tree, &(self.key)(number)),
                }
            }),
            Action::Often(number, times) => {
                (0..*times).for_each(|value| self.upsert(tree, *number, value));
            }
            Action::Batch(changes) => self.batch(tree, changes),
            Action::Reopen(_) => {}
        }
        assert_eq!(tree.len(), self.entries.len() as u64);
    }

    /// What stands where no old value is copied to.
    fn unused(&self) -> Vec<u64> {
        vec![1; self.words]
    }

    fn answered(&self, done: bool, old: Vec<u64>, before: Option<Vec<u64>>) {
        let expected = (before.is_some(), before.unwrap_or_else(|| self.unused()));
        assert_eq!((done, old), expected);
    }

    fn insert(&mut self, tree: &dyn Index<K>, number: u64, value: u64) {
        let (key, value) = ((self.key)(number), self.value(value));
        let inserted = tree.insert_words(K::borrow(&key), &value).unwrap();
        assert_eq!(inserted, !self.entries.contains_key(&key));
        self.entries.entry(key).or_insert(value);
    }

    fn upsert(&mut self, tree: &dyn Index<K>, number: u64, value: u64) {
        let (key, value, mut old) = ((self.key)(number), self.value(value), self.unused());
        let done = tree.upsert_words(K::borrow(&key), &value, &mut old).unwrap();
        let before = self.entries.insert(key, value);
        self.answered(done, old, before);
    }

    fn remove(&mut self, tree: &dyn Index<K>, key: &K::Owned) {
        let mut old = self.unused();
        let done = tree.remove_words(K::borrow(key), &mut old).unwrap();
        let before = self.entries.remove(key);
        self.answered(done, old, before);
    }

    fn batch(&mut self, tree: &dyn Index<K>, changes: &BTreeMap<u64, Option<u64>>) {
        let by_key: BTreeMap<_, _> =
            changes.iter().map(|(number, new)| ((self.key)(*number), (*number, *new))).collect();
        let (words, removals): (Vec<_>, Vec<_>) =
            by_key.into_iter().partition(|(_, (_, new))| new.is_some());
        let in_order = [words, removals].concat();
        let at_once = self.words == 1 && {
            let linked = in_order.iter().map(|(key, (_, new))| (K::borrow(key), *new));
            tree.link_all(&linked.collect::<Vec<_>>(), &mut NoSteps).unwrap()
        };
        for (key, (number, new)) in in_order {
            match new {
                Some(value) if at_once => _ = self.entries.insert(key, vec![value]),
                None if at_once => _ = self.entries.remove(&key),
                Some(value) => self.upsert(tree, number, value),
                None => self.remove(tree, &key),
            }
        }
    }

    fn find(&self, tree: &dyn Index<K>, numbers: &[u64]) {
        let keys: Vec<K::Owned> = numbers.iter().map(|number| (self.key)(*number)).collect();
        let lent: Vec<K::Ref<'_>> = keys.iter().map(K::borrow).collect();
        let mut together = vec![None; keys.len()];
        tree.get_many(&lent, &mut together).unwrap();
        for (key, first) in keys.iter().zip(together) {
            let (mut value, right) = (self.unused(), self.entries.get(key));
            let found = tree.get_words(K::borrow(key), &mut value).unwrap();
            self.answered(found, value, right.cloned());
            assert_eq!(first, right.map(|right| right[0]), "{key:?}, among many");
        }
    }

    fn scan(&self, tree: &dyn Index<K>, from: u64, bound: u8, direction: Direction, limit: usize) {
        let key = (self.key)(from);
        let from = match bound {
            0 => Bound::Included(&key),
            1 => Bound::Excluded(&key),
            _ => Bound::Unbounded,
        };
        let pair = |(key, value): (&K::Owned, &Vec<u64>)| (key.clone(), value.clone());
        let entries = &self.entries;
        let right: Entries<K> = match direction {
            Direction::Forward => {
                entries.range((from, Bound::Unbounded)).take(limit).map(pair).collect()
            }
            Direction::Backward => {
                entries.range((Bound::Unbounded, from)).rev().take(limit).map(pair).collect()
            }
        };
        let found = scanned(tree, from.map(K::borrow), direction, limit).unwrap();
        assert_eq!(found, right, "{direction:?} from {from:?}");
    }

    /// Compares all entries, in both directions.
    pub fn compare_all(&self, tree: &dyn Index<K>) {
        assert_eq!(tree.len(), self.entries.len() as u64);
        for direction in [Direction::Forward, Direction::Backward] {
            self.scan(tree, 0, 2, direction, usize::MAX);
        }
    }

    /// Compares scans in both directions from bounds of every kind, and finds.
    pub fn compare(&self, tree: &dyn Index<K>) {
        let half = 1 << 63;
        self.compare_all(tree);
        for direction in [Direction::Forward, Direction::Backward] {
            for from in [0, 1, 7, 30, 300, 402, 500, 1000, 2000, 49_000, half - 1, half, u64::MAX] {
                self.scan(tree, from, 0, direction, usize::MAX);
                self.scan(tree, from, 1, direction, usize::MAX);
            }
        }
        self.find(tree, &(0..1100).collect::<Vec<_>>());
    }

    /// Removes all keys.
    fn clear(&mut self, tree: &dyn Index<K>) {
        let keys: Vec<K::Owned> = self.entries.keys().cloned().collect();
        keys.iter().for_each(|key| self.remove(tree, key));
        assert!(tree.is_empty());
    }
}

/// Does all of it on a tree that is then emptied: in memory that grows, where the tree is opened
/// again over the same pool; and in memory that was full of garbage, where it is opened from the
/// pool's image at another address.
pub fn run<K: KeyKind>(tested: impl TestedTree<K>, key: KeyOf<K>, actions: &[Action]) {
    run_on(tested, dram_pool(tested, 64 << 20), key, actions);
    run_from_images(tested, key, actions);
}

/// The first of these, in a pool on any media; what the tree is when it is empty.
pub fn run_on<K: KeyKind>(
    tested: impl TestedTree<K>,
    pool: Arc<Pool<impl Media>>,
    key: KeyOf<K>,
    actions: &[Action],
) -> IndexStatistics {
    run_reopening(tested, pool, key, actions, |pool| pool)
}

/// The second one.
fn run_from_images<K: KeyKind>(tested: impl TestedTree<K>, key: KeyOf<K>, actions: &[Action]) {
    let last = [Action::Reopen(Left::Crashed)];
    run_reopening(tested, traced_pool(tested, 2 << 20), key, actions.iter().chain(&last), |pool| {
        Pool::open(image_of(&pool.media().image())).unwrap().0
    });
}

fn run_reopening<'a, K: KeyKind, M: Media>(
    tested: impl TestedTree<K>,
    mut pool: Arc<Pool<M>>,
    key: KeyOf<K>,
    actions: impl IntoIterator<Item = &'a Action>,
    reopen: impl Fn(Arc<Pool<M>>) -> Arc<Pool<M>>,
) -> IndexStatistics {
    let mut tree = tested.open(&pool, Shutdown::Clean.into()).unwrap();
    let mut twin = Twin::new(key, tree.value_words());
    for action in actions {
        twin.step(&*tree, action);
        let Action::Reopen(left) = action else { continue };
        assert_sound(&pool, &*tree);
        let opening: Opening = match left {
            Left::Crashed => Shutdown::Crash.into(),
            Left::Closed => tree.close().map(|_| Shutdown::Clean.into()).unwrap(),
            Left::Sealed => Opening { seal: tree.close().unwrap(), ..Shutdown::Clean.into() },
        };
        drop(tree);
        pool = reopen(pool);
        tree = tested.open(&pool, opening).unwrap();
        twin.compare_all(&*tree);
    }
    twin.compare(&*tree);
    assert_sound(&pool, &*tree);
    twin.clear(&*tree);
    assert_sound(&pool, &*tree);
    tree.statistics()
}

/// Keys that come in one order and go in another, through all levels.
pub fn ascending_and_descending() -> [Vec<Action>; 2] {
    [false, true].map(|down| {
        let number = |i: u64| if down { 5000 - i } else { i };
        let insertions = (0..5000).map(|i| Action::Insert(number(i), i));
        let removals = (0..=5000).map(|i| Action::Remove(number(i * 7 % 5001)));
        insertions.chain(removals).collect()
    })
}

/// The first leaves go, from `least` on, and keys below all others come.
pub fn below_all_others(least: u64) -> Vec<Action> {
    let insertions = (0..200).map(|i| Action::Insert(least + i * 10, i));
    let removals = (0..60).map(|i| Action::Remove(least + i * 10));
    let below = (0..200).map(|i| Action::Insert(least + 200 - i, i));
    insertions.chain(removals).chain(below).collect()
}
