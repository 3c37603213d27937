//! The durable tree: after a crash it is what it was when the last epoch ended. Here the crash
//! loses nothing that was stored, as the death of a process does not: it tests what undoes an
//! epoch. That it is durable in time is the matter of the explorer.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use everleaf_conformance::model::{Action, Twin, operations};
use everleaf_crash::Instrumented;
use everleaf_index::{BytesKeys, Contract, Direction, Index, U64Keys};
use everleaf_pmem::{Counter, Cpu, Mapped, PPtr, Region};
use everleaf_pool::{Format, KeyType, Pool};
use proptest::prelude::*;

use super::super::engine::LOGS_ALL;
use super::super::layout::DURABLE_WIDTH;
use super::super::open;
use super::model::TestKey;
use super::{Parameters, SIZES, assert_sound, packed};
use everleaf_tree::key::SliceKey;

/// An empty pool whose first epoch comes after `epoch`.
fn pool(parameters: [u64; 8], max_bytes: u64, epoch: u64) -> Arc<Pool<Mapped>> {
    let format = Format { engine: "masstree".into(), key_type: KeyType::Bytes, parameters };
    let region = Region::anonymous(64 << 10, max_bytes).unwrap();
    let pool = Pool::create(Mapped::new(region, &Cpu::detect()).unwrap(), &format).unwrap();
    if epoch > 0 {
        pool.commit_epoch(epoch).unwrap();
    }
    pool
}

/// Everything in a tree, as scans in both directions and finds say.
fn content<K: SliceKey>(tree: &dyn Index<K>) -> BTreeMap<K::Owned, u64> {
    let mut shown = [Direction::Forward, Direction::Backward].map(|direction| {
        let mut entries = Vec::new();
        tree.scan(Bound::Unbounded, direction, &mut |key, value| {
            entries.push((K::to_owned(key), value[0]));
            ControlFlow::Continue(())
        })
        .unwrap();
        entries
    });
    shown[1].reverse();
    let [forward, backward] = shown;
    assert_eq!(forward, backward);
    for (key, value) in &forward {
        assert_eq!(tree.get(K::borrow(key)).unwrap(), Some(*value));
    }
    assert_eq!(tree.len(), forward.len() as u64);
    forward.into_iter().collect()
}

#[derive(Clone, Debug)]
enum Act {
    Do(Action),
    Sync,
    /// And whether everything is looked at afterwards.
    Crash(bool),
    Close,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        20 => operations(prop_oneof![0..40u64, 0..600u64]).prop_map(Act::Do),
        3 => Just(Act::Sync),
        2 => any::<bool>().prop_map(Act::Crash),
        1 => Just(Act::Close),
    ];
    prop::collection::vec(act, 0..120)
}

/// The parameters of a durable tree in the header of a pool.
fn durable(sizes: Parameters, logs_in_line: bool) -> [u64; 8] {
    with_buffers(sizes, logs_in_line, false)
}

/// The same, values in buffers or not.
fn with_buffers(sizes: Parameters, logs_in_line: bool, buffers: bool) -> [u64; 8] {
    let leaf_slots = sizes.leaf_slots.min(DURABLE_WIDTH as u64);
    let mut words = packed(Parameters { leaf_slots, ..sizes }, buffers);
    words[LOGS_ALL] = u64::from(!logs_in_line);
    words
}

fn run<K: TestKey>(acts: &[Act], parameters: [u64; 8], epoch: u64) {
    let pool = pool(parameters, 64 << 20, epoch);
    let mut tree = open::<K, _>(&pool, false).unwrap();
    assert_eq!(tree.contract(), Contract::Buffered);
    let mut now = Twin::<K>::new(|number| K::make(number as u16), 1);
    let mut ended = now.clone();
    for act in acts {
        match act {
            Act::Do(action) => now.step(&*tree, action),
            Act::Sync => {
                tree.sync().unwrap();
                ended.clone_from(&now);
            }
            Act::Crash(looks) => {
                drop(tree);
                now.clone_from(&ended);
                tree = open::<K, _>(&pool, true).unwrap();
                if *looks {
                    now.compare(&*tree);
                    assert_sound(&pool, &*tree);
                }
            }
            Act::Close => {
                tree.close().unwrap();
                drop(tree);
                ended.clone_from(&now);
                tree = open::<K, _>(&pool, false).unwrap();
            }
        }
    }
    now.compare(&*tree);
    assert_sound(&pool, &*tree);
    drop(tree);
    let tree = open::<K, _>(&pool, true).unwrap();
    assert_sound(&pool, &*tree);
    ended.compare(&*tree);
}

/// First epochs: 1, and some whose low bits soon come round.
const EPOCHS: [u64; 3] = [0, (1 << 16) - 4, (1 << 32) - 3];

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, ..ProptestConfig::default() })]

    #[test]
    fn numbers_are_rolled_back_to_the_end_of_an_epoch(
        acts in acts(), size in 0usize..3, epoch in 0usize..3,
        logs_in_line in prop::bool::weighted(0.8), buffers: bool
    ) {
        run::<U64Keys>(&acts, with_buffers(SIZES[size], logs_in_line, buffers), EPOCHS[epoch]);
    }

    #[test]
    fn byte_strings_are_rolled_back_to_the_end_of_an_epoch(
        acts in acts(), size in 0usize..3, epoch in 0usize..3,
        logs_in_line in prop::bool::weighted(0.8), buffers: bool
    ) {
        run::<BytesKeys>(&acts, with_buffers(SIZES[size], logs_in_line, buffers), EPOCHS[epoch]);
    }
}

#[test]
fn more_crashes_than_there_is_room_for_ranges() {
    let pool = pool(durable(SIZES[1], true), 64 << 20, 0);
    let mut expected = BTreeMap::new();
    for round in 0..600u64 {
        let tree = open::<U64Keys, _>(&pool, round > 0).unwrap();
        assert_eq!(tree.len(), expected.len() as u64, "{round}");
        // Some crashes come before any epoch has ended.
        if round % 3 > 0 {
            tree.upsert(round % 97 * 5, round).unwrap();
            tree.sync().unwrap();
            expected.insert(round % 97 * 5, round);
        }
        // All of this is taken back, at one time or another.
        for key in 0..20 {
            tree.upsert((round * 31 + key * 7) % 500, round + key).unwrap();
            tree.remove((round * 17 + key * 3) % 500).unwrap();
        }
    }
    let tree = open::<U64Keys, _>(&pool, true).unwrap();
    assert_eq!(content(&*tree), expected);
    assert_sound(&pool, &*tree);
}

/// Threads write keys of their own in the order of their counters, while another one ends epochs:
/// what was written before a `sync` that returned is there, and of each thread a beginning.
#[test]
fn of_each_thread_a_beginning_is_left() {
    const THREADS: u64 = 3;
    let pool = pool(durable(SIZES[1], true), 256 << 20, 0);
    for round in 0..12u64 {
        let tree = open::<U64Keys, _>(&pool, round > 0).unwrap();
        let place = |thread: u64, number: u64| number * 8 + thread;
        for thread in 0..THREADS {
            for number in 0..4000 {
                tree.remove(place(thread, number)).unwrap();
            }
        }
        tree.sync().unwrap();
        let (done, synced) = (AtomicBool::new(false), AtomicU64::new(0));
        let written: [AtomicU64; THREADS as usize] = Default::default();
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let (tree, written) = (&tree, &written[thread as usize]);
                    scope.spawn(move || {
                        for number in 0..4000 {
                            assert!(tree.insert(place(thread, number), number).unwrap());
                            written.store(number + 1, Ordering::Release);
                        }
                    })
                })
                .collect();
            scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    let least = written.iter().map(|w| w.load(Ordering::Acquire)).min();
                    tree.sync().unwrap();
                    synced.store(least.unwrap_or(0), Ordering::Release);
                }
            });
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            done.store(true, Ordering::Release);
        });
        drop(tree);
        let tree = open::<U64Keys, _>(&pool, true).unwrap();
        let keys = content(&*tree);
        for thread in 0..THREADS {
            let of_thread: Vec<u64> =
                keys.keys().filter(|key| *key % 8 == thread).copied().collect();
            let expected: Vec<u64> =
                (0..of_thread.len() as u64).map(|number| place(thread, number)).collect();
            assert_eq!(of_thread, expected, "round {round}");
            assert!(of_thread.len() as u64 >= synced.load(Ordering::Acquire));
        }
        assert_sound(&pool, &*tree);
        tree.close().unwrap();
    }
}

/// Threads that insert, remove and update at random while epochs end, and what is left is sound.
#[test]
fn threads_and_ends_of_epochs_leave_a_sound_tree() {
    for (sizes, buffers) in SIZES.into_iter().zip([false, true, true]) {
        let pool = pool(with_buffers(sizes, true, buffers), 256 << 20, 0);
        for round in 0..6u64 {
            let tree = open::<BytesKeys, _>(&pool, round > 0).unwrap();
            let done = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let writers: Vec<_> = (0..3u64)
                    .map(|thread| {
                        let tree = &tree;
                        scope.spawn(move || {
                            let mut state = round * 3 + thread + 1;
                            for _ in 0..4000 {
                                state =
                                    state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                                let key = BytesKeys::make((state >> 40) as u16 % 700);
                                match state >> 60 {
                                    0..6 => tree.upsert(&key, state >> 20).unwrap(),
                                    6..12 => tree.remove(&key).unwrap(),
                                    _ => tree.get(&key).unwrap(),
                                };
                            }
                        })
                    })
                    .collect();
                scope.spawn(|| {
                    while !done.load(Ordering::Acquire) {
                        tree.sync().unwrap();
                    }
                });
                writers.into_iter().for_each(|writer| writer.join().unwrap());
                done.store(true, Ordering::Release);
            });
            assert_sound(&pool, &*tree);
            content(&*tree);
        }
    }
}

#[test]
fn a_guard_keeps_the_epoch_from_ending_and_its_thread_may_go_on() {
    let pool = pool(durable(SIZES[0], true), 1 << 20, 0);
    let tree = open::<U64Keys, _>(&pool, false).unwrap();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let guard = tree.pin(1).unwrap();
        assert!(guard.is_pinned());
        tree.insert(1, 1).unwrap();
        scope.spawn(|| {
            tree.sync().unwrap();
            ended.store(true, Ordering::SeqCst);
        });
        for key in 2..50 {
            tree.insert(key, key).unwrap();
        }
        assert!(!ended.load(Ordering::SeqCst));
        drop(guard);
    });
    assert!(ended.load(Ordering::SeqCst));
    drop(tree);
    assert_eq!(open::<U64Keys, _>(&pool, true).unwrap().len(), 49);
}

/// Updates of random keys in an epoch: which nodes are in the log depends on who shares a line.
/// What a removal empties may stay where there is no memory for the log. That is left undone also
/// while a reader holds memory, and of the removal nothing is refused.
#[test]
fn a_removal_that_is_done_is_not_refused_for_want_of_memory_for_the_log() {
    // With a reader each node that stays waits for it 16 times: once is enough.
    let unread = SIZES.into_iter().map(|sizes| (sizes, false));
    for (sizes, is_read) in unread.chain([(SIZES[0], true)]) {
        let pool = pool(durable(sizes, true), 128 << 10, 0);
        let tree = open::<U64Keys, _>(&pool, false).unwrap();
        let mut worker = pool.worker().unwrap();
        let record = worker.begin_link(PPtr::NULL, Some(&[b"record"])).unwrap();
        worker.end_link(true).unwrap();
        // The log has room for one change, since each is of an epoch of its own.
        let end = (0..).find(|key| tree.insert(*key, 1).is_err() || tree.sync().is_err()).unwrap();
        let reader = is_read.then(|| pool.pin());
        worker.begin_link(record, None).unwrap();
        worker.end_link(true).unwrap();
        let guard = tree.pin(1).unwrap();
        for key in (0..end).rev() {
            assert_eq!(tree.remove(key).unwrap(), Some(1), "{key} of {end}, read: {is_read}");
        }
        drop((guard, reader));
        assert!(tree.statistics().leaves == 0 && content(&*tree).is_empty());
        tree.sync().unwrap();
        assert_sound(&pool, &*tree);
        assert!((0..end).all(|key| tree.insert(key, 2).unwrap()), "there is room again");
    }
}

#[test]
fn one_change_of_a_line_is_undone_in_line_and_a_second_one_by_the_log() {
    const MOST: u64 = u64::MAX;
    for (logs_in_line, buffers, least, updates, logged) in [
        (true, false, 0, [0u64, 0, 0, 0], 0),
        (true, false, 0, [0, 7, 0, 7], 0),
        (true, false, 0, [0, 7, 1, 0], 1),
        // 45 bits fit, and 46 do not, but in buffers.
        (true, false, (1 << 45) - 14, [0, 7, 0, 7], 0),
        (true, false, 1 << 45, [0, 0, 0, 0], 1),
        (true, true, MOST - 13, [0, 7, 0, 7], 0),
        (true, true, MOST - 13, [0, 7, 1, 0], 1),
        (false, true, 0, [0, 0, 0, 0], 1),
        (false, false, 0, [0, 0, 0, 0], 1),
    ] {
        let parameters = with_buffers(SIZES[2], logs_in_line, buffers);
        let media = Instrumented::counting(
            Mapped::new(Region::anonymous(1 << 20, 1 << 20).unwrap(), &Cpu::detect()).unwrap(),
        );
        let format = Format { engine: "masstree".into(), key_type: KeyType::U64, parameters };
        let pool = Pool::create(media, &format).unwrap();
        let tree = open::<U64Keys, _>(&pool, false).unwrap();
        for key in 0..14u64 {
            tree.insert(key, least + key).unwrap();
        }
        tree.sync().unwrap();
        let count = || pool.media().counts().event(Counter::NodesLogged);
        let before = count();
        let of_tree = tree.statistics().epochs.nodes_logged;
        for key in updates {
            tree.update(key, 100 + key).unwrap();
        }
        assert_eq!(count() - before, logged, "{updates:?} of {least}");
        assert_eq!(tree.statistics().epochs.nodes_logged - of_tree, logged);
    }
}
