//! The tree against the model, at random, with sizes of every kind and both kinds of keys; what is
//! closed, or not, and opened again.

use everleaf_conformance::model::{Action, Left, actions, numbers, run};
use everleaf_index::{BytesKeys, U64Keys};
use everleaf_tree::key::TestKey;
use proptest::prelude::*;

use super::{Parameters, TINY, VARIANTS, Variant, ascending, tested};

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
        actions in actions(numbers()),
        size in prop::sample::select(SIZES),
        bytes: bool,
        variant in prop::sample::select(&VARIANTS),
    ) {
        match bytes {
            true => run::<BytesKeys>(tested(variant, size), ascending::<BytesKeys>, &actions),
            false => run::<U64Keys>(tested(variant, size), ascending::<U64Keys>, &actions),
        }
    }
}

/// One key put, removed and put again, around the moment at which its leaf is full.
fn one_key_comes_and_goes<K: TestKey>(variant: Variant) {
    for before in 0..6 {
        for rounds in 1..8 {
            let others = (0..before).map(|i| Action::Insert(i * 10, 1));
            let round = [Action::Insert(25, 2), Action::Remove(25), Action::Upsert(25, 3)];
            let crash = Action::Reopen(Left::Crashed);
            let again = [Action::Update(25, 4), Action::Remove(25), crash];
            let cycle = [round, again].concat().into_iter().cycle().take(rounds * 6 + 3);
            let actions: Vec<Action> = others.chain(cycle).collect();
            run::<K>(tested(variant, TINY), ascending::<K>, &actions);
        }
    }
}

#[test]
fn a_key_is_put_removed_and_put_again_around_a_full_leaf() {
    VARIANTS.into_iter().for_each(one_key_comes_and_goes::<U64Keys>);
    one_key_comes_and_goes::<BytesKeys>(Variant::Serial);
}
