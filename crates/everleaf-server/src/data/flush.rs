//! Emptying a database in constant time, now or at a moment to come.
//!
//! Of each database a number is kept: what was stored by a write with a lesser number is not there.
//! To empty a database is to raise it to the next number of the sequence; the sweep gives the room
//! back. memcached's `flush_all` with a delay keeps a moment beside it, and the first request at or
//! behind that moment raises the number before it does anything else. Both are words of the store,
//! so both hold after a crash.

use std::sync::atomic::{AtomicU64, Ordering};

use everleaf::{Error, Tree};
use parking_lot::Mutex;

use super::rows::{DATABASES, word_row};

const NEVER: u64 = u64::MAX;

/// From which write on each database counts.
pub struct Flushes {
    since: [AtomicU64; DATABASES as usize],
    /// When the first database will be emptied, in milliseconds since 1970.
    due_ms: AtomicU64,
    /// Held while the words change.
    words: Mutex<()>,
}

fn read(tree: &Tree, row: &[u8]) -> Result<Option<u64>, Error> {
    Ok(tree.get(row)?.and_then(|word| word.try_into().ok()).map(u64::from_le_bytes))
}

fn since_row(database: u8) -> Vec<u8> {
    word_row(&format!("since {database}"))
}

fn due_row() -> Vec<u8> {
    word_row("flush due")
}

impl Flushes {
    /// As the store says.
    pub fn open(tree: &Tree) -> Result<Self, Error> {
        let flushes = Self {
            since: [const { AtomicU64::new(0) }; DATABASES as usize],
            due_ms: NEVER.into(),
            words: Mutex::new(()),
        };
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

    /// Empties a database: `now` is a new number of the sequence.
    pub fn flush(&self, tree: &Tree, database: u8, now: u64) -> Result<(), Error> {
        let _words = self.words.lock();
        self.raise(tree, database, now)
    }

    fn raise(&self, tree: &Tree, database: u8, now: u64) -> Result<(), Error> {
        let Some(since) = self.since.get(usize::from(database)) else { return Ok(()) };
        if now > since.load(Ordering::Relaxed) {
            tree.put(since_row(database), now.to_le_bytes())?;
            since.store(now, Ordering::Release);
        }
        Ok(())
    }

    /// The first database will be emptied at a moment; one that was named before no longer counts.
    pub fn flush_at(&self, tree: &Tree, due_ms: u64) -> Result<(), Error> {
        let _words = self.words.lock();
        tree.put(due_row(), due_ms.to_le_bytes())?;
        self.due_ms.store(due_ms, Ordering::Release);
        Ok(())
    }

    /// No moment counts any more.
    pub fn forget_due(&self, tree: &Tree) -> Result<(), Error> {
        let _words = self.words.lock();
        if self.due_ms.load(Ordering::Relaxed) != NEVER {
            tree.delete(due_row())?;
            self.due_ms.store(NEVER, Ordering::Release);
        }
        Ok(())
    }

    /// Whether the moment has come.
    pub fn is_due(&self, now_ms: u64) -> bool {
        now_ms >= self.due_ms.load(Ordering::Acquire)
    }

    /// Does what was to be done at the moment. The number is raised first: a crash in between makes
    /// the next opening raise it again, which empties nothing that was stored since, because no
    /// request is answered before this is done.
    pub fn do_due(&self, tree: &Tree, now_ms: u64, now: u64) -> Result<(), Error> {
        let _words = self.words.lock();
        if self.is_due(now_ms) {
            self.raise(tree, 0, now)?;
            tree.delete(due_row())?;
            self.due_ms.store(NEVER, Ordering::Release);
        }
        Ok(())
    }
}
