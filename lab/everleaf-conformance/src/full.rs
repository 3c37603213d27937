//! A full pool: what needs no room is done, the rest is refused, and nothing is lost.

use std::sync::Arc;

use everleaf_crash::Dram;
use everleaf_index::{Index, IndexStatistics, KeyKind};
use everleaf_pool::Pool;

use super::{KeyOf, TestedTree, assert_sound, opened};

/// What the rest of a test looks at.
pub struct Filled {
    /// Updates that were refused.
    pub refused: u64,
    /// When all keys had been removed.
    pub empty: IndexStatistics,
}

/// Keys that are in a tree, with their values.
type Present<K> = Vec<(<K as KeyKind>::Owned, u64)>;

/// Fills a pool with the keys of different numbers below 40,000, updates each so many times, and
/// opens it again; removes half of them, then the others, and inserts as many again as were left.
pub fn fill_up<K: KeyKind>(
    tested: impl TestedTree<K>,
    pool: &Arc<Pool<Dram>>,
    key: KeyOf<K>,
    rounds: u64,
) -> Filled {
    let tree = opened(tested, pool);
    let mut present = filled(&*tree, key);
    assert_sound(pool, &*tree);
    assert_holds(&*tree, &present);
    let refused = (0..rounds).map(|round| update_all(&*tree, &mut present, round)).sum();
    assert_sound(pool, &*tree);
    drop(tree);
    let tree = opened(tested, pool);
    assert_holds(&*tree, &present);
    make_room(&*tree, &mut present);
    assert_sound(pool, &*tree);
    for (key, value) in &present {
        assert_eq!(tree.remove(K::borrow(key)).unwrap(), Some(*value), "{tested:?}");
    }
    assert_sound(pool, &*tree);
    assert!(tree.is_empty());
    let empty = tree.statistics();
    for (key, _) in &present {
        assert!(tree.insert(K::borrow(key), 1).unwrap());
    }
    assert_sound(pool, &*tree);
    Filled { refused, empty }
}

/// Inserts until the pool is full, and then wherever there is still room.
fn filled<K: KeyKind>(tree: &dyn Index<K>, key: KeyOf<K>) -> Present<K> {
    let mut present = Vec::new();
    let mut refused = 0;
    for number in (0..20_000).map(|i| i * 7919 % 40_000) {
        let owned = key(number);
        match tree.insert(K::borrow(&owned), number) {
            Ok(inserted) => {
                assert!(inserted);
                present.push((owned, number));
            }
            Err(error) => {
                assert!(error.to_string().contains("full"), "{error}");
                assert_eq!(tree.get(K::borrow(&owned)).unwrap(), None);
                refused += 1;
            }
        }
        if refused == 400 {
            return present;
        }
    }
    panic!("it was to fill up");
}

fn assert_holds<K: KeyKind>(tree: &dyn Index<K>, present: &Present<K>) {
    assert_eq!(tree.len(), present.len() as u64);
    for (key, value) in present {
        assert_eq!(tree.get(K::borrow(key)).unwrap(), Some(*value));
    }
}

/// Removes every other key, and inserts an eighth of these again.
fn make_room<K: KeyKind>(tree: &dyn Index<K>, present: &mut Present<K>) {
    let all = std::mem::take(present);
    for (key, value) in all.iter().step_by(2) {
        assert_eq!(tree.remove(K::borrow(key)).unwrap(), Some(*value));
    }
    present.extend(all.iter().skip(1).step_by(2).cloned());
    assert_holds(tree, present);
    for (key, value) in all.iter().step_by(16) {
        assert!(tree.insert(K::borrow(key), *value).unwrap(), "removals made room");
        present.push((key.clone(), *value));
    }
}

/// How many updates are refused.
fn update_all<K: KeyKind>(tree: &dyn Index<K>, present: &mut Present<K>, new: u64) -> u64 {
    let mut refused = 0;
    for (key, value) in present {
        match tree.update(K::borrow(key), new) {
            Ok(old) => assert_eq!(old, Some(std::mem::replace(value, new))),
            Err(error) => {
                assert!(error.to_string().contains("full"), "{error}");
                refused += 1;
            }
        }
    }
    refused
}
