//! Writing: a tree, which is an ordered map of its own within a store.

use std::ops::{Deref, RangeBounds};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use everleaf_index::Direction;

use crate::backend::{Backend, Condition, NewValue, Written};
use crate::batch::{Batch, Kind, Write};
use crate::clock::to_ms;
use crate::error::check_value;
use crate::keyspace::Space;
use crate::life::Life;
use crate::scan::{BATCH_ENTRIES, Entry};
use crate::view::View;
use crate::{Error, Key, OwnedKey, Scan};

/// An ordered map from keys to byte values: the store itself, or one of its [named
/// trees](crate::Store::tree). It reads as a [`View`] does. All methods may be called from several
/// threads. With a concurrent engine, which is the default, writers of different keys do not wait
/// for each other; with another one they take turns at its index.
///
/// Every write is durable when it returns, as far as
/// [`Statistics::durability`](crate::Statistics::durability) says, and a write that is cut by a
/// crash has happened wholly or not at all.
#[derive(Clone, Debug)]
pub struct Tree {
    view: View,
}

impl Tree {
    pub(crate) fn new(backend: Arc<dyn Backend>, space: Space, life: Life) -> Self {
        Self { view: View::new(backend, space, life, None) }
    }

    /// What can be read of it, without the right to write.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// fn longest(view: &everleaf::View) -> Result<usize, everleaf::Error> {
    ///     view.iter().try_fold(0, |longest, entry| Ok(longest.max(entry?.1.len())))
    /// }
    /// store.put("key", b"value")?;
    /// assert_eq!(longest(&store.view())?, 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn view(&self) -> View {
        self.view.clone()
    }

    fn write(
        &self,
        key: Key<'_>,
        condition: Condition<'_>,
        new: Option<NewValue<'_>>,
    ) -> Result<Written, Error> {
        if let Some(new) = new {
            check_value(new.value)?;
        }
        let (view, key) = (&self.view, self.view.space().encode(key)?);
        view.backend().write(view.life(), key.as_key(), condition, new)
    }

    /// Stores `value` under `key`, in place of the value that it may have; true if it had one. The
    /// old value is there until the new one is, at any crash point. Cost: one flush for each line
    /// of the value, and with `fptree` 5 more flushes and 4 fences for a new `u64` key, 5 and 4 to
    /// replace.
    ///
    /// # Errors
    /// [`Error::is_full`], [`Error::WrongKeyType`], [`Error::ValueTooLong`], [`Error::ReadOnly`], a
    /// key of more than 64 KiB, damage.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// assert!(!store.put("key", b"value")?);
    /// assert!(store.put("key", b"another")?, "replaced");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn put<'k>(&self, key: impl Into<Key<'k>>, value: &[u8]) -> Result<bool, Error> {
        Ok(self
            .write(key.into(), Condition::Always, Some(NewValue { value, expires_ms: None }))?
            .was_present)
    }

    /// Stores `value` under `key` until a moment: from then on the key is absent, and its room is
    /// given back when it is written the next time or by
    /// [`remove_expired`](crate::Store::remove_expired). True if it had a value.
    ///
    /// # Errors
    /// As [`put`](Tree::put).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// use std::time::{Duration, SystemTime};
    ///
    /// store.put_until("token", b"4711", SystemTime::now() + Duration::from_secs(3600))?;
    /// assert!(store.contains("token")?);
    /// store.put_until("token", b"4712", SystemTime::UNIX_EPOCH)?;
    /// assert!(!store.contains("token")?, "it has expired");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn put_until<'k>(
        &self,
        key: impl Into<Key<'k>>,
        value: &[u8],
        expires: SystemTime,
    ) -> Result<bool, Error> {
        let new = NewValue { value, expires_ms: Some(to_ms(expires)) };
        Ok(self.write(key.into(), Condition::Always, Some(new))?.was_present)
    }

    /// As [`put_until`](Tree::put_until), for so long from now on.
    ///
    /// # Errors
    /// As [`put`](Tree::put).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// use std::time::Duration;
    ///
    /// store.put_for("session", b"of user 7", Duration::from_secs(1800))?;
    /// assert!(store.expiry("session")?.is_some_and(|expires| expires.is_some()));
    /// store.put("session", b"of user 7")?;
    /// assert_eq!(store.expiry("session")?, Some(None), "a write without a life ends the expiry");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn put_for<'k>(
        &self,
        key: impl Into<Key<'k>>,
        value: &[u8],
        life: Duration,
    ) -> Result<bool, Error> {
        let life_ms = u64::try_from(life.as_millis()).unwrap_or(u64::MAX);
        let new = NewValue {
            value,
            expires_ms: Some(self.view.backend().now_ms().saturating_add(life_ms)),
        };
        Ok(self.write(key.into(), Condition::Always, Some(new))?.was_present)
    }

    /// Stores `value` under `key` if the key is absent; false, and nothing changed, if it is
    /// present.
    ///
    /// # Errors
    /// As [`put`](Tree::put).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// assert!(store.insert("key", b"first")?);
    /// assert!(!store.insert("key", b"second")?);
    /// assert_eq!(store.get("key")?.as_deref(), Some(&b"first"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn insert<'k>(&self, key: impl Into<Key<'k>>, value: &[u8]) -> Result<bool, Error> {
        Ok(self
            .write(key.into(), Condition::Absent, Some(NewValue { value, expires_ms: None }))?
            .done)
    }

    /// Stores `value` under `key` if the key is present; false, and nothing changed, if it is
    /// absent.
    ///
    /// # Errors
    /// As [`put`](Tree::put).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// assert!(!store.update("key", b"value")?);
    /// assert!(!store.contains("key")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn update<'k>(&self, key: impl Into<Key<'k>>, value: &[u8]) -> Result<bool, Error> {
        Ok(self
            .write(key.into(), Condition::Present, Some(NewValue { value, expires_ms: None }))?
            .done)
    }

    /// Compare and swap: makes `new` the value of `key` (or removes it, where that is none) if its
    /// value is `expected` (or it is absent, where that is none). False, and nothing changed, if
    /// not. Of several threads that expect the same, one succeeds.
    ///
    /// # Errors
    /// As [`put`](Tree::put).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// assert!(store.compare_and_swap("count", None, Some(b"1"))?);
    /// assert!(store.compare_and_swap("count", Some(b"1"), Some(b"2"))?);
    /// assert!(!store.compare_and_swap("count", Some(b"1"), Some(b"2"))?, "it is 2 by now");
    /// assert!(store.compare_and_swap("count", Some(b"2"), None)?);
    /// assert!(!store.contains("count")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn compare_and_swap<'k>(
        &self,
        key: impl Into<Key<'k>>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool, Error> {
        let new = new.map(|value| NewValue { value, expires_ms: None });
        Ok(self.write(key.into(), Condition::If(&mut |value| value == expected), new)?.done)
    }

    /// Removes `key` and its value; false if it is absent. Cost with `fptree` and a `u64` key: 4
    /// flushes, 4 fences.
    ///
    /// # Errors
    /// [`Error::WrongKeyType`], [`Error::ReadOnly`], a key of more than 64 KiB, damage.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// store.put("key", b"value")?;
    /// assert!(store.delete("key")?);
    /// assert!(!store.delete("key")?, "it is gone");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn delete<'k>(&self, key: impl Into<Key<'k>>) -> Result<bool, Error> {
        Ok(self.write(key.into(), Condition::Always, None)?.was_present)
    }

    /// Removes `key` and gives its value.
    ///
    /// # Errors
    /// As [`delete`](Tree::delete).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// store.put("key", b"value")?;
    /// assert_eq!(store.take("key")?.as_deref(), Some(&b"value"[..]));
    /// assert_eq!(store.take("key")?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn take<'k>(&self, key: impl Into<Key<'k>>) -> Result<Option<Vec<u8>>, Error> {
        let mut taken = None;
        let condition = &mut |value: Option<&[u8]>| {
            taken = value.map(<[u8]>::to_vec);
            taken.is_some()
        };
        self.write(key.into(), Condition::If(condition), None)?;
        Ok(taken)
    }

    // ---- many keys
    // ---------------------------------------------------------------------------------------------

    /// A batch of writes, which happen together or not at all when it is committed.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// let mut batch = store.batch();
    /// batch.put("alice", b"70")?;
    /// batch.insert("bob", b"30")?;
    /// assert_eq!(batch.commit()?, [true, true]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn batch(&self) -> Batch {
        Batch::new(Arc::clone(self.view.backend()), self.view.space(), self.view.life().clone())
    }

    /// Stores many values, all or none: a [`batch`](Tree::batch) of puts.
    ///
    /// # Errors
    /// As [`Batch::commit`].
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// store.put_many([("ash", "Fraxinus"), ("oak", "Quercus")])?;
    /// assert_eq!(store.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn put_many<'k, K: Into<Key<'k>>, V: AsRef<[u8]>>(
        &self,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<(), Error> {
        let mut batch = self.batch();
        entries.into_iter().try_for_each(|(key, value)| batch.put(key, value.as_ref()))?;
        batch.commit().map(drop)
    }

    /// Removes the entry with the least key and gives it. Of several threads each gets another one.
    /// Beside writers the entry was the least at some moment of the call.
    ///
    /// # Errors
    /// As [`delete`](Tree::delete).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// store.put_many([("1", "eat"), ("2", "sleep")])?;
    /// assert_eq!(store.pop_first()?, Some(("1".into(), b"eat".to_vec())));
    /// assert_eq!(store.pop_last()?, Some(("2".into(), b"sleep".to_vec())));
    /// assert_eq!(store.pop_first()?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pop_first(&self) -> Result<Option<Entry>, Error> {
        self.pop(Direction::Forward)
    }

    /// Removes the entry with the greatest key and gives it; as [`pop_first`](Tree::pop_first).
    ///
    /// # Errors
    /// As [`delete`](Tree::delete).
    pub fn pop_last(&self) -> Result<Option<Entry>, Error> {
        self.pop(Direction::Backward)
    }

    fn pop(&self, end: Direction) -> Result<Option<Entry>, Error> {
        loop {
            let found = if end == Direction::Forward { self.first()? } else { self.last()? };
            let Some((key, _)) = found else { return Ok(None) };
            if let Some(value) = self.take(&key)? {
                return Ok(Some((key, value)));
            }
        }
    }

    /// Removes every entry whose key lies in a range; how many there were. It goes from the least
    /// key to the greatest, up to 128 entries at a time, each time all or none (one at a time where
    /// the pool is too full for the log of a batch): a crash leaves the rest. Entries that others
    /// add meanwhile stay or go.
    ///
    /// # Errors
    /// As [`delete`](Tree::delete).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// store.put_many([("2024-12-30", ""), ("2024-12-31", ""), ("2025-01-01", "")])?;
    /// assert_eq!(store.delete_range(.."2025")?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn delete_range<K: Clone + Into<OwnedKey>>(
        &self,
        range: impl RangeBounds<K>,
    ) -> Result<u64, Error> {
        self.delete_in(Scan::of(range))
    }

    /// As [`delete_range`](Tree::delete_range), for the entries that `scan` describes.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// use everleaf::Scan;
    ///
    /// store.put_many([("a/1", ""), ("a/2", ""), ("b/1", "")])?;
    /// assert_eq!(store.delete_in(Scan::all().with_prefix("a/"))?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn delete_in(&self, scan: Scan) -> Result<u64, Error> {
        let direction = scan.direction;
        let mut cursor = self.view.cursor(scan)?.with_expired();
        let mut removed = 0;
        while !cursor.exhausted {
            let removal = |key| Write {
                life: self.view.life().clone(),
                key,
                kind: Kind::Delete,
                value: Box::default(),
                expires_ms: None,
            };
            let writes: Vec<Write> = cursor
                .fetch(direction, BATCH_ENTRIES)?
                .into_iter()
                .map(|e| removal(e.key))
                .collect();
            removed += self.remove_all(&writes)?;
        }
        Ok(removed)
    }

    /// As a batch where there is room for its log, else one by one.
    pub(crate) fn remove_all(&self, writes: &[Write]) -> Result<u64, Error> {
        let backend = self.view.backend();
        let count = |written: &[Written]| {
            written.iter().filter(|written| written.was_present).count() as u64
        };
        match backend.apply(writes) {
            Ok(written) => Ok(count(&written)),
            Err(error) if error.is_full() => {
                let one = |write: &Write| {
                    backend.write(&write.life, write.key.as_ref(), Condition::Always, None)
                };
                Ok(count(&writes.iter().map(one).collect::<Result<Vec<_>, _>>()?))
            }
            Err(error) => Err(error),
        }
    }
}

impl Deref for Tree {
    type Target = View;
    fn deref(&self) -> &View {
        &self.view
    }
}

impl<'t> IntoIterator for &'t Tree {
    type Item = Result<Entry, Error>;
    type IntoIter = crate::Range<'t>;

    fn into_iter(self) -> crate::Range<'t> {
        self.view.iter()
    }
}
