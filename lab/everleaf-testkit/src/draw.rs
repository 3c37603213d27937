//! Scenarios drawn from a seed.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::{End, Key, Operation, Scenario, ScriptKeys};

/// Keys of random programs of several threads: so few that threads meet, and more than a leaf of
/// the smallest size holds.
const SHARED_KEYS: u64 = 8;

impl Scenario {
    /// `count` operations drawn from a seed over few keys, so that they meet; about a third grow
    /// the tree beyond its leaves. Among them are crashes and reopenings, so that what follows one
    /// meets what it has left; and now and then a `sync` or an `epoch`, which mean something to a
    /// buffered engine alone.
    pub fn random(keys: ScriptKeys, count: usize, seed: u64) -> Self {
        Self::drawn(keys, count, seed, Kinds::OfIndex)
    }

    /// The same with batches and transactions.
    pub(crate) fn random_with_batches(keys: ScriptKeys, count: usize, seed: u64) -> Self {
        Self::drawn(keys, count, seed, Kinds::WithBatches)
    }

    /// The same with everything that a store has and an index has not.
    pub fn random_of_store(keys: ScriptKeys, count: usize, seed: u64) -> Self {
        Self::drawn(keys, count, seed, Kinds::OfStore)
    }

    fn drawn(keys: ScriptKeys, count: usize, seed: u64, kinds: Kinds) -> Self {
        let space = (count as u64 / 2).max(6);
        let mut draw = Draw { rng: StdRng::seed_from_u64(seed), keys, space, kinds };
        let explore = (0..count).map(|_| draw.operation()).collect();
        Self { keys, prepare: Vec::new(), cut: None, explore }
    }

    /// A program of `threads` threads, 2 to 16, drawn from a seed: some operations that prepare,
    /// then rounds in which each thread runs one operation, `count` in all, on few keys.
    pub fn random_threads(keys: ScriptKeys, count: usize, threads: usize, seed: u64) -> Self {
        Self::drawn_threads(keys, count, threads, seed, Kinds::OfIndex)
    }

    /// The same with what a store has and an index has not.
    pub fn random_threads_of_store(
        keys: ScriptKeys,
        count: usize,
        threads: usize,
        seed: u64,
    ) -> Self {
        Self::drawn_threads(keys, count, threads, seed, Kinds::OfStore)
    }

    fn drawn_threads(
        keys: ScriptKeys,
        count: usize,
        threads: usize,
        seed: u64,
        kinds: Kinds,
    ) -> Self {
        let rng = StdRng::seed_from_u64(seed);
        let mut draw = Draw { rng, keys, space: SHARED_KEYS, kinds };
        let insertion = |_| {
            let (key, value) = (draw.key(), draw.value());
            Operation::Insert(key, value)
        };
        let prepare = (0..SHARED_KEYS).map(insertion).collect();
        let thread = |i: usize| Operation::Thread {
            thread: (i % threads) as u16 + 1,
            round: i / threads,
            operation: Box::new(draw.of_thread()),
        };
        Self { keys, prepare, cut: None, explore: (0..count).map(thread).collect() }
    }
}

/// The most writes of a batch that is drawn.
const MAX_DRAWN_WRITES: usize = 5;

/// The most entries that are filled at once.
const MAX_DRAWN_ENTRIES: u16 = 9;

/// Which operations are drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kinds {
    OfIndex,
    WithBatches,
    OfStore,
}

/// What random operations are drawn from.
struct Draw {
    rng: StdRng,
    keys: ScriptKeys,
    /// So many keys.
    space: u64,
    kinds: Kinds,
}

impl Draw {
    /// A key of the tree without a name.
    fn key(&mut self) -> Key {
        let number = self.rng.random_range(0..self.space);
        script_key(self.keys, number)
    }

    /// A key of any tree.
    fn key_of_any(&mut self) -> Key {
        match self.key() {
            Key::Bytes(key) if self.rng.random_ratio(1, 3) => {
                Key::InTree(["a", "b"][self.rng.random_range(0..2)].to_owned(), key)
            }
            key => key,
        }
    }

    /// Two keys of the tree without a name, in order.
    fn range(&mut self) -> (Key, Key) {
        let keys = [self.key(), self.key()];
        let [from, below] = keys;
        if from < below { (from, below) } else { (below, from) }
    }

    fn value(&mut self) -> u64 {
        self.rng.random_range(0..4u64).wrapping_sub(1)
    }

    fn write(&mut self, kind: u32) -> Operation {
        let value = self.value();
        let key = self.key();
        random_write(kind, key, value)
    }

    fn batch(&mut self) -> Operation {
        let writes = self.rng.random_range(1..=MAX_DRAWN_WRITES);
        let write = |_| {
            let kind = self.rng.random_range(0..10);
            self.write(kind)
        };
        Operation::Batch((0..writes).map(write).collect())
    }

    fn claim(&mut self) -> Operation {
        let (from, below, key) = (self.key(), self.key(), self.key());
        Operation::Claim(from, below, key, self.rng.random_range(0..4))
    }

    fn operation(&mut self) -> Operation {
        let batches = self.kinds != Kinds::OfIndex;
        match self.rng.random_range(0..80) {
            79 | 78 => Operation::Reopen,
            75..78 => Operation::Crash,
            74 => Operation::Sync,
            73 => Operation::Epoch,
            72 => Operation::Scan,
            68..72 => Operation::Get(self.key()),
            58..68 if batches => self.batch(),
            56..58 if batches => Operation::Move(self.key(), self.key()),
            55 if batches => self.claim(),
            30..55 if self.kinds == Kinds::OfStore => self.of_store(),
            kind => self.write(kind % 10),
        }
    }

    /// An operation that an index has not, some of them on named trees.
    fn of_store(&mut self) -> Operation {
        match self.rng.random_range(0..25) {
            0..5 => {
                let (kind, value) = (self.rng.random_range(0..10), self.value());
                random_write(kind, self.key_of_any(), value)
            }
            5 => Operation::Move(self.key_of_any(), self.key_of_any()),
            6 => {
                let name = ["a", "b"][self.rng.random_range(0..2)];
                Operation::DropTree(name.to_owned())
            }
            7 => {
                let (from, below) = self.range();
                Operation::DeleteRange(from, below)
            }
            8 => Operation::Pop(End::First),
            9 => Operation::Pop(End::Last),
            10..12 => {
                let (from, count) =
                    (self.key_of_any(), self.rng.random_range(1..=MAX_DRAWN_ENTRIES));
                // Some keys are the last ones of all.
                match from.plus(count.into()) {
                    Some(_) => Operation::Batch(vec![Operation::Fill(from, count, self.value())]),
                    None => self.batch(),
                }
            }
            12 => {
                let expired = Operation::PutExpired(self.key_of_any(), self.value());
                let lasting = Operation::PutFor(self.key_of_any(), self.value());
                let (kind, value) = (self.rng.random_range(0..10), self.value());
                let plain = random_write(kind, self.key_of_any(), value);
                Operation::Batch(vec![expired, lasting, plain])
            }
            _ => {
                let key = self.key_of_any();
                self.of_store_and_threads(key)
            }
        }
    }

    /// One that is judged as one step beside other threads as well.
    fn of_store_and_threads(&mut self, key: Key) -> Operation {
        match self.rng.random_range(0..12) {
            0..2 => Operation::Take(key),
            2..4 => Operation::Swap(key, self.old_value(), self.old_value()),
            4..6 => Operation::PutFor(key, self.value()),
            6..9 => Operation::PutExpired(key, self.value()),
            9..11 => Operation::Sweep,
            _ => Operation::Snapshot,
        }
    }

    fn old_value(&mut self) -> Option<u64> {
        self.rng.random_ratio(2, 3).then(|| self.value())
    }

    /// An operation of one of several threads.
    fn of_thread(&mut self) -> Operation {
        if self.kinds == Kinds::OfStore && self.rng.random_ratio(1, 2) {
            return match self.rng.random_range(0..6) {
                0 => self.batch(),
                1 => Operation::Move(self.key(), self.key()),
                _ => {
                    let key = self.key();
                    self.of_store_and_threads(key)
                }
            };
        }
        let (key, value) = (self.key(), self.value());
        match self.rng.random_range(0..13) {
            10.. => Operation::Get(key),
            kind => random_write(kind, key, value),
        }
    }
}

/// A key for a number: both ends of the space, and byte strings of several lengths.
pub(crate) fn script_key(keys: ScriptKeys, number: u64) -> Key {
    match keys {
        ScriptKeys::U64 => Key::U64([number, u64::MAX - number][usize::from(number % 5 == 4)]),
        ScriptKeys::Bytes => Key::Bytes(
            format!("{}{number}", "key-with-a-tail-".repeat((number % 3) as usize)).into_bytes(),
        ),
    }
}

fn random_write(kind: u32, key: Key, value: u64) -> Operation {
    match kind {
        0..5 => Operation::Insert(key, value),
        5..6 => Operation::Update(key, value),
        6..7 => Operation::Upsert(key, value),
        _ => Operation::Remove(key),
    }
}

#[cfg(test)]
mod tests {
    use everleaf::Engine;
    use everleaf_crash::{Step, ThreadOperations};

    use super::*;

    fn on(thread: u16, operations: &[usize]) -> ThreadOperations {
        ThreadOperations { thread, operations: operations.to_vec() }
    }

    #[test]
    fn the_same_seed_draws_the_same_operations() {
        for keys in [ScriptKeys::U64, ScriptKeys::Bytes] {
            assert_eq!(Scenario::random(keys, 50, 7), Scenario::random(keys, 50, 7));
            assert_ne!(Scenario::random(keys, 50, 7), Scenario::random(keys, 50, 8));
        }
    }

    #[test]
    fn what_is_drawn_has_crashes_with_operations_between_them_and_batches_for_stores() {
        let count = |scenario: &Scenario, kind: fn(&Operation) -> bool| {
            scenario.explore.iter().filter(|operation| kind(operation)).count()
        };
        let crash = |operation: &Operation| *operation == Operation::Crash;
        let batch = |operation: &Operation| matches!(operation, Operation::Batch(_));
        let of_index = Scenario::random(ScriptKeys::U64, 200, 1);
        assert!(count(&of_index, crash) >= 2);
        assert_eq!(count(&of_index, batch), 0, "an index has no batches");
        for kind in [Operation::Reopen, Operation::Scan, Operation::Sync, Operation::Epoch] {
            assert!(of_index.explore.contains(&kind), "{kind}");
        }
        let of_store = Scenario::random_of_store(ScriptKeys::Bytes, 200, 1);
        assert!(count(&of_store, batch) >= 10 && count(&of_store, crash) >= 2);
        assert!(of_store.is_of_store() && !of_index.is_of_store());
    }

    #[test]
    fn random_programs_have_rounds_of_their_threads() {
        let scenario = Scenario::random_threads(ScriptKeys::Bytes, 7, 3, 1);
        assert_eq!(scenario, Scenario::random_threads(ScriptKeys::Bytes, 7, 3, 1));
        let one = |first: usize| {
            Step::Concurrent((0..3).map(|i| on(i as u16 + 1, &[first + i])).collect())
        };
        assert_eq!(scenario.steps(), [one(0), one(3), Step::Concurrent(vec![on(1, &[6])])]);
        assert!(scenario.check_for(Engine::FPTREE_C).is_ok());
    }
}
