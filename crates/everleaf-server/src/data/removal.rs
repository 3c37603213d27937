//! Removing keys wholly, with the parts of their collections.
//!
//! A key goes under its lock: with its parts as one batch or, if they are too many, first its
//! header says that it has expired, and then parts go, in any order; the sweep removes the rest.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::sync::PoisonError;

use crossbeam_utils::sync::ShardedLockReadGuard;
use everleaf::{Error, Scan};
use parking_lot::MutexGuard;

use super::database::{Database, stripe};
use super::record::{Collection, Header, collection_of};
use super::rows::{
    DELETED_PREFIX, Part, Pending, deleted_of, deleted_row, key_of, part_id, part_prefix,
};
use super::work::Work;

/// Rows that are removed as one batch, so that no request waits for more, and that its log fits
/// into one chunk.
pub(super) const BATCH: usize = 160;
/// Batches of parts of one collection that a round removes.
const BATCHES: usize = 16;

/// Locks that were taken to remove keys.
type Locks<'d> = Vec<(usize, MutexGuard<'d, ()>)>;

/// What was removed.
#[derive(Default)]
pub(super) struct Removed {
    pub keys: u64,
    /// Their rows.
    pub rows: Vec<Vec<u8>>,
    /// About.
    pub bytes: u64,
}

impl Removed {
    fn add(&mut self, key: &Doomed<'_>) {
        self.keys += 1;
        self.rows.push(key.row.to_vec());
        self.bytes += key.bytes;
    }
}

/// A key that goes.
struct Doomed<'r> {
    row: &'r [u8],
    bytes: u64,
    collection: Option<(Header, Collection)>,
    parts: Vec<Vec<u8>>,
}

/// What is to be written, and so does not go.
pub(super) struct Spared<'p> {
    pending: &'p Pending,
    ids: HashSet<u64>,
    /// The locks of the keys that are to be written, which the writer has.
    held: Vec<usize>,
}

impl<'p> Spared<'p> {
    pub fn of(pending: &'p Pending) -> Self {
        let ids = pending.keys().filter_map(|row| part_id(row).or_else(|| deleted_of(row)));
        let held = pending.keys().filter(|row| key_of(row).is_some()).map(|row| stripe(row));
        Self { pending, ids: ids.collect(), held: held.collect() }
    }

    fn has(&self, row: &[u8], collection: Option<&Collection>) -> bool {
        self.pending.contains_key(row)
            || collection.is_some_and(|collection| self.ids.contains(&collection.id))
    }
}

impl Database {
    /// Nobody makes room meanwhile. Whoever takes locks of keys has them already.
    pub(super) fn beside(&self) -> ShardedLockReadGuard<'_, ()> {
        self.making_room.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes those of the keys that are not spared and whose locks are free. Of collections of
    /// many parts those `parts` go which are given by their ids, or some others.
    pub(super) fn remove_keys<'d>(
        &'d self,
        rows: &[Vec<u8>],
        parts: &BTreeMap<u64, Vec<Vec<u8>>>,
        spared: &Spared<'_>,
        locks: &mut Locks<'d>,
    ) -> Result<Removed, Error> {
        let (mut removed, mut doomed, mut together) = (Removed::default(), Vec::new(), 0);
        for row in rows {
            // One lock may be that of several.
            if !spared.held.contains(&stripe(row)) && !self.try_lock(row, locks) {
                continue;
            }
            let shown = |value: &[u8]| (value.len(), collection_of(value));
            let Some((bytes, collection)) = self.rows.get_with(row, shown)? else { continue };
            let bytes = (row.len() + bytes) as u64;
            let mut key = Doomed { row, bytes, collection, parts: Vec::new() };
            if spared.has(row, key.collection.as_ref().map(|(_, collection)| collection)) {
                continue;
            }
            if let Some((header, collection)) = &key.collection {
                let (few, bytes) = self.parts(collection.id)?;
                (key.bytes, key.parts) = (key.bytes + bytes, few);
                if key.parts.len() == BATCH {
                    let parts = parts.get(&collection.id).map(Vec::as_slice);
                    self.remove_large(row, header, collection, parts)?;
                    removed.add(&key);
                    continue;
                }
            }
            together += 1 + key.parts.len();
            doomed.push(key);
            if together >= BATCH {
                self.remove_together(&doomed, &mut removed)?;
                (doomed, together) = (Vec::new(), 0);
            }
        }
        self.remove_together(&doomed, &mut removed)?;
        Ok(removed)
    }

    /// Removes keys and all of their parts as one batch; where that has no room, one by one.
    fn remove_together(&self, doomed: &[Doomed<'_>], removed: &mut Removed) -> Result<(), Error> {
        let mut work = Work::new(self, self.now_ms());
        for key in doomed {
            key.parts.iter().for_each(|part| work.delete(part.clone()));
            work.delete(key.row.to_vec());
        }
        let alone = match work.commit_sweep() {
            Err(error) if error.is_full() => true,
            done => done.map(|()| false)?,
        };
        for key in doomed {
            if alone {
                match self.remove_alone(key) {
                    Err(error) if error.is_full() => continue,
                    done => done?,
                }
            }
            removed.add(key);
            if let Some((_, collection)) = &key.collection {
                self.ranks.forget(collection.id);
                self.owners.forget(collection.id);
            }
        }
        Ok(())
    }

    fn remove_alone(&self, key: &Doomed<'_>) -> Result<(), Error> {
        if let Some((header, collection)) = &key.collection {
            self.remove_large(key.row, header, collection, Some(&key.parts))?;
        }
        let mut work = Work::new(self, self.now_ms());
        work.delete(key.row.to_vec());
        work.commit_sweep()
    }

    /// Removes some parts of a collection that has many. The key is not there any more before.
    fn remove_large(
        &self,
        row: &[u8],
        header: &Header,
        collection: &Collection,
        parts: Option<&[Vec<u8>]>,
    ) -> Result<(), Error> {
        if header.expires_ms != header.expired().expires_ms {
            let mut work = Work::new(self, self.now_ms());
            work.put(row.to_vec(), header.expired().with(&collection.bytes()));
            work.commit_sweep()?;
        }
        self.ranks.forget(collection.id);
        if let Some(parts) = parts {
            return parts.chunks(BATCH).try_for_each(|parts| self.remove_rows(parts));
        }
        for _ in 0..BATCHES {
            let (some, _) = self.parts(collection.id)?;
            self.remove_rows(&some)?;
            if some.len() < BATCH {
                break;
            }
        }
        Ok(())
    }

    // ---- rows
    // ---------------------------------------------------------------------------------------------

    /// Some parts of a collection, and about how many bytes they have: all, if they are fewer than
    /// a batch.
    pub(super) fn parts(&self, id: u64) -> Result<(Vec<Vec<u8>>, u64), Error> {
        let (mut rows, mut bytes) = (Vec::new(), 0);
        for part in Part::ALL {
            if rows.len() < BATCH {
                let prefix = part_prefix(id, part);
                self.rows.scan_with(Scan::all().with_prefix(prefix), |row, value| {
                    bytes += (row.len() + value.len()) as u64;
                    rows.push(row.to_vec());
                    match rows.len() < BATCH {
                        true => ControlFlow::Continue(()),
                        false => ControlFlow::Break(()),
                    }
                })?;
            }
        }
        Ok((rows, bytes))
    }

    /// Removes rows, as one batch or, where its log has no room, one by one.
    pub(super) fn remove_rows(&self, rows: &[Vec<u8>]) -> Result<(), Error> {
        self.rows.remove(rows)
    }

    /// Whether something that was deleted is still being removed.
    ///
    /// # Errors
    /// Damage.
    pub fn removes_parts(&self) -> Result<bool, Error> {
        self.has_deleted_parts()
    }

    /// Whether parts of collections are to be removed.
    pub(super) fn has_deleted_parts(&self) -> Result<bool, Error> {
        Ok(!self.first_rows(&DELETED_PREFIX, 1)?.is_empty())
    }

    /// Removes some batches of parts of what was deleted; whether there were any.
    pub(super) fn sweep_parts(&self, batches: usize) -> Result<bool, Error> {
        for batch in 0..batches {
            let deleted = self.first_rows(&DELETED_PREFIX, 1)?;
            let Some(id) = deleted.first().and_then(|row| deleted_of(row)) else {
                return Ok(batch > 0);
            };
            let (mut rows, _) = self.parts(id)?;
            if rows.len() < BATCH {
                rows.push(deleted_row(id)); // Nothing is left of it. The last row is removed last.
            }
            self.remove_rows(&rows)?;
        }
        Ok(true)
    }

    pub(super) fn first_rows(&self, prefix: &[u8], limit: usize) -> Result<Vec<Vec<u8>>, Error> {
        let mut rows = Vec::new();
        if limit > 0 {
            self.rows.scan_with(Scan::all().with_prefix(prefix), |row, _| {
                rows.push(row.to_vec());
                if rows.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
        }
        Ok(rows)
    }
}
