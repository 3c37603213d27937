//! Reading: what trees, views and snapshots have in common.

use std::fmt;
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::time::SystemTime;

use everleaf_index::Direction;
use everleaf_pool::KeyType;

use crate::handle::Handle;
use crate::{AsKey, Entry, Key, KeyRange, Keys, OwnedKey, Range, Result, Scan};

/// The methods that read, of a type that has a handle. [`Store`](crate::Store) says what they do.
macro_rules! reads {
    () => {
        /// The kind of keys.
        pub fn key_type(&self) -> KeyType {
            self.handle().key_type()
        }

        /// A copy of the value of `key`; see [`Store::get`](crate::Store::get).
        ///
        /// # Errors
        /// Those of [`Store::get`](crate::Store::get).
        pub fn get(&self, key: impl AsKey) -> Result<Option<Vec<u8>>> {
            self.handle().get(key.as_key())
        }

        /// Shows the value of `key` without a copy; see
        /// [`Store::get_with`](crate::Store::get_with).
        ///
        /// # Errors
        /// Those of [`Store::get_with`](crate::Store::get_with).
        pub fn get_with<R>(
            &self,
            key: impl AsKey,
            show: impl FnOnce(&[u8]) -> R,
        ) -> Result<Option<R>> {
            self.handle().get_with(key.as_key(), show)
        }

        /// Copies of the values of many keys; see [`Store::get_many`](crate::Store::get_many).
        ///
        /// # Errors
        /// Those of [`Store::get_many`](crate::Store::get_many).
        pub fn get_many<K: AsKey>(
            &self,
            keys: impl IntoIterator<Item = K>,
        ) -> Result<Vec<Option<Vec<u8>>>> {
            let keys: Vec<K> = keys.into_iter().collect();
            let keys: Vec<Key<'_>> = keys.iter().map(AsKey::as_key).collect();
            self.handle().get_many(&keys)
        }

        /// Brings what leads to keys into the processor's caches; see
        /// [`Store::prefetch`](crate::Store::prefetch).
        ///
        /// # Errors
        /// Those of [`Store::prefetch`](crate::Store::prefetch).
        pub fn prefetch<K: AsKey>(&self, keys: impl IntoIterator<Item = K>) -> Result<()> {
            let keys: Vec<K> = keys.into_iter().collect();
            let keys: Vec<Key<'_>> = keys.iter().map(AsKey::as_key).collect();
            self.handle().prefetch(&keys)
        }

        /// Whether `key` is present; see [`Store::contains_key`](crate::Store::contains_key).
        ///
        /// # Errors
        /// Those of [`Store::contains_key`](crate::Store::contains_key).
        pub fn contains_key(&self, key: impl AsKey) -> Result<bool> {
            self.handle().contains_key(key.as_key())
        }

        /// When the value of `key` expires; see [`Store::expiry`](crate::Store::expiry).
        ///
        /// # Errors
        /// Those of [`Store::expiry`](crate::Store::expiry).
        pub fn expiry(&self, key: impl AsKey) -> Result<Option<Option<SystemTime>>> {
            self.handle().expiry(key.as_key())
        }

        /// The entry with the least key; see [`Store::first`](crate::Store::first).
        ///
        /// # Errors
        /// Those of [`Store::first`](crate::Store::first).
        pub fn first(&self) -> Result<Option<Entry>> {
            self.handle().outermost(Direction::Forward)
        }

        /// The entry with the greatest key; see [`Store::first`](crate::Store::first).
        ///
        /// # Errors
        /// Those of [`Store::first`](crate::Store::first).
        pub fn last(&self) -> Result<Option<Entry>> {
            self.handle().outermost(Direction::Backward)
        }

        /// Number of keys; see [`Store::len`](crate::Store::len).
        ///
        /// # Errors
        /// Those of [`Store::len`](crate::Store::len).
        pub fn len(&self) -> Result<u64> {
            self.handle().len()
        }

        /// Whether there is no key.
        ///
        /// # Errors
        /// As [`Store::len`](crate::Store::len).
        pub fn is_empty(&self) -> Result<bool> {
            Ok(self.len()? == 0)
        }

        /// Number of entries that `scan` describes; see
        /// [`Store::count_in`](crate::Store::count_in).
        ///
        /// # Errors
        /// Those of [`Store::count_in`](crate::Store::count_in).
        pub fn count_in(&self, scan: impl Into<Scan>) -> Result<u64> {
            self.handle().count_in(scan.into())
        }

        /// All entries in key order; see [`Store::iter`](crate::Store::iter).
        pub fn iter(&self) -> Range<'_> {
            self.scan(Scan::all())
        }

        /// All keys in order, without their values; see [`Store::keys`](crate::Store::keys).
        pub fn keys(&self) -> Keys<'_> {
            self.keys_in(Scan::all())
        }

        /// The keys that `scan` describes, without their values.
        pub fn keys_in(&self, scan: impl Into<Scan>) -> Keys<'_> {
            Keys(self.scan(scan).without_values())
        }

        /// The entries whose keys lie in a range; see [`Store::range`](crate::Store::range).
        pub fn range(&self, range: impl KeyRange) -> Range<'_> {
            self.scan(Scan::of(range))
        }

        /// The entries whose keys begin with `prefix`; see [`Store::prefix`](crate::Store::prefix).
        pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range<'_> {
            self.scan(Scan::all().with_prefix(prefix))
        }

        /// The entries that `scan` describes; see [`Store::scan`](crate::Store::scan).
        pub fn scan(&self, scan: impl Into<Scan>) -> Range<'_> {
            self.handle().scan(scan.into())
        }

        /// Shows the entries that `scan` describes without a copy; see
        /// [`Store::scan_with`](crate::Store::scan_with).
        ///
        /// # Errors
        /// Those of [`Store::scan_with`](crate::Store::scan_with).
        pub fn scan_with(
            &self,
            scan: impl Into<Scan>,
            visit: impl FnMut(Key<'_>, &[u8]) -> ControlFlow<()>,
        ) -> Result<()> {
            self.handle().scan_with(scan.into(), visit)
        }
    };
}
pub(crate) use reads;

/// What can be read of a tree, without the right to write: as it is now
/// ([`Tree::view`](crate::Tree::view)), or as it was when a snapshot began
/// ([`Snapshot::of`](crate::Snapshot::of)).
pub struct View<K = OwnedKey, V = Vec<u8>> {
    handle: Handle,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> View<K, V> {
    pub(crate) fn new(handle: Handle) -> Self {
        Self { handle, types: PhantomData }
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }
}

/// Of a tree whose keys and values have no types.
impl View {
    reads!();
}

impl<'v> IntoIterator for &'v View {
    type Item = Result<Entry>;
    type IntoIter = Range<'v>;

    fn into_iter(self) -> Range<'v> {
        self.iter()
    }
}

impl<K, V> Clone for View<K, V> {
    fn clone(&self) -> Self {
        Self::new(self.handle.clone())
    }
}

impl<K, V> fmt::Debug for View<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("key_type", &self.handle.key_type()).finish_non_exhaustive()
    }
}
