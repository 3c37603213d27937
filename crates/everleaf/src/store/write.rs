//! Writing to a store's own tree.

use std::time::{Duration, SystemTime};

use super::Store;
use crate::transaction::Pace;
use crate::typed::TreeEntry;
use crate::{AsKey, Batch, Entry, Error, Key, KeyRange, Result, Scan, Transaction};

/// Writing. Every write is durable when it returns, as far as
/// [`Statistics::durability`](crate::Statistics::durability) says, and a write that is cut by a
/// crash has happened wholly or not at all.
impl Store {
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
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// assert!(!store.put("key", "value")?);
    /// assert!(store.put("key", "another")?, "replaced");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn put(&self, key: impl AsKey, value: impl AsRef<[u8]>) -> Result<bool> {
        self.default_tree().put(key, value)
    }

    /// Stores `value` under `key` until a moment: from then on the key is absent, and its room is
    /// given back when it is written the next time or by
    /// [`remove_expired`](Store::remove_expired). True if it had a value.
    ///
    /// # Errors
    /// As [`put`](Store::put).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
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
        self.default_tree().put_until(key, value, expires)
    }

    /// As [`put_until`](Store::put_until), for this long from now on.
    ///
    /// # Errors
    /// As [`put`](Store::put).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// use std::time::Duration;
    ///
    /// store.put_for("session", "of user 7", Duration::from_secs(1800))?;
    /// assert!(store.expiry("session")?.is_some_and(|expires| expires.is_some()));
    /// store.put("session", "of user 7")?;
    /// assert_eq!(store.expiry("session")?, Some(None), "a write without a life ends the expiry");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn put_for(&self, key: impl AsKey, value: impl AsRef<[u8]>, ttl: Duration) -> Result<bool> {
        self.default_tree().put_for(key, value, ttl)
    }

    /// As [`put`](Store::put), and returns a copy of the value that was replaced.
    ///
    /// # Errors
    /// As [`put`](Store::put).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// assert_eq!(store.insert("key", "value")?, None);
    /// assert_eq!(store.insert("key", "another")?, Some(b"value".to_vec()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn insert(&self, key: impl AsKey, value: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.default_tree().insert(key, value)
    }

    /// Stores `value` under `key` if the key is absent; false, and nothing changed, if it is
    /// present.
    ///
    /// # Errors
    /// As [`put`](Store::put).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// assert!(store.put_if_absent("key", "first")?);
    /// assert!(!store.put_if_absent("key", "second")?);
    /// assert_eq!(store.get("key")?.as_deref(), Some(&b"first"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn put_if_absent(&self, key: impl AsKey, value: impl AsRef<[u8]>) -> Result<bool> {
        self.default_tree().put_if_absent(key, value)
    }

    /// Stores `value` under `key` if the key is present; false, and nothing changed, if it is
    /// absent.
    ///
    /// # Errors
    /// As [`put`](Store::put).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// assert!(!store.replace("key", "value")?);
    /// assert!(!store.contains_key("key")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn replace(&self, key: impl AsKey, value: impl AsRef<[u8]>) -> Result<bool> {
        self.default_tree().replace(key, value)
    }

    /// Compare and swap: makes `new` the value of `key` (or removes it, where that is none) if its
    /// value is `expected` (or it is absent, where that is none). False, and nothing changed, if
    /// not. Of several threads that expect the same, one succeeds.
    ///
    /// # Errors
    /// As [`put`](Store::put).
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
    /// assert!(!store.contains_key("count")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn compare_and_swap(
        &self,
        key: impl AsKey,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        self.default_tree().compare_and_swap(key, expected, new)
    }

    /// Changes the value of `key` in place: `change` is given the value, or none if the key is
    /// absent, and returns the new one, or none to remove the key. Returns the result of `change`.
    /// The new value does not expire.
    ///
    /// No other write comes in between: if one did, `change` runs again with the value that is then
    /// there. It holds no lock, so it may call the store.
    ///
    /// # Errors
    /// As [`put`](Store::put).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
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
        change: impl FnMut(Option<&[u8]>) -> Option<N>,
    ) -> Result<Option<Vec<u8>>> {
        self.default_tree().update(key, change)
    }

    /// Removes `key` and returns its value.
    ///
    /// # Errors
    /// As [`delete`](Store::delete).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// store.put("key", "value")?;
    /// assert_eq!(store.remove("key")?.as_deref(), Some(&b"value"[..]));
    /// assert_eq!(store.remove("key")?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn remove(&self, key: impl AsKey) -> Result<Option<Vec<u8>>> {
        self.default_tree().remove(key)
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
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// store.put("key", "value")?;
    /// assert!(store.delete("key")?);
    /// assert!(!store.delete("key")?, "it is gone");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn delete(&self, key: impl AsKey) -> Result<bool> {
        self.default_tree().delete(key)
    }

    /// A batch of writes, which happen together or not at all when it is committed.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// let mut batch = store.batch();
    /// batch.put("alice", "70")?;
    /// batch.put_if_absent("bob", "30")?;
    /// assert_eq!(batch.commit()?, [true, true]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn batch(&self) -> Batch {
        self.default_tree().batch()
    }

    /// Reads and writes many keys at one moment: runs `work`, and commits what it wrote, durably,
    /// if nothing of what it read was written by another thread meanwhile. Where it was, `work`
    /// runs again, up to 64 times; so it must do nothing but read and write through the
    /// [`Transaction`] that it is given. If it fails, nothing is written.
    ///
    /// After 8 attempts it runs alone: other threads that write wait until it has ended, for a
    /// tenth of a second at most. Where it takes longer they go on, and wait for twice as long the
    /// next time, up to 6.4 seconds. Reading goes on meanwhile.
    ///
    /// # Errors
    /// What `work` says; [`Conflict`](crate::Error::Conflict) if what it read was written in
    /// between each time: by `work` itself, not through the transaction, or by other threads where
    /// it takes longer than they wait; as [`Transaction::commit`].
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// # store.put("ann", "100")?;
    /// fn pay(store: &everleaf::Store, from: &str, to: &str, sum: u64) -> everleaf::Result<bool> {
    ///     store.transaction(|tx| {
    ///         let mut has = |name: &str| -> everleaf::Result<u64> {
    ///             let text = tx.get(name)?.unwrap_or_default();
    ///             Ok(String::from_utf8_lossy(&text).parse().unwrap_or(0))
    ///         };
    ///         let (payer, payee) = (has(from)?, has(to)?);
    ///         if payer < sum {
    ///             return Ok(false);
    ///         }
    ///         tx.put(from, (payer - sum).to_string())?;
    ///         tx.put(to, (payee + sum).to_string())?;
    ///         Ok(true)
    ///     })
    /// }
    /// assert!(pay(&store, "ann", "bob", 30)?);
    /// assert!(!pay(&store, "ann", "bob", 80)?);
    /// assert_eq!(store.get("bob")?.as_deref(), Some(&b"30"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn transaction<R>(&self, work: impl FnMut(&mut Transaction) -> Result<R>) -> Result<R> {
        self.try_transaction(work)
    }

    /// As [`transaction`](Store::transaction), of a closure that has an error type of its own.
    ///
    /// # Errors
    /// Those of [`transaction`](Store::transaction).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// type AnyError = Box<dyn std::error::Error>;
    ///
    /// store.put("count", "7")?;
    /// let count = store.try_transaction(|tx| -> Result<u64, AnyError> {
    ///     let text = String::from_utf8(tx.get("count")?.unwrap_or_default())?;
    ///     let count = text.parse::<u64>()? + 1;
    ///     tx.put("count", count.to_string())?;
    ///     Ok(count)
    /// })?;
    /// assert_eq!(count, 8);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_transaction<R, E: From<Error>>(
        &self,
        work: impl FnMut(&mut Transaction) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        Transaction::run(self.default_tree().handle(), Pace::USUAL, work)
    }

    /// Begins a [`Transaction`], which the caller commits, and runs again after a
    /// [`Conflict`](crate::Error::Conflict).
    ///
    /// # Errors
    /// [`Closed`](crate::Error::Closed).
    ///
    /// # Examples
    /// See [`Transaction::commit`].
    pub fn begin(&self) -> Result<Transaction> {
        Transaction::begin(self.default_tree().handle())
    }

    /// Stores many values, all or none: a [`batch`](Store::batch) of puts.
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
    /// assert_eq!(store.len()?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn put_many<K: AsKey, V: AsRef<[u8]>>(
        &self,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<()> {
        self.default_tree().put_many(entries)
    }

    /// Stores many values in batches of up to 1,024 entries or about 1 MiB, each of them all or
    /// none, and durable before the next one begins: a crash or an error leaves the entries of a
    /// beginning of the iterator. It takes as little memory for an endless iterator as for a short
    /// one; on a disk there is one sync for each batch.
    ///
    /// # Errors
    /// As [`put`](Store::put) and [`Batch::commit`].
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
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
        self.default_tree().extend(entries)
    }

    /// A key, whose value is read and written in one step, as a map's `entry` does: what
    /// [`TreeEntry::or_insert`] and the others do is atomic, and durable when they return. Nothing
    /// is read or locked before.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// assert_eq!(store.entry("name").or_insert("ann")?, b"ann");
    /// assert_eq!(store.entry("name").or_insert("bob")?, b"ann", "it was there");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn entry<K: AsKey>(&self, key: K) -> TreeEntry<'_, K> {
        self.default_tree().entry(key)
    }

    /// Removes and returns the entry with the smallest key. Concurrent callers never receive the
    /// same entry. While others write, the entry was the smallest at some moment of the call.
    ///
    /// # Errors
    /// As [`delete`](Store::delete).
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
    pub fn pop_first(&self) -> Result<Option<Entry>> {
        self.default_tree().pop_first()
    }

    /// Removes and returns the entry with the greatest key; as [`pop_first`](Store::pop_first).
    ///
    /// # Errors
    /// As [`delete`](Store::delete).
    pub fn pop_last(&self) -> Result<Option<Entry>> {
        self.default_tree().pop_last()
    }

    /// Removes each entry for which `keep` returns false, one by one. Returns how many were
    /// removed. An entry that another thread writes after `keep` has seen it stays.
    ///
    /// # Errors
    /// As [`delete`](Store::delete).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// store.put_many([("ash", "1"), ("beech", ""), ("oak", "")])?;
    /// assert_eq!(store.retain(|_key, value| !value.is_empty())?, 2);
    /// assert_eq!(store.len()?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn retain(&self, keep: impl FnMut(Key<'_>, &[u8]) -> bool) -> Result<u64> {
        self.default_tree().retain(keep)
    }

    /// Removes every entry whose key lies in a range. Returns how many there were. It goes from the
    /// least key to the greatest, up to 128 entries at a time, each time all or none (one at a time
    /// where the pool is too full for the log of a batch): a crash leaves the rest. Entries that
    /// others add meanwhile stay or go.
    ///
    /// # Errors
    /// As [`delete`](Store::delete).
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
    pub fn delete_range(&self, range: impl KeyRange) -> Result<u64> {
        self.default_tree().delete_range(range)
    }

    /// As [`delete_range`](Store::delete_range), for the entries that `scan` describes.
    ///
    /// # Errors
    /// Those of [`delete_range`](Store::delete_range).
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
    pub fn delete_in(&self, scan: impl Into<Scan>) -> Result<u64> {
        self.default_tree().delete_in(scan)
    }

    /// Removes every entry of the store's own tree, and of no other. Returns how many there were.
    /// As [`delete_range`](Store::delete_range): a crash on the way leaves the rest.
    ///
    /// # Errors
    /// As [`delete`](Store::delete).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// store.put("key", "value")?;
    /// store.tree("words")?.put("leaf", "a blade of a plant")?;
    /// assert_eq!(store.clear()?, 1);
    /// assert_eq!((store.len()?, store.tree("words")?.len()?), (0, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clear(&self) -> Result<u64> {
        self.default_tree().clear()
    }
}
