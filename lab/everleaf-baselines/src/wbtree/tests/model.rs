//! The tree against the model, at random, with nodes of several sizes, both variants and both kinds
//! of keys; opened again on the way.

use std::ops::{Bound, ControlFlow};

use everleaf_index::{BytesKeys, Direction, Index, Model, SerialIndex, U64Keys, Visit};
use proptest::prelude::*;

use super::{BOTH, Parameters, TINY, Variant, assert_sound, dram_pool, opened};
use everleaf_tree::key::TreeKey;

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

/// How numbers are keys of a kind.
trait Keyed: TreeKey {
    fn keyed<T>(number: u64, see: impl FnOnce(Self::Ref<'_>) -> T) -> T;
}
impl Keyed for U64Keys {
    fn keyed<T>(number: u64, see: impl FnOnce(u64) -> T) -> T {
        see(number)
    }
}
impl Keyed for BytesKeys {
    /// The empty key, and others of which some begin alike.
    fn keyed<T>(number: u64, see: impl FnOnce(&[u8]) -> T) -> T {
        if number == 0 { see(&[]) } else { see(format!("key {number}").as_bytes()) }
    }
}

fn entries<K: TreeKey>(scan: impl FnOnce(&mut Visit<'_, K>)) -> Vec<(K::Owned, Vec<u64>)> {
    let mut entries = Vec::new();
    scan(&mut |key, value| {
        entries.push((K::to_owned(key), value.to_vec()));
        ControlFlow::Continue(())
    });
    entries
}

fn compare<K: Keyed, const WORDS: usize>(tree: &dyn Index<K>, model: &Model<K, WORDS>)
where
    K::Owned: PartialEq + std::fmt::Debug,
{
    for direction in [Direction::Forward, Direction::Backward] {
        let scans = |bound: Bound<K::Ref<'_>>| {
            let found = entries::<K>(|visit| tree.scan(bound, direction, visit).unwrap());
            let right = entries::<K>(|visit| model.scan(bound, direction, visit).unwrap());
            assert_eq!(found, right, "{direction:?}");
        };
        scans(Bound::Unbounded);
        for from in [0, 7, 500, 1000, u64::MAX] {
            K::keyed(from, |key| scans(Bound::Included(key)));
            K::keyed(from, |key| scans(Bound::Excluded(key)));
        }
    }
    for number in 0..1000 {
        let (mut value, mut right) = ([1; WORDS], [1; WORDS]);
        let found = K::keyed(number, |key| tree.get_words(key, &mut value).unwrap());
        assert_eq!(found, K::keyed(number, |key| model.get_words(key, &mut right).unwrap()));
        assert_eq!(value, right);
    }
}

fn run<K: Keyed, const WORDS: usize>(variant: Variant, leaf_slots: u64, actions: &[Action])
where
    K::Owned: PartialEq + std::fmt::Debug,
{
    let parameters = Parameters { leaf_slots, value_words: WORDS as u64, ..TINY };
    let pool = dram_pool::<K>(variant, parameters, 64 << 20);
    let mut tree = opened::<K, _>(&pool, variant);
    let mut model = Model::<K, WORDS>::new();
    let wide = |value: u64| -> [u64; WORDS] { std::array::from_fn(|i| value ^ i as u64) };
    for action in actions {
        let (mut old, mut expected) = ([1; WORDS], [1; WORDS]);
        let row = |start: u64, up: bool| {
            (0..40).map(move |i| if up { start.saturating_add(i) } else { start.saturating_sub(i) })
        };
        let mut insert = |number: u64, value: u64| {
            K::keyed(number, |key| {
                let done = tree.insert_words(key, &wide(value)).unwrap();
                assert_eq!(done, model.insert_words(key, &wide(value)).unwrap());
            });
        };
        match *action {
            Action::Insert(number, value) => insert(number, value),
            Action::Row(start, up, true) => row(start, up).for_each(|number| insert(number, 3)),
            Action::Row(start, up, false) => row(start, up).for_each(|number| {
                K::keyed(number, |key| {
                    let done = tree.remove_words(key, &mut old).unwrap();
                    assert_eq!(done, model.remove_words(key, &mut expected).unwrap());
                });
            }),
            Action::Update(number, value) => K::keyed(number, |key| {
                let done = tree.update_words(key, &wide(value), &mut old).unwrap();
                let right = model.update_words(key, &wide(value), &mut expected).unwrap();
                assert_eq!(done, right);
            }),
            Action::Upsert(number, value) => K::keyed(number, |key| {
                let done = tree.upsert_words(key, &wide(value), &mut old).unwrap();
                let right = model.upsert_words(key, &wide(value), &mut expected).unwrap();
                assert_eq!(done, right);
            }),
            Action::Remove(number) => K::keyed(number, |key| {
                let done = tree.remove_words(key, &mut old).unwrap();
                assert_eq!(done, model.remove_words(key, &mut expected).unwrap());
            }),
            Action::Reopen => {
                drop(tree);
                tree = opened(&pool, variant);
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
        slots in prop::sample::select(&[4u64, 7, 8, 16, 63][..]),
        value_words in prop::sample::select(&[1, 1, 2, 14][..]),
        strings: bool,
    ) {
        let variant = if slots > 7 { Variant::Bitmap } else { BOTH[actions.len() % 2] };
        match (strings, value_words) {
            (false, 1) => run::<U64Keys, 1>(variant, slots, &actions),
            (false, 2) => run::<U64Keys, 2>(variant, slots, &actions),
            (false, _) => run::<U64Keys, 14>(variant, slots, &actions),
            (true, 1) => run::<BytesKeys, 1>(variant, slots, &actions),
            (true, _) => run::<BytesKeys, 2>(variant, slots, &actions),
        }
    }
}

#[test]
fn ascending_and_descending_keys_make_and_unmake_all_levels() {
    for (variant, down) in BOTH.into_iter().flat_map(|variant| [(variant, false), (variant, true)])
    {
        let number = |i: u64| if down { 5000 - i } else { i };
        let insertions = (0..5000).map(|i| Action::Insert(number(i), i));
        let removals = (0..=5000).map(|i| Action::Remove(number(i * 7 % 5001)));
        let all: Vec<Action> = insertions.chain(removals).collect();
        run::<U64Keys, 1>(variant, 4, &all);
        run::<BytesKeys, 1>(variant, 4, &all[..all.len() / 4]);
    }
}

/// The first child of a node goes: what is less than the others belongs to the next one.
#[test]
fn keys_below_all_others_find_their_leaf_after_the_first_one_has_gone() {
    let insertions = (0..200).map(|i| Action::Insert(10_000 + i * 10, i));
    let removals = (0..60).map(|i| Action::Remove(10_000 + i * 10));
    let below = (0..200).map(|i| Action::Insert(10_200 - i, i));
    let all: Vec<Action> = insertions.chain(removals).chain(below).collect();
    for variant in BOTH {
        run::<U64Keys, 1>(variant, 4, &all);
        run::<BytesKeys, 1>(variant, 4, &all);
    }
}
