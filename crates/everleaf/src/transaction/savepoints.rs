//! Going back within a transaction: what each write has replaced is kept from the first savepoint
//! on.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{Error, OwnedKey, Result};

/// A moment of a transaction to which [`rollback_to`](crate::Transaction::rollback_to) goes back.
#[derive(Clone, Debug)]
pub struct Savepoint {
    /// Which transaction's.
    of: Arc<()>,
    number: u64,
}

/// The savepoints of a transaction that notes a `W` for each key that it writes.
pub(super) struct Savepoints<W> {
    of: Arc<()>,
    next: u64,
    /// Those that one can go back to, by number, and how long `undo` was.
    taken: Vec<(u64, usize)>,
    /// What keys were before they were written, the last write last.
    undo: Vec<(OwnedKey, Option<W>)>,
}

impl<W> Savepoints<W> {
    pub(super) fn new() -> Self {
        Self { of: Arc::new(()), next: 0, taken: Vec::new(), undo: Vec::new() }
    }

    /// A key was written; this it was before.
    pub(super) fn note(&mut self, key: OwnedKey, before: Option<W>) {
        if !self.taken.is_empty() {
            self.undo.push((key, before));
        }
    }

    pub(super) fn take(&mut self) -> Savepoint {
        let number = self.next;
        self.next += 1;
        self.taken.push((number, self.undo.len()));
        Savepoint { of: Arc::clone(&self.of), number }
    }

    /// Takes back what was written since, and forgets the savepoints since.
    pub(super) fn go_back(
        &mut self,
        savepoint: &Savepoint,
        writes: &mut BTreeMap<OwnedKey, W>,
    ) -> Result<()> {
        let found = self.taken.iter().position(|(number, _)| *number == savepoint.number);
        let Some(place) = found.filter(|_| Arc::ptr_eq(&self.of, &savepoint.of)) else {
            return Err(Error::SavepointGone);
        };
        self.taken.truncate(place + 1);
        for (key, before) in self.undo.drain(self.taken[place].1..).rev() {
            match before {
                Some(before) => drop(writes.insert(key, before)),
                None => drop(writes.remove(&key)),
            }
        }
        Ok(())
    }
}
