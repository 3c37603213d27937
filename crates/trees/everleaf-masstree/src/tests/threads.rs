//! Threads that insert, remove, find and scan at the same time, in trees that split and become
//! empty all the time.

use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, Ordering};

use everleaf_index::{BytesKeys, Direction, U64Keys};
use everleaf_pmem::Media;

use super::super::{Masstree, create};
use super::{FULL, SIZES, assert_sound, packed, pool, pool_of};
use everleaf_tree::key::SliceKey;

trait Numbered: SliceKey {
    fn make(number: u64) -> Self::Owned;
}

impl Numbered for U64Keys {
    fn make(number: u64) -> u64 {
        number
    }
}

impl Numbered for BytesKeys {
    /// Several to a layer, layers that come and go.
    fn make(number: u64) -> Box<[u8]> {
        let mut key = (number / 24).to_be_bytes().to_vec();
        key.extend(vec![0; [0, 3, 8, 9][(number / 6 % 4) as usize]]);
        key.extend(vec![7; (number % 6) as usize]);
        key.push(1);
        key.into()
    }
}

/// Keys of even numbers stay; each thread adds and removes odd ones of its own.
fn churn<K: Numbered>(parameters: [u64; 8], rounds: u64) {
    const KEYS: u64 = 600;
    let pool = pool_of(parameters, 256 << 20);
    let tree = create::<K, _>(&pool).unwrap();
    let key = |number| K::make(number);
    for number in (0..KEYS).step_by(2).filter(|number| number / 48 % 2 == 0) {
        tree.upsert(K::borrow(&key(number)), number).unwrap();
    }
    let stays = tree.len();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2u64)
            .map(|thread| {
                let (tree, key) = (&tree, &key);
                scope.spawn(move || {
                    for round in 0..rounds {
                        let own = (0..KEYS).filter(|number| number % 4 == 1 + 2 * thread);
                        let own: Vec<u64> = own.collect();
                        for number in &own {
                            assert!(tree.insert(K::borrow(&key(*number)), round).unwrap());
                        }
                        for number in &own {
                            let old = tree.remove(K::borrow(&key(*number))).unwrap();
                            assert_eq!(old, Some(round), "{number}");
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let mut number = 0;
            while !done.load(Ordering::Relaxed) {
                number = (number + 2) % KEYS;
                let expected = (number / 48 % 2 == 0).then_some(number);
                assert_eq!(tree.get(K::borrow(&key(number))).unwrap(), expected);
            }
        });
        scope.spawn(|| {
            let mut turn = 0;
            while !done.load(Ordering::Relaxed) {
                turn += 1;
                let direction = [Direction::Forward, Direction::Backward][turn % 2];
                let (mut last, mut seen) = (None::<K::Owned>, 0);
                tree.scan(Bound::Unbounded, direction, &mut |at, value| {
                    let at = K::to_owned(at);
                    if let Some(last) = &last {
                        let order = last.cmp(&at);
                        assert_eq!(order.is_lt(), turn % 2 == 0, "{last:?} before {at:?}");
                        assert!(order.is_ne());
                    }
                    let even = value[0] % 2 == 0 && at == key(value[0]);
                    last = Some(at);
                    seen += u64::from(even && value[0] / 48 % 2 == 0);
                    ControlFlow::Continue(())
                })
                .unwrap();
                assert!(seen >= stays, "{seen} of {stays} keys that were there all the time");
            }
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(tree.len(), stays);
    assert_sound(&pool, &*tree);
}

#[test]
fn threads_find_what_stays_while_nodes_come_and_go() {
    for (sizes, buffers) in SIZES.into_iter().zip([true, false, true]) {
        churn::<U64Keys>(packed(sizes, buffers), 60);
    }
}

#[test]
fn threads_find_what_stays_while_layers_come_and_go() {
    for (sizes, buffers) in SIZES.into_iter().zip([false, true, true]) {
        churn::<BytesKeys>(packed(sizes, buffers), 60);
    }
}

/// Buffers that are replaced are soon those of other keys: what a reader shows is of the key that
/// was asked for all the same.
fn replaced<K: Numbered>(keys: u64, rounds: u64) {
    let pool = pool_of(packed(FULL, true), 64 << 20);
    let tree = create::<K, _>(&pool).unwrap();
    let names: Vec<K::Owned> = (0..keys).map(K::make).collect();
    for (number, name) in (0..).zip(&names) {
        assert!(tree.insert(K::borrow(name), number << 32).unwrap());
    }
    let is_of = |value: Option<u64>, number| value.is_none_or(|value| value >> 32 == number);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2u64)
            .map(|thread| {
                let (tree, names) = (&tree, &names);
                scope.spawn(move || {
                    for round in 1..=rounds {
                        for (number, name) in (0..keys).zip(names) {
                            let (name, value) = (K::borrow(name), number << 32 | round);
                            if number % 2 != thread {
                                continue;
                            }
                            let old = tree.update(name, value).unwrap();
                            assert_eq!(old, Some(number << 32 | (round - 1)));
                            if number % 6 == thread {
                                assert_eq!(tree.remove(name).unwrap(), Some(value));
                                assert!(tree.insert(name, value).unwrap());
                            }
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let all: Vec<K::Ref<'_>> = names.iter().map(K::borrow).collect();
            let mut values = vec![None; all.len()];
            while !done.load(Ordering::Relaxed) {
                for (number, name) in (0..).zip(&all) {
                    let value = tree.get(*name).unwrap();
                    assert!(is_of(value, number), "{value:?} of {number}");
                }
                tree.get_many(&all, &mut values).unwrap();
                assert!((0..).zip(&values).all(|(number, value)| is_of(*value, number)));
                let mut visit = |name: K::Ref<'_>, value: &[u64]| {
                    assert_eq!(K::to_owned(name), names[(value[0] >> 32) as usize]);
                    ControlFlow::Continue(())
                };
                tree.scan(Bound::Unbounded, Direction::Forward, &mut visit).unwrap();
            }
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(tree.len(), keys);
    assert_sound(&pool, &*tree);
}

#[test]
fn a_buffer_that_another_key_has_by_now_is_never_shown() {
    replaced::<U64Keys>(5, 20_000);
    replaced::<U64Keys>(200, 1000);
    replaced::<BytesKeys>(30, 5000);
}

#[test]
fn a_lock_that_another_thread_has_is_not_given_back() {
    let pool = pool(FULL, 1 << 20);
    let tree = Masstree::<U64Keys, _, false>::open(&pool, FULL, false, false).unwrap();
    let (media, top) = (pool.media(), tree.top().unwrap());
    let locked = top.at.lock(media, top.version).unwrap();
    assert!(top.at.try_lock(media).is_none());
    assert!(media.load(&top.at.node.version).is_locked(), "it is still the first one's");
    drop(locked);
    assert!(top.at.try_lock(media).is_some() && top.at.is_current(media, top.version));
}
