//! Values, as they lie in the pool and as they are to be stored.

/// A value with its expiry: as it lies in the pool, or as it is to be stored.
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
