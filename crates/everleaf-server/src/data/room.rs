//! Room for a write that finds the pool full.
//!
//! The writer makes room and writes again, until it is done or nothing is left that can go. All
//! others that commit wait meanwhile, and the sweep: what has become free is not taken by them, and
//! what is being removed is not missed. Each time, the first of these that finds something:
//!
//! * M1. Parts of collections that were deleted, and keys of databases that were emptied.
//! * M2. Where keys are evicted: some of the least recently used, if what was refused is no longer
//!   than a chunk. Mostly their blocks are of the size that is needed.
//! * M3. What lies in some place of the pool that is as long as what was refused. Of a few such
//!   places it is the one whose keys were used least recently. The place is claimed, so that
//!   nothing comes to lie there. After some rounds twice as many places are made free each time.
//! * M4. A quarter of all keys, if there is no such place: then what cannot go lies everywhere.
//!
//! A key goes wholly (`removal.rs`). No lock is waited for here, since the writer has locks, and
//! what shares a lock with its keys goes as well. The records of a key that others have locked, or
//! that is to be written, are written once more and come to lie elsewhere, if there is room for
//! that.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, PoisonError};

use everleaf::internal::{ClaimedPlace, claim_place, has_place};
use everleaf::{Error, OwnedKey, PoolError, Scan, Statistics};

use super::ahead::{Ahead, Full};
use super::database::Database;
use super::record::Header;
use super::removal::{BATCH, Spared};
use super::rows::{DATABASES, Pending, is_word, key_of, keys_prefix, part_id};

/// How often room is made for one write.
const ROUNDS: u32 = 64;
/// Rounds of M2.
const ROUNDS_BY_USE: u32 = 2;
/// Rounds before more than one place is made free in each.
const FEW: u32 = 4;
/// Places that are made free in a round, at most.
const PLACES: u32 = 256;
/// From this round on M3 has not been enough.
const ROUNDS_OF_PLACES: u32 = 12;
/// Places of which one is chosen, of one chunk and of several.
const CHOICES: [usize; 2] = [4, 2];
/// Bytes of a chunk of the pool: what is refused and no longer needs no chunks in a row.
const CHUNK: u64 = 4096;
/// What a node of a cluster keeps free: a part of its pool, and so much at least and at most. Rows
/// that are applied as one batch have a log there.
const KEPT_PART: u64 = 8;
const KEPT_BYTES: [u64; 2] = [1 << 20, 64 << 20];
/// What a write may store for each row that it removes, and counts as one that removes: a header.
const REMOVING_BYTES: usize = 512;
/// The part of the free chunks of which as many are taken to lie in a row: one in so many.
const IN_A_ROW: u64 = 4;
/// The longest value that may replace one that is as long: both are there for a moment.
const REPLACING_BYTES: usize = 4 << 10;
/// The part of all keys that goes in a round of M4: one in so many.
const QUARTER: u64 = 4;

/// The longest thing in a row that was refused.
fn refused_bytes(error: &Error) -> u64 {
    match error {
        Error::Pool(PoolError::PoolFull { requested_bytes }) => *requested_bytes,
        _ => 1,
    }
}

/// Bytes of what is to be stored.
fn bytes_of(pending: &Pending) -> u64 {
    let new = pending.iter().filter_map(|(row, value)| Some(row.len() + value.as_ref()?.len()));
    new.sum::<usize>() as u64
}

impl Database {
    /// Writes, and makes room for it where there is none. The caller shares `whole`, or has it.
    ///
    /// # Errors
    /// Those of `write`.
    pub(super) fn write_with_room<R>(
        &self,
        pending: &Pending,
        mut write: impl FnMut() -> Result<R, Error>,
    ) -> Result<R, Error> {
        if let Some(ahead) = self.rows.ahead() {
            return match self.what_refuses(ahead, pending)? {
                Full::Neither => write(),
                Full::Store if self.evict_for(ahead, pending)? => write(),
                _ => Err(PoolError::PoolFull { requested_bytes: bytes_of(pending) }.into()),
            };
        }
        let beside = self.beside();
        let mut refused = match write() {
            Err(error) if error.is_full() => error,
            done => return done,
        };
        drop(beside);
        let _alone = self.making_room.write().unwrap_or_else(PoisonError::into_inner);
        let mut made = false;
        for round in 0..ROUNDS {
            match write() {
                Err(error) if error.is_full() => refused = error,
                done => return done,
            }
            // What could be removed may be gone since the write was refused: so it was done again.
            if round == 0 && !self.may_make_room(pending)?
                || !self.make_room(pending, refused_bytes(&refused), round)?
            {
                break;
            }
            made = true;
        }
        if !made {
            return Err(refused);
        }
        self.end_epoch()?;
        write()
    }

    fn may_make_room(&self, pending: &Pending) -> Result<bool, Error> {
        if self.has_emptied() || self.has_deleted_parts()? {
            return Ok(true);
        }
        if self.evicts_beyond().is_none() {
            return Ok(false);
        }
        // What does not fit at all does not empty the pool.
        Ok(bytes_of(pending) < self.store.statistics()?.max_bytes)
    }

    fn has_emptied(&self) -> bool {
        (0..DATABASES).any(|database| self.counts.emptied(database) > 0)
    }

    /// One round; false: nothing is left that can go.
    fn make_room(&self, pending: &Pending, bytes: u64, round: u32) -> Result<bool, Error> {
        let spared = Spared::of(pending);
        let some = 1_u32 << round.saturating_sub(FEW).min(PLACES.ilog2());
        if self.sweep_parts(some as usize)?
            || self.remove_emptied(&spared, BATCH * some as usize)?
        {
            return Ok(true); // M1.
        }
        if self.evicts_beyond().is_none() || bytes > CHUNK && !has_place(self.rows.tree(), bytes)? {
            return Ok(false); // Nothing goes in vain.
        }
        if bytes <= CHUNK && round < ROUNDS_BY_USE && self.evict_some(&spared)?.keys > 0 {
            return Ok(true); // M2.
        }
        let mut any = false;
        for _ in 0..some {
            if !self.vacate_place(&spared, bytes)? {
                break;
            }
            any = true; // M3.
        }
        let more = any && round < ROUNDS_OF_PLACES || self.evict_many(&spared)?;
        Ok(more || any)
    }

    // ---- a cluster
    // ---------------------------------------------------------------------------------------------

    /// What a node of a cluster keeps free, so that what is proposed has room on all nodes: what
    /// has none ends a node.
    pub(super) fn kept_for_cluster(&self, pool: &Statistics) -> u64 {
        let kept = |ahead: &Arc<Ahead>| {
            let [least, most] = KEPT_BYTES;
            let kept = (pool.max_bytes / KEPT_PART).clamp(least, most).min(pool.max_bytes / 2);
            pool.reserve_bytes + kept + 2 * ahead.bytes() as u64
        };
        self.rows.ahead().map_or(0, kept)
    }

    /// Which pool is so full that a write is refused. What removes rows is not, nor what replaces
    /// short values by others that are no longer, and no word of the server's own.
    fn what_refuses(&self, ahead: &Ahead, pending: &Pending) -> Result<Full, Error> {
        let free = |pool: &Statistics| {
            let used = pool.used_bytes + self.kept_for_cluster(pool);
            pool.max_bytes.saturating_sub(used)
        };
        let look = || Ok([free(&self.store.statistics()?), free(&ahead.log_statistics()?)]);
        let new = (pending.len() as u64, bytes_of(pending));
        let mut full = ahead.full(new, false, look)?;
        if full == Full::Neither && new.1 > CHUNK {
            // What is long needs chunks in a row: nobody knows where they lie, so many are needed.
            let in_a_row = |pool: &Statistics| {
                let whole = pool.free_bytes as f64 * (1.0 - pool.fragmentation);
                let most =
                    (whole as u64 / IN_A_ROW).max(pool.max_bytes.saturating_sub(pool.total_bytes));
                most.saturating_sub(pool.reserve_bytes + 2 * ahead.bytes() as u64)
            };
            let look =
                || Ok([in_a_row(&self.store.statistics()?), in_a_row(&ahead.log_statistics()?)]);
            full = ahead.full(new, true, look)?;
        }
        if full == Full::Neither {
            return Ok(full);
        }
        let (mut removed, mut added) = (0, 0);
        for (row, value) in pending.iter().filter(|(row, _)| !is_word(row)) {
            let Some(value) = value else {
                removed += 1;
                continue;
            };
            let had = match full {
                Full::Store if value.len() <= REPLACING_BYTES => {
                    self.rows.get_with(row, <[u8]>::len)?.unwrap_or(0)
                }
                _ => 0,
            };
            added += value.len().saturating_sub(had);
        }
        Ok(if added > removed * REMOVING_BYTES { full } else { Full::Neither })
    }

    /// Evicts more than is to be written, where keys are evicted; whether it could.
    fn evict_for(&self, ahead: &Ahead, pending: &Pending) -> Result<bool, Error> {
        let (needed, spared) = (2 * bytes_of(pending).max(1), Spared::of(pending));
        let mut evicted = 0;
        for _ in 0..ROUNDS {
            evicted += self.evict_some(&spared)?.bytes;
            if evicted >= needed {
                ahead.freed(evicted - needed); // The store does not tell of it yet.
                return Ok(true);
            }
        }
        Ok(false)
    }

    // ---- M1
    // ---------------------------------------------------------------------------------------------

    /// Removes keys of before a database was emptied; false: there are none that can go.
    fn remove_emptied(&self, spared: &Spared<'_>, limit: usize) -> Result<bool, Error> {
        let emptied: [u64; DATABASES as usize] =
            std::array::from_fn(|database| self.counts.emptied(database as u8));
        if emptied.iter().all(|times| *times == 0) {
            return Ok(false);
        }
        let mut from = self.emptied_from.lock();
        for begins in [Bound::Included(from.clone()), Bound::Unbounded] {
            let whole = begins == Bound::Unbounded;
            let mut rows = Vec::new();
            let mut scan = Scan::all().with_prefix(keys_prefix(None));
            if let Bound::Included(row) = begins {
                scan.from = Bound::Included(OwnedKey::from(row));
            }
            self.rows.scan_with(scan, |row, value| {
                if self.was_emptied(row, value) {
                    rows.push(row.to_vec());
                }
                if rows.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            if let Some(last) = rows.last() {
                from.clone_from(last);
                let mut locks = Vec::new();
                let removed = self.remove_keys(&rows, &BTreeMap::new(), spared, &mut locks)?;
                self.reclaimed.add(removed.keys);
                return Ok(removed.keys > 0);
            }
            if whole {
                from.clear();
                for (database, times) in (0..DATABASES).zip(emptied) {
                    self.counts.swept(database, times);
                }
            }
        }
        Ok(false)
    }

    fn was_emptied(&self, row: &[u8], value: &[u8]) -> bool {
        match (key_of(row), Header::read(value)) {
            (Some((database, _)), Some(header)) => header.sequence < self.flushes.since(database),
            _ => false,
        }
    }

    // ---- M3
    // ---------------------------------------------------------------------------------------------

    /// Evicts what lies in a place for a record of so many bytes; false: nothing can go.
    fn vacate_place(&self, spared: &Spared<'_>, bytes: u64) -> Result<bool, Error> {
        let total = self.store.statistics()?.total_bytes;
        let mut places: Vec<(u64, ClaimedPlace)> = Vec::new();
        for _ in 0..CHOICES[usize::from(bytes > CHUNK)] {
            let from = self.eviction.below(total);
            if let Some(place) = claim_place(self.rows.tree(), from, bytes)? {
                places.push((self.eviction.mean_age(&place.keys), place));
            }
        }
        let Some((_, place)) = places.into_iter().max_by_key(|(age, _)| *age) else {
            return Ok(false);
        };
        let bytes_of = |row: &OwnedKey| match row {
            OwnedKey::Bytes(row) => Some(row.to_vec()),
            OwnedKey::U64(_) => None,
        };
        let rows: Vec<Vec<u8>> = place.keys.iter().filter_map(bytes_of).collect();
        let (mut keys, mut parts) = (BTreeSet::new(), BTreeMap::<u64, Vec<Vec<u8>>>::new());
        for row in &rows {
            if key_of(row).is_some() {
                keys.insert(row.clone());
            } else if let Some(id) = part_id(row) {
                keys.extend(self.owners.of(id, &self.rows)?);
                parts.entry(id).or_default().push(row.clone());
            }
        }
        let keys: Vec<Vec<u8>> = keys.into_iter().collect();
        let mut locks = Vec::new();
        let removed = self.remove_keys(&keys, &parts, spared, &mut locks)?;
        self.count_evicted(&removed);
        // What is still there is of a key that stays.
        let mut moved = false;
        for row in &rows {
            moved |= self.move_row(row)?;
        }
        Ok(removed.keys > 0 || moved)
    }

    /// Writes a row once more, so that its record comes to lie elsewhere; false: it is gone, or
    /// there is no room.
    fn move_row(&self, row: &[u8]) -> Result<bool, Error> {
        let tree = self.rows.tree();
        let Some(value) = tree.get(row)? else { return Ok(false) };
        match tree.compare_and_swap(row, Some(&value), Some(&value)) {
            Err(error) if error.is_full() => Ok(false),
            done => done,
        }
    }

    // ---- M4
    // ---------------------------------------------------------------------------------------------

    fn evict_many(&self, spared: &Spared<'_>) -> Result<bool, Error> {
        let many = (0..DATABASES).filter_map(|database| self.keys_of(database)).sum::<u64>();
        let limit = usize::try_from(many / QUARTER).unwrap_or(usize::MAX).max(BATCH);
        let rows = self.first_rows(&keys_prefix(None), limit)?;
        let mut locks = Vec::new();
        let removed = self.remove_keys(&rows, &BTreeMap::new(), spared, &mut locks)?;
        self.count_evicted(&removed);
        Ok(removed.keys > 0)
    }
}

#[cfg(test)]
mod tests {
    use everleaf::{Clock, CreateOptions, Engine};

    use super::*;

    /// Another thread may remove what is in the way just then, so that nothing is left to be
    /// removed: the write is done again all the same.
    #[test]
    fn a_write_is_done_again_though_others_have_made_the_room() {
        for engine in [Engine::FPTREE_C, Engine::MASSTREE] {
            let folder = tempfile::tempdir().unwrap();
            let options = CreateOptions::new().engine(engine).size_bytes(1 << 20);
            let store = options.create(folder.path().join("a.pool")).unwrap();
            let data = Database::over(store, Clock::system()).unwrap();
            let mut refusals = 1;
            let written = data.write_with_room(&Pending::new(), || {
                if refusals > 0 {
                    refusals -= 1;
                    return Err(PoolError::PoolFull { requested_bytes: 1 }.into());
                }
                Ok(())
            });
            assert!(written.is_ok(), "{engine}: {written:?}");
        }
    }
}
