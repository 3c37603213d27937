//! Crashes at every event of every operation, under the model that tears lines and under the
//! assumption that it does not. More of it, and all barriers, are explored with the other engines.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use everleaf_crash::{Assumptions, Options, Promise, Report, Subject, Traced, explore};
use everleaf_index::{BytesKeys, Direction, Index, U64Keys};
use everleaf_pmem::LineAtomicity;
use everleaf_pool::{Audit, AuditReport, Pool, Shutdown};

use super::{ENCODED, ENCODED_SHADOW, SHADOW, TINY, Tested, format_of, opened_after};
use everleaf_tree::key::TestKey;

const ATOMIC_LINE: Assumptions = Assumptions { eadr: false, atomic_line: true };

#[derive(Clone, Copy, Debug)]
enum Op {
    Insert(u16),
    Update(u16, u64),
    Remove(u16),
}
use Op::{Insert, Remove, Update};

struct Explored<K> {
    parameters: Tested,
    prepare: Vec<Op>,
    explore: Vec<Op>,
    kind: PhantomData<K>,
}

struct Opened<K: TestKey> {
    pool: Arc<Pool<Traced>>,
    tree: Box<dyn Index<K>>,
}

type Model = BTreeMap<u16, u64>;

impl<K: TestKey> Explored<K> {
    fn apply(tree: &dyn Index<K>, op: Op) -> Result<(), String> {
        let key = |number| K::ascending(number);
        let done = match op {
            Insert(number) => tree.insert(K::borrow(&key(number)), number.into()).map(drop),
            Update(number, value) => tree.upsert(K::borrow(&key(number)), value).map(drop),
            Remove(number) => tree.remove(K::borrow(&key(number))).map(drop),
        };
        done.map_err(|e| e.to_string())
    }

    /// What the first operations make of nothing.
    fn model(&self, explored: usize) -> Model {
        let mut model = Model::new();
        for op in self.prepare.iter().chain(&self.explore[..explored]) {
            match *op {
                Insert(number) => _ = model.entry(number).or_insert(number.into()),
                Update(number, value) => _ = model.insert(number, value),
                Remove(number) => _ = model.remove(&number),
            }
        }
        model
    }

    fn holds(&self, tree: &dyn Index<K>, explored: usize) -> Result<bool, String> {
        let expected = self.model(explored);
        let expected = expected.iter().map(|(number, value)| (K::ascending(*number), *value));
        let mut found = Vec::new();
        tree.scan(Bound::Unbounded, Direction::Forward, &mut |key, value| {
            found.push((K::to_owned(key), value[0]));
            ControlFlow::Continue(())
        })
        .map_err(|e| e.to_string())?;
        Ok(found.into_iter().eq(expected))
    }

    fn check(state: &Opened<K>) -> Result<(), String> {
        let mut audit = Audit::new();
        let report = state.tree.check(&mut audit).map_err(|e| e.to_string())?;
        let audit = state.pool.finish_audit(audit);
        if report.violations.is_empty() && audit == AuditReport::default() {
            return Ok(());
        }
        Err(format!("{:?}, {audit:?}", report.violations))
    }
}

impl<K: TestKey> Subject for Explored<K> {
    type State = Opened<K>;

    fn prepare(&self, media: Traced) -> Result<Self::State, String> {
        let pool = Pool::create(media, &format_of::<K>(self.parameters));
        let pool = pool.map_err(|e| e.to_string())?;
        let tree = opened_after::<K, _>(&pool, Shutdown::Clean).map_err(|e| e.to_string())?;
        self.prepare.iter().try_for_each(|op| Self::apply(&*tree, *op))?;
        Ok(Opened { pool, tree })
    }

    fn operation_count(&self) -> usize {
        self.explore.len()
    }

    fn run(&self, state: &mut Self::State, operation: usize) -> Result<(), String> {
        Self::apply(&*state.tree, self.explore[operation])
    }

    fn recover(&self, image: Traced) -> Result<Self::State, String> {
        let (pool, opened) = Pool::open(image).map_err(|e| e.to_string())?;
        let tree = opened_after::<K, _>(&pool, opened.shutdown).map_err(|e| e.to_string())?;
        Ok(Opened { pool, tree })
    }

    fn verify(&self, state: &mut Self::State, promise: &Promise) -> Result<(), String> {
        Self::check(state)?;
        if self.completed(state, promise).is_none() {
            return Err("the tree is neither as before the operation nor as after it".into());
        }
        for number in [1, 9, 25, 26, 27, 28, 200, 9] {
            Self::apply(&*state.tree, Update(number, 3))?;
        }
        for number in [9, 1, 10, 20, 26, 27] {
            Self::apply(&*state.tree, Remove(number))?;
        }
        Self::check(state)
    }

    fn completed(&self, state: &mut Self::State, promise: &Promise) -> Option<usize> {
        let holds = |count: &&usize| self.holds(&*state.tree, **count).unwrap_or(false);
        promise.boundaries().iter().rev().find(holds).copied()
    }

    fn describe_operation(&self, operation: usize) -> String {
        format!("{:?}", self.explore[operation])
    }
}

fn inserts(numbers: impl IntoIterator<Item = u16>) -> Vec<Op> {
    numbers.into_iter().map(Insert).collect()
}

fn removes(numbers: impl IntoIterator<Item = u16>) -> Vec<Op> {
    numbers.into_iter().map(Remove).collect()
}

fn options(assumptions: Assumptions) -> Options {
    Options {
        len: 96 << 10,
        max_len: 256 << 10,
        budget: 32,
        recovery_budget: 4,
        recoveries: 128,
        assumptions,
        ..Options::default()
    }
}

fn explored<K: TestKey>(
    parameters: Tested,
    [prepare, explore_then]: [Vec<Op>; 2],
    options: &Options,
) -> Report {
    let subject = Explored::<K> { parameters, prepare, explore: explore_then, kind: PhantomData };
    explore(&subject, options).unwrap()
}

fn is_never_lost<K: TestKey>(parameters: Tested, scenario: [Vec<Op>; 2]) {
    for assumptions in [Assumptions::default(), ATOMIC_LINE] {
        let report = explored::<K>(parameters, scenario.clone(), &options(assumptions));
        assert!(report.violations.is_empty(), "{:?}", report.violations);
        println!("{} images, {} recoveries", report.images, report.recoveries);
    }
}

/// Leaves of one key end in turns below two inner nodes: the log has another one each time.
fn in_turns() -> [Vec<Op>; 2] {
    let odd = (0..20).map(|i| (2 * i + 1) * 1000);
    let turns = [3, 37, 5, 35, 7].map(|i| i * 1000 + 1000);
    [[inserts((1..41).map(|i| i * 1000)), removes(odd)].concat(), removes(turns)]
}

fn scenarios() -> Vec<[Vec<Op>; 2]> {
    let far = |i: u16| i * 1000;
    vec![
        [
            inserts([50, 30]),
            [inserts([40, 10, 20]), vec![Update(10, 7), Remove(40), Update(60, 1), Insert(5)]]
                .concat(),
        ],
        [inserts([10, 20, 30, 40]), inserts([50, 60, 15, 12])],
        [inserts([10, 20, 30, 40, 50, 60]), removes([10, 20, 60, 50, 40, 30])],
        [inserts((1..16).map(far)), [inserts((16..20).map(far)), removes([1000, 2000])].concat()],
        [inserts((1..60).map(far)), removes((1..8).map(far))],
        in_turns(),
    ]
}

#[test]
fn no_crash_state_is_lost() {
    for scenario in scenarios() {
        is_never_lost::<U64Keys>(TINY, scenario.clone());
        is_never_lost::<BytesKeys>(TINY, scenario);
    }
    let seven = Tested { leaf_slots: 7, ..TINY };
    let scenario = [inserts([10, 20, 30]), inserts([40, 50, 60, 70, 80, 15])];
    is_never_lost::<U64Keys>(seven, scenario.clone());
    is_never_lost::<BytesKeys>(seven, scenario);
}

/// Encoded leaves that are split into two and three, emptied, and taken out; values that need more
/// bytes, and fewer.
#[test]
fn no_crash_state_of_encoded_leaves_is_lost() {
    let far = |i: u16| i * 1000;
    let wide = |numbers: [u16; 3]| numbers.map(|number| Update(number, u64::MAX >> 1)).to_vec();
    let of_bytes = inserts((1..8).map(far));
    let scenarios = [
        [inserts([50, 30]), [inserts([40, 10]), removes([40, 50, 10, 30]), inserts([9])].concat()],
        [of_bytes.clone(), inserts((8..12).map(far))],
        [of_bytes.clone(), [wide([3000, 5000, 1000]), removes([3000, 1000, 2000])].concat()],
        [inserts((1..40).map(far)), [inserts([1, 2, 3, 4, 5, 6]), removes([1000, 2000])].concat()],
        [inserts((1..30).map(far)), removes((1..12).map(far))],
    ];
    for scenario in scenarios.into_iter().chain([in_turns()]) {
        is_never_lost::<U64Keys>(ENCODED, scenario.clone());
        is_never_lost::<U64Keys>(ENCODED_SHADOW, scenario);
    }
}

#[test]
fn no_crash_state_of_copied_lines_is_lost() {
    for scenario in scenarios() {
        is_never_lost::<U64Keys>(SHADOW, scenario.clone());
        is_never_lost::<BytesKeys>(SHADOW, scenario);
    }
}

#[test]
fn whole_lines_that_are_believed_and_torn_lose_the_tree() {
    let options =
        Options { promised: Some(LineAtomicity::Line), ..options(Assumptions::default()) };
    let report = explored::<U64Keys>(TINY, scenarios().remove(1), &options);
    println!("{}", report.violations[0]);
    assert!(!report.violations.is_empty());
    let leaf = explored::<U64Keys>(ENCODED, [inserts([50, 30]), inserts([40, 10])], &options);
    println!("{}", leaf.violations[0]);
    assert!(!leaf.violations.is_empty());
}
