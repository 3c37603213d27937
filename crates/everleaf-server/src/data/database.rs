//! The store as the protocols see it.
//!
//! Locks, in the order in which they are taken: `whole`, shared by every request that changes
//! something and held alone by what concerns all keys; then the stripes of the keys that a request
//! names, in ascending order. A request that reads one row takes no lock: the store shows a row as
//! it was at one moment.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, TryLockError};
use std::time::{Duration, Instant};

use crossbeam_utils::sync::{ShardedLock, ShardedLockReadGuard, ShardedLockWriteGuard};
use everleaf::{Clock, DurabilityMode, Error, OpenOptions, PoolError, Statistics, Store, Unsynced};
use parking_lot::{Mutex, MutexGuard};

use super::ahead::{self, Ahead};
use super::counts::Counts;
use super::flush_words::Flushes;
use super::holders::{Holders, Wanted};
use super::last_use::Eviction;
use super::listener::Listening;
use super::owners::Owners;
use super::picture::LastPicture;
use super::ranks::Ranks;
use super::record::Header;
use super::rows::{PARTS_PREFIX, hash, key_of};
use super::sequence::Sequence;
use super::stored::Stored;
use super::waiting::Waiting;
use crate::counters::Counter;

/// The named tree of the pool that holds everything: a pool may have other trees beside it.
const TREE: &str = "everleaf.server";
/// How old the statistics may be that are told: at most so many times what it took to ask for them,
/// and never more than this.
const FRESH: (u32, Duration) = (100, Duration::from_secs(1));
/// How long a thread that answers waits for the locks of a request. Short requests hold them for
/// some microseconds.
const SHORT: Duration = Duration::from_millis(1);
/// What is said where a script has a lock.
pub const KEPT: &str = "a script keeps it; ask again";
/// Locks that writers of keys share.
const STRIPES: usize = 1024;
/// Counters that WATCH looks at.
const WATCHED: usize = 1 << 16;

/// A pool that is served.
pub struct Database {
    pub(super) store: Store,
    pub(super) rows: Stored,
    clock: Clock,
    /// The clock is never before this: what has expired stays so when another node leads.
    since_ms: u64,
    sequence: Sequence,
    pub(super) flushes: Flushes,
    pub(super) counts: Counts,
    pub(super) picture: LastPicture,
    pub(super) ranks: Ranks,
    pub(super) eviction: Eviction,
    pub(super) owners: Owners,
    /// Shared by who commits, held alone by who makes room.
    pub(super) making_room: ShardedLock<()>,
    /// Where the search for keys that were emptied goes on, for who makes room.
    pub(super) emptied_from: Mutex<Vec<u8>>,
    /// Until when they are told, and what they are.
    statistics: Mutex<Option<(Instant, Statistics)>>,
    whole: ShardedLock<()>,
    stripes: Box<[Mutex<()>]>,
    changes: Box<[AtomicU64]>,
    /// Whether there may be collections.
    has_collections: AtomicBool,
    /// As many as watch keys, and one more.
    watchers: Arc<()>,
    /// Who is told of changes.
    pub listening: Listening,
    /// Clients that wait for keys.
    pub waiting: Arc<Waiting>,
    /// Scripts that take long.
    pub holders: Holders,
    /// Keys that were removed because they had expired.
    pub expired_keys: Counter,
    /// Keys whose room was given back because they had expired or been emptied.
    pub reclaimed: Counter,
    /// Collections with many members that were removed: their parts go later.
    pub removed_later: Counter,
}

/// What replies wait for.
pub enum Mark {
    /// What they tell is durable.
    Disk(Unsynced),
    /// What they tell is settled, and what was read is confirmed.
    Cluster(Arc<Ahead>, ahead::Mark),
}

/// What of a database is there.
#[derive(Clone, Copy, Debug)]
pub struct Live {
    /// What expires by then is not.
    pub now_ms: u64,
    /// What was stored by a write with a lesser number is not.
    pub since: u64,
}

impl Live {
    /// Whether a value with this header is there.
    pub fn shows(&self, header: &Header) -> bool {
        header.expires_ms.is_none_or(|expires_ms| expires_ms > self.now_ms)
            && header.sequence >= self.since
    }
}

/// Locks that a request holds.
pub enum Held<'d> {
    /// Of the keys that it names, by their numbers, which ascend.
    Keys(ShardedLockReadGuard<'d, ()>, Vec<(usize, MutexGuard<'d, ()>)>),
    /// Of one key.
    Key(ShardedLockReadGuard<'d, ()>, (usize, MutexGuard<'d, ()>)),
    /// Of everything.
    All(ShardedLockWriteGuard<'d, ()>),
}

impl Held<'_> {
    /// The numbers of the locks of keys, in ascending order; none: everything.
    pub fn stripes(&self) -> Option<Vec<usize>> {
        match self {
            Self::Keys(_, locks) => Some(locks.iter().map(|(at, _)| *at).collect()),
            Self::Key(_, (at, _)) => Some(vec![*at]),
            Self::All(_) => None,
        }
    }

    /// Whether the lock of a key is among them, whatever its database is.
    pub fn covers(&self, key: &[u8]) -> bool {
        let stripe = stripe_of_key(key);
        match self {
            Self::Keys(_, locks) => locks.binary_search_by_key(&stripe, |(at, _)| *at).is_ok(),
            Self::Key(_, (at, _)) => *at == stripe,
            Self::All(_) => true,
        }
    }
}

/// A lock, unless others have it. As [`shared`](Database::shared) says of one that is poisoned.
fn unless_held<T>(lock: Result<T, TryLockError<T>>) -> Option<T> {
    match lock {
        Ok(lock) => Some(lock),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// The lock of a row. A key has the same one in all databases, as a request may name several.
pub(super) fn stripe(row: &[u8]) -> usize {
    stripe_of_key(key_of(row).map_or(row, |(_, key)| key))
}

fn stripe_of_key(key: &[u8]) -> usize {
    hash(key) % STRIPES
}

impl Database {
    /// Opens a pool to serve it.
    ///
    /// # Errors
    /// As [`OpenOptions::open`]; [`Error::NoTrees`] for a pool with `u64` keys.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, Error> {
        Self::over(options.open(path)?, options.clock.clone())
    }

    /// Serves a store that is open, whose clock is `clock`.
    ///
    /// # Errors
    /// [`Error::NoTrees`] for a pool with `u64` keys, damage.
    pub fn over(store: Store, clock: Clock) -> Result<Self, Error> {
        Self::of(store, (clock, 0), None)
    }

    /// Serves a store that a cluster writes, by a clock that is never before `since_ms`. What is
    /// written here is proposed.
    ///
    /// # Errors
    /// Damage.
    #[cfg_attr(not(feature = "cluster"), allow(dead_code))]
    pub(crate) fn ahead_of(
        store: Store,
        clock: Clock,
        since_ms: u64,
        ahead: &Arc<Ahead>,
    ) -> Result<Self, Error> {
        Self::of(store, (clock, since_ms), Some(Arc::clone(ahead)))
    }

    fn of(
        store: Store,
        (clock, since_ms): (Clock, u64),
        ahead: Option<Arc<Ahead>>,
    ) -> Result<Self, Error> {
        let tree = store.tree(TREE)?;
        let sequence = Sequence::open(&tree)?;
        let counts = match &ahead {
            None => Counts::open(&tree, sequence.bound())?,
            Some(_) => Counts::unknown(), // Who has stored them may not have led last.
        };
        let has_collections = tree.prefix(PARTS_PREFIX).next().transpose()?.is_some();
        let rows = Stored::of(tree, ahead);
        Ok(Self {
            flushes: Flushes::open(&rows)?,
            counts,
            sequence,
            picture: LastPicture::default(),
            ranks: Ranks::default(),
            eviction: Eviction::default(),
            owners: Owners::default(),
            making_room: ShardedLock::new(()),
            emptied_from: Mutex::default(),
            statistics: Mutex::default(),
            whole: ShardedLock::new(()),
            stripes: (0..STRIPES).map(|_| Mutex::new(())).collect(),
            watchers: Arc::default(),
            has_collections: has_collections.into(),
            changes: (0..WATCHED).map(|_| AtomicU64::new(0)).collect(),
            listening: Listening::default(),
            waiting: Arc::default(),
            holders: Holders::default(),
            expired_keys: Counter::default(),
            reclaimed: Counter::default(),
            removed_later: Counter::default(),
            store,
            rows,
            clock,
            since_ms,
        })
    }

    /// The store, for what it tells about itself.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// What the store tells of itself, at most a second old: engines may count their nodes for it.
    ///
    /// # Errors
    /// As [`Store::statistics`].
    pub fn statistics(&self) -> Result<Statistics, Error> {
        let mut last = self.statistics.lock();
        let begun = Instant::now();
        if let Some((until, statistics)) = &*last
            && begun < *until
        {
            return Ok(statistics.clone());
        }
        let statistics = self.store.statistics()?;
        let (times, most) = FRESH;
        let fresh = begun.elapsed().saturating_mul(times).min(most);
        *last = Some((Instant::now() + fresh, statistics.clone()));
        Ok(statistics)
    }

    /// Waits until everything that was written before is durable; in a cluster the replies do.
    ///
    /// # Errors
    /// As [`Store::sync`].
    pub fn sync(&self) -> Result<(), Error> {
        match self.rows.ahead() {
            None => self.store.sync(),
            Some(_) => Ok(()),
        }
    }

    /// Waits until the store has what was written before; it lags behind in a cluster.
    pub fn wait_for_store(&self) {
        let Some(ahead) = self.rows.ahead() else { return };
        let (last, progress) = (ahead.last(), ahead.progress());
        let is_there = || {
            let now = progress.borrow();
            now.is_lost || now.applied >= last
        };
        while !is_there() {
            std::thread::sleep(SHORT);
        }
    }

    /// What a reply promises.
    pub fn durability_mode(&self) -> DurabilityMode {
        match self.rows.ahead() {
            None => self.store.capabilities().durability_mode,
            Some(_) => DurabilityMode::Immediate,
        }
    }

    /// What of a cluster is not in the store.
    pub(crate) fn ahead(&self) -> Option<&Arc<Ahead>> {
        self.rows.ahead()
    }

    /// Runs `work`, whose replies are to be held until what the mark stands for has happened.
    pub(crate) fn noted<R>(&self, work: impl FnOnce() -> R) -> (R, Mark) {
        match self.rows.ahead() {
            None => {
                let (result, unsynced) = self.store.unsynced(work);
                (result, Mark::Disk(unsynced))
            }
            Some(ahead) => {
                let (result, mark) = ahead.noted(work);
                (result, Mark::Cluster(Arc::clone(ahead), mark))
            }
        }
    }

    /// This thread tells of what is in memory only, and was changed with some rows.
    pub(crate) fn saw_last(&self) {
        if let Some(ahead) = self.rows.ahead() {
            ahead.saw_last();
        }
    }

    /// Closes the store.
    ///
    /// # Errors
    /// As [`Store::close`].
    pub fn close(self) -> Result<(), Error> {
        self.counts.store(self.rows.tree(), self.sequence.bound())?;
        self.store.close()
    }

    /// Counts anew what was removed.
    pub fn reset_counters(&self) {
        let own = [&self.expired_keys, &self.reclaimed, &self.removed_later];
        own.into_iter().chain([&self.eviction.evicted]).for_each(Counter::reset);
    }

    // ---- time, numbers
    // ---------------------------------------------------------------------------------------------

    /// Milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        self.clock.now_ms().max(self.since_ms)
    }

    /// A number that was not given before.
    ///
    /// # Errors
    /// As a write.
    pub fn next_number(&self) -> Result<u64, Error> {
        self.sequence.next(&self.store, &self.rows)
    }

    /// What of a database is there at a time.
    pub fn live(&self, database: u8, now_ms: u64) -> Live {
        let since = self.flushes.since(database);
        if let Some(ahead) = self.rows.ahead() {
            ahead.saw_emptied();
        }
        Live { now_ms, since }
    }

    // ---- locks
    // ---------------------------------------------------------------------------------------------

    /// A poisoned lock protects nothing that is half done: what a request wrote is in the store
    /// wholly or not at all.
    fn shared(&self) -> ShardedLockReadGuard<'_, ()> {
        self.whole.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Locks a key.
    ///
    /// # Errors
    /// A script that takes long has it.
    pub fn lock(&self, row: &[u8]) -> Result<Held<'_>, Error> {
        let at = stripe(row);
        let held = self.share((true, false)).and_then(|shared| {
            let attempt =
                || self.stripes[at].try_lock().or_else(|| self.stripes[at].try_lock_for(SHORT));
            let lock = self.holders.wait((Wanted::Stripe(at), false), attempt)?;
            Some(Held::Key(shared, (at, lock)))
        });
        held.ok_or_else(|| self.is_kept())
    }

    /// Why a lock is not had that a script has.
    pub(super) fn is_kept(&self) -> Error {
        let source = io::Error::new(io::ErrorKind::ResourceBusy, KEPT);
        PoolError::Io { action: "locking", path: "a key".into(), source }.into()
    }

    /// Whether a script has the lock of a key, or any at all, that is waited for.
    pub fn waits_for_script(&self, key: Option<&[u8]>) -> bool {
        let wanted = key.map_or(Wanted::All, |key| Wanted::Stripe(stripe_of_key(key)));
        self.holders.is_held(wanted, false) && !self.holders.is_held(wanted, true)
    }

    /// Whether a script has it for so long that it is not waited for.
    pub fn turns_away(&self, key: Option<&[u8]>) -> bool {
        let wanted = key.map_or(Wanted::All, |key| Wanted::Stripe(stripe_of_key(key)));
        self.holders.is_held(wanted, true)
    }

    /// Locks keys, whatever their database is. None: others keep one of the locks for longer than a
    /// short request does; with `waits`: a script keeps it for so long that it is not waited for.
    pub fn lock_keys(&self, keys: &[&[u8]], waits: bool) -> Option<Held<'_>> {
        match keys {
            [key] => {
                let shared = self.share((waits, true))?;
                let at = stripe_of_key(key);
                Some(Held::Key(shared, (at, self.lock_stripe(at, waits, &mut None)?)))
            }
            keys => self.lock_stripes(keys.iter().map(|key| stripe_of_key(key)).collect(), waits),
        }
    }

    /// Locks many rows; none as in [`lock_keys`](Self::lock_keys).
    pub fn lock_rows<'r>(
        &self,
        rows: impl IntoIterator<Item = &'r [u8]>,
        waits: bool,
    ) -> Option<Held<'_>> {
        self.lock_stripes(rows.into_iter().map(stripe).collect(), waits)
    }

    /// Locks many rows.
    pub fn lock_many<'r>(&self, rows: impl IntoIterator<Item = &'r [u8]>) -> Held<'_> {
        let mut stripes: Vec<usize> = rows.into_iter().map(stripe).collect();
        let shared = self.shared();
        stripes.sort_unstable();
        stripes.dedup();
        let lock = |at: usize| (at, self.stripes[at].lock());
        Held::Keys(shared, stripes.into_iter().map(lock).collect())
    }

    fn lock_stripes(&self, mut stripes: Vec<usize>, waits: bool) -> Option<Held<'_>> {
        let shared = self.share((waits, true))?;
        stripes.sort_unstable();
        stripes.dedup();
        let mut end = None;
        let locks =
            stripes.into_iter().map(|at| Some((at, self.lock_stripe(at, waits, &mut end)?)));
        Some(Held::Keys(shared, locks.collect::<Option<_>>()?))
    }

    /// Without `waits` it waits no longer than to `end`, which is set where it has to.
    fn lock_stripe(
        &self,
        at: usize,
        waits: bool,
        end: &mut Option<Instant>,
    ) -> Option<MutexGuard<'_, ()>> {
        let stripe = &self.stripes[at];
        if waits {
            let attempt = || stripe.try_lock_for(SHORT);
            return self.holders.wait((Wanted::Stripe(at), true), attempt);
        }
        stripe
            .try_lock()
            .or_else(|| stripe.try_lock_until(*end.get_or_insert_with(|| Instant::now() + SHORT)))
    }

    /// Shares everything; `late` as with [`wait`](super::holders::Holders::wait).
    fn share(&self, (waits, late): (bool, bool)) -> Option<ShardedLockReadGuard<'_, ()>> {
        let attempt =
            || if self.holders.is_first() { unless_held(self.whole.try_read()) } else { None };
        if waits { self.holders.wait((Wanted::Share, late), attempt) } else { attempt() }
    }

    /// Locks a key without waiting, unless one of these locks is its own; false: others have it.
    /// The caller shares `whole`, or has it.
    pub(super) fn try_lock<'d>(
        &'d self,
        row: &[u8],
        locks: &mut Vec<(usize, MutexGuard<'d, ()>)>,
    ) -> bool {
        let at = stripe(row);
        if locks.iter().all(|(locked, _)| *locked != at) {
            let Some(lock) = self.stripes[at].try_lock() else { return false };
            locks.push((at, lock));
        }
        true
    }

    /// Keeps every other writer out. None: a script that takes long has locks.
    pub fn lock_all(&self) -> Option<Held<'_>> {
        let _waits = self.holders.wait_for_all();
        self.holders
            .wait((Wanted::All, false), || unless_held(self.whole.try_write()))
            .map(Held::All)
    }

    /// The same; none as in [`lock_keys`](Self::lock_keys).
    pub fn lock_everything(&self, waits: bool) -> Option<Held<'_>> {
        let attempt = || unless_held(self.whole.try_write()).map(Held::All);
        if !waits {
            return attempt();
        }
        let _waits = self.holders.wait_for_all();
        self.holders.wait((Wanted::All, true), attempt)
    }

    // ---- watching
    // ---------------------------------------------------------------------------------------------

    /// From here on changes are counted, as long as somebody holds this. They are of every key
    /// that is locked after this.
    pub fn watching(&self) -> Arc<()> {
        Arc::clone(&self.watchers)
    }

    /// A number that is another one when the key has changed. Some other keys share it.
    pub fn version(&self, row: &[u8]) -> u64 {
        self.changes[hash(row) % self.changes.len()].load(Ordering::Acquire)
    }

    /// Whether a key may hold a collection, for who has its lock: if not, what it holds need not be
    /// looked at where it is overwritten. Once there was one it stays so until the pool is closed,
    /// so whatever copies or moves a collection has nothing to say.
    pub(super) fn has_collections(&self) -> bool {
        self.has_collections.load(Ordering::Relaxed)
    }

    /// A collection will be stored, under the lock of its key.
    pub(super) fn expect_collection(&self) {
        self.has_collections.store(true, Ordering::Relaxed);
    }

    /// Says that a key has changed, under its lock: who watches it has had the lock before, or will
    /// have it.
    pub(super) fn changed(&self, row: &[u8]) {
        if Arc::strong_count(&self.watchers) == 1 {
            return;
        }
        self.changes[hash(row) % self.changes.len()].fetch_add(1, Ordering::Release);
    }

    // ---- reading
    // ---------------------------------------------------------------------------------------------

    /// Shows the value of a row where it lies. `show` must not call the store.
    ///
    /// # Errors
    /// Damage.
    pub fn show<R>(&self, row: &[u8], show: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Error> {
        self.eviction.touch(row);
        self.rows.get_with(row, show)
    }

    /// Brings what leads to rows into the processor's caches. Who looks for one says what is wrong.
    pub fn prefetch(&self, rows: &[Vec<u8>]) {
        if !rows.is_empty() {
            let _ = self.rows.tree().prefetch(rows);
        }
    }

    /// Copies of many rows, which are looked up together.
    ///
    /// # Errors
    /// Damage.
    pub fn read_many(&self, rows: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        rows.iter().for_each(|row| self.eviction.touch(row));
        self.rows.get_many(rows)
    }

    // ---- numbers of keys
    // ---------------------------------------------------------------------------------------------

    /// Keys of a database; none as long as they are being counted.
    pub fn keys_of(&self, database: u8) -> Option<u64> {
        if let Some(ahead) = self.rows.ahead() {
            ahead.saw_all();
        }
        self.counts.keys_of(database)
    }

    /// Whether all keys were counted.
    pub fn has_counted(&self) -> bool {
        self.counts.is_whole()
    }

    /// Counts all keys, if they are not known. The caller has [locked](Database::lock_all)
    /// everything.
    ///
    /// # Errors
    /// Damage.
    pub fn count_all(&self) -> Result<(), Error> {
        while !self.counts.count_stretch(&self.rows, &self.flushes)? {}
        Ok(())
    }

    /// Counts some keys, if not all were counted; true: now they are.
    ///
    /// # Errors
    /// Damage.
    pub fn count_some(&self) -> Result<bool, Error> {
        if self.counts.is_whole() {
            return Ok(true);
        }
        let Some(_all) = self.lock_all() else {
            std::thread::sleep(SHORT);
            return Ok(false);
        };
        self.counts.count_stretch(&self.rows, &self.flushes)
    }
}

#[cfg(test)]
mod tests {
    use super::stripe;
    use crate::data::{DATABASES, key_row};

    #[test]
    fn a_copy_into_another_database_has_the_lock_of_its_key() {
        for key in [&b"a"[..], b"some key"] {
            for database in 0..DATABASES {
                assert_eq!(stripe(&key_row(database, key)), stripe(&key_row(0, key)));
            }
        }
        assert_ne!(stripe(&key_row(0, b"a")), stripe(&key_row(0, b"some key")));
    }
}
