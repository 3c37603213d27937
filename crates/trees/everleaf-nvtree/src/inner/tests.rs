//! Inner nodes against a map, and what their changes cost.

use std::collections::BTreeMap;

use everleaf_crash::Dram;
use everleaf_index::{BytesKeys, U64Keys};
use everleaf_pmem::{Cpu, Region};
use proptest::prelude::*;

use super::Inner;
use everleaf_tree::key::{TestKey, TreeKey};

fn media() -> Dram {
    Dram::new(Region::anonymous(4096, 4096).unwrap(), &Cpu::detect())
}

fn one_leaf<K: TreeKey>(fanout: usize) -> Inner<K> {
    let first = (K::to_owned(K::least()), 1);
    Inner::build(fanout, Cpu::detect().simd().into(), [Ok(first)].into_iter()).unwrap()
}

fn check<K: TreeKey>(inner: &Inner<K>, model: &BTreeMap<K::Owned, u64>) {
    assert_eq!(inner.check(), Vec::<String>::new());
    assert_eq!(inner.len(), model.len());
    let mut place = Some(inner.first());
    let mut before = None;
    for (bound, leaf) in model {
        let here = place.unwrap();
        assert_eq!((inner.leaf(here), inner.previous(here)), (*leaf, before));
        assert_eq!(inner.lower_bound(here), *bound);
        (before, place) = (place, inner.next(here));
    }
    assert_eq!((place, before), (None, Some(inner.last())));
}

fn run<K: TestKey>(fanout: usize, changes: &[(u16, bool)]) {
    let mut inner = one_leaf::<K>(fanout);
    let mut model = BTreeMap::from([(K::to_owned(K::least()), 1)]);
    for (number, (key, add)) in (2..).zip(changes) {
        let key = K::ascending(key.saturating_add(1));
        let covering = model.range(..=key.clone()).next_back().unwrap();
        let place = inner.find(K::borrow(&key));
        assert_eq!(inner.leaf(place), *covering.1);
        let bound = covering.0.clone();
        if *add && bound != key {
            let room = inner.make_room(K::borrow(&key), &media()).unwrap();
            inner.insert(room, number);
            model.insert(key, number);
        } else if !place.is_first() {
            inner.remove(place);
            model.remove(&bound);
        } else {
            let room = inner.make_room(K::borrow(&key), &media()).unwrap();
            inner.forget(room);
        }
    }
    check(&inner, &model);
    let words = model.len() as u64;
    assert!(!K::RECORDS || K::words_in_use(&inner.separators) <= 64 * words, "strings leak");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn they_do_what_a_map_does(
        changes in proptest::collection::vec((0..400u16, prop::bool::weighted(0.6)), 1..600),
        fanout in prop::sample::select(vec![4, 8, 32]),
        bytes: bool,
    ) {
        if bytes { run::<BytesKeys>(fanout, &changes) } else { run::<U64Keys>(fanout, &changes) }
    }
}

/// Leaves are added by so many keys in this order; moves a leaf.
fn moves_of(fanout: usize, keys: impl Iterator<Item = u64>) -> (f64, u64, u32) {
    let mut inner = one_leaf::<U64Keys>(fanout);
    let mut added = 0;
    for key in keys {
        let room = inner.make_room(key, &media()).unwrap();
        inner.insert(room, key);
        added += 1;
    }
    assert_eq!(inner.check(), Vec::<String>::new());
    let moves = inner.moves();
    (moves.entries as f64 / f64::from(added), moves.rebuilds, inner.height() - 1)
}

#[test]
fn every_order_of_insertion_moves_a_bounded_number_of_entries() {
    const LEAVES: u64 = 30_000;
    for fanout in [8usize, 128] {
        let skewed = (0..LEAVES).map(|i| (1 << 40) - i); // Always below the one before.
        let inwards = (0..LEAVES).map(|i| if i % 2 == 0 { i + 1 } else { (1 << 40) - i });
        let random = (0..LEAVES).map(|i| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let orders: [(&str, Box<dyn Iterator<Item = u64>>); 4] = [
            ("ascending", Box::new(1..=LEAVES)),
            ("descending", Box::new(skewed)),
            ("towards the middle", Box::new(inwards)),
            ("random", Box::new(random)),
        ];
        for (order, keys) in orders {
            let (moves, rebuilds, levels) = moves_of(fanout, keys);
            println!("fanout {fanout}, {order}: {moves:.1} moves a leaf, {rebuilds} rebuilds");
            // The logarithm of 30000 to the base of the growth by a quarter is 46.
            let limit = 4.0 * fanout as f64 * f64::from(levels * levels);
            assert!(rebuilds <= 47 && moves < limit, "{order}: {moves} {rebuilds}");
        }
    }
}

#[test]
fn removals_leave_few_parents_behind() {
    let mut inner = one_leaf::<U64Keys>(8);
    for key in 1..10_000 {
        let room = inner.make_room(key, &media()).unwrap();
        inner.insert(room, key);
    }
    let most = inner.nodes();
    for key in 1..9_990 {
        let place = inner.find(key);
        inner.remove(place);
    }
    assert_eq!(inner.check(), Vec::<String>::new());
    assert!(inner.nodes() * 100 < most, "{} of {most} nodes are left", inner.nodes());
}
