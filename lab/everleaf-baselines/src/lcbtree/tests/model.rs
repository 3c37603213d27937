//! The tree against the model, at random, with nodes of several sizes and both kinds of log; opened
//! again on the way.

use std::ops::{Bound, ControlFlow};

use everleaf_index::{Direction, Index, Model, SerialIndex, U64Keys, Visit};
use proptest::prelude::*;

use super::{BOTH, Logging, Parameters, TINY, assert_sound, dram_pool, opened};

#[derive(Clone, Copy, Debug)]
enum Action {
    Insert(u64, u64),
    Update(u64, u64),
    Upsert(u64, u64),
    Remove(u64),
    /// A row of insertions, up or down, or of removals.
    Row(u64, bool, bool),
    Reopen,
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let key = prop_oneof![0..20u64, 0..1000u64, Just(u64::MAX)];
    let value = prop_oneof![Just(0u64), Just(u64::MAX), any::<u64>()];
    let action = prop_oneof![
        5 => (key.clone(), value.clone()).prop_map(|(key, value)| Action::Insert(key, value)),
        4 => (key.clone(), value.clone()).prop_map(|(key, value)| Action::Update(key, value)),
        2 => (key.clone(), value).prop_map(|(key, value)| Action::Upsert(key, value)),
        6 => key.clone().prop_map(Action::Remove),
        1 => (key, any::<bool>(), any::<bool>())
            .prop_map(|(key, up, insert)| Action::Row(key, up, insert)),
        1 => Just(Action::Reopen),
    ];
    proptest::collection::vec(action, 1..200)
}

fn entries(scan: impl FnOnce(&mut Visit<'_, U64Keys>)) -> Vec<(u64, u64)> {
    let mut entries = Vec::new();
    scan(&mut |key, value| {
        entries.push((key, value[0]));
        ControlFlow::Continue(())
    });
    entries
}

fn compare(tree: &dyn Index<U64Keys>, model: &Model<U64Keys>) {
    for direction in [Direction::Forward, Direction::Backward] {
        for from in [0, 7, 500, 1000, u64::MAX] {
            for bound in [Bound::Unbounded, Bound::Included(from), Bound::Excluded(from)] {
                let found = entries(|visit| tree.scan(bound, direction, visit).unwrap());
                let right = entries(|visit| model.scan(bound, direction, visit).unwrap());
                assert_eq!(found, right, "{direction:?} from {bound:?}");
            }
        }
    }
    let keys: Vec<u64> = (0..1000).collect();
    let mut values = vec![None; keys.len()];
    tree.get_many(&keys, &mut values).unwrap();
    for (key, value) in keys.iter().zip(values) {
        assert_eq!(value, tree.get(*key).unwrap());
    }
}

fn run(parameters: Parameters, actions: &[Action]) {
    let pool = dram_pool(parameters, 64 << 20);
    let mut tree = opened(&pool);
    let mut model = Model::<U64Keys>::new();
    for action in actions {
        let (mut old, mut expected) = ([1], [1]);
        let row = |start: u64, up: bool| {
            (0..40).map(move |i| if up { start.saturating_add(i) } else { start.saturating_sub(i) })
        };
        match *action {
            Action::Insert(key, value) => {
                let done = tree.insert(key, value).unwrap();
                assert_eq!(done, model.insert_words(key, &[value]).unwrap());
            }
            Action::Row(start, up, true) => row(start, up).for_each(|key| {
                let done = tree.insert(key, 3).unwrap();
                assert_eq!(done, model.insert_words(key, &[3]).unwrap());
            }),
            Action::Row(start, up, false) => row(start, up).for_each(|key| {
                let done = tree.remove_words(key, &mut old).unwrap();
                assert_eq!(done, model.remove_words(key, &mut expected).unwrap());
            }),
            Action::Update(key, value) => {
                let done = tree.update_words(key, &[value], &mut old).unwrap();
                assert_eq!(done, model.update_words(key, &[value], &mut expected).unwrap());
            }
            Action::Upsert(key, value) => {
                let done = tree.upsert_words(key, &[value], &mut old).unwrap();
                assert_eq!(done, model.upsert_words(key, &[value], &mut expected).unwrap());
            }
            Action::Remove(key) => {
                let done = tree.remove_words(key, &mut old).unwrap();
                assert_eq!(done, model.remove_words(key, &mut expected).unwrap());
            }
            Action::Reopen => {
                drop(tree);
                tree = opened(&pool);
            }
        }
        assert_eq!((old, tree.len()), (expected, model.len()));
    }
    compare(&*tree, &model);
    assert_sound(&pool, &*tree);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn it_does_what_the_model_does(
        actions in actions(),
        slots in prop::sample::select(&[4u64, 8, 21, 170][..]),
        ranges: bool,
    ) {
        let logging = if ranges { Logging::Ranges } else { Logging::WholeNodes };
        run(Parameters { slots, logging, ..TINY }, &actions);
    }
}

#[test]
fn ascending_and_descending_keys_make_and_unmake_all_levels() {
    for (logging, down) in BOTH.into_iter().flat_map(|logging| [(logging, false), (logging, true)])
    {
        let number = |i: u64| if down { 5000 - i } else { i };
        let insertions = (0..5000).map(|i| Action::Insert(number(i), i));
        let removals = (0..=5000).map(|i| Action::Remove(number(i * 7 % 5001)));
        let all: Vec<Action> = insertions.chain(removals).collect();
        run(Parameters { logging, ..TINY }, &all);
    }
}

/// The first child of a node goes: what is less than the others belongs to the next one.
#[test]
fn keys_below_all_others_find_their_leaf_after_the_first_one_has_gone() {
    let insertions = (0..200).map(|i| Action::Insert(10_000 + i * 10, i));
    let removals = (0..60).map(|i| Action::Remove(10_000 + i * 10));
    let below = (0..200).map(|i| Action::Insert(10_200 - i, i));
    let all: Vec<Action> = insertions.chain(removals).chain(below).collect();
    BOTH.into_iter().for_each(|logging| run(Parameters { logging, ..TINY }, &all));
}
