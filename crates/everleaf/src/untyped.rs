//! How keys, values and ranges of trees without types are encoded: as they are. What `typed` does
//! for types, for the methods that both have.

use crate::{KeyRange, Result, Scan};

/// It cannot fail; a value of a type may have no encoding.
pub(crate) fn encode_value<V: AsRef<[u8]> + ?Sized>(value: &V) -> Result<&[u8]> {
    Ok(value.as_ref())
}

pub(crate) fn scan_of(range: &impl KeyRange) -> Scan {
    Scan::of(range)
}

pub(crate) fn scan_of_prefix(prefix: &impl AsRef<[u8]>) -> Scan {
    Scan::all().with_prefix(prefix)
}
