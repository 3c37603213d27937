//! The store itself.

use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::path::Path;

use everleaf_pool::KeyType;

use crate::backend::Backend;
use crate::{Capabilities, CheckOutcome, CreateOptions, Engine, Error, Key, OpenOptions, OwnedKey, Range, Scan, Statistics};

/// An ordered map from keys to byte values in a pool file. All methods may be called from several threads. With a concurrent engine, which
/// is the default, writers of different keys do not wait for each other; with another one they take turns at its index. A get sees the
/// value of its key that was written last, and never one that a crash can still undo. An iterator shows every key that was there all the time
/// and none that was absent all the time, in order; what is written while it runs it may show or not.
///
/// Every write is durable when it returns, as far as [`Statistics::durability`] says, and a write that is cut by a crash has happened
/// wholly or not at all. Dropping a store closes it; [`close`](Store::close) also tells whether that worked. A process that dies
/// leaves a pool that is recovered when it is opened.
pub struct Store {
    backend: Box<dyn Backend>,
}

impl Store {
    /// Makes a pool file with byte-string keys and defaults for everything else; see [`CreateOptions`] for more.
    ///
    /// # Errors
    /// As [`CreateOptions::create`].
    pub fn create(path: impl AsRef<Path>) -> Result<Self, Error> {
        CreateOptions::new().create(path)
    }

    /// Opens a pool file to read and write; see [`OpenOptions`] for more.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        OpenOptions::new().open(path)
    }

    /// Opens a pool file to read; the file is not written, whatever state it is in.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self, Error> {
        OpenOptions::new().read_only(true).open(path)
    }

    pub(crate) fn over(backend: Box<dyn Backend>) -> Self {
        Self { backend }
    }

    /// Stores `value` under `key`, in place of the value that it may have; true if it had one. The old value is there until the new one is,
    /// at any crash point. Cost: one flush for each line of the value, and with `fptree` 5 more flushes and 4 fences for a new `u64` key,
    /// 5 and 4 to replace.
    ///
    /// # Errors
    /// [`Error::is_full`], [`Error::WrongKeyType`], [`Error::ValueTooLong`], [`Error::ReadOnly`], a key of more than 64 KiB, damage.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20).create(folder.path().join("a.pool"))?;
    /// assert!(!store.put("key", b"value")?);
    /// assert!(store.put("key", b"another")?, "replaced");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn put<'k>(&self, key: impl Into<Key<'k>>, value: &[u8]) -> Result<bool, Error> {
        self.backend.put(key.into(), value)
    }

    /// Stores `value` under `key` if the key is absent; false, and nothing changed, if it is present.
    ///
    /// # Errors
    /// As [`put`](Store::put).
    pub fn insert<'k>(&self, key: impl Into<Key<'k>>, value: &[u8]) -> Result<bool, Error> {
        self.backend.insert(key.into(), value)
    }

    /// A copy of the value of `key`.
    ///
    /// # Errors
    /// [`Error::WrongKeyType`], a key of more than 64 KiB, damage.
    pub fn get<'k>(&self, key: impl Into<Key<'k>>) -> Result<Option<Vec<u8>>, Error> {
        self.get_with(key, <[u8]>::to_vec)
    }

    /// Shows the value of `key` to `show` where it lies, without a copy, and returns what `show` returns. Writers wait until `show` returns, so
    /// it must not call the store: a write would wait for itself.
    ///
    /// # Errors
    /// As [`get`](Store::get).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20).create(folder.path().join("a.pool"))?;
    /// store.put("key", b"value")?;
    /// assert_eq!(store.get_with("key", |value| value.len())?, Some(5));
    /// assert_eq!(store.get_with("nothing", |value| value.len())?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get_with<'k, R>(&self, key: impl Into<Key<'k>>, show: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Error> {
        let (mut show, mut result) = (Some(show), None);
        self.backend.get_with(key.into(), &mut |value| result = show.take().map(|show| show(value)))?;
        Ok(result)
    }

    /// Whether `key` is present. The value is not read.
    ///
    /// # Errors
    /// As [`get`](Store::get).
    pub fn contains<'k>(&self, key: impl Into<Key<'k>>) -> Result<bool, Error> {
        self.backend.contains(key.into())
    }

    /// Removes `key` and its value; false if it is absent. Cost with `fptree` and a `u64` key: 4 flushes, 4 fences.
    ///
    /// # Errors
    /// [`Error::WrongKeyType`], [`Error::ReadOnly`], a key of more than 64 KiB, damage.
    pub fn delete<'k>(&self, key: impl Into<Key<'k>>) -> Result<bool, Error> {
        self.backend.delete(key.into())
    }

    /// Number of keys.
    pub fn len(&self) -> u64 {
        self.backend.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All entries in key order. What is promised beside writers is said at [`Range`].
    pub fn iter(&self) -> Range<'_> {
        self.scan(Scan::all())
    }

    /// The entries whose keys lie in a range, in key order. A range that is empty or upside down has no entries.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20).create(folder.path().join("a.pool"))?;
    /// for name in ["ash", "beech", "birch", "cedar"] {
    ///     store.put(name, b"")?;
    /// }
    /// let names: Vec<_> = store.range("b".."c").map(|entry| entry.map(|(key, _)| key)).collect::<Result<_, _>>()?;
    /// assert_eq!(names, ["beech".into(), "birch".into()]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn range<K: Clone + Into<OwnedKey>>(&self, range: impl RangeBounds<K>) -> Range<'_> {
        let owned = |bound: Bound<&K>| bound.map(|key| key.clone().into());
        self.scan(Scan { from: owned(range.start_bound()), to: owned(range.end_bound()), ..Scan::all() })
    }

    /// The entries whose keys begin with `prefix`, in key order (byte-string keys only).
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range<'_> {
        self.scan(Scan::all().with_prefix(prefix))
    }

    /// The entries that `scan` describes. Keys of the wrong kind in it are the iterator's first item.
    pub fn scan(&self, scan: Scan) -> Range<'_> {
        Range::new(&*self.backend, scan)
    }

    /// The engine.
    pub fn engine(&self) -> Engine {
        self.backend.engine()
    }

    /// The kind of keys.
    pub fn key_type(&self) -> KeyType {
        self.backend.key_type()
    }

    /// Sizes, shape, and what opening found. Reads the pool's chunk table: one line for each 4 KiB of the pool.
    ///
    /// # Errors
    /// Damage of the chunk table.
    pub fn statistics(&self) -> Result<Statistics, Error> {
        self.backend.statistics()
    }

    /// What the store can do and promise.
    pub fn capabilities(&self) -> Capabilities {
        self.backend.capabilities()
    }

    /// Tests every invariant of the index, every value's checksum and place, and that every block of the pool is reached exactly once or is free.
    /// Writes nothing; others wait meanwhile.
    ///
    /// # Errors
    /// Only what makes checking itself impossible; what is wrong with the store is in the outcome.
    pub fn check(&self) -> Result<CheckOutcome, Error> {
        self.backend.check()
    }

    /// Returns when everything done before is durable, and writes a pool on an ordinary file system to its file. With the engines that there
    /// are, writes are durable anyway, as far as [`Statistics::durability`] says.
    ///
    /// # Errors
    /// As the system reports.
    pub fn sync(&self) -> Result<(), Error> {
        self.backend.sync()
    }

    /// Closes the store: what it holds is synced to the file, and then the file is marked as closed.
    ///
    /// # Errors
    /// As the system reports; the pool then counts as crashed, and opening it recovers. [`Error::Interrupted`] likewise.
    pub fn close(self) -> Result<(), Error> {
        self.backend.close()
    }
}

impl Drop for Store {
    /// Closes cleanly where possible. What goes wrong is found when the pool is opened the next time.
    fn drop(&mut self) {
        let _ = self.backend.close();
    }
}

impl<'s> IntoIterator for &'s Store {
    type Item = Result<crate::Entry, Error>;
    type IntoIter = Range<'s>;

    fn into_iter(self) -> Range<'s> {
        self.iter()
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("engine", &self.engine()).field("key_type", &self.key_type()).finish_non_exhaustive()
    }
}
