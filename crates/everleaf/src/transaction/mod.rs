//! Transactions: reads and writes of many keys that happen at one moment, or not at all.
//!
//! Map of the files: this one (what a transaction is) · `methods` (what it reads and writes) ·
//! `range` (the iterator over a range) · `savepoints` (going back within one) · `attempts` (running
//! a closure until it meets no other writer, at last alone). What happens under the store's locks
//! is in `attached/transaction.rs`.
//!
//! What it has read and is to write lies behind a lock, so that several parts of a transaction can
//! be at hand at a time; no closure of the caller's runs under it.

mod attempts;
mod methods;
mod range;
mod savepoints;

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use everleaf_index::Direction;
use parking_lot::Mutex;

use self::savepoints::Savepoints;
use crate::core::entry_batches::Entry;
use crate::core::keyspace::Space;
use crate::core::read_set::{Bounds, Reads, within};
use crate::core::tree_liveness::TreeLiveness;
use crate::core::value::{Expiry, NewExpiry, is_expired};
use crate::core::write::{Kind, Write};
use crate::error::check_value;
use crate::handle::Handle;
use crate::{Error, Key, OwnedKey, Result, Scan, Tree};

pub(crate) use self::attempts::Pace;
pub use self::attempts::TransactionResult;
pub(crate) use self::methods::transaction_methods;
pub use self::range::TransactionRange;
pub use self::savepoints::Savepoint;

/// Reads and writes that happen at one moment, or not at all: serializable, whatever other threads
/// do, and whatever crash comes.
///
/// Nothing is locked while a transaction is under way. It notes what it reads, gathers what it
/// writes, and [`commit`](Transaction::commit) writes all of it, as a [`Batch`](crate::Batch) does,
/// if everything that was read is still so; else it writes nothing and says
/// [`Error::Conflict`]. [`Store::transaction`](crate::Store::transaction) runs a closure again
/// then, and after some attempts keeps other threads from writing meanwhile.
///
/// Within a transaction
/// * reads see what it has written itself,
/// * everything that was read belongs to one moment: no read shows a part of what another thread
///   writes together, and a read that could not be of the same moment any more says
///   [`Error::Conflict`],
/// * there is one time: what has not expired when it begins does not expire on the way. At the
///   commit it counts as written by another thread if it was read and has expired by then: others
///   may have seen that it is absent.
///
/// It can be shared by threads, but what reads and then writes, like `update`, is no one step for
/// another thread that has the same transaction.
///
/// What it reads and writes is kept in DRAM until it ends. A commit of n writes costs what a batch
/// of n writes costs; a commit without any costs nothing, and cannot fail. Reading a range, or the
/// commit of a transaction that has, may keep all writers waiting for as long as the range takes to
/// be read.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
/// # store.put("stock:apple", "1")?;
/// // The last apple is sold once, however many threads want it and whenever the power fails.
/// let sold = store.transaction(|tx| {
///     if tx.get("stock:apple")?.as_deref() != Some(b"1") {
///         return Ok(false);
///     }
///     tx.put("stock:apple", "0")?.put("cart:ann", "an apple")?;
///     Ok(true)
/// })?;
/// assert!(sold);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing is written before `commit`"]
pub struct Transaction {
    /// Of the tree that is meant where nothing else is said.
    handle: Handle,
    state: Mutex<State>,
}

/// What was read, and what is to be written.
struct State {
    reads: Reads,
    writes: Writes,
    savepoints: Savepoints<Written>,
    /// What was read is known to be of no one moment.
    conflict: bool,
}

/// What each key is to be.
type Writes = BTreeMap<OwnedKey, Written>;
type Written = (TreeLiveness, Option<Own>);

/// A value that was written, and when it expires.
type Own = (Vec<u8>, NewExpiry);

/// The part of a transaction that concerns one tree. There may be several at a time.
pub struct TransactionOn<'t, K = OwnedKey, V = Vec<u8>> {
    transaction: &'t Transaction,
    space: Space,
    life: TreeLiveness,
    expiry: Option<Expiry>,
    types: PhantomData<fn() -> (K, V)>,
}

impl Transaction {
    pub(crate) fn begin(handle: &Handle) -> Result<Self> {
        let reads = handle.backend().begin_reads()?;
        let (writes, savepoints) = (BTreeMap::new(), Savepoints::new());
        let state = Mutex::new(State { reads, writes, savepoints, conflict: false });
        Ok(Self { handle: handle.clone(), state })
    }

    /// The part that concerns another tree of the same store, typed or not. Several can be at hand
    /// at a time.
    ///
    /// # Errors
    /// [`Error::OtherStore`].
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// let (stock, sold) = (store.typed_tree::<String, u64>("stock")?, store.tree("sold")?);
    /// stock.put("apple", 3)?;
    /// store.transaction(|tx| {
    ///     let (stock, sold) = (tx.on(&stock)?, tx.on(&sold)?);
    ///     let left = stock.get("apple")?.unwrap_or(0);
    ///     stock.put("apple", left - 1)?;
    ///     sold.put(format!("apple {left}"), "to ann")?;
    ///     Ok(())
    /// })?;
    /// assert_eq!(stock.get("apple")?, Some(2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on<K, V>(&self, tree: &Tree<K, V>) -> Result<TransactionOn<'_, K, V>> {
        if !tree.handle().is_of(self.handle.backend()) {
            return Err(Error::OtherStore);
        }
        let (space, life) = (tree.handle().space(), tree.handle().life().clone());
        let expiry = tree.handle().expiry_of_writes();
        Ok(TransactionOn { transaction: self, space, life, expiry, types: PhantomData })
    }

    fn here(&self) -> TransactionOn<'_> {
        let (space, life) = (self.handle.space(), self.handle.life().clone());
        let expiry = self.handle.expiry_of_writes();
        TransactionOn { transaction: self, space, life, expiry, types: PhantomData }
    }

    /// Writes what was written, durably when it returns, if everything that was read is still so.
    /// Dropping a transaction writes nothing.
    ///
    /// # Errors
    /// [`Error::Conflict`], [`is_full`](Error::is_full), [`Error::TreeDropped`] and all others:
    /// nothing was written. [`Error::Interrupted`]: damage was met after the point of no return;
    /// opening the store again completes it.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// use everleaf::Error;
    ///
    /// store.put("seat", "free")?;
    /// let (mut ann, mut bob) = (store.begin()?, store.begin()?);
    /// for (name, transaction) in [("ann", &mut ann), ("bob", &mut bob)] {
    ///     if transaction.get("seat")?.as_deref() == Some(b"free") {
    ///         transaction.put("seat", name)?;
    ///     }
    /// }
    /// ann.commit()?;
    /// assert!(matches!(bob.commit(), Err(Error::Conflict)));
    /// assert_eq!(store.get("seat")?.as_deref(), Some(&b"ann"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn commit(self) -> Result<()> {
        let State { reads, writes, conflict, .. } = self.state.into_inner();
        if conflict {
            return Err(Error::Conflict);
        }
        if writes.is_empty() {
            return Ok(());
        }
        let write = |(key, (life, own)): (OwnedKey, Written)| match own {
            Some((value, expiry)) => {
                Write { life, key, kind: Kind::Put, value: value.into(), expiry }
            }
            None => Write::removal(life, key),
        };
        let writes: Vec<Write> = writes.into_iter().map(write).collect();
        self.handle.backend().commit(&reads, &writes)
    }

    /// Ends it, and writes nothing, as dropping it does. Within
    /// [`Store::transaction`](crate::Store::transaction) an error of the closure does the same, and
    /// a [savepoint](Transaction::savepoint) takes back what was written without one.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// let transaction = store.begin()?;
    /// transaction.put("seat", "ann")?;
    /// transaction.rollback();
    /// assert_eq!(store.get("seat")?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn rollback(self) {}

    /// A moment to which [`rollback_to`](Transaction::rollback_to) can go back. From the first one
    /// on each write keeps what it has replaced in DRAM.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// let log = store.tree("log")?;
    /// store.transaction(|tx| {
    ///     tx.on(&log)?.put("1", "ann wants two apples")?;
    ///     let savepoint = tx.savepoint();
    ///     tx.put("apple 1", "ann")?.put("apple 2", "ann")?;
    ///     // There is but one: ann gets none, and the wish is logged.
    ///     tx.rollback_to(&savepoint)
    /// })?;
    /// assert_eq!((log.len()?, store.len()?), (1, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn savepoint(&self) -> Savepoint {
        self.state.lock().savepoints.take()
    }

    /// Takes back everything that was written since a savepoint, in all trees. What was read
    /// counts as read all the same. The savepoint can be used again; those that were taken after
    /// it cannot.
    ///
    /// # Errors
    /// [`Error::SavepointGone`] if it is of another transaction, or was taken after one that this
    /// transaction has gone back to.
    ///
    /// # Examples
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
    /// use everleaf::Error;
    ///
    /// let tx = store.begin()?;
    /// let first = tx.savepoint();
    /// tx.put("a", "1")?;
    /// let second = tx.savepoint();
    /// tx.rollback_to(&first)?;
    /// assert!(tx.get("a")?.is_none());
    /// assert!(matches!(tx.rollback_to(&second), Err(Error::SavepointGone)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn rollback_to(&self, savepoint: &Savepoint) -> Result<()> {
        let State { savepoints, writes, .. } = &mut *self.state.lock();
        savepoints.go_back(savepoint, writes)
    }

    /// Whether what was read is known to be of no one moment.
    fn has_conflict(&mut self) -> bool {
        self.state.get_mut().conflict
    }
}

impl State {
    /// A value that was written, unless it has expired.
    fn present<'o>(&self, own: &'o Option<Own>) -> Option<&'o Own> {
        // What is kept is of a value that has not.
        own.as_ref().filter(|(_, expiry)| !is_expired(expiry.over(None), self.reads.now_ms))
    }

    /// Notes that what was read is of no one moment, so that nothing is committed.
    fn noting<R>(&mut self, read: impl FnOnce(&mut Reads) -> Result<R>) -> Result<R> {
        if self.conflict {
            return Err(Error::Conflict);
        }
        let result = read(&mut self.reads);
        self.conflict = matches!(result, Err(Error::Conflict));
        result
    }
}

impl<'t, K, V> TransactionOn<'t, K, V> {
    /// As [`Transaction::here`].
    pub(crate) fn here(&self) -> &Self {
        self
    }

    /// The same part of the same transaction, without types.
    fn untyped(&self) -> TransactionOn<'t> {
        let (transaction, space, life) = (self.transaction, self.space, self.life.clone());
        TransactionOn { transaction, space, life, expiry: self.expiry, types: PhantomData }
    }

    /// Copies what a key is now.
    pub(crate) fn find(&self, key: Key<'_>) -> Result<Option<Vec<u8>>> {
        let encoded = self.space.encode(key)?;
        let key = encoded.as_key().to_owned();
        let state = &mut *self.transaction.state.lock();
        if !state.writes.contains_key(&key) {
            let (life, backend) = (&self.life, self.transaction.handle.backend());
            state.noting(|reads| {
                // A tree that was dropped is no longer read, even where it was read before.
                life.check()?;
                if reads.points.contains_key(&key) {
                    return Ok(());
                }
                backend.read_into(reads, life, key.as_ref())
            })?;
        }
        if let Some((_, own)) = state.writes.get(&key) {
            return Ok(state.present(own).map(|(value, _)| value.clone()));
        }
        let read = state.reads.points.get(&key).and_then(Option::as_ref);
        Ok(read.map(|value| value.bytes.clone()))
    }

    /// Lets the value that is there expire so; whether there is one.
    pub(crate) fn expire(&self, key: Key<'_>, expiry: Expiry) -> Result<bool> {
        let Some(value) = self.find(key)? else { return Ok(false) };
        self.set(key, Some(&value), Some(expiry))?;
        Ok(true)
    }

    /// What a key is to be in place of what was read of it: the expiry stays.
    pub(crate) fn change(&self, key: Key<'_>, value: Option<&[u8]>) -> Result<()> {
        self.set(key, value, self.expiry.or(Some(Expiry::Kept)))
    }

    /// What a key is to be. A value expires so, if that is said.
    pub(crate) fn set(
        &self,
        key: Key<'_>,
        value: Option<&[u8]>,
        expiry: Option<Expiry>,
    ) -> Result<()> {
        value.map_or(Ok(()), check_value)?;
        let key = self.space.encode(key)?.as_key().to_owned();
        let state = &mut *self.transaction.state.lock();
        let expiry = expiry.or(self.expiry).unwrap_or(Expiry::Never);
        let mut expiry = expiry.counted_from(|| state.reads.now_ms);
        if let (NewExpiry::Kept, Some((_, own))) = (expiry, state.writes.get(&key)) {
            expiry = state.present(own).map_or(NewExpiry::NEVER, |(_, expiry)| *expiry);
        }
        let own = value.map(|value| (value.to_vec(), expiry));
        let before = state.writes.insert(key.clone(), (self.life.clone(), own));
        state.savepoints.note(key, before);
        Ok(())
    }

    /// The entries that `scan` describes, from its end on, at most so many.
    pub(crate) fn entries(&self, scan: Scan, limit: usize) -> Result<Vec<Entry>> {
        let end = scan.direction;
        let (lower, upper) = scan.bounds();
        let lower = self.space.encode_bound(lower.as_ref(), true)?;
        let upper = self.space.encode_bound(upper.as_ref(), false)?;
        let (mut entries, mut left) = (Vec::new(), Some((lower, upper)));
        let (state, backend) =
            (&mut *self.transaction.state.lock(), self.transaction.handle.backend());
        while let Some(range) = left.take().filter(|_| entries.len() < limit) {
            let (life, whole, wanted) = (&self.life, range.clone(), limit - entries.len());
            left = state.noting(|reads| backend.scan_into(reads, life, range, end, wanted))?;
            let seen = without(whole, left.as_ref(), end);
            self.merge(state, &seen, end, &mut entries)?;
        }
        entries.truncate(limit);
        Ok(entries)
    }

    /// Removes the first entry of what `scan` describes, and returns it.
    pub(crate) fn pop(&self, scan: Scan) -> Result<Option<Entry>> {
        let Some(entry) = self.entries(scan, 1)?.pop() else { return Ok(None) };
        self.set(entry.0.as_ref(), None, None)?;
        Ok(Some(entry))
    }

    /// Adds the entries of a range that was read, as they are with what was written since.
    fn merge(
        &self,
        state: &State,
        range: &Bounds,
        end: Direction,
        entries: &mut Vec<Entry>,
    ) -> Result<()> {
        let State { reads, writes, .. } = state;
        let mut merged: BTreeMap<&OwnedKey, Option<&Vec<u8>>> =
            reads.seen_in(range).map(|(key, value)| (key, Some(&value.bytes))).collect();
        let own = |own| state.present(own).map(|(value, _)| value);
        merged.extend(within(writes, range).map(|(key, (_, written))| (key, own(written))));
        let present = merged.into_iter().filter_map(|(key, value)| Some((key, value?)));
        let entry = |(key, value): (&OwnedKey, &Vec<u8>)| {
            let key = self.space.decode(key.as_ref());
            let key = key.ok_or(Error::corrupt(0, "a key belongs to no tree"))?;
            Ok((key, value.clone()))
        };
        let mut present: Vec<Entry> = present.map(entry).collect::<Result<_>>()?;
        if end == Direction::Backward {
            present.reverse();
        }
        entries.append(&mut present);
        Ok(())
    }
}

/// What of a range was read, of which this is left.
fn without((lower, upper): Bounds, left: Option<&Bounds>, end: Direction) -> Bounds {
    use std::ops::Bound::{Excluded, Included};
    let until = |bound: &std::ops::Bound<OwnedKey>| match bound {
        Excluded(key) => Included(key.clone()),
        other => other.clone(),
    };
    match (left, end) {
        (None, _) => (lower, upper),
        (Some((from, _)), Direction::Forward) => (lower, until(from)),
        (Some((_, to)), Direction::Backward) => (until(to), upper),
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("Transaction")
            .field("read", &state.reads.points.len())
            .field("written", &state.writes.len())
            .finish_non_exhaustive()
    }
}
