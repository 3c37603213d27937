//! Values, as they lie in the pool and as they are to be stored; when they expire.

use std::time::{Duration, SystemTime};

use everleaf_pmem::planted;

use crate::clock::to_ms;

/// A value with its expiry, as it lies in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedValue<'a> {
    /// Its bytes.
    pub value: &'a [u8],
    /// When it expires, in milliseconds since 1970.
    pub expires_ms: Option<u64>,
}

/// Whether a value that expires then has expired now.
pub(crate) fn is_expired(expires_ms: Option<u64>, now_ms: u64) -> bool {
    expires_ms.is_some_and(|expires_ms| expires_ms <= now_ms)
}

/// When a value that is written expires: what every write may be told, see
/// [`Tree::with_expiry`](crate::Tree::with_expiry).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// Never.
    Never,
    /// Once this time has passed, in milliseconds, rounded up. It counts from the write on; in a
    /// batch from the call that adds the write, in a transaction from its beginning.
    After(Duration),
    /// At this moment.
    At(SystemTime),
    /// When the value that is replaced would have; never, where there is none.
    Kept,
}

impl Expiry {
    /// The same, of a write of this time.
    pub(crate) fn counted_from(self, now_ms: impl FnOnce() -> u64) -> NewExpiry {
        NewExpiry::At(match self {
            Self::Never => None,
            Self::After(life) => {
                let life_ms = u64::try_from(life.as_nanos().div_ceil(1_000_000));
                Some(now_ms().saturating_add(life_ms.unwrap_or(u64::MAX)))
            }
            Self::At(moment) => Some(to_ms(moment)),
            Self::Kept => return NewExpiry::Kept,
        })
    }
}

/// When a value that is to be stored expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewExpiry {
    /// Then, in milliseconds since 1970, or never.
    At(Option<u64>),
    /// When the value does that is there; never, if there is none.
    Kept,
}

impl NewExpiry {
    /// It stays.
    pub(crate) const NEVER: Self = Self::At(None);

    /// When it expires in place of what is there: a value that expires then, or none that has not
    /// expired.
    pub(crate) fn over(self, there: Option<Option<u64>>) -> Option<u64> {
        match self {
            Self::At(expires_ms) => expires_ms,
            Self::Kept => there.flatten().filter(|_| !planted(323)),
        }
    }
}

/// A value that is to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewValue<'a> {
    /// Its bytes.
    pub value: &'a [u8],
    /// When it expires.
    pub expiry: NewExpiry,
}

impl<'a> From<TimedValue<'a>> for NewValue<'a> {
    fn from(TimedValue { value, expires_ms }: TimedValue<'a>) -> Self {
        Self { value, expiry: NewExpiry::At(expires_ms) }
    }
}
