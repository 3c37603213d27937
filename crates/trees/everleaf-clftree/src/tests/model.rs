//! The tree against the model, at random, with sizes of every kind and both kinds of keys; what is
//! closed, or not, and opened again.

use everleaf_conformance::model::{self, Action, actions, ascending_and_descending, numbers};
use everleaf_conformance::{TestedTree, assert_sound, dram_pool, opened};
use everleaf_index::{BytesKeys, U64Keys};
use everleaf_pmem::{Cpu, Mapped, Region};
use everleaf_pool::Pool;
use everleaf_tree::key::TestKey;
use proptest::prelude::*;

use super::{ENCODED, ENCODED_SHADOW, SHADOW, TINY, Tested, ascending};

/// With inner nodes that are written at once, and by the log.
fn run<K: TestKey>(tested: Tested, actions: &[Action]) {
    model::run::<K>(tested, ascending::<K>, actions);
    // Of a media that promises words and no lines.
    let region = Region::anonymous(64 << 10, 64 << 20).unwrap();
    let media = Mapped::new(region, &Cpu::detect()).unwrap();
    let pool = Pool::create(media, &TestedTree::<K>::format(tested)).unwrap();
    model::run_on::<K>(tested, pool, ascending::<K>, actions);
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
        actions in actions(numbers()),
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
        actions in actions(numbers()),
        paper_order: bool,
        shadow: bool,
    ) {
        let tested = if shadow { ENCODED_SHADOW } else { ENCODED };
        run::<U64Keys>(Tested { paper_order, ..tested }, &actions);
    }
}

#[test]
fn ascending_and_descending_keys_make_and_unmake_all_levels() {
    for all in ascending_and_descending() {
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
    let tree = opened::<U64Keys>(ENCODED, &pool);
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
