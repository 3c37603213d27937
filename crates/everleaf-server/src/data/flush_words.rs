//! From which write on each database counts: words of the store, and the same in memory
//! (`flush.rs`).

use std::sync::atomic::{AtomicU64, Ordering};

use everleaf::Error;

use super::rows::{DATABASES, Pending, word_row};
use super::stored::Stored;

const NEVER: u64 = u64::MAX;

/// From which write on each database counts.
pub struct Flushes {
    since: [AtomicU64; DATABASES as usize],
    /// When the first database will be emptied, in milliseconds since 1970.
    due_ms: AtomicU64,
}

fn read(rows: &Stored, row: &[u8]) -> Result<Option<u64>, Error> {
    Ok(rows.get(row)?.and_then(|word| word.try_into().ok()).map(u64::from_le_bytes))
}

/// The word of a row, which is made if it is not there and there is room.
fn read_or_make(rows: &Stored, row: &[u8], word: u64) -> Result<u64, Error> {
    if let Some(word) = read(rows, row)? {
        return Ok(word);
    }
    match rows.put(row, &word.to_le_bytes()) {
        Err(error) if !error.is_full() => Err(error),
        _ => Ok(word),
    }
}

fn due_row() -> Vec<u8> {
    word_row("flush due")
}

impl Flushes {
    /// As the store says.
    pub fn open(rows: &Stored) -> Result<Self, Error> {
        let flushes =
            Self { since: [const { AtomicU64::new(0) }; DATABASES as usize], due_ms: NEVER.into() };
        let of_all = read_or_make(rows, &since_row_of_all(), 0)?;
        for (database, since) in (0..).zip(&flushes.since) {
            let own = read_or_make(rows, &since_row(database), 0)?;
            since.store(own.max(of_all), Ordering::Relaxed);
        }
        flushes.due_ms.store(read_or_make(rows, &due_row(), NEVER)?, Ordering::Relaxed);
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
    pub fn flush_at(&self, rows: &Stored, due_ms: u64) -> Result<(), Error> {
        rows.put(&due_row(), &due_ms.to_le_bytes())?;
        self.due_ms.store(due_ms, Ordering::Release);
        Ok(())
    }

    /// No moment will count any more when these rows are written.
    pub fn forget_due(&self, pending: &mut Pending) {
        if self.due_ms.load(Ordering::Relaxed) != NEVER {
            pending.insert(due_row(), Some(NEVER.to_le_bytes().to_vec()));
        }
    }

    /// They are written.
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

/// The word of all databases together.
pub fn since_row_of_all() -> Vec<u8> {
    word_row("since all")
}
