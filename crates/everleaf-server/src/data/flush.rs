//! Emptying a database in constant time, now or at a moment to come.
//!
//! Of each database a number is kept, and one of all together (`flush_words.rs`): what was stored
//! by a write with a lesser number is not there. To empty a database is to raise its number to the
//! next one of the sequence, and to empty all is to raise the common one; the sweep gives the room
//! back. memcached's `flush_all` with a delay keeps a moment beside it, and the first request at or
//! behind that moment raises the number before it does anything else. Both are words of the store,
//! so both hold after a crash. All of these words are made when a pool is served first: a full pool
//! takes a word that replaces another one, and no new one.
//!
//! The numbers that a request raises, and the end of the moment that has come or no longer counts,
//! are one batch of the store:
//! F1: the batch. A crash before it: nothing is emptied, and the moment still counts. An error of
//! it: the same, and the request says so. A crash after it: all of them are emptied.
//! F2: the numbers in memory, under the lock of everything, so no request sees some of them only;
//! and when F1 is durable, since what they hide may have been for long.

use std::ops::Range;

use everleaf::Error;

use super::database::Database;
use super::flush_words::{since_row, since_row_of_all};
use super::rows::DATABASES;
use super::work::Work;

impl Work<'_> {
    /// Will empty databases, in constant time: what is written behind this is not concerned. The
    /// caller holds all locks.
    ///
    /// # Errors
    /// As a write.
    pub fn flush(&mut self, databases: Range<u8>) -> Result<(), Error> {
        let now = self.data.next_number()?;
        let word = now.to_le_bytes().to_vec();
        let all = databases == (0..DATABASES);
        if all {
            self.put(since_row_of_all(), word.clone());
        }
        for database in databases.filter(|database| *database < DATABASES) {
            if !all {
                self.put(since_row(database), word.clone());
            }
            self.since[usize::from(database)] = now;
        }
        Ok(())
    }
}

impl Database {
    /// The time at which a request is answered. What was to be emptied by then is.
    ///
    /// # Errors
    /// As a write.
    pub fn begin_request(&self) -> Result<u64, Error> {
        let now_ms = self.now_ms();
        if self.flushes.is_due(now_ms) {
            // Behind a script that takes long it is emptied when that has ended.
            let Some(_all) = self.lock_all() else { return Ok(now_ms) };
            if self.flushes.is_due(now_ms) {
                self.empty_first(now_ms)?;
            }
        }
        Ok(now_ms)
    }

    /// memcached's `flush_all`: at once, or at a moment.
    ///
    /// # Errors
    /// As a write: nothing is emptied, and what was to be emptied later still is.
    pub fn flush_all(&self, due_ms: Option<u64>) -> Result<(), Error> {
        let _all = self.lock_all().ok_or_else(|| self.is_kept())?;
        match due_ms {
            Some(due_ms) => self.flushes.flush_at(&self.rows, due_ms),
            None => self.empty_first(self.now_ms()),
        }
    }

    /// Empties the first database, and no moment counts any more. The caller holds all locks.
    fn empty_first(&self, now_ms: u64) -> Result<(), Error> {
        let mut work = Work::new(self, now_ms);
        work.flush(0..1)?;
        self.flushes.forget_due(&mut work.pending);
        work.commit()?;
        self.flushes.forgotten();
        Ok(())
    }
}
