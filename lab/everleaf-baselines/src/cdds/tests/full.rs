//! A full pool: what needs no room is done, the rest is refused, and nothing is lost.

use everleaf_conformance::dram_pool;
use everleaf_conformance::full::fill_up;
use everleaf_index::U64Keys;
use everleaf_tree::key::TestKey;

use super::{Parameters, TINY};

#[test]
fn a_full_pool_refuses_insertions_only_and_loses_nothing() {
    for slots in [4, 32] {
        let parameters = Parameters { slots, ..TINY };
        let filled = fill_up(parameters, &dram_pool(parameters, 96 << 10), U64Keys::unique, 3);
        assert_eq!((filled.refused, filled.empty.leaves), (0, 0), "{slots} slots");
    }
}
