//! What a request has changed, for who tells of it when it is in the store.

use std::collections::HashSet;

use everleaf::Error;

use super::record::{Header, collection_of};
use super::rows::{key_of, part_id};
use super::work::Work;

/// A key that a request has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its row.
    pub row: Vec<u8>,
    /// Whether it was there before.
    pub was: bool,
    /// Whether it is there now.
    pub is: bool,
    /// Whether its time had been over before.
    pub had_expired: bool,
}

/// A row, and what was pending of it before, if anything was.
type Written<'a> = (&'a Vec<u8>, Option<&'a Option<Vec<u8>>>);

impl Work<'_> {
    /// Keys that were written since the moment that was saved and behind a mark, or all; keys whose
    /// parts have changed are those behind the first `touched` ones. To be asked before the commit.
    ///
    /// # Errors
    /// Damage.
    pub fn changes(&self, mark: usize, touched: usize) -> Result<Vec<Change>, Error> {
        let (mut seen, mut changes) = (HashSet::new(), Vec::new());
        let written: Vec<Written<'_>> = match self.undo() {
            Some(undo) => {
                undo.iter().skip(mark).map(|(row, before)| (row, before.as_ref())).collect()
            }
            None => self.pending.keys().map(|row| (row, None)).collect(),
        };
        // Collections some of whose parts were written.
        let ids: HashSet<u64> = written.iter().filter_map(|(row, _)| part_id(row)).collect();
        for (row, before) in written {
            if key_of(row).is_none() || !seen.insert(row.clone()) {
                continue;
            }
            let read = |value: &[u8]| {
                let header = Header::read(value);
                let has_expired = |h: &Header| h.expires_ms.is_some_and(|ms| ms <= self.now_ms);
                (self.shows(row, value), header.as_ref().is_some_and(has_expired))
            };
            let (was, had_expired) = match before {
                Some(Some(value)) => read(value),
                Some(None) => (false, false),
                None => self.data.show(row, read)?.unwrap_or((false, false)),
            };
            let now = self.pending.get(row).and_then(Option::as_deref);
            // A collection to which nothing was added, and of which nothing was removed.
            let is_whole = now
                .and_then(collection_of)
                .is_some_and(|(_, collection)| !ids.contains(&collection.id));
            let same = |value: &[u8]| Some(value) == now;
            if is_whole
                && match before {
                    Some(before) => before.as_deref() == now,
                    None => self.data.show(row, same)? == Some(true),
                }
            {
                continue;
            }
            let is = now.is_some_and(|value| self.shows(row, value));
            changes.push(Change { row: row.clone(), was, is, had_expired });
        }
        for row in self.touched.iter().skip(touched) {
            let found = self.show(row, collection_of)?.flatten();
            let has_changed = found.is_some_and(|(_, collection)| ids.contains(&collection.id));
            if !has_changed || !seen.insert(row.clone()) {
                continue;
            }
            changes.push(Change { row: row.clone(), was: true, is: true, had_expired: false });
        }
        Ok(changes)
    }

    /// How many keys have parts that have changed.
    pub fn touched(&self) -> usize {
        self.touched.len()
    }
}
