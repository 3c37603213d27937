//! Locks of leaves: a fixed table of optimistic latches in DRAM, by the leaf's offset in the pool. Locks are never persistent
//! state, and a leaf has no room for one; leaves whose offsets fall on the same latch share it, which costs a conflict and
//! never an error.
//!
//! Readers never write: they [`read`](VersionLocks::read) the version, load what they need from the leaf, and ask whether what they have
//! [seen](Seen) is current. Writers lock; the [`Locked`] they get unlocks when it is dropped, by a panic too.
//! `latch` says why this is right in the memory model.

use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use everleaf_pmem::{DramArena, DramSource, MapError, SimdLevel};

use super::latch::{self, LatchWord};

/// What a reader remembers of a latch: bit 0 says that it is locked, the others count the changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version(u64);

impl LatchWord for Version {
    #[inline(always)]
    fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        self.0
    }
    #[inline(always)]
    fn is_locked(self) -> bool {
        self.0 & 1 != 0
    }
    #[inline(always)]
    fn locked(self) -> Self {
        Self(self.0 | 1)
    }
    #[inline(always)]
    fn unlocked(self) -> Self {
        Self(self.0 & !1)
    }
    #[inline(always)]
    fn next_version(self) -> Self {
        Self(self.0.wrapping_add(2))
    }
}

/// The latches of all leaves of a tree.
///
/// ```
/// use everleaf_trees::support::version_locks::VersionLocks;
///
/// let locks = VersionLocks::new(VersionLocks::DEFAULT_STRIPES)?;
/// let relax = std::hint::spin_loop;
/// let before = locks.read(&relax, 4096);
/// let locked = before.try_lock().expect("nobody was faster");
/// assert!(!before.is_current(), "a writer is at work");
/// drop(locked);
/// assert!(!before.is_current(), "and has changed the leaf");
/// # Ok::<(), everleaf_pmem::MapError>(())
/// ```
#[derive(Debug)]
pub struct VersionLocks {
    /// Eight latches a line.
    lines: DramArena,
    mask: usize,
    waits: CachePadded<AtomicU64>,
}

/// The latch of a leaf, and the version that it had when it was read: unlocked.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    atom: &'a AtomicU64,
    version: Version,
}

impl<'a> Seen<'a> {
    /// Whether nothing of the leaf was changed since its version was read: what was loaded from it in between was there
    /// together. One load.
    #[inline(always)]
    pub fn is_current(self) -> bool {
        latch::is_current(self.atom, self.version)
    }

    /// Locks the leaf if nothing of it was changed since its version was read; does not wait. None as well if this thread has
    /// locked a leaf of the same latch. One atomic exchange.
    #[inline(always)]
    pub fn try_lock(self) -> Option<Locked<'a>> {
        latch::try_lock(self.atom, self.version).then(|| Locked(self.atom))
    }
}

/// A locked latch. Dropped, it unlocks with a new version: readers of the leaf start again.
#[derive(Debug)]
#[must_use = "the leaf is unlocked when this is dropped"]
pub struct Locked<'a>(&'a AtomicU64);

impl VersionLocks {
    /// Latches for many threads: half a megabyte, so two writers meet on one latch by chance once in 65536 times.
    pub const DEFAULT_STRIPES: usize = 1 << 16;
    /// The most that a table may have.
    const MAX_STRIPES: usize = 1 << 24;

    /// A table of `stripes` latches, rounded up to a power of two of at most 2^24.
    ///
    /// # Errors
    /// [`MapError::System`] when the system has no memory.
    pub fn new(stripes: usize) -> Result<Self, MapError> {
        Self::within(SimdLevel::Scalar.into(), stripes)
    }

    /// The same in memory from `dram`.
    ///
    /// # Errors
    /// As [`new`](VersionLocks::new).
    pub fn within(dram: DramSource<'_>, stripes: usize) -> Result<Self, MapError> {
        let stripes = stripes.clamp(1, Self::MAX_STRIPES).next_power_of_two();
        let lines = dram.reserve(stripes as u64 * 8)?;
        lines.ensure(stripes.div_ceil(8))?;
        Ok(Self { lines, mask: stripes - 1, waits: CachePadded::default() })
    }

    /// Which latch a leaf has. Leaves begin at lines; the multiplication spreads those that lie side by side.
    #[inline(always)]
    fn stripe(&self, leaf_offset: u64) -> usize {
        ((leaf_offset >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize & self.mask
    }

    #[inline(always)]
    fn atom(&self, stripe: usize) -> &AtomicU64 {
        &self.lines.line((stripe / 8) as u32).0[stripe % 8]
    }

    /// Counts a turn of waiting, and takes it.
    #[cold]
    fn wait(&self, relax: &impl Fn()) {
        self.waits.fetch_add(1, Ordering::Relaxed);
        relax();
    }

    /// The version of a leaf that nobody changes; waits while it is locked. One load where it is not.
    #[inline(always)]
    pub fn read(&self, relax: &impl Fn(), leaf_offset: u64) -> Seen<'_> {
        let atom = self.atom(self.stripe(leaf_offset));
        Seen { atom, version: latch::read(atom, || self.wait(relax)) }
    }

    /// Locks a leaf; waits while it is locked, for ever if this thread has locked a leaf of the same latch.
    pub fn lock(&self, relax: &impl Fn(), leaf_offset: u64) -> Locked<'_> {
        let atom = self.atom(self.stripe(leaf_offset));
        latch::lock::<Version>(atom, || self.wait(relax));
        Locked(atom)
    }

    /// Asks for the latch ahead of its use.
    #[inline(always)]
    pub fn prefetch(&self, leaf_offset: u64) {
        self.lines.prefetch((self.stripe(leaf_offset) / 8) as u32);
    }

    /// Turns of waiting for locks, since the table was made.
    pub fn waits(&self) -> u64 {
        self.waits.load(Ordering::Relaxed)
    }

    /// Bytes of DRAM taken.
    pub fn dram_bytes(&self) -> u64 {
        self.lines.bytes() + size_of::<Self>() as u64
    }
}

impl Locked<'_> {
    /// Unlocks with the old version: for a holder that has stored nothing into the leaf. Readers need not start again.
    pub fn unlock_unchanged(self) {
        latch::unlock_unchanged::<Version>(self.0);
        std::mem::forget(self);
    }
}

impl Drop for Locked<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        latch::unlock::<Version>(self.0);
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
            assert!(taken.len() > 500, "{} latches for 1000 leaves of {leaf_bytes} bytes", taken.len());
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
