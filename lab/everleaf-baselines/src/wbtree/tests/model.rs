//! The tree against the model, at random, with nodes of several sizes, both variants and both kinds
//! of keys; opened again on the way.

use std::convert::identity;

use everleaf_conformance::model::{
    actions, ascending_and_descending, below_all_others, numbers, run,
};
use everleaf_index::{BytesKeys, U64Keys};
use proptest::prelude::*;

use super::{BOTH, Parameters, TINY, Variant, Wb};

/// The empty key, and others of which some begin alike.
pub(super) fn string(number: u64) -> Box<[u8]> {
    if number == 0 { [].into() } else { format!("key {number}").into_bytes().into() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn it_does_what_the_model_does(
        actions in actions(numbers()),
        leaf_slots in prop::sample::select(&[4u64, 7, 8, 16, 63][..]),
        value_words in prop::sample::select(&[1, 1, 2, 14][..]),
        strings: bool,
    ) {
        let variant = if leaf_slots > 7 { Variant::Bitmap } else { BOTH[actions.len() % 2] };
        let tested = Wb(variant, Parameters { leaf_slots, value_words, ..TINY });
        match strings {
            false => run::<U64Keys>(tested, identity, &actions),
            true => run::<BytesKeys>(tested, string, &actions),
        }
    }
}

#[test]
fn ascending_and_descending_keys_make_and_unmake_all_levels() {
    for (variant, all) in
        BOTH.into_iter().flat_map(|variant| ascending_and_descending().map(|all| (variant, all)))
    {
        run::<U64Keys>(Wb(variant, TINY), identity, &all);
        run::<BytesKeys>(Wb(variant, TINY), string, &all[..all.len() / 4]);
    }
}

/// The first child of a node goes: what is less than the others belongs to the next one.
#[test]
fn keys_below_all_others_find_their_leaf_after_the_first_one_has_gone() {
    for variant in BOTH {
        run::<U64Keys>(Wb(variant, TINY), identity, &below_all_others(10_000));
        run::<BytesKeys>(Wb(variant, TINY), string, &below_all_others(10_000));
    }
}
