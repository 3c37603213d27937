//! The tree against the model, at random, with every size of node and both kinds of keys; what is
//! closed, or not, and opened again.

use everleaf_conformance::dram_pool;
use everleaf_conformance::full::fill_up;
use everleaf_conformance::model::{actions, numbers, run};
use everleaf_index::{BytesKeys, IndexError, U64Keys};
use everleaf_pmem::Media;
use everleaf_pool::Shutdown;
use everleaf_tree::key::TestKey;
use proptest::prelude::*;

use super::super::layout::{Anchor, SLOTS};
use super::{Tested, Variant, ascending, open};

const VARIANTS: &[Variant] =
    &[Variant::CircTree, Variant::Linear, Variant::Array, Variant::FastFair];

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn it_does_what_the_model_does(
        actions in actions(prop_oneof![0..60u64, numbers()]),
        size in 0..SLOTS.len(),
        variant in prop::sample::select(VARIANTS),
        bytes: bool,
    ) {
        let tested = Tested(variant, SLOTS[size]);
        match bytes {
            true => run::<BytesKeys>(tested, ascending::<BytesKeys>, &actions),
            false => run::<U64Keys>(tested, ascending::<U64Keys>, &actions),
        }
    }
}

#[test]
fn impossible_totals_are_an_error_and_no_overflow() {
    let pool = dram_pool::<U64Keys>(Tested(Variant::CircTree, 4), 64 << 10);
    let opened = || open::<U64Keys, _>(&pool, Variant::CircTree, Shutdown::Clean);
    opened().unwrap().close().unwrap();
    let anchor = pool.index_root::<Anchor>().unwrap();
    for cell in [&anchor.keys, &anchor.leaves, &anchor.inner_nodes] {
        let right = pool.media().load(cell);
        pool.media().store(cell, u64::MAX - 1);
        let refused = opened().map(drop);
        assert!(matches!(refused, Err(IndexError::Corrupt { .. })), "{refused:?}");
        pool.media().store(cell, right);
    }
    assert!(opened().is_ok());
}

/// Of merges none needs room.
fn loses_nothing<K: TestKey>(tested: Tested) {
    let filled = fill_up::<K>(tested, &dram_pool::<K>(tested, 64 << 10), ascending::<K>, 2);
    let shape = (filled.empty.height, filled.empty.leaves);
    assert_eq!((filled.refused, shape), (0, (1, 1)), "{tested:?}");
}

#[test]
fn a_full_pool_refuses_and_loses_nothing() {
    for slots in [4, 32, 256] {
        for variant in [Variant::CircTree, Variant::FastFair] {
            loses_nothing::<U64Keys>(Tested(variant, slots));
            loses_nothing::<BytesKeys>(Tested(variant, slots));
        }
    }
}
