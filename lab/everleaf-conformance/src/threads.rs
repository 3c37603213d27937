//! Real threads on one tree of small nodes: each has keys of its own, that no other thread changes,
//! between everybody's; scans see all keys that stay, in order.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, Ordering};

use everleaf_index::{Direction, Index, KeyKind};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::KeyOf;

const THREADS: u64 = 4;
/// Keys of a thread.
const KEYS: u64 = 500;
/// Keys that stay: every so many numbers one. Their value is that of no other.
const STAYING: usize = 64;

/// Each of four threads makes so many calls, and compares with a map; two others scan. The keys are
/// those of numbers below 2500.
pub fn work_together<K: KeyKind>(tree: &dyn Index<K>, key: KeyOf<K>, operations: usize, seed: u64) {
    println!("seed {seed}");
    let staying = (0..KEYS * (THREADS + 1)).step_by(STAYING);
    let count = staying.map(|number| tree.insert(K::borrow(&key(number)), u64::MAX).unwrap());
    let count = count.filter(|inserted| *inserted).count();
    let done = &AtomicBool::new(false);
    let keys: usize = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || Owner { tree, key, thread }.work(operations, seed)))
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
    assert_eq!(tree.len(), (keys + count) as u64);
}

struct Owner<'t, K: KeyKind> {
    tree: &'t dyn Index<K>,
    key: KeyOf<K>,
    thread: u64,
}

impl<K: KeyKind> Owner<'_, K> {
    /// How many keys there are in the end.
    fn work(&self, operations: usize, seed: u64) -> usize {
        let mut random = StdRng::seed_from_u64(seed + self.thread);
        let mut twin = BTreeMap::new();
        for step in 0..operations {
            // Mostly insertions, then mostly removals; at random, or ascending.
            let (growing, at_random) = (step / 1500 % 2 == 0, step / 3000 % 2 == 0);
            let own = if at_random { random.random_range(0..KEYS) } else { step as u64 % KEYS };
            let number = |own: u64| own * (THREADS + 1) + self.thread + 1;
            if number(own).is_multiple_of(STAYING as u64) {
                continue;
            }
            let (owned, value) = ((self.key)(number(own)), random.random());
            let (tree, key) = (self.tree, K::borrow(&owned));
            let (done, expected) = match random.random_range(0..8) {
                0 => {
                    let asked = (0..17).map(|i| (self.key)(number((own + i) % KEYS)));
                    self.find(&asked.collect::<Vec<_>>(), &twin);
                    continue;
                }
                1 => {
                    let place = twin.get_mut(&owned);
                    let expected = place.map(|place| std::mem::replace(place, value));
                    (tree.update(key, value), expected)
                }
                2 => (tree.upsert(key, value), twin.insert(owned.clone(), value)),
                3 => (tree.get(key), twin.get(&owned).copied()),
                drawn if growing && drawn > 4 => {
                    let expected = twin.get(&owned).copied();
                    let inserted = tree.insert(key, value).unwrap();
                    twin.entry(owned.clone()).or_insert(value);
                    assert_eq!(inserted, expected.is_none(), "{owned:?}, seed {seed}");
                    continue;
                }
                _ => (tree.remove(key), twin.remove(&owned)),
            };
            assert_eq!(done.unwrap(), expected, "{owned:?}, seed {seed}");
        }
        twin.len()
    }

    /// Finds keys of its own together, and some that stay.
    fn find(&self, asked: &[K::Owned], twin: &BTreeMap<K::Owned, u64>) {
        let keys: Vec<K::Ref<'_>> = asked.iter().map(K::borrow).collect();
        let mut values = vec![Some(7); keys.len()];
        self.tree.get_many(&keys, &mut values).unwrap();
        for (key, value) in asked.iter().zip(values) {
            let right = twin.get(key).copied();
            assert!(value == right || value == Some(u64::MAX) && right.is_none(), "{key:?}");
        }
    }
}

fn scan<K: KeyKind>(tree: &dyn Index<K>, direction: Direction, staying: usize) {
    let (mut last, mut stayed): (Option<K::Owned>, usize) = (None, 0);
    tree.scan(Bound::Unbounded, direction, &mut |key, value| {
        let key = K::to_owned(key);
        let is_next = last.as_ref().is_none_or(|last| match direction {
            Direction::Forward => *last < key,
            Direction::Backward => *last > key,
        });
        assert!(is_next, "{key:?} after {last:?}");
        last = Some(key);
        stayed += usize::from(value[0] == u64::MAX);
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(stayed >= staying, "{stayed} of {staying}");
}
