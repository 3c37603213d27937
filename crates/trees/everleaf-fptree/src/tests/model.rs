//! Random operations, compared with the model after each.

use std::ops::Bound;

use everleaf_conformance::full::fill_up;
use everleaf_conformance::model::{Action, Left, run, run_on};
use everleaf_conformance::{assert_sound, dram_pool, opened, scanned};
use everleaf_index::{BytesKeys, Direction, U64Keys};
use everleaf_pool::Shutdown;
use everleaf_tree::key::TestKey;
use proptest::prelude::*;

use super::{Parameters, TINY, Tested, VARIANTS, Variant, offer};
use crate::{Opening, open_with};

fn actions(keys: u64, max: usize) -> impl Strategy<Value = Vec<Action>> {
    let key = move || 0..keys;
    let left = prop::sample::select(&[Left::Crashed, Left::Closed, Left::Sealed]);
    let action = prop_oneof![
        12 => (key(), any::<u64>()).prop_map(|(k, v)| Action::Insert(k, v)),
        3 => (key(), any::<u64>()).prop_map(|(k, v)| Action::Update(k, v)),
        3 => (key(), any::<u64>()).prop_map(|(k, v)| Action::Upsert(k, v)),
        6 => key().prop_map(Action::Remove),
        3 => prop::collection::vec(key(), 0..40).prop_map(Action::Find),
        2 => (key(), 0..3u8, any::<bool>(), 1..80usize)
            .prop_map(|(from, bound, forward, limit)| Action::Scan { from, bound, forward, limit }),
        1 => (key(), 0..keys / 2).prop_map(|(start, count)| {
            Action::Row { start, count, up: true, insert: false }
        }),
        1 => left.prop_map(Action::Reopen),
    ];
    prop::collection::vec(action, 1..max)
}

fn run_all<K: TestKey>(parameters: Parameters, actions: &[Action]) {
    VARIANTS
        .into_iter()
        .for_each(|variant| run::<K>(Tested(variant, parameters), K::make, actions));
}

/// On memory that grows only.
fn run_growing<K: TestKey>(variant: Variant, parameters: Parameters, actions: &[Action]) {
    let tested = Tested(variant, parameters);
    run_on::<K>(tested, dram_pool::<K>(tested, 64 << 20), K::make, actions);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn u64_keys_in_tiny_nodes_behave_as_the_model(actions in actions(120, 300)) {
        run_all::<U64Keys>(TINY, &actions);
    }

    #[test]
    fn byte_keys_in_tiny_nodes_behave_as_the_model(actions in actions(120, 300)) {
        run_all::<BytesKeys>(TINY, &actions);
    }

    #[test]
    fn wide_values_behave_as_the_model(words in 2..=14u64, actions in actions(60, 150)) {
        let parameters = Parameters { value_words: words, ..TINY };
        run_all::<U64Keys>(parameters, &actions);
        run_all::<BytesKeys>(parameters, &actions);
    }

    #[test]
    fn every_offered_size_behaves_as_the_model(
        slots in prop::sample::select(vec![4u64, 8, 16, 32, 48, 56]),
        inner_keys in prop::sample::select(vec![4u64, 32, 64, 128, 4096]),
        value_words in 1..3u64,
        actions in actions(600, 1500),
    ) {
        let group_bytes = 8192;
        let parameters = Parameters { leaf_slots: slots, inner_keys, value_words, group_bytes };
        for variant in VARIANTS {
            run_growing::<U64Keys>(variant, parameters, &actions);
            run_growing::<BytesKeys>(variant, parameters, &actions);
        }
    }
}

/// Keys of one order through the default sizes: splits at the edges, leaves emptied from both ends.
#[test]
fn ascending_and_descending_keys_come_and_go() {
    for variant in VARIANTS {
        let parameters = Parameters { group_bytes: 4096, ..offer(variant).tuned };
        for (ascending_in, ascending_out) in
            [(true, true), (true, false), (false, true), (false, false)]
        {
            let tested = Tested(variant, parameters);
            let pool = dram_pool::<U64Keys>(tested, 64 << 20);
            let tree = opened::<U64Keys>(tested, &pool);
            let order = |ascending: bool, i: u64| if ascending { i } else { 19_999 - i };
            for i in 0..20_000 {
                assert!(tree.insert(order(ascending_in, i), i).unwrap());
            }
            assert_sound(&pool, &*tree);
            let filled = 20_000 / (parameters.leaf_slots - 2);
            assert!(
                !ascending_in || tree.statistics().leaves <= filled,
                "ascending keys fill their leaves"
            );
            let full = pool.space().unwrap().used_bytes;
            for i in 0..20_000 {
                assert!(tree.remove(order(ascending_out, i)).unwrap().is_some());
            }
            assert!(tree.is_empty());
            assert_sound(&pool, &*tree);
            assert!(
                pool.space().unwrap().used_bytes < full / 2,
                "emptied groups go back to the pool"
            );
        }
    }
}

const SERIAL: Tested = Tested(Variant::FpTree, TINY);

/// However many threads look at the leaves, most of which have bounds that begin alike.
fn opened_by_threads<K: TestKey>(keys: u64) {
    let pool = dram_pool::<K>(SERIAL, 1 << 24);
    let tree = opened::<K>(SERIAL, &pool);
    for number in 0..keys {
        tree.insert_words(K::borrow(&K::make(number * 7919 % keys)), &[number]).unwrap();
    }
    for number in keys / 4..keys / 2 {
        tree.remove(K::borrow(&K::make(number))).unwrap();
    }
    let entries = scanned(&*tree, Bound::Unbounded, Direction::Forward, usize::MAX).unwrap();
    drop(tree);
    for threads in [1, 2, 3, 16] {
        let opening = Opening { threads: Some(threads), ..Shutdown::Crash.into() };
        let tree = open_with::<K, _>(&pool, Variant::FpTree, opening).unwrap();
        assert_eq!(
            scanned(&*tree, Bound::Unbounded, Direction::Forward, usize::MAX).unwrap(),
            entries,
            "{threads} threads"
        );
        assert_sound(&pool, &*tree);
    }
}

#[test]
fn any_number_of_threads_finds_the_same_tree() {
    opened_by_threads::<U64Keys>(999);
    opened_by_threads::<BytesKeys>(1600);
    opened_by_threads::<U64Keys>(0);
    opened_by_threads::<BytesKeys>(1);
}

#[test]
fn refused_calls_change_nothing() {
    let tested = Tested(Variant::FpTree, Parameters { value_words: 2, ..TINY });
    let pool = dram_pool::<BytesKeys>(tested, 1 << 20);
    let tree = opened::<BytesKeys>(tested, &pool);
    let mut old = [0; 2];
    let long = vec![0; everleaf_index::MAX_KEY_BYTES + 1];
    assert!(tree.insert_words(&long, &[1, 2]).is_err());
    assert!(tree.upsert_words(&long, &[1, 2], &mut old).is_err());
    assert!(tree.insert_words(b"a", &[1]).is_err());
    assert!(tree.insert_words(b"a", &[1, 2]).unwrap());
    assert!(!tree.insert_words(b"a", &[3, 4]).unwrap());
    assert!(tree.update_words(b"a", &[3, 4, 5], &mut old).is_err());
    assert!(tree.update_words(b"a", &[3, 4], &mut old[..1]).is_err());
    assert!(tree.remove_words(b"a", &mut []).is_err());
    assert!(tree.get_words(b"a", &mut [0; 3]).is_err());
    assert!(tree.get_words(b"a", &mut old).unwrap());
    assert_eq!((old, tree.len()), ([1, 2], 1));
    assert_sound(&pool, &*tree);
}

/// A full pool refuses what needs memory; everything else goes on, and removals make room again.
#[test]
fn a_full_pool_refuses_and_stays_usable() {
    fn loses_nothing<K: TestKey>(variant: Variant) {
        let tested = Tested(variant, TINY);
        let pool = dram_pool::<K>(tested, 64 << 10);
        let filled = fill_up::<K>(tested, &pool, |number| K::make(number + 1000), 2);
        assert_eq!((filled.refused, filled.empty.leaves), (0, 0), "{tested:?}");
    }
    for variant in VARIANTS {
        loses_nothing::<U64Keys>(variant);
        loses_nothing::<BytesKeys>(variant);
    }
}
