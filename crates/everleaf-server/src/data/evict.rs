//! Room by eviction, where it is asked for: the keys that were used least recently go first, about.
//!
//! When a key was used stands in DRAM alone, in one of some million words that keys share by their
//! hash: reading writes nothing to the pool, and after a start all keys count as old. Some
//! stretches of keys are looked at, and the oldest of these keys go, as one batch.
//!
//! * The thread of the sweep evicts what the pool has beyond the limit, and no more as long as
//!   parts of collections are to be removed: their room comes late.
//! * A write that finds the pool full evicts as well, strings alone, whose room comes at once. It
//!   holds locks, so it leaves alone the keys whose locks are taken.

use std::ops::{Bound, ControlFlow};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::time::Instant;

use everleaf::{Error, Key, OwnedKey, Scan};

use super::database::{Database, hash};
use super::record::{Header, Kind};
use super::rows::keys_prefix;
use super::work::{Pending, Work};
use crate::random::Random;

/// Words of the times of use: 8 MiB.
const WORDS: usize = 1 << 22;
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

/// What is evicted, and why.
#[derive(Default)]
pub(super) struct Eviction {
    /// Set where there is any.
    used: OnceLock<Used>,
    /// Bytes of the pool beyond which keys go.
    limit: AtomicU64,
    evicted: AtomicU64,
    random: Random,
}

/// When keys were used last.
struct Used {
    began: Instant,
    /// Seconds since then and one more; 0: not since then.
    seconds: Box<[AtomicU16]>,
}

/// A key that may go.
struct Candidate {
    row: Vec<u8>,
    bytes: u64,
    age: u16,
    is_string: bool,
}

impl Used {
    fn now(&self) -> u16 {
        // Around it goes after 18 hours, when what was not used since looks new: it is about right.
        (self.began.elapsed().as_secs() % u64::from(u16::MAX)) as u16 + 1
    }

    fn word(&self, row: &[u8]) -> &AtomicU16 {
        &self.seconds[hash(row) % WORDS]
    }

    fn age(&self, row: &[u8]) -> u16 {
        match self.word(row).load(Ordering::Relaxed) {
            0 => u16::MAX,
            then => self.now().wrapping_sub(then),
        }
    }
}

impl Eviction {
    /// A key is used.
    pub fn touch(&self, row: &[u8]) {
        if let Some(used) = self.used.get() {
            let (word, now) = (used.word(row), used.now());
            if word.load(Ordering::Relaxed) != now {
                word.store(now, Ordering::Relaxed);
            }
        }
    }
}

impl Database {
    /// From now on keys are evicted where the pool has more than `bytes`, or is full.
    pub fn evict_beyond(&self, bytes: u64) {
        let words = || (0..WORDS).map(|_| AtomicU16::new(0)).collect();
        self.eviction.used.get_or_init(|| Used { began: Instant::now(), seconds: words() });
        self.eviction.limit.store(bytes, Ordering::Relaxed);
    }

    /// Bytes of the pool beyond which keys are evicted, if they are.
    pub fn evicts_beyond(&self) -> Option<u64> {
        self.eviction.used.get().map(|_| self.eviction.limit.load(Ordering::Relaxed))
    }

    /// Keys that were evicted.
    pub fn evicted(&self) -> u64 {
        self.eviction.evicted.load(Ordering::Relaxed)
    }

    /// Evicts what the pool has beyond the limit.
    ///
    /// # Errors
    /// As a write.
    pub(super) fn evict_excess(&self) -> Result<(), Error> {
        let Some(limit) = self.evicts_beyond() else { return Ok(()) };
        let statistics = self.store.statistics()?;
        let limit = limit.min(statistics.max_bytes - statistics.max_bytes / FREE);
        let mut excess = statistics.used_bytes.saturating_sub(limit);
        for _ in 0..BATCHES {
            if excess == 0 || self.has_deleted_parts()? {
                break;
            }
            match self.evict_some(&Pending::new(), false)? {
                0 => break,
                bytes => excess = excess.saturating_sub(bytes),
            }
        }
        Ok(())
    }

    /// Evicts some keys, none of those that are to be written; false: there are none that can go.
    /// The caller shares `whole`, or has it.
    ///
    /// # Errors
    /// As a write.
    pub(super) fn evict_for(&self, pending: &Pending) -> Result<bool, Error> {
        Ok(self.evicts_beyond().is_some() && self.evict_some(pending, true)? > 0)
    }

    /// Bytes of the keys that were evicted.
    fn evict_some(&self, pending: &Pending, is_locked: bool) -> Result<u64, Error> {
        let Some(used) = self.eviction.used.get() else { return Ok(0) };
        let mut candidates = Vec::new();
        for _ in 0..STRETCHES {
            self.look_at_some(used, &mut candidates)?;
        }
        candidates.retain(|candidate| {
            // A writer evicts for itself, and has locks.
            !is_locked || candidate.is_string && !pending.contains_key(&candidate.row)
        });
        candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.age));
        candidates.truncate(GO);
        candidates.sort_by(|a, b| a.row.cmp(&b.row));
        candidates.dedup_by(|a, b| a.row == b.row);
        let _shared = (!is_locked).then(|| self.lock_many([]));
        let mut locks = Vec::new();
        let mut work = Work::new(self, self.now_ms());
        let (mut bytes, mut keys) = (0, 0);
        for candidate in &candidates {
            // One lock may be that of several.
            let lock = self.try_lock(&candidate.row, &mut locks);
            if lock && work.show(&candidate.row, |_| ())?.is_some() {
                work.remove_key(&candidate.row)?;
                bytes += candidate.bytes;
                keys += 1;
            }
        }
        work.commit_once()?;
        self.eviction.evicted.fetch_add(keys, Ordering::Relaxed);
        Ok(bytes)
    }

    /// Some keys that lie together, at a place that is drawn.
    fn look_at_some(&self, used: &Used, candidates: &mut Vec<Candidate>) -> Result<(), Error> {
        let mut below = |limit| self.eviction.random.below(limit);
        let mut scan = Scan::all().with_prefix(keys_prefix(None));
        let mut skip = 0;
        if let Some((row, apart)) = self.picture.any_place(&mut below) {
            skip = below(apart);
            scan.from = Bound::Included(OwnedKey::from(row));
        }
        let mut looked_at = 0;
        self.tree.scan_with(scan, |row, value| {
            let Key::Bytes(row) = row else { return ControlFlow::Break(()) };
            if skip > 0 {
                skip -= 1;
                return ControlFlow::Continue(());
            }
            if let Some(header) = Header::read(value) {
                let (bytes, age) = ((row.len() + value.len()) as u64, used.age(row));
                let is_string = header.kind == Kind::String;
                candidates.push(Candidate { row: row.to_vec(), bytes, age, is_string });
            }
            looked_at += 1;
            if looked_at < LOOKED_AT { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })
    }
}
