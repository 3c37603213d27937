//! Exact numbers of lines that are copied: flushes, and the cascades by their causes.
//!
//! A copy and the word that leads to it are 2 flushes. A cascade is a copy more. So N changes with
//! S splits of leaves, I of inner nodes, each into two, and C cascades flush, without what leaves
//! of several lines flush:
//!
//! * `clftree-shadow`: `2 S + 2 I + C` for its inner nodes: a split copies the parent and has one
//!   commit; a half, or a root, that comes besides is a line, and leads to one more above it.
//! * `clftree-encoded-shadow`: `2 N + 2 S + 2 I + C`: each change copies a leaf and has one commit;
//!   a split writes a second leaf, and the parent.
//!
//! The log has the same without C, but for commits in the root word, which are 1 there.

use everleaf_conformance::assert_sound;
use everleaf_conformance::counting::{self, cost, counted_below, own};
use everleaf_index::U64Keys;
use everleaf_pmem::{Counter, Site};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::counters::{Counted, DEFAULT, VALUES, ValueOf, insert_uniform};
use super::{ENCODED_SHADOW, SHADOW, Tested};

#[test]
fn a_copy_and_the_word_that_leads_to_it_are_flushed() {
    let (pool, tree) = counting::counted::<U64Keys>(ENCODED_SHADOW);
    // A leaf and the root word.
    for key in 0..24 {
        assert!(tree.insert(key, key).unwrap());
        assert_eq!(cost(&pool), (2, 2), "key {key}");
    }
    // Two leaves, a first inner node, the root word.
    assert!(tree.insert(24, 24).unwrap());
    assert_eq!((cost(&pool), tree.statistics().leaves), ((4, 2), 2));
    // A leaf and a word of its parent; the first leaf is what the others are differences to.
    assert_eq!(tree.update(20, 1).unwrap(), Some(20));
    assert_eq!(cost(&pool), (2, 2));
    assert_eq!(tree.remove(20).unwrap(), Some(1));
    assert_eq!(cost(&pool), (2, 2));
    assert_eq!(pool.media().counts().event(Counter::CascadesByBase), 0);
    assert_eq!(tree.remove(0).unwrap(), Some(0));
    let cascades = pool.media().counts().event(Counter::CascadesByBase);
    assert_eq!((cost(&pool), cascades), ((3, 2), 1));
    assert_sound(&pool, &*tree);
}

#[test]
fn a_split_and_the_end_of_a_leaf_copy_the_parent() {
    let (pool, tree) = counting::counted::<U64Keys>(SHADOW);
    let row = |keys: std::ops::Range<u64>| {
        keys.for_each(|key| assert!(tree.insert(key, key).unwrap()));
        cost(&pool);
    };
    row(0..3);
    // Two leaves, a first inner node, the root word.
    assert!(tree.insert(3, 3).unwrap());
    assert_eq!(cost(&pool), (4, 2));
    row(4..5);
    // Two leaves, the copy of the topmost node, the root word.
    assert!(tree.insert(5, 5).unwrap());
    assert_eq!((cost(&pool), tree.statistics().leaves), ((4, 2), 3));
    assert_eq!(tree.remove(0).unwrap(), Some(0));
    assert_eq!(cost(&pool), (1, 1));
    // The copy and the root word.
    assert_eq!(tree.remove(1).unwrap(), Some(1));
    assert_eq!((cost(&pool), tree.statistics().leaves), ((2, 2), 2));
    assert_eq!(tree.remove(2).unwrap(), Some(2));
    cost(&pool);
    // The root word.
    assert_eq!(tree.remove(3).unwrap(), Some(3));
    let statistics = tree.statistics();
    assert_eq!((cost(&pool), statistics.leaves, statistics.height), ((1, 1), 1, 1));
    assert_sound(&pool, &*tree);
}

/// Removes all keys of a tree that fills a pool of so many bytes; how many lines were logged.
fn logged_in_a_full_pool(tested: Tested, max_bytes: u64, apart: u64) -> u64 {
    let (pool, tree) = counted_below::<U64Keys>(tested, max_bytes);
    let mut keys = 0;
    while tree.insert(keys * apart, keys).is_ok() {
        keys += 1;
    }
    assert_sound(&pool, &*tree);
    // The first leaves are the bases of their parents: each copy needs one on every level.
    for key in 0..keys {
        assert_eq!(tree.remove(key * apart).unwrap(), Some(key), "{tested:?}");
    }
    assert_sound(&pool, &*tree);
    pool.media().counts().event(Counter::NodesLogged)
}

#[test]
fn in_a_full_pool_the_log_takes_the_place_of_a_copy() {
    for tested in [SHADOW, ENCODED_SHADOW] {
        // Some leave no room for an inner node: they have more where keys are far from each other.
        let sizes = (16..24).flat_map(|pages| [1, 1 << 20, 1 << 40].map(|apart| (pages, apart)));
        let logged = sizes.map(|(pages, apart)| logged_in_a_full_pool(tested, pages << 12, apart));
        assert!(logged.sum::<u64>() > 0, "{tested:?}");
    }
}

/// What was counted: flushes, S, I, and C by cause.
struct Copies {
    flushes: u64,
    splits: u64,
    inner_splits: u64,
    cascades: [u64; 3],
}

fn counted((pool, tree): &Counted, of: impl Fn(&Site) -> bool) -> Copies {
    assert_sound(pool, &**tree);
    let counts = pool.media().counts();
    let flushes = counts.flushes.iter().filter(|(site, _)| of(site)).map(|(_, n)| n).sum();
    let causes = [Counter::CascadesByBase, Counter::CascadesByWidth, Counter::CascadesByWords];
    Copies {
        flushes,
        splits: counts.event(Counter::LeafSplits),
        inner_splits: counts.event(Counter::InnerSplits),
        cascades: causes.map(|cause| counts.event(cause)),
    }
}

fn row(name: &str, copies: &Copies, keys: u64, all: u64) {
    let Copies { splits, inner_splits, cascades: [base, width, words], .. } = copies;
    let each = all as f64 / keys as f64;
    println!("| {name} | {splits} | {inner_splits} | {base} | {width} | {words} | {each:.3} |");
}

/// Uniform keys of 31 bits; rows of docs/trees/clfbtree.md.
fn flushes_of_copies(keys: u64) {
    let seed = 43;
    println!("{keys} uniform keys, seed {seed}");
    for leaf_slots in [3, 7, 15, 31, 63] {
        let tree =
            counting::counted::<U64Keys>(Tested { variant: SHADOW.variant, leaf_slots, ..DEFAULT });
        insert_uniform(&*tree.1, keys, seed);
        let of_lines = |site: &Site| {
            site.name() == "clftree.split.P1.line" || site.name().starts_with("clftree.publish.")
        };
        let copies = counted(&tree, of_lines);
        row(&leaf_slots.to_string(), &copies, keys, own(&tree.0.media().counts().flushes));
        let Copies { flushes, splits, inner_splits, cascades } = copies;
        let derived = 2 * splits + 2 * inner_splits + cascades.iter().sum::<u64>();
        assert_eq!(flushes, derived, "{leaf_slots} entries, seed {seed}");
    }
}

#[test]
fn copies_of_inner_nodes_flush_what_is_derived() {
    flushes_of_copies(20_000);
}

#[test]
#[ignore = "a minute: prints the rows of docs/trees/clfbtree.md"]
fn a_million_insertions_flush_the_copies_that_are_derived() {
    flushes_of_copies(1_000_000);
}

/// The same of encoded leaves: insertions, then updates.
fn flushes_of_encoded_copies(keys: u64) {
    let seed = 43;
    println!("{keys} uniform keys, seed {seed}");
    for (name, value_of) in VALUES {
        of_values(keys, seed, name, value_of);
    }
}

fn of_values(keys: u64, seed: u64, name: &str, value_of: ValueOf) {
    let counted_tree =
        counting::counted::<U64Keys>(Tested { group_bytes: DEFAULT.group_bytes, ..ENCODED_SHADOW });
    let (pool, tree) = &counted_tree;
    let mut random = StdRng::seed_from_u64(seed);
    while tree.len() < keys {
        let (key, inserted) = (random.random::<u64>() >> 33, tree.len());
        tree.insert(key, value_of(key, inserted, &mut random)).unwrap();
    }
    let check = |phase: &str| {
        let copies = counted(&counted_tree, |site| !site.name().starts_with("pool."));
        row(&format!("{name}, {phase}"), &copies, keys, copies.flushes);
        let Copies { flushes, splits, inner_splits, cascades } = copies;
        let derived = 2 * (keys + splits + inner_splits) + cascades.iter().sum::<u64>();
        assert_eq!(flushes, derived, "{name}, {phase}, seed {seed}");
        assert_eq!(own(&pool.media().counts().fences), 2 * keys);
        pool.media().reset();
    };
    check("insert");
    let mut random = StdRng::seed_from_u64(seed);
    let mut updated = 0;
    while updated < keys {
        updated += u64::from(tree.update(random.random::<u64>() >> 33, 7).unwrap().is_some());
    }
    check("update");
}

#[test]
fn copies_of_encoded_leaves_flush_what_is_derived() {
    flushes_of_encoded_copies(20_000);
}

#[test]
#[ignore = "a minute: prints the rows of docs/trees/clfbtree.md"]
fn a_million_changes_of_encoded_leaves_flush_the_copies_that_are_derived() {
    flushes_of_encoded_copies(1_000_000);
}
