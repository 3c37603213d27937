//! Numbers that are never given twice, after a crash neither.
//!
//! A word of the store holds a number that is greater than all that were given. It is raised, by a
//! portion, before the first number of the portion is given; after a restart the next portion
//! begins there. In a store whose writes are durable late, raising it waits until it is durable.

use std::sync::atomic::{AtomicU64, Ordering};

use everleaf::{DurabilityMode, Error, Store, Tree};
use parking_lot::Mutex;

use super::rows::word_row;
use super::stored::Stored;

/// Numbers that one write of the word makes available.
const PORTION: u64 = 1 << 20;

/// Gives the numbers.
pub struct Sequence {
    row: Vec<u8>,
    next: AtomicU64,
    /// What the word holds.
    bound: AtomicU64,
    raising: Mutex<()>,
}

impl Sequence {
    /// Goes on where the store says; from 1 where it says nothing.
    pub fn open(tree: &Tree) -> Result<Self, Error> {
        let row = word_row("sequence");
        let bound = tree.get(&row)?.and_then(|word| word.try_into().ok()).map(u64::from_le_bytes);
        let bound = bound.unwrap_or(1);
        Ok(Self { row, next: bound.into(), bound: bound.into(), raising: Mutex::new(()) })
    }

    /// A number that is greater than all that were given.
    pub fn bound(&self) -> u64 {
        self.bound.load(Ordering::Acquire)
    }

    /// A number that was not given before, and is greater than all that this thread has seen.
    ///
    /// # Errors
    /// As a write of the store, once in a portion.
    pub fn next(&self, store: &Store, rows: &Stored) -> Result<u64, Error> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if number < self.bound.load(Ordering::Acquire) {
            return Ok(number);
        }
        let _raising = self.raising.lock();
        if number >= self.bound.load(Ordering::Acquire) {
            let bound = number + PORTION;
            rows.put(&self.row, &bound.to_le_bytes())?;
            let mode = store.capabilities().durability_mode;
            // What a cluster is told of these numbers is settled behind the word.
            if rows.ahead().is_none() && matches!(mode, DurabilityMode::Buffered { .. }) {
                store.sync()?;
            }
            self.bound.store(bound, Ordering::Release);
        }
        Ok(number)
    }
}
