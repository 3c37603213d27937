//! Batches: writes that happen together or not at all.

use std::fmt;
use std::marker::PhantomData;
use std::time::{Duration, SystemTime};

use crate::core::backend::WriteOutcome;
use crate::core::keyspace::Space;
use crate::core::tree_liveness::TreeLiveness;
use crate::core::value::Expiry;
use crate::core::write::{Kind, Write};
use crate::error::check_value;
use crate::handle::Handle;
use crate::untyped::encode_value;
use crate::{AsKey, Error, Key, OwnedKey, Result, Tree};

/// Writes that are gathered, in DRAM, until [`commit`](Batch::commit) does all of them or none,
/// whatever happens: a crash at any instruction, a full pool, a full disk. They may be of several
/// trees of a store.
///
/// The writes count in their order: a later one sees what an earlier one did, and only the last
/// state of each key is ever stored. A reader of a key of the batch sees all of the batch or
/// nothing of it, and an iterator takes each of its steps (some hundred entries) before the batch
/// or after it.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
/// # store.put("alice", b"100")?;
/// let journal = store.tree("journal")?;
/// let mut batch = store.batch();
/// batch.put("alice", "70")?.put("bob", "30")?;
/// batch.on(&journal)?.put_if_absent("0001", "alice to bob: 30")?;
/// batch.commit()?;
/// assert_eq!(journal.get("0001")?.as_deref(), Some(&b"alice to bob: 30"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing is written before `commit`"]
pub struct Batch {
    /// Of the tree that writes concern if nothing else is said.
    handle: Handle,
    writes: Vec<Write>,
    value_bytes: usize,
}

/// The part of a batch that concerns one tree.
pub struct BatchOn<'b, K = OwnedKey, V = Vec<u8>> {
    batch: &'b mut Batch,
    space: Space,
    life: TreeLiveness,
    expiry: Option<Expiry>,
    types: PhantomData<fn() -> (K, V)>,
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("writes", &self.writes.len()).finish_non_exhaustive()
    }
}

impl Batch {
    pub(crate) fn new(handle: Handle) -> Self {
        Self { handle, writes: Vec::new(), value_bytes: 0 }
    }

    /// Makes what follows concern another tree of the same store, typed or not.
    ///
    /// # Errors
    /// [`Error::OtherStore`].
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// let (stock, sold) = (store.tree("stock")?, store.typed_tree::<u64, String>("sold")?);
    /// let mut batch = store.batch();
    /// batch.on(&stock)?.delete("the last apple")?;
    /// batch.on(&sold)?.put(1, "the last apple, to ann")?;
    /// assert_eq!(batch.commit()?, [false, true], "removing an absent key is not an error");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on<K, V>(&mut self, tree: &Tree<K, V>) -> Result<BatchOn<'_, K, V>> {
        if !tree.handle().is_of(self.handle.backend()) {
            return Err(Error::OtherStore);
        }
        let (space, life) = (tree.handle().space(), tree.handle().life().clone());
        let expiry = tree.handle().expiry_of_writes();
        Ok(BatchOn { batch: self, space, life, expiry, types: PhantomData })
    }

    fn here(&mut self) -> BatchOn<'_> {
        let (space, life) = (self.handle.space(), self.handle.life().clone());
        let expiry = self.handle.expiry_of_writes();
        BatchOn { batch: self, space, life, expiry, types: PhantomData }
    }

    /// Number of writes.
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Does all writes, durably when it returns; tells of each whether it took place: a refused
    /// insertion, update, touch or removal is not an error and the others take place.
    ///
    /// With `fptree`, `fptree-c` and `ptree` it costs 4 fences, 5 if it removes keys too, and 2 for
    /// each further 128 leaves that it changes; beyond the lines of the records a flush for each
    /// line of entries and each leaf that changes, and one for 4 keys. Leaves that are split or
    /// emptied come on top. By themselves n new keys would cost 4 n flushes and 2 n fences. With
    /// the other engines each key costs what it costs the index, besides. The pool must have room
    /// for all new values while the old ones are still there. A batch of removals and of values
    /// that are no longer than those which they replace has the pool's reserve for that.
    ///
    /// # Errors
    /// [`Error::is_full`], [`Error::TreeDropped`] and all others: nothing was written.
    /// [`Error::Interrupted`]: damage was
    /// met after the point of no return; opening the store again completes the batch.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// let mut batch = store.batch();
    /// batch.put("key", "value")?;
    /// batch.replace("nothing", "value")?;
    /// assert_eq!(batch.commit()?, [true, false]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn commit(self) -> Result<Vec<bool>> {
        let written = self.handle.backend().apply(&self.writes)?;
        Ok(written
            .into_iter()
            .zip(&self.writes)
            .map(|(written, write)| took_place(written, write.kind))
            .collect())
    }
}

fn took_place(written: WriteOutcome, kind: Kind) -> bool {
    written.done && (kind != Kind::Delete || written.was_present)
}

impl<K, V> BatchOn<'_, K, V> {
    /// As [`Batch::here`].
    pub(crate) fn here(&mut self) -> &mut Self {
        self
    }

    pub(crate) fn add(
        &mut self,
        key: Key<'_>,
        kind: Kind,
        value: &[u8],
        expiry: Option<Expiry>,
    ) -> Result<()> {
        check_value(value)?;
        let key = self.space.encode(key)?.as_key().to_owned();
        let expiry = expiry.or(self.expiry).unwrap_or(Expiry::Never);
        let expiry = expiry.counted_from(|| self.batch.handle.backend().now_ms());
        self.batch.value_bytes += value.len();
        let (life, value) = (self.life.clone(), value.into());
        self.batch.writes.push(Write { life, key, kind, value, expiry });
        Ok(())
    }
}

/// The methods that write. What stands for keys and values is given by its trait, and how it is
/// encoded.
macro_rules! batch_methods {
    (key: $AsKey:path, $key:path; value: $AsValue:path, $value:path;) => {
        /// Will store a value, in place of the one that there may be.
        ///
        /// # Errors
        /// [`WrongKeyType`](crate::Error::WrongKeyType),
        /// [`ValueTooLong`](crate::Error::ValueTooLong),
        /// [`NotEncodable`](crate::Error::NotEncodable) of a typed tree, a key that is too long.
        ///
        /// # Examples
        /// ```
        /// # let folder = tempfile::tempdir()?;
        /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
        /// let ages = store.typed_tree::<String, u8>("ages")?;
        /// let mut batch = store.batch();
        /// batch.put("ann", "70")?.put("bob", "30")?.delete("eve")?;
        /// batch.on(&ages)?.put("ann", 31)?.put("bob", 33)?;
        /// batch.commit()?;
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn put(&mut self, key: impl $AsKey, value: impl $AsValue) -> Result<&mut Self> {
            self.here().add($key(&key).as_key(), Kind::Put, &$value(&value)?, None)?;
            Ok(self)
        }

        /// The same as [`put`](Self::put), by the name that maps have for it.
        ///
        /// # Errors
        /// As [`put`](Self::put).
        pub fn insert(&mut self, key: impl $AsKey, value: impl $AsValue) -> Result<&mut Self> {
            self.put(key, value)
        }

        /// Will store many values, as [`put`](Self::put).
        ///
        /// # Errors
        /// As [`put`](Self::put); the entries before the one that is refused stay in the batch.
        ///
        /// # Examples
        /// ```
        /// # let folder = tempfile::tempdir()?;
        /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
        /// let mut batch = store.batch();
        /// batch.extend([("ash", "Fraxinus"), ("oak", "Quercus")])?.delete("elm")?;
        /// batch.commit()?;
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn extend<Q: $AsKey, W: $AsValue>(
            &mut self,
            entries: impl IntoIterator<Item = (Q, W)>,
        ) -> Result<&mut Self> {
            entries.into_iter().try_for_each(|(key, value)| self.put(key, value).map(drop))?;
            Ok(self)
        }

        /// Will store a value that is absent from a moment on.
        ///
        /// # Errors
        /// As [`put`](Self::put).
        pub fn put_until(
            &mut self,
            key: impl $AsKey,
            value: impl $AsValue,
            expires: SystemTime,
        ) -> Result<&mut Self> {
            let expiry = Some(Expiry::At(expires));
            self.here().add($key(&key).as_key(), Kind::Put, &$value(&value)?, expiry)?;
            Ok(self)
        }

        /// Will store a value that is absent once `ttl` has passed from now on.
        ///
        /// # Errors
        /// As [`put`](Self::put).
        pub fn put_for(
            &mut self,
            key: impl $AsKey,
            value: impl $AsValue,
            ttl: Duration,
        ) -> Result<&mut Self> {
            let expiry = Some(Expiry::After(ttl));
            self.here().add($key(&key).as_key(), Kind::Put, &$value(&value)?, expiry)?;
            Ok(self)
        }

        /// Will let the value that a key has then live until `ttl` has passed from now on.
        ///
        /// # Errors
        /// As [`put`](Self::put).
        ///
        /// # Examples
        /// ```
        /// # let folder = tempfile::tempdir()?;
        /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
        /// use std::time::Duration;
        ///
        /// store.put_many([("session", "of ann"), ("cart", "an apple")])?;
        /// let mut batch = store.batch();
        /// batch.touch("session", Duration::from_secs(60))?.persist("cart")?;
        /// assert_eq!(batch.commit()?, [true, true]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pub fn touch(&mut self, key: impl $AsKey, ttl: Duration) -> Result<&mut Self> {
            let expiry = Some(Expiry::After(ttl));
            self.here().add($key(&key).as_key(), Kind::Touch, &[], expiry)?;
            Ok(self)
        }

        /// Will let the value that a key has then stay for ever.
        ///
        /// # Errors
        /// As [`put`](Self::put).
        pub fn persist(&mut self, key: impl $AsKey) -> Result<&mut Self> {
            self.here().add($key(&key).as_key(), Kind::Touch, &[], Some(Expiry::Never))?;
            Ok(self)
        }

        /// Will store a value if the key is absent then.
        ///
        /// # Errors
        /// As [`put`](Self::put).
        pub fn put_if_absent(
            &mut self,
            key: impl $AsKey,
            value: impl $AsValue,
        ) -> Result<&mut Self> {
            self.here().add($key(&key).as_key(), Kind::Insert, &$value(&value)?, None)?;
            Ok(self)
        }

        /// Will store a value if the key is present then.
        ///
        /// # Errors
        /// As [`put`](Self::put).
        pub fn replace(&mut self, key: impl $AsKey, value: impl $AsValue) -> Result<&mut Self> {
            self.here().add($key(&key).as_key(), Kind::Update, &$value(&value)?, None)?;
            Ok(self)
        }

        /// Will remove a key, if it is present then.
        ///
        /// # Errors
        /// As [`put`](Self::put).
        pub fn delete(&mut self, key: impl $AsKey) -> Result<&mut Self> {
            self.here().add($key(&key).as_key(), Kind::Delete, &[], None)?;
            Ok(self)
        }

        /// The same as [`delete`](Self::delete), by the name that maps have for it. What was
        /// removed is not returned: nothing is read before the commit.
        ///
        /// # Errors
        /// As [`put`](Self::put).
        pub fn remove(&mut self, key: impl $AsKey) -> Result<&mut Self> {
            self.delete(key)
        }
    };
}
pub(crate) use batch_methods;

/// Writes of the tree that the batch is of; see [`on`](Batch::on) for others.
impl Batch {
    batch_methods! { key: AsKey, AsKey::as_key; value: AsRef<[u8]>, encode_value; }
}

/// Of a tree whose keys and values have no types.
impl BatchOn<'_> {
    batch_methods! { key: AsKey, AsKey::as_key; value: AsRef<[u8]>, encode_value; }
}

/// Entries that [`in_batches`] commits at a time: one sync of a disk for so many.
const STEP_ENTRIES: usize = 1024;
/// Bytes of values after which it commits earlier.
const STEP_BYTES: usize = 1 << 20;

/// Adds all entries, and commits some at a time, each time all or none.
pub(crate) fn in_batches<E>(
    handle: &Handle,
    entries: impl IntoIterator<Item = E>,
    mut add: impl FnMut(&mut Batch, E) -> Result<()>,
) -> Result<()> {
    let mut batch = Batch::new(handle.clone());
    for entry in entries {
        add(&mut batch, entry)?;
        if batch.len() >= STEP_ENTRIES || batch.value_bytes >= STEP_BYTES {
            std::mem::replace(&mut batch, Batch::new(handle.clone())).commit()?;
        }
    }
    batch.commit().map(drop)
}
