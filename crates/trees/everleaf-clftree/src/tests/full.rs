//! A full pool: what needs no room is done, the rest is refused, and nothing is lost.

use std::sync::Arc;

use everleaf_crash::Dram;
use everleaf_index::{BytesKeys, U64Keys};
use everleaf_pool::Pool;

use super::{ENCODED, ENCODED_SHADOW, SHADOW, TINY, Tested};
use super::{assert_sound, dram_pool, full_disk_pool, opened};
use everleaf_tree::key::TestKey;

/// In a pool of its greatest size, and on a disk that is full.
fn fill_up<K: TestKey>(parameters: Tested) {
    fill_up_pool::<K>(parameters, &dram_pool::<K>(parameters, 64 << 10));
    fill_up_pool::<K>(parameters, &full_disk_pool::<K>(parameters));
}

fn fill_up_pool<K: TestKey>(parameters: Tested, pool: &Arc<Pool<Dram>>) {
    let tree = opened::<K, _>(pool);
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
    // Every key more than once. A value that an encoded leaf has no room for is refused.
    let mut values: Vec<u64> = present.iter().map(|number| u64::from(*number)).collect();
    for round in 0..2 {
        for (number, value) in present.iter().zip(&mut values) {
            match tree.update(K::borrow(&K::ascending(*number)), round) {
                Ok(old) => assert_eq!(old, Some(std::mem::replace(value, round))),
                Err(error) => {
                    let encoded = [ENCODED, ENCODED_SHADOW].contains(&parameters);
                    assert!(encoded && error.to_string().contains("full"), "{error}");
                }
            }
        }
    }
    assert_sound(pool, &*tree);
    for (number, value) in present.iter().zip(values) {
        let old = tree.remove(K::borrow(&K::ascending(*number))).unwrap();
        assert_eq!(old, Some(value));
    }
    assert_sound(pool, &*tree);
    assert_eq!((tree.len(), tree.statistics().leaves), (0, 0));
    assert!(tree.insert(K::borrow(&K::ascending(7)), 1).unwrap());
}

#[test]
fn a_full_pool_refuses_insertions_only_and_loses_nothing() {
    fill_up::<U64Keys>(ENCODED);
    fill_up::<U64Keys>(ENCODED_SHADOW);
    for leaf_slots in [3, 31] {
        for variant in [TINY, SHADOW] {
            fill_up::<U64Keys>(Tested { leaf_slots, ..variant });
            fill_up::<BytesKeys>(Tested { leaf_slots, ..variant });
        }
    }
}
