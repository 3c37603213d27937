//! The tree against the model, at random, with every size of node and both kinds of keys; what is
//! closed, or not, and opened again.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use everleaf_crash::Dram;
use everleaf_index::{BytesKeys, Direction, Index, KeyKind, Model, SerialIndex, U64Keys};
use everleaf_pmem::{Cpu, Region};
use everleaf_pool::{KeyType, Pool, Shutdown};
use proptest::prelude::*;

use super::super::layout::SLOTS;
use super::super::{Variant, open};
use super::{assert_sound, format};
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

const VARIANTS: &[Variant] =
    &[Variant::CircTree, Variant::Linear, Variant::Array, Variant::FastFair];

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let key = prop_oneof![0..60u16, 0..1000u16, Just(u16::MAX)];
    let value = prop_oneof![Just(0u64), Just(u64::MAX), Just(7), any::<u64>()];
    let act = prop_oneof![
        6 => (key.clone(), value.clone()).prop_map(|(key, value)| Action::Insert(key, value)),
        2 => (key.clone(), value.clone()).prop_map(|(key, value)| Action::Update(key, value)),
        2 => (key.clone(), value).prop_map(|(key, value)| Action::Upsert(key, value)),
        6 => key.clone().prop_map(Action::Remove),
        1 => (key, any::<bool>(), any::<bool>())
            .prop_map(|(key, up, insert)| Action::Row(key, up, insert)),
        1 => any::<bool>().prop_map(Action::Reopen),
    ];
    proptest::collection::vec(act, 1..200)
}

fn entries<K: KeyKind>(
    scan: impl FnOnce(&mut everleaf_index::Visit<'_, K>),
) -> Vec<(K::Owned, u64)> {
    let mut entries = Vec::new();
    scan(&mut |key, value| {
        entries.push((K::to_owned(key), value[0]));
        ControlFlow::Continue(())
    });
    entries
}

fn compare<K: TestKey>(tree: &dyn Index<K>, model: &Model<K>)
where
    Model<K>: SerialIndex<K>,
{
    for direction in [Direction::Forward, Direction::Backward] {
        for from in [0, 30, 500].map(K::make) {
            for bound in [
                Bound::Unbounded,
                Bound::Included(K::borrow(&from)),
                Bound::Excluded(K::borrow(&from)),
            ] {
                let found = entries::<K>(|visit| tree.scan(bound, direction, visit).unwrap());
                assert_eq!(
                    found,
                    entries::<K>(|visit| model.scan(bound, direction, visit).unwrap())
                );
            }
        }
    }
}

fn run<K: TestKey>(slots: u64, variant: Variant, actions: &[Action])
where
    Model<K>: SerialIndex<K>,
{
    let media = Dram::new(Region::anonymous(64 << 10, 64 << 20).unwrap(), &Cpu::detect());
    let pool: Arc<Pool<Dram>> = Pool::create(media, &format(K::KEY_TYPE, slots)).unwrap();
    let mut tree = open::<K, _>(&pool, variant, Shutdown::Clean).unwrap();
    let mut model = Model::<K>::new();
    for act in actions {
        let (mut old, mut expected) = ([1], [1]);
        match *act {
            Action::Insert(key, value) => {
                let key = K::ascending(key);
                let done = tree.insert_words(K::borrow(&key), &[value]).unwrap();
                assert_eq!(done, model.insert_words(K::borrow(&key), &[value]).unwrap());
            }
            Action::Update(key, value) => {
                let key = K::ascending(key);
                let done = tree.update_words(K::borrow(&key), &[value], &mut old).unwrap();
                assert_eq!(
                    done,
                    model.update_words(K::borrow(&key), &[value], &mut expected).unwrap()
                );
            }
            Action::Upsert(key, value) => {
                let key = K::ascending(key);
                let done = tree.upsert_words(K::borrow(&key), &[value], &mut old).unwrap();
                assert_eq!(
                    done,
                    model.upsert_words(K::borrow(&key), &[value], &mut expected).unwrap()
                );
            }
            Action::Remove(key) => {
                let key = K::ascending(key);
                let done = tree.remove_words(K::borrow(&key), &mut old).unwrap();
                assert_eq!(done, model.remove_words(K::borrow(&key), &mut expected).unwrap());
            }
            Action::Row(start, up, insert) => (0..40u16).for_each(|i| {
                let key = K::ascending(if up {
                    start.saturating_add(i)
                } else {
                    start.saturating_sub(i)
                });
                let (found, right) = if insert {
                    (
                        tree.insert_words(K::borrow(&key), &[3]),
                        model.insert_words(K::borrow(&key), &[3]),
                    )
                } else {
                    (
                        tree.remove_words(K::borrow(&key), &mut old),
                        model.remove_words(K::borrow(&key), &mut expected),
                    )
                };
                assert_eq!(found.unwrap(), right.unwrap());
            }),
            Action::Reopen(clean) => {
                if clean {
                    tree.close().unwrap();
                }
                drop(tree);
                tree = open::<K, _>(
                    &pool,
                    variant,
                    if clean { Shutdown::Clean } else { Shutdown::Crash },
                )
                .unwrap();
            }
        }
        assert_eq!((old, tree.len()), (expected, model.len()));
    }
    compare(&*tree, &model);
    assert_sound(&pool, &*tree);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn it_does_what_the_model_does(
        actions in actions(),
        size in 0..SLOTS.len(),
        variant in prop::sample::select(VARIANTS),
        bytes: bool,
    ) {
        match bytes {
            true => run::<BytesKeys>(SLOTS[size], variant, &actions),
            false => run::<U64Keys>(SLOTS[size], variant, &actions),
        }
    }
}

#[test]
fn impossible_totals_are_an_error_and_no_overflow() {
    use super::super::layout::Anchor;
    use everleaf_index::IndexError;
    use everleaf_pmem::Media;

    let media = Dram::new(Region::anonymous(64 << 10, 64 << 10).unwrap(), &Cpu::detect());
    let pool: Arc<Pool<Dram>> = Pool::create(media, &format(KeyType::U64, 4)).unwrap();
    open::<U64Keys, _>(&pool, Variant::CircTree, Shutdown::Clean).unwrap().close().unwrap();
    let anchor = pool.index_root::<Anchor>().unwrap();
    for cell in [&anchor.keys, &anchor.leaves, &anchor.inner_nodes] {
        let right = pool.media().load(cell);
        pool.media().store(cell, u64::MAX - 1);
        let refused = open::<U64Keys, _>(&pool, Variant::CircTree, Shutdown::Clean).map(drop);
        assert!(matches!(refused, Err(IndexError::Corrupt { .. })), "{refused:?}");
        pool.media().store(cell, right);
    }
    assert!(open::<U64Keys, _>(&pool, Variant::CircTree, Shutdown::Clean).is_ok());
}

fn fill_up<K: TestKey>(slots: u64, variant: Variant) {
    let media = Dram::new(Region::anonymous(64 << 10, 64 << 10).unwrap(), &Cpu::detect());
    let pool: Arc<Pool<Dram>> = Pool::create(media, &format(K::KEY_TYPE, slots)).unwrap();
    let tree = open::<K, _>(&pool, variant, Shutdown::Clean).unwrap();
    let numbers: Vec<u16> = (0..4000u16).map(|i| i.wrapping_mul(40_503)).collect();
    let mut present = Vec::new();
    for number in &numbers {
        match tree.insert(K::borrow(&K::ascending(*number)), u64::from(*number)) {
            Ok(inserted) => assert!(inserted),
            Err(error) => {
                assert!(error.to_string().contains("full"), "{error}");
                break;
            }
        }
        present.push(*number);
    }
    assert!(present.len() < numbers.len(), "{slots} entries: it was to fill up");
    // Refused again and again, wherever the key belongs; nothing is lost, and nothing is kept.
    for number in &numbers[present.len()..][..200] {
        if tree.insert(K::borrow(&K::ascending(*number)), u64::from(*number)).is_ok() {
            present.push(*number);
        }
    }
    assert_sound(&pool, &*tree);
    for number in &present {
        assert_eq!(tree.get(K::borrow(&K::ascending(*number))).unwrap(), Some(u64::from(*number)));
    }
    for number in &present {
        assert_eq!(
            tree.remove(K::borrow(&K::ascending(*number))).unwrap(),
            Some(u64::from(*number)),
            "a merge needs no room"
        );
    }
    assert_sound(&pool, &*tree);
    assert_eq!((tree.len(), tree.statistics().height, tree.statistics().leaves), (0, 1, 1));
    assert!(tree.insert(K::borrow(&K::ascending(7)), 1).unwrap());
}

#[test]
fn a_full_pool_refuses_and_loses_nothing() {
    for slots in [4, 32, 256] {
        for variant in [Variant::CircTree, Variant::FastFair] {
            fill_up::<U64Keys>(slots, variant);
            fill_up::<BytesKeys>(slots, variant);
        }
    }
}
