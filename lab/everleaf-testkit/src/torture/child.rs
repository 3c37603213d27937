//! What a tortured child does: the same operations, whichever process draws them.

use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

use everleaf::{Contract, Error, KeyType, OpenOptions, OwnedKey, Store, Transactions};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::TortureError;
use super::judge::Note;

/// Different keys of each thread.
pub(super) const KEYS_PER_THREAD: u64 = 2_000;
/// The longest value.
const MAX_VALUE_BYTES: usize = 600;
/// Writes of the largest batch. They are drawn from few keys, so that a key comes twice at times.
const MAX_BATCH: usize = 40;
/// Operations of a thread between two calls of `sync`, of a buffered engine.
const OPERATIONS_PER_SYNC: u64 = 32;

/// One write of a child: a key's number, and its value or none.
pub(super) type Change = (u64, Option<Vec<u8>>);

/// One operation of a child.
pub(super) enum ChildOperation {
    Single(Change),
    /// All or nothing.
    Batch(Vec<Change>),
}

impl ChildOperation {
    pub fn changes(&self) -> &[Change] {
        match self {
            Self::Single(change) => std::slice::from_ref(change),
            Self::Batch(changes) => changes,
        }
    }
}

/// What parent and child must agree on to draw the same operations.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    /// Writing threads, at most 255.
    pub threads: u8,
    /// Percent of the operations that are batches.
    pub batches: u8,
    /// Decides the operations.
    pub seed: u64,
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

    pub fn next(&mut self) -> ChildOperation {
        if self.rng.random_range(0..100) < self.course.batches {
            let writes = self.rng.random_range(1..=MAX_BATCH);
            return ChildOperation::Batch((0..writes).map(|_| self.change()).collect());
        }
        ChildOperation::Single(self.change())
    }

    fn change(&mut self) -> Change {
        let key = self.rng.random_range(0..KEYS_PER_THREAD) * u64::from(self.course.threads)
            + u64::from(self.thread);
        if self.rng.random_range(0..10) < 7 {
            let mut value = vec![0; self.rng.random_range(0..MAX_VALUE_BYTES)];
            self.rng.fill(&mut value[..]);
            (key, Some(value))
        } else {
            (key, None)
        }
    }
}

pub(super) fn key(key_type: KeyType, number: u64) -> OwnedKey {
    match key_type {
        KeyType::U64 => OwnedKey::U64(number),
        KeyType::Bytes => OwnedKey::Bytes(
            format!("key-{number:07}-{}", "x".repeat(number as usize % 40)).into_bytes().into(),
        ),
    }
}

/// Runs in the child: opens the pool with these transactions, writes until it is killed, and tells
/// of each operation that returned on `acknowledge`. Where the contract is buffered it calls `sync`
/// now and then, and tells when that begins and when it has returned.
///
/// # Errors
/// When the store refuses or the parent is gone.
pub fn torture_child(
    pool: &Path,
    transactions: Transactions,
    course: Course,
    acknowledge: impl Write + Send,
) -> Result<(), TortureError> {
    let store = OpenOptions::new().transactions(transactions).open(pool)?;
    let buffered = store.capabilities().contract == Contract::Buffered;
    let acknowledge = Mutex::new(acknowledge);
    let tell = |note: Note, thread: u8| -> Result<(), TortureError> {
        let mut pipe = acknowledge.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Unbuffered: what waits in a buffer would die with the process. In one write: the kill
        // leaves none in half.
        pipe.write_all(&note.bytes(thread)).and_then(|()| pipe.flush()).map_err(TortureError::Child)
    };
    let write = |thread: u8| -> Result<(), TortureError> {
        let mut operations = OperationsOfThread::new(course, thread);
        for done in 1.. {
            perform(&store, &operations.next())?;
            tell(Note::Returned, thread)?;
            if buffered && done % OPERATIONS_PER_SYNC == 0 {
                tell(Note::SyncBegins, thread)?;
                store.sync()?;
                tell(Note::Synced, thread)?;
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let writers: Vec<_> =
            (0..course.threads).map(|thread| scope.spawn(move || write(thread))).collect();
        writers
            .into_iter()
            .try_for_each(|writer| writer.join().unwrap_or(Err(TortureError::ChildEnded)))
    })
}

/// Does one operation.
fn perform(store: &Store, operation: &ChildOperation) -> Result<(), Error> {
    let key = |number: &u64| key(store.key_type(), *number);
    match operation {
        ChildOperation::Single((number, Some(value))) => store.put(key(number), value).map(drop),
        ChildOperation::Single((number, None)) => store.delete(key(number)).map(drop),
        ChildOperation::Batch(changes) => {
            let mut batch = store.batch();
            for (number, value) in changes {
                match value {
                    Some(value) => batch.put(key(number), value)?,
                    None => batch.delete(key(number))?,
                };
            }
            batch.commit().map(drop)
        }
    }
}
