//! A full pool: what needs no room is done, the rest is refused, and nothing is lost.

use everleaf_conformance::dram_pool;
use everleaf_conformance::full::fill_up;
use everleaf_index::U64Keys;
use everleaf_tree::key::TestKey;

use super::{Parameters, TINY, Variant, Wb};

#[test]
fn a_full_pool_refuses_insertions_only_and_loses_nothing() {
    for (variant, leaf_slots) in
        [(Variant::Slot, 4), (Variant::Bitmap, 4), (Variant::Slot, 7), (Variant::Bitmap, 63)]
    {
        let tested = Wb(variant, Parameters { leaf_slots, ..TINY });
        let pool = dram_pool::<U64Keys>(tested, 96 << 10);
        let filled = fill_up::<U64Keys>(tested, &pool, U64Keys::unique, 3);
        assert_eq!((filled.refused, filled.empty.leaves), (0, 0), "{tested:?}");
    }
}
