//! Threads that split and end leaves beside each other.

use everleaf_index::Index;

use super::{TINY, assert_sound, dram_pool, opened};

/// Each has keys of its own, which lie between those of the others.
#[test]
fn threads_find_their_own_keys_whatever_others_do() {
    const THREADS: u64 = 4;
    const KEYS: u64 = 2000;
    let pool = dram_pool(TINY, 64 << 20);
    let tree = opened(&pool);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let tree: &dyn Index<_> = &*tree;
            scope.spawn(move || {
                let key = |i: u64| (i * 37 % KEYS * THREADS + thread).rotate_right(2);
                for round in 0..4 {
                    (0..KEYS).for_each(|i| assert!(tree.insert(key(i), i + round).unwrap()));
                    for i in 0..KEYS {
                        assert_eq!(tree.get(key(i)).unwrap(), Some(i + round));
                        assert_eq!(tree.update(key(i), round).unwrap(), Some(i + round));
                    }
                    (0..KEYS).for_each(|i| assert_eq!(tree.remove(key(i)).unwrap(), Some(round)));
                }
            });
        }
    });
    assert_eq!(tree.len(), 0);
    assert_sound(&pool, &*tree);
}
