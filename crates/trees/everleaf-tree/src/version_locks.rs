//! Locks of leaves: a fixed table of optimistic latches in DRAM, by the leaf's offset in the pool.
//! Locks are never persistent state, and a leaf has no room for one; leaves whose offsets fall on
//! the same latch share it, which costs a conflict and never an error.
//!
//! Readers never write: they [`read`](VersionLocks::read) the version, load what they need from the
//! leaf, and ask whether what they have [seen](Seen) is current. Writers lock; the [`LockGuard`]
//! they get unlocks when it is dropped, by a panic too. `latch` says why this is right in the
//! memory model.
//!
//! Beside each latch is a counter that only its holder changes: what the leaves of all latches hold
//! can be counted without an atomic addition of its own.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use everleaf_pmem::{MapError, prefetch, prefetch_to_write};

use super::latch::{self, LatchWord};

/// What a reader remembers of a latch: bit 0 says that it is locked, the others count the changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version(u64);

impl LatchWord for Version {
    const LOCK: u64 = 1;

    #[inline(always)]
    fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        self.0
    }
}

/// A latch and its counter: four of them in a line.
type Latch = [AtomicU64; 2];
/// Latches that are made at a time: one by one takes ten times as long without optimisations.
const BLOCK: usize = 64;

/// The latches of all leaves of a tree.
///
/// ```
/// use everleaf_tree::version_locks::VersionLocks;
///
/// let locks = VersionLocks::new(VersionLocks::DEFAULT_STRIPES)?;
/// let relax = std::hint::spin_loop;
/// let before = locks.read(&relax, 4096);
/// let locked = before.try_lock().expect("no thread was faster");
/// assert!(!before.is_current(), "a writer is at work");
/// drop(locked);
/// assert!(!before.is_current(), "and has changed the leaf");
/// # Ok::<(), everleaf_pmem::MapError>(())
/// ```
#[derive(Debug)]
pub struct VersionLocks {
    /// A plain slice, for what a search pays for every leaf that it reads: nothing but a
    /// multiplication to find the latch.
    latches: Box<[Latch]>,
    waits: CachePadded<AtomicU64>,
}

/// The latch of a leaf, and the version that it had when it was read: unlocked, but for
/// [`VersionLocks::look`].
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    latch: &'a Latch,
    version: Version,
}

impl<'a> Seen<'a> {
    /// Whether a thread had the leaf locked; only [`look`](VersionLocks::look) gives such a
    /// version.
    #[inline(always)]
    pub fn is_locked(self) -> bool {
        self.version.is_locked()
    }

    /// Whether nothing of the leaf was changed since its version was read: what was loaded from it
    /// in between was there together. One load.
    #[inline(always)]
    pub fn is_current(self) -> bool {
        latch::is_current(&self.latch[0], self.version)
    }

    /// Locks the leaf if nothing of it was changed since its version was read; does not wait. None
    /// as well if this thread has locked a leaf of the same latch. One atomic exchange.
    #[inline(always)]
    pub fn try_lock(self) -> Option<LockGuard<'a>> {
        debug_assert!(!self.is_locked());
        latch::try_lock(&self.latch[0], self.version).then(|| LockGuard(self.latch))
    }
}

/// A locked latch. Dropped, it unlocks with a new version: readers of the leaf start again.
#[derive(Debug)]
#[must_use = "the leaf is unlocked when this is dropped"]
pub struct LockGuard<'a>(&'a Latch);

impl VersionLocks {
    /// Latches for many threads: a megabyte, so two writers meet on one latch by chance once in
    /// 65536 times.
    pub const DEFAULT_STRIPES: usize = 1 << 16;
    /// The most that a table may have.
    const MAX_STRIPES: usize = 1 << 24;

    /// A table of `stripes` latches, rounded up to a power of two of at most 2^24.
    ///
    /// # Errors
    /// [`MapError::System`] when the system has no memory.
    pub fn new(stripes: usize) -> Result<Self, MapError> {
        let stripes = stripes.clamp(1, Self::MAX_STRIPES).next_power_of_two();
        let mut blocks: Vec<[Latch; BLOCK]> = Vec::new();
        let exhausted = |_| MapError::System {
            action: "taking memory for locks",
            source: ErrorKind::OutOfMemory.into(),
        };
        blocks.try_reserve_exact(stripes.div_ceil(BLOCK)).map_err(exhausted)?;
        let block = || [const { [const { AtomicU64::new(0) }; 2] }; BLOCK];
        blocks.resize_with(stripes.div_ceil(BLOCK), block);
        let mut latches = blocks.into_flattened();
        latches.truncate(stripes);
        Ok(Self { latches: latches.into(), waits: CachePadded::default() })
    }

    /// Which latch a leaf has. Leaves begin at lines; the multiplication spreads those that lie
    /// side by side.
    #[inline(always)]
    fn stripe(&self, leaf_offset: u64) -> usize {
        ((leaf_offset >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize
            & (self.latches.len() - 1)
    }

    /// A latch and its counter.
    #[inline(always)]
    fn latch(&self, stripe: usize) -> &Latch {
        &self.latches[stripe]
    }

    /// Counts a turn of waiting, and takes it.
    #[cold]
    fn wait(&self, relax: &impl Fn()) {
        self.waits.fetch_add(1, Ordering::Relaxed);
        relax();
    }

    /// The version of a leaf that no thread changes; waits while it is locked. One load where it is
    /// not.
    #[inline(always)]
    pub fn read(&self, relax: &impl Fn(), leaf_offset: u64) -> Seen<'_> {
        let latch = self.latch(self.stripe(leaf_offset));
        Seen { latch, version: latch::read(&latch[0], || self.wait(relax)) }
    }

    /// The version of a leaf as it is: what is read of the leaf counts only if it [is not
    /// locked](Seen::is_locked). One load, and no wait.
    #[inline(always)]
    pub fn look(&self, leaf_offset: u64) -> Seen<'_> {
        let latch = self.latch(self.stripe(leaf_offset));
        Seen { latch, version: latch::load(&latch[0]) }
    }

    /// The version of a leaf; none while a thread has it locked. One load, and no wait: for
    /// transactions.
    #[inline(always)]
    pub fn peek(&self, leaf_offset: u64) -> Option<Seen<'_>> {
        Some(self.look(leaf_offset)).filter(|seen| !seen.is_locked())
    }

    /// Locks a leaf; waits while it is locked, for ever if this thread has locked a leaf of the
    /// same latch.
    pub fn lock(&self, relax: &impl Fn(), leaf_offset: u64) -> LockGuard<'_> {
        let latch = self.latch(self.stripe(leaf_offset));
        latch::lock::<Version>(&latch[0], || self.wait(relax));
        LockGuard(latch)
    }

    /// Prefetches the latch ahead of its use.
    #[inline(always)]
    pub fn prefetch(&self, leaf_offset: u64) {
        prefetch(self.latch(self.stripe(leaf_offset)));
    }

    /// As [`prefetch`](Self::prefetch), of a leaf that will be locked.
    #[inline(always)]
    pub fn prefetch_to_lock(&self, leaf_offset: u64) {
        prefetch_to_write(self.latch(self.stripe(leaf_offset)));
    }

    /// Locks two leaves, in the order of their latches so that no two threads wait for each other.
    /// One `LockGuard` if they share a latch.
    pub fn lock_both(
        &self,
        relax: &impl Fn(),
        leaf_offset: u64,
        other_offset: u64,
    ) -> (LockGuard<'_>, Option<LockGuard<'_>>) {
        let (stripe, other) = (self.stripe(leaf_offset), self.stripe(other_offset));
        let lock = |stripe| {
            let latch = self.latch(stripe);
            latch::lock::<Version>(&latch[0], || self.wait(relax));
            LockGuard(latch)
        };
        let first = lock(stripe.min(other));
        let second = (stripe != other).then(|| lock(stripe.max(other)));
        (first, second)
    }

    /// Whether `locked` is the lock of that leaf.
    pub fn is_locked_by(&self, leaf_offset: u64, locked: &LockGuard<'_>) -> bool {
        std::ptr::eq(self.latch(self.stripe(leaf_offset)), locked.0)
    }

    /// The sum of all counters, from 0 when the table was made; exact while no leaf is locked.
    /// Reads the whole table.
    pub fn counted(&self) -> i64 {
        self.latches.iter().map(|latch| latch[1].load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
            as i64
    }

    /// The sum of all versions, none while any leaf is locked: while it is the same nothing has
    /// changed. Reads the whole table.
    pub fn versions(&self) -> Option<u64> {
        let mut versions = self.latches.iter().map(|latch| latch::load::<Version>(&latch[0]));
        versions.try_fold(0_u64, |sum, version| {
            (!version.is_locked()).then(|| sum.wrapping_add(version.0))
        })
    }

    /// Turns of waiting for locks, since the table was made.
    pub fn waits(&self) -> u64 {
        self.waits.load(Ordering::Relaxed)
    }

    /// Bytes of DRAM taken.
    pub fn dram_bytes(&self) -> u64 {
        (size_of_val(&*self.latches) + size_of::<Self>()) as u64
    }
}

impl LockGuard<'_> {
    /// The version that the latch had when it was locked: it has it again after
    /// [`unlock_unchanged`](Self::unlock_unchanged), and else never.
    #[inline(always)]
    pub fn version(&self) -> u64 {
        latch::load::<Version>(&self.0[0]).unlocked().bits()
    }

    /// Adds to the counter of the latch. No locked instruction: only the holder writes it.
    #[inline(always)]
    pub fn count(&self, change: i64) {
        let counted = self.0[1].load(Ordering::Relaxed);
        self.0[1].store(counted.wrapping_add_signed(change), Ordering::Relaxed);
    }

    /// Unlocks with the old version: for a holder that has stored nothing into the leaf. Readers
    /// need not start again.
    pub fn unlock_unchanged(self) {
        latch::unlock_unchanged::<Version>(&self.0[0]);
        std::mem::forget(self);
    }
}

impl Drop for LockGuard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        latch::unlock::<Version>(&self.0[0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::atomic::AtomicBool;

    fn relax() {
        std::thread::yield_now();
    }

    proptest! {
        #[test]
        fn versions_round_trip(bits: u64) {
            let version = Version::from_bits(bits);
            prop_assert_eq!(version.bits(), bits);
            prop_assert_eq!(version.is_locked(), bits % 2 == 1);
            prop_assert!(version.locked().is_locked() && !version.unlocked().is_locked());
            prop_assert_eq!(version.next_version().is_locked(), version.is_locked());
            prop_assert_ne!(version.next_version().unlocked(), version.unlocked());
            prop_assert_eq!(version.locked().unlocked(), version.unlocked());
        }

        #[test]
        fn every_offset_has_a_latch(offset: u64, stripes in 0usize..300) {
            let locks = VersionLocks::new(stripes).unwrap();
            prop_assert!(locks.stripe(offset) < stripes.next_power_of_two());
            drop(locks.lock(&relax, offset));
            prop_assert_eq!(locks.read(&relax, offset).version, Version(2));
        }
    }

    #[test]
    fn neighbouring_leaves_are_spread_over_the_table() {
        let locks = VersionLocks::new(1 << 10).unwrap();
        for leaf_bytes in [64u64, 960, 1024, 4096] {
            let taken: std::collections::BTreeSet<_> =
                (0..1000).map(|leaf| locks.stripe((1 << 20) + leaf * leaf_bytes)).collect();
            assert!(
                taken.len() > 500,
                "{} latches for 1000 leaves of {leaf_bytes} bytes",
                taken.len()
            );
        }
    }

    #[test]
    fn a_lock_refuses_others_and_invalidates_readers() {
        let locks = VersionLocks::new(2).unwrap();
        let before = locks.read(&relax, 64);
        let locked = before.try_lock().unwrap();
        assert!(before.try_lock().is_none() && !before.is_current());
        locked.unlock_unchanged();
        assert!(before.is_current(), "nothing was changed");
        drop(locks.lock(&relax, 64));
        assert!(!before.is_current() && before.try_lock().is_none());
        assert_eq!(locks.waits(), 0);
    }

    #[test]
    fn a_panic_does_not_leave_a_leaf_locked() {
        let locks = VersionLocks::new(2).unwrap();
        let before = locks.read(&relax, 0);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _locked = locks.lock(&relax, 0);
            panic!("in a callback");
        }));
        assert!(outcome.is_err() && !before.is_current());
        assert!(locks.read(&relax, 0).try_lock().is_some());
    }

    #[test]
    fn two_leaves_of_one_latch_are_locked_once() {
        let one = VersionLocks::new(1).unwrap();
        let (first, second) = one.lock_both(&relax, 0, 64);
        assert!(second.is_none() && one.is_locked_by(0, &first) && one.is_locked_by(64, &first));
        let two = VersionLocks::new(2).unwrap();
        let other = (1..100)
            .map(|line| line * 64)
            .find(|offset| two.stripe(*offset) != two.stripe(0))
            .unwrap();
        for (a, b) in [(0, other), (other, 0)] {
            let (first, second) = two.lock_both(&relax, a, b);
            assert!(
                second.as_ref().is_some_and(
                    |second| two.is_locked_by(a, &first) != two.is_locked_by(a, second)
                )
            );
        }
    }

    #[test]
    fn counters_of_holders_add_up() {
        let locks = VersionLocks::new(5).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let locks = &locks;
                scope.spawn(move || {
                    (0..1000).for_each(|i| {
                        locks.lock(&relax, (thread * 1000 + i) << 6).count(if i % 4 == 0 {
                            -2
                        } else {
                            1
                        })
                    })
                });
            }
        });
        assert_eq!(locks.counted(), 4 * 250);
    }

    #[test]
    fn a_waiting_thread_is_counted_and_goes_on() {
        let locks = VersionLocks::new(1).unwrap();
        let held = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _locked = locks.lock(&relax, 0);
                held.store(true, Ordering::Release);
                while locks.waits() == 0 {
                    relax();
                }
            });
            while !held.load(Ordering::Acquire) {
                relax();
            }
            assert_eq!(locks.read(&relax, 0).version, Version(2));
        });
        assert!(locks.waits() > 0);
    }
}
