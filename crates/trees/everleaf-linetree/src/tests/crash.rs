//! Crashes at every event of the histories that the first design fell by, and of those that the
//! second one was changed for. More of it, and all barriers, are explored with the other engines.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use everleaf_crash::{Options, Promise, Subject, Traced};
use everleaf_index::{BytesKeys, Direction, Index, KeyKind, U64Keys};
use everleaf_pool::{Audit, AuditReport, Pool, Shutdown};

use super::super::layout::home;
use super::super::open;
use super::{TINY, format_of};
use everleaf_tree::key::TestKey;

#[derive(Clone, Copy, Debug)]
enum Op {
    Insert(u64),
    Update(u64, u64),
    Remove(u64),
}
use Op::{Insert, Remove, Update};

struct Explored<K: TestKey> {
    prepare: Vec<Op>,
    explore: Vec<Op>,
    /// The keys of numbers, in their order.
    key: fn(u64) -> K::Owned,
}

struct Opened<K: TestKey> {
    pool: Arc<Pool<Traced>>,
    tree: Box<dyn Index<K>>,
}

type Model<K> = BTreeMap<<K as KeyKind>::Owned, u64>;

impl<K: TestKey<Owned: Ord>> Explored<K> {
    fn apply(&self, tree: &dyn Index<K>, op: Op) -> Result<(), String> {
        let key = |number| (self.key)(number);
        let done = match op {
            Insert(number) => tree.insert(K::borrow(&key(number)), number).map(drop),
            Update(number, value) => tree.upsert(K::borrow(&key(number)), value).map(drop),
            Remove(number) => tree.remove(K::borrow(&key(number))).map(drop),
        };
        done.map_err(|e| e.to_string())
    }

    /// What the first operations make of nothing.
    fn model(&self, explored: usize) -> Model<K> {
        let mut model = Model::<K>::new();
        for op in self.prepare.iter().chain(&self.explore[..explored]) {
            match *op {
                Insert(number) => _ = model.entry((self.key)(number)).or_insert(number),
                Update(number, value) => _ = model.insert((self.key)(number), value),
                Remove(number) => _ = model.remove(&(self.key)(number)),
            }
        }
        model
    }

    fn holds(&self, tree: &dyn Index<K>, explored: usize) -> Result<bool, String> {
        let mut found = Vec::new();
        tree.scan(Bound::Unbounded, Direction::Forward, &mut |key, value| {
            found.push((K::to_owned(key), value[0]));
            ControlFlow::Continue(())
        })
        .map_err(|e| e.to_string())?;
        Ok(found.into_iter().eq(self.model(explored)))
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

impl<K: TestKey<Owned: Ord>> Subject for Explored<K> {
    type State = Opened<K>;

    fn prepare(&self, media: Traced) -> Result<Self::State, String> {
        let pool = Pool::create(media, &format_of::<K>(TINY)).map_err(|e| e.to_string())?;
        let tree = open(&pool, Shutdown::Crash.into()).map_err(|e| e.to_string())?;
        self.prepare.iter().try_for_each(|op| self.apply(&*tree, *op))?;
        Ok(Opened { pool, tree })
    }

    fn operation_count(&self) -> usize {
        self.explore.len()
    }

    fn run(&self, state: &mut Self::State, operation: usize) -> Result<(), String> {
        self.apply(&*state.tree, self.explore[operation])
    }

    fn recover(&self, image: Traced) -> Result<Self::State, String> {
        let (pool, _) = Pool::open(image).map_err(|e| e.to_string())?;
        let tree = open(&pool, Shutdown::Crash.into()).map_err(|e| e.to_string())?;
        Ok(Opened { pool, tree })
    }

    fn verify(&self, state: &mut Self::State, promise: &Promise) -> Result<(), String> {
        Self::check(state)?;
        if self.completed(state, promise).is_none() {
            return Err("the tree is neither as before the operation nor as after it".into());
        }
        for number in [1, 9, 25, 26, 27, 28, 200, 9] {
            self.apply(&*state.tree, Update(number, 3))?;
        }
        for number in [9, 1, 10, 20, 26, 27] {
            self.apply(&*state.tree, Remove(number))?;
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

fn inserts(numbers: impl IntoIterator<Item = u64>) -> Vec<Op> {
    numbers.into_iter().map(Insert).collect()
}

fn removes(numbers: impl IntoIterator<Item = u64>) -> Vec<Op> {
    numbers.into_iter().map(Remove).collect()
}

/// Every state that a crash can leave while the second operations run holds what they have done.
fn is_never_lost<const N: usize>(prepare: Vec<Op>, explored: [Vec<Op>; N]) {
    of_keys::<U64Keys>(&prepare, &explored.concat(), 48, |number| number);
    of_keys::<BytesKeys>(&prepare, &explored.concat(), 12, |number| number.to_be_bytes().into());
}

fn of_keys<K: TestKey<Owned: Ord>>(
    prepare: &[Op],
    explore: &[Op],
    budget: u64,
    key: fn(u64) -> K::Owned,
) {
    let options = Options {
        len: 96 << 10,
        max_len: 256 << 10,
        budget,
        recovery_budget: 6,
        recoveries: 256,
        ..Options::default()
    };
    let subject = Explored::<K> { prepare: prepare.to_vec(), explore: explore.to_vec(), key };
    let report = everleaf_crash::explore(&subject, &options).unwrap();
    assert!(report.violations.is_empty(), "{:?}", report.violations);
    println!("{} images, {} recoveries", report.images, report.recoveries);
}

/// The multiples of ten up to so many: a leaf has eight.
fn tens(range: std::ops::RangeInclusive<u64>) -> Vec<Op> {
    inserts(range.map(|i| i * 10))
}

/// Keys from 100 on that have this line of two as their home.
fn at_home(line: usize) -> impl Iterator<Item = u64> {
    (100..).filter(move |key| home::<U64Keys, 2>(*key) == line)
}

#[test]
fn plain_operations() {
    let plain = [Update(10, 7), Remove(40), Update(60, 1), Insert(5), Update(60, 2), Remove(60)];
    is_never_lost(inserts([50, 30]), [inserts([40, 10, 20]), plain.to_vec()]);
}

/// Flag and entry in two lines under one fence: here what an entry goes past is durable before it.
#[test]
fn an_entry_that_went_past_a_full_line_is_found_and_not_added_twice() {
    for line in [0, 1] {
        let mut keys = at_home(line);
        let four: Vec<u64> = keys.by_ref().take(3).collect();
        let past: Vec<u64> = keys.take(4).collect();
        let again = [Insert(past[1]), Remove(four[0]), Update(past[1], 5), Insert(past[3])];
        is_never_lost(inserts(four), [inserts(past.clone()), again.to_vec()]);
    }
}

/// A key that went past a line stays reachable when the line gets room again.
#[test]
fn removals_from_a_full_line_hide_nothing_behind_it() {
    for line in [0, 1] {
        let keys: Vec<u64> = at_home(line).take(6).collect();
        let removed = removes(keys[..4].iter().copied());
        is_never_lost(inserts(keys.clone()), [removed, inserts(keys[2..5].iter().copied())]);
    }
}

/// A is split, a key moves to B and is removed; B dies, and what A still has of it must stay dead.
#[test]
fn what_a_split_has_moved_never_lives_again() {
    let moved = [50, 60, 70, 80];
    let split = vec![Insert(45), Remove(45)];
    is_never_lost(tens(1..=8), [split.clone(), removes(moved), inserts([55, 65])]);
    is_never_lost([tens(1..=8), split].concat(), [removes(moved), inserts([60]), removes([10])]);
}

/// Lines that a split does not need have what a leaf held before it was free.
#[test]
fn a_leaf_that_serves_again_has_nothing_of_what_it_held() {
    let twice = [tens(1..=8), vec![Insert(45)], removes([50, 60, 70, 80])].concat();
    is_never_lost(twice.clone(), [inserts([12, 14, 16, 18]), removes([30])]);
    is_never_lost([twice, inserts([12, 14])].concat(), [inserts([16, 18, 19]), removes([10, 12])]);
}

/// Two leaves never have one bound: a leaf that was not published is free, whatever split follows.
#[test]
fn a_split_that_was_cut_is_made_again_at_the_same_key() {
    let again = [Insert(45), Insert(46), Remove(45), Insert(45)];
    is_never_lost(tens(1..=8), [again.to_vec(), inserts([47, 48, 49])]);
}

/// The range of a leaf goes to the right, the first leaf's too; and on, when that dies as well.
#[test]
fn leaves_die_one_after_the_other() {
    let three = [tens(1..=8), inserts([45, 85, 90, 95])].concat();
    is_never_lost(three.clone(), [removes([10, 20, 30, 40]), removes([45, 50, 60, 70, 80])]);
    is_never_lost(three, [removes([80, 70, 60, 50, 45]), removes([40, 30, 20, 10]), inserts([1])]);
}

#[test]
fn ascending_keys_move_nothing() {
    is_never_lost(tens(1..=8), [tens(9..=11), removes([90])]);
    let high = |i: u64| (1 << 63) + i;
    is_never_lost(inserts((1..=8).map(high)), [inserts((9..=17).map(high))]);
}
