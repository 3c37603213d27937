//! A full pool: what needs no room is done, the rest is refused, and nothing is lost.

use everleaf_conformance::full::fill_up;
use everleaf_conformance::{dram_pool, full_disk_pool};
use everleaf_index::{BytesKeys, U64Keys};
use everleaf_tree::key::TestKey;

use super::{Parameters, TINY, Tested, VARIANTS, ascending, tested};

/// In a pool of its greatest size, and on a disk that is full; every key is updated as often as
/// fills its leaf more than once.
fn loses_nothing<K: TestKey>(tested: Tested) {
    for pool in [dram_pool::<K>(tested, 64 << 10), full_disk_pool::<K>(tested)] {
        let rounds = 2 * tested.parameters.leaf_slots;
        let filled = fill_up::<K>(tested, &pool, ascending::<K>, rounds);
        assert_eq!((filled.refused, filled.empty.leaves), (0, 0), "{tested:?}");
    }
}

#[test]
fn a_full_pool_refuses_insertions_only_and_loses_nothing() {
    for leaf_slots in [4, 32] {
        for variant in VARIANTS {
            let tested = tested(variant, Parameters { leaf_slots, ..TINY });
            loses_nothing::<U64Keys>(tested);
            loses_nothing::<BytesKeys>(tested);
        }
    }
}
