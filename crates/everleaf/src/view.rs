//! Reading: what trees, stores and snapshots have in common, for they are views.

use std::fmt;
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::time::{Duration, SystemTime};

use everleaf_index::Direction;
use everleaf_pool::KeyType;

use crate::handle::Handle;
use crate::{AsKey, Entry, Key, KeyRange, Keys, OwnedKey, Range, Result, Scan};

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

/// Of a tree whose keys and values have no types. A get sees the value of its key that was written
/// last, and never one that a crash can still undo. Readers do not wait for writers of other keys.
/// What iterators promise is said at [`Range`].
impl View {
    /// The kind of keys.
    pub fn key_type(&self) -> KeyType {
        self.handle().key_type()
    }

    /// A copy of the value of `key`.
    ///
    /// # Errors
    /// [`WrongKeyType`](crate::Error::WrongKeyType), a key of more than 64 KiB, damage,
    /// [`SnapshotLost`](crate::Error::SnapshotLost).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// store.put("key", "value")?;
    /// assert_eq!(store.get("key")?.as_deref(), Some(&b"value"[..]));
    /// assert_eq!(store.get("nothing")?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get(&self, key: impl AsKey) -> Result<Option<Vec<u8>>> {
        self.handle().get(key.as_key())
    }

    /// Shows the value of `key` to `show` where it lies, without a copy, and returns what `show`
    /// returns. Writers do not wait for it; what they free meanwhile is used again afterwards.
    /// Closing, checking and counting wait until `show` returns, and what begins then waits for
    /// them: so `show` must not call the store. A snapshot shows a copy.
    ///
    /// # Errors
    /// As [`get`](View::get). What `show` calls of this store gives
    /// [`WithinClosure`](crate::Error::WithinClosure).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// store.put("key", "value")?;
    /// assert_eq!(store.get_with("key", |value| value.len())?, Some(5));
    /// assert_eq!(store.get_with("nothing", |value| value.len())?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get_with<R>(&self, key: impl AsKey, show: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        self.handle().get_with(key.as_key(), show)
    }

    /// Copies of the values of many keys, in the order of the keys. They are looked up together, so
    /// that their cache misses overlap: with `fptree` about four times as fast as one by one. Each
    /// value is as a [`get`](View::get) at some moment of the call would have seen it.
    ///
    /// # Errors
    /// As [`get`](View::get).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// store.put("a", b"1")?;
    /// assert_eq!(store.get_many(["a", "b"])?, [Some(b"1".to_vec()), None]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get_many<K: AsKey>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let keys: Vec<K> = keys.into_iter().collect();
        let keys: Vec<Key<'_>> = keys.iter().map(AsKey::as_key).collect();
        self.handle().get_many(&keys)
    }

    /// Brings what leads to keys into the processor's caches: who has some requests at hand, reads
    /// or writes, calls this before the first of them, and their cache misses overlap.
    ///
    /// # Errors
    /// As [`get`](View::get).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// let records = [("a", "1"), ("b", "2")];
    /// store.prefetch(records.map(|(key, _)| key))?;
    /// for (key, value) in records {
    ///     store.put(key, value)?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn prefetch<K: AsKey>(&self, keys: impl IntoIterator<Item = K>) -> Result<()> {
        let keys: Vec<K> = keys.into_iter().collect();
        let keys: Vec<Key<'_>> = keys.iter().map(AsKey::as_key).collect();
        self.handle().prefetch(&keys)
    }

    /// Whether `key` is present. Its value is not read beyond its first line.
    ///
    /// # Errors
    /// As [`get`](View::get).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// store.put("key", "")?;
    /// assert!(store.contains_key("key")? && !store.contains_key("nothing")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn contains_key(&self, key: impl AsKey) -> Result<bool> {
        self.handle().contains_key(key.as_key())
    }

    /// When the value of `key` expires; none if it does not. None at all if the key is absent.
    ///
    /// # Errors
    /// As [`get`](View::get).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// store.put("key", "value")?;
    /// assert_eq!(store.expiry("key")?, Some(None), "it stays");
    /// assert_eq!(store.expiry("nothing")?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn expiry(&self, key: impl AsKey) -> Result<Option<Option<SystemTime>>> {
        self.handle().expiry(key.as_key())
    }

    /// How long the value of `key` lives on; the inner none: for ever. None at all if the key is
    /// absent.
    ///
    /// # Errors
    /// As [`get`](View::get).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// use std::time::Duration;
    ///
    /// store.put_for("session", "of user 7", Duration::from_secs(60))?;
    /// assert!(store.ttl("session")?.flatten().is_some_and(|left| left.as_secs() <= 60));
    /// store.put("key", "value")?;
    /// assert_eq!((store.ttl("key")?, store.ttl("nothing")?), (Some(None), None));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ttl(&self, key: impl AsKey) -> Result<Option<Option<Duration>>> {
        self.handle().ttl(key.as_key())
    }

    /// The entry with the least key.
    ///
    /// # Errors
    /// Damage, [`SnapshotLost`](crate::Error::SnapshotLost).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// store.put_many([("ash", "1"), ("oak", "2")])?;
    /// assert_eq!(store.first()?, Some(("ash".into(), b"1".to_vec())));
    /// assert_eq!(store.last()?, Some(("oak".into(), b"2".to_vec())));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn first(&self) -> Result<Option<Entry>> {
        self.handle().outermost(Direction::Forward)
    }

    /// The entry with the greatest key.
    ///
    /// # Errors
    /// As [`first`](View::first).
    pub fn last(&self) -> Result<Option<Entry>> {
        self.handle().outermost(Direction::Backward)
    }

    /// Number of keys whose values have not expired. It is known: writers keep it up, and a clean
    /// close stores it. The first time after a crash everything in the store is counted, while
    /// others go on. A snapshot is counted each time, by reading it.
    ///
    /// # Errors
    /// Damage, [`Closed`](crate::Error::Closed), [`SnapshotLost`](crate::Error::SnapshotLost), also
    /// where more than 4 GiB are replaced while everything is counted.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// store.put("key", b"")?;
    /// assert_eq!(store.len()?, 1);
    /// assert_eq!(store.tree("words")?.len()?, 0, "each tree has its own");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn len(&self) -> Result<u64> {
        self.handle().len()
    }

    /// Whether there is no key.
    ///
    /// # Errors
    /// As [`len`](View::len).
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Number of entries that `scan` describes, found by reading them.
    ///
    /// # Errors
    /// As [`first`](View::first), [`WrongKeyType`](crate::Error::WrongKeyType).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// use everleaf::Scan;
    ///
    /// store.put_many([("ash", ""), ("beech", ""), ("birch", "")])?;
    /// assert_eq!(store.count_in(Scan::all().with_prefix("b"))?, 2);
    /// assert_eq!(store.count_in("ash".."birch")?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn count_in(&self, scan: impl Into<Scan>) -> Result<u64> {
        self.handle().count_in(scan.into())
    }

    /// All entries in key order. What is promised beside writers is said at [`Range`].
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// store.put_many([("ash", "1"), ("oak", "2")])?;
    /// for entry in store.iter().rev() {
    ///     let (key, value) = entry?;
    ///     println!("{key}: {}", value.escape_ascii());
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn iter(&self) -> Range<'_> {
        self.scan(Scan::all())
    }

    /// All keys in order. Their values are not copied, so that it costs the same whatever their
    /// length.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// store.put_many([("ash", "1"), ("oak", "2")])?;
    /// let keys = store.keys().rev().collect::<everleaf::Result<Vec<_>>>()?;
    /// assert_eq!(keys, ["oak", "ash"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn keys(&self) -> Keys<'_> {
        self.keys_in(Scan::all())
    }

    /// The keys that `scan` describes, as [`keys`](View::keys).
    pub fn keys_in(&self, scan: impl Into<Scan>) -> Keys<'_> {
        Keys(self.scan(scan).without_values())
    }

    /// The entries whose keys lie in a range, in key order. A range that is empty or upside down
    /// has no entries.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// for name in ["ash", "beech", "birch", "cedar"] {
    ///     store.put(name, "")?;
    /// }
    /// let keys = store.range("b".."c").map(|entry| entry.map(|(key, _)| key));
    /// let names = keys.collect::<everleaf::Result<Vec<_>>>()?;
    /// assert_eq!(names, ["beech", "birch"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn range(&self, range: impl KeyRange) -> Range<'_> {
        self.scan(Scan::of(range))
    }

    /// The entries whose keys begin with `prefix`, in key order (byte-string keys only).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// store.put_many([("ash", ""), ("beech", ""), ("birch", "")])?;
    /// assert_eq!(store.prefix("b").count(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range<'_> {
        self.scan(Scan::all().with_prefix(prefix))
    }

    /// The entries that `scan` describes. Keys of the wrong kind in it are the iterator's first
    /// item.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// use everleaf::Scan;
    ///
    /// store.put_many([("ash", ""), ("beech", ""), ("birch", "")])?;
    /// let last = store.scan(Scan::all().ending_before("birch").backward()).next().transpose()?;
    /// assert_eq!(last.map(|(key, _)| key), Some("beech".into()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn scan(&self, scan: impl Into<Scan>) -> Range<'_> {
        self.handle().scan(scan.into())
    }

    /// Shows the entries that `scan` describes to `visit` where they lie, without a copy, until it
    /// breaks. It costs a third of what an iterator costs, which has to keep what it hands out.
    /// Writers of the keys that are next to the one that is shown wait meanwhile, and so do
    /// batches: `visit` should be quick, and must not call the store, neither to write nor to read:
    /// what it calls gives [`WithinClosure`](crate::Error::WithinClosure). What is promised beside
    /// writers is said at [`Range`]; a batch is seen wholly or not at all by the whole call. Of a
    /// snapshot, and on an engine that is durable at the ends of epochs (`masstree`), entries are
    /// copied, and fetched in steps as by an iterator: no callback keeps an epoch from ending. Of a
    /// pool with a log, `visit` may be shown what is not durable before this call has returned.
    ///
    /// # Errors
    /// As [`first`](View::first), [`WrongKeyType`](crate::Error::WrongKeyType).
    ///
    /// # Examples
    /// ```
    /// use std::ops::ControlFlow;
    /// use everleaf::Scan;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// store.put_many([("ash", "a"), ("beech", "bb"), ("birch", "ccc")])?;
    /// let mut bytes = 0;
    /// store.scan_with(Scan::all().with_prefix("b"), |_key, value| {
    ///     bytes += value.len();
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert_eq!(bytes, 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn scan_with(
        &self,
        scan: impl Into<Scan>,
        visit: impl FnMut(Key<'_>, &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        self.handle().scan_with(scan.into(), visit)
    }
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
