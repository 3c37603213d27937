//! Crashes at every event of every operation. More of it, and all barriers, are explored with the
//! other engines.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use everleaf_crash::{Options, Promise, Subject, Traced, explore};
use everleaf_index::{Direction, Index, U64Keys};
use everleaf_pool::{Audit, AuditReport, Pool};

use super::super::open;
use super::{BOTH, Parameters, TINY, Variant, format_of, opened};

#[derive(Clone, Copy, Debug)]
enum Op {
    Insert(u64),
    Update(u64, u64),
    Remove(u64),
}
use Op::{Insert, Remove, Update};

struct Explored {
    variant: Variant,
    parameters: Parameters,
    prepare: Vec<Op>,
    explore: Vec<Op>,
}

struct Opened {
    pool: Arc<Pool<Traced>>,
    tree: Box<dyn Index<U64Keys>>,
}

type Entries = BTreeMap<u64, u64>;

impl Explored {
    fn apply(tree: &dyn Index<U64Keys>, op: Op) -> Result<(), String> {
        let done = match op {
            Insert(number) => tree.insert(number, number).map(drop),
            Update(number, value) => tree.upsert(number, value).map(drop),
            Remove(number) => tree.remove(number).map(drop),
        };
        done.map_err(|e| e.to_string())
    }

    /// What the first operations make of nothing.
    fn model(&self, explored: usize) -> Entries {
        let mut model = Entries::new();
        for op in self.prepare.iter().chain(&self.explore[..explored]) {
            match *op {
                Insert(number) => _ = model.entry(number).or_insert(number),
                Update(number, value) => _ = model.insert(number, value),
                Remove(number) => _ = model.remove(&number),
            }
        }
        model
    }

    fn holds(&self, tree: &dyn Index<U64Keys>, explored: usize) -> Result<bool, String> {
        let mut found = Entries::new();
        tree.scan(Bound::Unbounded, Direction::Forward, &mut |key, value| {
            found.insert(key, value[0]);
            ControlFlow::Continue(())
        })
        .map_err(|e| e.to_string())?;
        Ok(found == self.model(explored))
    }

    fn check(state: &Opened) -> Result<(), String> {
        let mut audit = Audit::new();
        let report = state.tree.check(&mut audit).map_err(|e| e.to_string())?;
        let audit = state.pool.finish_audit(audit);
        if report.violations.is_empty() && audit == AuditReport::default() {
            return Ok(());
        }
        Err(format!("{:?}, {audit:?}", report.violations))
    }
}

impl Subject for Explored {
    type State = Opened;

    fn prepare(&self, media: Traced) -> Result<Self::State, String> {
        let format = format_of::<U64Keys>(self.variant, self.parameters);
        let pool = Pool::create(media, &format).map_err(|e| e.to_string())?;
        let tree = opened(&pool, self.variant);
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
        let (pool, _) = Pool::open(image).map_err(|e| e.to_string())?;
        let tree = open(&pool, self.variant).map_err(|e| e.to_string())?;
        Ok(Opened { pool, tree })
    }

    fn verify(&self, state: &mut Self::State, promise: &Promise) -> Result<(), String> {
        if self.completed(state, promise).is_none() {
            return Err("the tree is neither as before the operation nor as after it".into());
        }
        Self::check(state)?;
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

fn inserts(numbers: impl IntoIterator<Item = u64>) -> Vec<Op> {
    numbers.into_iter().map(Insert).collect()
}

fn removes(numbers: impl IntoIterator<Item = u64>) -> Vec<Op> {
    numbers.into_iter().map(Remove).collect()
}

fn is_never_lost(variant: Variant, leaf_slots: u64, [prepare, explored]: [Vec<Op>; 2]) {
    let options = Options {
        len: 96 << 10,
        max_len: 256 << 10,
        budget: 32,
        recovery_budget: 4,
        recoveries: 128,
        ..Options::default()
    };
    let parameters = Parameters { leaf_slots, ..TINY };
    let subject = Explored { variant, parameters, prepare, explore: explored };
    let report = explore(&subject, &options).unwrap();
    assert!(report.violations.is_empty(), "{variant:?}: {:?}", report.violations);
    println!("{} images, {} recoveries", report.images, report.recoveries);
}

#[test]
fn no_crash_state_is_lost() {
    let plain = vec![Update(10, 7), Remove(40), Update(60, 1), Insert(5), Update(60, 2)];
    let far = |i: u64| i * 1000;
    let scenarios = [
        [inserts([50, 30]), [inserts([40, 10, 20]), plain].concat()],
        [inserts([10, 20, 30, 40]), inserts([50, 60, 15, 12, 11])],
        [inserts([10, 20, 30, 40, 50, 60]), removes([10, 20, 60, 50, 40, 30])],
        [inserts((1..12).map(far)), [inserts((12..16).map(far)), removes([1000, 2000])].concat()],
        [inserts((1..40).map(far)), removes((1..8).map(far))],
        // A node that was free is taken again, and is free until that is committed.
        [
            [inserts([10, 20, 30, 40, 50, 60, 70]), removes([10, 20, 30, 40])].concat(),
            inserts([80, 15, 16, 17]),
        ],
    ];
    for (scenario, variant) in scenarios.iter().flat_map(|one| BOTH.map(|other| (one, other))) {
        is_never_lost(variant, 4, scenario.clone());
        is_never_lost(variant, if variant == Variant::Slot { 7 } else { 10 }, scenario.clone());
    }
}
