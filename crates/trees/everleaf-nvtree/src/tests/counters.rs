//! Exact numbers: flushes and fences.

use everleaf_conformance::counting::{self, cost};
use everleaf_conformance::{Opened, assert_sound};
use everleaf_crash::Instrumented;
use everleaf_index::U64Keys;
use everleaf_pmem::Counter;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::super::TUNED;
use super::{Parameters, Tested, VARIANTS, Variant};

fn counted(leaf_slots: u64, variant: Variant) -> Opened<U64Keys, Instrumented> {
    counted_in(leaf_slots, variant, true)
}

fn counted_in(leaf_slots: u64, variant: Variant, hashed: bool) -> Opened<U64Keys, Instrumented> {
    let parameters = Parameters { leaf_slots, ..TUNED };
    counting::counted(Tested { variant, parameters, hashed })
}

#[test]
fn an_append_flushes_its_lines_and_the_count() {
    VARIANTS.into_iter().for_each(appends);
}

fn appends(variant: Variant) {
    let (pool, tree) = counted(32, variant);
    // Elements of 24 bytes: the third and the sixth of eight lie in two lines.
    let expected = [2, 2, 3, 2, 2, 3, 2, 2];
    for (key, flushes) in (0..).zip(expected) {
        assert!(tree.insert(key, key).unwrap());
        assert_eq!(cost(&pool), (flushes, 2), "key {key}");
    }
    assert_eq!(tree.update(0, 1).unwrap(), Some(0));
    assert_eq!(cost(&pool), (2, 2));
    assert_eq!(tree.remove(0).unwrap(), Some(1));
    assert_eq!(cost(&pool), (2, 2));
    assert!(!tree.insert(1, 1).unwrap() && tree.update(0, 1).unwrap().is_none());
    assert!(tree.get(1).unwrap().is_some());
    assert_eq!(cost(&pool), (0, 0));
    assert_sound(&pool, &*tree);
}

#[test]
fn changes_of_the_list_of_leaves_have_one_commit_word() {
    VARIANTS.into_iter().for_each(changes);
}

fn changes(variant: Variant) {
    let (pool, tree) = counted(32, variant);
    let fill = |keys: std::ops::Range<u64>| {
        keys.for_each(|key| assert!(tree.insert(key * 10, key).unwrap()));
        cost(&pool);
    };
    fill(0..32);
    // 16 and 17 elements: 6 and 7 lines, two heads, the word that leads there.
    assert!(tree.insert(5, 5).unwrap());
    assert_eq!((cost(&pool), tree.statistics().leaves), ((16, 2), 2));
    fill(32..47); // 17 and 15: the last leaf is full.
    // Behind the last leaf.
    assert!(tree.insert(1000, 1).unwrap());
    assert_eq!((cost(&pool), tree.statistics().leaves), ((3, 2), 3));
    assert_eq!(tree.remove(1000).unwrap(), Some(1));
    assert_eq!((cost(&pool), tree.statistics().leaves), ((1, 1), 2));
    assert_sound(&pool, &*tree);
}

/// With hashes a search compares one key, without them half of those of a leaf or all; what is
/// flushed is the same.
#[test]
fn hashes_save_comparisons_and_cost_no_flush() {
    let seed = 7;
    for variant in VARIANTS {
        let [hashed, plain] = [true, false].map(|hashed| {
            let mut random = StdRng::seed_from_u64(seed);
            let (pool, tree) = counted_in(32, variant, hashed);
            let keys: Vec<u64> = (0..20_000).map(|_| random.random()).collect();
            keys.iter().for_each(|key| assert!(tree.insert(*key, 1).unwrap()));
            let flushed = cost(&pool);
            let mut compared = |present: bool| {
                for key in &keys {
                    let sought = if present { *key } else { random.random() };
                    assert_eq!(tree.get(sought).unwrap().is_some(), present);
                }
                let probes = pool.media().counts().event(Counter::LeafProbes);
                pool.media().reset();
                probes as f64 / keys.len() as f64
            };
            (flushed, compared(true), compared(false))
        });
        println!("{variant:?}, seed {seed}: {hashed:?} with hashes, {plain:?} without");
        assert_eq!(hashed.0, plain.0);
        assert!(hashed.1 < 1.1 && hashed.2 < 0.15 && plain.1 > 10.0 && plain.2 > 20.0);
    }
}

/// Lines an insertion, for each size of the element array; rows of docs/trees/nvtree.md.
fn lines_an_insertion(keys: u64, variant: Variant) {
    let seed = 24;
    println!("{variant:?}: {keys} uniform keys, seed {seed}");
    for slots in [21, 32, 42, 85, 170] {
        let mut random = StdRng::seed_from_u64(seed);
        let (pool, tree) = counted(slots, variant);
        (0..keys).for_each(|_| assert!(tree.insert(random.random(), 1).unwrap()));
        assert_sound(&pool, &*tree);
        let (flushes, fences) = cost(&pool);
        let each = |count: u64| count as f64 / keys as f64;
        println!("| {slots} | {:.3} | {:.3} |", each(flushes), each(fences));
        assert!((2.6..3.0).contains(&each(flushes)), "{slots} elements, seed {seed}");
        assert!((1.9..2.01).contains(&each(fences)), "{slots} elements, seed {seed}");
    }
}

#[test]
fn an_insertion_flushes_less_than_three_lines() {
    VARIANTS.into_iter().for_each(|variant| lines_an_insertion(20_000, variant));
}

#[test]
#[ignore = "a minute: prints the rows of docs/trees/nvtree.md"]
fn a_million_insertions_flush_less_than_three_lines_each() {
    lines_an_insertion(1_000_000, Variant::Serial);
}
