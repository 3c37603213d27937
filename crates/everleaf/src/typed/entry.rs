//! A key whose value is read and written in one step, as a map's `entry`.

use std::fmt;

use super::range::decode_value;
use crate::handle::Handle;
use crate::{OwnedKey, Result, StoredValue, ValueFor};

/// A key of a tree, and what is to be done with its value; made by
/// [`Tree::entry`](crate::Tree::entry) and [`Tree::entry`](crate::Tree::entry).
///
/// It is no lock: other threads read and write the key meanwhile. [`and_modify`] is only noted.
/// [`or_insert`] and its kin then do everything in one step, which is atomic, and durable when they
/// return, as each other write is: if another thread has written the key in between, the step
/// begins again with the value that is then there. So no count is lost in
/// `entry(key).and_modify(|count| *count += 1).or_insert(1)`.
///
/// A step costs a read and, unless the key was present and nothing modifies it, the write of a
/// [`compare_and_swap`](crate::Tree::compare_and_swap). A value that is modified expires when it
/// would have. Closures run without a lock and may call the store; those of `and_modify` run again
/// where the step begins again.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
/// let visitors = store.typed_tree::<String, Vec<u8>>("visitors")?;
/// visitors.entry("monday").and_modify(|names| names.extend(b", bob")).or_insert("ann")?;
/// visitors.entry("monday").and_modify(|names| names.extend(b", bob")).or_insert("ann")?;
/// assert_eq!(visitors.get("monday")?.as_deref(), Some(&b"ann, bob"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`and_modify`]: TreeEntry::and_modify
/// [`or_insert`]: TreeEntry::or_insert
#[must_use = "nothing is written before `or_insert` or another call that ends it"]
pub struct TreeEntry<'t, Q, V = Vec<u8>> {
    handle: &'t Handle,
    encoded: OwnedKey,
    key: Q,
    changes: Vec<Change<'t, V>>,
}

/// What `and_modify` is given.
type Change<'t, V> = Box<dyn FnMut(&mut V) + 't>;

impl<'t, Q, V: StoredValue> TreeEntry<'t, Q, V> {
    pub(crate) fn new(handle: &'t Handle, encoded: OwnedKey, key: Q) -> Self {
        Self { handle, encoded, key, changes: Vec::new() }
    }

    /// The key, as it was given.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// assert_eq!(store.entry("ann").key(), &"ann");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn key(&self) -> &Q {
        &self.key
    }

    /// Will change the value, if the key is present, in the step of the call that follows. To do
    /// nothing but this, take [`update`](crate::Tree::update).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// let counts = store.typed_tree::<String, u64>("counts")?;
    /// counts.put("visits", 7)?;
    /// let count = counts.entry("visits").and_modify(|count| *count += 1).or_insert(1)?;
    /// assert_eq!(count, 8);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn and_modify(mut self, change: impl FnMut(&mut V) + 't) -> Self {
        self.changes.push(Box::new(change));
        self
    }

    /// Stores `default` if the key is absent. Returns the value that the key has then.
    ///
    /// # Errors
    /// As [`Tree::put`](crate::Tree::put). Of a typed tree
    /// [`WrongType`](crate::Error::WrongType), if the stored value is not a `V`: it stays; and
    /// [`NotEncodable`](crate::Error::NotEncodable).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// let colours = store.typed_tree::<String, String>("colours")?;
    /// assert_eq!(colours.entry("sky").or_insert("blue")?, "blue");
    /// assert_eq!(colours.entry("sky").or_insert("grey")?, "blue");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn or_insert(self, default: impl ValueFor<V>) -> Result<V> {
        self.or_insert_with(|| default)
    }

    /// As [`or_insert`](TreeEntry::or_insert), of a value that is made only if the key is absent.
    ///
    /// # Errors
    /// As [`or_insert`](TreeEntry::or_insert).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// let lengths = store.typed_tree::<String, u64>("lengths")?;
    /// let mut makes = 0;
    /// for _ in 0..2 {
    ///     let length = lengths.entry("walk").or_insert_with(|| {
    ///         makes += 1;
    ///         3 * 7
    ///     })?;
    ///     assert_eq!(length, 21);
    /// }
    /// assert_eq!(makes, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn or_insert_with<W: ValueFor<V>>(self, make: impl FnOnce() -> W) -> Result<V> {
        self.or_insert_with_key(|_| make())
    }

    /// As [`or_insert_with`](TreeEntry::or_insert_with), with the key.
    ///
    /// # Errors
    /// As [`or_insert`](TreeEntry::or_insert).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// let lengths = store.typed_tree::<String, usize>("lengths")?;
    /// assert_eq!(lengths.entry("ash").or_insert_with_key(|word| word.len())?, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn or_insert_with_key<W: ValueFor<V>>(mut self, make: impl FnOnce(&Q) -> W) -> Result<V> {
        let (mut make, mut made) = (Some(make), Vec::new());
        loop {
            let old = self.handle.get(self.encoded.as_ref())?;
            let new = match &old {
                Some(old) if self.changes.is_empty() => return decode_value(old),
                Some(old) => self.changed(old)?.encode()?.into_owned(),
                None => {
                    if let Some(make) = make.take() {
                        made = make(&self.key).encode()?.into_owned();
                    }
                    made.clone()
                }
            };
            if self.handle.compare_and_swap(self.encoded.as_ref(), old.as_deref(), Some(&new))? {
                return decode_value(&new);
            }
        }
    }

    /// As [`or_insert`](TreeEntry::or_insert), of the default of the type.
    ///
    /// # Errors
    /// As [`or_insert`](TreeEntry::or_insert).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// let counts = store.typed_tree::<String, u64>("counts")?;
    /// assert_eq!(counts.entry("visits").or_default()?, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn or_default(self) -> Result<V>
    where
        V: Default,
    {
        self.or_insert_with(V::default)
    }

    /// Removes the key, and returns the value that it had, with the changes of
    /// [`and_modify`](TreeEntry::and_modify).
    ///
    /// # Errors
    /// As [`Tree::remove`](crate::Tree::remove). What is no `V` is removed all the same.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// let counts = store.typed_tree::<String, u64>("counts")?;
    /// counts.put("visits", 7)?;
    /// assert_eq!(counts.entry("visits").remove()?, Some(7));
    /// assert_eq!(counts.entry("visits").remove()?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn remove(mut self) -> Result<Option<V>> {
        let old = self.handle.exchange(self.encoded.as_ref(), None)?;
        old.map(|old| self.changed(&old)).transpose()
    }

    /// A value with the changes of `and_modify`.
    fn changed(&mut self, old: &[u8]) -> Result<V> {
        let mut value = decode_value(old)?;
        self.changes.iter_mut().for_each(|change| change(&mut value));
        Ok(value)
    }
}

impl<Q: fmt::Debug, V> fmt::Debug for TreeEntry<'_, Q, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TreeEntry").field("key", &self.key).finish_non_exhaustive()
    }
}
