//! A full pool: what needs no room is done, the rest is refused, and nothing is lost.

use everleaf_conformance::full::fill_up;
use everleaf_conformance::{dram_pool, full_disk_pool};
use everleaf_index::{BytesKeys, U64Keys};
use everleaf_tree::key::TestKey;

use super::{ENCODED, ENCODED_SHADOW, SHADOW, TINY, Tested, ascending};

/// In a pool of its greatest size, and on a disk that is full.
fn loses_nothing<K: TestKey>(tested: Tested) {
    for pool in [dram_pool::<K>(tested, 64 << 10), full_disk_pool::<K>(tested)] {
        let filled = fill_up::<K>(tested, &pool, ascending::<K>, 2);
        // A value that an encoded leaf has no room for is refused.
        let encoded = [ENCODED, ENCODED_SHADOW].contains(&tested);
        assert!(encoded || filled.refused == 0, "{tested:?}: {} refused", filled.refused);
        assert_eq!(filled.empty.leaves, 0);
    }
}

#[test]
fn a_full_pool_refuses_insertions_only_and_loses_nothing() {
    loses_nothing::<U64Keys>(ENCODED);
    loses_nothing::<U64Keys>(ENCODED_SHADOW);
    for leaf_slots in [3, 31] {
        for variant in [TINY, SHADOW] {
            loses_nothing::<U64Keys>(Tested { leaf_slots, ..variant });
            loses_nothing::<BytesKeys>(Tested { leaf_slots, ..variant });
        }
    }
}
