//! Byte strings: a tree that has its own records, against a map; and what an entry of one record
//! costs, as a store has them.

use std::sync::Arc;

use everleaf_conformance::full::fill_up;
use everleaf_conformance::model::{Action, Left, run_on};
use everleaf_conformance::{TestedTree, assert_sound, dram_pool, opened};
use everleaf_crash::Instrumented;
use everleaf_index::{BytesKeys, Index};
use everleaf_pmem::{Counter, Cpu, Mapped, Media, PPtr, Region};
use everleaf_pool::{EntryHead, Pool, Worker};
use everleaf_tree::key::{TestKey, TreeKey};
use everleaf_tree::parameters::ONE_RECORD;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::counters::totals;
use super::{OFFER, TINY, Tested, of_slots};
use crate::layout::OwnLog;

/// Scans in both directions from bounds of every kind.
fn scans() -> Vec<Action> {
    let froms = [0, 1, 300, 401, 402, 900].into_iter();
    let bounds = froms.flat_map(|from| [0, 1, 2].map(|bound| (from, bound)));
    let both = bounds.flat_map(|(from, bound)| [true, false].map(|forward| (from, bound, forward)));
    both.map(|(from, bound, forward)| Action::Scan { from, bound, forward, limit: usize::MAX })
        .collect()
}

/// Operations of which for a while few are removals, and then most.
fn in_waves(seed: u64) -> Vec<Action> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut actions = Vec::new();
    for step in 0..6000 {
        let number = random.random_range(0..1000);
        let removes = if step % 2000 < 1200 { 2 } else { 7 };
        actions.push(match random.random_range(0..10) {
            draw if draw < removes => Action::Remove(number),
            7 => Action::Update(number, step),
            8 => Action::Upsert(number, step),
            _ => Action::Insert(number, step),
        });
        if step % 1500 == 1499 {
            actions.extend(scans());
            actions.push(Action::Reopen(Left::Crashed));
        }
    }
    actions
}

#[test]
fn it_does_what_a_map_does() {
    for (seed, tested) in (0..).zip([8, 24, 60].map(of_slots)) {
        let pool = dram_pool::<BytesKeys>(tested, 64 << 20);
        let empty = run_on::<BytesKeys>(tested, pool, BytesKeys::make, &in_waves(seed));
        assert_eq!(empty.leaves, 1);
    }
}

/// Strings of 16 bytes whose hash is that of all others but for the lowest bit.
fn of_one_hash() -> impl Iterator<Item = [u8; 16]> {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    // Newton's iteration, each step of which doubles the bits that are right.
    let inverse = (0..6).fold(GOLDEN, |inverse, _| {
        inverse.wrapping_mul(2_u64.wrapping_sub(GOLDEN.wrapping_mul(inverse)))
    });
    let fold = |word: u64| word ^ word >> 32;
    // What the second word is mixed with, so that all together gives this hash.
    let before = move |hash: u64| fold(hash.wrapping_mul(inverse)).wrapping_mul(inverse);
    (0..).map(move |first: u64| {
        let mixed = fold((16 ^ first).wrapping_mul(GOLDEN));
        let second = mixed ^ before(0x1234_5678_9abc_def0 | (first % 2));
        let mut key = [0; 16];
        key[..8].copy_from_slice(&first.to_le_bytes());
        key[8..].copy_from_slice(&second.to_le_bytes());
        key
    })
}

/// Keys of one hash fill a window, which is split by the keys.
#[test]
fn strings_of_one_hash_are_told_apart() {
    let pool = dram_pool::<BytesKeys>(TINY, 64 << 20);
    let tree = opened::<BytesKeys>(TINY, &pool);
    let keys: Vec<_> = of_one_hash().take(200).collect();
    let hashes: Vec<u64> = keys.iter().map(|key| BytesKeys::hash(key).word()).collect();
    assert!(hashes.iter().all(|hash| hash | 1 == hashes[0] | 1));
    assert!(hashes.iter().any(|hash| *hash != hashes[0]), "nor by the bit that is left out");
    for (number, key) in (0..).zip(&keys) {
        assert!(tree.insert(key, number).unwrap());
        assert!(!tree.insert(key, number).unwrap());
    }
    assert_sound(&pool, &*tree);
    for (number, key) in (0..).zip(&keys) {
        assert_eq!(tree.get(key).unwrap(), Some(number));
        assert_eq!(tree.remove(key).unwrap(), Some(number));
        assert_eq!(tree.get(key).unwrap(), None);
    }
    assert_sound(&pool, &*tree);
}

/// A full pool refuses, and loses nothing.
#[test]
fn a_full_pool_refuses_strings_and_loses_nothing() {
    let pool = dram_pool::<BytesKeys>(TINY, 96 << 10);
    let filled = fill_up::<BytesKeys>(TINY, &pool, BytesKeys::unique, 1);
    assert_eq!(filled.empty.leaves, 1);
}

/// A tree below a store, and records for it that are counted by nobody.
struct Linked {
    pool: Arc<Pool<Instrumented>>,
    worker: Worker<Instrumented>,
    tree: Box<dyn Index<BytesKeys>>,
}

impl Linked {
    fn new() -> Self {
        let region = Region::anonymous(1 << 20, 256 << 20).unwrap();
        let media = Instrumented::counting(Mapped::new(region, &Cpu::detect()).unwrap());
        let tuned = Tested(OFFER.tuned);
        let mut format = TestedTree::<BytesKeys>::format(tuned);
        format.parameters[ONE_RECORD] = 1;
        let pool = Pool::create(media, &format).unwrap();
        Self { worker: pool.worker().unwrap(), tree: opened(tuned, &pool), pool }
    }

    fn record(&mut self, key: &[u8]) -> u64 {
        let cell = &self.pool.index_root::<OwnLog>().unwrap().new;
        let head = EntryHead::of(key.len(), false).to_bytes();
        self.worker.alloc_entry_into(cell, &[&head, key]).unwrap();
        let record = self.pool.media().load(cell).offset();
        self.pool.media().store(cell, PPtr::NULL);
        record
    }

    /// Flushes and fences of the tree in one operation, without those of the pool and of groups.
    fn cost(&self, operation: impl FnOnce(&dyn Index<BytesKeys>)) -> (u64, u64) {
        self.pool.media().reset();
        operation(&*self.tree);
        totals(&self.pool.media().counts())
    }
}

fn user(number: u64) -> Box<[u8]> {
    format!("user{:020}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).into_bytes().into()
}

#[test]
fn operations_cost_what_the_page_says() {
    let mut linked = Linked::new();
    for number in 0..20 {
        let (key, record) = (user(number), linked.record(&user(number)));
        let cost = linked.cost(|tree| assert!(tree.insert(&key, record).unwrap()));
        assert_eq!(cost, (1, 1));
    }
    let (key, record) = (user(3), linked.record(&user(3)));
    assert_eq!(linked.cost(|tree| assert!(!tree.insert(&key, record).unwrap())), (0, 0));
    let updated = |tree: &dyn Index<BytesKeys>| {
        assert!(tree.update(&key, record).unwrap().is_some());
    };
    assert_eq!(linked.cost(updated), (1, 1));
    let upserted = |tree: &dyn Index<BytesKeys>| {
        assert_eq!(tree.upsert(&key, record).unwrap(), Some(record));
    };
    assert_eq!(linked.cost(upserted), (1, 1));
    let got = |tree: &dyn Index<BytesKeys>| assert_eq!(tree.get(&key).unwrap(), Some(record));
    assert_eq!(linked.cost(got), (0, 0));
    let removed = |tree: &dyn Index<BytesKeys>| {
        assert_eq!(tree.remove(&key).unwrap(), Some(record));
    };
    assert_eq!(linked.cost(removed), (1, 1));
    let absent = |tree: &dyn Index<BytesKeys>| assert_eq!(tree.remove(&key).unwrap(), None);
    assert_eq!(linked.cost(absent), (0, 0));
}

#[test]
fn splits_and_the_end_of_a_leaf_cost_what_the_page_says() {
    let (mut linked, mut splits) = (Linked::new(), 0);
    // Ascending keys move nothing.
    let ascending = |number: u64| format!("{number:04}").into_bytes();
    for number in 0..100 {
        let (key, record) = (ascending(number), linked.record(&ascending(number)));
        let cost = linked.cost(|tree| assert!(tree.insert(&key, record).unwrap()));
        if linked.pool.media().counts().event(Counter::LeafSplits) == 1 {
            assert_eq!(cost, (1 + 16, 1 + 2));
            splits += 1;
        }
    }
    assert!(splits >= 1);
    for number in 0..200 {
        let key = [&*ascending(number % 100), &ascending(number)].concat();
        let record = linked.record(&key);
        let (flushes, fences) = linked.cost(|tree| assert!(tree.insert(&key, record).unwrap()));
        if linked.pool.media().counts().event(Counter::LeafSplits) == 1 {
            assert!((1 + 16 + 2..=1 + 16 + 16).contains(&flushes), "{flushes}");
            assert_eq!(fences, 1 + 2 + 1);
            splits += 1;
        }
    }
    assert!(splits >= 3);
    let mut ends = 0;
    for number in 0..100 {
        let before = linked.tree.statistics().leaves;
        let key = ascending(number);
        let cost = linked.cost(|tree| assert!(tree.remove(&key).unwrap().is_some()));
        let ended = before - linked.tree.statistics().leaves;
        assert_eq!(cost, (1 + 3 * ended, 1 + 3 * ended));
        ends += ended;
    }
    for number in 0..200 {
        let before = linked.tree.statistics().leaves;
        let key = [&*ascending(number % 100), &ascending(number)].concat();
        let cost = linked.cost(|tree| assert!(tree.remove(&key).unwrap().is_some()));
        let ended = before - linked.tree.statistics().leaves;
        assert_eq!(cost, (1 + 3 * ended, 1 + 3 * ended));
        ends += ended;
    }
    assert!(ends >= 3);
    assert_eq!((linked.tree.len(), linked.tree.statistics().leaves), (0, 1));
}

/// 100,000 random keys: the numbers of the family's page.
#[test]
fn random_strings_cost_what_the_page_says() {
    const KEYS: u64 = 100_000;
    let mut linked = Linked::new();
    let records: Vec<u64> = (0..KEYS).map(|number| linked.record(&user(number))).collect();
    let cost = linked.cost(|tree| {
        for (number, record) in (0..).zip(&records) {
            assert!(tree.insert(&user(number), *record).unwrap());
        }
    });
    let per_key = |count: u64| count as f64 / KEYS as f64;
    let bytes = per_key(linked.tree.statistics().leaves * 1024);
    println!("{} flushes, {} fences an insertion", per_key(cost.0), per_key(cost.1));
    println!("{bytes} bytes a key");
    assert!(per_key(cost.0) <= 2.0 && per_key(cost.1) <= 1.15 && bytes <= 33.0);
    let cost = linked.cost(|tree| {
        for (number, record) in (0..).zip(&records) {
            assert_eq!(tree.get(&user(number)).unwrap(), Some(*record));
        }
    });
    let lines = per_key(linked.pool.media().counts().pm_lines_read);
    println!("{lines} lines a hit, with those of its record");
    assert_eq!(cost, (0, 0));
}
