//! The tree against a sorted map, over random operations.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};

use everleaf_index::{BytesKeys, Direction, KeyKind, U64Keys};
use everleaf_pmem::{Cpu, SimdLevel};
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

/// Separator -> child, the smallest key for the first child.
struct Twin<K: TreeKey, const CAPACITY: usize> {
    inner: Inner<K, CAPACITY>,
    model: BTreeMap<K::Owned, u64>,
    next_child: u64,
}

#[derive(Clone, Debug)]
enum Change<T> {
    Insert(T),
    Remove(T),
    Replace(T),
    Find(T),
    Walk(T),
}

fn simd() -> SimdLevel {
    Cpu::detect().simd()
}

impl<K: TreeKey, const CAPACITY: usize> Twin<K, CAPACITY> {
    fn new(smallest: K::Owned, simd: SimdLevel) -> Self {
        Self {
            inner: Inner::new(simd, 1).unwrap(),
            model: BTreeMap::from([(smallest, 1)]),
            next_child: 2,
        }
    }

    fn covering(&self, key: &K::Owned) -> (K::Owned, u64) {
        let (separator, child) = self.model.range(..=key.clone()).next_back().unwrap();
        (separator.clone(), *child)
    }

    fn apply(&mut self, step: &Change<K::Owned>) {
        let child = self.next_child;
        self.next_child += 1;
        match step {
            Change::Insert(key) => {
                let outcome = self.inner.insert(K::borrow(key), child);
                assert_eq!(
                    outcome.is_ok(),
                    !self.model.contains_key(key),
                    "insert {key:?}: {outcome:?}"
                );
                self.model.entry(key.clone()).or_insert(child);
            }
            Change::Remove(key) => {
                let (separator, _) = self.covering(key);
                let first = self.model.keys().next().unwrap() == &separator;
                assert_eq!(self.inner.remove(K::borrow(key)), !first, "remove {key:?}");
                if !first {
                    self.model.remove(&separator);
                }
            }
            Change::Replace(key) => {
                let (separator, old) = self.covering(key);
                assert_eq!(self.inner.replace(K::borrow(key), child), old);
                self.model.insert(separator, child);
            }
            Change::Find(key) => {
                assert_eq!(self.inner.find(K::borrow(key)), self.covering(key).1, "find {key:?}")
            }
            Change::Walk(key) => self.walk(key),
        }
        assert_eq!(self.inner.len(), self.model.len() as u64);
    }

    fn walk(&self, key: &K::Owned) {
        let (separator, child) = self.covering(key);
        for direction in [Direction::Forward, Direction::Backward] {
            let mut cursor = self.inner.seek(K::borrow(key));
            assert_eq!((cursor.lower_bound(), cursor.child()), (separator.clone(), child));
            let others: Vec<_> = match direction {
                Direction::Forward => {
                    self.model.range((Excluded(separator.clone()), Unbounded)).collect()
                }
                Direction::Backward => self.model.range(..separator.clone()).rev().collect(),
            };
            let neighbor = others.first().map(|(separator, child)| ((*separator).clone(), **child));
            assert_eq!(self.inner.neighbor(K::borrow(key), direction), neighbor);
            for (number, (separator, child)) in others.iter().enumerate() {
                for ahead in 1..=3 {
                    let expected = others.get(number + ahead - 1).map(|(_, child)| **child);
                    assert!(
                        cursor
                            .peek(direction, ahead as u32)
                            .is_none_or(|peeked| Some(peeked) == expected)
                    );
                }
                assert_eq!(cursor.step(direction), Some(**child));
                assert_eq!(cursor.lower_bound(), **separator);
                let upper = self.model.range((Excluded((*separator).clone()), Unbounded)).next();
                assert_eq!(cursor.upper_bound().as_ref(), upper.map(|(separator, _)| separator));
                assert_eq!(
                    cursor.ends_by(K::borrow(key)),
                    upper.is_some_and(|(upper, _)| upper <= key)
                );
            }
            assert_eq!(cursor.step(direction), None);
            assert_eq!(cursor.step(direction), None, "the cursor stays at the edge");
        }
    }

    /// Everything, every separator and its neighbourhood included.
    fn compare(&self, probes: &[K::Owned]) {
        assert_eq!(self.inner.check(), Vec::<String>::new());
        let keys: Vec<K::Owned> =
            self.model.keys().cloned().chain(probes.iter().cloned()).collect();
        let expected: Vec<u64> = keys.iter().map(|key| self.covering(key).1).collect();
        let found: Vec<u64> = keys.iter().map(|key| self.inner.find(K::borrow(key))).collect();
        assert_eq!(found, expected);
        let mut many = vec![0; keys.len()];
        self.inner.find_many(&keys.iter().map(K::borrow).collect::<Vec<_>>(), &mut many);
        assert_eq!(many, expected);
        for direction in [Direction::Forward, Direction::Backward] {
            let mut cursor = self.inner.start(direction);
            let mut all = vec![cursor.child()];
            all.extend(std::iter::from_fn(|| cursor.step(direction)));
            if direction == Direction::Backward {
                all.reverse();
            }
            assert_eq!(all, self.model.values().copied().collect::<Vec<_>>());
        }
    }

    /// A tree built from the model answers the same.
    fn rebuilt(&self, fill_percent: usize) -> Self {
        let (first, others) = (self.model.values().next().unwrap(), self.model.iter().skip(1));
        let others = others.map(|(separator, child)| (K::borrow(separator), *child));
        let inner = Inner::build(simd(), *first, others, fill_percent).unwrap();
        Self { inner, model: self.model.clone(), next_child: self.next_child }
    }
}

fn run<K: TreeKey, const CAPACITY: usize>(
    smallest: K::Owned,
    steps: &[Change<K::Owned>],
    simd: SimdLevel,
) {
    let mut twin = Twin::<K, CAPACITY>::new(smallest, simd);
    let keys: Vec<K::Owned> = steps
        .iter()
        .map(|step| match step {
            Change::Insert(key)
            | Change::Remove(key)
            | Change::Replace(key)
            | Change::Find(key)
            | Change::Walk(key) => key.clone(),
        })
        .collect();
    for (number, step) in steps.iter().enumerate() {
        twin.apply(step);
        if number % 16 == 0 {
            assert_eq!(twin.inner.check(), Vec::<String>::new(), "after step {number}, {step:?}");
        }
    }
    twin.compare(&keys);
    for fill_percent in [1, 70, 100] {
        let mut rebuilt = twin.rebuilt(fill_percent);
        rebuilt.compare(&keys);
        steps.iter().rev().for_each(|step| rebuilt.apply(step));
        rebuilt.compare(&keys);
    }
    // Down to one child, from both ends in turn.
    while twin.inner.len() > 1 {
        let separators = twin.model.keys().skip(1);
        let separator = if twin.inner.len().is_multiple_of(3) {
            separators.last()
        } else {
            separators.take(1).last()
        };
        twin.apply(&Change::Remove(separator.unwrap().clone()));
    }
    twin.compare(&keys);
    assert_eq!((twin.inner.height(), twin.inner.inner_nodes()), (0, 0));
}

fn steps<T: Clone + std::fmt::Debug + 'static>(
    key: impl Strategy<Value = T> + 'static,
) -> impl Strategy<Value = Vec<Change<T>>> {
    let step = (0..20, key).prop_map(|(kind, key)| match kind {
        0..=10 => Change::Insert(key),
        11..=15 => Change::Remove(key),
        16 => Change::Replace(key),
        17..=18 => Change::Find(key),
        _ => Change::Walk(key),
    });
    prop::collection::vec(step, 1..400)
}

fn u64_key() -> impl Strategy<Value = u64> {
    prop_oneof![
        0u64..64,
        any::<u64>(),
        (0u64..5000).prop_map(|distance| u64::MAX - distance),
        Just(0),
        Just(u64::MAX),
        (0u64..100).prop_map(|distance| u64::MAX - distance),
        (0u64..1000).prop_map(|number| number << 40),
    ]
}

/// Short strings over few letters, strings of zeros and of 0xff, and long shared prefixes.
fn bytes_key() -> impl Strategy<Value = Box<[u8]>> {
    let letters = || prop::sample::select(vec![0u8, 1, b'a', b'b', 0xff]);
    prop_oneof![
        prop::collection::vec(letters(), 0..12),
        prop::collection::vec(any::<u8>(), 0..24),
        (0usize..20).prop_map(|len| vec![0; len]),
        (0usize..20).prop_map(|len| vec![0xff; len]),
        (0u32..2000).prop_map(|number| format!("user{number:09}").into_bytes()),
        (0u32..50, prop::collection::vec(letters(), 0..3)).prop_map(|(number, end)| {
            let mut key = format!(
                "https://www.example.com/a/rather/long/path/that/is/shared/by/all/{number}"
            )
            .into_bytes();
            key.extend(end);
            key
        }),
    ]
    .prop_map(Vec::into_boxed_slice)
}

/// Strings that differ, if at all, by zeros at the end: their words are all equal.
fn equal_words() -> impl Strategy<Value = Box<[u8]>> {
    (0usize..3, 0usize..70).prop_map(|(prefix, zeros)| {
        let mut key = vec![b'x'; prefix * 5];
        key.resize(key.len() + zeros, 0);
        key.into_boxed_slice()
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn u64_separators_behave_like_a_sorted_map(steps in steps(u64_key())) {
        run::<U64Keys, 4>(0, &steps, simd());
        run::<U64Keys, 8>(0, &steps, SimdLevel::SCALAR);
        run::<U64Keys, 16>(0, &steps, simd());
        run::<U64Keys, 64>(0, &steps, simd());
    }

    #[test]
    fn byte_string_separators_behave_like_a_sorted_map(steps in steps(bytes_key())) {
        run::<BytesKeys, 4>(Box::default(), &steps, simd());
        run::<BytesKeys, 16>(Box::default(), &steps, SimdLevel::SCALAR);
        run::<BytesKeys, 64>(Box::default(), &steps, simd());
    }

    #[test]
    fn strings_with_equal_words_are_told_apart(steps in steps(equal_words())) {
        run::<BytesKeys, 4>(Box::default(), &steps, simd());
        run::<BytesKeys, 16>(Box::default(), &steps, simd());
        run::<BytesKeys, 64>(Box::default(), &steps, simd());
    }
}

/// Splits and merges, at sizes that random steps do not reach.
fn grow_and_shrink<K: TreeKey, const CAPACITY: usize>(
    smallest: K::Owned,
    count: usize,
    key: impl Fn(u64) -> K::Owned,
) {
    let mut twin = Twin::<K, CAPACITY>::new(smallest, simd());
    let mut random = StdRng::seed_from_u64(CAPACITY as u64);
    let mut keys = Vec::new();
    while twin.model.len() < count {
        let key = key(random.random());
        twin.apply(&Change::Insert(key.clone()));
        keys.push(key);
    }
    twin.compare(&keys[..100]);
    let at_most = twin.rebuilt(100);
    at_most.compare(&keys[..100]);
    for round in 0..4 {
        let left = twin.model.len() / 3;
        let mut sorted: Vec<_> = twin.model.keys().skip(1).cloned().collect();
        match round {
            0 => sorted.truncate(left), // a whole range, from its lower end
            1 => drop(sorted.drain(..sorted.len() - left)), // and one from the upper end
            _ => sorted.retain(|_| random.random_range(0..3) > 0), // here and there
        }
        if round == 1 {
            sorted.reverse();
        }
        sorted.iter().for_each(|key| twin.apply(&Change::Remove(key.clone())));
        twin.compare(&keys[..100]);
        keys.iter().take(count / 4).for_each(|key| twin.apply(&Change::Insert(key.clone())));
        twin.compare(&keys[..100]);
    }
}

#[test]
fn nodes_of_all_sizes_grow_and_shrink() {
    grow_and_shrink::<U64Keys, 4>(0, 3000, |number| number);
    grow_and_shrink::<U64Keys, 32>(0, 5000, |number| u64::MAX - number % 10_000);
    grow_and_shrink::<U64Keys, 64>(0, 20_000, |number| number);
    grow_and_shrink::<BytesKeys, 8>(Box::default(), 3000, |number| number.to_be_bytes().into());
    grow_and_shrink::<BytesKeys, 64>(Box::default(), 9000, |number| {
        format!("user{number:020}").into_bytes().into()
    });
}

#[test]
fn ascending_separators_leave_nodes_full() {
    let mut inner = Inner::<U64Keys, 64>::new(simd(), 0).unwrap();
    let splits: u64 = (1..=10_000).map(|key| inner.insert(key, key).unwrap()).sum();
    assert_eq!(inner.check(), Vec::<String>::new());
    assert_eq!(inner.inner_nodes(), 10_001u64.div_ceil(64) + 3 + 1);
    assert_eq!(
        splits,
        inner.inner_nodes() - u64::from(inner.height()),
        "every node but the first of its level came from a split"
    );
}

#[test]
fn removals_merge_nodes() {
    let mut inner = Inner::<U64Keys, 16>::new(simd(), 0).unwrap();
    (1..20_000u64).for_each(|key| assert!(inner.insert(key, key).is_ok()));
    (1..20_000u64).filter(|key| key % 20 != 0).for_each(|key| assert!(inner.remove(key)));
    assert_eq!((inner.check(), inner.len()), (Vec::new(), 1000));
    // A quarter of the slots is the least that a node has, and there are a few nodes above.
    assert!(
        inner.inner_nodes() <= 1000 / 4 * 4 / 3,
        "{} nodes for 1000 children",
        inner.inner_nodes()
    );
}

#[test]
fn separators_out_of_order_are_refused() {
    let mut inner = Inner::<BytesKeys, 4>::new(simd(), 1).unwrap();
    assert!(
        matches!(inner.insert(b"", 2), Err(InnerError::Order)),
        "the first child has the smallest key"
    );
    inner.insert(b"\0", 2).unwrap();
    assert!(matches!(inner.insert(b"\0", 3), Err(InnerError::Order)));
    assert_eq!((inner.len(), inner.find(b""), inner.find(b"\0")), (2, 1, 2));
    for separators in [[0, 5], [5, 5], [5, 4]] {
        let built = Inner::<U64Keys, 4>::build(simd(), 1, separators.into_iter().zip([2, 3]), 70);
        assert!(matches!(built, Err(InnerError::Order)), "{separators:?}");
    }
    let keys: Vec<u64> = vec![1, 2];
    assert_eq!(
        Inner::<U64Keys, 4>::build(simd(), 1, keys.into_iter().zip([2, 3]), 70)
            .unwrap()
            .find(u64::MAX),
        3
    );
}

#[test]
fn expecting_children_takes_no_more_memory_than_they_need() {
    let count = 300_000;
    let built = |expected: &[usize]| {
        let building = Building::<U64Keys, 64>::begin(simd(), 85).unwrap();
        expected.iter().for_each(|children| building.expect(*children));
        building.plan(1, count, 1).unwrap();
        let bottom = building.bottom(0, count, (1..count as u64).map(|key| (key, key))).unwrap();
        building.end(vec![bottom]).unwrap()
    };
    let plain = built(&[]);
    for expected in [&[0, 1, 50_000, 100_000, 299_999][..], &[count], &[count, 7, count]] {
        let inner = built(expected);
        assert_eq!(
            (inner.check(), inner.dram_bytes()),
            (Vec::new(), plain.dram_bytes()),
            "{expected:?}"
        );
    }
    // No memory: the plan says so.
    let building = Building::<U64Keys, 64>::begin(simd(), 85).unwrap();
    building.expect(1 << 40);
    assert!(matches!(building.plan(1, 1 << 40, 1), Err(InnerError::Memory(_))));
}

#[test]
fn nodes_take_little_memory_when_built_by_random_inserts() {
    let mut random = StdRng::seed_from_u64(7);
    let mut inner = Inner::<U64Keys, 64>::new(simd(), 0).unwrap();
    while inner.len() < 300_000 {
        inner.insert(random.random(), 1).unwrap();
    }
    let bytes = inner.dram_bytes() as f64 / inner.len() as f64;
    assert!(bytes < 33.0, "{bytes} bytes a leaf");
}

/// Whatever the cells say, a find is right and comes to an end: readers may meet the cells of a
/// directory that is being made, and take the head of a table or a key for one.
#[test]
fn a_directory_of_garbage_leads_nobody_astray() {
    let mut random = StdRng::seed_from_u64(9);
    let mut inner = Inner::<U64Keys, 16>::new(simd(), 0).unwrap();
    let keys: Vec<u64> =
        (0..20_000).map(|number| random.random::<u64>() >> (number % 40)).collect();
    let mut model = BTreeMap::from([(0, 0)]);
    for (child, key) in (1..).zip(&keys) {
        if inner.insert(*key, child).is_ok() {
            model.insert(*key, child);
        }
    }
    let lines = inner.directory.lines();
    let nodes = inner.nodes.used_lines() as u64;
    for _ in 0..20 {
        for word in lines.iter().flat_map(|line| &line.0) {
            let [first, second] = [0; 2].map(|_| random.random_range(0..2 * nodes));
            let table = u64::from(random.random_range(0..2_u32)) << 31;
            let table = table | random.random_range(0..2 * lines.len() as u64);
            let garbage = [random.random(), first | second << 32, table | second << 32, first];
            word.store(garbage[random.random_range(0..4)], std::sync::atomic::Ordering::Relaxed);
        }
        for key in keys.iter().step_by(7) {
            let covering = model.range(..=key).next_back().unwrap();
            assert_eq!(inner.find(*key), *covering.1);
        }
    }
}

/// Keys that are spread in many ways: the directory finds the bottom nodes of almost all, while the
/// tree grows, when it was built, and when most of it has been removed.
#[test]
fn the_directory_knows_almost_every_number() {
    let mix = |number: u64| {
        let mixed = (number ^ number >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    };
    type Key = fn(u64, u64) -> u64;
    let spreads: [(&str, Key, usize); 6] = [
        ("random", |_, random| random, 97),
        ("ascending", |number, _| number, 90),
        ("descending", |number, _| u64::MAX - number, 90),
        ("clusters of 64", |number, _| (number / 64).wrapping_mul(0x9e37_79b9_7f4a_7c15), 90),
        ("log-uniform", |number, random| random >> (number % 60), 90),
        ("two far apart", |number, random| (random >> 30) | (number & 1) << 63, 95),
    ];
    for (name, key, least) in spreads {
        let count = 40_000;
        let keys: Vec<u64> = (1..count)
            .map(|number| match name {
                "clusters of 64" => key(number, 0).wrapping_add(number % 64),
                _ => key(number, mix(number)),
            })
            .collect();
        let mut inner = Inner::<U64Keys, 16>::new(simd(), 0).unwrap();
        keys.iter().for_each(|key| _ = inner.insert(*key, *key));
        let known = |inner: &Inner<U64Keys, 16>, keys: &[u64]| {
            assert_eq!(inner.check(), Vec::<String>::new());
            let known = keys.iter().filter(|key| inner.find_by_directory(**key).is_some());
            known.count() * 100 / keys.len()
        };
        let grown = known(&inner, &keys);
        let mut sorted = keys.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let children = sorted.iter().filter(|key| **key > 0).map(|key| (*key, *key));
        let built = known(&Inner::build(simd(), 0, children, 85).unwrap(), &keys);
        let (gone, left) = keys.split_at(keys.len() / 10 * 9);
        gone.iter().for_each(|key| _ = inner.remove(*key));
        let shrunk = known(&inner, left);
        println!("{name}: {grown}, {built}, {shrunk} percent");
        assert!(grown.min(built).min(shrunk) >= least, "{name}: {grown}, {built}, {shrunk}");
    }
}

#[test]
fn released_separators_are_reused() {
    let mut inner = Inner::<BytesKeys, 16>::new(simd(), 0).unwrap();
    let key = |number: u64| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_be_bytes().repeat(3);
    for number in 1..2000 {
        inner.insert(&key(number), number).unwrap();
    }
    let bytes = inner.dram_bytes();
    for number in 2000..100_000 {
        assert!(inner.remove(&key(number - 1000)));
        inner.insert(&key(number), number).unwrap();
    }
    assert_eq!(inner.check(), Vec::<String>::new());
    assert!(inner.dram_bytes() <= 2 * bytes, "{} bytes, then {}", bytes, inner.dram_bytes());
}

#[test]
fn bounds_of_the_model_are_used() {
    // The twin's model must answer as the documentation says, or the comparison means nothing.
    let mut twin = Twin::<U64Keys, 4>::new(0, simd());
    twin.apply(&Change::Insert(10));
    assert_eq!(twin.model.range((Included(0), Excluded(10))).count(), 1);
    assert_eq!((twin.covering(&9).1, twin.covering(&10).1), (1, 2));
    assert_eq!(<U64Keys as KeyKind>::borrow(&twin.inner.seek(u64::MAX).lower_bound()), 10);
}
