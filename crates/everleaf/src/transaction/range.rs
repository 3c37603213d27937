//! The iterator over a range of a transaction.

use std::collections::VecDeque;
use std::fmt;
use std::iter::FusedIterator;
use std::ops::Bound;

use everleaf_index::Direction;

use super::TransactionOn;
use crate::core::entry_batches::Entry;
use crate::{Result, Scan};

/// Entries that are read at first, and at most, at a time.
const FIRST: usize = 16;
const MOST: usize = 512;

/// An iterator over a range of a tree, in key order, from either end, as a transaction sees it. It
/// reads some entries at a time, 16 at first and up to 512: what it has not come to is not read,
/// and changes of it by others are no conflict. The transaction can be written to meanwhile; a
/// write shows where the entries around it have not been read yet. After an error it ends, but
/// behind an entry that is not of the tree's types it goes on.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
/// let stock = store.typed_tree::<String, u64>("stock")?;
/// stock.put_many([("apple", 5), ("pear", 0), ("plum", 3)])?;
/// let first = store.transaction(|tx| {
///     // The first that is there; what is behind it is not looked at.
///     let found = tx.on(&stock)?.iter().find(|entry| !matches!(entry, Ok((_, 0))));
///     found.transpose()
/// })?;
/// assert_eq!(first, Some(("apple".to_owned(), 5)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TransactionRange<'t, E> {
    on: TransactionOn<'t>,
    /// What has not been read.
    rest: Option<Scan>,
    batch: usize,
    /// What was read from the lower end, and from the upper one, the least first.
    front: VecDeque<Entry>,
    back: VecDeque<Entry>,
    forward: bool,
    decode: fn(Entry) -> Result<E>,
}

impl<'t, K, V> TransactionOn<'t, K, V> {
    /// An iterator over what `scan` describes.
    pub(crate) fn over<E>(
        &self,
        scan: Scan,
        decode: fn(Entry) -> Result<E>,
    ) -> TransactionRange<'t, E> {
        let (front, back) = (VecDeque::new(), VecDeque::new());
        let forward = scan.direction == Direction::Forward;
        let on = self.untyped();
        TransactionRange { on, rest: Some(scan), batch: FIRST, front, back, forward, decode }
    }
}

impl<E> TransactionRange<'_, E> {
    /// Reads on from this end.
    fn read(&mut self, end: Direction) -> Result<()> {
        let Some(mut scan) = self.rest.take() else { return Ok(()) };
        scan.direction = end;
        let entries = self.on.entries(scan.clone(), self.batch)?;
        let last = entries.last().filter(|_| entries.len() == self.batch);
        self.batch = (self.batch * 2).min(MOST);
        if let Some((key, _)) = last {
            // The ends take the prefix into account, which is no narrower than they are then.
            let (mut from, mut to) = scan.bounds();
            let behind = Bound::Excluded(key.clone());
            if end == Direction::Forward {
                from = behind
            } else {
                to = behind
            }
            self.rest = Some(Scan { from, to, ..Scan::all() });
        }
        match end {
            Direction::Forward => self.front.extend(entries),
            Direction::Backward => {
                entries.into_iter().for_each(|entry| self.back.push_front(entry))
            }
        }
        Ok(())
    }

    fn take(&mut self, end: Direction) -> Option<Result<E>> {
        let is_read = match end {
            Direction::Forward => !self.front.is_empty(),
            Direction::Backward => !self.back.is_empty(),
        };
        if !is_read && let Err(error) = self.read(end) {
            self.front.clear();
            self.back.clear();
            return Some(Err(error));
        }
        let entry = match end {
            Direction::Forward => self.front.pop_front().or_else(|| self.back.pop_front()),
            Direction::Backward => self.back.pop_back().or_else(|| self.front.pop_back()),
        };
        entry.map(self.decode)
    }
}

impl<E> Iterator for TransactionRange<'_, E> {
    type Item = Result<E>;

    fn next(&mut self) -> Option<Result<E>> {
        self.take(if self.forward { Direction::Forward } else { Direction::Backward })
    }
}

impl<E> DoubleEndedIterator for TransactionRange<'_, E> {
    fn next_back(&mut self) -> Option<Result<E>> {
        self.take(if self.forward { Direction::Backward } else { Direction::Forward })
    }
}

impl<E> FusedIterator for TransactionRange<'_, E> {}

impl<E> fmt::Debug for TransactionRange<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionRange").field("rest", &self.rest).finish_non_exhaustive()
    }
}
