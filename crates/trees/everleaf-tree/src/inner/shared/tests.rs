//! The shared tree against a sorted map, alone and under fire.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use everleaf_index::{BytesKeys, U64Keys};
use everleaf_pmem::{
    AbortCause, Cpu, InjectedAborts, SimdLevel, Simulation, TransactionalMemory, Transactions,
};
use proptest::prelude::*;

use super::super::latches::Latches;
use super::super::nodes::Nodes;
use super::*;

mod elision;
mod steps;
mod stress;

fn simd() -> SimdLevel {
    Cpu::detect().simd()
}

fn relax() {
    std::thread::yield_now();
}

fn insert<K: TreeKey, const C: usize>(
    inner: &SharedInner<K, C>,
    separator: K::Ref<'_>,
    child: u64,
) -> Result<u64, InnerError> {
    let left = inner.find(&relax, separator).0;
    let prepared = inner.prepare(&relax, separator, left)?;
    Ok(inner.insert(&relax, prepared, child))
}

/// All words of a node's lines.
fn content_of<K: TreeKey, const C: usize>(inner: &SharedInner<K, C>, node: u32) -> Vec<u64> {
    let words = (node..node + Nodes::<K, C>::NODE_LINES as u32)
        .flat_map(|line| (0..8).map(move |word| (line, word)));
    words.map(|(line, word)| inner.tree.nodes.load(line, word)).collect()
}

/// The nodes in use, with their words.
fn snapshot<K: TreeKey, const C: usize>(
    inner: &SharedInner<K, C>,
) -> Vec<(u32, NodeWord, Vec<u64>)> {
    let all = (0..inner.tree.nodes.used_lines() as u32).step_by(Nodes::<K, C>::NODE_LINES);
    let in_use = all.filter(|node| inner.tree.nodes.count(*node) > 0);
    in_use.map(|node| (node, inner.tree.nodes.node_word(node), content_of(inner, node))).collect()
}

/// Separator -> child, the smallest key for the first child; what every operation must answer.
struct Twin<K: TreeKey, const CAPACITY: usize> {
    inner: SharedInner<K, CAPACITY>,
    model: BTreeMap<K::Owned, u64>,
    next_child: u64,
}

impl<K: TreeKey, const CAPACITY: usize> Twin<K, CAPACITY> {
    fn new(smallest: K::Owned) -> Self {
        Self::with(smallest, Transactions::Off)
    }

    fn with(smallest: K::Owned, transactions: Transactions) -> Self {
        let inner = SharedInner::new(simd(), 1).unwrap();
        let inner =
            inner.with_transactions(TransactionalMemory::new(transactions, Cpu::detect().rtm()));
        Self { inner, model: BTreeMap::from([(smallest, 1)]), next_child: 2 }
    }

    fn covering(&self, key: &K::Owned) -> (K::Owned, u64) {
        let (separator, child) = self.model.range(..=key.clone()).next_back().unwrap();
        (separator.clone(), *child)
    }

    fn change(&mut self, key: &K::Owned, remove: bool) {
        let (separator, left) = self.covering(key);
        let (_, ticket) = self.inner.find(&relax, K::borrow(key));
        let before = snapshot(&self.inner);
        let changed = if remove {
            let first = self.model.keys().next() == Some(&separator);
            assert_eq!(self.inner.remove(&relax, K::borrow(key)), !first);
            if !first {
                self.model.remove(&separator);
            }
            !first
        } else {
            let prepared = self.inner.prepare(&relax, K::borrow(key), left);
            assert_eq!(prepared.is_ok(), separator != *key);
            if let Ok(prepared) = prepared {
                self.inner.insert(&relax, prepared, self.next_child);
                self.model.insert(key.clone(), self.next_child);
                self.next_child += 1;
                true
            } else {
                false
            }
        };
        // A removal that is refused under the fallback lock has locked the node all the same, and
        // makes its tickets stale for nothing.
        let for_nothing = !changed && self.inner.transaction_counts().fallbacks > 0;
        assert!(ticket.is_current() != changed || for_nothing);
        // A thread that read a node before it was changed must find out, even if it looks the same
        // again later: by its version, not its count.
        for (node, word, content) in before {
            let now = self.inner.tree.nodes.node_word(node);
            let same = word.count() == now.count() && content == content_of(&self.inner, node);
            assert!(
                same || now.with_count(0) != word.with_count(0),
                "node {node} was changed under its old version"
            );
        }
    }

    fn ask(&self, key: &K::Owned) {
        let (separator, child) = self.covering(key);
        let reference = K::borrow(key);
        let upper = self.model.range((Excluded(separator.clone()), Unbounded)).next();
        let first = self.model.keys().next() == Some(&separator);
        let (found, ticket) = self.inner.find(&relax, reference);
        assert!(found == child && ticket.is_current());
        let straight = self.inner.find_unvalidated(reference);
        let straight = straight.map(|(found, ticket)| (found, ticket.is_current()));
        // The directory does not know every number.
        assert!(straight == Some((child, true)) || straight.is_none() && !K::RECORDS);
        assert_eq!(self.inner.lower_bound(&relax, reference), separator);
        assert_eq!(self.inner.is_last(&relax, reference), upper.is_none());
        let sought = self.inner.seek(&relax, reference, Direction::Forward);
        assert_eq!((sought.child, sought.bound.as_ref()), (child, upper.map(|(upper, _)| upper)));
        assert!(sought.ticket.is_current());
        assert!(sought.hint.is_none_or(|hint| upper.is_some_and(|(_, child)| *child == hint)));
        self.step_on(&sought, Direction::Forward);
        let sought = self.inner.seek(&relax, reference, Direction::Backward);
        let before = self.model.range(..separator.clone()).next_back().map(|(_, child)| *child);
        assert_eq!((sought.child, sought.bound), (child, (!first).then_some(separator)));
        assert!(sought.hint.is_none_or(|hint| before == Some(hint)));
        let below = self.model.range(..key.clone()).next_back();
        let sought = self.inner.seek_before(&relax, reference);
        assert_eq!(sought.as_ref().map(|sought| sought.child), below.map(|(_, child)| *child));
        let bound = below
            .map(|(separator, _)| separator)
            .filter(|separator| self.model.keys().next() != Some(separator));
        assert_eq!(sought.and_then(|sought| sought.bound).as_ref(), bound);
    }

    fn compare(&self, keys: &[K::Owned]) {
        assert_eq!(self.inner.check(), Vec::<String>::new());
        assert_eq!(self.inner.len(), self.model.len() as u64);
        self.model.keys().chain(keys).for_each(|key| self.ask(key));
        let keys: Vec<_> = self.model.keys().chain(keys).collect();
        let (mut children, mut tickets) =
            (vec![0; keys.len()], vec![self.inner.stale_ticket(); keys.len()]);
        let references: Vec<_> = keys.iter().map(|key| K::borrow(key)).collect();
        self.inner.find_many(&relax, &references, &mut children, &mut tickets);
        assert_eq!(children, keys.iter().map(|key| self.covering(key).1).collect::<Vec<_>>());
        assert!(tickets.iter().all(|ticket| ticket.is_current()));
        let mut all = Vec::new();
        self.inner.for_each_child(|child| all.push(child));
        assert_eq!(all, self.model.values().copied().collect::<Vec<_>>());
        assert_eq!(self.inner.seek_edge(&relax, Direction::Forward).child, all[0]);
        let steps = [Direction::Forward, Direction::Backward].map(|direction| self.walk(direction));
        // A node of n children is left by a descent: forward from its last two, backward from its
        // first.
        assert!(
            self.inner.height() != 1 || steps == [all.len().saturating_sub(2), all.len() - 1],
            "{steps:?} steps"
        );
        let last = self.inner.seek_edge(&relax, Direction::Backward);
        assert_eq!(
            (last.child, last.bound.as_ref()),
            (all[all.len() - 1], self.model.keys().skip(1).next_back())
        );
        assert_eq!(self.inner.conflicts().restarts, 0, "no thread was in the way");
    }
}

fn simulated(seed: u64, aborts: InjectedAborts) -> Transactions {
    Transactions::Simulated(Simulation { seed, aborts })
}

/// Those of the processor, if it has them.
fn of_the_processor() -> Option<Transactions> {
    Cpu::detect().rtm().map(|_| Transactions::Auto)
}

/// By versions, by transactions of the processor, by simulated ones, and by simulated ones that
/// abort half of the times: the same.
fn run<K: TreeKey, const CAPACITY: usize>(smallest: K::Owned, steps: &[(K::Owned, bool)]) {
    let seed = steps.len() as u64;
    let schemes = [
        Transactions::Off,
        simulated(seed, InjectedAborts::Nothing),
        simulated(seed, InjectedAborts::OneIn(2)),
    ];
    for transactions in schemes.into_iter().chain(of_the_processor()) {
        run_with::<K, CAPACITY>(smallest.clone(), steps, transactions);
    }
}

fn run_with<K: TreeKey, const CAPACITY: usize>(
    smallest: K::Owned,
    steps: &[(K::Owned, bool)],
    transactions: Transactions,
) {
    let mut twin = Twin::<K, CAPACITY>::with(smallest, transactions);
    let keys: Vec<_> = steps.iter().map(|(key, _)| key.clone()).collect();
    for (key, remove) in steps {
        twin.change(key, *remove);
    }
    twin.compare(&keys);
    keys.iter().for_each(|key| twin.change(key, false));
    twin.compare(&keys);
    while let Some(key) = twin
        .model
        .keys()
        .skip(1)
        .nth(twin.model.len() / 3 % twin.model.len().saturating_sub(1).max(1))
        .cloned()
    {
        twin.change(&key, true);
    }
    twin.compare(&keys);
    assert_eq!((twin.inner.height(), twin.inner.inner_nodes()), (0, 0));
    let counts = twin.inner.transaction_counts();
    if transactions == Transactions::Auto {
        assert!(counts.begun() > 0); // How many commit is up to the processor.
    } else {
        assert_eq!(counts.committed > 0, transactions != Transactions::Off);
    }
    if counts.aborts() == 0 && twin.inner.is_transactional() {
        assert_eq!(
            twin.inner.conflicts().structure_changes,
            0,
            "a transaction changes nodes on all levels"
        );
    }
}

fn steps<T: Clone + std::fmt::Debug + 'static>(
    key: impl Strategy<Value = T> + 'static,
) -> impl Strategy<Value = Vec<(T, bool)>> {
    prop::collection::vec((key, prop::bool::weighted(0.3)), 1..300)
}

fn u64_key() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..200, any::<u64>(), (0u64..99).prop_map(|distance| u64::MAX - distance)]
}

fn bytes_key() -> impl Strategy<Value = Box<[u8]>> {
    prop_oneof![
        prop::collection::vec(prop::sample::select(vec![0u8, 1, b'a', 0xff]), 0..12),
        (0usize..80).prop_map(|len| vec![0; len]),
        (0u32..2000).prop_map(|number| format!(
            "a/rather/long/path/that/is/shared/by/all/of/them/user{number:09}"
        )
        .into_bytes()),
    ]
    .prop_map(Vec::into_boxed_slice)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn u64_separators_behave_like_a_sorted_map(steps in steps(u64_key())) {
        run::<U64Keys, 4>(0, &steps);
        run::<U64Keys, 8>(0, &steps);
        run::<U64Keys, 64>(0, &steps);
    }

    #[test]
    fn byte_string_separators_behave_like_a_sorted_map(steps in steps(bytes_key())) {
        run::<BytesKeys, 4>(Box::default(), &steps);
        run::<BytesKeys, 32>(Box::default(), &steps);
    }
}

/// Ascending separators leave nodes with one slot at the right edge, on all levels; they go one in
/// the other.
#[test]
fn nodes_that_become_empty_together_are_changed_under_new_versions() {
    let mut twin = Twin::<U64Keys, 4>::new(0);
    for last in 1..300u64 {
        twin.change(&last, false);
        if last.is_multiple_of(3) {
            twin.change(&last, true);
            twin.change(&last, false);
        }
    }
    (1..300).rev().for_each(|last| twin.change(&last, true));
    twin.compare(&[]);
}

#[test]
fn the_same_moves_by_transactions() {
    for transactions in
        [simulated(1, InjectedAborts::Nothing), simulated(2, InjectedAborts::OneIn(2))]
    {
        let mut twin = Twin::<U64Keys, 4>::with(0, transactions);
        (1..300u64).for_each(|last| twin.change(&last, false));
        (1..300).rev().for_each(|last| twin.change(&last, true));
        twin.compare(&[]);
    }
}

/// The holder of the fallback lock is alone: a transaction neither runs beside it nor waits for
/// ever.
#[test]
fn transactions_give_up_while_the_structure_is_locked() {
    let inner = SharedInner::<U64Keys, 4>::new(simd(), 7).unwrap();
    let inner = inner
        .with_transactions(TransactionalMemory::new(simulated(1, InjectedAborts::Nothing), None));
    let structure = inner.lock_structure();
    let (looked, turns) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    let relax = || turns.set(turns.get() + 1);
    assert_eq!(inner.find_in_transaction(&relax, 5, |_| looked.set(looked.get() + 1)), None);
    assert_eq!((inner.find(&relax, 5).0, looked.get()), (7, 0));
    assert!(turns.get() > 0 && inner.is_last(&relax, 5), "a descent that gave up goes by versions");
    drop(structure);
    assert_eq!(inner.find_in_transaction(&relax, 5, |child| child), Some((7, 7)));
    let counts = inner.transaction_counts();
    assert_eq!(
        (counts.committed, counts.fallbacks, counts.aborts()),
        (1, 2, counts.aborted_by(AbortCause::Locked))
    );
}

/// Another thread that is faster: it inserts right before the first node is locked.
struct Intruder<'a>(Option<&'a SharedInner<U64Keys, 4>>);

impl Latches for Intruder<'_> {
    fn change(&mut self, _node: u32) {
        if let Some(inner) = self.0.take() {
            insert(inner, 5, 5).unwrap();
        }
    }
}

#[test]
fn a_change_of_structure_searches_the_bottom_node_after_it_has_locked_it() {
    let inner = SharedInner::<U64Keys, 4>::new(simd(), 0).unwrap();
    insert(&inner, 10, 10).unwrap();
    insert(&inner, 20, 20).unwrap();
    let mut intruder = Intruder(Some(&inner));
    let (path, child) = inner.tree.path(15, &mut intruder);
    assert!(intruder.0.is_none(), "the bottom node is locked on the way down");
    assert_eq!((path.0[0].1, child), (2, 10), "0 and 5 are before it");
}

#[test]
fn threads_may_share_it() {
    fn shared<T: Send + Sync>(_: &T) {}
    shared(&SharedInner::<BytesKeys, 64>::new(simd(), 1).unwrap());
    shared(&SharedInner::<U64Keys, 64>::new(simd(), 1).unwrap());
}

#[test]
fn a_wrong_separator_is_refused() {
    let inner = SharedInner::<BytesKeys, 4>::new(simd(), 1).unwrap();
    assert!(
        matches!(inner.prepare(&relax, b"", 1), Err(InnerError::Order)),
        "the first child has the smallest key"
    );
    assert_eq!(insert(&inner, b"m", 2).unwrap(), 0);
    assert!(
        matches!(inner.prepare(&relax, b"m", 2), Err(InnerError::Order)),
        "it is the lower bound of its child"
    );
    assert!(
        matches!(inner.prepare(&relax, b"x", 1), Err(InnerError::Order)),
        "another child covers it"
    );
    let long = vec![7; 1 << 24];
    assert!(matches!(inner.prepare(&relax, &long, 1), Err(InnerError::TooLong { .. })));
    assert_eq!((inner.check(), inner.len()), (Vec::new(), 2));
}

#[test]
fn a_dropped_preparation_gives_everything_back() {
    let inner = SharedInner::<BytesKeys, 4>::new(simd(), 1).unwrap();
    for number in 0..100u64 {
        insert(
            &inner,
            &number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().repeat(4),
            number + 2,
        )
        .unwrap();
    }
    let bytes = inner.dram_bytes();
    for _ in 0..10_000 {
        let key = [b'q'; 1000];
        let left = inner.find(&relax, &key).0;
        let prepared = inner.prepare(&relax, &key, left).unwrap();
        assert_eq!(inner.tree.nodes.promised(), 1);
        assert!(inner.check()[0].contains("I6"), "a preparation is under way");
        drop(prepared);
    }
    assert_eq!((inner.check(), inner.len()), (Vec::new(), 101));
    assert!(inner.dram_bytes() <= bytes + (1 << 16), "{} then {bytes}", inner.dram_bytes());
}

/// What was promised must be there, whatever the others did meanwhile: the arena panics if it is
/// too short.
#[test]
fn prepared_insertions_find_their_memory_in_a_tree_that_grew_meanwhile() {
    for together in [1u64, 2, 3, 10, 100, 1000] {
        let inner = SharedInner::<U64Keys, 4>::new(simd(), 0).unwrap();
        // Leaves of their own, so that the preparations do not depend on each other.
        for bound in 1..=together {
            insert(&inner, bound * 1000, bound).unwrap();
        }
        for round in 1..20 {
            let nodes = &inner.tree.nodes;
            while nodes.arena.lines() - nodes.used_lines() >= Nodes::<U64Keys, 4>::NODE_LINES {
                nodes.allocate(); // no spare memory but what will be promised
            }
            let prepared: Vec<_> = (1..=together)
                .map(|bound| inner.prepare(&relax, bound * 1000 + 500 - round, bound).unwrap())
                .collect();
            let before = nodes.arena.lines();
            for (number, prepared) in prepared.into_iter().enumerate() {
                inner.insert(&relax, prepared, 1_000_000 + number as u64);
            }
            assert_eq!(
                (nodes.arena.lines(), nodes.promised()),
                (before, 0),
                "an insertion never asks for memory"
            );
        }
        assert_eq!(inner.len(), 1 + 20 * together);
    }
}

#[test]
fn a_ticket_of_one_child_ends_with_the_first_node() {
    let inner = SharedInner::<U64Keys, 4>::new(simd(), 7).unwrap();
    let (child, ticket) = inner.find(&relax, 5);
    assert!(child == 7 && ticket.is_current() && !inner.stale_ticket().is_current());
    insert(&inner, 5, 8).unwrap();
    assert!(!ticket.is_current());
    assert!(inner.remove(&relax, 5));
    assert_eq!((inner.find(&relax, 5).0, inner.height()), (7, 0));
    assert!(!ticket.is_current(), "it was another child in between");
}
