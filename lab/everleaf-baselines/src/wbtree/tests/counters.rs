//! Exact numbers: flushes and fences are those of a model that has sorted lists and no tree, no
//! media and no log.

use everleaf_conformance::{Opened, assert_sound, counting};
use everleaf_crash::Instrumented;
use everleaf_index::U64Keys;
use everleaf_pool::Pool;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{Parameters, TINY, Variant, Wb};

/// A node of the model. The first key of one with children means nothing.
#[derive(Default)]
struct Sorted {
    keys: Vec<u64>,
    children: Vec<Sorted>,
}

/// Flushes and fences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cost {
    flushes: usize,
    fences: usize,
}

/// What the tree is to flush, from its algorithm alone.
struct Predicted {
    root: Sorted,
    slots: usize,
    has_bitmap: bool,
    /// Nodes that are left in the last run, and of a run.
    left_in_run: usize,
    of_run: usize,
    /// Lines of the change that the log has.
    logged: usize,
    splits: usize,
}

impl Predicted {
    /// After the creation, which took a node.
    fn new(variant: Variant, slots: usize, group_bytes: usize) -> Self {
        let has_bitmap = variant == Variant::Bitmap;
        let node_bytes = ((if has_bitmap { 10 } else { 2 }) + 2 * slots).div_ceil(8) * 64;
        let of_run = group_bytes / node_bytes - 1;
        let (root, left_in_run) = (Sorted::default(), of_run - 1);
        Self { root, slots, has_bitmap, left_in_run, of_run, logged: 1, splits: 0 }
    }

    /// The first change after one of the structure forgets it.
    fn forgets(&mut self) -> usize {
        usize::from(std::mem::take(&mut self.logged) > 0)
    }

    /// Lines of a fresh node with so many entries.
    fn fresh(&self, entries: usize) -> usize {
        ((if self.has_bitmap { 10 } else { 2 }) + 2 * entries).div_ceil(8)
    }

    /// What takes so many nodes: how many heads of runs change, and how many runs are new.
    fn take(&mut self, nodes: usize) -> (usize, usize) {
        let (from_last, more) = (self.left_in_run.min(nodes), nodes > self.left_in_run);
        if !more {
            self.left_in_run -= nodes;
            return (1, 0);
        }
        self.left_in_run = self.of_run - (nodes - from_last);
        (1 + usize::from(from_last > 0), 1)
    }

    /// A split of a node below one that has so many entries then, of which the new one is at
    /// `slot`; or of the root.
    fn split(&mut self, entries: usize, above: Option<(usize, usize)>) -> Cost {
        self.splits += 1;
        let upper = entries - entries.div_ceil(2);
        let (heads, runs) = self.take(1 + usize::from(above.is_none()));
        let bitmap_words = if self.has_bitmap { 2 } else { 0 };
        let bitmap_lines = usize::from(self.has_bitmap);
        // The count of the old node is in the first word of its slot array.
        let mut words = 2 + bitmap_words + 2 * heads;
        let mut placed = 1 + bitmap_lines + heads;
        let mut fresh = self.fresh(upper);
        match above {
            Some((count, slot)) => {
                // The places from the new one on, and the count before them.
                words += 1 + (if slot < count { count / 8 + 1 } else { 1 }) + bitmap_words;
                placed += 1 + bitmap_lines;
                fresh += 1;
            }
            None => {
                words += 2;
                placed += 1;
                fresh += self.fresh(2);
            }
        }
        let log_lines = (1 + words).div_ceil(8);
        // A fence more where both have further lines.
        let fences = 3 + usize::from(self.logged > 1 && log_lines > 1);
        let forgets = self.forgets();
        self.logged = log_lines;
        Cost { flushes: runs + fresh + log_lines + placed + forgets, fences }
    }

    /// An insertion: what is full on the way is split from the top down.
    fn insert(&mut self, key: u64) -> Cost {
        let mut cost = Cost::default();
        let mut add = |more: Cost| {
            cost.flushes += more.flushes;
            cost.fences += more.fences;
        };
        let mut root = std::mem::take(&mut self.root);
        while let Some(depth) = self.full_from(&root, key) {
            add(self.split_at(&mut root, key, depth));
        }
        let mut leaf = &mut root;
        while !leaf.children.is_empty() {
            let child = child_of(leaf, key);
            leaf = &mut leaf.children[child];
        }
        let at = leaf.keys.partition_point(|other| *other < key);
        leaf.keys.insert(at, key);
        self.root = root;
        let (flushes, fences) = if self.has_bitmap { (4, 3) } else { (2, 2) };
        add(Cost { flushes: flushes + self.forgets(), fences });
        cost
    }

    /// At which depth the full nodes begin that end in the leaf of a key.
    fn full_from(&self, root: &Sorted, key: u64) -> Option<usize> {
        let (mut node, mut from) = (root, None);
        for depth in 0.. {
            let is_full = node.keys.len() == self.slots;
            from = if is_full { from.or(Some(depth)) } else { None };
            if node.children.is_empty() {
                break;
            }
            node = &node.children[child_of(node, key)];
        }
        from
    }

    fn split_at(&mut self, root: &mut Sorted, key: u64, depth: usize) -> Cost {
        if depth == 0 {
            let cost = self.split(self.slots, None);
            let mut left = std::mem::take(root);
            let (first, right) = halve(&mut left);
            *root = Sorted { keys: vec![0, first], children: vec![left, right] };
            return cost;
        }
        let mut above = root;
        for _ in 1..depth {
            let child = child_of(above, key);
            above = &mut above.children[child];
        }
        let slot = child_of(above, key) + 1;
        let (first, right) = halve(&mut above.children[slot - 1]);
        above.keys.insert(slot, first);
        above.children.insert(slot, right);
        let count = above.keys.len();
        self.split(self.slots, Some((count, slot)))
    }
}

/// The child that a key belongs to.
fn child_of(node: &Sorted, key: u64) -> usize {
    node.keys[1..].partition_point(|other| *other <= key)
}

/// Cuts the upper half off; its first key, and itself.
fn halve(node: &mut Sorted) -> (u64, Sorted) {
    let stay = node.keys.len().div_ceil(2);
    let keys = node.keys.split_off(stay);
    let children =
        if node.children.is_empty() { Vec::new() } else { node.children.split_off(stay) };
    (keys[0], Sorted { keys, children })
}

fn counted(variant: Variant, parameters: Parameters) -> Opened<U64Keys, Instrumented> {
    counting::counted(Wb(variant, parameters))
}

/// Those of the tree since they were asked for, without those of the pool.
fn cost(pool: &Pool<Instrumented>) -> Cost {
    let (flushes, fences) = counting::cost(pool);
    Cost { flushes: flushes as usize, fences: fences as usize }
}

const fn of(flushes: usize, fences: usize) -> Cost {
    Cost { flushes, fences }
}

#[test]
fn each_insertion_and_update_flushes_what_the_model_says() {
    let sizes = [(Variant::Slot, 4), (Variant::Slot, 7)];
    let more = [4, 7, 16, 63].map(|slots| (Variant::Bitmap, slots));
    for (variant, slots) in sizes.into_iter().chain(more) {
        let seed = 44;
        let mut random = StdRng::seed_from_u64(seed);
        let parameters = Parameters { leaf_slots: slots as u64, ..TINY };
        let (pool, tree) = counted(variant, parameters);
        let mut predicted = Predicted::new(variant, slots, 4096);
        for i in 0..3000 {
            let key = random.random();
            assert!(tree.insert(key, i).unwrap());
            assert_eq!(cost(&pool), predicted.insert(key), "{variant:?} {slots}, key {i}");
            if i % 7 == 0 {
                assert_eq!(tree.update(key, i).unwrap(), Some(i));
                assert_eq!(cost(&pool), of(1, 1));
            }
        }
        assert!(tree.update(random.random(), 1).unwrap().is_none());
        assert!(tree.remove(random.random()).unwrap().is_none());
        assert_eq!(cost(&pool), of(0, 0));
        assert_sound(&pool, &*tree);
    }
}

#[test]
fn an_insertion_flushes_twice_or_four_times_without_a_split() {
    for (variant, insert, remove) in
        [(Variant::Slot, of(2, 2), of(1, 1)), (Variant::Bitmap, of(4, 3), of(3, 3))]
    {
        let slots = variant_slots(variant);
        let (pool, tree) = counted(variant, Parameters { leaf_slots: slots, ..TINY });
        // The first one forgets the change that has made the root.
        assert!(tree.insert(0, 0).unwrap());
        assert_eq!(cost(&pool), of(insert.flushes + 1, insert.fences));
        for key in 1..slots {
            assert!(tree.insert(key * 37 % 101, 1).unwrap());
            assert_eq!(cost(&pool), insert);
        }
        assert!(!tree.insert(37, 1).unwrap());
        assert_eq!(cost(&pool), of(0, 0));
        for key in 1..slots {
            assert_eq!(tree.remove(key * 37 % 101).unwrap(), Some(1));
            assert_eq!(cost(&pool), remove);
        }
        // The root stays, empty.
        assert_eq!(tree.remove(0).unwrap(), Some(0));
        assert_eq!(cost(&pool), remove);
    }
}

fn variant_slots(variant: Variant) -> u64 {
    if variant == Variant::Slot { 7 } else { 63 }
}

#[test]
fn values_of_several_words_are_replaced_as_they_are_inserted() {
    // An entry of four words: that of place 0 or 2 lies in one line, that of place 1 in two.
    for (variant, one_line, two_lines) in
        [(Variant::Slot, of(2, 2), of(3, 2)), (Variant::Bitmap, of(4, 3), of(5, 3))]
    {
        let (pool, tree) = counted(variant, Parameters { value_words: 3, ..TINY });
        tree.insert_words(1, &[1, 1, 1]).unwrap();
        assert_eq!(cost(&pool), of(one_line.flushes + 1, one_line.fences));
        tree.insert_words(2, &[2, 2, 2]).unwrap();
        assert_eq!(cost(&pool), two_lines);
        let mut old = [0; 3];
        assert!(tree.update_words(2, &[4, 5, 6], &mut old).unwrap());
        assert_eq!((old, cost(&pool)), ([2; 3], one_line));
        // The place that it has left is free again.
        assert!(tree.update_words(1, &[7, 8, 9], &mut old).unwrap());
        assert_eq!((old, cost(&pool)), ([1; 3], two_lines));
    }
}

#[test]
fn the_end_of_a_leaf_and_of_the_root_flush_what_they_change() {
    for (variant, plain, leaf, root) in [
        // The log has the slot array above, the list of free nodes, and the node that comes into
        // it; then the root, the list, and two nodes.
        (Variant::Slot, of(1, 1), of(1 + 3, 2), of(2 + 3, 3)),
        (Variant::Bitmap, of(3, 3), of(2 + 4, 3), of(2 + 3, 3)),
    ] {
        // Leaves of 2, 2 and 3 keys below the root.
        let (pool, tree) = counted(variant, TINY);
        (1..=7).for_each(|key| assert!(tree.insert(key * 10, key).unwrap()));
        assert_eq!((tree.statistics().leaves, tree.statistics().height), (3, 2));
        cost(&pool);
        let forgetting = of(plain.flushes + 1, plain.fences);
        let removals = [(10, plain), (20, leaf), (30, forgetting), (40, root), (50, forgetting)];
        for (key, expected) in removals {
            assert_eq!(tree.remove(key).unwrap(), Some(key / 10));
            assert_eq!(cost(&pool), expected, "{variant:?}, {key}");
        }
        assert_eq!((tree.statistics().leaves, tree.statistics().height), (1, 1));
        assert_sound(&pool, &*tree);
    }
}

/// Lines an insertion; rows of docs/trees/wbtree.md.
fn lines_an_insertion(keys: u64) {
    let seed = 24;
    println!("{keys} uniform keys, seed {seed}");
    for (variant, slots) in
        [(Variant::Slot, 7), (Variant::Bitmap, 16), (Variant::Bitmap, 31), (Variant::Bitmap, 63)]
    {
        let mut random = StdRng::seed_from_u64(seed);
        let parameters = Parameters { leaf_slots: slots, group_bytes: 256 << 10, ..TINY };
        let (pool, tree) = counted(variant, parameters);
        let mut predicted = Predicted::new(variant, slots as usize, 256 << 10);
        let mut expected = Cost::default();
        for _ in 0..keys {
            let key = random.random();
            assert!(tree.insert(key, 1).unwrap());
            let more = predicted.insert(key);
            expected.flushes += more.flushes;
            expected.fences += more.fences;
        }
        assert_sound(&pool, &*tree);
        assert_eq!(cost(&pool), expected, "{variant:?} {slots}, seed {seed}");
        let each = |count: usize| count as f64 / keys as f64;
        println!(
            "| {variant:?} | {slots} | {:.3} | {:.3} | {:.4} |",
            each(expected.flushes),
            each(expected.fences),
            each(predicted.splits),
        );
    }
}

#[test]
fn many_insertions_flush_what_the_model_says() {
    lines_an_insertion(20_000);
}

#[test]
#[ignore = "a minute: prints the rows of docs/trees/wbtree.md"]
fn a_million_insertions_flush_what_the_model_says() {
    lines_an_insertion(1_000_000);
}
