//! Random operations, compared with the model after each.

use std::collections::BTreeMap;
use std::ops::Bound;

use everleaf_crash::Traced;
use everleaf_index::{BytesKeys, Direction, Index, U64Keys};
use everleaf_pmem::Media;
use everleaf_pool::{Pool, Shutdown};
use proptest::prelude::*;

use super::{
    Parameters, TINY, TestKey, Variant, assert_sound, dram_pool, opened, scanned, traced_pool,
};
use crate::{Opening, offer, open_with};

#[derive(Clone, Debug)]
enum Op {
    Insert(u64, u64),
    Update(u64, u64),
    Upsert(u64, u64),
    Remove(u64),
    Get(u64),
    GetMany(Vec<u64>),
    Scan {
        from: u64,
        bound: u8,
        forward: bool,
        limit: usize,
    },
    /// Removes all keys from one on, up to another.
    Clear(u64, u64),
    Reopen,
}

fn ops(keys: u64, max: usize) -> impl Strategy<Value = Vec<Op>> {
    let key = move || 0..keys;
    let op = prop_oneof![
        12 => (key(), any::<u64>()).prop_map(|(k, v)| Op::Insert(k, v)),
        3 => (key(), any::<u64>()).prop_map(|(k, v)| Op::Update(k, v)),
        3 => (key(), any::<u64>()).prop_map(|(k, v)| Op::Upsert(k, v)),
        6 => key().prop_map(Op::Remove),
        2 => key().prop_map(Op::Get),
        1 => prop::collection::vec(key(), 0..40).prop_map(Op::GetMany),
        2 => (key(), 0..3u8, any::<bool>(), 1..80usize)
            .prop_map(|(from, bound, forward, limit)| Op::Scan { from, bound, forward, limit }),
        1 => (key(), 0..keys / 2).prop_map(|(from, span)| Op::Clear(from, from + span)),
        1 => Just(Op::Reopen),
    ];
    prop::collection::vec(op, 1..max)
}

struct Twin<K: TestKey> {
    model: BTreeMap<K::Owned, Vec<u64>>,
    words: usize,
}

impl<K: TestKey> Twin<K> {
    fn new(words: usize) -> Self {
        Self { model: BTreeMap::new(), words }
    }

    fn value(&self, seed: u64) -> Vec<u64> {
        (0..self.words as u64).map(|i| seed.wrapping_mul(i * 2 + 1)).collect()
    }

    /// Does one operation on both and compares what they answer.
    fn step(&mut self, tree: &dyn Index<K>, op: &Op) {
        let mut old = vec![0; self.words];
        match op {
            Op::Insert(k, v) => {
                let (key, value) = (K::make(*k), self.value(*v));
                let inserted = tree.insert_words(K::borrow(&key), &value).unwrap();
                assert_eq!(inserted, !self.model.contains_key(&key));
                self.model.entry(key).or_insert(value);
            }
            Op::Update(k, v) => {
                let (key, value) = (K::make(*k), self.value(*v));
                let updated = tree.update_words(K::borrow(&key), &value, &mut old).unwrap();
                let expected =
                    self.model.get_mut(&key).map(|place| std::mem::replace(place, value));
                assert_eq!(updated.then_some(old), expected);
            }
            Op::Upsert(k, v) => {
                let (key, value) = (K::make(*k), self.value(*v));
                let updated = tree.upsert_words(K::borrow(&key), &value, &mut old).unwrap();
                assert_eq!(updated.then_some(old), self.model.insert(key, value));
            }
            Op::Remove(k) => {
                let key = K::make(*k);
                let removed = tree.remove_words(K::borrow(&key), &mut old).unwrap();
                assert_eq!(removed.then_some(old), self.model.remove(&key));
            }
            Op::Get(k) => {
                let key = K::make(*k);
                let found = tree.get_words(K::borrow(&key), &mut old).unwrap();
                assert_eq!(found.then_some(&old), self.model.get(&key));
            }
            Op::GetMany(numbers) => {
                let keys: Vec<K::Owned> = numbers.iter().map(|k| K::make(*k)).collect();
                let lent: Vec<K::Ref<'_>> = keys.iter().map(K::borrow).collect();
                let mut values = vec![None; keys.len()];
                tree.get_many(&lent, &mut values).unwrap();
                let expected: Vec<_> =
                    keys.iter().map(|key| self.model.get(key).map(|value| value[0])).collect();
                assert_eq!(values, expected);
            }
            Op::Scan { from, bound, forward, limit } => {
                self.compare_scan(tree, *from, *bound, *forward, *limit)
            }
            Op::Clear(from, to) => (*from..*to).for_each(|k| self.step(tree, &Op::Remove(k))),
            Op::Reopen => {}
        }
        assert_eq!(tree.len(), self.model.len() as u64);
    }

    fn compare_scan(&self, tree: &dyn Index<K>, from: u64, bound: u8, forward: bool, limit: usize) {
        let key = K::make(from);
        let (lent, owned) = match bound {
            0 => (Bound::Included(K::borrow(&key)), Bound::Included(key.clone())),
            1 => (Bound::Excluded(K::borrow(&key)), Bound::Excluded(key.clone())),
            _ => (Bound::Unbounded, Bound::Unbounded),
        };
        let pair = |(key, value): (&K::Owned, &Vec<u64>)| (key.clone(), value.clone());
        let (direction, expected): (_, Vec<_>) = if forward {
            (
                Direction::Forward,
                self.model.range((owned, Bound::Unbounded)).take(limit).map(pair).collect(),
            )
        } else {
            (
                Direction::Backward,
                self.model.range((Bound::Unbounded, owned)).rev().take(limit).map(pair).collect(),
            )
        };
        assert_eq!(scanned(tree, lent, direction, limit).unwrap(), expected);
    }

    fn compare_all(&self, tree: &dyn Index<K>) {
        for forward in [true, false] {
            self.compare_scan(tree, 0, 2, forward, usize::MAX);
        }
    }
}

/// On memory that grows, reopening over the same pool.
fn run_growing<K: TestKey>(variant: Variant, parameters: Parameters, ops: &[Op]) {
    let pool = dram_pool::<K>(parameters, 64 << 20);
    let mut tree = opened::<K, _>(&pool, variant);
    let mut twin = Twin::<K>::new(parameters.value_words as usize);
    for op in ops {
        twin.step(&*tree, op);
        if matches!(op, Op::Reopen) {
            drop(tree);
            tree = opened(&pool, variant);
        }
    }
    twin.compare_all(&*tree);
    assert_sound(&pool, &*tree);
}

/// On garbage, reopening from the image at another address.
fn run_traced<K: TestKey>(variant: Variant, parameters: Parameters, ops: &[Op]) {
    let mut pool = traced_pool::<K>(parameters, 2 << 20);
    let mut tree = opened::<K, _>(&pool, variant);
    let mut twin = Twin::<K>::new(parameters.value_words as usize);
    for op in ops.iter().chain([&Op::Reopen]) {
        twin.step(&*tree, op);
        if matches!(op, Op::Reopen) {
            assert_sound(&pool, &*tree);
            let image =
                Traced::from_image(&pool.media().image(), pool.media().region().max_len(), 8)
                    .unwrap();
            image.record(false, false);
            pool = Pool::open(image).unwrap().0;
            tree = opened(&pool, variant);
        }
    }
    twin.compare_all(&*tree);
    assert_sound(&pool, &*tree);
}

const VARIANTS: [Variant; 3] = [Variant::FpTree, Variant::PTree, Variant::Concurrent];

fn run_both<K: TestKey>(parameters: Parameters, ops: &[Op]) {
    for variant in VARIANTS {
        run_growing::<K>(variant, parameters, ops);
        run_traced::<K>(variant, parameters, ops);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn u64_keys_in_tiny_nodes_behave_as_the_model(ops in ops(120, 300)) {
        run_both::<U64Keys>(TINY, &ops);
    }

    #[test]
    fn byte_keys_in_tiny_nodes_behave_as_the_model(ops in ops(120, 300)) {
        run_both::<BytesKeys>(TINY, &ops);
    }

    #[test]
    fn wide_values_behave_as_the_model(words in 2..=14u64, ops in ops(60, 150)) {
        let parameters = Parameters { value_words: words, ..TINY };
        run_both::<U64Keys>(parameters, &ops);
        run_both::<BytesKeys>(parameters, &ops);
    }

    #[test]
    fn every_offered_size_behaves_as_the_model(
        slots in prop::sample::select(vec![4u64, 8, 16, 32, 48, 56]),
        inner_keys in prop::sample::select(vec![4u64, 32, 64, 128, 4096]),
        value_words in 1..3u64,
        ops in ops(600, 1500),
    ) {
        let group_bytes = 8192;
        let parameters = Parameters { leaf_slots: slots, inner_keys, value_words, group_bytes };
        for variant in VARIANTS {
            run_growing::<U64Keys>(variant, parameters, &ops);
            run_growing::<BytesKeys>(variant, parameters, &ops);
        }
    }
}

/// Keys of one order through the default sizes: splits at the edges, leaves emptied from both ends.
#[test]
fn ascending_and_descending_keys_come_and_go() {
    for variant in VARIANTS {
        let parameters = Parameters { group_bytes: 4096, ..offer(variant).tuned };
        for (ascending_in, ascending_out) in
            [(true, true), (true, false), (false, true), (false, false)]
        {
            let pool = dram_pool::<U64Keys>(parameters, 64 << 20);
            let tree = opened::<U64Keys, _>(&pool, variant);
            let order = |ascending: bool, i: u64| if ascending { i } else { 19_999 - i };
            for i in 0..20_000 {
                assert!(tree.insert(order(ascending_in, i), i).unwrap());
            }
            assert_sound(&pool, &*tree);
            let filled = 20_000 / (parameters.leaf_slots - 2);
            assert!(
                !ascending_in || tree.statistics().leaves <= filled,
                "ascending keys fill their leaves"
            );
            let full = pool.space().unwrap().used_bytes;
            for i in 0..20_000 {
                assert!(tree.remove(order(ascending_out, i)).unwrap().is_some());
            }
            assert!(tree.is_empty());
            assert_sound(&pool, &*tree);
            assert!(
                pool.space().unwrap().used_bytes < full / 2,
                "emptied groups go back to the pool"
            );
        }
    }
}

/// However many threads look at the leaves, most of which have bounds that begin alike.
fn opened_by_threads<K: TestKey>(keys: u64) {
    let pool = dram_pool::<K>(TINY, 1 << 24);
    let tree = opened::<K, _>(&pool, Variant::FpTree);
    for number in 0..keys {
        tree.insert_words(K::borrow(&K::make(number * 7919 % keys)), &[number]).unwrap();
    }
    for number in keys / 4..keys / 2 {
        tree.remove(K::borrow(&K::make(number))).unwrap();
    }
    let entries = scanned(&*tree, Bound::Unbounded, Direction::Forward, usize::MAX).unwrap();
    drop(tree);
    for threads in [1, 2, 3, 16] {
        let opening = Opening { threads: Some(threads), ..Shutdown::Crash.into() };
        let tree = open_with::<K, _>(&pool, Variant::FpTree, opening).unwrap();
        assert_eq!(
            scanned(&*tree, Bound::Unbounded, Direction::Forward, usize::MAX).unwrap(),
            entries,
            "{threads} threads"
        );
        assert_sound(&pool, &*tree);
    }
}

#[test]
fn any_number_of_threads_finds_the_same_tree() {
    opened_by_threads::<U64Keys>(999);
    opened_by_threads::<BytesKeys>(1600);
    opened_by_threads::<U64Keys>(0);
    opened_by_threads::<BytesKeys>(1);
}

#[test]
fn refused_calls_change_nothing() {
    let parameters = Parameters { value_words: 2, ..TINY };
    let pool = dram_pool::<BytesKeys>(parameters, 1 << 20);
    let tree = opened::<BytesKeys, _>(&pool, Variant::FpTree);
    let mut old = [0; 2];
    let long = vec![0; everleaf_index::MAX_KEY_BYTES + 1];
    assert!(tree.insert_words(&long, &[1, 2]).is_err());
    assert!(tree.upsert_words(&long, &[1, 2], &mut old).is_err());
    assert!(tree.insert_words(b"a", &[1]).is_err());
    assert!(tree.insert_words(b"a", &[1, 2]).unwrap());
    assert!(!tree.insert_words(b"a", &[3, 4]).unwrap());
    assert!(tree.update_words(b"a", &[3, 4, 5], &mut old).is_err());
    assert!(tree.update_words(b"a", &[3, 4], &mut old[..1]).is_err());
    assert!(tree.remove_words(b"a", &mut []).is_err());
    assert!(tree.get_words(b"a", &mut [0; 3]).is_err());
    assert!(tree.get_words(b"a", &mut old).unwrap());
    assert_eq!((old, tree.len()), ([1, 2], 1));
    assert_sound(&pool, &*tree);
}

/// A full pool refuses what needs memory; everything else goes on, and removals make room again.
#[test]
fn a_full_pool_refuses_and_stays_usable() {
    fn fill<K: TestKey>(variant: Variant) {
        let pool = dram_pool::<K>(TINY, 64 << 10);
        let tree = opened::<K, _>(&pool, variant);
        let number = |i: u64| (i * 7919) % 40_000 + 1000;
        let mut twin = Twin::<K>::new(1);
        let mut refused = 0;
        for i in 0..4000 {
            let key = K::make(number(i));
            match tree.insert(K::borrow(&key), i) {
                Ok(inserted) => {
                    assert!(inserted);
                    twin.model.insert(key, vec![i]);
                }
                Err(e) => {
                    assert!(e.to_string().contains("full"), "{e}");
                    refused += 1;
                    assert_eq!(tree.get(K::borrow(&key)).unwrap(), None);
                }
            }
        }
        assert!(refused > 0, "the pool was to fill up");
        twin.compare_all(&*tree);
        assert_sound(&pool, &*tree);
        let present: Vec<_> = twin.model.keys().cloned().collect();
        for key in present.iter().step_by(2) {
            assert!(tree.remove(K::borrow(key)).unwrap().is_some());
            twin.model.remove(key);
        }
        for key in present.iter().skip(1).step_by(2) {
            assert!(tree.update(K::borrow(key), 5).unwrap().is_some());
            twin.model.insert(key.clone(), vec![5]);
        }
        twin.compare_all(&*tree);
        assert_sound(&pool, &*tree);
        drop(tree);
        let tree = opened::<K, _>(&pool, variant);
        twin.compare_all(&*tree);
        for key in present.iter().step_by(16) {
            assert!(tree.insert(K::borrow(key), 1).unwrap(), "removals made room");
        }
        assert_sound(&pool, &*tree);
    }
    for variant in VARIANTS {
        fill::<U64Keys>(variant);
        fill::<BytesKeys>(variant);
    }
}
