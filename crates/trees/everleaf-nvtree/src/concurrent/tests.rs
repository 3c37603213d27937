//! Real threads on one tree of small nodes: each has keys of its own, that no other thread changes,
//! between everybody's; scans see all keys that stay, in order; full pools.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use everleaf_crash::Dram;
use everleaf_index::{Direction, Index, U64Keys};
use everleaf_pool::{Pool, Shutdown};

use super::*;
use crate::Variant;
use crate::engine::sizes_of;
use crate::tests::{TINY, tested};
use everleaf_conformance::threads::work_together;
use everleaf_conformance::{assert_sound, dram_pool};
use everleaf_tree::parameters::Parameters;

const THREADS: u64 = 4;

type Tree = ConcurrentNvTree<U64Keys, Dram>;

/// A tree whose leaves share so many latches.
fn tree(pool: &Arc<Pool<Dram>>, locks: usize) -> Tree {
    let (parameters, shape) = sizes_of(pool).unwrap();
    Tree::open(pool, shape, parameters, Shutdown::Crash.into(), locks).unwrap()
}

fn run(parameters: Parameters, locks: usize, seed: u64) {
    println!("{parameters:?}, {locks} latches");
    let pool = dram_pool::<U64Keys>(tested(Variant::Concurrent, parameters), 64 << 20);
    let tree = tree(&pool, locks);
    work_together::<U64Keys>(&tree, |number| number, 12_000, seed);
    assert_sound::<U64Keys>(&pool, &tree);
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
