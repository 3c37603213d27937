//! Batches: what they cost, and that they do what their changes do one by one.

use std::collections::BTreeMap;
use std::ops::Bound;

use everleaf_conformance::counting::{self, random};
use everleaf_conformance::{Opened, assert_sound, dram_pool, opened, scanned};
use everleaf_crash::Instrumented;
use everleaf_index::{BatchSteps, Direction, Index, IndexError, U64Keys};
use everleaf_pmem::{Counter, Media, site};
use everleaf_pool::{Pool, PoolError};
use proptest::prelude::*;

use super::counters::totals;
use super::{Parameters, TINY, Tested, VARIANTS, Variant, offer};

/// Sizes of a variant, with leaves of so many slots.
fn sizes(variant: Variant, leaf_slots: u64) -> Tested {
    let group_bytes = if variant == Variant::Concurrent { 0 } else { TINY.group_bytes };
    Tested(variant, Parameters { leaf_slots, group_bytes, ..TINY })
}

/// Steps that fence as those of a pool do, and remember what was called.
struct Steps<'m, M: Media> {
    media: &'m M,
    called: Vec<&'static str>,
    refuse: bool,
}

impl<'m, M: Media> Steps<'m, M> {
    fn new(media: &'m M) -> Self {
        Self { media, called: Vec::new(), refuse: false }
    }
}

impl<M: Media> BatchSteps for Steps<'_, M> {
    fn commit(&mut self) -> Result<(), IndexError> {
        self.called.push("commit");
        if self.refuse {
            return Err(PoolError::PoolFull { requested_bytes: 1 }.into());
        }
        self.media.fence(site!("test.batch.P1"));
        self.media.fence(site!("test.batch.P2"));
        Ok(())
    }

    fn complete(&mut self) -> Result<(), IndexError> {
        self.called.push("complete");
        Ok(())
    }
}

type Words = Vec<(u64, Option<u64>)>;

fn sorted(changes: impl IntoIterator<Item = (u64, Option<u64>)>) -> Words {
    let by_key: BTreeMap<u64, Option<u64>> = changes.into_iter().collect();
    let (puts, removals): (Words, Words) = by_key.into_iter().partition(|(_, new)| new.is_some());
    [puts, removals].concat()
}

fn link<M: Media>(pool: &Pool<M>, tree: &dyn Index<U64Keys>, changes: &Words) {
    let mut steps = Steps::new(pool.media());
    assert!(tree.link_all(changes, &mut steps).unwrap());
    assert_eq!(steps.called, ["commit", "complete"]);
}

fn link_both<M: Media>(
    pool: &Pool<M>,
    tree: &dyn Index<U64Keys>,
    model: &mut BTreeMap<u64, u64>,
    changes: &Words,
) {
    link(pool, tree, changes);
    for (key, new) in changes {
        match new {
            Some(word) => _ = model.insert(*key, *word),
            None => _ = model.remove(key),
        }
    }
    expect(tree, model);
    assert_sound(pool, tree);
}

fn expect(tree: &dyn Index<U64Keys>, model: &BTreeMap<u64, u64>) {
    let found = scanned::<U64Keys>(tree, Bound::Unbounded, Direction::Forward, usize::MAX).unwrap();
    let expected: Vec<(u64, Vec<u64>)> = model.iter().map(|(k, v)| (*k, vec![*v])).collect();
    assert!(found == expected, "{found:?} and not {expected:?}");
    assert_eq!(tree.len(), model.len() as u64);
    assert!(model.iter().all(|(key, word)| tree.get(*key).unwrap() == Some(*word)));
}

fn batches() -> impl Strategy<Value = Vec<Words>> {
    let change = (0..150u64, prop::option::weighted(0.6, any::<u64>()));
    prop::collection::vec(prop::collection::vec(change, 1..60).prop_map(sorted), 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn batches_do_what_their_changes_do(batches in batches(), slots in 0..2usize) {
        for variant in VARIANTS {
            let tested = sizes(variant, [4, 8][slots]);
            let pool = dram_pool::<U64Keys>(tested, 16 << 20);
            let tree = opened::<U64Keys>(tested, &pool);
            let mut model = BTreeMap::new();
            for changes in &batches {
                link_both(&pool, &*tree, &mut model, changes);
            }
        }
    }
}

#[test]
fn a_batch_over_all_leaves_with_removals_and_the_greatest_key() {
    for variant in VARIANTS {
        for slots in [4, 8] {
            let tested = sizes(variant, slots);
            let pool = dram_pool::<U64Keys>(tested, 16 << 20);
            let tree = opened::<U64Keys>(tested, &pool);
            let mut model = BTreeMap::new();
            let fill = sorted((0..2000).map(|key| (key * 3, Some(key))));
            link_both(&pool, &*tree, &mut model, &fill);
            let every_eighth = (0..2000).step_by(8).map(|key| (key * 3, None));
            let mixed = sorted(every_eighth.chain([(u64::MAX, Some(7)), (0, None), (5, Some(1))]));
            link_both(&pool, &*tree, &mut model, &mixed);
            let all: Vec<u64> = model.keys().copied().collect();
            link_both(&pool, &*tree, &mut model, &sorted(all.iter().map(|key| (*key, None))));
            link_both(&pool, &*tree, &mut model, &sorted([(u64::MAX, Some(1)), (0, Some(2))]));
        }
    }
}

fn counted(variant: Variant) -> Opened<U64Keys, Instrumented> {
    counting::counted(Tested(variant, offer(variant).tuned))
}

/// 300 leaves of which the ones below have room: what a batch costs is known.
#[test]
fn a_batch_costs_its_lines_and_one_fence_a_round() {
    for variant in [Variant::FpTree, Variant::Concurrent] {
        let (pool, tree) = counted(variant);
        (0..10_000).for_each(|i| _ = tree.insert(random(i), i).unwrap());
        let cost = |changes: Words| {
            pool.media().reset();
            link(&pool, &*tree, &changes);
            let counts = pool.media().counts();
            assert_eq!(counts.event(Counter::LeafSplits), 0, "the numbers below are without");
            totals(&counts)
        };
        // Two fences are those of the steps.
        let replaced = |keys: u64| sorted((0..keys).map(|i| (random(i), Some(i + 1))));
        assert_eq!(cost(replaced(1)), (1, 3));
        let (flushes, fences) = cost(replaced(100));
        assert!((90..=100).contains(&flushes) && fences == 3, "{variant:?}: {flushes} {fences}");
        let added = cost(sorted([(random(20_000), Some(1)), (random(20_001), Some(1))]));
        assert_eq!(added, (4, 3), "two entries and two bitmaps");
        assert_eq!(cost(sorted([(random(20_000), None), (random(20_001), None)])), (2, 3));
        let both = sorted([(random(1), Some(5)), (random(20_002), Some(1)), (random(9), None)]);
        assert_eq!(cost(both), (4, 4), "removals are a round of their own");
        // All leaves: rounds of 128, no entry is added in the second.
        let leaves = tree.statistics().leaves;
        let rounds = leaves.div_ceil(128);
        let (_, fences) = cost(replaced(10_000));
        assert_eq!(fences, 2 + rounds, "{leaves} leaves");
    }
}

#[test]
fn many_ascending_keys_in_one_batch_cost_as_much_each_as_few() {
    for variant in VARIANTS {
        let each = |keys: u64| {
            let (pool, tree) = counted(variant);
            pool.media().reset();
            link(&pool, &*tree, &sorted((0..keys).map(|key| (key * 5, Some(key)))));
            let counts = pool.media().counts();
            let (flushes, fences) = totals(&counts);
            assert_eq!(tree.len(), keys);
            [flushes, fences, counts.pm_lines_read].map(|total| total as f64 / keys as f64)
        };
        let (few, many) = (each(2000), each(20_000));
        println!("{variant:?}: flushes, fences, lines read a key: {few:.3?} {many:.3?}");
        for (few, many) in few.into_iter().zip(many) {
            assert!(many < few * 1.1, "{variant:?}: {few} and {many} a key");
        }
        assert!(many[1] < 0.4, "{variant:?}: {} fences a key", many[1]);
    }
}

#[test]
fn a_batch_whose_steps_refuse_has_changed_nothing() {
    for variant in VARIANTS {
        let tested = sizes(variant, 8);
        let pool = dram_pool::<U64Keys>(tested, 1 << 20);
        let tree = opened::<U64Keys>(tested, &pool);
        let mut model = BTreeMap::new();
        link_both(&pool, &*tree, &mut model, &sorted((0..30).map(|key| (key * 2, Some(key)))));
        for changes in [
            sorted([(1, Some(1)), (3, Some(3)), (4, None), (8, Some(9))]),
            sorted((0..60).map(|key| (key, None))),
        ] {
            let mut steps = Steps { refuse: true, ..Steps::new(pool.media()) };
            assert!(tree.link_all(&changes, &mut steps).is_err());
            assert_eq!(steps.called, ["commit"]);
            expect(&*tree, &model);
            assert_sound(&pool, &*tree);
            link_both(&pool, &*tree, &mut model.clone(), &changes);
            let back = model.iter().map(|(key, word)| (*key, Some(*word)));
            link(&pool, &*tree, &sorted((0..60).map(|key| (key, None)).chain(back)));
            expect(&*tree, &model);
        }
    }
}

#[test]
fn a_batch_that_finds_no_room_midway_has_put_the_keys_before_and_removed_none() {
    for variant in VARIANTS {
        let tested = sizes(variant, 4);
        let pool = dram_pool::<U64Keys>(tested, 96 << 10);
        let tree = opened::<U64Keys>(tested, &pool);
        (0..8).for_each(|key| assert!(tree.insert(key, key).unwrap()));
        let puts = (4..10_000).map(|key| (key, Some(key + 1)));
        let changes = sorted(puts.chain((0..4).map(|key| (key, None))));
        let mut steps = Steps::new(pool.media());
        let refused = tree.link_all(&changes, &mut steps).unwrap_err();
        assert!(matches!(refused, IndexError::Pool(PoolError::PoolFull { .. })), "{refused}");
        assert_eq!(steps.called, ["commit"]);
        let put = tree.len() - 4;
        assert!(put > 100 && tree.get(put + 3).unwrap() == Some(put + 4));
        assert!((0..4).all(|key| tree.get(key).unwrap() == Some(key)));
        assert_sound(&pool, &*tree);
        // Taken back as a store does it.
        for key in (4..10_000).rev() {
            match key {
                4..8 => _ = tree.upsert(key, key).unwrap(),
                _ => _ = tree.remove(key).unwrap(),
            }
        }
        expect(&*tree, &(0..8).map(|key| (key, key)).collect());
    }
}

/// Every leaf is written by all of them.
#[test]
fn batches_of_several_threads_in_the_same_leaves_wait_for_each_other_and_end() {
    const THREADS: u64 = 4;
    let tested = sizes(Variant::Concurrent, 8);
    let pool = dram_pool::<U64Keys>(tested, 64 << 20);
    let tree = opened::<U64Keys>(tested, &pool);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (pool, tree) = (&pool, &*tree);
            scope.spawn(move || {
                let own = |i: u64| i * THREADS + thread;
                for round in 0..30u64 {
                    let word = |i: u64| {
                        let stays = !random(round * 1000 + i).is_multiple_of(3);
                        stays.then_some(round * 1_000_000 + own(i))
                    };
                    let changes = sorted((0..700).map(|i| (own(i), word(i))));
                    link(pool, tree, &changes);
                    for (key, word) in changes {
                        assert_eq!(tree.get(key).unwrap(), word);
                    }
                    let single = own(700 + round % 50);
                    tree.upsert(single, single).unwrap();
                    assert_eq!(tree.remove(single).unwrap(), Some(single));
                }
            });
        }
    });
    assert_sound(&pool, &*tree);
}

/// Leaves share locks: each batch takes some of them in another order than the others.
#[test]
fn batches_that_take_locks_in_different_orders_end() {
    const THREADS: u64 = 3;
    const KEYS: u64 = 20_000;
    let tested = sizes(Variant::Concurrent, 4);
    let pool = dram_pool::<U64Keys>(tested, 64 << 20);
    let tree = opened::<U64Keys>(tested, &pool);
    link(&pool, &*tree, &sorted((0..KEYS).map(|key| (key, Some(0)))));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (pool, tree) = (&pool, &*tree);
            scope.spawn(move || {
                for round in 1..2000u64 {
                    let key = |i| random(round * 200 + i) % (KEYS / THREADS) * THREADS + thread;
                    link(pool, tree, &sorted((0..130).map(|i| (key(i), Some(round)))));
                }
            });
        }
    });
    assert_eq!(tree.len(), KEYS);
    assert_sound(&pool, &*tree);
}
