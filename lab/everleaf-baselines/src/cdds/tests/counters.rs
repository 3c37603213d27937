//! Exact numbers: flushes and fences are those of a model that has lists of keys and neither
//! versions, media nor lines.

use std::ops::RangeInclusive;

use everleaf_conformance::{Opened, assert_sound, counting};
use everleaf_crash::Instrumented;
use everleaf_index::U64Keys;
use everleaf_pool::Pool;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::Parameters;

#[derive(Clone, Copy, PartialEq)]
enum Holds {
    Still,
    UntilThisOperation,
    NoMore,
}

/// An entry of the model; that of an inner node has a child while it is live.
struct Listed {
    key: u64,
    holds: Holds,
    child: Option<List>,
}

impl Listed {
    fn new(key: u64, child: Option<List>) -> Self {
        Self { key, holds: Holds::Still, child }
    }
}

type List = Vec<Listed>;

/// Barriers of an operation: lines of moves, of ends in a line of their own, of fresh nodes, and
/// fences between lines of moves.
#[derive(Clone, Copy, Default)]
struct Cost {
    moved: usize,
    ended: usize,
    fresh: usize,
    between: usize,
}

impl Cost {
    /// Flushes and fences. The commit flushes a line, and is fenced before and after.
    fn barriers(self) -> (usize, usize) {
        (self.moved + self.ended + self.fresh + 1, self.between + 2)
    }
}

/// What the tree is to flush, from its algorithm alone. Two entries are a line.
struct Predicted {
    root: List,
    slots: usize,
    /// Of all operations.
    total: Cost,
}

impl Predicted {
    fn new(slots: usize) -> Self {
        Self { root: Vec::new(), slots, total: Cost::default() }
    }

    fn is_free(&self, list: &List) -> bool {
        self.slots - list.iter().filter(|entry| entry.holds != Holds::NoMore).count() >= 2
    }

    /// Puts an entry where its key belongs, and returns the slots that are written.
    fn place(&self, cost: &mut Cost, list: &mut List, new: Listed) -> RangeInclusive<usize> {
        let at = list.partition_point(|entry| entry.key <= new.key);
        let is_dead = |slot: &usize| list[*slot].holds == Holds::NoMore;
        let above = (at..list.len()).find(is_dead);
        let below = (0..at).rev().find(is_dead);
        let slots = match (above, below) {
            (Some(free), _) => {
                list.remove(free);
                list.insert(at, new);
                at..=free
            }
            (None, _) if list.len() < self.slots => {
                list.insert(at, new);
                at..=list.len() - 1
            }
            (None, Some(free)) => {
                list.remove(free);
                list.insert(at - 1, new);
                free..=at - 1
            }
            (None, None) => panic!("no slot is free"),
        };
        let lines = slots.end() / 2 - slots.start() / 2 + 1;
        cost.moved += lines;
        cost.between += lines - 1;
        slots
    }

    /// The line in which the end of an entry is stored, unless one of the moves has it.
    fn end(cost: &mut Cost, list: &mut List, slot: usize, written: &[RangeInclusive<usize>]) {
        let has_line = |slots: &RangeInclusive<usize>| {
            (slots.start() / 2..=slots.end() / 2).contains(&(slot / 2))
        };
        cost.ended += usize::from(!written.iter().any(has_line));
        let ended = list.iter_mut().filter(|entry| entry.holds == Holds::UntilThisOperation);
        ended.for_each(|entry| entry.holds = Holds::NoMore);
    }

    /// Live entries in two fresh nodes, and the entries that lead to them.
    fn halves(&self, cost: &mut Cost, live: List) -> [Listed; 2] {
        let mut low = live;
        let high = low.split_off(low.len().div_ceil(2));
        cost.fresh += 2 * (self.slots / 2);
        [low, high].map(|half| Listed::new(half[0].key, Some(half)))
    }

    /// Puts a key into a node; the two nodes that take its place, if it is split.
    fn put(&self, cost: &mut Cost, list: &mut List, key: u64) -> Option<[Listed; 2]> {
        let live = |entry: &Listed| entry.holds == Holds::Still;
        if !list.iter().any(|entry| entry.child.is_some()) {
            if self.is_free(list) {
                self.place(cost, list, Listed::new(key, None));
                return None;
            }
            let mut all: List = std::mem::take(list).into_iter().filter(live).collect();
            all.insert(all.partition_point(|entry| entry.key < key), Listed::new(key, None));
            return Some(self.halves(cost, all));
        }
        let belongs = list.iter().rposition(|entry| live(entry) && entry.key <= key);
        let slot = belongs.or(list.iter().position(live)).unwrap();
        let [mut low, high] = self.put(cost, list[slot].child.as_mut().unwrap(), key)?;
        low.key = low.key.min(list[slot].key);
        if self.is_free(list) {
            (list[slot].holds, list[slot].child) = (Holds::UntilThisOperation, None);
            let written = [high, low].map(|new| self.place(cost, list, new));
            Self::end(cost, list, slot, &written);
            return None;
        }
        let mut all = std::mem::take(list);
        all.splice(slot..=slot, [low, high]);
        Some(self.halves(cost, all.into_iter().filter(live).collect()))
    }

    fn insert(&mut self, key: u64) -> (usize, usize) {
        let (mut cost, mut root) = (Cost::default(), std::mem::take(&mut self.root));
        if let Some(halves) = self.put(&mut cost, &mut root, key) {
            cost.fresh += self.slots / 2;
            root = Vec::from(halves);
        }
        self.root = root;
        self.add(cost)
    }

    fn update(&mut self, key: u64) -> (usize, usize) {
        let (mut cost, mut root) = (Cost::default(), std::mem::take(&mut self.root));
        let mut list = &mut root;
        while list.iter().any(|entry| entry.child.is_some()) {
            let live = |entry: &Listed| entry.holds == Holds::Still;
            let belongs = list.iter().rposition(|entry| live(entry) && entry.key <= key);
            let slot = belongs.or(list.iter().position(live)).unwrap();
            list = list[slot].child.as_mut().unwrap();
        }
        let slot = list.partition_point(|entry| entry.key <= key) - 1;
        assert!(list[slot].key == key && list[slot].holds == Holds::Still);
        list[slot].holds = Holds::UntilThisOperation;
        let written = self.place(&mut cost, list, Listed::new(key, None));
        Self::end(&mut cost, list, slot, &[written]);
        self.root = root;
        self.add(cost)
    }

    fn add(&mut self, cost: Cost) -> (usize, usize) {
        self.total.moved += cost.moved;
        self.total.ended += cost.ended;
        self.total.fresh += cost.fresh;
        self.total.between += cost.between;
        cost.barriers()
    }
}

fn counted(slots: usize) -> Opened<U64Keys, Instrumented> {
    counting::counted(Parameters { slots: slots as u64, ..Parameters::default() })
}

fn flushes_and_fences(pool: &Pool<Instrumented>) -> (usize, usize) {
    let (flushes, fences) = counting::cost(pool);
    (flushes as usize, fences as usize)
}

#[test]
fn each_insertion_and_update_flushes_what_the_model_says() {
    for slots in [4, 16, 32, 128] {
        let seed = 45;
        let mut random = StdRng::seed_from_u64(seed);
        let (pool, tree) = counted(slots);
        let mut predicted = Predicted::new(slots);
        let mut keys: Vec<u64> = Vec::new();
        for i in 0..3000 {
            let key = random.random();
            assert!(tree.insert(key, i).unwrap());
            let expected = predicted.insert(key);
            assert_eq!(flushes_and_fences(&pool), expected, "{slots} slots, key {i}");
            keys.push(key);
            for _ in 0..2 {
                let key = keys[random.random_range(0..keys.len())];
                assert!(tree.update(key, i).unwrap().is_some());
                let expected = predicted.update(key);
                assert_eq!(flushes_and_fences(&pool), expected, "{slots} slots, update {i}");
            }
        }
        assert!(tree.update(random.random(), 1).unwrap().is_none());
        assert!(!tree.insert(keys[0], 1).unwrap());
        assert!(tree.remove(random.random()).unwrap().is_none());
        assert_eq!(flushes_and_fences(&pool), (0, 0));
        assert_sound(&pool, &*tree);
    }
}

#[test]
fn operations_on_one_leaf_and_its_end_go_by_the_numbers() {
    let (pool, tree) = counted(8);
    let costs = |flushes, fences| assert_eq!(flushes_and_fences(&pool), (flushes, fences));
    // Slot 0: its line, and the commit; before the commit and after it.
    assert!(tree.insert(50, 1).unwrap());
    costs(1 + 1, 2);
    // Slot 0 again, and 50 moves to slot 1: the same line.
    assert!(tree.insert(40, 1).unwrap());
    costs(1 + 1, 2);
    // Slot 0, and 50 moves to slot 2: two lines, and a fence between.
    assert!(tree.insert(30, 1).unwrap());
    costs(2 + 1, 3);
    // 50 ends in slot 2, and goes on in slot 3.
    assert_eq!(tree.update(50, 2).unwrap(), Some(1));
    costs(1 + 1, 2);
    // 50 ends in slot 3, and goes on in slot 4.
    assert_eq!(tree.update(50, 3).unwrap(), Some(2));
    costs(2 + 1, 2);
    // 40 ends in slot 1, and goes on in slot 2, which has what 50 was first.
    assert_eq!(tree.update(40, 2).unwrap(), Some(1));
    costs(2 + 1, 2);
    // An end, and the commit.
    assert_eq!(tree.remove(30).unwrap(), Some(1));
    costs(1 + 1, 2);
    // The last key of the only leaf: the same.
    assert_eq!(tree.remove(40).unwrap(), Some(2));
    assert_eq!(tree.remove(50).unwrap(), Some(3));
    costs(2 * (1 + 1), 4);
    assert_sound(&pool, &*tree);
}

#[test]
fn a_split_and_the_end_of_a_root_go_by_the_numbers() {
    let (pool, tree) = counted(4);
    (1..=3).for_each(|key| assert!(tree.insert(key * 10, key).unwrap()));
    flushes_and_fences(&pool);
    // Three live entries are a full leaf. Two lines of each half, two of the root, and the commit.
    assert!(tree.insert(40, 4).unwrap());
    assert_eq!(flushes_and_fences(&pool), (3 * 2 + 1, 2));
    assert_eq!(tree.statistics().height, 2);
    assert!(tree.insert(50, 5).unwrap());
    flushes_and_fences(&pool);
    // The second half is split. Two lines of each, and two entries for the one in slot 1 of the
    // root, where it ends: in slots 2 and 3, by a move each, that to slot 3 first.
    assert!(tree.insert(60, 6).unwrap());
    assert_eq!(flushes_and_fences(&pool), (2 * 2 + 1 + 1 + 1 + 1, 2));
    // The first leaf goes: the end of its entry.
    assert_eq!(tree.remove(10).unwrap(), Some(1));
    assert_eq!(tree.remove(20).unwrap(), Some(2));
    assert_eq!(flushes_and_fences(&pool), (2 * 2, 2 * 2));
    // The next one goes, and the root with it: the commit alone.
    assert_eq!(tree.remove(30).unwrap(), Some(3));
    assert_eq!(flushes_and_fences(&pool), (2, 2));
    assert_eq!(tree.remove(40).unwrap(), Some(4));
    assert_eq!(flushes_and_fences(&pool), (1, 1));
    assert_eq!(tree.statistics().height, 1);
    assert_sound(&pool, &*tree);
}

/// Lines an insertion and an update, for each size of the node; rows of docs/trees/cdds.md.
fn lines_an_operation(keys: u64) {
    let seed = 24;
    println!("{keys} uniform keys, seed {seed}");
    for slots in [16, 32, 64, 128] {
        let mut random = StdRng::seed_from_u64(seed);
        let (pool, tree) = counted(slots);
        let mut predicted = Predicted::new(slots);
        let drawn: Vec<u64> = (0..keys).map(|_| random.random()).collect();
        for phase in ["insert", "update"] {
            predicted.total = Cost::default();
            let mut expected = (0, 0);
            for key in &drawn {
                let (flushes, fences) = if phase == "insert" {
                    assert!(tree.insert(*key, 1).unwrap());
                    predicted.insert(*key)
                } else {
                    assert!(tree.update(*key, 2).unwrap().is_some());
                    predicted.update(*key)
                };
                expected = (expected.0 + flushes, expected.1 + fences);
            }
            assert_sound(&pool, &*tree);
            let found = flushes_and_fences(&pool);
            assert_eq!(found, expected, "{slots} slots, seed {seed}");
            let each = |count: usize| count as f64 / keys as f64;
            let total = predicted.total;
            println!(
                "| {phase} | {slots} | {} | {:.3} | {:.3} | {:.3} | {:.3} | {:.3} |",
                slots * 32,
                each(found.0),
                each(total.moved + total.ended),
                each(total.fresh),
                100.0 * each(total.moved + total.ended) / each(found.0),
                each(found.1),
            );
        }
    }
}

#[test]
fn many_operations_flush_what_the_model_says() {
    lines_an_operation(20_000);
}

#[test]
#[ignore = "a minute: prints the rows of docs/trees/cdds.md"]
fn a_million_operations_flush_what_the_model_says() {
    lines_an_operation(1_000_000);
}
