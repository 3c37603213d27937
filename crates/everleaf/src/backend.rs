//! The seam between [`Store`](crate::Store), which knows neither media nor kinds of keys, and the parts that do.

use std::ops::{Bound, ControlFlow};

use everleaf_index::Direction;
use everleaf_pool::KeyType;

use crate::{Capabilities, CheckOutcome, Engine, Error, Key, Statistics};

/// What a scan calls for each entry: the key and its value; `Break` ends the scan.
pub type Visit<'v> = dyn FnMut(Key<'_>, &[u8]) -> ControlFlow<()> + 'v;

/// A store on some media, with some kind of keys and some engine. The methods mean what those of the same name in
/// [`Store`](crate::Store) mean.
#[allow(missing_docs, clippy::missing_errors_doc, clippy::len_without_is_empty)]
pub trait Backend: Send + Sync {
    fn engine(&self) -> Engine;
    fn key_type(&self) -> KeyType;
    /// Returns whether a value was replaced.
    fn put(&self, key: Key<'_>, value: &[u8]) -> Result<bool, Error>;
    /// Returns whether the key was absent, and is now there.
    fn insert(&self, key: Key<'_>, value: &[u8]) -> Result<bool, Error>;
    /// Shows the value under the lock; returns whether there is one.
    fn get_with(&self, key: Key<'_>, show: &mut dyn FnMut(&[u8])) -> Result<bool, Error>;
    fn contains(&self, key: Key<'_>) -> Result<bool, Error>;
    /// Returns whether the key was present.
    fn delete(&self, key: Key<'_>) -> Result<bool, Error>;
    fn len(&self) -> u64;
    /// Visits entries from `from` on in `direction`, under the lock: `visit` must not call the store.
    fn scan(&self, from: Bound<Key<'_>>, direction: Direction, visit: &mut Visit<'_>) -> Result<(), Error>;
    fn statistics(&self) -> Result<Statistics, Error>;
    fn capabilities(&self) -> Capabilities;
    fn check(&self) -> Result<CheckOutcome, Error>;
    fn sync(&self) -> Result<(), Error>;
    /// Closes cleanly; does nothing when done again. Every other call gives [`Error::Closed`] afterwards.
    fn close(&self) -> Result<(), Error>;
}
