//! Batches: writes that happen together or not at all.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::backend::{Backend, Written};
use crate::clock::to_ms;
use crate::error::check_value;
use crate::keyspace::Space;
use crate::life::Life;
use crate::{Error, Key, OwnedKey, Tree};

/// When a write of a batch takes place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Put,
    Insert,
    Update,
    Delete,
}

/// One write of a batch. Its key is the index's.
#[derive(Clone, Debug)]
pub struct Write {
    /// Of the tree that the key is of.
    pub(crate) life: Life,
    pub(crate) key: OwnedKey,
    pub(crate) kind: Kind,
    pub(crate) value: Box<[u8]>,
    pub(crate) expires_ms: Option<u64>,
}

/// Writes that are gathered, in DRAM, until [`commit`](Batch::commit) does all of them or none,
/// whatever happens: a crash at any instruction, a full pool, a full disk. They may be of several
/// trees of a store.
///
/// The writes count in their order: a later one sees what an earlier one did, and only the last
/// state of each key is ever stored. Who reads a key of the batch meanwhile sees all of the batch
/// or nothing of it, and an iterator takes each of its steps (some hundred entries) before the
/// batch or after it.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
/// #     .create(folder.path().join("a.pool"))?;
/// # store.put("alice", b"100")?;
/// let journal = store.tree("journal")?;
/// let mut batch = store.batch();
/// batch.put("alice", b"70")?;
/// batch.put("bob", b"30")?;
/// batch.on(&journal)?.insert("0001", b"alice to bob: 30")?;
/// batch.commit()?;
/// assert_eq!(journal.get("0001")?.as_deref(), Some(&b"alice to bob: 30"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing is written before `commit`"]
pub struct Batch {
    backend: Arc<dyn Backend>,
    space: Space,
    life: Life,
    writes: Vec<Write>,
}

/// The part of a batch that concerns one tree.
pub struct BatchOn<'b> {
    batch: &'b mut Batch,
    space: Space,
    life: Life,
}

impl Batch {
    pub(crate) fn new(backend: Arc<dyn Backend>, space: Space, life: Life) -> Self {
        Self { backend, space, life, writes: Vec::new() }
    }

    /// Makes what follows concern another tree of the same store.
    ///
    /// # Errors
    /// [`Error::OtherStore`].
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// let (stock, sold) = (store.tree("stock")?, store.tree("sold")?);
    /// let mut batch = store.batch();
    /// batch.on(&stock)?.delete("the last apple")?;
    /// batch.on(&sold)?.put("the last apple", b"to ann")?;
    /// assert_eq!(batch.commit()?, [false, true], "there was none to remove, which is no error");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on(&mut self, tree: &Tree) -> Result<BatchOn<'_>, Error> {
        if !std::ptr::addr_eq(Arc::as_ptr(&self.backend), Arc::as_ptr(tree.backend())) {
            return Err(Error::OtherStore);
        }
        Ok(BatchOn { space: tree.space(), life: tree.life().clone(), batch: self })
    }

    fn here(&mut self) -> BatchOn<'_> {
        BatchOn { space: self.space, life: self.life.clone(), batch: self }
    }

    /// Will store a value, in place of the one that there may be.
    ///
    /// # Errors
    /// [`Error::WrongKeyType`], [`Error::ValueTooLong`], a key that is too long.
    pub fn put<'k>(&mut self, key: impl Into<Key<'k>>, value: &[u8]) -> Result<(), Error> {
        self.here().put(key, value)
    }

    /// Will store a value that is absent from a moment on.
    ///
    /// # Errors
    /// As [`put`](Batch::put).
    pub fn put_until<'k>(
        &mut self,
        key: impl Into<Key<'k>>,
        value: &[u8],
        expires: SystemTime,
    ) -> Result<(), Error> {
        self.here().put_until(key, value, expires)
    }

    /// Will store a value that is absent so long after now.
    ///
    /// # Errors
    /// As [`put`](Batch::put).
    pub fn put_for<'k>(
        &mut self,
        key: impl Into<Key<'k>>,
        value: &[u8],
        life: Duration,
    ) -> Result<(), Error> {
        self.here().put_for(key, value, life)
    }

    /// Will store a value if the key is absent then.
    ///
    /// # Errors
    /// As [`put`](Batch::put).
    pub fn insert<'k>(&mut self, key: impl Into<Key<'k>>, value: &[u8]) -> Result<(), Error> {
        self.here().insert(key, value)
    }

    /// Will store a value if the key is present then.
    ///
    /// # Errors
    /// As [`put`](Batch::put).
    pub fn update<'k>(&mut self, key: impl Into<Key<'k>>, value: &[u8]) -> Result<(), Error> {
        self.here().update(key, value)
    }

    /// Will remove a key, if it is present then.
    ///
    /// # Errors
    /// As [`put`](Batch::put).
    pub fn delete<'k>(&mut self, key: impl Into<Key<'k>>) -> Result<(), Error> {
        self.here().delete(key)
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
    /// insertion, update or removal is no error and the others take place.
    ///
    /// Beyond the lines of the records, and with `fptree` and `u64` keys, n new keys cost about 2.3
    /// n flushes and 2 n fences; by themselves they would cost 5 n and 4 n. The pool must have room
    /// for all new values while the old ones are still there.
    ///
    /// # Errors
    /// [`Error::is_full`], [`Error::TreeDropped`] and all others: nothing was written.
    /// [`Error::Interrupted`]: damage was
    /// met after the point of no return; opening the store again completes the batch.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20)
    /// #     .create(folder.path().join("a.pool"))?;
    /// let mut batch = store.batch();
    /// batch.put("key", b"value")?;
    /// batch.update("nothing", b"value")?;
    /// assert_eq!(batch.commit()?, [true, false]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn commit(self) -> Result<Vec<bool>, Error> {
        let written = self.backend.apply(&self.writes)?;
        Ok(written
            .into_iter()
            .zip(&self.writes)
            .map(|(written, write)| took_place(written, write.kind))
            .collect())
    }
}

fn took_place(written: Written, kind: Kind) -> bool {
    written.done && (kind != Kind::Delete || written.was_present)
}

impl BatchOn<'_> {
    fn add(
        &mut self,
        key: Key<'_>,
        kind: Kind,
        value: &[u8],
        expires_ms: Option<u64>,
    ) -> Result<(), Error> {
        check_value(value)?;
        let key = self.space.encode(key)?.as_key().to_owned();
        let (life, value) = (self.life.clone(), value.into());
        self.batch.writes.push(Write { life, key, kind, value, expires_ms });
        Ok(())
    }

    /// As [`Batch::put`].
    ///
    /// # Errors
    /// As there.
    pub fn put<'k>(&mut self, key: impl Into<Key<'k>>, value: &[u8]) -> Result<(), Error> {
        self.add(key.into(), Kind::Put, value, None)
    }

    /// As [`Batch::put_until`].
    ///
    /// # Errors
    /// As there.
    pub fn put_until<'k>(
        &mut self,
        key: impl Into<Key<'k>>,
        value: &[u8],
        expires: SystemTime,
    ) -> Result<(), Error> {
        self.add(key.into(), Kind::Put, value, Some(to_ms(expires)))
    }

    /// As [`Batch::put_for`].
    ///
    /// # Errors
    /// As there.
    pub fn put_for<'k>(
        &mut self,
        key: impl Into<Key<'k>>,
        value: &[u8],
        life: Duration,
    ) -> Result<(), Error> {
        let expires_ms = self
            .batch
            .backend
            .now_ms()
            .saturating_add(u64::try_from(life.as_millis()).unwrap_or(u64::MAX));
        self.add(key.into(), Kind::Put, value, Some(expires_ms))
    }

    /// As [`Batch::insert`].
    ///
    /// # Errors
    /// As there.
    pub fn insert<'k>(&mut self, key: impl Into<Key<'k>>, value: &[u8]) -> Result<(), Error> {
        self.add(key.into(), Kind::Insert, value, None)
    }

    /// As [`Batch::update`].
    ///
    /// # Errors
    /// As there.
    pub fn update<'k>(&mut self, key: impl Into<Key<'k>>, value: &[u8]) -> Result<(), Error> {
        self.add(key.into(), Kind::Update, value, None)
    }

    /// As [`Batch::delete`].
    ///
    /// # Errors
    /// As there.
    pub fn delete<'k>(&mut self, key: impl Into<Key<'k>>) -> Result<(), Error> {
        self.add(key.into(), Kind::Delete, &[], None)
    }
}
