//! When stores are durable, and what happens when that fails.

use std::io;

use parking_lot::Mutex;

/// A moment in the life of a media, as a number: what was fenced before it was drawn is durable
/// once [`Media::wait_durable`](crate::Media::wait_durable) has returned for it. Later points are
/// greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DurablePoint(u64);

impl DurablePoint {
    /// The point that is always reached: the only one of a media whose fences are durable on
    /// return.
    pub const REACHED: Self = Self(0);

    /// The point with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// Why something could not be made durable. Both are final: see [`SyncLatch`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MediaError {
    /// The system could not write to the medium.
    #[error(
        "{action} failed: {source}; what was not durable before may be lost, so mend the medium, \
        close the pool and open it again"
    )]
    Failed {
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// It could not earlier, and what has become of the data since then is not known.
    #[error(
        "nothing is made durable any more because an earlier attempt failed: {action}: {reason}; \
        mend the medium, close the pool and open it again"
    )]
    FailedBefore {
        /// What was tried then.
        action: &'static str,
        /// What the system said then.
        reason: String,
    },
}

impl From<MediaError> for io::Error {
    fn from(error: MediaError) -> Self {
        let kind = match &error {
            MediaError::Failed { source, .. } => source.kind(),
            MediaError::FailedBefore { .. } => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

/// Lets a medium fail once.
///
/// After a failed fsync the system may drop the pages that it could not write, and report success
/// the next time: a second attempt proves nothing. So the first failure is kept for ever, and every
/// later attempt is refused without being made. A region has one for its file
/// ([`Region::sync`](crate::Region::sync)); a media that makes data durable in another way has its
/// own.
///
/// ```
/// use everleaf_pmem::{MediaError, SyncLatch};
///
/// let latch = SyncLatch::default();
/// assert!(latch.attempt("syncing the file", || Ok(())).is_ok());
/// let error = latch.attempt("syncing the file", || Err(std::io::ErrorKind::StorageFull.into()));
/// assert!(matches!(error, Err(MediaError::Failed { .. })));
/// let again = latch.attempt("syncing the file", || Ok(()));
/// assert!(matches!(again, Err(MediaError::FailedBefore { .. })));
/// ```
#[derive(Debug, Default)]
pub struct SyncLatch {
    /// The first failure: what was tried, and what the system said.
    failure: Mutex<Option<(&'static str, String)>>,
}

impl SyncLatch {
    /// Makes an attempt, unless one has failed before. One at a time: the system tells one of two
    /// threads of a failure, and the other must not take its silence for success.
    ///
    /// # Errors
    /// [`MediaError`].
    pub fn attempt(
        &self,
        action: &'static str,
        attempt: impl FnOnce() -> io::Result<()>,
    ) -> Result<(), MediaError> {
        let mut failure = self.failure.lock();
        if let Some((action, reason)) = &*failure {
            return Err(MediaError::FailedBefore { action, reason: reason.clone() });
        }
        attempt().map_err(|source| {
            *failure = Some((action, source.to_string()));
            MediaError::Failed { action, source }
        })
    }

    /// Whether an attempt has failed.
    pub fn has_failed(&self) -> bool {
        self.failure.lock().is_some()
    }
}

/// What the log beside a pool has done since the pool was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct LogCounts {
    /// Times that the log was synced: each made durable what all waiters had written.
    pub syncs: u64,
    /// Bytes that were appended to it.
    pub log_bytes: u64,
    /// Bytes of zeros that were written ahead of that.
    pub zero_bytes: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Bytes that they have written to the file of the pool.
    pub base_bytes: u64,
}

impl LogCounts {
    /// With these numbers, in the order of the fields.
    pub const fn new([syncs, log_bytes, zero_bytes, checkpoints, base_bytes]: [u64; 5]) -> Self {
        Self { syncs, log_bytes, zero_bytes, checkpoints, base_bytes }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;

    #[test]
    fn a_failed_sync_is_never_followed_by_a_successful_one() {
        let (latch, attempts) = (SyncLatch::default(), AtomicU64::new(0));
        // As Linux does: the failure is reported once.
        let sync = || {
            latch.attempt("syncing", || match attempts.fetch_add(1, Relaxed) {
                1 => Err(io::Error::from_raw_os_error(libc::EIO)),
                _ => Ok(()),
            })
        };
        assert!(sync().is_ok() && !latch.has_failed());
        let first = sync().unwrap_err();
        assert!(matches!(&first, MediaError::Failed { source, .. }
            if source.raw_os_error() == Some(libc::EIO)));
        for _ in 0..3 {
            let later = sync().unwrap_err();
            assert!(matches!(&later, MediaError::FailedBefore { action: "syncing", reason }
                if reason.contains("Input/output error")));
            assert_eq!(io::Error::from(later).kind(), io::ErrorKind::Other);
        }
        assert!(latch.has_failed());
        assert_eq!(attempts.load(Relaxed), 2, "what cannot help is not tried");
    }

    #[test]
    fn of_threads_that_sync_together_none_succeeds_after_the_failure() {
        for _ in 0..50 {
            let (latch, attempts) = (SyncLatch::default(), AtomicU64::new(0));
            let succeeded = AtomicU64::new(0);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        let sync = || match attempts.fetch_add(1, Relaxed) {
                            2 => Err(io::ErrorKind::Other.into()),
                            _ => Ok(()),
                        };
                        if latch.attempt("syncing", sync).is_ok() {
                            succeeded.fetch_add(1, Relaxed);
                        }
                    });
                }
            });
            assert_eq!((succeeded.into_inner(), attempts.into_inner()), (2, 3));
        }
    }
}
