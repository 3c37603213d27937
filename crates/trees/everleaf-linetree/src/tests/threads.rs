//! Threads that split and end leaves beside each other.

use everleaf_conformance::{assert_sound, dram_pool, opened};
use everleaf_index::{BytesKeys, Index, U64Keys};
use everleaf_tree::key::TestKey;

use super::TINY;

/// Each has keys of its own, which lie between those of the others.
fn find_their_own<K: TestKey>(number: impl Fn(u64) -> K::Owned + Sync) {
    const THREADS: u64 = 4;
    const KEYS: u64 = 2000;
    let (pool, number) = (dram_pool::<K>(TINY, 64 << 20), &number);
    let tree = opened::<K>(TINY, &pool);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let tree: &dyn Index<K> = &*tree;
            scope.spawn(move || {
                let key = |i: u64| number(i * 37 % KEYS * THREADS + thread);
                for round in 0..4 {
                    (0..KEYS)
                        .for_each(|i| assert!(tree.insert(K::borrow(&key(i)), i + round).unwrap()));
                    for i in 0..KEYS {
                        let key = key(i);
                        let key = K::borrow(&key);
                        assert_eq!(tree.get(key).unwrap(), Some(i + round));
                        assert_eq!(tree.update(key, round).unwrap(), Some(i + round));
                    }
                    for i in 0..KEYS {
                        assert_eq!(tree.remove(K::borrow(&key(i))).unwrap(), Some(round));
                    }
                }
            });
        }
    });
    assert_eq!(tree.len(), 0);
    assert_sound(&pool, &*tree);
}

#[test]
fn threads_find_their_own_keys_whatever_others_do() {
    find_their_own::<U64Keys>(|number| number.rotate_right(2));
}

#[test]
fn threads_find_their_own_strings_whatever_others_do() {
    find_their_own::<BytesKeys>(BytesKeys::unique);
}
