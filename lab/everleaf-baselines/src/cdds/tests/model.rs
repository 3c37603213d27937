//! The tree against the model, at random, with nodes of several sizes; opened again on the way.

use std::convert::identity;

use everleaf_conformance::model::{
    actions, ascending_and_descending, below_all_others, numbers, run,
};
use proptest::prelude::*;

use super::{Parameters, TINY};

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn it_does_what_the_model_does(
        actions in actions(numbers()),
        slots in prop::sample::select(&[4u64, 8, 16, 128][..]),
    ) {
        run(Parameters { slots, ..TINY }, identity, &actions);
    }
}

#[test]
fn ascending_and_descending_keys_make_and_unmake_all_levels() {
    ascending_and_descending().iter().for_each(|all| run(TINY, identity, all));
}

/// The first child of a node goes: what is less than the others belongs to the next one.
#[test]
fn keys_below_all_others_find_their_leaf_after_the_first_one_has_gone() {
    run(TINY, identity, &below_all_others(10_000));
}
