//! Real threads on one tree of small nodes: each has keys of its own, that no other thread changes,
//! between everybody's; a scan sees all keys that stay, in order.

use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, Ordering};

use everleaf_index::{BytesKeys, Direction, Index, Model, SerialIndex, U64Keys};
use everleaf_pmem::{Cpu, Mapped, Region};
use everleaf_pool::Pool;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::super::{Variant, open};
use super::{assert_sound, format};
use everleaf_tree::key::TestKey;

const THREADS: u16 = 4;
const OPERATIONS: usize = 20_000;
/// Keys that stay: every so many numbers one.
const STAYING: u16 = 64;

fn work<K: TestKey>(tree: &dyn Index<K>, thread: u16, seed: u64) -> u64
where
    Model<K>: SerialIndex<K>,
{
    let mut random = StdRng::seed_from_u64(seed);
    let mut model = Model::<K>::new();
    for _ in 0..OPERATIONS {
        let number = random.random_range(0..500) * (THREADS + 1) + thread + 1;
        if number.is_multiple_of(STAYING) {
            continue;
        }
        if random.random_range(0..8) == 0 {
            // Keys of its own, and one more than go down together.
            let keys: Vec<K::Owned> = (0..17)
                .map(|_| K::ascending(random.random_range(0..500) * (THREADS + 1) + thread + 1))
                .collect();
            let asked: Vec<K::Ref<'_>> = keys.iter().map(K::borrow).collect();
            let mut values = vec![Some(7); asked.len()];
            tree.get_many(&asked, &mut values).unwrap();
            for (key, value) in asked.iter().zip(values) {
                let mut expected = [0];
                let right = model.get_words(*key, &mut expected).unwrap().then_some(expected[0]);
                assert!(
                    value == right || right.is_none() && value == Some(u64::MAX),
                    "{key:?}, seed {seed}"
                );
            }
        }
        let (key, value, mut old, mut expected) = (K::ascending(number), random.random(), [0], [0]);
        let key = K::borrow(&key);
        let (found, right) = match random.random_range(0..6) {
            0 | 1 => (tree.insert_words(key, &[value]), model.insert_words(key, &[value])),
            2 => (
                tree.upsert_words(key, &[value], &mut old),
                model.upsert_words(key, &[value], &mut expected),
            ),
            3 => (tree.get_words(key, &mut old), model.get_words(key, &mut expected)),
            _ => (tree.remove_words(key, &mut old), model.remove_words(key, &mut expected)),
        };
        assert_eq!((found.unwrap(), old), (right.unwrap(), expected), "{key:?}, seed {seed}");
    }
    model.len()
}

fn scan<K: TestKey>(tree: &dyn Index<K>, direction: Direction, staying: usize) {
    let mut last: Option<K::Owned> = None;
    let mut stayed = 0;
    tree.scan(Bound::Unbounded, direction, &mut |key, value| {
        let key = K::to_owned(key);
        let ordered = last
            .as_ref()
            .is_none_or(|last| (*last < key) == (direction == Direction::Forward) && *last != key);
        assert!(ordered, "{key:?} after {last:?}");
        last = Some(key);
        stayed += usize::from(value[0] == u64::MAX);
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(stayed >= staying, "{stayed} of {staying}");
}

fn run<K: TestKey>(slots: u64, variant: Variant)
where
    Model<K>: SerialIndex<K>,
{
    let media =
        Mapped::new(Region::anonymous(64 << 10, 256 << 20).unwrap(), &Cpu::detect()).unwrap();
    let pool = Pool::create(media, &format(K::KEY_TYPE, slots)).unwrap();
    let tree = open::<K, _>(&pool, variant, everleaf_pool::Shutdown::Clean).unwrap();
    let staying: Vec<u16> = (0..500 * (THREADS + 1)).step_by(STAYING.into()).collect();
    for number in &staying {
        tree.insert(K::borrow(&K::ascending(*number)), u64::MAX).unwrap();
    }
    let done = AtomicBool::new(false);
    let (tree_ref, done_ref, count) = (&*tree, &done, staying.len());
    let keys: u64 = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || work::<K>(tree_ref, thread, 100 * slots + u64::from(thread)))
            })
            .collect();
        for direction in [Direction::Forward, Direction::Backward] {
            scope.spawn(move || {
                while !done_ref.load(Ordering::Relaxed) {
                    scan::<K>(tree_ref, direction, count);
                }
            });
        }
        let joined: Vec<_> = writers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Relaxed);
        joined
            .into_iter()
            .map(|keys| keys.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .sum()
    });
    assert_eq!(tree.len(), keys + count as u64);
    assert_sound(&pool, &*tree);
}

#[test]
fn threads_do_not_lose_each_others_keys() {
    for slots in [4, 8, 32] {
        for variant in [Variant::CircTree, Variant::FastFair] {
            run::<U64Keys>(slots, variant);
            run::<BytesKeys>(slots, variant);
        }
    }
}
