//! Exact numbers: entries shifted, flushes, fences.

use everleaf_conformance::counting::{self, flushes_and_fences, of, own};
use everleaf_conformance::{Opened, assert_sound};
use everleaf_crash::{Counts, Instrumented};
use everleaf_index::U64Keys;
use everleaf_pmem::Counter;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::super::layout::SLOTS;
use super::{Tested, Variant};

fn counted(node_slots: u64, variant: Variant) -> Opened<U64Keys, Instrumented> {
    counting::counted(Tested(variant, node_slots))
}

/// Flushes and fences.
fn barriers(counts: &Counts) -> (u64, u64) {
    (of(&counts.flushes, ""), of(&counts.fences, ""))
}

#[test]
fn descending_keys_shift_nothing_in_a_ring_and_everything_in_an_array() {
    // An array: the lines of the moved entries, those of the terminator where it begins one, and
    // the two flushes of the first entry.
    let of_array = (1..256).map(|count| count / 4 + 1).sum::<u64>() + 63 + 2;
    for (variant, shifted, flushes) in [
        (Variant::CircTree, 0, Some(512)),
        (Variant::Array, 32_640, None),
        (Variant::FastFair, 32_640, Some(of_array)),
    ] {
        let (pool, tree) = counted(256, variant);
        for key in (0..256).rev() {
            assert!(tree.insert(key, !key).unwrap());
        }
        let counts = pool.media().counts();
        assert_eq!(counts.event(Counter::EntriesShifted), shifted, "{variant:?}");
        assert_eq!(tree.statistics().leaves, 1, "all of them in one node");
        if let Some(flushes) = flushes {
            assert_eq!(barriers(&counts), (flushes, flushes), "{variant:?}");
        }
        assert_sound(&pool, &*tree);
    }
}

/// Inserts uniform keys into an empty tree of either design; rows of docs/trees/circtree.md.
fn compare_with_arrays(keys: u64) {
    let seed = 20;
    println!("{keys} uniform keys, seed {seed}; of FAST+FAIR / Circ-Tree, an insertion");
    for slots in SLOTS.iter().copied().filter(|slots| *slots >= 32) {
        let [array, ring] = [Variant::FastFair, Variant::CircTree].map(|variant| {
            let mut random = StdRng::seed_from_u64(seed);
            let (pool, tree) = counted(slots, variant);
            (0..keys).for_each(|_| assert!(tree.insert(random.random(), 1).unwrap()));
            assert_sound(&pool, &*tree);
            let counts = pool.media().counts();
            // The allocator's are the same for both.
            let (flushes, fences) = flushes_and_fences(&counts);
            [
                counts.event(Counter::EntriesShifted),
                flushes,
                fences,
                64 * own(&counts.lines_flushed),
            ]
        });
        let each = |count: u64| count as f64 / keys as f64;
        let columns = array.iter().zip(ring).map(|(array, ring)| {
            format!(
                " {:.2} / {:.2} = {:.3} |",
                each(*array),
                each(ring),
                *array as f64 / ring as f64
            )
        });
        println!("| {slots} |{}", columns.collect::<String>());
        let factor = array[0] as f64 / ring[0] as f64;
        assert!((1.85..2.02).contains(&factor), "{slots} entries: {factor}, seed {seed}");
    }
}

#[test]
fn uniform_keys_shift_half_of_what_arrays_shift() {
    compare_with_arrays(100_000);
}

#[test]
#[ignore = "takes long: the numbers of docs/trees/circtree.md"]
fn a_million_uniform_keys_shift_half_of_what_arrays_shift() {
    compare_with_arrays(1_000_000);
}

#[test]
fn an_operation_on_an_array_costs_what_the_first_page_says() {
    let (pool, tree) = counted(32, Variant::FastFair);
    let cost = |operation: &dyn Fn()| {
        pool.media().reset();
        operation();
        barriers(&pool.media().counts())
    };
    assert_eq!(cost(&|| assert!(tree.insert(100, 1).unwrap())), (2, 2), "into an empty node");
    for count in 1..16 {
        let own_line = u64::from(count % 4 == 3);
        assert_eq!(
            cost(&|| assert!(tree.insert(count * 10 + 100, 1).unwrap())),
            (1 + own_line, 1 + own_line),
            "at the end"
        );
    }
    // 16 entries in 4 lines, the terminator in the fifth.
    assert_eq!(cost(&|| assert!(tree.insert(95, 1).unwrap())), (5, 5), "before the first");
    assert_eq!(
        cost(&|| assert!(tree.insert(205, 1).unwrap())),
        (2, 2),
        "from slot 12 on: lines 3 and 4"
    );
    assert_eq!(cost(&|| assert_eq!(tree.update(205, 2).unwrap(), Some(1))), (1, 1));
    assert_eq!(cost(&|| assert_eq!(tree.remove(250).unwrap(), Some(1))), (1, 1), "the last");
    assert_eq!(cost(&|| assert_eq!(tree.remove(95).unwrap(), Some(1))), (5, 5), "the first");
    assert_eq!(cost(&|| assert_eq!(tree.get(110).unwrap(), Some(1))), (0, 0));
}

#[test]
fn an_operation_costs_what_the_first_page_says() {
    let (pool, tree) = counted(32, Variant::CircTree);
    let cost = |operation: &dyn Fn()| {
        pool.media().reset();
        operation();
        barriers(&pool.media().counts())
    };
    // Slots 0 to 15: lines 0 to 3.
    for key in 0..16 {
        assert_eq!(
            cost(&|| assert!(tree.insert(key * 10 + 100, 1).unwrap())),
            (2, 2),
            "at the end"
        );
    }
    assert_eq!(cost(&|| assert!(tree.insert(95, 1).unwrap())), (2, 2), "before the first: slot 31");
    // 95 moves to slot 30, the new one to slot 31: one line.
    assert_eq!(
        cost(&|| assert!(tree.insert(96, 1).unwrap())),
        (2, 2),
        "one entry in the same line"
    );
    // 95 and 96 move to slots 29 and 30, 100 to 31, and the new one to slot 0: two lines.
    assert_eq!(cost(&|| assert!(tree.insert(105, 1).unwrap())), (3, 3), "two lines");
    assert_eq!(cost(&|| assert_eq!(tree.update(105, 2).unwrap(), Some(1))), (1, 1));
    assert_eq!(cost(&|| assert_eq!(tree.remove(95).unwrap(), Some(1))), (1, 1), "the first");
    assert_eq!(cost(&|| assert_eq!(tree.remove(250).unwrap(), Some(1))), (1, 1), "the last");
    assert_eq!(
        cost(&|| assert_eq!(tree.remove(105).unwrap(), Some(2))),
        (3, 3),
        "96 and 100 move up, over two lines"
    );
    assert_eq!(cost(&|| assert_eq!(tree.get(110).unwrap(), Some(1))), (0, 0));
}

#[test]
fn splits_and_merges_cost_what_the_first_pages_say() {
    for (variant, split, merge) in
        [(Variant::CircTree, (5 + 3, 2), (2 + 2, 2)), (Variant::FastFair, (6 + 4, 3), (2 + 3, 3))]
    {
        // The log is written once more for the root, which then has one child.
        let merge = (merge.0 + 1, merge.1);
        let (pool, tree) = counted(32, variant);
        let cost = |sites: &str| {
            let counts = pool.media().counts();
            (of(&counts.flushes, sites), of(&counts.fences, sites))
        };
        (0..32).for_each(|key| assert!(tree.insert(key * 10, 1).unwrap()));
        assert!(tree.insert(155, 1).unwrap());
        // 16 entries go to the new node: 4 lines and its header; of an array the terminator's
        // besides.
        assert_eq!(cost("sorted.split."), split, "{variant:?}");
        (20..32).rev().for_each(|key| assert_eq!(tree.remove(key * 10).unwrap(), Some(1)));
        // 4 entries go to slots 17 to 20, the terminator to slot 21: 2 lines.
        assert_eq!((tree.statistics().leaves, cost("sorted.merge.M")), (1, merge), "{variant:?}");
        assert_sound(&pool, &*tree);
    }
}
