//! What is killed: a process that writes to a pool, closes it and opens it again.

use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use everleaf::{Contract, DurabilityMode, Error, OpenOptions, Store, Transactions, Tree};
use everleaf_engines::all;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::TortureError;
use super::judge::Note;
use super::operations::{Change, Life, Operation, OperationsOfThread, key};

/// Operations of a thread before the store is closed and opened again, at most.
const OPERATIONS_PER_OPENING: u64 = 1_000;
/// Operations of a thread between two calls of `sync`, where it tells what is durable.
const OPERATIONS_PER_SYNC: u64 = 32;
/// The tree beside the default one.
const NAMED: &str = "another tree";
/// Lives of values.
const SHORT: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(24 * 3600);

/// What parent and child must agree on to draw the same operations.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    /// Writing threads, at most 255; none: the pool is opened and closed, and that is all.
    pub threads: u8,
    /// Percent of the operations that are batches.
    pub batches: u8,
    /// Percent of the operations that are transactions.
    pub transactions: u8,
    /// Decides the operations.
    pub seed: u64,
}

/// Runs in the child: opens the pool with these transactions, writes, closes it, and so on until it
/// is killed. It tells of each operation that returned on `acknowledge`. Where durability is
/// buffered it calls `sync` now and then, and tells when that begins and when it has returned.
///
/// # Errors
/// When the store refuses or the parent is gone.
pub fn torture_child(
    pool: &Path,
    transactions: Transactions,
    course: Course,
    acknowledge: impl Write + Send,
) -> Result<(), TortureError> {
    let acknowledge = Mutex::new(acknowledge);
    let tell = |note: Note, thread: u8| -> Result<(), TortureError> {
        let mut pipe = acknowledge.lock().unwrap_or_else(PoisonError::into_inner);
        // Unbuffered: what waits in a buffer would die with the process. In one write: the kill
        // leaves none in half.
        pipe.write_all(&note.bytes(thread)).and_then(|()| pipe.flush()).map_err(TortureError::Child)
    };
    let mut lengths = StdRng::seed_from_u64(course.seed);
    let mut threads: Vec<(u8, OperationsOfThread)> = (0..course.threads)
        .map(|thread| (thread, OperationsOfThread::new(course, thread)))
        .collect();
    loop {
        let store = OpenOptions::new().engines(all()).transactions(transactions).open(pool)?;
        let buffered = is_buffered(&store);
        if course.threads == 0 {
            store.close()?;
            continue;
        }
        let trees = Trees::of(&store)?;
        let synced = |thread: u8, sync: &dyn Fn() -> Result<(), Error>| {
            tell(Note::SyncBegins, thread)?;
            sync()?;
            tell(Note::Synced, thread)
        };
        let length = lengths.random_range(1..=OPERATIONS_PER_OPENING);
        let write = |thread: u8, operations: &mut OperationsOfThread| -> Result<(), TortureError> {
            for done in 1..=length {
                trees.perform(&operations.next())?;
                tell(Note::Returned, thread)?;
                if buffered && done % OPERATIONS_PER_SYNC == 0 {
                    synced(thread, &|| store.sync())?;
                }
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let writers: Vec<_> = threads
                .iter_mut()
                .map(|(thread, operations)| scope.spawn(|| write(*thread, operations)))
                .collect();
            writers
                .into_iter()
                .try_for_each(|writer| writer.join().unwrap_or(Err(TortureError::ChildEnded)))
        })?;
        drop(trees);
        if buffered {
            tell(Note::SyncBegins, 0)?;
        }
        store.close()?;
        if buffered {
            tell(Note::Synced, 0)?;
        }
    }
}

/// Whether what has returned may be lost until a `sync` has returned.
pub(super) fn is_buffered(store: &Store) -> bool {
    let promised = store.capabilities();
    promised.contract == Contract::Buffered
        || matches!(promised.durability_mode, DurabilityMode::Buffered { .. })
}

/// The trees of a store.
pub(super) struct Trees<'s> {
    store: &'s Store,
    /// None in a store of `u64` keys.
    named: Option<Tree>,
}

/// The tree beside the default one, where it is; whoever looks must not make it again.
pub(super) fn named_tree(store: &Store) -> Result<Option<Tree>, Error> {
    match store.key_type() {
        everleaf::KeyType::U64 => Ok(None),
        everleaf::KeyType::Bytes => store.existing_tree(NAMED),
    }
}

impl<'s> Trees<'s> {
    pub fn of(store: &'s Store) -> Result<Self, Error> {
        let named = match store.key_type() {
            everleaf::KeyType::U64 => None,
            everleaf::KeyType::Bytes => Some(store.tree(NAMED)?),
        };
        Ok(Self { store, named })
    }

    fn of_key(&self, named: bool) -> &Tree {
        self.named.as_ref().filter(|_| named).unwrap_or(self.store.default_tree())
    }

    /// Does one operation.
    fn perform(&self, operation: &Operation) -> Result<(), Error> {
        match operation {
            Operation::Single(change) => self.perform_single(change),
            Operation::Batch(changes) => self.perform_batch(changes),
            Operation::Transaction(changes) => self.perform_transaction(changes),
            Operation::Sweep => self.store.remove_expired().map(drop),
        }
    }

    fn perform_single(&self, (number, value): &Change) -> Result<(), Error> {
        let (named, key) = key(self.store.key_type(), *number);
        let tree = self.of_key(named);
        match value {
            None => tree.delete(key).map(drop),
            Some(value) => match value.lasts() {
                None => tree.put(key, &value.bytes).map(drop),
                Some(lasts) => tree.put_for(key, &value.bytes, lasts).map(drop),
            },
        }
    }

    fn perform_batch(&self, changes: &[Change]) -> Result<(), Error> {
        let mut batch = self.store.batch();
        for (number, value) in changes {
            let (named, key) = key(self.store.key_type(), *number);
            let mut batch = batch.on(self.of_key(named))?;
            match value {
                None => batch.delete(key)?,
                Some(value) => match value.lasts() {
                    None => batch.put(key, &value.bytes)?,
                    Some(lasts) => batch.put_for(key, &value.bytes, lasts)?,
                },
            };
        }
        batch.commit().map(drop)
    }

    fn perform_transaction(&self, changes: &[Change]) -> Result<(), Error> {
        self.store.transaction(|transaction| {
            for (number, value) in changes {
                let (named, key) = key(self.store.key_type(), *number);
                let transaction = transaction.on(self.of_key(named))?;
                transaction.contains_key(&key)?;
                match value {
                    None => transaction.delete(key)?,
                    Some(value) => match value.lasts() {
                        None => transaction.put(key, &value.bytes)?,
                        Some(lasts) => transaction.put_for(key, &value.bytes, lasts)?,
                    },
                };
            }
            Ok(())
        })
    }
}

impl super::operations::NewValue {
    /// None: always.
    fn lasts(&self) -> Option<Duration> {
        match self.life {
            Life::Always => None,
            Life::Long => Some(LONG),
            Life::Short => Some(SHORT),
        }
    }
}
