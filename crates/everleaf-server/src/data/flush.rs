//! Emptying a database in constant time, now or at a moment to come.
//!
//! Of each database a number is kept: what was stored by a write with a lesser number is not there.
//! To empty a database is to raise it to the next number of the sequence; the sweep gives the room
//! back. memcached's `flush_all` with a delay keeps a moment beside it, and the first request at or
//! behind that moment raises the number before it does anything else. Both are words of the store,
//! so both hold after a crash.
//!
//! The numbers of all databases that a request empties, and the removal of the moment that has come
//! or no longer counts, are one batch of the store (`Work::flush`):
//! F1: the batch. A crash before it: nothing is emptied, and the moment still counts. An error of
//! it: the same, and the request says so. A crash after it: all of them are emptied.
//! F2: the numbers in memory, under the lock of everything, so no request sees some of them only.

use std::sync::atomic::{AtomicU64, Ordering};

use everleaf::{Error, Tree};

use super::rows::{DATABASES, word_row};
use super::work::Work;

const NEVER: u64 = u64::MAX;

/// From which write on each database counts.
pub struct Flushes {
    since: [AtomicU64; DATABASES as usize],
    /// When the first database will be emptied, in milliseconds since 1970.
    due_ms: AtomicU64,
}

fn read(tree: &Tree, row: &[u8]) -> Result<Option<u64>, Error> {
    Ok(tree.get(row)?.and_then(|word| word.try_into().ok()).map(u64::from_le_bytes))
}

fn due_row() -> Vec<u8> {
    word_row("flush due")
}

impl Flushes {
    /// As the store says.
    pub fn open(tree: &Tree) -> Result<Self, Error> {
        let flushes =
            Self { since: [const { AtomicU64::new(0) }; DATABASES as usize], due_ms: NEVER.into() };
        for (database, since) in (0..).zip(&flushes.since) {
            since.store(read(tree, &since_row(database))?.unwrap_or(0), Ordering::Relaxed);
        }
        flushes.due_ms.store(read(tree, &due_row())?.unwrap_or(NEVER), Ordering::Relaxed);
        Ok(flushes)
    }

    /// The least number of a write that counts.
    pub fn since(&self, database: u8) -> u64 {
        self.since.get(usize::from(database)).map_or(NEVER, |since| since.load(Ordering::Acquire))
    }

    /// Databases that were emptied: their new numbers, which the store has. The caller holds all
    /// locks.
    pub fn raise(&self, since: &[u64; DATABASES as usize]) {
        for (since, now) in self.since.iter().zip(since) {
            since.fetch_max(*now, Ordering::Release);
        }
    }

    /// The first database will be emptied at a moment; one that was named before no longer counts.
    /// The caller holds all locks.
    pub fn flush_at(&self, tree: &Tree, due_ms: u64) -> Result<(), Error> {
        tree.put(due_row(), due_ms.to_le_bytes())?;
        self.due_ms.store(due_ms, Ordering::Release);
        Ok(())
    }

    /// No moment will count any more when `work` is done.
    pub fn forget_due(&self, work: &mut Work<'_>) {
        if self.due_ms.load(Ordering::Relaxed) != NEVER {
            work.delete(due_row());
        }
    }

    /// It is done.
    pub fn forgotten(&self) {
        self.due_ms.store(NEVER, Ordering::Release);
    }

    /// Whether the moment has come.
    pub fn is_due(&self, now_ms: u64) -> bool {
        now_ms >= self.due_ms.load(Ordering::Acquire)
    }
}

/// The word of a database.
pub fn since_row(database: u8) -> Vec<u8> {
    word_row(&format!("since {database}"))
}
