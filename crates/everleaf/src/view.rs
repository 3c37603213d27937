//! Reading: a store, a tree, or either as it was when a snapshot began.

use std::fmt;
use std::ops::{Bound, ControlFlow, RangeBounds};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use everleaf_index::Direction;
use everleaf_pool::KeyType;

use crate::backend::{Backend, Found};
use crate::keyspace::{Encoded, Space};
use crate::life::Life;
use crate::scan::{BATCH_ENTRIES, Cursor, Entry, Fetched, borrowed, passes};
use crate::snapshot::Images;
use crate::{Error, Key, OwnedKey, Range, Scan};

/// What can be read: an ordered map from keys to byte values. A [`Store`](crate::Store), a
/// [`Tree`](crate::Tree) and a [`Snapshot`](crate::Snapshot) are views.
///
/// A get sees the value of its key that was written last, and never one that a crash can still
/// undo. Readers do not wait for writers of other keys. What iterators promise is said at
/// [`Range`].
#[derive(Clone)]
pub struct View {
    backend: Arc<dyn Backend>,
    space: Space,
    life: Life,
    /// The snapshot that is read; none: what is there now.
    images: Option<Arc<Images>>,
}

impl View {
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        space: Space,
        life: Life,
        images: Option<Arc<Images>>,
    ) -> Self {
        Self { backend, space, life, images }
    }

    pub(crate) fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    pub(crate) fn space(&self) -> Space {
        self.space
    }

    pub(crate) fn life(&self) -> &Life {
        &self.life
    }

    /// The kind of keys.
    pub fn key_type(&self) -> KeyType {
        self.space.key_type()
    }

    // ---- one key
    // ---------------------------------------------------------------------------------------------

    /// A copy of the value of `key`.
    ///
    /// # Errors
    /// [`Error::WrongKeyType`], a key of more than 64 KiB, damage, [`Error::SnapshotLost`].
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// store.put("key", b"value")?;
    /// assert_eq!(store.get("key")?.as_deref(), Some(&b"value"[..]));
    /// assert_eq!(store.get("nothing")?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get<'k>(&self, key: impl Into<Key<'k>>) -> Result<Option<Vec<u8>>, Error> {
        self.get_with(key, <[u8]>::to_vec)
    }

    /// Shows the value of `key` to `show` where it lies, without a copy, and returns what `show`
    /// returns. Writers of this key (and of some others, which share its lock) wait until `show`
    /// returns, so it must not call the store: a write would wait for itself, a read for a writer
    /// that waits. A snapshot shows a copy, and keeps no writer waiting.
    ///
    /// # Errors
    /// As [`get`](View::get).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// store.put("key", b"value")?;
    /// assert_eq!(store.get_with("key", |value| value.len())?, Some(5));
    /// assert_eq!(store.get_with("nothing", |value| value.len())?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get_with<'k, R>(
        &self,
        key: impl Into<Key<'k>>,
        show: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, Error> {
        let (mut show, mut result) = (Some(show), None);
        self.find(key.into(), &mut |found| result = show.take().map(|show| show(found.value)))?;
        Ok(result)
    }

    /// Whether `key` is present. Its value is not read beyond its first line.
    ///
    /// # Errors
    /// As [`get`](View::get).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// store.put("key", b"")?;
    /// assert!(store.contains("key")? && !store.contains("nothing")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn contains<'k>(&self, key: impl Into<Key<'k>>) -> Result<bool, Error> {
        self.find(key.into(), &mut |_| {})
    }

    /// When the value of `key` expires; none if it does not. None at all if the key is absent.
    ///
    /// # Errors
    /// As [`get`](View::get).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// store.put("key", b"value")?;
    /// assert_eq!(store.expiry("key")?, Some(None), "it stays");
    /// assert_eq!(store.expiry("nothing")?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn expiry<'k>(&self, key: impl Into<Key<'k>>) -> Result<Option<Option<SystemTime>>, Error> {
        let mut expiry = None;
        self.find(key.into(), &mut |found| {
            expiry = Some(found.expires_ms.map(|ms| UNIX_EPOCH + Duration::from_millis(ms)))
        })?;
        Ok(expiry)
    }

    fn find(&self, key: Key<'_>, show: &mut dyn FnMut(Found<'_>)) -> Result<bool, Error> {
        let key = self.space.encode(key)?;
        match &self.images {
            None => self.backend.get_with(&self.life, key.as_key(), show),
            Some(images) => {
                // A value that has expired by now is read from the index as absent, which a
                // snapshot must not believe.
                let mut found: Option<(Vec<u8>, Option<u64>)> = None;
                let key = key.as_key();
                let mut visit = |at: Key<'_>, here: Found<'_>| {
                    if at == key {
                        found = Some((here.value.to_vec(), here.expires_ms));
                    }
                    ControlFlow::Break(())
                };
                let from = Bound::Included(key);
                self.backend.scan(&self.life, from, Direction::Forward, true, &mut visit)?;
                let found = found
                    .as_ref()
                    .map(|(value, expires_ms)| Found { value, expires_ms: *expires_ms });
                images.prevail(key, found, show)
            }
        }
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
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// store.put("a", b"1")?;
    /// assert_eq!(store.get_many(["a", "b"])?, [Some(b"1".to_vec()), None]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get_many<'k, K: Into<Key<'k>>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Vec<u8>>>, Error> {
        if self.images.is_some() {
            return keys.into_iter().map(|key| self.get(key)).collect();
        }
        let encoded: Vec<Encoded<'k>> =
            keys.into_iter().map(|key| self.space.encode(key.into())).collect::<Result<_, _>>()?;
        let keys: Vec<Key<'_>> = encoded.iter().map(Encoded::as_key).collect();
        let mut values = vec![None; keys.len()];
        let mut copy = |at: usize, found: Found<'_>| values[at] = Some(found.value.to_vec());
        self.backend.get_many(&self.life, &keys, &mut copy)?;
        Ok(values)
    }

    // ---- ranges
    // ---------------------------------------------------------------------------------------------

    /// The entry with the least key.
    ///
    /// # Errors
    /// Damage, [`Error::SnapshotLost`].
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// store.put_many([("ash", "1"), ("oak", "2")])?;
    /// assert_eq!(store.first()?, Some(("ash".into(), b"1".to_vec())));
    /// assert_eq!(store.last()?, Some(("oak".into(), b"2".to_vec())));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn first(&self) -> Result<Option<Entry>, Error> {
        self.outermost(Direction::Forward)
    }

    /// The entry with the greatest key.
    ///
    /// # Errors
    /// As [`first`](View::first).
    pub fn last(&self) -> Result<Option<Entry>, Error> {
        self.outermost(Direction::Backward)
    }

    fn outermost(&self, end: Direction) -> Result<Option<Entry>, Error> {
        let fetched = self.cursor(Scan::all())?.fetch(end, 1)?;
        Ok(self.decode(fetched)?.into_iter().next())
    }

    /// Number of keys. Those whose values have expired count until they are removed, but not in a
    /// snapshot, which is counted by reading it.
    ///
    /// # Errors
    /// Damage, [`Error::Closed`], [`Error::SnapshotLost`].
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// store.put("key", b"")?;
    /// assert_eq!(store.count()?, 1);
    /// assert_eq!(store.tree("words")?.count()?, 0, "each tree has its own");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn count(&self) -> Result<u64, Error> {
        if self.images.is_some() {
            self.count_in(Scan::all())
        } else {
            self.backend.keys_in(&self.life, self.space)
        }
    }

    /// Number of entries that `scan` describes, found by reading them.
    ///
    /// # Errors
    /// As [`first`](View::first), [`Error::WrongKeyType`].
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// use everleaf::Scan;
    ///
    /// store.put_many([("ash", ""), ("beech", ""), ("birch", "")])?;
    /// assert_eq!(store.count_in(Scan::all().with_prefix("b"))?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn count_in(&self, scan: Scan) -> Result<u64, Error> {
        let direction = scan.direction;
        let mut cursor = self.cursor(scan)?;
        let mut count = 0;
        while !cursor.exhausted {
            count += cursor.fetch(direction, BATCH_ENTRIES)?.len() as u64;
        }
        Ok(count)
    }

    /// Number of keys, as [`count`](View::count); 0 where that cannot be told.
    pub fn len(&self) -> u64 {
        self.count().unwrap_or(0)
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All entries in key order. What is promised beside writers is said at [`Range`].
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// store.put_many([("ash", "1"), ("oak", "2")])?;
    /// for entry in store.iter().rev() {
    ///     let (key, value) = entry?;
    ///     println!("{}: {}", key.as_ref(), value.escape_ascii());
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn iter(&self) -> Range<'_> {
        self.scan(Scan::all())
    }

    /// The entries whose keys lie in a range, in key order. A range that is empty or upside down
    /// has no entries.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// for name in ["ash", "beech", "birch", "cedar"] {
    ///     store.put(name, b"")?;
    /// }
    /// let keys = store.range("b".."c").map(|entry| entry.map(|(key, _)| key));
    /// let names: Vec<_> = keys.collect::<Result<_, _>>()?;
    /// assert_eq!(names, ["beech".into(), "birch".into()]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn range<K: Clone + Into<OwnedKey>>(&self, range: impl RangeBounds<K>) -> Range<'_> {
        self.scan(Scan::of(range))
    }

    /// The entries whose keys begin with `prefix`, in key order (byte-string keys only).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
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
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// use everleaf::Scan;
    ///
    /// store.put_many([("ash", ""), ("beech", ""), ("birch", "")])?;
    /// let last = store.scan(Scan::all().ending_before("birch").backward()).next().transpose()?;
    /// assert_eq!(last.map(|(key, _)| key), Some("beech".into()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn scan(&self, scan: Scan) -> Range<'_> {
        Range::new(self, scan)
    }

    /// Shows the entries that `scan` describes to `visit` where they lie, without a copy, until it
    /// breaks. It costs a third of what an iterator costs, which has to keep what it hands out.
    /// Writers of the keys that are next to the one that is shown wait meanwhile, and so do
    /// batches: `visit` should be quick, and must not call the store, neither to write nor to read:
    /// it would wait for itself. What is promised beside writers is said at [`Range`]; of a
    /// snapshot entries are copied.
    ///
    /// # Errors
    /// As [`first`](View::first), [`Error::WrongKeyType`].
    ///
    /// # Examples
    /// ```
    /// use std::ops::ControlFlow;
    /// use everleaf::Scan;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
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
        scan: Scan,
        mut visit: impl FnMut(Key<'_>, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        if self.images.is_some() {
            for entry in self.scan(scan) {
                let (key, value) = entry?;
                if visit(key.as_ref(), &value).is_break() {
                    break;
                }
            }
            return Ok(());
        }
        let forward = scan.direction == Direction::Forward;
        let (direction, (lower, upper)) = (scan.direction, self.bounds_of(scan)?);
        let (start, stop) = if forward { (&lower, &upper) } else { (&upper, &lower) };
        let (mut previous, mut wrong) = (None, None);
        self.backend.scan(&self.life, borrowed(start), direction, false, &mut |key, found| {
            if !passes(stop, key, !forward) {
                return ControlFlow::Break(());
            }
            if !follows(&mut previous, key, forward) {
                wrong = Some("its keys are out of order");
                return ControlFlow::Break(());
            }
            let shown = self.space.show(key, |key| visit(key, found.value));
            shown.unwrap_or_else(|| {
                wrong = Some("a key belongs to no tree");
                ControlFlow::Break(())
            })
        })?;
        wrong.map_or(Ok(()), |what| Err(Error::corrupt(0, what)))
    }

    /// What `scan` describes, in keys of the index.
    fn bounds_of(&self, scan: Scan) -> Result<(Bound<OwnedKey>, Bound<OwnedKey>), Error> {
        let (lower, upper) = scan.bounds();
        Ok((
            self.space.encode_bound(lower.as_ref(), true)?,
            self.space.encode_bound(upper.as_ref(), false)?,
        ))
    }

    /// What `scan` describes, to be fetched.
    pub(crate) fn cursor(&self, scan: Scan) -> Result<Cursor, Error> {
        let (backend, life) = (Arc::clone(&self.backend), self.life.clone());
        Ok(Cursor::new(backend, life, self.images.clone(), self.bounds_of(scan)?))
    }

    /// Entries with keys of this view's space.
    pub(crate) fn decode(&self, fetched: Vec<Fetched>) -> Result<Vec<Entry>, Error> {
        let own = |entry: Fetched| {
            let key = self
                .space
                .decode_owned(entry.key)
                .ok_or_else(|| Error::corrupt(0, "a key belongs to no tree"))?;
            Ok((key, entry.value))
        };
        fetched.into_iter().map(own).collect()
    }
}

/// Whether a key comes behind the one before it, which it then takes the place of.
fn follows(previous: &mut Option<OwnedKey>, key: Key<'_>, forward: bool) -> bool {
    let onward = previous.as_ref().is_none_or(|before| {
        let order = key.cmp(&before.as_ref());
        if forward { order.is_gt() } else { order.is_lt() }
    });
    match (previous, key) {
        (Some(OwnedKey::U64(kept)), Key::U64(number)) => *kept = number,
        // Most keys of a tree have the same length: the place of the one before is taken without a
        // look for room.
        (Some(OwnedKey::Bytes(kept)), Key::Bytes(bytes)) if kept.len() == bytes.len() => {
            kept.copy_from_slice(bytes)
        }
        (previous, key) => *previous = Some(key.to_owned()),
    }
    onward
}

impl<'v> IntoIterator for &'v View {
    type Item = Result<Entry, Error>;
    type IntoIter = Range<'v>;

    fn into_iter(self) -> Range<'v> {
        self.iter()
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View")
            .field("key_type", &self.key_type())
            .field("snapshot", &self.images.is_some())
            .finish_non_exhaustive()
    }
}
