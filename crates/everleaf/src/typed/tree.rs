//! The methods of trees, views, batches and transactions that have types.

use std::time::{Duration, SystemTime};

use everleaf_index::Direction;

use super::entry::TreeEntry;
use super::range::{
    decode_entry, decode_key, decode_owned, decode_value, encode, scan_of, scan_of_prefix,
};
use super::{
    KeyFor, OrderedKey, PrefixFor, RangeFor, StoredValue, TypedKeys, TypedRange, ValueFor,
};
use crate::batch::{BatchOn, batch_methods, in_batches};
use crate::core::value::Expiry;
use crate::core::write::Kind;
use crate::transaction::{TransactionOn, TransactionRange, transaction_methods};
use crate::{AsKey, Batch, Result, Scan, Tree, View};

/// Reading, of a tree with keys and values of types.
impl<K: OrderedKey, V: StoredValue> View<K, V> {
    /// The value of `key`.
    ///
    /// # Errors
    /// [`Error::WrongType`](crate::Error::WrongType) if the stored value is not a `V`; as
    /// [`View::get`](crate::View::get).
    ///
    /// # Examples
    /// Those of [`View::get`](crate::View::get).
    pub fn get(&self, key: impl KeyFor<K>) -> Result<Option<V>> {
        let key = encode::<K>(&key);
        self.handle().get_with(key.as_ref(), decode_value)?.transpose()
    }

    /// The values of many keys, which are looked up together; see
    /// [`View::get_many`](crate::View::get_many).
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// # Examples
    /// Those of [`View::get_many`](crate::View::get_many).
    pub fn get_many<Q: KeyFor<K>>(
        &self,
        keys: impl IntoIterator<Item = Q>,
    ) -> Result<Vec<Option<V>>> {
        let keys: Vec<_> = keys.into_iter().map(|key| encode::<K>(&key)).collect();
        let keys: Vec<_> = keys.iter().map(|key| key.as_ref()).collect();
        let values = self.handle().get_many(&keys)?.into_iter();
        values.map(|value| value.as_deref().map(decode_value).transpose()).collect()
    }

    /// Whether `key` is present.
    ///
    /// # Errors
    /// As [`View::contains_key`](crate::View::contains_key).
    ///
    /// # Examples
    /// Those of [`View::contains_key`](crate::View::contains_key).
    pub fn contains_key(&self, key: impl KeyFor<K>) -> Result<bool> {
        self.handle().contains_key(encode::<K>(&key).as_ref())
    }

    /// When the value of `key` expires; see [`View::expiry`](crate::View::expiry).
    ///
    /// # Errors
    /// Those of [`View::expiry`](crate::View::expiry).
    ///
    /// # Examples
    /// Those of [`View::expiry`](crate::View::expiry).
    pub fn expiry(&self, key: impl KeyFor<K>) -> Result<Option<Option<SystemTime>>> {
        self.handle().expiry(encode::<K>(&key).as_ref())
    }

    /// How long the value of `key` lives on; see [`View::ttl`](crate::View::ttl).
    ///
    /// # Errors
    /// Those of [`View::ttl`](crate::View::ttl).
    ///
    /// # Examples
    /// Those of [`View::ttl`](crate::View::ttl).
    pub fn ttl(&self, key: impl KeyFor<K>) -> Result<Option<Option<Duration>>> {
        self.handle().ttl(encode::<K>(&key).as_ref())
    }

    /// The entry with the least key.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// # Examples
    /// Those of [`View::first`](crate::View::first).
    pub fn first(&self) -> Result<Option<(K, V)>> {
        self.handle().outermost(Direction::Forward)?.map(decode_entry).transpose()
    }

    /// The entry with the greatest key.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn last(&self) -> Result<Option<(K, V)>> {
        self.handle().outermost(Direction::Backward)?.map(decode_entry).transpose()
    }

    /// Number of keys; see [`View::len`](crate::View::len).
    ///
    /// # Errors
    /// Those of [`View::len`](crate::View::len).
    ///
    /// # Examples
    /// Those of [`View::len`](crate::View::len).
    pub fn len(&self) -> Result<u64> {
        self.handle().len()
    }

    /// Whether there is no key.
    ///
    /// # Errors
    /// As [`View::len`](crate::View::len).
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// All entries in key order.
    ///
    /// # Examples
    /// Those of [`View::iter`](crate::View::iter).
    pub fn iter(&self) -> TypedRange<'_, K, V> {
        TypedRange::over(self.handle().scan(Scan::all()))
    }

    /// All keys in order, without their values.
    ///
    /// # Examples
    /// Those of [`View::keys`](crate::View::keys).
    pub fn keys(&self) -> TypedKeys<'_, K> {
        TypedKeys::over(self.handle().scan(Scan::all()))
    }

    /// The entries whose keys lie in a range, in key order.
    ///
    /// # Examples
    /// Those of [`View::range`](crate::View::range).
    pub fn range(&self, range: impl RangeFor<K>) -> TypedRange<'_, K, V> {
        TypedRange::over(self.handle().scan(scan_of(&range)))
    }

    /// The entries whose keys begin with `prefix`, in key order: text or bytes that strings
    /// begin with, or the first parts of tuples (see [`PrefixFor`]).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// let words = store.typed_tree::<String, u64>("words")?;
    /// words.put_many([("lead", 1), ("leaf", 2), ("tree", 3)])?;
    /// assert_eq!(words.prefix("lea").count(), 2);
    /// let visits = store.typed_tree::<(String, u64), ()>("visits by user and second")?;
    /// visits.put_many([(("ann", 5), ()), (("ann", 7), ()), (("anna", 6), ())])?;
    /// assert_eq!(visits.prefix(("ann",)).count(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn prefix(&self, prefix: impl PrefixFor<K>) -> TypedRange<'_, K, V> {
        TypedRange::over(self.handle().scan(scan_of_prefix(&prefix)))
    }
}

/// Writing, of a tree with keys and values of types. Durability, costs and errors are those of the
/// methods of [`Store`](crate::Store) with the same names; what has no encoding is
/// [`Error::NotEncodable`](crate::Error::NotEncodable).
impl<K: OrderedKey, V: StoredValue> Tree<K, V> {
    /// Stores `value` under `key`, in place of the value that it may have; true if it had one.
    ///
    /// # Errors
    /// As [`Tree::put`](crate::Tree::put).
    ///
    /// # Examples
    /// Those of [`Tree::put`](crate::Tree::put).
    pub fn put(&self, key: impl KeyFor<K>, value: impl ValueFor<V>) -> Result<bool> {
        self.handle().put(encode::<K>(&key).as_ref(), &value.encode()?, None)
    }

    /// As [`put`](Tree::put), until a moment.
    ///
    /// # Errors
    /// As [`Tree::put_until`](crate::Tree::put_until).
    ///
    /// # Examples
    /// Those of [`Tree::put_until`](crate::Tree::put_until).
    pub fn put_until(
        &self,
        key: impl KeyFor<K>,
        value: impl ValueFor<V>,
        expires: SystemTime,
    ) -> Result<bool> {
        let expiry = Some(Expiry::At(expires));
        self.handle().put(encode::<K>(&key).as_ref(), &value.encode()?, expiry)
    }

    /// As [`put`](Tree::put), for this long from now on.
    ///
    /// # Errors
    /// As [`Tree::put_for`](crate::Tree::put_for).
    ///
    /// # Examples
    /// Those of [`Tree::put_for`](crate::Tree::put_for).
    pub fn put_for(
        &self,
        key: impl KeyFor<K>,
        value: impl ValueFor<V>,
        ttl: Duration,
    ) -> Result<bool> {
        let expiry = Some(Expiry::After(ttl));
        self.handle().put(encode::<K>(&key).as_ref(), &value.encode()?, expiry)
    }

    /// As [`put`](Tree::put), and returns the value that was replaced.
    ///
    /// # Errors
    /// As [`Tree::insert`](crate::Tree::insert). Where what was replaced is no `V`, the new value
    /// is stored all the same.
    ///
    /// # Examples
    /// Those of [`Tree::insert`](crate::Tree::insert).
    pub fn insert(&self, key: impl KeyFor<K>, value: impl ValueFor<V>) -> Result<Option<V>> {
        let old = self.handle().exchange(encode::<K>(&key).as_ref(), Some(&value.encode()?))?;
        old.as_deref().map(decode_value).transpose()
    }

    /// Stores `value` if `key` is absent; whether it did.
    ///
    /// # Errors
    /// As [`Tree::put_if_absent`](crate::Tree::put_if_absent).
    ///
    /// # Examples
    /// Those of [`Tree::put_if_absent`](crate::Tree::put_if_absent).
    pub fn put_if_absent(&self, key: impl KeyFor<K>, value: impl ValueFor<V>) -> Result<bool> {
        self.handle().put_if(encode::<K>(&key).as_ref(), &value.encode()?, false)
    }

    /// Stores `value` if `key` is present; whether it did.
    ///
    /// # Errors
    /// As [`Tree::replace`](crate::Tree::replace).
    ///
    /// # Examples
    /// Those of [`Tree::replace`](crate::Tree::replace).
    pub fn replace(&self, key: impl KeyFor<K>, value: impl ValueFor<V>) -> Result<bool> {
        self.handle().put_if(encode::<K>(&key).as_ref(), &value.encode()?, true)
    }

    /// Makes `new` the value of `key` if its value is `expected`, compared as bytes; whether it
    /// did: `tree.compare_and_swap("a", Some(&1), Some(&2))`.
    ///
    /// # Errors
    /// As [`Tree::compare_and_swap`](crate::Tree::compare_and_swap).
    ///
    /// # Examples
    /// Those of [`Tree::compare_and_swap`](crate::Tree::compare_and_swap).
    pub fn compare_and_swap(
        &self,
        key: impl KeyFor<K>,
        expected: Option<&V>,
        new: Option<&V>,
    ) -> Result<bool> {
        let (expected, new) =
            (expected.map(ValueFor::encode).transpose()?, new.map(ValueFor::encode).transpose()?);
        let key = encode::<K>(&key);
        self.handle().compare_and_swap(key.as_ref(), expected.as_deref(), new.as_deref())
    }

    /// Lets the value of `key` live for this long from now on; see
    /// [`Tree::touch`](crate::Tree::touch).
    ///
    /// # Errors
    /// Those of [`Tree::touch`](crate::Tree::touch).
    ///
    /// # Examples
    /// Those of [`Tree::touch`](crate::Tree::touch).
    pub fn touch(&self, key: impl KeyFor<K>, ttl: Duration) -> Result<bool> {
        self.handle().touch(encode::<K>(&key).as_ref(), Expiry::After(ttl))
    }

    /// Lets the value of `key` stay for ever; see [`Tree::persist`](crate::Tree::persist).
    ///
    /// # Errors
    /// Those of [`Tree::persist`](crate::Tree::persist).
    ///
    /// # Examples
    /// Those of [`Tree::persist`](crate::Tree::persist).
    pub fn persist(&self, key: impl KeyFor<K>) -> Result<bool> {
        self.handle().touch(encode::<K>(&key).as_ref(), Expiry::Never)
    }

    /// Changes the value of `key` in place; see [`Tree::update`](crate::Tree::update).
    ///
    /// # Errors
    /// Those of [`Tree::update`](crate::Tree::update).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// let visits = store.typed_tree::<String, u64>("visits")?;
    /// visits.update("ann", |count| Some(count.unwrap_or(0) + 1))?;
    /// assert_eq!(visits.update("ann", |count| Some(count.unwrap_or(0) + 1))?, Some(2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn update(
        &self,
        key: impl KeyFor<K>,
        mut change: impl FnMut(Option<V>) -> Option<V>,
    ) -> Result<Option<V>> {
        let mut made = None;
        self.handle().update(encode::<K>(&key).as_ref(), &mut |old| {
            made = change(old.map(decode_value).transpose()?);
            made.as_ref().map(|new| Ok(new.encode()?.into_owned())).transpose()
        })?;
        Ok(made)
    }

    /// Removes `key` and returns its value.
    ///
    /// # Errors
    /// As [`Tree::remove`](crate::Tree::remove). What is no `V` is removed all the same.
    ///
    /// # Examples
    /// Those of [`Tree::remove`](crate::Tree::remove).
    pub fn remove(&self, key: impl KeyFor<K>) -> Result<Option<V>> {
        let old = self.handle().exchange(encode::<K>(&key).as_ref(), None)?;
        old.as_deref().map(decode_value).transpose()
    }

    /// Removes `key`; whether it was present.
    ///
    /// # Errors
    /// As [`Tree::delete`](crate::Tree::delete).
    ///
    /// # Examples
    /// Those of [`Tree::delete`](crate::Tree::delete).
    pub fn delete(&self, key: impl KeyFor<K>) -> Result<bool> {
        self.handle().delete(encode::<K>(&key).as_ref())
    }

    /// Stores many values, all or none.
    ///
    /// # Errors
    /// As [`Tree::put_many`](crate::Tree::put_many).
    ///
    /// # Examples
    /// Those of [`Tree::put_many`](crate::Tree::put_many).
    pub fn put_many<Q: KeyFor<K>, W: ValueFor<V>>(
        &self,
        entries: impl IntoIterator<Item = (Q, W)>,
    ) -> Result<()> {
        let mut batch = Batch::new(self.handle().clone());
        batch.on(self)?.extend(entries)?;
        batch.commit().map(drop)
    }

    /// Stores many values, some hundred at a time; see [`Tree::extend`](crate::Tree::extend).
    ///
    /// # Errors
    /// As [`Tree::extend`](crate::Tree::extend).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// let squares = store.typed_tree::<u64, u64>("squares")?;
    /// squares.extend((0..5000).map(|n| (n, n * n)))?;
    /// assert_eq!(squares.last()?, Some((4999, 4999 * 4999)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn extend<Q: KeyFor<K>, W: ValueFor<V>>(
        &self,
        entries: impl IntoIterator<Item = (Q, W)>,
    ) -> Result<()> {
        in_batches(self.handle(), entries, |batch, (key, value)| {
            batch.on(self)?.put(key, value).map(drop)
        })
    }

    /// A key, whose value is read and written in one step; see
    /// [`Tree::entry`](crate::Tree::entry).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// let counts = store.typed_tree::<String, u64>("counts")?;
    /// for word in ["to", "be", "or", "not", "to", "be"] {
    ///     counts.entry(word).and_modify(|count| *count += 1).or_insert(1)?;
    /// }
    /// assert_eq!(counts.get("be")?, Some(2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn entry<Q: KeyFor<K>>(&self, key: Q) -> TreeEntry<'_, Q, V> {
        TreeEntry::new(self.handle(), encode::<K>(&key), key)
    }

    /// Removes and returns the entry with the smallest key.
    ///
    /// # Errors
    /// As [`Tree::pop_first`](crate::Tree::pop_first).
    ///
    /// # Examples
    /// Those of [`Tree::pop_first`](crate::Tree::pop_first).
    pub fn pop_first(&self) -> Result<Option<(K, V)>> {
        self.handle().pop(Direction::Forward)?.map(decode_entry).transpose()
    }

    /// Removes and returns the entry with the greatest key.
    ///
    /// # Errors
    /// As [`Tree::pop_first`](crate::Tree::pop_first).
    pub fn pop_last(&self) -> Result<Option<(K, V)>> {
        self.handle().pop(Direction::Backward)?.map(decode_entry).transpose()
    }

    /// Removes each entry for which `keep` returns false. Returns how many were removed.
    ///
    /// # Errors
    /// As [`Tree::retain`](crate::Tree::retain).
    ///
    /// # Examples
    /// Those of [`Tree::retain`](crate::Tree::retain).
    pub fn retain(&self, mut keep: impl FnMut(K, V) -> bool) -> Result<u64> {
        self.handle().retain(&mut |key, value| Ok(keep(decode_key(key)?, decode_value(value)?)))
    }

    /// Removes every entry whose key lies in a range. Returns how many there were.
    ///
    /// # Errors
    /// As [`Tree::delete_range`](crate::Tree::delete_range).
    ///
    /// # Examples
    /// Those of [`Tree::delete_range`](crate::Tree::delete_range).
    pub fn delete_range(&self, range: impl RangeFor<K>) -> Result<u64> {
        self.handle().delete_in(scan_of(&range))
    }
}

impl<'v, K: OrderedKey, V: StoredValue> IntoIterator for &'v View<K, V> {
    type Item = Result<(K, V)>;
    type IntoIter = TypedRange<'v, K, V>;

    fn into_iter(self) -> TypedRange<'v, K, V> {
        self.iter()
    }
}

impl<'t, K: OrderedKey, V: StoredValue> IntoIterator for &'t Tree<K, V> {
    type Item = Result<(K, V)>;
    type IntoIter = TypedRange<'t, K, V>;

    fn into_iter(self) -> TypedRange<'t, K, V> {
        self.iter()
    }
}

/// Of a tree with keys and values of types.
impl<K: OrderedKey, V: StoredValue> BatchOn<'_, K, V> {
    batch_methods! { key: KeyFor<K>, encode::<K>; value: ValueFor<V>, ValueFor::<V>::encode; }
}

/// Of a tree with keys and values of types.
impl<'t, K: OrderedKey, V: StoredValue> TransactionOn<'t, K, V> {
    transaction_methods! {
        key: KeyFor<K>, encode::<K>;
        value: ValueFor<V>, ValueFor::<V>::encode;
        range: RangeFor<K>, scan_of;
        prefix: PrefixFor<K>, scan_of_prefix;
        read: V, V, decode_owned;
        entry: (K, V), decode_entry;
        iterator: TransactionRange<'t, (K, V)>;
    }

    /// Changes the value of `key`: `change` is given the value, or none if the key is absent, and
    /// returns the new one, or none to remove the key. Returns the result of `change`. The new
    /// value expires when the old one would have.
    ///
    /// # Errors
    /// As [`get`](Self::get) and [`put`](Self::put).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// let accounts = store.typed_tree::<String, u64>("accounts")?;
    /// store.transaction(|tx| {
    ///     let accounts = tx.on(&accounts)?;
    ///     accounts.update("ann", |sum| Some(sum.unwrap_or(0) + 70))?;
    ///     accounts.update("bob", |sum| Some(sum.unwrap_or(0) + 30))
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn update(
        &self,
        key: impl KeyFor<K>,
        change: impl FnOnce(Option<V>) -> Option<V>,
    ) -> Result<Option<V>> {
        let new = change(self.get(&key)?);
        let value = new.as_ref().map(ValueFor::encode).transpose()?;
        self.change(encode::<K>(&key).as_ref(), value.as_deref())?;
        Ok(new)
    }
}
