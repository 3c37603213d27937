//! A full pool: what needs no room is done, the rest is refused, and nothing is lost.

use everleaf_conformance::dram_pool;
use everleaf_conformance::full::fill_up;
use everleaf_index::U64Keys;
use everleaf_tree::key::TestKey;

use super::of_slots;

#[test]
fn a_full_pool_refuses_insertions_only_and_loses_nothing() {
    for tested in [8, 60].map(of_slots) {
        let pool = dram_pool::<U64Keys>(tested, 96 << 10);
        let filled = fill_up::<U64Keys>(tested, &pool, U64Keys::unique, 3);
        // The last leaf of each half stays.
        assert_eq!((filled.refused, filled.empty.leaves), (0, 2), "{tested:?}");
    }
}
