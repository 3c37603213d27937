//! Leaves are in the bucket of their bound, and in order.

use std::sync::Arc;

use everleaf_crash::Dram;
use everleaf_index::{BytesKeys, U64Keys};
use everleaf_pmem::{Line, PPtr};
use proptest::prelude::*;

use super::*;
use crate::opening::dram_pool;

fn leaf(prefix: u64) -> LeafBoundOf<U64Keys> {
    LeafBound { prefix, bound: (), offset: prefix ^ 1 }
}

/// Anywhere, or near one of the ends.
fn bound() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), 0..20_u64, u64::MAX - 20..=u64::MAX]
}

proptest! {
    #[test]
    fn every_leaf_is_in_the_bucket_of_its_bound(
        samples in prop::collection::vec(bound(), 0..200),
        bounds in prop::collection::vec(bound(), 0..1000),
        buckets in 1..80_usize,
    ) {
        let pool = dram_pool::<U64Keys>(1 << 20);
        let some = || samples.iter().map(|bound| leaf(*bound)).collect();
        let splitters = Splitters::<U64Keys>::among(&pool, buckets * BUCKET_LEAVES, some);
        let wanted = if samples.is_empty() { 1 } else { buckets.min(MAX_BUCKETS) };
        prop_assert_eq!(splitters.buckets(), wanted);
        let parting: Vec<u64> = splitters.leaves.iter().map(|splitter| splitter.prefix).collect();
        prop_assert!(parting.is_sorted());
        let bucket_of = |bound: &u64| parting.partition_point(|part| part <= bound);
        let mut partition = Partition::none(&splitters, 0);
        bounds.iter().for_each(|bound| partition.add(leaf(*bound), &splitters, &pool));
        for bucket in 0..splitters.buckets() {
            let expected: Vec<u64> =
                bounds.iter().copied().filter(|bound| bucket_of(bound) == bucket).collect();
            let found: Vec<u64> =
                partition.blocks_of(bucket).flatten().map(|leaf| leaf.prefix).collect();
            prop_assert_eq!(partition.len_of(bucket), expected.len());
            prop_assert_eq!(found, expected, "bucket {}", bucket);
        }
    }
}

/// Leaves whose bounds are these strings, in this order.
fn placed(pool: &Arc<Pool<Dram>>, strings: &[String]) -> Vec<LeafBound<u64>> {
    let mut worker = pool.worker().unwrap();
    let cell = &pool.index_root::<Line>().unwrap().0[0];
    let mut placed = |key: &String| {
        BytesKeys::place(&mut worker, cell, key.as_bytes()).unwrap();
        let bound = pool.media().load(cell);
        pool.media().store(cell, 0);
        LeafBound { prefix: BytesKeys::word(key.as_bytes(), 0), bound, offset: 0 }
    };
    strings.iter().map(&mut placed).collect()
}

/// The strings of each bucket, sorted; the buckets part by some of them.
fn parted(pool: &Arc<Pool<Dram>>, strings: &[String], step: usize) -> Vec<Vec<String>> {
    let leaves = placed(pool, strings);
    let some = || leaves.iter().step_by(step).copied().collect();
    let splitters = Splitters::<BytesKeys>::among(pool, 4 * BUCKET_LEAVES, some);
    let mut partition = Partition::none(&splitters, 0);
    for (leaf, key) in leaves.iter().zip(strings) {
        let prefix = splitters.beginning.prefix(key.as_bytes());
        partition.add(LeafBound { prefix, ..*leaf }, &splitters, pool);
    }
    let records = pool.pin();
    let string = |leaf: &LeafBound<u64>| {
        String::from_utf8(records.record(PPtr::at(leaf.bound)).unwrap().to_vec()).unwrap()
    };
    let sorted = |bucket| {
        let mut found: Vec<_> = partition.blocks_of(bucket).flatten().map(string).collect();
        found.sort_unstable();
        found
    };
    (0..splitters.buckets()).map(sorted).collect()
}

#[test]
fn byte_strings_that_begin_alike_part_by_all_of_their_bytes() {
    let pool = dram_pool::<BytesKeys>(8 << 20);
    let strings: Vec<String> =
        (0..400).map(|number| format!("the same {:03}", number * 7 % 400)).collect();
    for (bucket, found) in parted(&pool, &strings, 1).into_iter().enumerate() {
        let expected: Vec<_> = (bucket * 100..bucket * 100 + 100)
            .map(|number| format!("the same {number:03}"))
            .collect();
        assert_eq!(found, expected, "bucket {bucket}");
    }
}

#[test]
fn strings_that_begin_otherwise_than_most_come_in_order_too() {
    let pool = dram_pool::<BytesKeys>(8 << 20);
    let mut strings: Vec<String> =
        (0..400).map(|number| format!("user:{:05}", number * 77 % 400)).collect();
    for (place, other) in ["", "a", "us", "user", "user:", "user;1", "v", "zz"].iter().enumerate() {
        strings.insert(place * 50, (*other).to_owned());
    }
    for step in [1, 3, 7] {
        let mut sorted = strings.clone();
        sorted.sort_unstable();
        assert_eq!(parted(&pool, &strings, step).concat(), sorted, "each {step}th was a sample");
    }
    let leaves = placed(&pool, &strings);
    let splitters = Splitters::<BytesKeys>::among(&pool, 4 * BUCKET_LEAVES, || leaves);
    let prefix = |key: &String| splitters.beginning.prefix(key.as_bytes());
    strings.sort_unstable();
    assert!(strings.is_sorted_by_key(prefix), "a smaller string has no greater prefix");
    let users = strings.iter().filter(|key| key.len() == "user:00000".len());
    assert!(users.collect::<Vec<_>>().windows(2).all(|pair| prefix(pair[0]) < prefix(pair[1])));
}

#[test]
fn nobody_looks_for_samples_where_one_bucket_is_enough() {
    let pool = dram_pool::<U64Keys>(1 << 20);
    for leaves in [0, 1, BUCKET_LEAVES] {
        let splitters =
            Splitters::<U64Keys>::among(&pool, leaves, || panic!("one bucket for {leaves} leaves"));
        assert_eq!(splitters.buckets(), 1);
    }
}

fn pool() -> Arc<Pool<Dram>> {
    dram_pool::<U64Keys>(1 << 20)
}

/// Leaves with these bounds, each at an offset of its own, partition by so many threads; `some` of
/// them tell where buckets part.
fn leaves(pool: &Pool<Dram>, bounds: &[Vec<u64>], some: &[u64]) -> PartitionedLeaves<U64Keys> {
    let at = |prefix: u64, offset| LeafBound { prefix, bound: (), offset };
    let splitters = Splitters::among(pool, bounds.concat().len(), || {
        some.iter().map(|prefix| at(*prefix, 0)).collect()
    });
    let mut offset = 0;
    let add = |list: &Vec<u64>| {
        let mut partition = Partition::none(&splitters, list.len());
        for prefix in list {
            offset += 1024;
            partition.add(at(*prefix, offset), &splitters, pool);
        }
        partition
    };
    PartitionedLeaves::of(bounds.iter().map(add).collect(), splitters.buckets(), 4)
}

/// The bounds in all ranges, one range after the other.
fn in_order(
    pool: &Pool<Dram>,
    leaves: &PartitionedLeaves<U64Keys>,
    leftmost: u64,
) -> Result<Vec<Vec<u64>>, IndexError> {
    let mut buffer = SortBuffer::new();
    let mut bounds_of = |range| {
        leaves.in_order(range, &mut buffer, pool, leftmost, |_, shown| {
            let bounds: Vec<_> = shown.map(|(bound, _)| bound).collect();
            let ascend = bounds.is_sorted_by(|a, b| a < b);
            if ascend {
                Ok(bounds)
            } else {
                Err(IndexError::Corrupt { offset: 0, what: "they do not ascend" })
            }
        })
    };
    (0..leaves.ranges()).map(&mut bounds_of).collect()
}

proptest! {
    #[test]
    fn ranges_hold_every_leaf_in_order(
        mut bounds in prop::collection::btree_set(prop_oneof![bound(), 0..3000_u64], 0..2000),
        threads in 1usize..9,
        pattern: [u8; 16],
        few in 1..500_usize,
    ) {
        let pool = pool();
        // Neighbours are in one list or in several, as the pattern has it.
        let mut lists = vec![Vec::new(); threads];
        let list_of = |place: usize| {
            let spread = pattern[place / 500 % 16] % 2 == 0;
            (usize::from(pattern[place / 100 % 16]) + if spread { place } else { 0 }) % threads
        };
        for (place, bound) in bounds.iter().enumerate() {
            lists[list_of(place)].push(*bound);
        }
        let shuffled = |bound: &u64| bound.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        lists.iter_mut().for_each(|list| list.sort_unstable_by_key(shuffled));
        let some: Vec<u64> = bounds.iter().copied().step_by(few).collect();
        let leaves = leaves(&pool, &lists, &some);
        let leftmost = leaves.leftmost(&pool);
        prop_assert_eq!((leftmost.is_none(), leaves.len()), (bounds.is_empty(), bounds.len()));
        let ranges = in_order(&pool, &leaves, leftmost.unwrap_or_default()).unwrap();
        bounds.pop_first(); // The leftmost is not shown.
        prop_assert!(ranges.concat().into_iter().eq(bounds));
    }
}

/// The lengths of the ranges, in their order.
fn lengths(pool: &Pool<Dram>, leaves: &PartitionedLeaves<U64Keys>) -> Vec<usize> {
    let mut buffer = SortBuffer::new();
    let length =
        |range| leaves.in_order(range, &mut buffer, pool, 0, |length, _| Ok(length)).unwrap();
    (0..leaves.ranges()).map(length).collect()
}

#[test]
fn ranges_are_about_equally_long_whoever_has_found_their_leaves() {
    let pool = pool();
    for threads in [1, 2, 3, 8, 64] {
        let all: u64 = 64 * 128;
        let bucket = |list: u64| list * all / threads;
        let interleaved = (0..threads)
            .map(|list| (list..all).step_by(threads as usize).collect())
            .collect::<Vec<Vec<_>>>();
        let one_after_another =
            (0..threads).map(|list| (bucket(list)..bucket(list + 1)).collect()).collect();
        let in_the_last = (1..threads).map(|_| Vec::new()).chain([(0..all).collect()]).collect();
        for (name, bounds) in [
            ("interleaved", interleaved),
            ("one after another", one_after_another),
            ("in the last", in_the_last),
        ] {
            let some: Vec<u64> = (0..all).step_by(60).collect();
            let lengths = lengths(&pool, &leaves(&pool, &bounds, &some));
            let longest = lengths.iter().max().unwrap();
            assert_eq!(
                (lengths.len(), lengths.iter().sum::<usize>()),
                (64, all as usize),
                "{threads} lists {name}"
            );
            assert!(*longest <= 128 * 3 / 2, "{threads} lists {name}: {longest}");
        }
    }
}

#[test]
fn buckets_too_short_are_raised_together() {
    let pool = pool();
    let splitters = Splitters::<U64Keys>::among(&pool, 1 << 20, || {
        (0..64).map(|bucket| LeafBound { prefix: bucket * 1000, bound: (), offset: 0 }).collect()
    });
    for inner_keys in [4, 64, 128, 4096] {
        let mut partition = [(); 2].map(|()| Partition::none(&splitters, 0));
        for bound in 0..64_000 {
            partition[bound as usize % 2].add(
                LeafBound { prefix: bound, bound: (), offset: 0 },
                &splitters,
                &pool,
            );
        }
        let leaves = PartitionedLeaves::of(partition.into(), splitters.buckets(), inner_keys);
        let lengths = lengths_by_count(&leaves);
        let least = 16 * inner_keys as usize;
        let (last, others) = lengths.split_last().unwrap();
        assert!(
            others.iter().all(|length| (least..least.max(32) + 1000).contains(length)),
            "{inner_keys}: {lengths:?}"
        );
        assert_eq!(others.iter().sum::<usize>() + last, 64_000);
    }
}

/// How many leaves each range has, however they are ordered.
fn lengths_by_count(leaves: &PartitionedLeaves<U64Keys>) -> Vec<usize> {
    let count = |buckets: &Range<usize>| {
        buckets.clone().flat_map(|bucket| leaves.of_bucket(bucket)).map(<[_]>::len).sum()
    };
    leaves.ranges.iter().map(count).collect()
}

#[test]
fn twins_are_found_wherever_they_are() {
    let pool = pool();
    for threads in 1..4 {
        for twin in [0, 1, 500, 998, 999] {
            let mut bounds: Vec<_> = (0..threads)
                .map(|list| (list..1000).step_by(threads as usize).collect())
                .collect::<Vec<Vec<_>>>();
            let some = [10, 300, 500, 700, 999];
            let sound = leaves(&pool, &bounds, &some);
            assert_eq!(
                in_order(&pool, &sound, sound.leftmost(&pool).unwrap()).unwrap().concat().len(),
                999
            );
            bounds.last_mut().unwrap().push(twin);
            let leaves = leaves(&pool, &bounds, &some);
            let error = in_order(&pool, &leaves, leaves.leftmost(&pool).unwrap()).unwrap_err();
            assert!(
                error.to_string().contains("the same lower bound"),
                "{twin} in {threads} lists: {error}"
            );
        }
    }
}
