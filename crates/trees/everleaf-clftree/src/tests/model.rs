//! The tree against the model, at random, with sizes of every kind and both kinds of keys; what is
//! closed, or not, and opened again.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use everleaf_index::{BytesKeys, Direction, Index, KeyKind, Model, SerialIndex, U64Keys, Visit};
use everleaf_pmem::Media;
use everleaf_pool::{Pool, Shutdown};
use proptest::prelude::*;

use super::opened_after;
use super::{
    ENCODED, ENCODED_SHADOW, SHADOW, TINY, Tested, assert_sound, dram_pool, hardware_pool,
};
use everleaf_tree::key::TestKey;

#[derive(Clone, Copy, Debug)]
enum Action {
    Insert(u16, u64),
    Update(u16, u64),
    Upsert(u16, u64),
    Remove(u16),
    /// A row of insertions, up or down, or of removals.
    Row(u16, bool, bool),
    Reopen(bool),
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let key = prop_oneof![0..20u16, 0..1000u16, Just(u16::MAX)];
    let value = prop_oneof![Just(0u64), Just(u64::MAX), any::<u64>()];
    let action = prop_oneof![
        5 => (key.clone(), value.clone()).prop_map(|(key, value)| Action::Insert(key, value)),
        4 => (key.clone(), value.clone()).prop_map(|(key, value)| Action::Update(key, value)),
        2 => (key.clone(), value).prop_map(|(key, value)| Action::Upsert(key, value)),
        6 => key.clone().prop_map(Action::Remove),
        1 => (key, any::<bool>(), any::<bool>())
            .prop_map(|(key, up, insert)| Action::Row(key, up, insert)),
        1 => any::<bool>().prop_map(Action::Reopen),
    ];
    proptest::collection::vec(action, 1..200)
}

fn entries<K: KeyKind>(scan: impl FnOnce(&mut Visit<'_, K>)) -> Vec<(K::Owned, Vec<u64>)> {
    let mut entries = Vec::new();
    scan(&mut |key, value| {
        entries.push((K::to_owned(key), value.to_vec()));
        ControlFlow::Continue(())
    });
    entries
}

fn compare<K: TestKey>(tree: &dyn Index<K>, model: &Model<K>)
where
    Model<K>: SerialIndex<K>,
{
    for direction in [Direction::Forward, Direction::Backward] {
        for from in [0, 7, 500, 1000].map(K::ascending) {
            let from = K::borrow(&from);
            for bound in [Bound::Unbounded, Bound::Included(from), Bound::Excluded(from)] {
                let found = entries::<K>(|visit| tree.scan(bound, direction, visit).unwrap());
                let right = entries::<K>(|visit| model.scan(bound, direction, visit).unwrap());
                assert_eq!(found, right, "{direction:?} from {bound:?}");
            }
        }
    }
    let keys: Vec<K::Owned> = (0..1000).map(K::ascending).collect();
    let keys: Vec<K::Ref<'_>> = keys.iter().map(K::borrow).collect();
    let mut values = vec![None; keys.len()];
    tree.get_many(&keys, &mut values).unwrap();
    for (key, value) in keys.iter().zip(values) {
        assert_eq!(value, tree.get(*key).unwrap());
    }
}

/// With inner nodes that are written at once, and by the log.
fn run<K: TestKey>(parameters: Tested, actions: &[Action])
where
    Model<K>: SerialIndex<K>,
{
    run_on::<K, _>(&dram_pool::<K>(parameters, 64 << 20), actions);
    run_on::<K, _>(&hardware_pool::<K>(parameters, 64 << 20), actions);
}

fn run_on<K: TestKey, M: Media>(pool: &Arc<Pool<M>>, actions: &[Action])
where
    Model<K>: SerialIndex<K>,
{
    let mut tree = opened_after::<K, _>(pool, Shutdown::Clean).unwrap();
    let mut model = Model::<K>::new();
    for action in actions {
        let (mut old, mut expected) = ([1], [1]);
        let mut insert = |tree: &dyn Index<K>, key, value| {
            let key = K::ascending(key);
            let done = tree.insert_words(K::borrow(&key), &[value]).unwrap();
            assert_eq!(done, model.insert_words(K::borrow(&key), &[value]).unwrap());
        };
        match *action {
            Action::Insert(key, value) => insert(&*tree, key, value),
            Action::Row(start, up, true) => (0..40u16).for_each(|i| {
                let key = if up { start.saturating_add(i) } else { start.saturating_sub(i) };
                insert(&*tree, key, 3);
            }),
            Action::Row(start, up, false) => (0..40u16).for_each(|i| {
                let key = if up { start.saturating_add(i) } else { start.saturating_sub(i) };
                let key = K::ascending(key);
                let done = tree.remove_words(K::borrow(&key), &mut old).unwrap();
                assert_eq!(done, model.remove_words(K::borrow(&key), &mut expected).unwrap());
            }),
            Action::Update(key, value) => {
                let key = K::ascending(key);
                let done = tree.update_words(K::borrow(&key), &[value], &mut old).unwrap();
                let right = model.update_words(K::borrow(&key), &[value], &mut expected);
                assert_eq!(done, right.unwrap());
            }
            Action::Upsert(key, value) => {
                let key = K::ascending(key);
                let done = tree.upsert_words(K::borrow(&key), &[value], &mut old).unwrap();
                let right = model.upsert_words(K::borrow(&key), &[value], &mut expected);
                assert_eq!(done, right.unwrap());
            }
            Action::Remove(key) => {
                let key = K::ascending(key);
                let done = tree.remove_words(K::borrow(&key), &mut old).unwrap();
                assert_eq!(done, model.remove_words(K::borrow(&key), &mut expected).unwrap());
            }
            Action::Reopen(clean) => {
                drop(tree);
                let shutdown = if clean { Shutdown::Clean } else { Shutdown::Crash };
                tree = opened_after::<K, _>(pool, shutdown).unwrap();
            }
        }
        assert_eq!((old, tree.len()), (expected, model.len()));
    }
    compare(&*tree, &model);
    assert_sound(pool, &*tree);
}

const SIZES: &[Tested] = &[
    TINY,
    Tested { leaf_slots: 7, ..TINY },
    Tested { leaf_slots: 31, ..TINY },
    Tested { leaf_slots: 124, ..TINY },
    SHADOW,
    Tested { leaf_slots: 31, paper_order: true, ..SHADOW },
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn it_does_what_the_model_does(
        actions in actions(),
        size in prop::sample::select(SIZES),
        bytes: bool,
    ) {
        match bytes {
            true => run::<BytesKeys>(size, &actions),
            false => run::<U64Keys>(size, &actions),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn encoded_leaves_do_what_the_model_does(
        actions in actions(),
        paper_order: bool,
        shadow: bool,
    ) {
        let tested = if shadow { ENCODED_SHADOW } else { ENCODED };
        run::<U64Keys>(Tested { paper_order, ..tested }, &actions);
    }
}

#[test]
fn ascending_and_descending_keys_make_and_unmake_all_levels() {
    for down in [false, true] {
        let number = |i: u16| if down { 5000 - i } else { i };
        let insertions = (0..5000).map(|i| Action::Insert(number(i), u64::from(i)));
        let removals = (0..5000).map(|i| Action::Remove(number(i * 7 % 5000)));
        let all: Vec<Action> = insertions.chain(removals).collect();
        run::<U64Keys>(TINY, &all);
        run::<U64Keys>(ENCODED, &all);
        run::<U64Keys>(ENCODED_SHADOW, &all);
        run::<BytesKeys>(TINY, &all);
        run::<BytesKeys>(SHADOW, &all);
    }
}

/// A word far from the others takes the room of all of them.
#[test]
fn a_value_that_fits_into_neither_half_makes_three_leaves() {
    let pool = dram_pool::<U64Keys>(ENCODED, 64 << 20);
    let tree = opened_after::<U64Keys, _>(&pool, Shutdown::Clean).unwrap();
    (0..23).for_each(|key| assert!(tree.insert(key, key).unwrap()));
    assert_eq!(tree.statistics().leaves, 1);
    assert_eq!(tree.update(7, 1 << 62).unwrap(), Some(7));
    assert_eq!(tree.statistics().leaves, 3);
    assert_eq!(tree.get(7).unwrap(), Some(1 << 62));
    assert_sound(&pool, &*tree);
    (0..23).for_each(|key| assert!(tree.remove(key).unwrap().is_some()));
    assert_eq!((tree.len(), tree.statistics().leaves), (0, 0));
    assert_sound(&pool, &*tree);
}
