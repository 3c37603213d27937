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

fn counted(node_slots: u64) -> (Arc<Pool<Counted>>, Box<dyn Index<U64Keys>>) {
    let region = Region::anonymous(64 << 10, 1 << 30).unwrap();
    let media = Counted::new(Hardware::new(region, &Cpu::detect()).unwrap());
    let pool = Pool::create(media, &format(KeyType::U64, node_slots)).unwrap();
    let tree = create::<U64Keys, _>(&pool, Variant::CircTree).unwrap();
    pool.media().reset();
    (pool, tree)
}

/// Flushes and fences.
fn barriers(counts: &Counts) -> (u64, u64) {
    (counts.flushes.values().sum(), counts.fences.values().sum())
}

#[test]
fn descending_keys_shift_nothing() {
    let (pool, tree) = counted(256);
    for key in (0..256).rev() {
        assert!(tree.insert(key, !key).unwrap());
    }
    let counts = pool.media().counts();
    assert_eq!(counts.event(Counter::EntriesShifted), 0, "an array that begins at its first slot shifts 32,640");
    assert_eq!(tree.statistics().leaves, 1, "all of them in one node");
    assert_eq!(barriers(&counts), (512, 512));
    assert_sound(&pool, &*tree);
}

/// Leaves as arrays, and how many entries insertions shift: in an array that begins at its first slot, and in a ring.
struct Leaves {
    leaves: Vec<Vec<u64>>,
    slots: usize,
    in_arrays: u64,
    in_rings: u64,
}

impl Leaves {
    fn insert(&mut self, key: u64) {
        let mut at = self.leaves.partition_point(|leaf| leaf.first().is_none_or(|first| *first <= key)).saturating_sub(1);
        if self.leaves[at].len() == self.slots {
            let upper = self.leaves[at].split_off(self.slots / 2);
            self.leaves.insert(at + 1, upper);
            at += usize::from(self.leaves[at + 1][0] <= key);
        }
        let leaf = &mut self.leaves[at];
        let before = leaf.partition_point(|other| *other < key);
        let behind = leaf.len() - before;
        self.in_arrays += behind as u64;
        self.in_rings += before.min(behind) as u64;
        leaf.insert(before, key);
    }
}

#[test]
fn uniform_keys_shift_half_of_what_arrays_shift() {
    let seed = 20;
    let mut random = StdRng::seed_from_u64(seed);
    for slots in SLOTS.iter().copied().filter(|slots| *slots >= 32) {
        let (pool, tree) = counted(slots);
        let mut model = Leaves { leaves: vec![Vec::new()], slots: slots as usize, in_arrays: 0, in_rings: 0 };
        for _ in 0..100_000 {
            let key: u64 = random.random();
            model.insert(key);
            tree.insert(key, 1).unwrap();
        }
        let shifted = pool.media().counts().event(Counter::EntriesShifted);
        let factor = model.in_arrays as f64 / model.in_rings as f64;
        println!(
            "{slots} entries a node: {} / {} = {factor:.3}; the tree {shifted}; seed {seed}",
            model.in_arrays, model.in_rings
        );
        assert!((1.85..2.02).contains(&factor), "{slots} entries: {factor}, seed {seed}");
        // Inner nodes shift too, once in a split.
        assert!((1.0..1.2).contains(&(shifted as f64 / model.in_rings as f64)), "{shifted}, seed {seed}");
        assert_sound(&pool, &*tree);
    }
}

#[test]
fn an_operation_costs_what_the_first_page_says() {
    let (pool, tree) = counted(32);
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
