//! The tree against the model, at random, with nodes of several sizes and both kinds of log; opened
//! again on the way.

use std::convert::identity;

use everleaf_conformance::model::{
    actions, ascending_and_descending, below_all_others, numbers, run,
};
use proptest::prelude::*;

use super::{BOTH, Parameters, TINY};

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn it_does_what_the_model_does(
        actions in actions(numbers()),
        slots in prop::sample::select(&[4u64, 8, 21, 170][..]),
        logging in prop::sample::select(&BOTH),
    ) {
        run(Parameters { slots, logging, ..TINY }, identity, &actions);
    }
}

#[test]
fn ascending_and_descending_keys_make_and_unmake_all_levels() {
    for (all, logging) in
        ascending_and_descending().iter().flat_map(|one| BOTH.map(|log| (one, log)))
    {
        run(Parameters { logging, ..TINY }, identity, all);
    }
}

/// The first child of a node goes: what is less than the others belongs to the next one.
#[test]
fn keys_below_all_others_find_their_leaf_after_the_first_one_has_gone() {
    BOTH.into_iter().for_each(|logging| {
        run(Parameters { logging, ..TINY }, identity, &below_all_others(10_000))
    });
}
