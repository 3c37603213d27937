//! What a transaction has read.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::OwnedKey;
use crate::core::entry_batches::passes;
use crate::core::value::TimedValue;

/// The versions of the locks of all keys, not all of one moment.
pub type Versions = Box<[u64]>;

/// The ends of a range, in keys of the index.
pub type Bounds = (Bound<OwnedKey>, Bound<OwnedKey>);

/// A copy of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// Its bytes.
    pub(crate) bytes: Vec<u8>,
    /// When it expires, in milliseconds since 1970.
    pub(crate) expires_ms: Option<u64>,
}

impl Value {
    pub(crate) fn of(found: TimedValue<'_>) -> Self {
        Self { bytes: found.value.to_vec(), expires_ms: found.expires_ms }
    }

    /// Whether it is a copy of this.
    pub(crate) fn is(&self, found: TimedValue<'_>) -> bool {
        (self.bytes.as_slice(), self.expires_ms) == (found.value, found.expires_ms)
    }
}

/// Everything that was read, all of one moment, and what tells whether it still is so.
pub struct Reads {
    /// The versions of the locks of keys at that moment.
    pub(crate) versions: Versions,
    /// The time that values expire by, in milliseconds since 1970.
    pub(crate) now_ms: u64,
    /// Keys that were read, alone or in a range, and what they were.
    pub(crate) points: BTreeMap<OwnedKey, Option<Value>>,
    /// Ranges that were read: every key of one that is present is a point.
    pub(crate) ranges: Vec<Bounds>,
}

impl Reads {
    pub(crate) fn new(versions: Versions, now_ms: u64) -> Self {
        Self { versions, now_ms, points: BTreeMap::new(), ranges: Vec::new() }
    }

    /// A range was read, and these were its entries.
    pub(crate) fn took(&mut self, range: Bounds, entries: Vec<(OwnedKey, Value)>) {
        self.points.extend(entries.into_iter().map(|(key, value)| (key, Some(value))));
        self.ranges.push(range);
    }

    /// The entries of a range that was read, the least first.
    pub(crate) fn seen_in<'r>(
        &'r self,
        range: &'r Bounds,
    ) -> impl Iterator<Item = (&'r OwnedKey, &'r Value)> {
        within(&self.points, range).filter_map(|(key, value)| Some((key, value.as_ref()?)))
    }
}

/// The part of a map that lies in a range, which may be an empty one.
pub(crate) fn within<'m, V>(
    map: &'m BTreeMap<OwnedKey, V>,
    (lower, upper): &'m Bounds,
) -> impl Iterator<Item = (&'m OwnedKey, &'m V)> {
    map.range((lower.as_ref(), Bound::Unbounded))
        .take_while(|(key, _)| passes(upper, key.as_ref(), false))
}
