//! What an engine promises of a call that has returned, and what holds an epoch open.

use std::fmt;
use std::marker::PhantomData;

use crate::Result;

/// When an acknowledged write is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Contract {
    /// When the call returns. A call cut by a crash has happened wholly or not at all.
    Strict,
    /// When the epoch that it belongs to is completed, or `sync` returned. After a crash the engine
    /// is as it was at the end of a completed epoch.
    Buffered,
}

/// The part of a buffered engine that is called when an [`EpochGuard`] is dropped.
pub trait Epochs: Sync {
    /// The guard that was made with this number is gone.
    fn unpin(&self, number: u64);
}

/// What ends together with the epochs of a buffered engine: memory beside the index, above all.
///
/// The index calls it when it ends an epoch.
pub trait EpochPart: Send + Sync {
    /// Takes what was written so far and does not change any more in the epoch, to be flushed
    /// before the epoch ends; how many lines it has. Threads may hold guards, and wait for this to
    /// return: what one of them has in its hands is left for later.
    fn take_written(&self) -> usize {
        0
    }

    /// Flushes what was taken last. Threads hold guards, and write, meanwhile. The index fences
    /// later.
    fn write_back(&self) {}

    /// Writes and flushes what belongs to the epoch with this number. No guard is held. The index
    /// fences afterwards, and then commits the epoch.
    ///
    /// # Errors
    /// The epoch cannot end: then none ends any more, and a crash goes back to the one before.
    fn prepare(&self, epoch: u64) -> Result<()>;

    /// The epoch that was prepared is durable, and the next one has not begun.
    ///
    /// # Errors
    /// As the medium reports.
    fn finish(&self) -> Result<()>;
}

/// While it is held the epoch does not end: what the thread does meanwhile, in the index and in the
/// pool, is after a crash there as a whole or not at all. Of a strict engine it is nothing.
///
/// An epoch waits for its guards, so a guard is held for one operation: never while user code runs,
/// nor while its thread waits for a lock under which user code runs. A thread that holds a guard
/// does not ask for another one, which might wait for the end of the epoch. A guard stays with its
/// thread.
#[must_use = "the epoch may end as soon as the guard is dropped"]
pub struct EpochGuard<'e> {
    pinned: Option<(&'e dyn Epochs, u64)>,
    /// Not `Send`.
    of_thread: PhantomData<*const ()>,
}

impl<'e> EpochGuard<'e> {
    /// The guard of a strict engine: nothing is held.
    #[inline(always)]
    pub const fn none() -> Self {
        Self { pinned: None, of_thread: PhantomData }
    }

    /// A guard of a buffered engine, which has pinned its epoch for this thread already, and gets
    /// `number` back when the guard is dropped.
    #[inline]
    pub const fn new(epochs: &'e dyn Epochs, number: u64) -> Self {
        Self { pinned: Some((epochs, number)), of_thread: PhantomData }
    }

    /// Whether an epoch is held open.
    pub const fn is_pinned(&self) -> bool {
        self.pinned.is_some()
    }
}

impl Drop for EpochGuard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some((epochs, number)) = self.pinned {
            epochs.unpin(number);
        }
    }
}

impl fmt::Debug for EpochGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.pinned.map(|(_, number)| number);
        f.debug_struct("EpochGuard").field("number", &number).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// The number that was given back last.
    struct Unpinned(AtomicU64);

    impl Epochs for Unpinned {
        fn unpin(&self, number: u64) {
            self.0.store(number, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_guard_gives_its_number_back_once_it_is_dropped() {
        let unpinned = Unpinned(AtomicU64::new(0));
        let guard = EpochGuard::new(&unpinned, 7);
        assert!(guard.is_pinned() && unpinned.0.load(Ordering::Relaxed) == 0);
        drop(guard);
        assert_eq!(unpinned.0.load(Ordering::Relaxed), 7);
        assert!(!EpochGuard::none().is_pinned());
    }
}
