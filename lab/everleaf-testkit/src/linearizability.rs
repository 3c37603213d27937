//! Histories of real threads on one index, and whether some order explains them.
//!
//! Each call is recorded with the moments of its invocation and its return, drawn from one counter.
//! A history is linearizable if each call can be given a moment between the two, so that one thread
//! that makes the calls in the order of these moments is told the same. Calls that speak of several
//! keys (a batch of finds, a scan) promise this of each of their keys, not of all at once; so a
//! history is judged key by key, which also keeps the search short (Herlihy and Wing, 1990:
//! linearizability is local).
//!
//! The search is that of Wing and Gong (1993) with the memory of Lowe (2017): what is left depends
//! only on how far each thread is and on the value.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicU64, Ordering};

use everleaf_index::{Direction, Index, IndexError};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::TestKeys;

/// What a call did to one key, and what its caller was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Looked for it, alone, with others, or in a scan.
    Get(Option<u64>),
    /// Tried to add it with this value; whether it was absent.
    Insert(u64, bool),
    /// Tried to replace its value by this one; the old one.
    Update(u64, Option<u64>),
    /// Gave it this value; the old one.
    Upsert(u64, Option<u64>),
    /// Removed it; the old value.
    Remove(Option<u64>),
    /// Gave it this value; nothing was told.
    Put(u64),
}

impl Act {
    /// The value after the call; none if it cannot have been told this of `value`.
    fn after(self, value: Option<u64>) -> Option<Option<u64>> {
        let (told, after) = match self {
            Act::Get(found) => (found == value, value),
            Act::Insert(new, added) => {
                (added == value.is_none(), if added { Some(new) } else { value })
            }
            Act::Update(new, old) => (old == value, old.map(|_| new)),
            Act::Upsert(new, old) => (old == value, Some(new)),
            Act::Remove(old) => (old == value, None),
            Act::Put(new) => (true, Some(new)),
        };
        told.then_some(after)
    }
}

/// One call of one thread on one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// When it began.
    pub invoked: u64,
    /// When it had returned; `u64::MAX`: nobody knows whether it did anything.
    pub returned: u64,
    /// What it did.
    pub act: Act,
}

/// The calls on each key, thread by thread, each thread's in their order. All keys were absent at
/// first.
pub type History<Key> = BTreeMap<Key, Vec<Vec<Call>>>;

/// The calls on a key that no order explains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotLinearizable<Key> {
    /// The key.
    pub key: Key,
    /// The next call of each thread where the search came furthest; none where a thread had made
    /// all of its calls.
    pub stuck: Vec<Option<Call>>,
    /// The value there.
    pub value: Option<u64>,
}

impl<Key: fmt::Debug> fmt::Display for NotLinearizable<Key> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, stuck, value } = self;
        write!(
            f,
            "no order explains what was told of {key:?}: when its value was {value:?}, none of \
            these calls could be next: {stuck:?}"
        )
    }
}

/// Judges a history.
///
/// # Errors
/// The first key whose calls no order explains.
///
/// # Examples
/// ```
/// use everleaf_testkit::linearizability::{Act, Call, check};
///
/// let insert = Call { invoked: 0, returned: 3, act: Act::Insert(7, true) };
/// let overlapping = |act| Call { invoked: 1, returned: 2, act };
/// for found in [None, Some(7)] {
///     let threads = vec![vec![insert], vec![overlapping(Act::Get(found))]];
///     assert!(check(&[("key", threads)].into()).is_ok());
/// }
/// let later = Call { invoked: 4, returned: 5, act: Act::Get(None) };
/// assert!(check(&[("key", vec![vec![insert], vec![later]])].into()).is_err());
/// ```
pub fn check<Key: Ord + Clone>(history: &History<Key>) -> Result<(), NotLinearizable<Key>> {
    for (key, threads) in history {
        if let Err((progress, value)) = explain(threads) {
            let stuck = threads
                .iter()
                .zip(&progress)
                .map(|(calls, done)| calls.get(*done).copied())
                .collect();
            return Err(NotLinearizable { key: key.clone(), stuck, value });
        }
    }
    Ok(())
}

/// How many calls of each thread were made, and the value then.
type Point = (Vec<usize>, Option<u64>);

/// Looks for an order; else tells the point that had most calls behind it.
fn explain(threads: &[Vec<Call>]) -> Result<(), Point> {
    let start: Point = (vec![0; threads.len()], None);
    let calls: usize = threads.iter().map(Vec::len).sum();
    let (mut furthest, mut seen) = (start.clone(), HashSet::from([start.clone()]));
    let mut open = vec![start];
    while let Some((progress, value)) = open.pop() {
        if progress.iter().sum::<usize>() > furthest.0.iter().sum() {
            furthest = (progress.clone(), value);
        }
        if progress.iter().sum::<usize>() == calls {
            return Ok(());
        }
        let next = || {
            threads
                .iter()
                .zip(&progress)
                .enumerate()
                .filter_map(|(i, (calls, done))| Some((i, calls.get(*done)?)))
        };
        // A call that began after another had returned comes after it.
        let first_return = next().map(|(_, call)| call.returned).min().unwrap_or(0);
        for (thread, call) in next().filter(|(_, call)| call.invoked <= first_return) {
            if let Some(after) = call.act.after(value) {
                let mut progress = progress.clone();
                progress[thread] += 1;
                if seen.insert((progress.clone(), after)) {
                    open.push((progress, after));
                }
            }
        }
    }
    Err(furthest)
}

/// What is recorded.
#[derive(Clone, Copy, Debug)]
pub struct Recording {
    /// Threads at work at the same time.
    pub threads: u64,
    /// Calls of each.
    pub calls: u64,
    /// Keys that all of them use: few, so that they meet.
    pub keys: u64,
    /// Draws the calls of the threads; not when they meet.
    pub seed: u64,
}

impl Recording {
    /// Lets threads use an empty `index` and records what they were told.
    ///
    /// # Errors
    /// What the index says.
    pub fn run<K: TestKeys>(self, index: &dyn Index<K>) -> Result<History<K::Owned>, IndexError> {
        let keys: Vec<K::Owned> = (0..self.keys).map(K::ordered).collect();
        let clock = AtomicU64::new(0);
        let thread = |thread| {
            let random = StdRng::seed_from_u64(self.seed ^ thread << 32);
            let mut recorder = Recorder {
                index,
                keys: &keys,
                clock: &clock,
                random,
                calls: vec![Vec::new(); keys.len()],
            };
            (0..self.calls)
                .try_for_each(|call| recorder.step(thread << 32 | call))
                .map(|()| recorder.calls)
        };
        let recorded: Vec<_> = std::thread::scope(|scope| {
            let running: Vec<_> =
                (0..self.threads).map(|number| scope.spawn(move || thread(number))).collect();
            running
                .into_iter()
                .map(|thread| {
                    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                })
                .collect()
        });
        let mut history = History::new();
        for calls in recorded {
            for (key, calls) in keys.iter().zip(calls?) {
                history.entry(key.clone()).or_insert_with(Vec::new).push(calls);
            }
        }
        Ok(history)
    }
}

/// One thread.
struct Recorder<'r, K: TestKeys> {
    index: &'r dyn Index<K>,
    keys: &'r [K::Owned],
    clock: &'r AtomicU64,
    random: StdRng,
    /// By key.
    calls: Vec<Vec<Call>>,
}

impl<K: TestKeys> Recorder<'_, K> {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn note(&mut self, key: usize, invoked: u64, returned: u64, act: Act) {
        self.calls[key].push(Call { invoked, returned, act });
    }

    /// One call; `value` is like no other.
    fn step(&mut self, value: u64) -> Result<(), IndexError> {
        let (kind, key) =
            (self.random.random_range(0..20), self.random.random_range(0..self.keys.len()));
        let at = K::borrow(&self.keys[key]);
        let invoked = self.now();
        let act = match kind {
            0..5 => Act::Get(self.index.get(at)?),
            5..9 => Act::Insert(value, self.index.insert(at, value)?),
            9..12 => Act::Update(value, self.index.update(at, value)?),
            12..14 => Act::Upsert(value, self.index.upsert(at, value)?),
            14..18 => Act::Remove(self.index.remove(at)?),
            18 => return self.get_many(key, invoked),
            _ => return self.scan(key, invoked),
        };
        let returned = self.now();
        self.note(key, invoked, returned, act);
        Ok(())
    }

    /// This key and those that follow.
    fn get_many(&mut self, first: usize, invoked: u64) -> Result<(), IndexError> {
        let last = (first + 20).min(self.keys.len());
        let keys: Vec<K::Ref<'_>> = self.keys[first..last].iter().map(K::borrow).collect();
        let mut values = vec![None; keys.len()];
        self.index.get_many(&keys, &mut values)?;
        let returned = self.now();
        (first..last)
            .zip(values)
            .for_each(|(key, found)| self.note(key, invoked, returned, Act::Get(found)));
        Ok(())
    }

    /// From this key on, in either direction; what is not shown was absent.
    fn scan(&mut self, from: usize, invoked: u64) -> Result<(), IndexError> {
        let forward = self.random.random();
        let direction = if forward { Direction::Forward } else { Direction::Backward };
        let mut values = vec![None; self.keys.len()];
        let mut left: u64 = self.random.random_range(1..20);
        let mut end = if forward { self.keys.len() } else { 0 };
        let bound = Bound::Included(K::borrow(&self.keys[from]));
        self.index.scan(bound, direction, &mut |key, words| {
            let at = self
                .keys
                .binary_search(&K::to_owned(key))
                .expect("only keys that were inserted are shown");
            values[at] = Some(words[0]);
            left -= 1;
            if left > 0 {
                return ControlFlow::Continue(());
            }
            end = if forward { at + 1 } else { at };
            ControlFlow::Break(())
        })?;
        let returned = self.now();
        let shown = if forward { from..end } else { end..from + 1 };
        shown.for_each(|key| self.note(key, invoked, returned, Act::Get(values[key])));
        Ok(())
    }
}
