//! Threads that read and change one tree of small nodes, so that splits, merges and new roots are
//! everywhere.
//!
//! Numbers stand for keys. They are cut into ranges; the lower bound of a range is a separator that
//! stays, all others come and go. A range belongs to one writer, which therefore knows exactly what
//! must be found in it; the others know that a child must be of the key's range and not above the
//! key. The child of a separator is its number complemented, which is far outside of the arena: a
//! reader that has lost its way and takes it for a node must not follow it.

use std::cmp;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use everleaf_index::{IndexError, KeyKind};
use everleaf_pmem::{DramSource, MapError, Media, PCell};
use everleaf_pool::{Pool, RecordGuard, Worker};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::key::{EntryHash, KeepError, Kept, KeyHash, SliceKey, sealed};
use crate::{EngineCode, Open};

/// Numbers in a range.
const WIDTH: u64 = 64;

/// What a run is made of.
struct Run<K: TreeKey, const CAPACITY: usize> {
    inner: SharedInner<K, CAPACITY>,
    ranges: u64,
    writers: u64,
    steps: usize,
    key: fn(u64) -> K::Owned,
    /// That of every number.
    keys: Vec<K::Owned>,
}

impl<K: TreeKey, const CAPACITY: usize> Run<K, CAPACITY> {
    fn new(ranges: u64, writers: u64, steps: usize, key: fn(u64) -> K::Owned) -> Self {
        Self::with(Transactions::Off, ranges, writers, steps, key)
    }

    fn with(
        transactions: Transactions,
        ranges: u64,
        writers: u64,
        steps: usize,
        key: fn(u64) -> K::Owned,
    ) -> Self {
        let inner = SharedInner::new(simd(), !0).unwrap();
        let inner =
            inner.with_transactions(TransactionalMemory::new(transactions, Cpu::detect().rtm()));
        for range in 1..ranges {
            insert(&inner, K::borrow(&key(range * WIDTH)), !(range * WIDTH)).unwrap();
        }
        Self { inner, ranges, writers, steps, key, keys: (0..ranges * WIDTH).map(key).collect() }
    }

    /// Writers, and as many readers, to the end of the writers.
    fn go(&self, readers: u64, seed: u64) {
        println!("seed {seed}");
        let writers_at_work = std::sync::atomic::AtomicU64::new(self.writers);
        let done = AtomicBool::new(false);
        let mut separators: BTreeSet<u64> = (0..self.ranges).map(|range| range * WIDTH).collect();
        std::thread::scope(|scope| {
            for reader in 0..readers {
                let done = &done;
                scope.spawn(move || {
                    let mut random = StdRng::seed_from_u64(seed ^ (reader + 100) << 32);
                    while !done.load(Ordering::Relaxed) {
                        self.read(&mut random);
                    }
                });
            }
            let writers: Vec<_> = (0..self.writers)
                .map(|writer| {
                    let (writers_at_work, done) = (&writers_at_work, &done);
                    scope.spawn(move || {
                        // Also when it panics: the readers must end.
                        let _last = Last { writers_at_work, done };
                        let mut model = Model { run: self, writer, separators: BTreeSet::new() };
                        model.work(&mut StdRng::seed_from_u64(seed ^ writer << 32));
                        model.separators
                    })
                })
                .collect();
            writers.into_iter().for_each(|writer| separators.extend(writer.join().unwrap()));
        });
        assert_eq!(self.inner.check(), Vec::<String>::new());
        let mut children = Vec::new();
        self.inner.for_each_child(|child| children.push(!child));
        assert_eq!(children, separators.into_iter().collect::<Vec<_>>());
        println!(
            "height {}, {:?}, {:?}",
            self.inner.height(),
            self.inner.conflicts(),
            self.inner.transaction_counts()
        );
    }

    fn any(&self, random: &mut StdRng) -> u64 {
        random.random_range(0..self.ranges * WIDTH)
    }

    /// What holds of a child for `number`, whatever other threads change.
    fn covers(&self, number: u64, child: u64) {
        let child = !child;
        assert!(
            child <= number && child >= number / WIDTH * WIDTH,
            "{number} is not covered by the child at {child}"
        );
    }

    /// The separator that is the bound of a scan, as a number.
    fn number(&self, bound: &K::Owned) -> u64 {
        self.keys.binary_search(bound).expect("no such separator") as u64
    }

    fn read(&self, random: &mut StdRng) {
        let numbers: [u64; 20] = std::array::from_fn(|_| self.any(random));
        let keys = numbers.map(self.key);
        let references: Vec<_> = keys.iter().map(|key| K::borrow(key)).collect();
        let (mut children, mut tickets) = ([0; 20], [self.inner.stale_ticket(); 20]);
        self.inner.find_many(&relax, &references, &mut children, &mut tickets);
        numbers.iter().zip(children).for_each(|(number, child)| self.covers(*number, child));
        for (number, key) in numbers.iter().zip(references) {
            self.covers(*number, self.inner.find(&relax, key).0);
            let straight = self.inner.find_unvalidated(key);
            if let Some((child, _)) = straight.filter(|(_, ticket)| ticket.is_current()) {
                self.covers(*number, child);
            }
        }
        let (number, key) = (numbers[0], K::borrow(&keys[0]));
        if let Some((child, same)) = self.inner.find_in_transaction(&relax, key, |child| child) {
            assert_eq!(child, same);
            self.covers(number, child);
        }
        let next_range = (number / WIDTH + 1) * WIDTH;
        let sought = self.inner.seek(&relax, key, Direction::Forward);
        self.covers(number, sought.child);
        match sought.bound.map(|bound| self.number(&bound)) {
            Some(upper) => {
                assert!(upper > number && upper <= next_range, "{number} is followed by {upper}")
            }
            None => {
                assert_eq!(next_range, self.ranges * WIDTH, "{number} is not in the last child")
            }
        }
        let sought = self.inner.seek(&relax, key, Direction::Backward);
        assert_eq!(
            sought.bound.map_or(0, |bound| self.number(&bound)),
            !sought.child,
            "a child begins at its separator"
        );
        if let Some(sought) = self.inner.seek_before(&relax, key) {
            self.covers(number - 1, sought.child);
        }
        let last = self.inner.seek_edge(&relax, Direction::Backward);
        assert!(!last.child >= (self.ranges - 1) * WIDTH);
    }
}

/// The last writer tells the readers.
struct Last<'a> {
    writers_at_work: &'a AtomicU64,
    done: &'a AtomicBool,
}

impl Drop for Last<'_> {
    fn drop(&mut self) {
        if self.writers_at_work.fetch_sub(1, Ordering::Relaxed) == 1 || std::thread::panicking() {
            self.done.store(true, Ordering::Relaxed);
        }
    }
}

/// What a writer knows of its ranges.
struct Model<'a, K: TreeKey, const CAPACITY: usize> {
    run: &'a Run<K, CAPACITY>,
    writer: u64,
    /// Those that come and go.
    separators: BTreeSet<u64>,
}

impl<K: TreeKey, const CAPACITY: usize> Model<'_, K, CAPACITY> {
    fn own(&self, random: &mut StdRng) -> u64 {
        let range = random.random_range(0..self.run.ranges / self.run.writers) * self.run.writers
            + self.writer;
        range * WIDTH + random.random_range(0..WIDTH)
    }

    fn covering(&self, number: u64) -> u64 {
        let range = number / WIDTH * WIDTH;
        self.separators.range(range..=number).next_back().copied().unwrap_or(range)
    }

    fn work(&mut self, random: &mut StdRng) {
        for step in 0..self.run.steps {
            // Grows to almost all, shrinks to almost nothing.
            let removes = if step / 500 % 2 == 0 { 10 } else { 90 };
            let number = self.own(random);
            let key = (self.run.key)(number);
            self.change(number, K::borrow(&key), random.random_range(0..100) < removes);
            self.ask(self.own(random));
            if step.is_multiple_of(16) {
                self.run.read(random);
            }
        }
    }

    fn change(&mut self, number: u64, key: K::Ref<'_>, remove: bool) {
        let inner = &self.run.inner;
        let child = self.covering(number);
        let (found, ticket) = inner.find(&relax, key);
        assert_eq!(found, !child);
        if remove && !child.is_multiple_of(WIDTH) {
            assert!(inner.remove(&relax, key));
            self.separators.remove(&child);
        } else if !remove && child != number {
            let prepared = inner.prepare(&relax, key, !child).unwrap();
            if number.is_multiple_of(7) {
                drop(prepared); // a split that failed
                return self.ask(number);
            }
            inner.insert(&relax, prepared, !number);
            self.separators.insert(number);
        } else {
            return;
        }
        assert!(!ticket.is_current(), "the ticket of {number} outlived a change of its child");
        self.ask(number);
    }

    /// Exact answers.
    fn ask(&self, number: u64) {
        let (inner, key) = (&self.run.inner, (self.run.key)(number));
        let (key, child) = (K::borrow(&key), self.covering(number));
        assert_eq!(inner.find(&relax, key).0, !child);
        if let Some((found, ticket)) = inner.find_unvalidated(key) {
            assert!(found == !child || !ticket.is_current(), "from the side, {number}");
        }
        if inner.is_transactional() {
            assert!(
                inner
                    .find_in_transaction(&relax, key, |found| found)
                    .is_none_or(|found| found == (!child, !child))
            );
        }
        let next_range = (number / WIDTH + 1) * WIDTH;
        let upper = self.separators.range(number + 1..next_range).next().copied();
        let upper = upper.or((next_range < self.run.ranges * WIDTH).then_some(next_range));
        let sought = inner.seek(&relax, key, Direction::Forward);
        assert_eq!((sought.child, sought.bound), (!child, upper.map(self.run.key)));
        assert_eq!(inner.is_last(&relax, key), upper.is_none());
        assert_eq!(inner.lower_bound(&relax, key), (self.run.key)(child));
        if child < number {
            assert_eq!(
                inner.seek_before(&relax, key).map(|sought| !sought.child),
                Some(self.covering(number - 1))
            );
        }
    }
}

/// Keys of a kind that give way to other threads in the middle of searches and changes, so that
/// these meet far more often.
struct Yielding<K>(std::marker::PhantomData<K>);

impl<K: TreeKey> KeyKind for Yielding<K> {
    type Ref<'a> = K::Ref<'a>;
    type Owned = K::Owned;
    fn to_owned(key: K::Ref<'_>) -> K::Owned {
        K::to_owned(key)
    }
    fn borrow(key: &K::Owned) -> K::Ref<'_> {
        K::borrow(key)
    }
}

impl<K: TreeKey> sealed::Sealed for Yielding<K> {}

impl<K: TreeKey> SliceKey for Yielding<K> {
    const ONE_SLICE: bool = K::ONE_SLICE;
    fn admit_slices(key: K::Ref<'_>) -> Result<(), IndexError> {
        K::admit_slices(key)
    }
    fn slice(key: K::Ref<'_>, depth: usize) -> (u64, u8) {
        K::slice(key, depth)
    }
    fn rest<'k>(key: K::Ref<'k>, depth: usize) -> &'k [u8] {
        K::rest(key, depth)
    }
    fn of<'b>(slice: u64, bytes: &'b [u8]) -> K::Ref<'b> {
        K::of(slice, bytes)
    }
}

/// Functions of `K`, as they are.
macro_rules! as_they_are {
    ($(fn $name:ident $(<$media:ident>)? ($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {
        $(fn $name $(<$media: Media>)? ($($argument: $kind),*) -> $result {
            K::$name($($argument),*)
        })*
    };
}

impl<K: TreeKey> TreeKey for Yielding<K> {
    const RECORDS: bool = K::RECORDS;

    fn open_by<M: Media>(_code: &EngineCode<M>) -> Option<Open<Self, M>> {
        None
    }

    type BoundWord = K::BoundWord;
    type Separators = K::Separators;

    fn word(key: K::Ref<'_>, skip: usize) -> u64 {
        std::thread::yield_now();
        K::word(key, skip)
    }
    fn compare_kept(
        separators: &K::Separators,
        kept: Kept,
        key: K::Ref<'_>,
        skip: usize,
    ) -> cmp::Ordering {
        std::thread::yield_now();
        K::compare_kept(separators, kept, key, skip)
    }
    fn kept_word(separators: &K::Separators, kept: Kept, skip: usize) -> u64 {
        std::thread::yield_now();
        K::kept_word(separators, kept, skip)
    }
    fn copy_kept(separators: &K::Separators, kept: Kept) -> K::Owned {
        std::thread::yield_now();
        K::copy_kept(separators, kept)
    }

    fn least<'a>() -> K::Ref<'a> {
        K::least()
    }
    fn read<'g, M: Media>(
        records: &'g RecordGuard<'_, M>,
        word: u64,
    ) -> Result<K::Ref<'g>, IndexError> {
        K::read(records, word)
    }
    fn read_hashed<'g, M: Media>(
        records: &'g RecordGuard<'_, M>,
        word: u64,
        hash: EntryHash,
    ) -> Result<K::Ref<'g>, IndexError> {
        K::read_hashed(records, word, hash)
    }
    fn known_bound<'g, M: Media>(
        records: &'g RecordGuard<'_, M>,
        first: u64,
        word: K::BoundWord,
    ) -> K::Ref<'g> {
        K::known_bound(records, first, word)
    }
    as_they_are! {
        fn admit(key: K::Ref<'_>) -> Result<(), IndexError>;
        fn cmp_keys(left: K::Ref<'_>, right: K::Ref<'_>) -> cmp::Ordering;
        fn separator(left: K::Ref<'_>, right: K::Ref<'_>) -> K::Owned;
        fn hash(key: K::Ref<'_>) -> KeyHash;
        fn common_prefix(left: K::Ref<'_>, right: K::Ref<'_>, limit: usize) -> usize;
        fn as_word(key: K::Ref<'_>) -> Option<u64>;
        fn place<M>(
            worker: &mut Worker<M>, cell: &PCell, key: K::Ref<'_>
        ) -> Result<(), IndexError>;
        fn discard<M>(worker: &mut Worker<M>, cell: &PCell) -> Result<(), IndexError>;
        fn is_key<M>(pool: &Pool<M>, word: u64, key: K::Ref<'_>) -> Result<bool, IndexError>;
        fn is_hashed<M>(
            pool: &Pool<M>, word: u64, key: K::Ref<'_>, hash: EntryHash
        ) -> Result<bool, IndexError>;
        fn compare<M>(
            pool: &Pool<M>, word: u64, key: K::Ref<'_>
        ) -> Result<cmp::Ordering, IndexError>;
        fn verify<M>(pool: &Pool<M>, word: u64) -> Result<(), IndexError>;
        fn copy<M>(pool: &Pool<M>, word: u64) -> Result<K::Owned, IndexError>;
        fn bound_word(word: u64) -> K::BoundWord;
        fn prefetch<M>(media: &M, word: u64) -> ();
        fn prefetch_value<M>(media: &M, value: &PCell) -> ();
        fn separators(dram: DramSource<'_>) -> Result<K::Separators, MapError>;
        fn expect(separators: &K::Separators, words: u64) -> ();
        fn keep(separators: &K::Separators, key: K::Ref<'_>) -> Result<u64, KeepError>;
        fn release(separators: &K::Separators, handle: u64) -> ();
        fn words_kept(handle: u64) -> u64;
        fn words_in_use(separators: &K::Separators) -> u64;
        fn separator_bytes(separators: &K::Separators) -> u64;
    }
}

fn number(number: u64) -> u64 {
    number * 3
}

/// Numbers that only the slow search tells from padding.
fn ambiguous(number: u64) -> u64 {
    if number == 0 { 0 } else { u64::MAX - 64 * WIDTH + number }
}

/// Strings that share what a node's header remembers, and more.
fn long(number: u64) -> Box<[u8]> {
    if number == 0 {
        Box::default()
    } else {
        format!("a/long/path/that/is/shared/by/all/of/them/and/longer/than/that/{number:06}")
            .into_bytes()
            .into()
    }
}

/// Strings of many lengths and many shared prefixes.
fn mixed(number: u64) -> Box<[u8]> {
    if number == 0 {
        Box::default()
    } else {
        format!("{:04}{}", number / 4, "x".repeat(number as usize % 4 * 20)).into_bytes().into()
    }
}

/// Strings whose words are all equal.
fn zeros(number: u64) -> Box<[u8]> {
    vec![0; number as usize].into()
}

#[test]
fn u64_separators_under_fire() {
    Run::<U64Keys, 4>::new(64, 4, 10_000, number).go(0, 1);
    Run::<U64Keys, 4>::new(64, 2, 10_000, number).go(2, 2);
    Run::<U64Keys, 8>::new(64, 2, 10_000, ambiguous).go(2, 3);
    Run::<U64Keys, 32>::new(64, 4, 10_000, number).go(0, 4);
}

#[test]
fn byte_string_separators_under_fire() {
    Run::<BytesKeys, 4>::new(32, 4, 4_000, long).go(0, 1);
    Run::<BytesKeys, 4>::new(32, 2, 4_000, mixed).go(2, 2);
    Run::<BytesKeys, 4>::new(8, 2, 4_000, zeros).go(2, 3);
    Run::<BytesKeys, 32>::new(32, 4, 4_000, mixed).go(0, 4);
}

/// The root comes, rises, falls and goes.
#[test]
fn roots_under_fire() {
    Run::<U64Keys, 4>::new(1, 1, 40_000, number).go(3, 1);
    Run::<U64Keys, 4>::new(2, 2, 20_000, number).go(2, 2);
    Run::<BytesKeys, 4>::new(1, 1, 20_000, mixed).go(3, 3);
}

#[test]
fn large_nodes_under_fire() {
    Run::<U64Keys, 64>::new(64, 4, 20_000, number).go(0, 1);
    Run::<BytesKeys, 64>::new(32, 2, 4_000, mixed).go(2, 2);
}

#[test]
fn threads_that_give_way_in_the_middle_of_everything() {
    Run::<Yielding<U64Keys>, 4>::new(8, 4, 400, number).go(0, 1);
    Run::<Yielding<U64Keys>, 4>::new(1, 1, 800, number).go(3, 2);
    Run::<Yielding<BytesKeys>, 4>::new(8, 4, 250, mixed).go(0, 3);
    Run::<Yielding<BytesKeys>, 4>::new(1, 1, 400, zeros).go(3, 4);
    Run::<Yielding<BytesKeys>, 64>::new(16, 4, 120, long).go(0, 5);
}

/// Transactions, and beside them changes under the fallback lock and descents by versions, whose
/// share the aborts decide.
#[test]
fn transactions_under_fire() {
    let aborts = [
        InjectedAborts::Nothing,
        InjectedAborts::OneIn(2),
        InjectedAborts::OneIn(20),
        InjectedAborts::Always(AbortCause::Unknown),
    ];
    let simulated_ones = (10..).zip(aborts).map(|(seed, aborts)| simulated(seed, aborts));
    for (seed, transactions) in (10..).zip(simulated_ones.chain(of_the_processor())) {
        println!("{transactions:?}");
        Run::<U64Keys, 4>::with(transactions, 64, 4, 2000, number).go(0, seed);
        Run::<U64Keys, 8>::with(transactions, 64, 2, 1500, ambiguous).go(2, seed);
        Run::<BytesKeys, 4>::with(transactions, 32, 2, 1000, mixed).go(2, seed);
        Run::<U64Keys, 4>::with(transactions, 1, 1, 4000, number).go(2, seed);
        Run::<Yielding<U64Keys>, 4>::with(transactions, 4, 2, 150, number).go(0, seed);
        Run::<Yielding<BytesKeys>, 4>::with(transactions, 4, 2, 60, mixed).go(1, seed);
    }
    Run::<U64Keys, 64>::with(simulated(1, InjectedAborts::OneIn(3)), 64, 4, 3000, number).go(0, 1);
}
