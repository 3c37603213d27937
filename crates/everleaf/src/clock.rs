//! The time that values expire by.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// What tells a store the time, for values that expire.
///
/// ```
/// use everleaf::{Clock, CreateOptions};
/// use std::time::Duration;
///
/// # let folder = tempfile::tempdir()?;
/// let clock = Clock::manual(0);
/// let options = CreateOptions::new().clock(clock.clone());
/// let store = options.create(folder.path().join("a.pool"))?;
/// store.put_for("session", b"of user 7", Duration::from_secs(60))?;
/// clock.advance(Duration::from_secs(59));
/// assert!(store.contains_key("session")?);
/// clock.advance(Duration::from_secs(1));
/// assert!(!store.contains_key("session")?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Clock {
    /// None: the system's clock.
    manual_ms: Option<Arc<AtomicU64>>,
}

impl Clock {
    /// The system's clock. Where it is set back, values live longer.
    pub fn system() -> Self {
        Self::default()
    }

    /// A clock that stands at so many milliseconds since 1970 until it is moved: for tests. Clones
    /// are the same clock.
    pub fn manual(now_ms: u64) -> Self {
        Self { manual_ms: Some(Arc::new(AtomicU64::new(now_ms))) }
    }

    /// Moves a manual clock; the system's is not moved.
    pub fn advance(&self, by: std::time::Duration) {
        if let Some(now) = &self.manual_ms {
            now.fetch_add(by.as_millis() as u64, Ordering::Relaxed);
        }
    }

    /// Milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        match &self.manual_ms {
            Some(now) => now.load(Ordering::Relaxed),
            None => to_ms(SystemTime::now()),
        }
    }
}

impl PartialEq for Clock {
    /// Whether they are the same clock.
    fn eq(&self, other: &Self) -> bool {
        match (&self.manual_ms, &other.manual_ms) {
            (None, None) => true,
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl Eq for Clock {}

/// Milliseconds since 1970; 0 for earlier times.
pub(crate) fn to_ms(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
