//! Many threads on one tree: each owns some keys, whose every answer it can predict; all look at
//! all.

mod between;
mod scans;

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use everleaf_crash::Dram;
use everleaf_index::{BytesKeys, Concurrency, Direction, Index, IndexError, U64Keys};
use everleaf_pmem::{AbortCause, Cpu, InjectedAborts, Region, Simulation, Transactions};
use everleaf_pool::{Pool, PoolError, Shutdown};
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::ConcurrentFpTree;
use crate::layout::Flexible;
use crate::tests::Tested;
use crate::{Opening, Parameters, Variant, offer};
use everleaf_conformance::{TestedTree, assert_sound};
use everleaf_tree::key::{TestKey, TreeKey};

const THREADS: u64 = 4;

pub(super) fn parameters(leaf_slots: u64, inner_keys: u64, value_words: u64) -> Parameters {
    Parameters { leaf_slots, inner_keys, value_words, ..offer(Variant::Concurrent).tuned }
}

pub(super) fn pool<K: TestKey>(parameters: Parameters, max_bytes: u64) -> Arc<Pool<Dram>> {
    let region = Region::anonymous(256 << 10, max_bytes).unwrap();
    let format = TestedTree::<K>::format(Tested(Variant::Concurrent, parameters));
    Pool::create(Dram::new(region, &Cpu::detect()), &format).unwrap()
}

pub(super) type Tree<K> = ConcurrentFpTree<K, Dram, Flexible<true>>;

pub(super) fn tree<K: TreeKey>(
    pool: &Arc<Pool<Dram>>,
    parameters: Parameters,
    threads: Option<usize>,
) -> Tree<K> {
    tree_with(pool, parameters, threads, Transactions::Off)
}

fn tree_with<K: TreeKey>(
    pool: &Arc<Pool<Dram>>,
    parameters: Parameters,
    threads: Option<usize>,
    transactions: Transactions,
) -> Tree<K> {
    let shape = <Flexible<true> as crate::Shape>::of(
        parameters.leaf_slots as usize,
        parameters.value_words as usize,
        false,
    )
    .unwrap();
    let opening = Opening { threads, transactions, ..Shutdown::Crash.into() };
    Tree::<K>::open(pool, shape, parameters, opening).unwrap()
}

/// Without transactions, with those of the processor if it has them, and with simulated ones that
/// abort never, often, and always.
fn schemes(seed: u64) -> Vec<Transactions> {
    let simulated = |aborts| Transactions::Simulated(Simulation { seed, aborts });
    let page_fault = InjectedAborts::Always(AbortCause::Unknown);
    let mut schemes = vec![
        Transactions::Off,
        simulated(InjectedAborts::Nothing),
        simulated(InjectedAborts::OneIn(3)),
        simulated(InjectedAborts::OneIn(50)),
        simulated(page_fault),
        simulated(InjectedAborts::Always(AbortCause::Conflict)),
    ];
    if Cpu::detect().rtm().is_some() {
        schemes.push(Transactions::Auto);
    }
    schemes
}

/// A thread's own keys: those whose number it is, modulo the number of threads.
struct Owner<'t, K: TestKey> {
    tree: &'t Tree<K>,
    thread: u64,
    words: usize,
    random: StdRng,
    twin: BTreeMap<K::Owned, Vec<u64>>,
}

impl<K: TestKey> Owner<'_, K> {
    fn own_key(&mut self, keys: u64) -> K::Owned {
        K::unique(self.random.random_range(0..keys / THREADS) * THREADS + self.thread)
    }

    /// The words of a value belong together.
    fn value(&mut self) -> Vec<u64> {
        let first = self.random.random::<u64>() << 8 | self.thread;
        (0..self.words as u64).map(|word| first.wrapping_mul(word + 1)).collect()
    }

    fn step(&mut self, keys: u64) {
        let (key, value, mut old) = (self.own_key(keys), self.value(), vec![0; self.words]);
        let at = K::borrow(&key);
        match self.random.random_range(0..100) {
            0..35 => {
                let absent = !self.twin.contains_key(&key);
                assert_eq!(self.tree.insert_words(at, &value).unwrap(), absent);
                if absent {
                    self.twin.insert(key, value);
                }
            }
            35..45 => {
                let before = self.twin.get_mut(&key);
                assert_eq!(self.tree.update_words(at, &value, &mut old).unwrap(), before.is_some());
                if let Some(before) = before {
                    assert_eq!(*before, old);
                    *before = value;
                }
            }
            45..55 => {
                let found = self.tree.upsert_words(at, &value, &mut old).unwrap();
                assert_eq!(self.twin.insert(key, value), found.then_some(old));
            }
            55..80 => {
                let found = self.tree.remove_words(at, &mut old).unwrap();
                assert_eq!(self.twin.remove(&key), found.then_some(old));
            }
            80..95 => {
                let found = self.tree.get_words(at, &mut old).unwrap();
                assert_eq!(self.twin.get(&key), found.then_some(&old));
            }
            95..97 => self.look_at_everybodys(keys),
            _ => self.scan(at),
        }
    }

    /// What others write may be there or not, but never in part.
    fn look_at_everybodys(&mut self, keys: u64) {
        let numbers: Vec<u64> = (0..20).map(|_| self.random.random_range(0..keys)).collect();
        let made: Vec<K::Owned> = numbers.iter().map(|number| K::unique(*number)).collect();
        let borrowed: Vec<_> = made.iter().map(K::borrow).collect();
        let mut values = vec![None; made.len()];
        self.tree.get_many(&borrowed, &mut values).unwrap();
        for ((number, key), value) in numbers.iter().zip(&made).zip(values) {
            if number % THREADS == self.thread {
                assert_eq!(value, self.twin.get(key).map(|words| words[0]));
            } else if let Some(first) = value {
                assert_eq!(first & 0xff, number % THREADS);
            }
            let mut words = vec![0; self.words];
            if self.tree.get_words(K::borrow(key), &mut words).unwrap() {
                self.is_whole(&words);
            }
        }
    }

    fn is_whole(&self, words: &[u64]) {
        assert!(
            words.iter().zip(1..).all(|(word, i)| *word == words[0].wrapping_mul(i)),
            "torn: {words:?}"
        );
    }

    /// In order, no key twice, every own key that is within and no other of one's own.
    fn scan(&mut self, from: K::Ref<'_>) {
        let direction = if self.random.random() { Direction::Forward } else { Direction::Backward };
        let mut left = 60;
        let mut shown: Vec<(K::Owned, Vec<u64>)> = Vec::new();
        self.tree
            .scan(Bound::Included(from), direction, &mut |key, words| {
                shown.push((K::to_owned(key), words.to_vec()));
                left -= 1;
                if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
            .unwrap();
        assert!(shown.windows(2).all(|pair| match direction {
            Direction::Forward => pair[0].0 < pair[1].0,
            Direction::Backward => pair[0].0 > pair[1].0,
        }));
        shown.iter().for_each(|(_, words)| self.is_whole(words));
        let (from, last) = (K::to_owned(from), shown.last().map(|(key, _)| key.clone()));
        let within = |key: &K::Owned| match (direction, &last) {
            _ if left > 0 => {
                if direction == Direction::Forward {
                    *key >= from
                } else {
                    *key <= from
                }
            }
            (Direction::Forward, Some(last)) => *key >= from && key <= last,
            (Direction::Backward, Some(last)) => *key <= from && key >= last,
            (_, None) => false,
        };
        let own: Vec<_> =
            shown.iter().filter(|(_, words)| words[0] & 0xff == self.thread).cloned().collect();
        let mut expected: Vec<_> = self
            .twin
            .iter()
            .filter(|(key, _)| within(key))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        if direction == Direction::Backward {
            expected.reverse();
        }
        assert_eq!(own, expected);
    }
}

/// Threads at work, then the whole compared, checked, and opened again.
fn run<K: TestKey>(
    parameters: Parameters,
    transactions: Transactions,
    keys: u64,
    steps: u64,
    seed: u64,
) {
    let pool = pool::<K>(parameters, 1 << 30);
    let shared = tree_with::<K>(&pool, parameters, None, transactions);
    let owner = |thread: u64| Owner {
        tree: &shared,
        thread,
        words: parameters.value_words as usize,
        random: StdRng::seed_from_u64(seed * THREADS + thread),
        twin: BTreeMap::new(),
    };
    let mut expected = BTreeMap::new();
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..THREADS)
            .map(|thread| {
                let mut owner = owner(thread);
                scope.spawn(move || {
                    (0..steps).for_each(|_| owner.step(keys));
                    owner.twin
                })
            })
            .collect();
        running.into_iter().for_each(|thread| expected.extend(thread.join().unwrap()));
    });
    let compare = |tree: &Tree<K>| {
        let mut found = BTreeMap::new();
        tree.scan(Bound::Unbounded, Direction::Forward, &mut |key, words| {
            found.insert(K::to_owned(key), words.to_vec());
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!((found, tree.len()), (expected.clone(), expected.len() as u64), "seed {seed}");
        assert_sound(&pool, tree);
    };
    compare(&shared);
    is_told(&shared, transactions);
    drop(shared);
    for threads in [1, 2, 7] {
        compare(&tree::<K>(&pool, parameters, Some(threads)));
    }
}

/// The statistics say which scheme it was, and what became of its transactions.
fn is_told<K: TestKey>(tree: &Tree<K>, transactions: Transactions) {
    let statistics = tree.statistics();
    let counts = statistics.conflicts.transactions;
    match transactions {
        Transactions::Simulated(Simulation { aborts, .. }) => {
            assert_eq!(statistics.concurrency, Concurrency::SimulatedRtm);
            let always = matches!(aborts, InjectedAborts::Always(_));
            assert_eq!(
                (counts.committed > 0, counts.fallbacks > 0 || !always),
                (!always, true),
                "{aborts:?}: {counts:?}"
            );
        }
        // How many commit is up to the processor.
        Transactions::Auto => {
            assert_eq!((statistics.concurrency, counts.begun() > 0), (Concurrency::Rtm, true));
        }
        _ => assert_eq!((statistics.concurrency, counts.begun()), (Concurrency::VersionLocks, 0)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 6,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn threads_on_one_tree_of_u64_keys_see_what_they_did(
        seed: u32,
        few in prop::sample::select(vec![40u64, 400, 4000]),
    ) {
        for transactions in schemes(seed.into()) {
            run::<U64Keys>(parameters(4, 4, 1), transactions, few, 3000, seed.into());
            run::<U64Keys>(parameters(56, 64, 3), transactions, few, 1500, seed.into());
        }
    }

    #[test]
    fn threads_on_one_tree_of_byte_keys_see_what_they_did(
        seed: u32,
        few in prop::sample::select(vec![40u64, 400, 4000]),
    ) {
        for transactions in schemes(seed.into()) {
            run::<BytesKeys>(parameters(4, 4, 1), transactions, few, 1500, seed.into());
            run::<BytesKeys>(parameters(16, 4, 2), transactions, few, 1000, seed.into());
        }
    }
}

/// A split, or an allocation, that is refused leaves the tree as it was, for all threads.
#[test]
fn a_full_pool_refuses_every_thread_and_stays_usable() {
    let parameters = parameters(8, 4, 1);
    let pool = pool::<BytesKeys>(parameters, 256 << 10);
    let tree = tree::<BytesKeys>(&pool, parameters, None);
    let inserted: u64 = std::thread::scope(|scope| {
        let tree = &tree;
        let fill = move |thread: u64| {
            let mut inserted = 0;
            for i in 0.. {
                match Index::insert(tree, format!("key {:08}", i * THREADS + thread).as_bytes(), i)
                {
                    Ok(true) => inserted += 1,
                    Ok(false) => panic!("the key is new"),
                    Err(IndexError::Pool(PoolError::PoolFull { .. } | PoolError::Map(_))) => {
                        return inserted;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            inserted
        };
        let running: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || fill(thread))).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(tree.len(), inserted);
    assert_sound(&pool, &tree);
    for thread in 0..THREADS {
        for i in 0..inserted {
            Index::remove(&tree, format!("key {:08}", i * THREADS + thread).as_bytes()).unwrap();
        }
    }
    assert!(tree.is_empty() && Index::insert(&tree, b"again", 1).unwrap());
    assert_sound(&pool, &tree);
}

/// The published tree retried for ever: a page fault in a transaction aborts it without a reason,
/// every time.
#[test]
fn transactions_that_always_abort_without_a_reason_do_not_hang_the_tree() {
    let parameters = parameters(4, 4, 1);
    let pool = pool::<BytesKeys>(parameters, 1 << 24);
    let aborts = InjectedAborts::Always(AbortCause::Unknown);
    let tree = tree_with::<BytesKeys>(
        &pool,
        parameters,
        None,
        Transactions::Simulated(Simulation { seed: 1, aborts }),
    );
    let key = |i: u64| format!("key {i:05}");
    (0..500).for_each(|i| assert!(Index::insert(&tree, key(i).as_bytes(), i).unwrap()));
    (0..500).for_each(|i| assert_eq!(Index::get(&tree, key(i).as_bytes()).unwrap(), Some(i)));
    assert_sound(&pool, &tree);
    (0..500).for_each(|i| assert_eq!(Index::remove(&tree, key(i).as_bytes()).unwrap(), Some(i)));
    let counts = tree.statistics().conflicts.transactions;
    assert_eq!((counts.committed, counts.aborted_by(AbortCause::Unknown)), (0, counts.begun()));
    assert_eq!(counts.begun(), 2 * counts.fallbacks, "an abort without a reason is forgiven once");
    assert_sound(&pool, &tree);
}

/// Keys whose first words are the same, or the greatest there is: shares part by all of their
/// bytes.
#[test]
fn any_number_of_threads_shares_the_leaves() {
    fn reopens<K: TestKey>(keys: &[K::Owned]) {
        let parameters = parameters(4, 4, 1);
        let pool = pool::<K>(parameters, 4 << 20);
        let first = tree::<K>(&pool, parameters, None);
        keys.iter().zip(0..).for_each(|(key, value)| {
            assert!(Index::insert(&first, K::borrow(key), value).unwrap())
        });
        drop(first);
        for threads in [1, 2, 7, 20, 64, 70] {
            let tree = tree::<K>(&pool, parameters, Some(threads));
            let mut shown = Vec::new();
            let mut show = |_: K::Ref<'_>, value: &[u64]| {
                shown.push(value[0]);
                ControlFlow::Continue(())
            };
            tree.scan(Bound::Unbounded, Direction::Forward, &mut show).unwrap();
            assert!(shown.into_iter().eq(0..keys.len() as u64), "{threads} threads");
            assert_sound(&pool, &tree);
        }
    }
    let numbers = |least: u64| (0..2000).map(|i| least + i * i).collect::<Vec<_>>();
    reopens::<U64Keys>(&[numbers(0), numbers(u64::MAX - 1999 * 1999)].concat());
    let strings = |prefix: &[u8]| {
        (0..1000)
            .map(|i| [prefix, format!("{i:04}").as_bytes()].concat().into())
            .collect::<Vec<Box<[u8]>>>()
    };
    reopens::<BytesKeys>(
        &[strings(b""), strings(b"the same for all of them "), strings(&[255; 40])].concat(),
    );
}
