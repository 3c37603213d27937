//! Exact numbers: flushes and fences are those of a model that has sorted lists and no tree, no
//! media and no log.

use everleaf_conformance::{Opened, assert_sound, counting};
use everleaf_crash::Instrumented;
use everleaf_index::U64Keys;
use everleaf_pool::Pool;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{BOTH, Logging, Parameters};

/// A node of the model, whose first words are the first key and nothing where it is an inner one.
#[derive(Default)]
struct Sorted {
    keys: Vec<u64>,
    children: Vec<Sorted>,
}

/// What an operation flushes: words of the log, lines in place, lines of fresh nodes.
#[derive(Clone, Copy, Default)]
struct Cost {
    log_words: usize,
    placed: usize,
    fresh: usize,
}

/// What the tree is to flush, from its algorithm alone.
struct Predicted {
    root: Sorted,
    slots: usize,
    logging: Logging,
    placed_before: usize,
    /// By what they are for.
    log: usize,
    placed: usize,
    fresh: usize,
}

/// Lines of the elements `from..to` of a node, whose head is a line.
fn lines(from: usize, to: usize) -> usize {
    if from == to { 0 } else { (to * 24).div_ceil(64) - from * 24 / 64 }
}

impl Predicted {
    fn new(slots: usize, logging: Logging) -> Self {
        let (log, placed, fresh) = (0, 0, 0);
        // Of the creation the root's pointer is left, a line.
        Self { root: Sorted::default(), slots, logging, placed_before: 1, log, placed, fresh }
    }

    /// A node gets other elements in `from..to`, and another count.
    fn change(&self, cost: &mut Cost, from: usize, to: usize) {
        cost.placed += 1 + lines(from, to);
        cost.log_words += match self.logging {
            Logging::WholeNodes => 1 + (8 + 3 * self.slots).next_multiple_of(8),
            Logging::Ranges => 2 + if from == to { 0 } else { 1 + 3 * (to - from) },
        };
    }

    /// Puts a key into a node; the key and the node that come to its right, if it is split.
    fn put(&self, cost: &mut Cost, node: &mut Sorted, key: u64) -> Option<(u64, Sorted)> {
        let mut at = node.keys.partition_point(|other| *other < key);
        if !node.children.is_empty() {
            let child = node.keys[1..].partition_point(|other| *other <= key);
            let (key, right) = self.put(cost, &mut node.children[child], key)?;
            at = child + 1;
            node.keys.insert(at, key);
            node.children.insert(at, right);
        } else {
            node.keys.insert(at, key);
        }
        if node.keys.len() <= self.slots {
            self.change(cost, at, node.keys.len());
            return None;
        }
        let left = self.slots.div_ceil(2);
        let keys = node.keys.split_off(left);
        let children =
            if node.children.is_empty() { Vec::new() } else { node.children.split_off(left) };
        cost.fresh += 1 + lines(0, keys.len());
        self.change(cost, at.min(left), left);
        Some((keys[0], Sorted { keys, children }))
    }

    /// Flushes of an insertion.
    fn insert(&mut self, key: u64) -> usize {
        let (mut cost, mut root) = (Cost::default(), std::mem::take(&mut self.root));
        if let Some((key, right)) = self.put(&mut cost, &mut root, key) {
            cost.fresh += 1 + lines(0, 2);
            cost.placed += 1;
            cost.log_words += 2;
            root = Sorted { keys: vec![0, key], children: vec![root, right] };
        }
        self.root = root;
        self.flushes(cost)
    }

    /// Flushes of an update.
    fn update(&mut self) -> usize {
        let whole = 1 + (8 + 3 * self.slots).next_multiple_of(8);
        let log_words = if self.logging == Logging::WholeNodes { whole } else { 2 };
        self.flushes(Cost { log_words, placed: 1, fresh: 0 })
    }

    fn flushes(&mut self, cost: Cost) -> usize {
        let log = (1 + cost.log_words).div_ceil(8);
        let before = std::mem::replace(&mut self.placed_before, cost.placed);
        self.log += log;
        self.placed += before;
        self.fresh += cost.fresh;
        log + before + cost.fresh
    }
}

fn counted(slots: usize, logging: Logging) -> Opened<U64Keys, Instrumented> {
    counting::counted(Parameters { slots: slots as u64, logging, ..Parameters::default() })
}

fn flushes_and_fences(pool: &Pool<Instrumented>) -> (usize, usize) {
    let (flushes, fences) = counting::cost(pool);
    (flushes as usize, fences as usize)
}

#[test]
fn each_insertion_and_update_flushes_what_the_model_says() {
    for (slots, logging) in [4, 21, 32, 85].into_iter().flat_map(|n| BOTH.map(|log| (n, log))) {
        let seed = 44;
        let mut random = StdRng::seed_from_u64(seed);
        let (pool, tree) = counted(slots, logging);
        let mut predicted = Predicted::new(slots, logging);
        for i in 0..3000 {
            let key = random.random();
            assert!(tree.insert(key, i).unwrap());
            let expected = (predicted.insert(key), 2);
            assert_eq!(flushes_and_fences(&pool), expected, "{slots} {logging:?}, key {i}");
            if i % 7 == 0 {
                assert_eq!(tree.update(key, i).unwrap(), Some(i));
                assert_eq!(flushes_and_fences(&pool), (predicted.update(), 2));
            }
        }
        assert!(tree.update(random.random(), 1).unwrap().is_none());
        assert_eq!(flushes_and_fences(&pool), (0, 0));
        assert_sound(&pool, &*tree);
    }
}

#[test]
fn a_leaf_of_one_key_and_one_of_many_are_removed_from_by_the_numbers() {
    // Two leaves of 2 and 3 keys below the root; the operation before changed a head and an
    // element.
    let (pool, tree) = counted(4, Logging::Ranges);
    (1..=5).for_each(|key| assert!(tree.insert(key * 10, key).unwrap()));
    assert_eq!(tree.update(10, 7).unwrap(), Some(1));
    flushes_and_fences(&pool);
    // One word of the log for the commit, two for the count, seven for the elements behind.
    assert_eq!(tree.remove(30).unwrap(), Some(3));
    assert_eq!(flushes_and_fences(&pool), (2 + 1, 2));
    // The last but one of its leaf: nothing behind it. Two lines were changed before.
    assert_eq!(tree.remove(50).unwrap(), Some(5));
    assert_eq!(flushes_and_fences(&pool), (1 + 2, 2));
    // The leaf goes, and the root with it: its pointer.
    assert_eq!(tree.remove(40).unwrap(), Some(4));
    assert_eq!(flushes_and_fences(&pool), (1 + 1, 2));
    assert_eq!(tree.statistics().height, 1);
    assert_sound(&pool, &*tree);
}

/// Lines an insertion, for each size of the element array; rows of docs/trees/lcbtree.md.
fn lines_an_insertion(keys: u64) {
    let seed = 24;
    println!("{keys} uniform keys, seed {seed}");
    for (slots, logging) in [21, 42, 85, 170].into_iter().flat_map(|n| BOTH.map(|log| (n, log))) {
        let mut random = StdRng::seed_from_u64(seed);
        let (pool, tree) = counted(slots, logging);
        let mut predicted = Predicted::new(slots, logging);
        let mut expected = 0;
        for _ in 0..keys {
            let key = random.random();
            assert!(tree.insert(key, 1).unwrap());
            expected += predicted.insert(key);
        }
        assert_sound(&pool, &*tree);
        let found = flushes_and_fences(&pool);
        assert_eq!(found, (expected, 2 * keys as usize), "{slots} {logging:?}, seed {seed}");
        let each = |count: usize| count as f64 / keys as f64;
        println!(
            "| {slots} {logging:?} | {:.3} | {:.3} | {:.3} | {:.3} |",
            each(found.0),
            each(predicted.log),
            each(predicted.placed),
            each(predicted.fresh),
        );
    }
}

#[test]
fn many_insertions_flush_what_the_model_says() {
    lines_an_insertion(20_000);
}

#[test]
#[ignore = "a minute: prints the rows of docs/trees/lcbtree.md"]
fn a_million_insertions_flush_what_the_model_says() {
    lines_an_insertion(1_000_000);
}
