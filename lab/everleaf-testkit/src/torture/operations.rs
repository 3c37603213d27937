//! What a tortured child does: the same operations, whichever process draws them.

use everleaf::{KeyType, OwnedKey};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::Course;

/// Different keys of each thread.
pub(super) const KEYS_PER_THREAD: u64 = 2_000;
/// The longest of the usual values, and of those of large batches.
const USUAL_BYTES: usize = 600;
const SMALL_BYTES: usize = 60;
/// The longest value: it takes chunks of its own. One in so many is drawn up to this.
const LARGE_BYTES: usize = 1 << 20;
const LARGE_ONE_IN: u32 = 400;
/// Writes of the usual batches, and of one in so many. They are drawn from few keys, so that a key
/// comes twice at times.
const USUAL_BATCH: usize = 40;
const LARGE_BATCH: usize = 3_000;
const LARGE_BATCH_ONE_IN: u32 = 40;
/// One operation in so many removes what has expired.
const SWEEP_ONE_IN: u32 = 100;

/// How long a value is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// Until it is replaced or removed.
    Always,
    /// Longer than the pool is tortured.
    Long,
    /// It has expired before anybody looks for it.
    Short,
}

/// A value that is put.
#[derive(Clone, Debug)]
pub(super) struct NewValue {
    pub bytes: Vec<u8>,
    pub life: Life,
}

/// One write of a child: a key's number, and its value, or none: it is deleted.
pub(super) type Change = (u64, Option<NewValue>);

/// One operation of a child.
pub(super) enum Operation {
    Single(Change),
    /// All or nothing.
    Batch(Vec<Change>),
    /// All or nothing, each key being read before.
    Transaction(Vec<Change>),
    /// What has expired is removed.
    Sweep,
}

impl Operation {
    pub fn changes(&self) -> &[Change] {
        match self {
            Self::Single(change) => std::slice::from_ref(change),
            Self::Batch(changes) | Self::Transaction(changes) => changes,
            Self::Sweep => &[],
        }
    }
}

/// The operations of one thread of one child, the same whichever process draws them.
pub(super) struct OperationsOfThread {
    rng: StdRng,
    thread: u8,
    course: Course,
}

impl OperationsOfThread {
    pub fn new(course: Course, thread: u8) -> Self {
        Self { rng: StdRng::seed_from_u64(course.seed ^ u64::from(thread) << 48), thread, course }
    }

    pub fn next(&mut self) -> Operation {
        if self.rng.random_ratio(1, SWEEP_ONE_IN) {
            return Operation::Sweep;
        }
        let drawn = self.rng.random_range(0..100);
        let Course { batches, transactions, .. } = self.course;
        if drawn < batches {
            Operation::Batch(self.changes())
        } else if drawn < batches.saturating_add(transactions) {
            Operation::Transaction(self.changes())
        } else {
            let large = self.rng.random_ratio(1, LARGE_ONE_IN);
            Operation::Single(self.change(if large { LARGE_BYTES } else { USUAL_BYTES }))
        }
    }

    fn changes(&mut self) -> Vec<Change> {
        let (writes, bytes) = match self.rng.random_ratio(1, LARGE_BATCH_ONE_IN) {
            true => (LARGE_BATCH, SMALL_BYTES),
            false => (USUAL_BATCH, USUAL_BYTES),
        };
        (0..self.rng.random_range(1..=writes)).map(|_| self.change(bytes)).collect()
    }

    /// A value of fewer than `longest` bytes for some key, or its removal.
    fn change(&mut self, longest: usize) -> Change {
        let key = self.rng.random_range(0..KEYS_PER_THREAD) * u64::from(self.course.threads)
            + u64::from(self.thread);
        let life = match self.rng.random_range(0..20) {
            0 => Life::Short,
            1 => Life::Long,
            2..14 => Life::Always,
            _ => return (key, None),
        };
        let mut bytes = vec![0; self.rng.random_range(0..longest)];
        self.rng.fill(&mut bytes[..]);
        (key, Some(NewValue { bytes, life }))
    }
}

/// The key of this number, and whether it is one of the named tree.
pub(super) fn key(key_type: KeyType, number: u64) -> (bool, OwnedKey) {
    match key_type {
        KeyType::U64 => (false, OwnedKey::U64(number)),
        KeyType::Bytes => {
            let key = format!("key-{number:07}-{}", "x".repeat(number as usize % 40));
            (number % 5 == 4, OwnedKey::Bytes(key.into_bytes().into()))
        }
    }
}
