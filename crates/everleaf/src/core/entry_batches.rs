//! Entries as they are read, some at a time, and the bounds within which they lie.

use std::ops::Bound;

use crate::{Key, OwnedKey};

/// Entries that are fetched at a time.
pub(crate) const BATCH_ENTRIES: usize = 128;
/// Bytes of keys and values after which a batch ends early, so that long ones neither fill memory
/// nor hold writers up.
pub(crate) const BATCH_BYTES: usize = 1 << 20;

/// A key and its value.
pub type Entry = (OwnedKey, Vec<u8>);

/// An entry that was read: its key is the index's.
pub(crate) struct Fetched {
    pub(crate) key: OwnedKey,
    pub(crate) value: Vec<u8>,
    pub(crate) expires_ms: Option<u64>,
}

pub(crate) fn borrowed(bound: &Bound<OwnedKey>) -> Bound<Key<'_>> {
    bound.as_ref().map(OwnedKey::as_ref)
}

/// Whether `key` lies on the allowed side of a lower (or upper) bound.
pub(crate) fn passes(bound: &Bound<OwnedKey>, key: Key<'_>, lower: bool) -> bool {
    let (at, included) = match bound {
        Bound::Unbounded => return true,
        Bound::Included(at) => (at, true),
        Bound::Excluded(at) => (at, false),
    };
    match key.cmp(&at.as_ref()) {
        std::cmp::Ordering::Equal => included,
        order => order.is_gt() == lower,
    }
}
