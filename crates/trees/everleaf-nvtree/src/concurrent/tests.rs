//! Real threads on one tree of small nodes: each has keys of its own, that no other thread changes,
//! between everybody's; scans see all keys that stay, in order; full pools.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use everleaf_crash::Dram;
use everleaf_index::{Direction, Index, Model, SerialIndex, U64Keys};
use everleaf_pool::{Pool, Shutdown};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::Variant;
use crate::engine::sizes_of;
use crate::tests::{TINY, tested};
use everleaf_conformance::{assert_sound, dram_pool};
use everleaf_tree::parameters::Parameters;

const THREADS: u64 = 4;
/// Keys that stay: every so many numbers one.
const STAYING: u64 = 64;

type Tree = ConcurrentNvTree<U64Keys, Dram>;

/// A tree whose leaves share so many latches.
fn tree(pool: &Arc<Pool<Dram>>, locks: usize) -> Tree {
    let (parameters, shape) = sizes_of(pool).unwrap();
    Tree::open(pool, shape, parameters, Shutdown::Crash.into(), locks).unwrap()
}

/// Calls on keys of this thread, compared with a model; how many keys there are in the end.
fn work(tree: &Tree, thread: u64, keys: u64, operations: usize, seed: u64) -> u64 {
    let mut random = StdRng::seed_from_u64(seed);
    let mut model = Model::<U64Keys>::new();
    let mut row = 0;
    for step in 0..operations {
        // Mostly insertions, then mostly removals; at random, or ascending.
        let (growing, random_keys) = (step / 1500 % 2 == 0, step / 3000 % 2 == 0);
        row = (row + 1) % keys;
        let number = if random_keys { random.random_range(0..keys) } else { row };
        let key = number * (THREADS + 1) + thread + 1;
        if key.is_multiple_of(STAYING) {
            continue;
        }
        let (value, mut old, mut expected) = (random.random(), [0], [0]);
        let (found, right) = match random.random_range(0..8) {
            0 => {
                let asked: Vec<u64> =
                    (0..17).map(|i| (number + i) * (THREADS + 1) + thread + 1).collect();
                let mut values = vec![Some(7); asked.len()];
                tree.get_many(&asked, &mut values).unwrap();
                for (key, value) in asked.iter().zip(values) {
                    let mut expected = [0];
                    let right =
                        model.get_words(*key, &mut expected).unwrap().then_some(expected[0]);
                    assert!(value == right || key.is_multiple_of(STAYING), "{key}, seed {seed}");
                }
                continue;
            }
            1 => (
                tree.update_words(key, &[value], &mut old),
                model.update_words(key, &[value], &mut expected),
            ),
            2 => (
                tree.upsert_words(key, &[value], &mut old),
                model.upsert_words(key, &[value], &mut expected),
            ),
            3 => (tree.get_words(key, &mut old), model.get_words(key, &mut expected)),
            4 => (tree.remove_words(key, &mut old), model.remove_words(key, &mut expected)),
            _ if growing => (tree.insert_words(key, &[value]), model.insert_words(key, &[value])),
            _ => (tree.remove_words(key, &mut old), model.remove_words(key, &mut expected)),
        };
        assert_eq!((found.unwrap(), old), (right.unwrap(), expected), "{key}, seed {seed}");
    }
    model.len()
}

fn scan(tree: &Tree, direction: Direction, staying: usize) {
    let (mut last, mut stayed): (Option<u64>, usize) = (None, 0);
    tree.scan(Bound::Unbounded, direction, &mut |key, value| {
        let ordered = last.is_none_or(|last| match direction {
            Direction::Forward => last < key,
            Direction::Backward => last > key,
        });
        assert!(ordered, "{key} after {last:?}");
        last = Some(key);
        stayed += usize::from(value[0] == u64::MAX && key.is_multiple_of(STAYING));
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(stayed >= staying, "{stayed} of {staying}");
}

fn run(parameters: Parameters, locks: usize, seed: u64) {
    const KEYS: u64 = 500;
    println!("{parameters:?}, {locks} latches, seed {seed}");
    let pool = dram_pool::<U64Keys>(tested(Variant::Concurrent, parameters), 64 << 20);
    let tree = tree(&pool, locks);
    let staying: Vec<u64> = (1..KEYS * (THREADS + 1) / STAYING).map(|i| i * STAYING).collect();
    staying.iter().for_each(|key| assert!(tree.insert(*key, u64::MAX).unwrap()));
    let (done, count) = (AtomicBool::new(false), staying.len());
    let (tree, done) = (&tree, &done);
    let keys: u64 = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || work(tree, thread, KEYS, 12_000, seed + thread)))
            .collect();
        for direction in [Direction::Forward, Direction::Backward] {
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    scan(tree, direction, count);
                }
            });
        }
        let joined: Vec<_> = writers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Relaxed);
        joined.into_iter().map(|keys| keys.unwrap()).sum()
    });
    assert_eq!(tree.count(), keys + count as u64);
    assert_sound::<U64Keys>(&pool, tree);
    // What stands in the pool is the same tree.
    let again = self::tree(&pool, 64);
    assert_eq!(again.count(), tree.count());
    assert_sound::<U64Keys>(&pool, &again);
}

#[test]
fn threads_do_not_lose_each_others_keys() {
    for (seed, leaf_slots) in [4, 8, 32].into_iter().enumerate() {
        for locks in [1, 2, 8192] {
            run(Parameters { leaf_slots, ..TINY }, locks, 100 * seed as u64);
        }
    }
}

/// Leaves whose latches are shared by all, so that whoever changes the list has the latch before,
/// too, or meets everybody.
#[test]
fn threads_that_meet_in_every_latch_get_on() {
    for locks in [1, 2] {
        run(Parameters { leaf_slots: 4, inner_keys: 8, ..TINY }, locks, 77);
    }
}

/// A pool that holds no more leaves: updates of threads find one as long as each gives one back.
#[test]
fn a_full_pool_refuses_no_updates_of_threads_that_give_leaves_back() {
    let pool = dram_pool::<U64Keys>(tested(Variant::Concurrent, TINY), 64 << 10);
    let tree = tree(&pool, 8192);
    let spread = |key: u64| key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut keys = Vec::new();
    for key in (0..6000).map(spread) {
        match tree.insert(key, key) {
            Ok(inserted) => assert!(inserted),
            Err(error) => {
                assert!(error.to_string().contains("full"), "{error}");
                break;
            }
        }
        keys.push(key);
    }
    assert!(keys.len() < 6000, "it was to fill up");
    let (tree, keys) = (&tree, &keys);
    let refused: usize = std::thread::scope(|scope| {
        let threads = (0..THREADS as usize).map(|thread| {
            scope.spawn(move || {
                let mine = || keys.iter().skip(thread).step_by(THREADS as usize);
                let update = |key: &u64| {
                    tree.update(*key, 1).map_or(1, |old| {
                        assert!(old.is_some());
                        0
                    })
                };
                (0..40).map(|_| mine().map(update).sum::<usize>()).sum::<usize>()
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(refused, 0);
    assert_sound::<U64Keys>(&pool, tree);
    for key in keys {
        assert_eq!(tree.remove(*key).unwrap(), Some(1));
    }
    assert_sound::<U64Keys>(&pool, tree);
}

/// A thread that stays pinned keeps what it may read: a full pool waits for it, not for ever.
#[test]
fn a_stalled_reader_makes_a_full_pool_refuse_and_not_hang() {
    let pool = dram_pool::<U64Keys>(tested(Variant::Concurrent, TINY), 64 << 10);
    let tree = tree(&pool, 64);
    let keys: Vec<u64> = (0..6000).take_while(|key| tree.insert(*key, 0).is_ok()).collect();
    let stalled = tree.enter();
    let mut refused = 0;
    for _ in 0..20 {
        refused += usize::from(tree.update(keys[0], 7).is_err());
    }
    assert!(refused > 0, "what has left may still be read");
    drop(stalled);
    keys.iter().for_each(|key| assert!(tree.update(*key, 8).unwrap().is_some()));
    assert_sound::<U64Keys>(&pool, &tree);
}

/// A leaf that has left is not used again while a thread is pinned that may read it.
#[test]
fn what_a_pinned_thread_may_read_is_not_written() {
    let pool = dram_pool::<U64Keys>(tested(Variant::Concurrent, TINY), 1 << 20);
    let tree = tree(&pool, 64);
    (0..4).for_each(|key| assert!(tree.insert(key * 10, key).unwrap()));
    let pinned = tree.enter();
    let old = tree.leaf(tree.parents.find(&pinned, 0).leaf).unwrap();
    let read = || {
        let media = pool.media();
        let words = (0..4).map(|slot| (media.load(old.key(slot)), media.load(&old.value(slot)[0])));
        (media.load(&old.head.fill), words.collect::<Vec<_>>())
    };
    let before = read();
    (0..200).for_each(|key| assert!(tree.upsert(key, key).is_ok()));
    assert_eq!(read(), before);
    drop(pinned);
    (200..400).for_each(|key| assert!(tree.upsert(key, key).is_ok()));
    (0..400).for_each(|key| assert!(tree.update(key, 1).unwrap().is_some()));
    assert_ne!(read(), before, "it serves again");
    assert_sound::<U64Keys>(&pool, &tree);
}

/// Runs `beside` again and again while threads merge and split two neighbours, in pools where these
/// are the first leaves and where they are not.
fn beside_merges(merges: usize, beside: impl Fn(&Tree, u64) + Sync) {
    for first in [0, 1000] {
        let pool = dram_pool::<U64Keys>(tested(Variant::Concurrent, TINY), 1 << 20);
        let tree = tree(&pool, 8192);
        let keys = (0..first / 10).chain((0..4).map(|i| first + i * 10));
        keys.for_each(|key| assert!(tree.insert(key, 0).unwrap()));
        let (tree, beside, done) = (&tree, &beside, &AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    beside(tree, first);
                }
            });
            // The leaf of this key is full every other time with four live keys, and with two.
            let merging = scope.spawn(move || {
                (0..4 * merges).try_for_each(|i| tree.update(first, i as u64).map(drop))
            });
            let merged = merging.join();
            done.store(true, Ordering::Relaxed);
            merged.unwrap().unwrap();
        });
        assert_sound::<U64Keys>(&pool, tree);
    }
}

#[test]
fn a_scan_beside_merges_shows_no_key_twice() {
    beside_merges(50_000, |tree, first| {
        let mut last = None;
        let from = Bound::Included(first);
        tree.scan(from, Direction::Forward, &mut |key, _| {
            assert!(last < Some(key), "{key} after {last:?}");
            last = Some(key);
            ControlFlow::Continue(())
        })
        .unwrap();
    });
}

#[test]
fn writers_beside_merges_meet_no_damage() {
    beside_merges(50_000, |tree, first| {
        assert!(tree.update(first + 10, 1).unwrap().is_some());
    });
}
