//! Room by eviction, where it is asked for: the keys that were used least recently go first, about.
//!
//! Some stretches of keys are looked at, and those of these keys that were not used for longest
//! (`last_use.rs`) go, as one batch.
//!
//! * The thread of the sweep evicts what the pool has beyond the limit, and no more as long as
//!   parts of collections are to be removed: their room comes late.
//! * A write that finds the pool full evicts as well (`room`).
//!
//! Keys whose locks are taken stay.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use everleaf::{DurabilityMode, Error, OwnedKey, Scan};

use super::database::Database;
use super::listener::Gone;
use super::removal::{Removed, Spared};
use super::rows::{Pending, keys_prefix};

/// Stretches of keys that are looked at for one batch.
const STRETCHES: u64 = 4;
/// Keys of each.
const LOOKED_AT: usize = 16;
/// Keys of these that go.
const GO: usize = 16;
/// Batches before the sweep goes on.
const BATCHES: usize = 256;
/// The part of the greatest size that is kept free: one in so many bytes.
const FREE: u64 = 50;

/// A key that may go.
struct Candidate {
    row: Vec<u8>,
    age: u16,
}

impl Database {
    /// From now on keys are evicted where the pool has more than `bytes`, or is full.
    pub fn evict_beyond(&self, bytes: u64) {
        self.eviction.begin(bytes);
    }

    /// Bytes of the pool beyond which keys are evicted, if they are.
    pub fn evicts_beyond(&self) -> Option<u64> {
        self.eviction.limit()
    }

    /// Keys that were evicted.
    pub fn evicted(&self) -> u64 {
        self.eviction.evicted.get()
    }

    /// How many seconds ago a row was used, where that is known: where keys are evicted.
    pub fn idle_seconds(&self, row: &[u8]) -> u16 {
        self.eviction.age(row)
    }

    /// What an epoch has retired is in use until it ends: so it ends, where there are epochs.
    ///
    /// # Errors
    /// As a sync.
    pub(super) fn end_epoch(&self) -> Result<(), Error> {
        match self.durability_mode() {
            DurabilityMode::Buffered { .. } => self.store.sync(),
            _ => Ok(()),
        }
    }

    /// Evicts what the pool has beyond the limit, or so much that it is not quite full; whether
    /// that was anything.
    ///
    /// # Errors
    /// As a write.
    pub(super) fn evict_excess(&self) -> Result<bool, Error> {
        let (mut excess, mut evicted) = (self.excess_bytes()?, 0);
        let is_excess = excess > 0;
        for _ in 0..BATCHES {
            if excess == 0 || self.has_deleted_parts()? {
                break;
            }
            let removed = {
                let (pending, _shared) = (Pending::new(), self.lock_many([]));
                self.evict_some(&Spared::of(&pending))?
            };
            if removed.keys == 0 {
                break;
            }
            evicted += removed.bytes;
            // Keys take more of the pool than their bytes: so it is asked again half-way.
            if 2 * evicted >= excess {
                self.end_epoch()?;
                (excess, evicted) = (self.excess_bytes()?, 0);
            }
        }
        Ok(is_excess)
    }

    /// Bytes that the pool has beyond its limit.
    fn excess_bytes(&self) -> Result<u64, Error> {
        let Some(limit) = self.evicts_beyond() else { return Ok(0) };
        let statistics = self.store.statistics()?;
        // The reserve is never used up, so a pool is full before all of its bytes are in use.
        let kept_free = statistics.reserve_bytes + statistics.max_bytes / FREE;
        let kept_free = kept_free.max(self.kept_for_cluster(&statistics));
        let limit = limit.min(statistics.max_bytes.saturating_sub(kept_free));
        Ok(statistics.used_bytes.saturating_sub(limit))
    }

    /// Evicts some keys, none of those that are spared. The caller shares `whole`, or has it.
    ///
    /// # Errors
    /// As a write.
    pub(super) fn evict_some(&self, spared: &Spared<'_>) -> Result<Removed, Error> {
        if self.evicts_beyond().is_none() {
            return Ok(Removed::default());
        }
        let mut candidates = Vec::new();
        for _ in 0..STRETCHES {
            self.look_at_some(&mut candidates)?;
        }
        candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.age));
        candidates.truncate(GO);
        let mut rows: Vec<Vec<u8>> = candidates.into_iter().map(|c| c.row).collect();
        rows.sort();
        rows.dedup();
        let mut locks = Vec::new();
        let removed = self.remove_keys(&rows, &BTreeMap::new(), spared, &mut locks)?;
        self.count_evicted(&removed);
        Ok(removed)
    }

    /// Keys were evicted.
    pub(super) fn count_evicted(&self, removed: &Removed) {
        self.eviction.evicted.add(removed.keys);
        self.listening.tell(|to| removed.rows.iter().for_each(|row| to.gone(row, Gone::Evicted)));
    }

    /// Some keys that lie together, at a place that is drawn.
    fn look_at_some(&self, candidates: &mut Vec<Candidate>) -> Result<(), Error> {
        let mut below = |limit| self.eviction.below(limit);
        let mut scan = Scan::all().with_prefix(keys_prefix(None));
        let mut skip = 0;
        if let Some((row, apart)) = self.picture.any_place(&mut below) {
            skip = below(apart);
            scan.from = Bound::Included(OwnedKey::from(row));
        }
        let mut looked_at = 0;
        self.rows.scan_with(scan, |row, _| {
            if skip > 0 {
                skip -= 1;
                return ControlFlow::Continue(());
            }
            candidates.push(Candidate { row: row.to_vec(), age: self.eviction.age(row) });
            looked_at += 1;
            if looked_at < LOOKED_AT { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })
    }
}
