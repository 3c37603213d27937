//! Writing: a tree, which is an ordered map of its own within a store.

use std::fmt;
use std::ops::Deref;
use std::time::{Duration, SystemTime};

use everleaf_index::Direction;

use crate::batch::{Batch, in_batches};
use crate::core::value::Expiry;
use crate::handle::Handle;
use crate::typed::TreeEntry;
use crate::view::View;
use crate::{
    AsKey, Entry, Error, Key, KeyRange, OrderedKey, OwnedKey, Range, Result, Scan, StoredValue,
};

/// An ordered map in a [`Store`](crate::Store): the store's own
/// ([`Store::default_tree`](crate::Store::default_tree)), or a [named](crate::Store::tree) one.
///
/// `Tree` alone takes anything that is a [key](AsKey) and bytes as values, and gives [`OwnedKey`]s
/// and `Vec<u8>`s. `Tree<K, V>` has keys and values of its own types, in their own order: see
/// [`Store::typed_tree`](crate::Store::typed_tree).
///
/// All methods may be called from several threads, and clones of a tree are the same tree. With a
/// concurrent engine, which is the default, writers of different keys do not wait for each other;
/// with another one they take turns at its index.
///
/// Every write is durable when it returns, as far as
/// [`Statistics::durability`](crate::Statistics::durability) says, and a write that is cut by a
/// crash has happened wholly or not at all.
pub struct Tree<K = OwnedKey, V = Vec<u8>> {
    view: View<K, V>,
}

impl<K, V> Tree<K, V> {
    pub(crate) fn over(handle: Handle) -> Self {
        Self { view: View::new(handle) }
    }

    /// What can be read of it, without the right to write.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// fn longest(view: &everleaf::View) -> everleaf::Result<usize> {
    ///     view.iter().try_fold(0, |longest, entry| Ok(longest.max(entry?.1.len())))
    /// }
    /// store.put("key", "value")?;
    /// assert_eq!(longest(&store.view())?, 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn view(&self) -> View<K, V> {
        self.view.clone()
    }

    /// The same tree without types.
    pub fn untyped(&self) -> Tree {
        Tree::over(self.handle().clone())
    }

    /// The same tree with keys and values of types. Whether what is in it has these types is found
    /// when it is read: what [`Store::typed_tree`](crate::Store::typed_tree) has recorded of its
    /// types is not looked at, and nothing is recorded.
    ///
    /// # Errors
    /// [`Error::WrongKeyType`]: keys of type `u64` need a tree of `u64` keys, all others one of
    /// byte strings.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// let names = store.default_tree().typed::<String, String>()?;
    /// names.put("ann", "Ann Smith")?;
    /// assert_eq!(names.get("ann")?, Some("Ann Smith".to_owned()));
    /// assert!(store.default_tree().typed::<u64, String>().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn typed<L: OrderedKey, W: StoredValue>(&self) -> Result<Tree<L, W>> {
        match self.handle().key_type() {
            key_type if key_type == L::KEY_TYPE => Ok(Tree::over(self.handle().clone())),
            expected => Err(Error::WrongKeyType { expected }),
        }
    }

    /// The same tree, whose writes let values expire so, in the same step: [`Expiry::After`] and
    /// [`Expiry::At`] set an expiry, [`Expiry::Kept`] keeps the one that is there, and
    /// [`Expiry::Never`] clears it. So do those of batches and transactions that are
    /// [on](Batch::on) it. Else `compare_and_swap`, `update` and `entry` keep the expiry, and the
    /// other writes clear it. What says it by itself (`put_for`, `touch`, ...) does so here too.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// use everleaf::Expiry;
    /// use std::time::Duration;
    ///
    /// // Whoever stores the key has the lock, for a minute at most.
    /// let locks = store.with_expiry(Expiry::After(Duration::from_secs(60)));
    /// assert!(locks.put_if_absent("lock", "ann")?);
    /// assert!(!locks.put_if_absent("lock", "bob")?);
    /// assert!(locks.compare_and_swap("lock", Some(b"ann"), Some(b"ann"))?, "a minute more");
    /// store.with_expiry(Expiry::Kept).put("lock", "ann, of room 7")?;
    /// assert!(store.ttl("lock")?.flatten().is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_expiry(&self, expiry: Expiry) -> Self {
        Self::over(self.handle().with_expiry(expiry))
    }

    /// Removes every entry of the store's own tree, and of no other. Returns how many there were.
    /// As [`delete_range`](Tree::delete_range): a crash on the way leaves the rest.
    ///
    /// # Errors
    /// As [`delete`](Tree::delete).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// store.put("key", "value")?;
    /// store.tree("words")?.put("leaf", "a blade of a plant")?;
    /// assert_eq!(store.clear()?, 1);
    /// assert_eq!((store.len()?, store.tree("words")?.len()?), (0, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clear(&self) -> Result<u64> {
        self.handle().delete_in(Scan::all())
    }
}

/// Writing, of a tree whose keys and values have no types.
impl Tree {
    /// A batch of writes, which happen together or not at all when it is committed.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// let mut batch = store.batch();
    /// batch.put("alice", "70")?;
    /// batch.put_if_absent("bob", "30")?;
    /// assert_eq!(batch.commit()?, [true, true]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn batch(&self) -> Batch {
        Batch::new(self.handle().clone())
    }

    /// Stores `value` under `key`, in place of the value that it may have; true if it had one. The
    /// old value is there until the new one is, at any crash point. Cost: one flush for each line
    /// of the value, and with `fptree` at most 4 more flushes and 2 fences; values of a chunk (4
    /// KiB) and more, and splits, cost more.
    ///
    /// # Errors
    /// [`is_full`](crate::Error::is_full), [`WrongKeyType`](crate::Error::WrongKeyType),
    /// [`ValueTooLong`](crate::Error::ValueTooLong), [`ReadOnly`](crate::Error::ReadOnly), a key of
    /// more than 64 KiB, damage.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// assert!(!store.put("key", "value")?);
    /// assert!(store.put("key", "another")?, "replaced");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn put(&self, key: impl AsKey, value: impl AsRef<[u8]>) -> Result<bool> {
        self.handle().put(key.as_key(), value.as_ref(), None)
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
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// use std::time::{Duration, SystemTime};
    ///
    /// store.put_until("token", "4711", SystemTime::now() + Duration::from_secs(3600))?;
    /// assert!(store.contains_key("token")?);
    /// store.put_until("token", "4712", SystemTime::UNIX_EPOCH)?;
    /// assert!(!store.contains_key("token")?, "it has expired");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn put_until(
        &self,
        key: impl AsKey,
        value: impl AsRef<[u8]>,
        expires: SystemTime,
    ) -> Result<bool> {
        self.handle().put(key.as_key(), value.as_ref(), Some(Expiry::At(expires)))
    }

    /// As [`put_until`](Tree::put_until), for this long from now on.
    ///
    /// # Errors
    /// As [`put`](Tree::put).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// use std::time::Duration;
    ///
    /// store.put_for("session", "of user 7", Duration::from_secs(1800))?;
    /// assert!(store.expiry("session")?.is_some_and(|expires| expires.is_some()));
    /// store.put("session", "of user 7")?;
    /// assert_eq!(store.expiry("session")?, Some(None), "a write without a life ends the expiry");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn put_for(&self, key: impl AsKey, value: impl AsRef<[u8]>, ttl: Duration) -> Result<bool> {
        self.handle().put(key.as_key(), value.as_ref(), Some(Expiry::After(ttl)))
    }

    /// Lets the value of `key` live for this long from now on, whatever expiry it had; false if the
    /// key is absent. The value is written once more, as by [`put`](Tree::put).
    ///
    /// # Errors
    /// As [`put`](Tree::put).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// use std::time::Duration;
    ///
    /// let half_an_hour = Duration::from_secs(1800);
    /// store.put_for("session", "of user 7", half_an_hour)?;
    /// assert!(store.touch("session", half_an_hour)?, "it slides");
    /// assert!(!store.touch("nothing", half_an_hour)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn touch(&self, key: impl AsKey, ttl: Duration) -> Result<bool> {
        self.handle().touch(key.as_key(), Expiry::After(ttl))
    }

    /// Lets the value of `key` stay for ever; false if the key is absent. Cost as
    /// [`touch`](Tree::touch).
    ///
    /// # Errors
    /// As [`put`](Tree::put).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// store.put_for("draft", "a letter", std::time::Duration::from_secs(60))?;
    /// assert!(store.persist("draft")?);
    /// assert_eq!(store.ttl("draft")?, Some(None));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn persist(&self, key: impl AsKey) -> Result<bool> {
        self.handle().touch(key.as_key(), Expiry::Never)
    }

    /// As [`put`](Tree::put), and returns a copy of the value that was replaced.
    ///
    /// # Errors
    /// As [`put`](Tree::put).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// assert_eq!(store.insert("key", "value")?, None);
    /// assert_eq!(store.insert("key", "another")?, Some(b"value".to_vec()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn insert(&self, key: impl AsKey, value: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.handle().exchange(key.as_key(), Some(value.as_ref()))
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
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// assert!(store.put_if_absent("key", "first")?);
    /// assert!(!store.put_if_absent("key", "second")?);
    /// assert_eq!(store.get("key")?.as_deref(), Some(&b"first"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn put_if_absent(&self, key: impl AsKey, value: impl AsRef<[u8]>) -> Result<bool> {
        self.handle().put_if(key.as_key(), value.as_ref(), false)
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
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// assert!(!store.replace("key", "value")?);
    /// assert!(!store.contains_key("key")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn replace(&self, key: impl AsKey, value: impl AsRef<[u8]>) -> Result<bool> {
        self.handle().put_if(key.as_key(), value.as_ref(), true)
    }

    /// Compare and swap: makes `new` the value of `key` (or removes it, where that is none) if its
    /// value is `expected` (or it is absent, where that is none). False, and nothing changed, if
    /// not. Of several threads that expect the same, one succeeds. The new value expires when the
    /// old one would have.
    ///
    /// # Errors
    /// As [`put`](Tree::put).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// assert!(store.compare_and_swap("count", None, Some(b"1"))?);
    /// assert!(store.compare_and_swap("count", Some(b"1"), Some(b"2"))?);
    /// assert!(!store.compare_and_swap("count", Some(b"1"), Some(b"2"))?, "it is 2 by now");
    /// assert!(store.compare_and_swap("count", Some(b"2"), None)?);
    /// assert!(!store.contains_key("count")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn compare_and_swap(
        &self,
        key: impl AsKey,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        self.handle().compare_and_swap(key.as_key(), expected, new)
    }

    /// Changes the value of `key` in place: `change` is given the value, or none if the key is
    /// absent, and returns the new one, or none to remove the key. Returns the result of `change`.
    /// The new value expires when the old one would have.
    ///
    /// No other write comes in between: if one did, `change` runs again with the value that is then
    /// there. It holds no lock, so it may call the store.
    ///
    /// # Errors
    /// As [`put`](Tree::put).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// let count = |old: Option<&[u8]>| {
    ///     let old = old.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
    ///     Some((old + 1).to_le_bytes())
    /// };
    /// store.update("visits", count)?;
    /// store.update("visits", count)?;
    /// assert_eq!(store.get("visits")?, Some(2u64.to_le_bytes().to_vec()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn update<N: Into<Vec<u8>>>(
        &self,
        key: impl AsKey,
        mut change: impl FnMut(Option<&[u8]>) -> Option<N>,
    ) -> Result<Option<Vec<u8>>> {
        self.handle().update(key.as_key(), &mut |old| Ok(change(old).map(N::into)))
    }

    /// Removes `key` and returns its value.
    ///
    /// # Errors
    /// As [`delete`](Tree::delete).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// store.put("key", "value")?;
    /// assert_eq!(store.remove("key")?.as_deref(), Some(&b"value"[..]));
    /// assert_eq!(store.remove("key")?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn remove(&self, key: impl AsKey) -> Result<Option<Vec<u8>>> {
        self.handle().exchange(key.as_key(), None)
    }

    /// Removes `key` and its value; false if it is absent. Cost with `fptree`: 3 flushes, 2 fences.
    ///
    /// # Errors
    /// [`WrongKeyType`](crate::Error::WrongKeyType), [`ReadOnly`](crate::Error::ReadOnly), a key of
    /// more than 64 KiB, damage.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// store.put("key", "value")?;
    /// assert!(store.delete("key")?);
    /// assert!(!store.delete("key")?, "it is gone");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn delete(&self, key: impl AsKey) -> Result<bool> {
        self.handle().delete(key.as_key())
    }

    /// Stores many values, all or none: a [`batch`](Tree::batch) of puts.
    ///
    /// # Errors
    /// As [`Batch::commit`].
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// store.put_many([("ash", "Fraxinus"), ("oak", "Quercus")])?;
    /// assert_eq!(store.len()?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn put_many<K: AsKey, V: AsRef<[u8]>>(
        &self,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<()> {
        let mut batch = self.batch();
        batch.extend(entries)?;
        batch.commit().map(drop)
    }

    /// Stores many values in batches of up to 1,024 entries or about 1 MiB, each of them all or
    /// none, and durable before the next one begins: a crash or an error leaves the entries of a
    /// beginning of the iterator. It takes as little memory for an endless iterator as for a short
    /// one; on a disk there is one sync for each batch.
    ///
    /// # Errors
    /// As [`put`](Tree::put) and [`Batch::commit`].
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// use std::collections::BTreeMap;
    ///
    /// let map = BTreeMap::from([("ash", "Fraxinus"), ("oak", "Quercus")]);
    /// store.extend(&map)?;
    /// assert_eq!(store.len()?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn extend<K: AsKey, V: AsRef<[u8]>>(
        &self,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<()> {
        in_batches(self.handle(), entries, |batch, (key, value)| batch.put(key, value).map(drop))
    }

    /// A key, whose value is read and written in one step, as a map's `entry` does: what
    /// [`TreeEntry::or_insert`] and the others do is atomic, and durable when they return. Nothing
    /// is read or locked before.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// assert_eq!(store.entry("name").or_insert("ann")?, b"ann");
    /// assert_eq!(store.entry("name").or_insert("bob")?, b"ann", "it was there");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn entry<K: AsKey>(&self, key: K) -> TreeEntry<'_, K> {
        TreeEntry::new(self.handle(), key.as_key().to_owned(), key)
    }

    /// Removes and returns the entry with the smallest key. Concurrent callers never receive the
    /// same entry. While others write, the entry was the smallest at some moment of the call.
    ///
    /// # Errors
    /// As [`delete`](Tree::delete).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// store.put_many([("1", "eat"), ("2", "sleep")])?;
    /// assert_eq!(store.pop_first()?, Some(("1".into(), b"eat".to_vec())));
    /// assert_eq!(store.pop_last()?, Some(("2".into(), b"sleep".to_vec())));
    /// assert_eq!(store.pop_first()?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pop_first(&self) -> Result<Option<Entry>> {
        self.handle().pop(Direction::Forward)
    }

    /// Removes and returns the entry with the greatest key; as [`pop_first`](Tree::pop_first).
    ///
    /// # Errors
    /// As [`delete`](Tree::delete).
    pub fn pop_last(&self) -> Result<Option<Entry>> {
        self.handle().pop(Direction::Backward)
    }

    /// Removes each entry for which `keep` returns false, one by one. Returns how many were
    /// removed. An entry that another thread writes after `keep` has seen it stays.
    ///
    /// # Errors
    /// As [`delete`](Tree::delete).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// store.put_many([("ash", "1"), ("beech", ""), ("oak", "")])?;
    /// assert_eq!(store.retain(|_key, value| !value.is_empty())?, 2);
    /// assert_eq!(store.len()?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn retain(&self, mut keep: impl FnMut(Key<'_>, &[u8]) -> bool) -> Result<u64> {
        self.handle().retain(&mut |key, value| Ok(keep(key, value)))
    }

    /// Removes every entry whose key lies in a range. Returns how many there were. It goes from the
    /// least key to the greatest, up to 128 entries at a time, each time all or none (one at a time
    /// where the pool is too full for the log of a batch): a crash leaves the rest. Entries that
    /// others add meanwhile stay or go.
    ///
    /// # Errors
    /// As [`delete`](Tree::delete).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// store.put_many([("2024-12-30", ""), ("2024-12-31", ""), ("2025-01-01", "")])?;
    /// assert_eq!(store.delete_range(.."2025")?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn delete_range(&self, range: impl KeyRange) -> Result<u64> {
        self.delete_in(Scan::of(range))
    }

    /// As [`delete_range`](Tree::delete_range), for the entries that `scan` describes.
    ///
    /// # Errors
    /// Those of [`delete_range`](Tree::delete_range).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// use everleaf::Scan;
    ///
    /// store.put_many([("a/1", ""), ("a/2", ""), ("b/1", "")])?;
    /// assert_eq!(store.delete_in(Scan::all().with_prefix("a/"))?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn delete_in(&self, scan: impl Into<Scan>) -> Result<u64> {
        self.handle().delete_in(scan.into())
    }
}

impl<'t> IntoIterator for &'t Tree {
    type Item = Result<Entry>;
    type IntoIter = Range<'t>;

    fn into_iter(self) -> Range<'t> {
        self.iter()
    }
}

/// Reading: a tree is a [`View`] that can be written.
impl<K, V> Deref for Tree<K, V> {
    type Target = View<K, V>;

    fn deref(&self) -> &View<K, V> {
        &self.view
    }
}

impl<K, V> Clone for Tree<K, V> {
    fn clone(&self) -> Self {
        Self::over(self.handle().clone())
    }
}

impl<K, V> fmt::Debug for Tree<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree").field("key_type", &self.handle().key_type()).finish_non_exhaustive()
    }
}
