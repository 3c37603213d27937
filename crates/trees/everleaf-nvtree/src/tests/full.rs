//! A full pool: what needs no room is done, the rest is refused, and nothing is lost.

use std::sync::Arc;

use everleaf_crash::Dram;
use everleaf_index::{BytesKeys, U64Keys};
use everleaf_pool::Pool;

use super::{Parameters, TINY, VARIANTS, Variant};
use super::{assert_sound, dram_pool, full_disk_pool, opened};
use everleaf_tree::key::TestKey;

/// In a pool of its greatest size, and on a disk that is full.
fn fill_up<K: TestKey>(parameters: Parameters, variant: Variant) {
    fill_up_pool::<K>(parameters, variant, &dram_pool::<K>(parameters, 64 << 10));
    fill_up_pool::<K>(parameters, variant, &full_disk_pool::<K>(parameters));
}

fn fill_up_pool<K: TestKey>(parameters: Parameters, variant: Variant, pool: &Arc<Pool<Dram>>) {
    let tree = opened::<K, _>(pool, variant);
    let numbers: Vec<u16> = (0..6000u16).map(|i| i.wrapping_mul(40_503)).collect();
    let mut present = Vec::new();
    for number in &numbers {
        match tree.insert(K::borrow(&K::ascending(*number)), u64::from(*number)) {
            Ok(inserted) => assert!(inserted),
            Err(error) => {
                assert!(error.to_string().contains("full"), "{error}");
                break;
            }
        }
        present.push(*number);
    }
    assert!(present.len() < numbers.len(), "{parameters:?}: it was to fill up");
    for number in &numbers[present.len()..][..200] {
        if tree.insert(K::borrow(&K::ascending(*number)), u64::from(*number)).is_ok() {
            present.push(*number);
        }
    }
    assert_sound(pool, &*tree);
    // Every key as often as fills its leaf more than once.
    for round in 0..2 * parameters.leaf_slots {
        for number in &present {
            let old = tree.update(K::borrow(&K::ascending(*number)), round).unwrap();
            assert_eq!(old, Some(if round == 0 { u64::from(*number) } else { round - 1 }));
        }
    }
    assert_sound(pool, &*tree);
    for number in &present {
        let old = tree.remove(K::borrow(&K::ascending(*number))).unwrap();
        assert_eq!(old, Some(2 * parameters.leaf_slots - 1));
    }
    assert_sound(pool, &*tree);
    assert_eq!((tree.len(), tree.statistics().leaves), (0, 0));
    assert!(tree.insert(K::borrow(&K::ascending(7)), 1).unwrap());
}

#[test]
fn a_full_pool_refuses_insertions_only_and_loses_nothing() {
    for leaf_slots in [4, 32] {
        for variant in VARIANTS {
            fill_up::<U64Keys>(Parameters { leaf_slots, ..TINY }, variant);
            fill_up::<BytesKeys>(Parameters { leaf_slots, ..TINY }, variant);
        }
    }
}
