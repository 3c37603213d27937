//! Keys around the ends of slices, very long keys, full pools, memory that comes back.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use everleaf_index::{BytesKeys, Direction, Index, IndexError, MAX_KEY_BYTES, U64Keys};
use everleaf_pool::PoolError;

use super::super::create;
use super::{FULL, SIZES, assert_sound, pool};

fn keys_of(tree: &dyn Index<BytesKeys>, direction: Direction) -> Vec<Box<[u8]>> {
    let mut keys = Vec::new();
    tree.scan(Bound::Unbounded, direction, &mut |key, _| {
        keys.push(key.into());
        ControlFlow::Continue(())
    })
    .unwrap();
    keys
}

#[test]
fn keys_of_every_length_across_slices_are_told_apart() {
    for parameters in SIZES {
        let pool = pool(parameters, 64 << 20);
        let tree = create::<BytesKeys, _>(&pool).unwrap();
        let mut expected = BTreeMap::new();
        for byte in [0u8, 1, 127, 128, 255] {
            for length in 0..=34usize {
                for last in [0u8, byte, 255] {
                    let mut key = vec![byte; length];
                    key.extend([last; 1]);
                    key.truncate(length);
                    if let Some(end) = key.last_mut() {
                        *end = last;
                    }
                    let value = u64::from(byte) << 32 | length as u64 | u64::from(last) << 48;
                    let old = tree.upsert(&key, value).unwrap();
                    assert_eq!(old, expected.insert(key.clone(), value), "{key:?}");
                }
            }
        }
        assert_sound(&pool, &*tree);
        let sorted: Vec<Box<[u8]>> = expected.keys().map(|key| key.as_slice().into()).collect();
        assert_eq!(keys_of(&*tree, Direction::Forward), sorted);
        let reversed: Vec<Box<[u8]>> = sorted.iter().rev().cloned().collect();
        assert_eq!(keys_of(&*tree, Direction::Backward), reversed);
        for (key, value) in &expected {
            assert_eq!(tree.get(key).unwrap(), Some(*value), "{key:?}");
            assert_eq!(tree.remove(key).unwrap(), Some(*value), "{key:?}");
            assert_eq!(tree.get(key).unwrap(), None, "{key:?}");
        }
        assert_sound(&pool, &*tree);
    }
}

#[test]
fn the_longest_keys_that_differ_in_their_last_byte_need_no_stack() {
    let pool = pool(FULL, 256 << 20);
    let tree = create::<BytesKeys, _>(&pool).unwrap();
    let key = |last: u8| {
        let mut key = vec![b'x'; MAX_KEY_BYTES];
        key[MAX_KEY_BYTES - 1] = last;
        key
    };
    let run = || {
        for last in [9, 1, 200] {
            assert!(tree.insert(&key(last), u64::from(last)).unwrap());
        }
        for last in [9, 1, 200] {
            assert_eq!(tree.get(&key(last)).unwrap(), Some(u64::from(last)));
        }
        let shown: Vec<u8> =
            keys_of(&*tree, Direction::Backward).iter().map(|key| key[key.len() - 1]).collect();
        assert_eq!(shown, [200, 9, 1]);
        assert_sound(&pool, &*tree);
        for last in [1, 200, 9] {
            assert_eq!(tree.remove(&key(last)).unwrap(), Some(u64::from(last)));
        }
        assert_sound(&pool, &*tree);
    };
    // A stack on which no recursion over 8192 layers would fit.
    std::thread::scope(|scope| {
        std::thread::Builder::new().stack_size(256 << 10).spawn_scoped(scope, run).unwrap();
    });
    let long = vec![0; MAX_KEY_BYTES + 1];
    assert!(matches!(tree.insert(&long, 1), Err(IndexError::KeyTooLong { .. })));
    assert_eq!((tree.get(&long).unwrap(), tree.remove(&long).unwrap()), (None, None));
}

#[test]
fn a_full_pool_refuses_a_key_and_changes_nothing() {
    for parameters in SIZES {
        let pool = pool(parameters, 128 << 10);
        let tree = create::<BytesKeys, _>(&pool).unwrap();
        let key = |number: u64| {
            let mut key = vec![0; 8 * (number % 5) as usize];
            key.extend((number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_be_bytes());
            key.extend(vec![1; number as usize % 50]);
            key
        };
        let mut kept = Vec::new();
        let mut refused = 0;
        for number in 0..3000 {
            match tree.insert(&key(number), number) {
                Ok(added) => {
                    assert!(added);
                    kept.push(number);
                }
                Err(IndexError::Pool(PoolError::PoolFull { .. })) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(refused > 0 && kept.len() > 100, "{refused} refused, {} kept", kept.len());
        assert_eq!(tree.len(), kept.len() as u64);
        assert_sound(&pool, &*tree);
        for number in &kept {
            assert_eq!(tree.remove(&key(*number)).unwrap(), Some(*number));
        }
        assert_sound(&pool, &*tree);
        assert!(tree.insert(&key(0), 5).unwrap(), "there is room again");
    }
}

#[test]
fn memory_of_removed_keys_is_used_again() {
    let pool = pool(FULL, 64 << 20);
    let tree = create::<U64Keys, _>(&pool).unwrap();
    let mut after_first = 0;
    for round in 0..20u64 {
        (0..5000u64).for_each(|key| assert!(tree.insert(key * (round + 1), key).unwrap()));
        (0..5000u64).for_each(|key| {
            assert_eq!(tree.remove(key * (round + 1)).unwrap(), Some(key));
        });
        assert_sound(&pool, &*tree);
        let bytes = tree.statistics().pm_bytes;
        after_first = if round == 0 { bytes } else { after_first };
        assert!(bytes <= after_first * 3 / 2, "{bytes} bytes in round {round}");
    }
}

#[test]
fn ascending_keys_fill_their_nodes() {
    let pool = pool(FULL, 64 << 20);
    let tree = create::<U64Keys, _>(&pool).unwrap();
    (0..30_000u64).for_each(|key| assert!(tree.insert(key, key).unwrap()));
    let bytes = tree.statistics().pm_bytes;
    assert!(bytes < 30_000 * 320 / 14 * 5 / 4, "{bytes} bytes");
    assert_sound(&pool, &*tree);
}
