//! Crashes at every event of every operation: what is found is as before the operation or as after
//! it, sound, and can be gone on with.

use std::collections::BTreeMap;
use std::ops::Bound;

use everleaf_crash::{Options, Promise, Report, Subject, Traced, explore};
use everleaf_index::{Direction, Index, IndexError, KeyKind};
use everleaf_pool::{Pool, Shutdown};
use everleaf_tree::Opening;

use super::{KeyOf, Opened, TestedTree, problems, scanned};

/// An operation, on the key of a number.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// Of the number as the value.
    Insert(u64),
    /// Of a value, whether or not the key is present.
    Update(u64, u64),
    /// Whether or not the key is present.
    Remove(u64),
}
use Op::{Insert, Remove, Update};

/// What is done before, and what is explored.
pub type Scenario = [Vec<Op>; 2];

/// Insertions in this order.
pub fn inserts(numbers: impl IntoIterator<Item = u64>) -> Vec<Op> {
    numbers.into_iter().map(Insert).collect()
}

/// Removals in this order.
pub fn removes(numbers: impl IntoIterator<Item = u64>) -> Vec<Op> {
    numbers.into_iter().map(Remove).collect()
}

/// Plain operations; a leaf that is split; leaves that end; inner nodes that are split; inner nodes
/// that end. Of leaves with about four entries.
pub fn scenarios() -> Vec<Scenario> {
    let plain = vec![Update(10, 7), Remove(40), Update(60, 1), Insert(5), Update(60, 2)];
    let far = |i: u64| i * 1000;
    vec![
        [inserts([50, 30]), [inserts([40, 10, 20]), plain].concat()],
        [inserts([10, 20, 30, 40]), inserts([50, 60, 15, 12, 11])],
        [inserts([10, 20, 30, 40, 50, 60]), removes([10, 20, 60, 50, 40, 30])],
        [inserts((1..12).map(far)), [inserts((12..16).map(far)), removes([1000, 2000])].concat()],
        [inserts((1..40).map(far)), removes((1..8).map(far))],
    ]
}

/// Small pools, and few images of each crash point.
pub fn options() -> Options {
    Options {
        len: 96 << 10,
        max_len: 256 << 10,
        budget: 32,
        recovery_budget: 4,
        recoveries: 128,
        ..Options::default()
    }
}

/// Explores the second part of a scenario.
pub fn explored<K: KeyKind>(
    tested: impl TestedTree<K>,
    key: KeyOf<K>,
    [prepare, explored]: Scenario,
    options: &Options,
) -> Report {
    explore(&Explored { tested, key, prepare, explored }, options).unwrap()
}

/// Every state that a crash can leave while the second part runs holds what has been done.
pub fn is_never_lost<K: KeyKind>(
    tested: impl TestedTree<K>,
    key: KeyOf<K>,
    scenario: Scenario,
    options: &Options,
) {
    let report = explored(tested, key, scenario, options);
    assert!(report.violations.is_empty(), "{tested:?}: {:?}", report.violations);
    println!("{} images, {} recoveries", report.images, report.recoveries);
}

struct Explored<K: KeyKind, T> {
    tested: T,
    key: KeyOf<K>,
    prepare: Vec<Op>,
    explored: Vec<Op>,
}

impl<K: KeyKind, T: TestedTree<K>> Explored<K, T> {
    fn apply(&self, tree: &dyn Index<K>, op: Op) -> Result<(), String> {
        let key = |number| (self.key)(number);
        let done = match op {
            Insert(number) => tree.insert(K::borrow(&key(number)), number).map(drop),
            Update(number, value) => tree.upsert(K::borrow(&key(number)), value).map(drop),
            Remove(number) => tree.remove(K::borrow(&key(number))).map(drop),
        };
        done.map_err(|error| error.to_string())
    }

    /// What the first operations make of nothing.
    fn expected(&self, explored: usize) -> BTreeMap<K::Owned, u64> {
        let mut expected = BTreeMap::new();
        for op in self.prepare.iter().chain(&self.explored[..explored]) {
            match *op {
                Insert(number) => _ = expected.entry((self.key)(number)).or_insert(number),
                Update(number, value) => _ = expected.insert((self.key)(number), value),
                Remove(number) => _ = expected.remove(&(self.key)(number)),
            }
        }
        expected
    }

    fn holds(&self, tree: &dyn Index<K>, explored: usize) -> Result<bool, IndexError> {
        let found = scanned(tree, Bound::Unbounded, Direction::Forward, usize::MAX)?;
        let found = found.into_iter().map(|(key, value)| (key, value[0]));
        Ok(found.eq(self.expected(explored)))
    }

    fn opened(&self, media: Traced, fresh: bool) -> Result<Opened<K, Traced>, String> {
        let (pool, opening) = if fresh {
            let pool = Pool::create(media, &self.tested.format());
            (pool.map_err(|error| error.to_string())?, Shutdown::Clean.into())
        } else {
            let (pool, found) = Pool::open(media).map_err(|error| error.to_string())?;
            (pool, Opening::from(&found))
        };
        let tree = self.tested.open(&pool, opening).map_err(|error| error.to_string())?;
        Ok((pool, tree))
    }
}

fn check<K: KeyKind>((pool, tree): &Opened<K, Traced>) -> Result<(), String> {
    let problems = problems(pool, &**tree);
    if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
}

impl<K: KeyKind, T: TestedTree<K>> Subject for Explored<K, T> {
    type State = Opened<K, Traced>;

    fn prepare(&self, media: Traced) -> Result<Self::State, String> {
        let (pool, tree) = self.opened(media, true)?;
        self.prepare.iter().try_for_each(|op| self.apply(&*tree, *op))?;
        Ok((pool, tree))
    }

    fn operation_count(&self) -> usize {
        self.explored.len()
    }

    fn run(&self, (_, tree): &mut Self::State, operation: usize) -> Result<(), String> {
        self.apply(&**tree, self.explored[operation])
    }

    fn recover(&self, image: Traced) -> Result<Self::State, String> {
        self.opened(image, false)
    }

    fn verify(&self, state: &mut Self::State, promise: &Promise) -> Result<(), String> {
        check(state)?;
        if self.completed(state, promise).is_none() {
            return Err("the tree is neither as before the operation nor as after it".into());
        }
        for number in [1, 9, 25, 26, 27, 28, 200, 9] {
            self.apply(&*state.1, Update(number, 3))?;
        }
        for number in [9, 1, 10, 20, 26, 27] {
            self.apply(&*state.1, Remove(number))?;
        }
        check(state)
    }

    fn completed(&self, (_, tree): &mut Self::State, promise: &Promise) -> Option<usize> {
        let holds = |count: &&usize| self.holds(&**tree, **count).unwrap_or(false);
        promise.boundaries().iter().rev().find(holds).copied()
    }

    fn describe_operation(&self, operation: usize) -> String {
        format!("{:?}", self.explored[operation])
    }
}
