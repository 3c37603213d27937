//! Opening does not follow the tree: it costs as much in a large tree as in a small one.

use everleaf_conformance::counting::counted;
use everleaf_conformance::{assert_sound, opened};
use everleaf_index::U64Keys;

use super::{BOTH, Parameters, TINY, Variant, Wb};

/// Lines that are read when a tree of so many keys is opened.
fn lines_read(variant: Variant, keys: u64) -> u64 {
    let parameters = Parameters { leaf_slots: 7, group_bytes: 16 << 20, ..TINY };
    let (pool, tree) = counted::<U64Keys>(Wb(variant, parameters));
    assert!((0..keys).all(|key| tree.insert(key * 7 % 100_003, key).unwrap()));
    drop(tree);
    pool.media().reset();
    let tree = opened::<U64Keys>(Wb(variant, parameters), &pool);
    let counts = pool.media().counts();
    assert_eq!((tree.len(), tree.statistics().keys), (keys, keys));
    assert!(tree.insert(200_000, 1).unwrap() && tree.len() == keys + 1);
    assert_sound(&pool, &*tree);
    counts.pm_lines_read
}

#[test]
fn opening_reads_as_much_of_a_large_tree_as_of_a_small_one() {
    for variant in BOTH {
        let (small, large) = (lines_read(variant, 1000), lines_read(variant, 50_000));
        assert!(small.abs_diff(large) <= 4 && large < 40, "{variant:?}: {small} and {large}");
    }
}
