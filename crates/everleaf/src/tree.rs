//! Writing: a tree, which is an ordered map of its own within a store.

use std::fmt;
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::time::{Duration, SystemTime};

use everleaf_index::Direction;
use everleaf_pool::KeyType;

use crate::batch::{Batch, in_batches};
use crate::clock::to_ms;
use crate::handle::Handle;
use crate::typed::TreeEntry;
use crate::view::{View, reads};
use crate::{AsKey, Entry, Error, Key, KeyRange, Keys, OrderedKey, OwnedKey, Range, Result, Scan};

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
    handle: Handle,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Tree<K, V> {
    pub(crate) fn over(handle: Handle) -> Self {
        Self { handle, types: PhantomData }
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// What can be read of it, without the right to write.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// fn longest(view: &everleaf::View) -> everleaf::Result<usize> {
    ///     view.iter().try_fold(0, |longest, entry| Ok(longest.max(entry?.1.len())))
    /// }
    /// store.put("key", "value")?;
    /// assert_eq!(longest(&store.view())?, 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn view(&self) -> View<K, V> {
        View::new(self.handle.clone())
    }

    /// The same tree without types.
    pub fn untyped(&self) -> Tree {
        Tree::over(self.handle.clone())
    }

    /// The same tree with keys and values of types. Whether what is in it has these types is found
    /// when it is read.
    ///
    /// # Errors
    /// [`Error::WrongKeyType`]: keys of type `u64` need a tree of `u64` keys, all others one of
    /// byte strings.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// let names = store.default_tree().typed::<String, String>()?;
    /// names.put("ann", "Ann Smith")?;
    /// assert_eq!(names.get("ann")?, Some("Ann Smith".to_owned()));
    /// assert!(store.default_tree().typed::<u64, String>().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn typed<L: OrderedKey, W>(&self) -> Result<Tree<L, W>> {
        match self.handle.key_type() {
            key_type if key_type == L::KEY_TYPE => Ok(Tree::over(self.handle.clone())),
            expected => Err(Error::WrongKeyType { expected }),
        }
    }

    /// Removes every entry. Returns how many there were. As [`delete_range`](Tree::delete_range): a
    /// crash on the way leaves the rest.
    ///
    /// # Errors
    /// As [`delete`](Tree::delete).
    pub fn clear(&self) -> Result<u64> {
        self.handle.delete_in(Scan::all())
    }
}

/// Reading, of a tree whose keys and values have no types.
impl Tree {
    reads!();
}

/// Writing, of a tree whose keys and values have no types.
impl Tree {
    /// A batch of writes of this tree and of others; see [`Store::batch`](crate::Store::batch).
    /// [`Batch::on`] is given those of others, and of trees with types.
    pub fn batch(&self) -> Batch {
        Batch::new(self.handle.clone())
    }

    /// Stores `value` under `key`, in place of the value that it may have; true if it had one. See
    /// [`Store::put`](crate::Store::put).
    ///
    /// # Errors
    /// Those of [`Store::put`](crate::Store::put).
    pub fn put(&self, key: impl AsKey, value: impl AsRef<[u8]>) -> Result<bool> {
        self.handle.put(key.as_key(), value.as_ref(), None)
    }

    /// As [`put`](Tree::put), until a moment. See [`Store::put_until`](crate::Store::put_until).
    ///
    /// # Errors
    /// Those of [`Store::put_until`](crate::Store::put_until).
    pub fn put_until(
        &self,
        key: impl AsKey,
        value: impl AsRef<[u8]>,
        expires: SystemTime,
    ) -> Result<bool> {
        self.handle.put(key.as_key(), value.as_ref(), Some(to_ms(expires)))
    }

    /// As [`put`](Tree::put), for this long from now on. See
    /// [`Store::put_for`](crate::Store::put_for).
    ///
    /// # Errors
    /// Those of [`Store::put_for`](crate::Store::put_for).
    pub fn put_for(&self, key: impl AsKey, value: impl AsRef<[u8]>, ttl: Duration) -> Result<bool> {
        let expires_ms = self.handle.expires_after(ttl);
        self.handle.put(key.as_key(), value.as_ref(), Some(expires_ms))
    }

    /// As [`put`](Tree::put), and returns the value that was replaced. See
    /// [`Store::insert`](crate::Store::insert).
    ///
    /// # Errors
    /// Those of [`Store::insert`](crate::Store::insert).
    pub fn insert(&self, key: impl AsKey, value: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.handle.exchange(key.as_key(), Some(value.as_ref()))
    }

    /// Stores `value` if `key` is absent; whether it did. See
    /// [`Store::put_if_absent`](crate::Store::put_if_absent).
    ///
    /// # Errors
    /// Those of [`Store::put_if_absent`](crate::Store::put_if_absent).
    pub fn put_if_absent(&self, key: impl AsKey, value: impl AsRef<[u8]>) -> Result<bool> {
        self.handle.put_if(key.as_key(), value.as_ref(), false)
    }

    /// Stores `value` if `key` is present; whether it did. See
    /// [`Store::replace`](crate::Store::replace).
    ///
    /// # Errors
    /// Those of [`Store::replace`](crate::Store::replace).
    pub fn replace(&self, key: impl AsKey, value: impl AsRef<[u8]>) -> Result<bool> {
        self.handle.put_if(key.as_key(), value.as_ref(), true)
    }

    /// Makes `new` the value of `key` if its value is `expected`; whether it did. See
    /// [`Store::compare_and_swap`](crate::Store::compare_and_swap).
    ///
    /// # Errors
    /// Those of [`Store::compare_and_swap`](crate::Store::compare_and_swap).
    pub fn compare_and_swap(
        &self,
        key: impl AsKey,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        self.handle.compare_and_swap(key.as_key(), expected, new)
    }

    /// Changes the value of `key` in place. See [`Store::update`](crate::Store::update).
    ///
    /// # Errors
    /// Those of [`Store::update`](crate::Store::update).
    pub fn update<N: Into<Vec<u8>>>(
        &self,
        key: impl AsKey,
        mut change: impl FnMut(Option<&[u8]>) -> Option<N>,
    ) -> Result<Option<Vec<u8>>> {
        self.handle.update(key.as_key(), &mut |old| Ok(change(old).map(N::into)))
    }

    /// Removes `key` and returns its value. See [`Store::remove`](crate::Store::remove).
    ///
    /// # Errors
    /// Those of [`Store::remove`](crate::Store::remove).
    pub fn remove(&self, key: impl AsKey) -> Result<Option<Vec<u8>>> {
        self.handle.exchange(key.as_key(), None)
    }

    /// Removes `key`; whether it was present. See [`Store::delete`](crate::Store::delete).
    ///
    /// # Errors
    /// Those of [`Store::delete`](crate::Store::delete).
    pub fn delete(&self, key: impl AsKey) -> Result<bool> {
        self.handle.delete(key.as_key())
    }

    /// Stores many values, all or none. See [`Store::put_many`](crate::Store::put_many).
    ///
    /// # Errors
    /// Those of [`Store::put_many`](crate::Store::put_many).
    pub fn put_many<K: AsKey, V: AsRef<[u8]>>(
        &self,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<()> {
        let mut batch = self.batch();
        batch.extend(entries)?;
        batch.commit().map(drop)
    }

    /// Stores many values, some hundred at a time. See [`Store::extend`](crate::Store::extend).
    ///
    /// # Errors
    /// Those of [`Store::extend`](crate::Store::extend).
    pub fn extend<K: AsKey, V: AsRef<[u8]>>(
        &self,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<()> {
        in_batches(&self.handle, entries, |batch, (key, value)| batch.put(key, value).map(drop))
    }

    /// A key, whose value is read and written in one step. See
    /// [`Store::entry`](crate::Store::entry).
    pub fn entry<K: AsKey>(&self, key: K) -> TreeEntry<'_, K> {
        TreeEntry::new(&self.handle, key.as_key().to_owned(), key)
    }

    /// Removes and returns the entry with the smallest key. See
    /// [`Store::pop_first`](crate::Store::pop_first).
    ///
    /// # Errors
    /// Those of [`Store::pop_first`](crate::Store::pop_first).
    pub fn pop_first(&self) -> Result<Option<Entry>> {
        self.handle.pop(Direction::Forward)
    }

    /// Removes and returns the entry with the greatest key. See
    /// [`Store::pop_first`](crate::Store::pop_first).
    ///
    /// # Errors
    /// Those of [`Store::pop_first`](crate::Store::pop_first).
    pub fn pop_last(&self) -> Result<Option<Entry>> {
        self.handle.pop(Direction::Backward)
    }

    /// Removes each entry for which `keep` returns false. Returns how many were removed. See
    /// [`Store::retain`](crate::Store::retain).
    ///
    /// # Errors
    /// Those of [`Store::retain`](crate::Store::retain).
    pub fn retain(&self, mut keep: impl FnMut(Key<'_>, &[u8]) -> bool) -> Result<u64> {
        self.handle.retain(&mut |key, value| Ok(keep(key, value)))
    }

    /// Removes every entry whose key lies in a range. Returns how many there were. See
    /// [`Store::delete_range`](crate::Store::delete_range).
    ///
    /// # Errors
    /// Those of [`Store::delete_range`](crate::Store::delete_range).
    pub fn delete_range(&self, range: impl KeyRange) -> Result<u64> {
        self.delete_in(Scan::of(range))
    }

    /// Removes every entry that `scan` describes. Returns how many there were.
    ///
    /// # Errors
    /// As [`delete_range`](Tree::delete_range).
    pub fn delete_in(&self, scan: impl Into<Scan>) -> Result<u64> {
        self.handle.delete_in(scan.into())
    }
}

impl<'t> IntoIterator for &'t Tree {
    type Item = Result<Entry>;
    type IntoIter = Range<'t>;

    fn into_iter(self) -> Range<'t> {
        self.iter()
    }
}

impl<K, V> Clone for Tree<K, V> {
    fn clone(&self) -> Self {
        Self::over(self.handle.clone())
    }
}

impl<K, V> fmt::Debug for Tree<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree").field("key_type", &self.handle.key_type()).finish_non_exhaustive()
    }
}
