//! The tree against the model, at random, with nodes of several sizes; opened again on the way.

use std::convert::identity;

use everleaf_conformance::model::{
    Action, NoSteps, actions, ascending_and_descending, below_all_others, numbers, run,
};
use everleaf_conformance::{dram_pool, opened};
use everleaf_index::U64Keys;
use proptest::prelude::*;

use super::{TINY, of_slots};

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn it_does_what_the_model_does(
        actions in actions(prop_oneof![3 => numbers(), 1 => (1 << 63) - 20..(1u64 << 63) + 20]),
        leaf_slots in prop::sample::select(&[8u64, 24, 60][..]),
    ) {
        run::<U64Keys>(of_slots(leaf_slots), identity, &actions);
    }
}

/// The model makes the changes of a batch one by one if a tree does not take them.
#[test]
fn a_batch_is_taken() {
    let tree = opened::<U64Keys>(TINY, &dram_pool::<U64Keys>(TINY, 1 << 20));
    assert!(tree.link_all(&[(1, Some(2)), (3, None)], &mut NoSteps).unwrap());
    assert_eq!((tree.get(1).unwrap(), tree.len()), (Some(2), 1));
}

#[test]
fn ascending_and_descending_keys_make_and_unmake_all_levels() {
    ascending_and_descending().iter().for_each(|all| run::<U64Keys>(TINY, identity, all));
}

/// Leaves are taken over by their right neighbours, the first one too.
#[test]
fn keys_below_all_others_find_their_leaf_after_the_first_one_has_gone() {
    [0, 1 << 63]
        .into_iter()
        .for_each(|half| run::<U64Keys>(TINY, identity, &below_all_others(half + 10_000)));
}

/// Every key word is legal, and every value.
#[test]
fn keys_at_the_ends_of_both_halves_are_told_apart() {
    let ends = [0, 1, (1 << 63) - 1, 1 << 63, (1 << 63) + 1, u64::MAX - 1, u64::MAX];
    let insertions = ends.map(|key| Action::Insert(key, !key));
    run::<U64Keys>(TINY, identity, &insertions);
    let removals = ends.map(Action::Remove);
    run::<U64Keys>(TINY, identity, &[insertions.clone(), removals, insertions].concat());
}
