//! What a transaction reads and writes: the same of the tree that it began on, of other trees, and
//! of trees with types.

use std::time::{Duration, SystemTime};

use super::{Transaction, TransactionOn, TransactionRange};
use crate::core::value::Expiry;
use crate::untyped::{encode_value, scan_of, scan_of_prefix};
use crate::{AsKey, Entry, KeyRange, Result, Scan};

/// The methods that read and write. What stands for keys, values, ranges and prefixes is given by
/// its trait, and how it is encoded; then come the types that are read, and how they are decoded.
macro_rules! transaction_methods {
    (
        key: $AsKey:path, $key:path;
        value: $AsValue:path, $value:path;
        range: $AsRange:path, $scan_of:path;
        prefix: $AsPrefix:path, $scan_of_prefix:path;
        read: $V:ty, $borrowed:ty, $decode:path;
        entry: $Entry:ty, $decode_entry:path;
        iterator: $Range:ty;
    ) => {
        /// The value of a key, or nothing. Costs what [`View::get`](crate::View::get) costs, and
        /// a copy of the value that is kept until the end.
        ///
        /// # Errors
        /// [`Conflict`](crate::Error::Conflict) if another thread has written what was read before;
        /// [`WrongKeyType`](crate::Error::WrongKeyType), [`WrongType`](crate::Error::WrongType) of
        /// a typed tree, [`TreeDropped`](crate::Error::TreeDropped), damage.
        pub fn get(&self, key: impl $AsKey) -> Result<Option<$V>> {
            self.here().find($key(&key).as_key())?.map($decode).transpose()
        }

        /// Whether a key is present.
        ///
        /// # Errors
        /// As [`get`](Self::get).
        pub fn contains_key(&self, key: impl $AsKey) -> Result<bool> {
            Ok(self.here().find($key(&key).as_key())?.is_some())
        }

        /// The entry with the least key. That there is none before it is read as well.
        ///
        /// # Errors
        /// As [`get`](Self::get).
        ///
        /// # Examples
        /// ```
        /// # let folder = tempfile::tempdir()?;
        /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
        /// let jobs = store.typed_tree::<u64, String>("jobs")?;
        /// store.transaction(|tx| {
        ///     let jobs = tx.on(&jobs)?;
        ///     let next = jobs.last()?.map_or(0, |(number, _)| number + 1);
        ///     jobs.put(next, "sweep")?.put(next + 1, "cook")?;
        ///     assert_eq!(jobs.first()?, Some((0, "sweep".to_owned())));
        ///     Ok(())
        /// })?;
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn first(&self) -> Result<Option<$Entry>> {
            self.here().entries(Scan::all(), 1)?.pop().map($decode_entry).transpose()
        }

        /// The entry with the greatest key, as [`first`](Self::first).
        ///
        /// # Errors
        /// As [`get`](Self::get).
        pub fn last(&self) -> Result<Option<$Entry>> {
            self.here().entries(Scan::all().backward(), 1)?.pop().map($decode_entry).transpose()
        }

        /// All entries, as [`range`](Self::range).
        pub fn iter(&self) -> $Range {
            self.here().over(Scan::all(), $decode_entry)
        }

        /// The entries of a range, the least key first; its errors are those of
        /// [`get`](Self::get). The transaction can be written to while one goes through them. That
        /// there are no others as far as it has come is read as well: a key that another thread
        /// adds there before the commit is a conflict.
        ///
        /// # Examples
        /// ```
        /// # let folder = tempfile::tempdir()?;
        /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
        /// let stock = store.typed_tree::<String, u64>("stock")?;
        /// stock.put_many([("apple", 5), ("pear", 0), ("plum", 0)])?;
        /// store.transaction(|tx| {
        ///     let stock = tx.on(&stock)?;
        ///     for entry in stock.range("b"..) {
        ///         let (article, count) = entry?;
        ///         if count == 0 {
        ///             stock.delete(article)?;
        ///         }
        ///     }
        ///     Ok(())
        /// })?;
        /// assert_eq!(stock.len()?, 1);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn range(&self, range: impl $AsRange) -> $Range {
            self.here().over($scan_of(&range), $decode_entry)
        }

        /// The entries whose keys begin with `prefix`, as [`range`](Self::range).
        pub fn prefix(&self, prefix: impl $AsPrefix) -> $Range {
            self.here().over($scan_of_prefix(&prefix), $decode_entry)
        }

        /// Stores a value, in place of the one that there may be. It reads nothing, and writes
        /// when the transaction is committed.
        ///
        /// # Errors
        /// [`WrongKeyType`](crate::Error::WrongKeyType),
        /// [`ValueTooLong`](crate::Error::ValueTooLong),
        /// [`NotEncodable`](crate::Error::NotEncodable) of a typed tree, a key that is too long.
        pub fn put(&self, key: impl $AsKey, value: impl $AsValue) -> Result<&Self> {
            self.here().set($key(&key).as_key(), Some(&$value(&value)?), None)?;
            Ok(self)
        }

        /// Stores a value that is absent from a moment on.
        ///
        /// # Errors
        /// As [`put`](Self::put).
        pub fn put_until(
            &self,
            key: impl $AsKey,
            value: impl $AsValue,
            expires: SystemTime,
        ) -> Result<&Self> {
            let expiry = Some(Expiry::At(expires));
            self.here().set($key(&key).as_key(), Some(&$value(&value)?), expiry)?;
            Ok(self)
        }

        /// Stores a value that is absent once `ttl` has passed since the transaction has begun.
        ///
        /// # Errors
        /// As [`put`](Self::put).
        pub fn put_for(
            &self,
            key: impl $AsKey,
            value: impl $AsValue,
            ttl: Duration,
        ) -> Result<&Self> {
            let expiry = Some(Expiry::After(ttl));
            self.here().set($key(&key).as_key(), Some(&$value(&value)?), expiry)?;
            Ok(self)
        }

        /// Stores a value, and returns the one that was replaced.
        ///
        /// # Errors
        /// As [`get`](Self::get) and [`put`](Self::put).
        pub fn insert(&self, key: impl $AsKey, value: impl $AsValue) -> Result<Option<$V>> {
            let value = $value(&value)?;
            let old = self.get(&key)?;
            self.here().set($key(&key).as_key(), Some(&value), None)?;
            Ok(old)
        }

        /// Stores a value if the key is absent; whether it was.
        ///
        /// # Errors
        /// As [`get`](Self::get) and [`put`](Self::put).
        pub fn put_if_absent(&self, key: impl $AsKey, value: impl $AsValue) -> Result<bool> {
            let absent = !self.contains_key(&key)?;
            if absent {
                self.put(key, value)?;
            }
            Ok(absent)
        }

        /// Stores a value if the key is present; whether it was.
        ///
        /// # Errors
        /// As [`get`](Self::get) and [`put`](Self::put).
        pub fn replace(&self, key: impl $AsKey, value: impl $AsValue) -> Result<bool> {
            let present = self.contains_key(&key)?;
            if present {
                self.put(key, value)?;
            }
            Ok(present)
        }

        /// Makes `new` the value of `key` (or removes it, where that is none) if its value is
        /// `expected` (or it is absent, where that is none), compared as bytes; whether it did. The
        /// new value expires when the old one would have.
        ///
        /// # Errors
        /// As [`get`](Self::get) and [`put`](Self::put).
        ///
        /// # Examples
        /// ```
        /// # let folder = tempfile::tempdir()?;
        /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
        /// let turns = store.typed_tree::<String, u64>("turns")?;
        /// let swapped = store.transaction(|tx| {
        ///     let turns = tx.on(&turns)?;
        ///     turns.compare_and_swap("ann", None, Some(&1))?;
        ///     turns.compare_and_swap("ann", Some(&2), Some(&3))
        /// })?;
        /// assert!(!swapped && turns.get("ann")? == Some(1));
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn compare_and_swap(
            &self,
            key: impl $AsKey,
            expected: Option<&$borrowed>,
            new: Option<&$borrowed>,
        ) -> Result<bool> {
            let (expected, new) = (expected.map($value).transpose()?, new.map($value).transpose()?);
            let key = $key(&key);
            let same = self.here().find(key.as_key())?.as_deref() == expected.as_deref();
            if same {
                self.here().change(key.as_key(), new.as_deref())?;
            }
            Ok(same)
        }

        /// Lets the value of `key` live for this long from the begin of the transaction on,
        /// whatever expiry it had; false if the key is absent.
        ///
        /// # Errors
        /// As [`get`](Self::get) and [`put`](Self::put).
        pub fn touch(&self, key: impl $AsKey, ttl: Duration) -> Result<bool> {
            self.here().expire($key(&key).as_key(), Expiry::After(ttl))
        }

        /// Lets the value of `key` stay for ever; false if the key is absent.
        ///
        /// # Errors
        /// As [`get`](Self::get) and [`put`](Self::put).
        pub fn persist(&self, key: impl $AsKey) -> Result<bool> {
            self.here().expire($key(&key).as_key(), Expiry::Never)
        }

        /// Removes a key, if it is there. It reads nothing.
        ///
        /// # Errors
        /// As [`put`](Self::put).
        pub fn delete(&self, key: impl $AsKey) -> Result<&Self> {
            self.here().set($key(&key).as_key(), None, None)?;
            Ok(self)
        }

        /// Removes a key and returns its value.
        ///
        /// # Errors
        /// As [`get`](Self::get).
        pub fn remove(&self, key: impl $AsKey) -> Result<Option<$V>> {
            let old = self.get(&key)?;
            if old.is_some() {
                self.delete(key)?;
            }
            Ok(old)
        }

        /// Removes and returns the entry with the least key.
        ///
        /// # Errors
        /// As [`get`](Self::get).
        ///
        /// # Examples
        /// ```
        /// # let folder = tempfile::tempdir()?;
        /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
        /// let (waiting, running) = (store.tree("waiting")?, store.tree("running")?);
        /// waiting.put("1", "sweep")?;
        /// // A crash leaves the job in one of the two.
        /// store.transaction(|tx| {
        ///     if let Some((number, job)) = tx.on(&waiting)?.pop_first()? {
        ///         tx.on(&running)?.put(number, job)?;
        ///     }
        ///     Ok(())
        /// })?;
        /// assert_eq!((waiting.len()?, running.len()?), (0, 1));
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn pop_first(&self) -> Result<Option<$Entry>> {
            self.here().pop(Scan::all())?.map($decode_entry).transpose()
        }

        /// Removes and returns the entry with the greatest key.
        ///
        /// # Errors
        /// As [`get`](Self::get).
        pub fn pop_last(&self) -> Result<Option<$Entry>> {
            self.here().pop(Scan::all().backward())?.map($decode_entry).transpose()
        }
    };
}
pub(crate) use transaction_methods;

/// What has no types, of the tree that is meant.
macro_rules! untyped_methods {
    ($life:lifetime) => {
        transaction_methods! {
            key: AsKey, AsKey::as_key;
            value: AsRef<[u8]>, encode_value;
            range: KeyRange, scan_of;
            prefix: AsRef<[u8]>, scan_of_prefix;
            read: Vec<u8>, [u8], Ok;
            entry: Entry, Ok;
            iterator: TransactionRange<$life, Entry>;
        }

        /// The first entries of what `scan` describes, at most `limit`; what lies behind the last
        /// of them was not read.
        ///
        /// # Errors
        /// As [`get`](Self::get).
        pub fn scan(&self, scan: impl Into<Scan>, limit: usize) -> Result<Vec<Entry>> {
            self.here().entries(scan.into(), limit)
        }

        /// Changes the value of `key`: `change` is given the value, or none if the key is absent,
        /// and returns the new one, or none to remove the key. Returns the result of `change`. The
        /// new value expires when the old one would have.
        ///
        /// # Errors
        /// As [`get`](Self::get) and [`put`](Self::put).
        ///
        /// # Examples
        /// ```
        /// # let folder = tempfile::tempdir()?;
        /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
        /// store.transaction(|tx| {
        ///     tx.update("log", |old| Some([old.unwrap_or(b""), b"one more line\n"].concat()))
        /// })?;
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn update<N: Into<Vec<u8>>>(
            &self,
            key: impl AsKey,
            change: impl FnOnce(Option<&[u8]>) -> Option<N>,
        ) -> Result<Option<Vec<u8>>> {
            let new = change(self.here().find(key.as_key())?.as_deref()).map(N::into);
            self.here().change(key.as_key(), new.as_deref())?;
            Ok(new)
        }
    };
}

/// The tree that a transaction began on; see [`on`](Transaction::on) for others.
impl Transaction {
    untyped_methods!('_);
}

/// Of a tree whose keys and values have no types.
impl<'t> TransactionOn<'t> {
    untyped_methods!('t);
}
