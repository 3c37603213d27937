//! The store itself.

use std::fmt;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use everleaf_pool::KeyType;
use parking_lot::Mutex;

use crate::backend::Backend;
use crate::expiry::{self, Sweeper, Swept};
use crate::keyspace::{CatalogEntry, Space};
use crate::snapshot::{DEFAULT_SNAPSHOT_BYTES, Snapshot};
use crate::view::View;
use crate::{Capabilities, CheckOutcome, CreateOptions, Engine, Error, Key, OpenOptions, Scan, Statistics, Tree};

/// A pool file that was opened: an ordered map from keys to byte values, which reads and writes as a [`Tree`] does, with further trees by name beside it.
///
/// Dropping a store closes it; [`close`](Store::close) also tells whether that worked. A process that dies leaves a pool that is recovered when it is opened. Trees,
/// views and iterators that were made of a store are closed with it: what they are asked then is [`Error::Closed`].
pub struct Store {
    tree: Tree,
    /// Held while the names of the trees change.
    catalog: Mutex<()>,
    sweeper: Mutex<Option<Sweeper>>,
}

impl Store {
    /// Makes a pool file with byte-string keys and defaults for everything else; see [`CreateOptions`] for more.
    ///
    /// # Errors
    /// As [`CreateOptions::create`].
    pub fn create(path: impl AsRef<Path>) -> Result<Self, Error> {
        CreateOptions::new().create(path)
    }

    /// Opens a pool file to read and write; see [`OpenOptions`] for more.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        OpenOptions::new().open(path)
    }

    /// Opens a pool file to read; the file is not written, whatever state it is in.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self, Error> {
        OpenOptions::new().read_only(true).open(path)
    }

    pub(crate) fn over(backend: Arc<dyn Backend>) -> Self {
        let space = Space::of_store(backend.key_type());
        Self { tree: Tree::new(backend, space), catalog: Mutex::new(()), sweeper: Mutex::new(None) }
    }

    pub(crate) fn backend(&self) -> &Arc<dyn Backend> {
        self.tree.backend()
    }

    // ---- named trees ------------------------------------------------------------------------------------------------

    /// The tree of that name, with byte-string keys; it is made if there is none. Names are bytes, up to 65,534 of them; a store with byte-string keys has room for
    /// 65,536 trees, one with `u64` keys has none.
    ///
    /// # Errors
    /// [`Error::NoTrees`], [`Error::WrongKeyType`] if it is there with `u64` keys, [`Error::ReadOnly`] if it is not there, as [`put`](Tree::put).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::CreateOptions::new().size_bytes(1 << 20).create(folder.path().join("a.pool"))?;
    /// let (orders, customers) = (store.tree("orders")?, store.tree("customers")?);
    /// orders.put("1", b"ann: 3 apples")?;
    /// customers.put("ann", b"1")?;
    /// assert_eq!((orders.len(), customers.len(), store.len()), (1, 1, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tree(&self, name: impl AsRef<[u8]>) -> Result<Tree, Error> {
        self.tree_with(name, KeyType::Bytes)
    }

    /// As [`tree`](Store::tree), with either kind of keys. A `u64` key of a named tree takes 12 bytes.
    ///
    /// # Errors
    /// As there.
    pub fn tree_with(&self, name: impl AsRef<[u8]>, key_type: KeyType) -> Result<Tree, Error> {
        let name = name.as_ref();
        let catalog = self.catalog()?;
        let _names = self.catalog.lock();
        let entry = match catalog.get(name)? {
            Some(bytes) => read_entry(&bytes)?,
            None => {
                let number = free_number(&catalog)?;
                let entry = CatalogEntry { number, key_type, dropping: false };
                catalog.insert(name, &entry.to_bytes())?;
                entry
            }
        };
        if entry.key_type != key_type {
            return Err(Error::WrongKeyType { expected: entry.key_type });
        }
        Ok(Tree::new(Arc::clone(self.backend()), entry.space()))
    }

    /// The tree of that name, if there is one.
    ///
    /// # Errors
    /// Damage.
    pub fn existing_tree(&self, name: impl AsRef<[u8]>) -> Result<Option<Tree>, Error> {
        let Ok(catalog) = self.catalog() else { return Ok(None) };
        let entry = catalog.get(name.as_ref())?.map(|bytes| read_entry(&bytes)).transpose()?;
        let there = entry.filter(|entry| !entry.dropping);
        Ok(there.map(|entry| Tree::new(Arc::clone(self.backend()), entry.space())))
    }

    /// The names of all trees, in order.
    ///
    /// # Errors
    /// Damage.
    pub fn tree_names(&self) -> Result<Vec<Vec<u8>>, Error> {
        let Ok(catalog) = self.catalog() else { return Ok(Vec::new()) };
        let mut names = Vec::new();
        for entry in catalog.iter() {
            let (name, bytes) = entry?;
            if let (Key::Bytes(name), false) = (name.as_ref(), read_entry(&bytes)?.dropping) {
                names.push(name.to_vec());
            }
        }
        Ok(names)
    }

    /// Removes a tree with all that is in it; false if there is none. From the first moment on the tree is not there, at any crash point; its entries are then removed as by
    /// [`delete_range`](Tree::delete_range), by the next opening if a crash comes in between. Others must have stopped using it.
    ///
    /// # Errors
    /// As [`delete_range`](Tree::delete_range).
    pub fn drop_tree(&self, name: impl AsRef<[u8]>) -> Result<bool, Error> {
        let name = name.as_ref();
        let Some(catalog) = self.catalog().ok().filter(|_| self.capabilities().writable) else {
            return if self.capabilities().writable { Ok(false) } else { Err(Error::ReadOnly) };
        };
        let _names = self.catalog.lock();
        let Some(bytes) = catalog.get(name)? else { return Ok(false) };
        let entry = CatalogEntry { dropping: true, ..read_entry(&bytes)? };
        catalog.put(name, &entry.to_bytes())?;
        Tree::new(Arc::clone(self.backend()), entry.space()).delete_in(Scan::all())?;
        catalog.delete(name)?;
        Ok(true)
    }

    /// Ends the drops that a crash cut.
    pub(crate) fn finish_drops(&self) -> Result<(), Error> {
        let Ok(catalog) = self.catalog() else { return Ok(()) };
        let mut cut = Vec::new();
        for entry in catalog.iter() {
            let (name, bytes) = entry?;
            let entry = read_entry(&bytes)?;
            if entry.dropping {
                cut.push((name, entry));
            }
        }
        for (name, entry) in cut {
            Tree::new(Arc::clone(self.backend()), entry.space()).delete_in(Scan::all())?;
            catalog.delete(&name)?;
        }
        Ok(())
    }

    fn catalog(&self) -> Result<Tree, Error> {
        match self.backend().key_type() {
            KeyType::Bytes => Ok(Tree::new(Arc::clone(self.backend()), Space::Catalog)),
            KeyType::U64 => Err(Error::NoTrees),
        }
    }

    // ---- snapshots ----------------------------------------------------------------------------------------------------

    /// The store, all its trees included, as it is now, to be read while others write. It waits until the writes that are under way have ended.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn snapshot(&self) -> Result<Snapshot, Error> {
        self.snapshot_with_limit(DEFAULT_SNAPSHOT_BYTES)
    }

    /// The same with another limit of what writers copy to DRAM for it; beyond it the snapshot is lost.
    ///
    /// # Errors
    /// As there.
    pub fn snapshot_with_limit(&self, bytes: u64) -> Result<Snapshot, Error> {
        Snapshot::begin(self.backend(), self.tree.space(), bytes)
    }

    // ---- expiry -------------------------------------------------------------------------------------------------------

    /// Removes what has expired, of all trees, and gives its room back: looks at every entry. What expires meanwhile may stay until the next time.
    ///
    /// # Errors
    /// As [`delete`](Tree::delete).
    pub fn remove_expired(&self) -> Result<Swept, Error> {
        expiry::sweep(self.backend(), &mut || true)
    }

    /// Does [`remove_expired`](Store::remove_expired) again and again on a thread of its own, with a pause after each time, until the store is closed or this is called
    /// with another pause. None: no more.
    ///
    /// # Errors
    /// [`Error::ReadOnly`].
    pub fn sweep_every(&self, pause: Option<std::time::Duration>) -> Result<(), Error> {
        if !self.capabilities().writable {
            return Err(Error::ReadOnly);
        }
        *self.sweeper.lock() = pause.map(|pause| Sweeper::start(self.backend(), pause));
        Ok(())
    }

    // ---- the whole ------------------------------------------------------------------------------------------------------

    /// The engine.
    pub fn engine(&self) -> Engine {
        self.backend().engine()
    }

    /// Sizes, shape, and what opening found. Reads the pool's chunk table: one line for each 4 KiB of the pool.
    ///
    /// # Errors
    /// Damage of the chunk table.
    pub fn statistics(&self) -> Result<Statistics, Error> {
        self.backend().statistics()
    }

    /// What the store can do and promise.
    pub fn capabilities(&self) -> Capabilities {
        self.backend().capabilities()
    }

    /// Tests every invariant of the index, every value's checksum and place, and that every block of the pool is reached exactly once or is free: of all trees, which share
    /// the index. Writes nothing; others wait meanwhile.
    ///
    /// # Errors
    /// Only what makes checking itself impossible; what is wrong with the store is in the outcome.
    pub fn check(&self) -> Result<CheckOutcome, Error> {
        self.backend().check()
    }

    /// Returns when everything done before is durable, and writes a pool on an ordinary file system to its file. With the engines that there
    /// are, writes are durable anyway, as far as [`Statistics::durability`] says.
    ///
    /// # Errors
    /// As the system reports.
    pub fn sync(&self) -> Result<(), Error> {
        self.backend().sync()
    }

    /// Closes the store: what it holds is synced to the file, and then the file is marked as closed.
    ///
    /// # Errors
    /// As the system reports; the pool then counts as crashed, and opening it recovers. [`Error::Interrupted`] likewise.
    pub fn close(self) -> Result<(), Error> {
        *self.sweeper.lock() = None;
        self.backend().close()
    }
}

fn read_entry(bytes: &[u8]) -> Result<CatalogEntry, Error> {
    CatalogEntry::read(bytes).ok_or_else(|| Error::corrupt(0, "an entry of the catalog of trees is none"))
}

/// The least number that no tree has.
fn free_number(catalog: &View) -> Result<u16, Error> {
    let mut used = Vec::new();
    for entry in catalog.iter() {
        used.push(read_entry(&entry?.1)?.number);
    }
    used.sort_unstable();
    let free = (0..=u16::MAX).zip(used.iter().map(Some).chain(std::iter::repeat(None))).find(|(n, used)| Some(n) != *used);
    free.map(|(number, _)| number).ok_or(Error::TooManyTrees)
}

impl Deref for Store {
    type Target = Tree;
    fn deref(&self) -> &Tree {
        &self.tree
    }
}

impl Drop for Store {
    /// Closes cleanly where possible. What goes wrong is found when the pool is opened the next time.
    fn drop(&mut self) {
        *self.sweeper.lock() = None;
        let _ = self.backend().close();
    }
}

impl<'s> IntoIterator for &'s Store {
    type Item = Result<crate::Entry, Error>;
    type IntoIter = crate::Range<'s>;

    fn into_iter(self) -> crate::Range<'s> {
        self.tree.iter()
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("engine", &self.engine()).field("key_type", &self.key_type()).finish_non_exhaustive()
    }
}
