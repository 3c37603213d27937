//! The store itself: opening, closing, and what concerns all trees.

use std::fmt;
use std::ops::{ControlFlow, Deref};
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::catalog::NamedTrees;
use crate::control::Control;
use crate::core::backend::{Backend, Swept};
use crate::core::deferred_waits::{self, Unsynced};
use crate::core::keyspace::Space;
use crate::core::tree_liveness::TreeLiveness;
use crate::expiry::{self, Sweeper};
use crate::handle::Handle;
use crate::snapshot::{DEFAULT_SNAPSHOT_BYTES, Snapshot};
use crate::transaction::{Pace, TransactionResult};
use crate::{
    Capabilities, CheckOutcome, CreateOptions, Engine, Entry, Error, OpenOptions, Progress, Range,
    Result, Statistics, Transaction, Tree,
};

/// A pool file that was opened: an ordered map from keys to byte values, with further
/// [trees](Store::tree) by name beside it.
///
/// A store *is* its own tree, the [default tree](Store::default_tree), which has no name: by
/// [`Deref`] it has all methods of a [`Tree`], which writes, and of a [`View`](crate::View), which
/// reads. Here stands what concerns the whole: opening and closing, [named](Store::tree) and
/// [typed](Store::typed_tree) trees, [transactions](Store::transaction),
/// [snapshots](Store::snapshot), [expiry](Store::remove_expired), [checks](Store::check),
/// [copies](Store::copy) and [dumps](Store::dump), [statistics](Store::statistics).
///
/// A store is shared by reference between threads, or cloned: clones are the same store. When the
/// last one is dropped the store is closed; [`close`](Store::close) also tells whether that worked.
/// A process that dies leaves a pool that is recovered when it is opened. Trees, views and
/// iterators that were made of a store are closed with it: what they are asked then is
/// [`Error::Closed`].
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

/// What the clones of a store share.
struct Shared {
    tree: Tree,
    /// Held while the names of the trees change.
    named_trees: Mutex<NamedTrees>,
    sweeper: Mutex<Option<Sweeper>>,
    /// What answers other processes.
    control: Mutex<Control>,
}

impl Store {
    /// Makes a pool file with byte-string keys and defaults for everything else; see
    /// [`CreateOptions`] for more.
    ///
    /// # Errors
    /// As [`CreateOptions::create`].
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("a.pool");
    /// use everleaf::{Error, PoolError, Store};
    ///
    /// let store = Store::create(&path)?;
    /// store.put("key", "value")?;
    /// assert!(matches!(Store::create(&path), Err(Error::Pool(PoolError::Exists { .. }))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create(path: impl AsRef<Path>) -> Result<Self> {
        CreateOptions::new().create(path)
    }

    /// Opens a pool file to read and write; see [`OpenOptions`] for more.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("a.pool");
    /// use everleaf::{Error, PoolError, Store};
    ///
    /// match Store::open(&path) {
    ///     Err(Error::Pool(PoolError::Missing { .. })) => println!("there is none yet"),
    ///     Err(Error::Pool(PoolError::Locked { .. })) => println!("another process has it"),
    ///     opened => drop(opened?),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        OpenOptions::new().open(path)
    }

    /// Opens a pool file to read; the file is not written, whatever state it is in.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("a.pool");
    /// use everleaf::{Error, Store};
    ///
    /// Store::create(&path)?.close()?;
    /// let (one, another) = (Store::open_read_only(&path)?, Store::open_read_only(&path)?);
    /// assert_eq!(one.len()?, another.len()?);
    /// assert!(matches!(one.put("key", "value"), Err(Error::ReadOnly)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self> {
        OpenOptions::new().read_only(true).open(path)
    }

    /// Opens the store at `path`, or makes one with byte-string keys if there is none: see
    /// [`CreateOptions::open_or_create`] for more. Of two processes that do so at once, one makes
    /// the store and the other finds it open.
    ///
    /// # Errors
    /// As [`open`](Store::open) and [`create`](Store::create).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("a.pool");
    /// use everleaf::Store;
    ///
    /// for run in 1..=2 {
    ///     let store = Store::open_or_create(&path)?;
    ///     store.put(format!("run {run}"), "")?;
    ///     assert_eq!(store.len()?, run);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_or_create(path: impl AsRef<Path>) -> Result<Self> {
        CreateOptions::new().open_or_create(path)
    }

    pub(crate) fn over(backend: Arc<dyn Backend>) -> Self {
        let space = Space::of_store(backend.key_type());
        let tree = Tree::over(Handle::new(backend, space, TreeLiveness::OF_STORE));
        let (named_trees, sweeper, control) = Default::default();
        let shared = Shared { tree, named_trees, sweeper, control };
        Self { shared: Arc::new(shared) }
    }

    pub(crate) fn backend(&self) -> &Arc<dyn Backend> {
        self.handle().backend()
    }

    pub(crate) fn named_trees(&self) -> &Mutex<NamedTrees> {
        &self.shared.named_trees
    }

    #[cfg(feature = "control")]
    pub(crate) fn control(&self) -> &Mutex<Control> {
        &self.shared.control
    }

    /// The store's own tree, which has no name: what `get`, `put` and the others of a store read
    /// and write.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// let mut batch = store.tree("words")?.batch();
    /// batch.put("leaf", "a blade of a plant")?;
    /// batch.on(store.default_tree())?.put("words", "1")?;
    /// batch.commit()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn default_tree(&self) -> &Tree {
        &self.shared.tree
    }

    // ---- transactions
    // ---------------------------------------------------------------------------------------------

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
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// # store.put("ann", "100")?;
    /// fn pay(store: &everleaf::Store, from: &str, to: &str, sum: u64) -> everleaf::Result<bool> {
    ///     store.transaction(|tx| {
    ///         let has = |name: &str| -> everleaf::Result<u64> {
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
    pub fn transaction<R, T: TransactionResult<R>>(
        &self,
        mut work: impl FnMut(&mut Transaction) -> T,
    ) -> Result<R> {
        self.try_transaction(|tx| work(tx).into_result())
    }

    /// As [`transaction`](Store::transaction), of a closure that has an error type of its own.
    ///
    /// # Errors
    /// Those of [`transaction`](Store::transaction).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
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
        Transaction::run(self.handle(), Pace::USUAL, work)
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
        Transaction::begin(self.handle())
    }

    // ---- snapshots
    // ---------------------------------------------------------------------------------------------

    /// The store, all its trees included, as it is now, to be read while others write. It waits
    /// until the writes that are under way have ended.
    ///
    /// # Errors
    /// [`Error::Closed`].
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// let counters = store.tree("counters")?;
    /// counters.put("a", "1")?;
    /// let snapshot = store.snapshot()?;
    /// counters.put("a", "2")?;
    /// assert_eq!(snapshot.of(&counters)?.get("a")?.as_deref(), Some(&b"1"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.snapshot_with_limit(DEFAULT_SNAPSHOT_BYTES)
    }

    /// As [`snapshot`](Store::snapshot), with another limit for the values that writers copy to
    /// DRAM for it; beyond the limit the snapshot is lost.
    ///
    /// # Errors
    /// Those of [`snapshot`](Store::snapshot).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// use everleaf::Error;
    ///
    /// store.put("key", "value")?;
    /// let snapshot = store.snapshot_with_limit(0)?;
    /// assert_eq!(snapshot.len()?, 1);
    /// store.put("key", "new")?;
    /// // Writers do not wait for it.
    /// assert!(matches!(snapshot.get("key"), Err(Error::SnapshotLost { limit_bytes: 0 })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn snapshot_with_limit(&self, bytes: u64) -> Result<Snapshot> {
        Snapshot::begin(self.handle(), bytes)
    }

    // ---- expiry
    // ---------------------------------------------------------------------------------------------

    /// Removes what has expired, of all trees, and gives its room back: in time proportional to
    /// what has expired. What expires meanwhile may stay until the next time.
    ///
    /// Which values expire when is kept in DRAM: of each one that does 40 to 50 bytes, and of a
    /// byte-string key its bytes and about 16 more. A pool that has had such values is read once,
    /// beside everything else, after it was opened: this waits until that has ended.
    ///
    /// A write that is refused for want of room does the same before it fails: as many expired
    /// values are removed as are needed, and it is tried again.
    ///
    /// # Errors
    /// As [`delete`](Tree::delete).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// store.put_for("key", "value", std::time::Duration::ZERO)?;
    /// assert_eq!((store.get("key")?, store.len()?, store.statistics()?.entries), (None, 0, 1));
    /// assert_eq!(store.remove_expired()?.removed, 1);
    /// assert_eq!(store.statistics()?.entries, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn remove_expired(&self) -> Result<Swept> {
        self.backend().know_what_expires()?;
        expiry::sweep(self.backend(), &mut || true)
    }

    /// Does [`remove_expired`](Store::remove_expired) again and again on a thread of its own, with
    /// a pause after each time, until the store is closed or this is called with another pause.
    /// With `None` the thread ends. While not all expiries are known yet, it sweeps those that are,
    /// and again soon.
    ///
    /// # Errors
    /// [`Error::ReadOnly`].
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// use std::time::Duration;
    ///
    /// store.sweep_every(Some(Duration::from_secs(60)))?; // until the store is closed
    /// store.sweep_every(None)?; // no more
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sweep_every(&self, pause: Option<std::time::Duration>) -> Result<()> {
        if !self.capabilities().writable {
            return Err(Error::ReadOnly);
        }
        self.backend().ready()?;
        *self.shared.sweeper.lock() = pause.map(|pause| Sweeper::start(self.backend(), pause));
        Ok(())
    }

    // ---- the whole
    // ---------------------------------------------------------------------------------------------

    /// Number of keys in the store's own tree and in all named ones, as [`len`](crate::View::len).
    ///
    /// # Errors
    /// Those of [`len`](crate::View::len).
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// store.put("key", b"")?;
    /// store.tree("words")?.put("leaf", "")?;
    /// assert_eq!((store.len()?, store.len_of_all_trees()?), (1, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn len_of_all_trees(&self) -> Result<u64> {
        self.backend().keys_in(&TreeLiveness::OF_STORE, None)
    }

    /// The engine.
    pub fn engine(&self) -> Engine {
        self.backend().engine()
    }

    /// Sizes, shape, and what opening found. Reads the pool's chunk table: one line for each 4 KiB
    /// of the pool.
    ///
    /// # Errors
    /// Damage of the chunk table.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// let statistics = store.statistics()?;
    /// println!("{} of {} bytes in use", statistics.used_bytes, statistics.total_bytes);
    /// println!("{} survived", statistics.durability);
    /// assert_eq!(statistics.entries, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn statistics(&self) -> Result<Statistics> {
        self.backend().statistics()
    }

    /// What the store can do and promise.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// let can = store.capabilities();
    /// assert!(can.writable && can.concurrent_writers);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn capabilities(&self) -> Capabilities {
        self.backend().capabilities()
    }

    /// Tests every invariant of the index, every value's checksum and place, and that every block
    /// of the pool is reached exactly once or is free: of all trees, which share the index. Writes
    /// nothing; others wait meanwhile.
    ///
    /// # Errors
    /// Only what makes checking itself impossible; what is wrong with the store is in the outcome.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// let outcome = store.check()?;
    /// assert!(outcome.ok, "{:?}", outcome.violations);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check(&self) -> Result<CheckOutcome> {
        self.check_with(|_| ControlFlow::Continue(()))
    }

    /// As [`check`](Store::check), with a callback, which must not call the store. The
    /// index's own invariants are one step, which may be half of the work.
    ///
    /// # Errors
    /// As [`check`](Store::check); [`Error::Aborted`].
    ///
    /// # Examples
    /// ```
    /// use std::ops::ControlFlow;
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// let outcome = store.check_with(|progress| {
    ///     println!("{} of {:?} entries", progress.entries, progress.of_entries);
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert!(outcome.ok);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_with(
        &self,
        mut watch: impl FnMut(&Progress) -> ControlFlow<()>,
    ) -> Result<CheckOutcome> {
        self.backend().check(&mut watch)
    }

    /// Returns when everything done before is durable, as far as [`Statistics::durability`] says:
    /// with an engine of epochs it ends the epoch, with a log it commits a group, and it writes a
    /// pool that is mapped from an ordinary file system to its file. Threads that call it at the
    /// same time share the work. Where writes are `immediate` they are durable anyway.
    ///
    /// # Errors
    /// As the system reports.
    pub fn sync(&self) -> Result<()> {
        self.backend().sync()
    }

    /// Runs `work`, in which calls of this store by this thread wait for no sync of a log: they
    /// return when what they did is done and every thread sees it. What they have written or seen
    /// is durable when [`Unsynced::wait`] has returned, which waits for one sync for all of it;
    /// until then nobody should be told of it. For programs that answer many clients by one thread.
    ///
    /// It changes nothing where calls return durable without a sync (persistent memory), or promise
    /// less than [`Immediate`](crate::DurabilityMode::Immediate). [`sync`](Self::sync) waits here
    /// too, and so does a write that makes the pool grow, and any call that finds the log twice as
    /// long as it should be, or the memory nearly taken.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// let (answers, unsynced) = store.unsynced(|| {
    ///     let first = store.put("a", "1");
    ///     (first, store.get("a"))
    /// });
    /// // ... other work; then, before anybody is told:
    /// unsynced.wait()?;
    /// assert!(!answers.0? && answers.1?.is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn unsynced<R>(&self, work: impl FnOnce() -> R) -> (R, Unsynced) {
        let Some(points) = self.backend().points() else { return (work(), Unsynced::default()) };
        let (result, point) = deferred_waits::within(points.pool(), work);
        (result, Unsynced::of(points, point))
    }

    /// Closes the store, its clones included: what it holds is synced to the file, and then the
    /// file is marked as closed.
    ///
    /// # Errors
    /// As the system reports; the pool then counts as crashed, and opening it recovers.
    /// [`Error::Interrupted`] likewise.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// use everleaf::Error;
    ///
    /// let words = store.tree("words")?;
    /// store.close()?;
    /// assert!(matches!(words.get("leaf"), Err(Error::Closed)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn close(self) -> Result<()> {
        self.backend().ready()?;
        *self.shared.sweeper.lock() = None;
        *self.shared.control.lock() = Control::Off;
        self.backend().close()
    }
}

/// A store is its own tree.
impl Deref for Store {
    type Target = Tree;

    fn deref(&self) -> &Tree {
        &self.shared.tree
    }
}

impl<'s> IntoIterator for &'s Store {
    type Item = Result<Entry>;
    type IntoIter = Range<'s>;

    fn into_iter(self) -> Range<'s> {
        self.iter()
    }
}

impl Drop for Shared {
    /// Closes cleanly where possible. What goes wrong is found when the pool is opened the next
    /// time.
    fn drop(&mut self) {
        let beside = (self.sweeper.get_mut().take(), std::mem::take(self.control.get_mut()));
        let backend = Arc::clone(self.tree.handle().backend());
        let ready = backend.ready();
        if let Err(Error::Forked) = ready {
            // Nothing here is this process's to end: not the file's state, and not the threads.
            return std::mem::forget((beside, backend));
        }
        let close = move || {
            drop(beside);
            let _ = backend.close();
        };
        if ready.is_ok() {
            close();
        } else {
            std::thread::spawn(close); // It has to wait until the closure has ended.
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("engine", &self.engine())
            .field("key_type", &self.key_type())
            .finish_non_exhaustive()
    }
}
