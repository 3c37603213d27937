//! What operations cost, exactly.

use everleaf_conformance::Opened;
use everleaf_conformance::counting::{self, of};
use everleaf_crash::{Counts, Instrumented};
use everleaf_index::U64Keys;
use everleaf_pmem::Counter;

use super::super::OFFER;
use super::Tested;

fn counted() -> Opened<U64Keys, Instrumented> {
    counting::counted(Tested(OFFER.tuned))
}

/// Flushes and fences of the tree, without those of the pool and of groups that it takes.
pub(super) fn totals(counts: &Counts) -> (u64, u64) {
    let own = |barriers| of(barriers, "linetree.") - of(barriers, "linetree.group.");
    (own(&counts.flushes), own(&counts.fences))
}

fn random(i: u64) -> u64 {
    let z = (i + 1).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (z ^ z >> 29).wrapping_mul(0x94d0_49bb_1331_11eb)
}

#[test]
fn operations_cost_what_the_page_says() {
    let (pool, tree) = counted();
    let cost = |operation: &mut dyn FnMut()| {
        pool.media().reset();
        operation();
        totals(&pool.media().counts())
    };
    for i in 0..20 {
        assert_eq!(cost(&mut || assert!(tree.insert(random(i), i).unwrap())), (1, 1));
    }
    assert_eq!(cost(&mut || assert!(!tree.insert(random(3), 3).unwrap())), (0, 0));
    assert_eq!(cost(&mut || assert_eq!(tree.update(random(3), 4).unwrap(), Some(3))), (1, 1));
    assert_eq!(cost(&mut || assert_eq!(tree.upsert(random(3), 5).unwrap(), Some(4))), (1, 1));
    assert_eq!(cost(&mut || assert_eq!(tree.get(random(3)).unwrap(), Some(5))), (0, 0));
    assert_eq!(cost(&mut || assert_eq!(tree.remove(random(3)).unwrap(), Some(5))), (1, 1));
    assert_eq!(cost(&mut || assert_eq!(tree.remove(random(3)).unwrap(), None)), (0, 0));
}

#[test]
fn a_split_and_the_end_of_a_leaf_cost_what_the_page_says() {
    let (pool, tree) = counted();
    for i in 0.. {
        pool.media().reset();
        assert!(tree.insert(i, i).unwrap());
        let counts = pool.media().counts();
        if counts.event(Counter::LeafSplits) == 1 {
            assert!(i >= 56, "ascending keys fill leaves: {i}");
            assert_eq!(totals(&counts), (1 + 16, 1 + 2));
            (1..i).for_each(|key| assert_eq!(tree.remove(key).unwrap(), Some(key)));
            break;
        }
    }
    pool.media().reset();
    assert_eq!(tree.remove(0).unwrap(), Some(0));
    assert_eq!(totals(&pool.media().counts()), (1 + 3, 1 + 3));
    assert_eq!((tree.len(), tree.statistics().leaves), (1, 2));
}

/// Whatever the distance of keys that come in order, their leaves are filled.
#[test]
fn keys_at_a_regular_distance_fill_leaves() {
    for stride in [1, 10, 55, 144, 610, 987, 1_000_000, 60_000_000_000, 1 << 32] {
        let (_pool, tree) = counted();
        (0..5000).for_each(|i| assert!(tree.insert(i * stride, i).unwrap()));
        let bytes = tree.statistics().leaves as f64 * 1024.0 / 5000.0;
        println!("{bytes} bytes a key at a distance of {stride}");
        assert!(bytes <= 25.0, "{stride}: {bytes}");
    }
}

/// 600,000 random keys: the numbers of the family's page.
#[test]
fn random_keys_cost_what_the_page_says() {
    const KEYS: u64 = 600_000;
    let (pool, tree) = counted();
    pool.media().reset();
    (0..KEYS).for_each(|i| assert!(tree.insert(random(i), i).unwrap()));
    let counts = pool.media().counts();
    let per_key = |count: u64| count as f64 / KEYS as f64;
    let ((flushes, fences), leaves) = (totals(&counts), tree.statistics().leaves);
    println!("{} flushes, {} fences an insertion", per_key(flushes), per_key(fences));
    println!("{} bytes a key", per_key(leaves * 1024));
    assert!(per_key(flushes) <= 1.5 && per_key(fences) <= 1.1);
    assert!(per_key(leaves * 1024) <= 31.0);

    pool.media().reset();
    (0..KEYS).for_each(|i| assert_eq!(tree.get(random(i)).unwrap(), Some(i)));
    let lines = per_key(pool.media().counts().pm_lines_read);
    pool.media().reset();
    (KEYS..2 * KEYS).for_each(|i| assert_eq!(tree.get(random(i)).unwrap(), None));
    println!("{lines} lines a hit, {} a miss", per_key(pool.media().counts().pm_lines_read));
    assert!(lines <= 1.2);

    pool.media().reset();
    (0..KEYS).for_each(|i| assert_eq!(tree.update(random(i), 7).unwrap(), Some(i)));
    assert_eq!(totals(&pool.media().counts()), (KEYS, KEYS));
    pool.media().reset();
    (0..KEYS).for_each(|i| assert_eq!(tree.remove(random(i)).unwrap(), Some(7)));
    let ended = leaves - tree.statistics().leaves;
    assert_eq!(totals(&pool.media().counts()), (KEYS + 3 * ended, KEYS + 3 * ended));
    assert_eq!(tree.statistics().leaves, 2);
}

/// A line that was full ends searches again when what went past it has gone: in a tree that has
/// seen three times as many changes as it has keys, what is absent takes hardly more lines.
#[test]
fn lines_that_were_full_end_searches_again() {
    const KEYS: u64 = 20_000;
    let (pool, tree) = counted();
    (0..KEYS).for_each(|i| assert!(tree.insert(random(i), i).unwrap()));
    let lines_a_miss = || {
        pool.media().reset();
        let absent = 10 * KEYS..11 * KEYS;
        absent.for_each(|i| assert_eq!(tree.get(random(i)).unwrap(), None));
        pool.media().counts().pm_lines_read as f64 / KEYS as f64
    };
    let young = lines_a_miss();
    for i in 0..3 * KEYS {
        assert_eq!(tree.remove(random(i)).unwrap(), Some(i));
        assert!(tree.insert(random(KEYS + i), KEYS + i).unwrap());
    }
    let old = lines_a_miss();
    println!("{young} lines a miss, and {old}");
    assert!(old <= young + 0.15, "{young}, {old}");
}
