//! The locks of keys, and their versions, by which who has no lock sees that nothing has changed.
//!
//! A key has one of a fixed number of locks, chosen by a hash. Each has a version: even while
//! nothing under it changes, odd while a writer changes something, and never the same again after a
//! change. So who has copied all versions, and has read a key under its lock whose version is still
//! the one of the copy, knows that the key has not changed since the copy was complete.
//!
//! A version says besides whether it is a batch that changes something, and counts those that have.
//! A key that one write changes is in the index as it was, or as it will be, and who reads it needs
//! no lock: the pin keeps the record. Of a batch other keys may be as they were, or all of it may
//! be taken back: who meets one waits for the lock.
//!
//! Many locks are taken in the order of their numbers. Nothing that is taken while a lock of a key
//! is held waits for one, and who waits for one has nothing pinned: its holder may need the room.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crossbeam_utils::Backoff;
use everleaf_pmem::{Media, planted};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use rustc_hash::FxHasher;

use super::OpenStore;
use crate::StoreKey;
use crate::core::read_set::Versions;
use crate::core::value_record::KeyBytes;

/// Locks of keys: many more than threads, so that two keys that are written at a time seldom share
/// one.
const KEY_LOCKS: usize = 1024;
/// In a version: a batch changes something.
const OF_BATCH: u64 = 1 << 63;
/// In a version, how many batches have changed something, is counted in steps of this. The count
/// begins anew after some millions.
const BATCHES: u64 = 1 << 40;

/// A lock, and the version of what is under it.
#[derive(Default)]
pub(super) struct KeyLock {
    lock: RwLock<()>,
    version: AtomicU64,
}

/// All of a store.
pub(super) fn key_locks() -> Box<[KeyLock]> {
    (0..KEY_LOCKS).map(|_| KeyLock::default()).collect()
}

/// The lock of a key, held alone.
pub(crate) struct WriteLock<'l> {
    version: &'l AtomicU64,
    changed: bool,
    _lock: RwLockWriteGuard<'l, ()>,
}

impl WriteLock<'_> {
    /// To be called before a key under the lock changes.
    pub(crate) fn begin_change(&mut self) {
        self.begin(0);
    }

    fn begin(&mut self, of_batch: u64) {
        if !self.changed && !planted(310) {
            self.changed = true;
            let odd = self.version.load(Ordering::Relaxed) + 1;
            self.version.store(odd | of_batch, Ordering::Relaxed);
            fence(Ordering::Release); // Who sees the change sees that the version is odd.
        }
    }
}

impl Drop for WriteLock<'_> {
    fn drop(&mut self) {
        if self.changed {
            let odd = self.version.load(Ordering::Relaxed);
            let batches = if odd & OF_BATCH == 0 || planted(312) { 0 } else { BATCHES };
            let even = (odd & !OF_BATCH) + 1 + batches;
            self.version.store(even & !OF_BATCH, Ordering::Release);
        }
    }
}

/// A lock of a key.
pub(crate) enum Held<'l> {
    /// Together with other readers.
    Shared(#[allow(dead_code, reason = "it is held, not looked at")] RwLockReadGuard<'l, ()>),
    /// Alone.
    Alone(WriteLock<'l>),
}

impl Held<'_> {
    /// To be called before keys under these locks change together.
    pub(crate) fn begin_change(locks: &mut [Self]) {
        for lock in locks {
            if let Held::Alone(lock) = lock {
                lock.begin(OF_BATCH);
            }
        }
    }
}

impl<M: Media, K: StoreKey> OpenStore<M, K> {
    /// The number of the lock of `key`.
    pub(crate) fn lock_of(&self, key: K::Ref<'_>) -> usize {
        let mut hasher = FxHasher::default();
        KeyBytes::of(K::widen(key)).as_slice().hash(&mut hasher);
        (hasher.finish() >> 32) as usize % KEY_LOCKS
    }

    /// The numbers of the locks of many keys, each once, in the order in which they are taken.
    fn locks_of<'k>(&self, keys: impl IntoIterator<Item = K::Ref<'k>>) -> Vec<usize> {
        let mut locks: Vec<usize> = keys.into_iter().map(|key| self.lock_of(key)).collect();
        locks.sort_unstable();
        locks.dedup();
        locks
    }

    /// Keeps writers of `key` away, and so the record that it leads to.
    pub(crate) fn lock_to_read(&self, key: K::Ref<'_>) -> RwLockReadGuard<'_, ()> {
        self.shared(&self.key_locks[self.lock_of(key)].lock)
    }

    /// Keeps everybody else away from the value of `key`.
    pub(crate) fn lock_to_write(&self, key: K::Ref<'_>) -> WriteLock<'_> {
        self.alone(self.lock_of(key))
    }

    /// Whether what was read of a key without its lock may be shown: the version was this before
    /// it was read, and no batch has changed anything since, nor is about to. Where fences only
    /// order, nothing under the lock is being written, so that the durable point of what was read
    /// is noted.
    pub(crate) fn is_settled(&self, lock: usize, before: u64) -> bool {
        fence(Ordering::Acquire);
        let now = self.version(lock);
        let (of_batch, batches) = ((now | before) & OF_BATCH != 0, (now ^ before) >= BATCHES);
        let is_written = !now.is_multiple_of(2);
        planted(311) || !(of_batch || batches || is_written && self.pool.media().is_durable_later())
    }

    /// As [`lock_to_read`](Self::lock_to_read), for many keys.
    pub(crate) fn lock_all_to_read(&self, keys: &[K::Ref<'_>]) -> Vec<RwLockReadGuard<'_, ()>> {
        let shared = |lock: usize| self.shared(&self.key_locks[lock].lock);
        self.locks_of(keys.iter().copied()).into_iter().map(shared).collect()
    }

    /// As [`lock_to_write`](Self::lock_to_write), for many keys.
    pub(crate) fn lock_all_to_write(&self, keys: &[K::Ref<'_>]) -> Vec<Held<'_>> {
        self.lock_all(0..0, keys)
    }

    /// The locks of keys that are written, alone, and others, shared.
    pub(crate) fn lock_all(
        &self,
        shared: impl IntoIterator<Item = usize>,
        written: &[K::Ref<'_>],
    ) -> Vec<Held<'_>> {
        let written = if planted(313) { &written[1..] } else { written };
        let alone = self.locks_of(written.iter().copied());
        let mut locks: Vec<usize> = shared.into_iter().chain(alone.iter().copied()).collect();
        locks.sort_unstable();
        locks.dedup();
        let hold = |lock: usize| match alone.binary_search(&lock) {
            Ok(_) => Held::Alone(self.alone(lock)),
            Err(_) => Held::Shared(self.shared(&self.key_locks[lock].lock)),
        };
        locks.into_iter().map(hold).collect()
    }

    /// The numbers of all locks.
    pub(crate) fn every_lock(&self) -> std::ops::Range<usize> {
        0..KEY_LOCKS
    }

    /// The version of what is under a lock.
    pub(crate) fn version(&self, lock: usize) -> u64 {
        self.key_locks[lock].version.load(Ordering::Acquire)
    }

    /// All versions.
    pub(crate) fn versions(&self) -> Versions {
        self.every_lock().map(|lock| self.version(lock)).collect()
    }

    /// Whether nothing has changed since the versions were these, nor is about to. What was read
    /// before this call was read before the versions are.
    pub(crate) fn is_unchanged(&self, versions: &[u64]) -> bool {
        self.are_unchanged(self.every_lock().zip(versions.iter().copied()))
    }

    /// The same of some of the locks.
    pub(crate) fn are_unchanged(&self, seen: impl IntoIterator<Item = (usize, u64)>) -> bool {
        fence(Ordering::Acquire);
        seen.into_iter().all(|(lock, seen)| seen.is_multiple_of(2) && seen == self.version(lock))
    }

    /// While this is held the index has no batch in part.
    pub(crate) fn lock_batches_out(&self) -> RwLockReadGuard<'_, ()> {
        self.shared(&self.batches)
    }

    /// While this is held no thread scans.
    pub(super) fn lock_scans_out(&self) -> RwLockWriteGuard<'_, ()> {
        self.exclusive(&self.batches)
    }

    /// Takes a lock together with others. Blocking is fair: a writer that waits lets no more
    /// readers in, else those of a key that is always being read would keep it waiting for ever.
    /// Under the explorer, which schedules, no thread may block.
    fn shared<'l>(&self, lock: &'l RwLock<()>) -> RwLockReadGuard<'l, ()> {
        if M::SCHEDULED { self.wait_for(|| lock.try_read()) } else { lock.read() }
    }

    /// Takes a lock alone.
    fn exclusive<'l>(&self, lock: &'l RwLock<()>) -> RwLockWriteGuard<'l, ()> {
        if M::SCHEDULED { self.wait_for(|| lock.try_write()) } else { lock.write() }
    }

    fn alone(&self, lock: usize) -> WriteLock<'_> {
        let KeyLock { lock, version } = &self.key_locks[lock];
        WriteLock { version, changed: false, _lock: self.exclusive(lock) }
    }

    /// Spins, then yields: the media must hear of every turn.
    fn wait_for<G>(&self, mut attempt: impl FnMut() -> Option<G>) -> G {
        let backoff = Backoff::new();
        loop {
            if let Some(guard) = attempt() {
                return guard;
            }
            self.pool.media().relax();
            backoff.snooze();
        }
    }
}
