//! Exact numbers: entries shifted, flushes, fences.

use std::sync::Arc;

use everleaf_index::{Index, U64Keys};
use everleaf_pmem::{Counted, Counter, Counts, Cpu, Hardware, Region};
use everleaf_pool::{KeyType, Pool};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::super::layout::SLOTS;
use super::super::{Variant, create};
use super::{assert_sound, format};

fn counted(node_slots: u64, variant: Variant) -> (Arc<Pool<Counted>>, Box<dyn Index<U64Keys>>) {
    let region = Region::anonymous(64 << 10, 1 << 30).unwrap();
    let media = Counted::new(Hardware::new(region, &Cpu::detect()).unwrap());
    let pool = Pool::create(media, &format(KeyType::U64, node_slots)).unwrap();
    let tree = create::<U64Keys, _>(&pool, variant).unwrap();
    pool.media().reset();
    (pool, tree)
}

/// Flushes and fences.
fn barriers(counts: &Counts) -> (u64, u64) {
    (counts.flushes.values().sum(), counts.fences.values().sum())
}

#[test]
fn descending_keys_shift_nothing() {
    for (variant, shifted) in [(Variant::CircTree, 0), (Variant::Array, 32_640)] {
        let (pool, tree) = counted(256, variant);
        for key in (0..256).rev() {
            assert!(tree.insert(key, !key).unwrap());
        }
        let counts = pool.media().counts();
        assert_eq!(counts.event(Counter::EntriesShifted), shifted, "{variant:?}");
        assert_eq!(tree.statistics().leaves, 1, "all of them in one node");
        if variant == Variant::CircTree {
            assert_eq!(barriers(&counts), (512, 512));
        }
        assert_sound(&pool, &*tree);
    }
}

#[test]
fn uniform_keys_shift_half_of_what_arrays_shift() {
    let keys = 100_000;
    let seed = 20;
    for slots in SLOTS.iter().copied().filter(|slots| *slots >= 32) {
        let shifted = [Variant::Array, Variant::CircTree].map(|variant| {
            let mut random = StdRng::seed_from_u64(seed);
            let (pool, tree) = counted(slots, variant);
            (0..keys).for_each(|_| assert!(tree.insert(random.random(), 1).unwrap()));
            assert_sound(&pool, &*tree);
            pool.media().counts()
        });
        let [in_arrays, in_rings] = [0, 1].map(|i| shifted[i].event(Counter::EntriesShifted));
        let [array_barriers, ring_barriers] = [0, 1].map(|i| barriers(&shifted[i]));
        let factor = in_arrays as f64 / in_rings as f64;
        println!(
            "{slots} entries a node, {keys} keys, seed {seed}: shifted {in_arrays} / {in_rings} = {factor:.3}; flushes and fences {array_barriers:?} / {ring_barriers:?}"
        );
        assert!((1.85..2.02).contains(&factor), "{slots} entries: {factor}, seed {seed}");
    }
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
        assert_eq!(cost(&|| assert!(tree.insert(key * 10 + 100, 1).unwrap())), (2, 2), "at the end");
    }
    assert_eq!(cost(&|| assert!(tree.insert(95, 1).unwrap())), (2, 2), "before the first: slot 31");
    // 95 moves to slot 30, the new one to slot 31: one line.
    assert_eq!(cost(&|| assert!(tree.insert(96, 1).unwrap())), (2, 2), "one entry in the same line");
    // 95 and 96 move to slots 29 and 30, 100 to 31, and the new one to slot 0: two lines.
    assert_eq!(cost(&|| assert!(tree.insert(105, 1).unwrap())), (3, 3), "two lines");
    assert_eq!(cost(&|| assert_eq!(tree.update(105, 2).unwrap(), Some(1))), (1, 1));
    assert_eq!(cost(&|| assert_eq!(tree.remove(95).unwrap(), Some(1))), (1, 1), "the first");
    assert_eq!(cost(&|| assert_eq!(tree.remove(250).unwrap(), Some(1))), (1, 1), "the last");
    assert_eq!(cost(&|| assert_eq!(tree.remove(105).unwrap(), Some(2))), (3, 3), "96 and 100 move up, over two lines");
    assert_eq!(cost(&|| assert_eq!(tree.get(110).unwrap(), Some(1))), (0, 0));
}
