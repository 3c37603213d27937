//! Exact numbers: flushes and fences.

use everleaf_conformance::counting::{self, cost, own};
use everleaf_conformance::{Opened, TestedTree, assert_sound, opened};
use everleaf_crash::{Event, Instrumented, Traced};
use everleaf_index::{Index, U64Keys};
use everleaf_pmem::{Counter, LineAtomicity};
use everleaf_pool::Pool;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::super::Variant;
use super::{ENCODED, TINY, Tested};

/// Sizes of a pool of which none are asked for.
pub(super) const DEFAULT: Tested = Tested { leaf_slots: 31, group_bytes: 256 << 10, ..TINY };

pub(super) type Counted = Opened<U64Keys, Instrumented>;

fn counted(leaf_slots: u64) -> Counted {
    counting::counted(Tested { leaf_slots, ..DEFAULT })
}

#[test]
fn an_insertion_flushes_its_entry_and_the_live_bit_once_where_they_share_a_line() {
    let (pool, tree) = counted(31);
    for (key, expected) in (0..).zip([(1, 1), (1, 1), (1, 1), (2, 2), (2, 2)]) {
        assert!(tree.insert(key, key).unwrap());
        assert_eq!(cost(&pool), expected, "key {key}");
    }
    assert_eq!(tree.update(4, 1).unwrap(), Some(4));
    assert_eq!(cost(&pool), (1, 1));
    assert_eq!(tree.remove(4).unwrap(), Some(1));
    assert_eq!(cost(&pool), (1, 1));
    assert!(!tree.insert(1, 1).unwrap() && tree.update(9, 1).unwrap().is_none());
    assert!(tree.get(1).unwrap().is_some());
    assert_eq!(cost(&pool), (0, 0));
    assert_sound(&pool, &*tree);
}

#[test]
fn a_split_flushes_two_leaves_and_what_publishes_them() {
    let (pool, tree) = counted(31);
    let fill = |keys: std::ops::Range<u64>| {
        keys.for_each(|key| assert!(tree.insert(key * 10, key).unwrap()));
        cost(&pool);
    };
    fill(0..31);
    // Two leaves of 16 entries, 5 lines each; a first inner node; the root word.
    assert!(tree.insert(5, 5).unwrap());
    assert_eq!((cost(&pool), tree.statistics().leaves), ((12, 2), 2));
    fill(31..46);
    // The same; the log and the parent.
    assert!(tree.insert(155, 5).unwrap());
    assert_eq!((cost(&pool), tree.statistics().leaves), ((12, 2), 3));
    assert_sound(&pool, &*tree);
}

#[test]
fn the_last_key_of_a_leaf_is_removed_by_its_parent_or_the_root() {
    let (pool, tree) = counted(3);
    (0..6).for_each(|key| assert!(tree.insert(key, key).unwrap()));
    assert_eq!(tree.statistics().leaves, 3);
    cost(&pool);
    assert_eq!(tree.remove(0).unwrap(), Some(0));
    assert_eq!(cost(&pool), (1, 1));
    // The log and the parent.
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

#[test]
fn a_media_that_keeps_lines_whole_needs_no_log() {
    let media = Traced::new(256 << 10, 256 << 10, 1).unwrap();
    let media = media.with_line_atomicity(LineAtomicity::Line).unwrap();
    let pool = Pool::create(media, &TestedTree::<U64Keys>::format(TINY)).unwrap();
    let tree = opened::<U64Keys>(TINY, &pool);
    (0..5).for_each(|key| assert!(tree.insert(key, key).unwrap()));
    pool.media().take_events();
    assert!(tree.insert(5, 5).unwrap());
    let events = pool.media().take_events();
    let flushes = events.iter().filter(|event| matches!(event, Event::Flush { .. })).count();
    let fences = events.iter().filter(|event| matches!(event, Event::Fence { .. })).count();
    let whole = events.iter().filter(|event| matches!(event, Event::UnorderedStore { .. })).count();
    // Two leaves of one line, and the parent, which is written by eight words at once.
    assert_eq!((flushes, fences, whole), (2, 2, 8));
    assert_sound(&pool, &*tree);
}

/// A million insertions in the order of the paper, beside its tables 1 and 2; also those of
/// docs/trees/clfbtree.md.
fn tables(keys: u64) -> Vec<[f64; 3]> {
    const PAPER: [[[f64; 4]; 4]; 2] = [
        [
            [545_578.0, 205_332.0, 1_091_156.0, 908_844.0],
            [207_060.0, 82_618.0, 828_240.0, 1_585_880.0],
            [95_390.0, 39_796.0, 763_120.0, 1_809_220.0],
            [46_204.0, 19_258.0, 739_264.0, 1_907_592.0],
        ],
        [
            [2_182_312.0, 239_990.0, 1_091_156.0, 908_844.0],
            [828_240.0, 92_224.0, 828_240.0, 1_585_880.0],
            [381_560.0, 45_804.0, 763_120.0, 1_809_220.0],
            [184_816.0, 22_034.0, 739_264.0, 1_907_592.0],
        ],
    ];
    let seed = 43;
    let mut ratios = Vec::new();
    for (variant, table) in [Variant::Append, Variant::InPlace].into_iter().zip(PAPER) {
        for (leaf_slots, paper) in [3, 7, 15, 31].into_iter().zip(table) {
            let (pool, tree) = counting::counted::<U64Keys>(Tested {
                variant,
                leaf_slots,
                paper_order: true,
                ..DEFAULT
            });
            insert_uniform(&*tree, keys, seed);
            let counts = pool.media().counts();
            let of = |part: &str| counting::of(&counts.flushes, &format!("clftree.{part}"));
            let splits = counts.events[Counter::LeafSplits as usize];
            let lines = of("publish.") + of("paper.") + counts.line_writes;
            let parts = [
                lines - of("publish.P2.root"),
                of("split.P1.line") + of("publish.P2.root"),
                of("split.P1.leaf"),
                of("insert."),
            ];
            let (total, paper_total) =
                (parts.iter().sum::<u64>() as f64, paper.iter().sum::<f64>());
            let share = keys as f64 / 1e6;
            println!(
                "{variant:?} | {leaf_slots} | {splits} splits, {} of inner nodes | {parts:?} | \
                 {total} | the paper: {paper:?} {paper_total}",
                counts.events[Counter::InnerSplits as usize],
            );
            ratios.push([
                splits as f64 / share / (paper[2] / 2.0 / (leaf_slots + 1) as f64 * 4.0),
                total / share / paper_total,
                lines as f64,
            ]);
            assert_sound(&pool, &*tree);
        }
    }
    ratios
}

#[test]
fn leaves_are_split_as_often_as_in_the_paper() {
    for [splits, _, _] in tables(20_000) {
        assert!((0.97..1.03).contains(&splits), "{splits} of the paper's");
    }
}

#[test]
#[ignore = "a minute: prints the tables of docs/trees/clfbtree.md"]
fn a_million_insertions_flush_as_much_as_in_the_paper() {
    for [splits, total, _] in tables(1_000_000) {
        assert!((0.98..1.02).contains(&splits), "{splits} of the paper's");
        assert!((0.95..1.05).contains(&total), "{total} of the paper's");
    }
}

/// Inserts uniform keys of 31 bits.
pub(super) fn insert_uniform(tree: &dyn Index<U64Keys>, keys: u64, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut inserted = 0;
    while inserted < keys {
        inserted += u64::from(tree.insert(random.random::<u64>() >> 33, inserted).unwrap());
    }
}

/// Flushes of uniform keys of 31 bits, for each size of leaves; rows of docs/trees/clfbtree.md.
fn flushes_an_insertion(keys: u64) {
    let seed = 43;
    println!("{keys} uniform keys, seed {seed}");
    for slots in [3, 7, 15, 31, 63, 124, 252] {
        let (pool, tree) = counted(slots);
        insert_uniform(&*tree, keys, seed);
        assert_sound(&pool, &*tree);
        let splits = pool.media().counts().events[Counter::LeafSplits as usize];
        let (flushes, fences) = cost(&pool);
        let each = |count: u64| count as f64 / keys as f64;
        println!("| {slots} | {splits} | {:.3} | {:.3} |", each(flushes), each(fences));
        assert!((1.5..4.0).contains(&each(flushes)), "{slots} entries, seed {seed}");
        assert!(each(fences) < 2.01, "{slots} entries, seed {seed}");
    }
}

#[test]
fn an_insertion_flushes_less_than_four_lines() {
    flushes_an_insertion(20_000);
}

#[test]
#[ignore = "a minute: prints the rows of docs/trees/clfbtree.md"]
fn a_million_insertions_flush_less_than_four_lines_each() {
    flushes_an_insertion(1_000_000);
}

#[test]
fn an_encoded_leaf_is_flushed_once_beside_its_log() {
    let (pool, tree) = counting::counted::<U64Keys>(ENCODED);
    // The log and the leaf.
    for key in 0..24 {
        assert!(tree.insert(key, key).unwrap());
        assert_eq!(cost(&pool), (2, 2), "key {key}");
    }
    assert_eq!(tree.update(4, 1).unwrap(), Some(4));
    assert_eq!(cost(&pool), (2, 2));
    // Two leaves, a first inner node, the root word.
    assert!(tree.insert(24, 24).unwrap());
    assert_eq!((cost(&pool), tree.statistics().leaves), ((4, 2), 2));
    assert_eq!(tree.remove(4).unwrap(), Some(1));
    assert_eq!(cost(&pool), (2, 2));
    assert!(!tree.insert(1, 1).unwrap() && tree.update(99, 1).unwrap().is_none());
    assert!(tree.get(1).unwrap().is_some() && tree.remove(99).unwrap().is_none());
    assert_eq!(cost(&pool), (0, 0));
    assert_sound(&pool, &*tree);
    // At once: the line.
    let (pool, tree) = counting::counted::<U64Keys>(Tested { paper_order: true, ..ENCODED });
    assert!(tree.insert(1, 1).unwrap());
    let counts = pool.media().counts();
    assert_eq!((own(&counts.flushes), counts.line_writes, own(&counts.fences)), (0, 1, 1));
}

/// What values are to their keys; rows of docs/trees/clfbtree.md.
pub(super) type ValueOf = fn(u64, u64, &mut StdRng) -> u64;

pub(super) const VALUES: [(&str, ValueOf); 3] = [
    ("offsets of records", |_, inserted, _| (1 << 20) + 64 * inserted),
    ("like keys", |key, _, _| key),
    ("random", |_, _, random| random.random()),
];

/// Insertions of uniform keys of 31 bits, each line at once: N + 2 S + 2 I + R flushes, and one for
/// each third leaf of a split.
fn encoded_flushes(keys: u64) -> [u64; 3] {
    let seed = 43;
    println!("{keys} uniform keys, seed {seed}");
    VALUES.map(|(name, value_of)| {
        // The order of the paper counts a line at once, whatever the processor has.
        let (pool, tree) = counting::counted::<U64Keys>(Tested { paper_order: true, ..ENCODED });
        let mut random = StdRng::seed_from_u64(seed);
        while tree.len() < keys {
            let (key, inserted) = (random.random::<u64>() >> 33, tree.len());
            tree.insert(key, value_of(key, inserted, &mut random)).unwrap();
        }
        let counts = pool.media().counts();
        let of = |site: &str| counting::of(&counts.flushes, site);
        let [splits, inner] =
            [Counter::LeafSplits, Counter::InnerSplits].map(|n| counts.events[n as usize]);
        let (leaves, roots) = (of("clftree.encoded.P1.leaf"), of("clftree.publish.P2.root"));
        let total = own(&counts.flushes) + counts.line_writes;
        println!("| {name} | {splits} | {inner} | {} | {roots} | {total} |", leaves - 2 * splits);
        let thirds = leaves - 2 * splits + of("clftree.encoded.P1.line") - 2 * inner - roots;
        assert_eq!(total, keys + 2 * splits + 2 * inner + thirds + roots, "{name}");
        assert_sound(&pool, &*tree);
        total
    })
}

#[test]
fn encoded_leaves_flush_what_is_derived() {
    for total in encoded_flushes(20_000) {
        assert!((24_000..36_000).contains(&total));
    }
}

#[test]
#[ignore = "a minute: prints the rows of docs/trees/clfbtree.md"]
fn a_million_insertions_into_encoded_leaves_flush_what_a_model_says() {
    for (total, model) in
        encoded_flushes(1_000_000).into_iter().zip([1_418_556, 1_285_038, 1_643_204])
    {
        let ratio = total as f64 / f64::from(model);
        assert!((0.97..1.03).contains(&ratio), "{total} for {model}");
    }
}
