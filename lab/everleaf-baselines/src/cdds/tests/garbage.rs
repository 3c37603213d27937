//! What has ended is used again: a tree whose keys and values change for long takes no more room.

use everleaf_conformance::{assert_sound, dram_pool, opened};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::{Parameters, TINY};

/// Keys that are there at a time.
const KEYS: u64 = 2000;

/// Nodes in use after each round of a churn, and bytes of the pool that the tree has at the end.
fn churned(slots: u64, rounds: u64, mut change: impl FnMut(&Tree, u64)) -> (Vec<u64>, u64) {
    let parameters = Parameters { slots, ..TINY };
    let pool = dram_pool(parameters, 64 << 20);
    let tree = opened(parameters, &pool);
    (0..KEYS).for_each(|key| assert!(tree.insert(key * 16, 0).unwrap()));
    let nodes = (0..rounds).map(|round| {
        change(&*tree, round);
        let statistics = tree.statistics();
        statistics.leaves + statistics.inner_nodes
    });
    let nodes: Vec<u64> = nodes.collect();
    assert_sound(&pool, &*tree);
    (nodes, tree.statistics().pm_bytes)
}

type Tree = dyn everleaf_index::Index<everleaf_index::U64Keys>;

#[test]
fn updates_alone_take_no_node() {
    for slots in [4, 16] {
        let mut random = StdRng::seed_from_u64(1);
        let (nodes, _) = churned(slots, 50, |tree, round| {
            (0..KEYS).for_each(|_| {
                let key = random.random_range(0..KEYS) * 16;
                assert!(tree.update(key, round).unwrap().is_some());
            });
        });
        assert!(nodes.iter().all(|count| *count == nodes[0]), "{slots} slots: {nodes:?}");
    }
}

#[test]
fn keys_that_come_and_go_leave_a_bounded_number_of_nodes() {
    for slots in [4, 16] {
        let mut random = StdRng::seed_from_u64(2);
        let mut present: Vec<u64> = (0..KEYS).map(|key| key * 16).collect();
        let (nodes, bytes) = churned(slots, 50, |tree, round| {
            present.shuffle(&mut random);
            for key in present.drain(..KEYS as usize / 2) {
                assert!(tree.remove(key).unwrap().is_some());
            }
            while present.len() < KEYS as usize {
                let key = random.random_range(0..KEYS * 16);
                if tree.insert(key, round).unwrap() {
                    present.push(key);
                }
            }
        });
        println!("{slots} slots: {nodes:?} nodes in use, {bytes} bytes");
        // Nodes are not merged, so a leaf may have few keys; none grows with the rounds.
        let later = nodes[10..].iter().max().unwrap();
        assert!(*later <= nodes[9] * 11 / 10, "{slots} slots: {nodes:?}");
        let most = nodes.iter().max().unwrap() * slots * 32;
        assert!(bytes <= most * 5 / 4 + 8192, "{slots} slots: {bytes} bytes, {most} at the most");
    }
}

#[test]
fn a_tree_that_was_emptied_has_one_node_and_one_group() {
    let (nodes, bytes) = churned(4, 3, |tree, _| {
        (0..KEYS).for_each(|key| assert!(tree.remove(key * 16).unwrap().is_some()));
        assert_eq!((tree.len(), tree.statistics().height), (0, 1));
        (0..KEYS).for_each(|key| assert!(tree.insert(key * 16, 1).unwrap()));
        (0..KEYS).for_each(|key| assert!(tree.remove(key * 16).unwrap().is_some()));
        (0..KEYS).for_each(|key| assert!(tree.upsert(key * 16, 1).unwrap().is_none()));
    });
    assert!(nodes.iter().all(|count| *count == nodes[0]), "{nodes:?}");
    assert!(bytes < 1 << 20, "{bytes}");
}
