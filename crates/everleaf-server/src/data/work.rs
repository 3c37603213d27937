//! The writes of one request or of one transaction: gathered in DRAM, then done together or not at
//! all. Who gathers reads what it has written.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use everleaf::Error;

use super::counts::Growth;
use super::database::{Database, Live};
use super::record::{Collection, Header, Kind, collection_of};
use super::rows::{DATABASES, Pending, deleted_of, deleted_row, key_of};

/// A row, and what was pending of it.
pub(super) type Before = (Vec<u8>, Option<Option<Vec<u8>>>);

/// What rows were is not made shorter before it has twice as many bytes.
const UNDO_BYTES: usize = 1 << 20;
/// Members of a collection that Redis would remove at once.
const FEW: u64 = 64;

/// Memory of what a row was.
fn undo_bytes(row: &[u8], before: &Option<Option<Vec<u8>>>) -> usize {
    size_of::<Before>() + row.len() + before.iter().flatten().map(Vec::len).sum::<usize>()
}

/// Writes that are not done yet. Its maker holds the locks of the keys.
pub struct Work<'d> {
    /// What is worked on.
    pub data: &'d Database,
    /// When it was begun: for the whole of it nothing expires later.
    pub now_ms: u64,
    pub(super) pending: Pending,
    /// Keys in the order in which they were written first, where somebody is told of changes.
    order: Vec<Vec<u8>>,
    /// Keys whose parts have changed and whose header has not.
    pub(super) touched: Vec<Vec<u8>>,
    /// Bytes of these.
    pub(super) touched_bytes: usize,
    /// From which write on each database counts, where this empties it.
    pub(super) since: [u64; DATABASES as usize],
    /// What rows were before they were written, since the moment that was saved.
    undo: Option<Vec<Before>>,
    /// Bytes of this.
    undo_bytes: usize,
    /// The same when it was last made shorter.
    least_undo_bytes: usize,
    /// Bytes of what is to be written.
    bytes: usize,
    /// Keys that were looked for: how many were there, and how many not.
    lookups: Cell<(u64, u64)>,
    /// The same of commands that read only.
    read: (u64, u64),
    /// Collections with many members that are removed.
    removed_later: u64,
    /// The number of the client that writes; 0: it is no Redis client.
    pub by: u64,
    /// Whether keys that are written count as changed, and those who wait for that are told.
    tells: bool,
}

impl<'d> Work<'d> {
    /// Nothing is written yet.
    pub fn new(data: &'d Database, now_ms: u64) -> Self {
        let since = [0; DATABASES as usize];
        Self {
            data,
            now_ms,
            pending: Pending::new(),
            order: Vec::new(),
            touched: Vec::new(),
            touched_bytes: 0,
            since,
            undo: None,
            undo_bytes: 0,
            least_undo_bytes: 0,
            bytes: 0,
            lookups: Cell::new((0, 0)),
            read: (0, 0),
            removed_later: 0,
            by: 0,
            tells: true,
        }
    }

    /// The same, of which nobody is told.
    pub(super) fn untold(data: &'d Database, now_ms: u64) -> Self {
        Self { tells: false, ..Self::new(data, now_ms) }
    }

    /// What rows were before, since the moment that was saved.
    pub(super) fn undo(&self) -> Option<&[Before]> {
        self.undo.as_deref()
    }

    /// Whether a value of a key is there, as a key that has not expired.
    pub(super) fn shows(&self, row: &[u8], value: &[u8]) -> bool {
        self.live_header(row, value).is_some()
    }

    /// Whether a key is not there. It is not counted as looked for.
    ///
    /// # Errors
    /// Damage.
    pub fn is_missing(&self, row: &[u8]) -> Result<bool, Error> {
        Ok(self.show(row, |value| self.shows(row, value))? != Some(true))
    }

    /// Counts a key that was looked for.
    pub fn looked_up(&self, found: bool) {
        let (hits, misses) = self.lookups.get();
        self.lookups.set((hits + u64::from(found), misses + u64::from(!found)));
    }

    /// A command has ended: if it reads only, the keys that it has looked for are counted.
    pub fn end_lookups(&mut self, reads: bool) {
        let (hits, misses) = self.lookups.take();
        if reads {
            self.read = (self.read.0 + hits, self.read.1 + misses);
        }
    }

    /// How many keys that commands have looked for that read only were there, and how many not.
    pub fn lookups(&self) -> (u64, u64) {
        self.read
    }

    // ---- rows
    // ---------------------------------------------------------------------------------------------

    /// Shows the value of a row.
    ///
    /// # Errors
    /// Damage.
    pub fn show<R>(&self, row: &[u8], show: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Error> {
        match self.pending.get(row) {
            Some(value) => Ok(value.as_deref().map(show)),
            None => self.data.show(row, show),
        }
    }

    /// A copy of the value of a row.
    ///
    /// # Errors
    /// Damage.
    pub fn get(&self, row: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.show(row, <[u8]>::to_vec)
    }

    /// Will store a value.
    pub fn put(&mut self, row: Vec<u8>, value: Vec<u8>) {
        self.set(row, Some(value));
    }

    /// Will remove a row.
    pub fn delete(&mut self, row: Vec<u8>) {
        self.set(row, None);
    }

    fn set(&mut self, row: Vec<u8>, value: Option<Vec<u8>>) {
        if self.data.listening.is_on() && key_of(&row).is_some() && !self.pending.contains_key(&row)
        {
            self.order.push(row.clone());
        }
        match &self.undo {
            None => drop(self.replace(row, Some(value))),
            Some(_) => {
                let before = self.replace(row.clone(), Some(value));
                self.undo_bytes += undo_bytes(&row, &before);
                self.undo.get_or_insert_default().push((row, before));
            }
        }
    }

    /// Puts something instead of what is pending of a row, which is returned.
    fn replace(
        &mut self,
        row: Vec<u8>,
        pending: Option<Option<Vec<u8>>>,
    ) -> Option<Option<Vec<u8>>> {
        let row_bytes = row.len();
        let bytes = |pending: &Option<Option<Vec<u8>>>| {
            pending.as_ref().map_or(0, |value| row_bytes + value.as_ref().map_or(0, Vec::len))
        };
        self.bytes += bytes(&pending);
        let before = match pending {
            Some(value) => self.pending.insert(row, value),
            None => self.pending.remove(&row),
        };
        self.bytes = self.bytes.saturating_sub(bytes(&before));
        before
    }

    /// Bytes of the rows that are to be written, and of what is known of what was written.
    pub fn bytes(&self) -> usize {
        self.bytes + self.undo_bytes + self.touched_bytes
    }

    // ---- keys
    // ---------------------------------------------------------------------------------------------

    /// The value of a key, its header read; none if it is not there.
    ///
    /// # Errors
    /// Damage.
    pub fn value(&self, row: &[u8]) -> Result<Option<(Header, Vec<u8>)>, Error> {
        let value = self.get(row)?.unwrap_or_default();
        let found = self.live_header(row, &value).map(|header| (header, value));
        self.looked_up(found.is_some());
        Ok(found)
    }

    /// The header of a key, and of a collection its body.
    ///
    /// # Errors
    /// Damage.
    pub fn header(&self, row: &[u8]) -> Result<Option<(Header, Option<Collection>)>, Error> {
        let found = self.show(row, |value| {
            let header = self.live_header(row, value)?;
            let collection = match header.kind {
                Kind::String => None,
                _ => Some(Collection::read(value)?),
            };
            Some((header, collection))
        })?;
        self.looked_up(found.flatten().is_some());
        Ok(found.flatten())
    }

    /// What of a database is there.
    pub fn live(&self, database: u8) -> Live {
        let mut live = self.data.live(database, self.now_ms);
        live.since = live.since.max(self.since.get(usize::from(database)).copied().unwrap_or(0));
        live
    }

    fn live_header(&self, row: &[u8], value: &[u8]) -> Option<Header> {
        let (database, _) = key_of(row)?;
        Header::read(value).filter(|header| self.live(database).shows(header))
    }

    /// Keys of a database, with those that are to be written. All are counted if they have not
    /// been.
    ///
    /// # Errors
    /// Damage.
    pub fn count_keys(&self, database: u8) -> Result<u64, Error> {
        let at = usize::from(database);
        let is_emptied = self.since.get(at).is_some_and(|since| *since > 0);
        // A transaction, which has all locks, has counted them.
        while !is_emptied && !self.data.count_some()? {}
        let before = if is_emptied { 0 } else { self.data.keys_of(database).unwrap_or(0) };
        let growth = self.growth(&self.pending)?.get(at).copied().unwrap_or(0);
        Ok(before.saturating_add_signed(growth))
    }

    /// Removes a key, whatever it holds: the parts of a collection become unreachable at once and
    /// are removed later. Whether it was there.
    ///
    /// # Errors
    /// Damage.
    pub fn remove_key(&mut self, row: &[u8]) -> Result<bool, Error> {
        let found =
            self.show(row, |value| (self.live_header(row, value).is_some(), collection_of(value)))?;
        let Some((was_there, collection)) = found else { return Ok(false) };
        if let Some((_, collection)) = collection {
            self.removed_later += u64::from(collection.members > FEW);
            self.forget_parts(collection.id);
        }
        self.delete(row.to_vec());
        Ok(was_there)
    }

    /// Stores a string under a key, whatever it held.
    ///
    /// # Errors
    /// Damage.
    pub fn put_string(&mut self, row: &[u8], header: &Header, body: &[u8]) -> Result<(), Error> {
        let is_collection =
            |value: &[u8]| Header::read(value).is_some_and(|header| header.kind != Kind::String);
        self.data.eviction.touch(row);
        if self.data.has_collections() && self.show(row, is_collection)? == Some(true) {
            self.remove_key(row)?;
        }
        self.put(row.to_vec(), header.with(body));
        Ok(())
    }

    pub(super) fn forget_parts(&mut self, id: u64) {
        self.put(deleted_row(id), Vec::new());
    }

    // ---- the end
    // ---------------------------------------------------------------------------------------------

    /// From here on it can be gone back to this moment.
    pub fn save(&mut self) {
        self.undo = Some(Vec::new());
        (self.undo_bytes, self.least_undo_bytes) = (0, 0);
    }

    /// Goes back to the moment that was saved.
    pub fn restore(&mut self) {
        self.back_to(0);
        self.undo = None;
    }

    /// This moment, behind the one that was saved if there is one. Nobody goes back to one between
    /// the two any more.
    pub fn mark(&mut self) -> usize {
        if self.undo_bytes / 2 > self.least_undo_bytes.max(UNDO_BYTES) {
            self.shorten();
        }
        self.undo.get_or_insert_default().len()
    }

    /// Keeps of each row what it was first: who writes few rows very often needs little memory.
    fn shorten(&mut self) {
        let Some(undo) = &mut self.undo else { return };
        let (mut seen, mut bytes) = (HashSet::new(), 0);
        undo.retain(|(row, before)| {
            let is_first = !seen.contains(row);
            if is_first {
                bytes += undo_bytes(row, before);
                seen.insert(row.clone());
            }
            is_first
        });
        (self.undo_bytes, self.least_undo_bytes) = (bytes, bytes);
    }

    /// Goes back to such a moment.
    pub fn back_to(&mut self, mark: usize) {
        let undo = self.undo.as_mut().map_or(Vec::new(), |undo| undo.split_off(mark));
        for (row, before) in undo.into_iter().rev() {
            self.undo_bytes = self.undo_bytes.saturating_sub(undo_bytes(&row, &before));
            self.replace(row, before);
        }
    }

    /// Does all writes, or none, for the sweep and for eviction, which have their own ways where
    /// there is no room; for others see [`commit`](Self::commit).
    ///
    /// # Errors
    /// [`Error::is_full`], damage: nothing was written.
    pub(super) fn commit_sweep(&mut self) -> Result<(), Error> {
        self.commit_with(Self::write)
    }

    pub(super) fn commit_with(
        &mut self,
        write: impl FnOnce(&Self, &Pending) -> Result<Growth, Error>,
    ) -> Result<(), Error> {
        let pending = std::mem::take(&mut self.pending);
        let touched = std::mem::take(&mut self.touched);
        let moved = self.data.ranks.changes(&self.data.rows, &pending)?;
        let growth = write(self, &pending)?;
        self.data.ranks.add(&self.data.rows, &moved);
        pending.keys().filter_map(|row| deleted_of(row)).for_each(|id| self.data.ranks.forget(id));
        self.data.removed_later.add(std::mem::take(&mut self.removed_later));
        if self.since.iter().any(|since| *since > 0) {
            // F2 hides rows that are durable: durable before anybody sees it; in a cluster, settled
            // before anybody is told.
            match self.data.ahead() {
                None => self.data.sync()?,
                Some(ahead) => ahead.has_emptied(),
            }
            self.data.flushes.raise(&self.since);
            self.data.counts.empty(&self.since);
            if self.data.listening.is_on() {
                self.data.listening.tell(|listener| listener.emptied());
            }
        }
        self.data.counts.add(&growth);
        self.data.owners.note(&pending);
        if !self.tells {
            return Ok(());
        }
        let written = pending.keys().filter(|row| key_of(row).is_some());
        touched.iter().chain(written).for_each(|row| self.data.changed(row));
        if self.data.listening.is_on() {
            let mut written: Vec<&Vec<u8>> =
                pending.keys().filter(|row| key_of(row).is_some()).collect();
            let place: HashMap<&Vec<u8>, usize> =
                self.order.iter().enumerate().map(|(at, row)| (row, at)).collect();
            written.sort_by_key(|row| place.get(row));
            let rows: Vec<&[u8]> = touched.iter().chain(written).map(Vec::as_slice).collect();
            if !rows.is_empty() {
                self.data.listening.tell(|listener| listener.changed(&rows, self.by));
            }
        }
        if self.data.waiting.clients() > 0 {
            for (row, value) in pending.iter().filter(|(row, _)| key_of(row).is_some()) {
                let header = value.as_deref().and_then(Header::read);
                self.data.waiting.written(row, header.map(|header| header.kind));
            }
            if self.since.iter().any(|since| *since > 0) {
                self.data.waiting.emptied();
            }
        }
        Ok(())
    }

    /// By how many keys each database grows.
    pub(super) fn write(&self, pending: &Pending) -> Result<Growth, Error> {
        if let Some(ahead) = self.data.ahead() {
            let growth = self.growth(pending)?;
            if !pending.is_empty() {
                self.count_reclaimed(pending, &growth)?;
                ahead.propose(pending)?;
            }
            return Ok(growth);
        }
        let (data, tree) = (self.data, self.data.rows.tree());
        if pending.len() > 1 {
            let growth = self.growth(pending)?;
            let mut batch = tree.batch();
            for (row, value) in pending {
                match value {
                    Some(value) => batch.put(row, value)?,
                    None => batch.delete(row)?,
                };
            }
            batch.commit()?;
            return Ok(growth);
        }
        let mut growth = Growth::default();
        let Some((row, value)) = pending.first_key_value() else { return Ok(growth) };
        let database = key_of(row).map(|(database, _)| database);
        let is_plain = database.is_none_or(|database| data.counts.emptied(database) == 0);
        if !is_plain {
            growth = self.growth(pending)?;
        }
        let had = match value {
            Some(value) => tree.put(row, value)?,
            None => tree.delete(row)?,
        };
        if let Some(database) = database.filter(|_| is_plain && data.counts.has_counted(row)) {
            growth[usize::from(database)] = i64::from(value.is_some()) - i64::from(had);
        } else if let Some(database) = database.filter(|_| had) {
            // It has grown though there was a row: one that was emptied.
            data.reclaimed.add(u64::from(growth[usize::from(database)] > 0));
        }
        Ok(growth)
    }

    /// Counts a key that replaces one of before its database was emptied.
    fn count_reclaimed(&self, pending: &Pending, growth: &Growth) -> Result<(), Error> {
        if let Some((row, Some(_))) = pending.first_key_value().filter(|_| pending.len() == 1)
            && let Some((database, _)) = key_of(row)
            && self.data.counts.emptied(database) > 0
            && growth[usize::from(database)] > 0
        {
            let had = self.data.rows.get_with(row, |_| ())?.is_some();
            self.data.reclaimed.add(u64::from(had));
        }
        Ok(())
    }

    /// By how many keys each database will have grown when these rows are written.
    fn growth(&self, pending: &Pending) -> Result<Growth, Error> {
        let mut growth = Growth::default();
        for (row, value) in pending {
            let Some((database, _)) = key_of(row) else { continue };
            if !self.data.counts.has_counted(row) {
                continue;
            }
            let since = self.live(database).since;
            let counts = |value: &[u8]| Header::read(value).is_some_and(|h| h.sequence >= since);
            let had = self.data.show(row, counts)? == Some(true);
            let has = value.as_deref().is_some_and(counts);
            growth[usize::from(database)] += i64::from(has) - i64::from(had);
        }
        Ok(growth)
    }
}
