//! The tree against the model, at random, with sizes of every kind and both kinds of keys; what is
//! closed, or not, and opened again.

use std::ops::{Bound, ControlFlow};

use everleaf_index::{BytesKeys, Direction, Index, KeyKind, Model, SerialIndex, U64Keys, Visit};
use everleaf_pool::Shutdown;
use proptest::prelude::*;

use super::super::open;
use super::{Parameters, TINY, VARIANTS, Variant, assert_sound, dram_pool};
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

fn run<K: TestKey>(parameters: Parameters, variant: Variant, actions: &[Action])
where
    Model<K>: SerialIndex<K>,
{
    let pool = dram_pool::<K>(parameters, 64 << 20);
    let mut tree = open::<K, _>(&pool, variant, Shutdown::Clean).unwrap();
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
                tree = open::<K, _>(&pool, variant, shutdown).unwrap();
            }
        }
        assert_eq!((old, tree.len()), (expected, model.len()));
    }
    compare(&*tree, &model);
    assert_sound(&pool, &*tree);
}

const SIZES: &[Parameters] = &[
    TINY,
    Parameters { leaf_slots: 8, inner_keys: 4, ..TINY },
    Parameters { leaf_slots: 21, inner_keys: 8, ..TINY },
    Parameters { leaf_slots: 256, inner_keys: 4, ..TINY },
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn it_does_what_the_model_does(
        actions in actions(),
        size in prop::sample::select(SIZES),
        bytes: bool,
        variant in prop::sample::select(&VARIANTS),
    ) {
        match bytes {
            true => run::<BytesKeys>(size, variant, &actions),
            false => run::<U64Keys>(size, variant, &actions),
        }
    }
}

/// One key put, removed and put again, around the moment at which its leaf is full.
fn one_key_comes_and_goes<K: TestKey>(variant: Variant)
where
    Model<K>: SerialIndex<K>,
{
    for before in 0..6u16 {
        for rounds in 1..8 {
            let others = (0..before).map(|i| Action::Insert(i * 10, 1));
            let round = [Action::Insert(25, 2), Action::Remove(25), Action::Upsert(25, 3)];
            let again = [Action::Update(25, 4), Action::Remove(25), Action::Reopen(false)];
            let cycle = round.into_iter().chain(again).cycle().take(rounds * 6 + 3);
            run::<K>(TINY, variant, &others.chain(cycle).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_key_is_put_removed_and_put_again_around_a_full_leaf() {
    VARIANTS.into_iter().for_each(one_key_comes_and_goes::<U64Keys>);
    one_key_comes_and_goes::<BytesKeys>(Variant::Serial);
}
