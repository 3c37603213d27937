//! The log and the vote of a node, on `raft.pool`.
//!
//! Two trees: `raft.log` has the entries by their index, `raft.meta` has words as JSON. What a call
//! writes lies behind what all calls before have written in the log of the pool, and a crash leaves
//! a beginning of that. So a write that is not waited for is durable before any later one is.
//!
//! | call | what is written, in this order | waited for |
//! |---|---|---|
//! | `save_vote` | `vote` | before it returns |
//! | `append` | all entries, one batch | before the callback, by the sync thread for all that wait |
//! | `truncate_after` | deletions from the end backwards, a batch for some | no: appends come later |
//! | `purge` | T1 `purged`, T2 deletions from the beginning on | no |
//! | `save_committed` | `committed` | no |
//!
//! What a crash leaves:
//! * I1: no vote older than the last one whose `save_vote` has returned.
//! * I2: every entry whose callback ran, unless it was truncated or purged.
//! * I3: no hole: a truncation that is cut leaves a beginning. Entries up to `purged`, which a
//!   purge that is cut leaves behind T1, are removed when the log is opened: else a hole lay
//!   between them and what is appended behind `purged`.
//! * I4: no entry that contradicts the state. The state is synced by itself, so it may have an
//!   entry that was committed by others while the log has lost it, and has the entry of an earlier
//!   leader in its place again. [`Log::agree_with`] then removes that and all behind it.

use std::fmt::Debug;
use std::io;
use std::marker::PhantomData;
use std::ops::{Bound, ControlFlow, RangeBounds};
use std::sync::Arc;
use std::sync::mpsc::{self, SendError};
use std::thread;

use everleaf::{Scan, Store, Tree, Unsynced};
use everleaf_pmem::{planted, unless_planted};
use futures_util::{Stream, TryStreamExt, stream};
use openraft::alias::{LogIdOf, VoteOf};
use openraft::entry::RaftEntry;
use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::{LogState, OptionalSend, RaftLogReader, RaftTypeConfig};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::blocking;
use crate::entry::EntryBytes;

/// Bytes of entries after which a reading ends, if it may.
const PART_BYTES: usize = 1 << 20;
/// Entries that a truncation deletes at a time.
const STEP_ENTRIES: usize = 64;

const VOTE: &str = "vote";
const PURGED: &str = "purged";
const COMMITTED: &str = "committed";

/// Waits until something is durable, and then calls back.
type Syncer<T> = Box<dyn Fn(Unsynced, IOFlushed<T>) + Send + Sync>;

/// A log and a vote on a pool, for any program of openraft whose entries have
/// [bytes](EntryBytes). Clones are the same log.
///
/// An append costs one batch and no sync by itself: a thread syncs for all that wait.
///
/// # Examples
/// ```
/// # let folder = tempfile::tempdir()?;
/// use everleaf_raft::{C, Log};
///
/// let store = everleaf::Store::create(folder.path().join("raft.pool"))?;
/// let log: Log<C> = Log::open(store)?; // for `openraft::Raft::new`
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Log<T: RaftTypeConfig> {
    shared: Arc<Shared<T>>,
}

struct Shared<T: RaftTypeConfig> {
    store: Store,
    entries: Tree,
    meta: Tree,
    sync: Syncer<T>,
    config: PhantomData<T>,
}

impl<T: RaftTypeConfig> Clone for Log<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<T: RaftTypeConfig> Debug for Log<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log").field("store", &self.shared.store).finish_non_exhaustive()
    }
}

/// The key of an entry.
fn key(index: u64) -> [u8; 8] {
    index.to_be_bytes()
}

/// What openraft is told of an error of the store.
pub(crate) fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::other(error)
}

impl<T: RaftTypeConfig<Entry: EntryBytes>> Log<T> {
    /// The log that a store holds, empty if it is new, and a thread that syncs it.
    ///
    /// # Errors
    /// Those of the store; as the system reports.
    pub fn open(store: Store) -> io::Result<Self> {
        Self::open_with(store, syncing_thread()?)
    }

    /// The same with another way to wait, for tests that have no threads.
    #[doc(hidden)]
    pub fn open_with(store: Store, sync: Syncer<T>) -> io::Result<Self> {
        let entries = store.tree("raft.log").map_err(failed)?;
        let meta = store.tree("raft.meta").map_err(failed)?;
        let log =
            Self { shared: Arc::new(Shared { store, entries, meta, sync, config: PhantomData }) };
        if let Some(purged) = log.word::<LogIdOf<T>>(PURGED)? {
            // I3: what T2 had not reached.
            unless_planted!(425, log.delete_up_to(purged.index())?);
        }
        Ok(log)
    }

    /// I4: removes what contradicts an entry that a state has applied. A crash in between leaves
    /// less of it.
    ///
    /// # Errors
    /// Those of the store; damage.
    pub fn agree_with(&self, applied: &LogIdOf<T>) -> io::Result<()> {
        let index = applied.index();
        let there = self.read(index, index.saturating_add(1), 0)?.pop();
        if there.is_some_and(|entry| entry.log_id() != *applied) {
            self.delete_from(index)?;
            self.purge_up_to(applied)?;
        }
        Ok(())
    }

    /// The pool.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// Whether it has this entry.
    ///
    /// # Errors
    /// Those of the pool; damage.
    pub(crate) fn has(&self, id: &LogIdOf<T>) -> io::Result<bool> {
        let found = self.read(id.index(), id.index().saturating_add(1), usize::MAX)?;
        Ok(found.first().is_some_and(|entry| entry.log_id() == *id))
    }

    /// Runs what nobody waits for: a reading, or a write that later ones follow.
    fn at_once<R>(&self, work: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        let (done, _not_waited_for) = self.shared.store.unsynced(work);
        done
    }

    fn word<W: DeserializeOwned>(&self, name: &str) -> io::Result<Option<W>> {
        let read = || self.shared.meta.get(name).map_err(failed);
        let bytes = self.at_once(read)?;
        let parse = |bytes: Vec<u8>| serde_json::from_slice(&bytes);
        bytes.map(parse).transpose().map_err(failed)
    }

    fn put_word(&self, name: &str, word: &impl Serialize) -> io::Result<()> {
        let bytes = serde_json::to_vec(word).map_err(failed)?;
        self.shared.meta.put(name, bytes).map_err(failed).map(drop)
    }

    fn add(&self, entries: impl IntoIterator<Item = T::Entry>) -> io::Result<()> {
        let (mut batch, mut bytes) = (self.shared.entries.batch(), Vec::new());
        for entry in entries {
            bytes.clear();
            entry.write_to(&mut bytes);
            batch.put(key(entry.index()), &bytes).map_err(failed)?;
        }
        batch.commit().map_err(failed).map(drop)
    }

    /// Entries from one index to before another: until there is none, or until they have so many
    /// bytes.
    fn read(&self, from: u64, to: u64, most_bytes: usize) -> io::Result<Vec<T::Entry>> {
        let (mut entries, mut bytes_read) = (Vec::new(), 0);
        if from >= to {
            return Ok(entries);
        }
        let mut result = Ok(());
        let mut add = |bytes: &[u8]| {
            let entry = T::Entry::read(bytes).map_err(invalid)?;
            if entries.last().is_some_and(|last: &T::Entry| last.index() + 1 != entry.index()) {
                return Err(invalid("the log has a hole: its pool is damaged, replace the node"));
            }
            bytes_read += bytes.len();
            entries.push(entry);
            Ok(bytes_read >= most_bytes)
        };
        let scan = Scan::of(key(from)..key(to));
        let visit = |_: everleaf::Key<'_>, bytes: &[u8]| match add(bytes) {
            Ok(false) => ControlFlow::Continue(()),
            Ok(true) => ControlFlow::Break(()),
            Err(error) => {
                result = Err(error);
                ControlFlow::Break(())
            }
        };
        self.at_once(|| self.shared.entries.scan_with(scan, visit).map_err(failed))?;
        result.map(|()| entries)
    }

    fn last(&self) -> io::Result<Option<T::Entry>> {
        let last = self.at_once(|| self.shared.entries.last().map_err(failed))?;
        last.map(|(_, bytes)| T::Entry::read(&bytes).map_err(invalid)).transpose()
    }

    /// From the end backwards, down to an index.
    fn delete_from(&self, from: u64) -> io::Result<()> {
        let Some(last) = self.last()? else { return Ok(()) };
        let mut steps: Vec<u64> = (from..=last.index()).step_by(STEP_ENTRIES).collect();
        unless_planted!(423, steps.reverse());
        for first in steps {
            let step = first..=last.index().min(first + (STEP_ENTRIES - 1) as u64);
            self.delete(step)?;
        }
        Ok(())
    }

    fn delete(&self, indexes: impl Iterator<Item = u64>) -> io::Result<()> {
        let mut batch = self.shared.entries.batch();
        for index in indexes {
            batch.delete(key(index)).map_err(failed)?;
        }
        self.at_once(|| batch.commit().map_err(failed)).map(drop)
    }

    fn delete_up_to(&self, last: u64) -> io::Result<()> {
        let delete = || self.shared.entries.delete_range(..=key(last)).map_err(failed);
        self.at_once(delete).map(drop)
    }

    fn purge_up_to(&self, id: &LogIdOf<T>) -> io::Result<()> {
        planted!(424, self.delete_up_to(id.index())?);
        self.at_once(|| self.put_word(PURGED, id))?; // T1
        self.delete_up_to(id.index()) // T2
    }
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// From which index to before which.
fn ends(range: impl RangeBounds<u64>) -> (u64, u64) {
    let from = match range.start_bound() {
        Bound::Included(from) => *from,
        Bound::Excluded(before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let to = match range.end_bound() {
        Bound::Included(last) => last.saturating_add(1),
        Bound::Excluded(to) => *to,
        Bound::Unbounded => u64::MAX,
    };
    (from, to)
}

/// A thread that waits once for all that have come while it waited. It ends with the log.
fn syncing_thread<T: RaftTypeConfig>() -> io::Result<Syncer<T>> {
    let (sender, waiting) = mpsc::channel::<(Unsynced, IOFlushed<T>)>();
    let sync = move || {
        while let Ok((mut unsynced, callback)) = waiting.recv() {
            let mut callbacks = vec![callback];
            for (more, callback) in waiting.try_iter() {
                unsynced = unsynced.and(more);
                callbacks.push(callback);
            }
            let synced = unsynced.wait().map_err(|error| error.to_string());
            for callback in callbacks {
                callback.io_completed(synced.clone().map_err(failed));
            }
        }
    };
    thread::Builder::new().name("everleaf-raft sync".to_owned()).spawn(sync)?;
    Ok(Box::new(move |unsynced, callback| {
        if let Err(SendError((_, callback))) = sender.send((unsynced, callback)) {
            callback.io_completed(Err(failed("the thread that syncs the log has ended")));
        }
    }))
}

impl<T: RaftTypeConfig<Entry: EntryBytes>> RaftLogReader<T> for Log<T> {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> io::Result<Vec<T::Entry>> {
        let (from, to) = ends(range);
        self.read(from, to, usize::MAX)
    }

    async fn read_vote(&mut self) -> io::Result<Option<VoteOf<T>>> {
        self.word(VOTE)
    }

    async fn limited_get_log_entries(&mut self, from: u64, to: u64) -> io::Result<Vec<T::Entry>> {
        self.read(from, to, PART_BYTES)
    }

    /// In parts: a follower that was away long applies many.
    async fn entries_stream<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> impl Stream<Item = io::Result<T::Entry>> + OptionalSend {
        let (log, (from, to)) = (self.clone(), ends(range));
        let part = move |from: u64| {
            let read = log.read(from, to, PART_BYTES);
            std::future::ready(read.map(|part| {
                let next = from + part.len() as u64;
                (next > from).then(|| (stream::iter(part.into_iter().map(Ok)), next))
            }))
        };
        Box::pin(stream::try_unfold(from, part).try_flatten())
    }
}

impl<T: RaftTypeConfig<Entry: EntryBytes>> RaftLogStorage<T> for Log<T> {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<T>> {
        let last_purged_log_id = self.word(PURGED)?;
        let last = self.last()?.map(|entry| entry.log_id());
        let last_log_id = last.or_else(|| last_purged_log_id.clone());
        Ok(LogState { last_purged_log_id, last_log_id })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &VoteOf<T>) -> io::Result<()> {
        if planted(421) {
            return self.at_once(|| self.put_word(VOTE, vote));
        }
        blocking(|| self.put_word(VOTE, vote))
    }

    async fn save_committed(&mut self, committed: Option<LogIdOf<T>>) -> io::Result<()> {
        self.at_once(|| self.put_word(COMMITTED, &committed))
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogIdOf<T>>> {
        self.word::<Option<LogIdOf<T>>>(COMMITTED).map(Option::flatten)
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<T>) -> io::Result<()>
    where
        I: IntoIterator<Item = T::Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        // A batch may wait for a checkpoint of the pool's log.
        let (added, unsynced) = blocking(|| self.shared.store.unsynced(|| self.add(entries)));
        added?;
        let unsynced = if planted(422) { Unsynced::default() } else { unsynced };
        (self.shared.sync)(unsynced, callback);
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogIdOf<T>>) -> io::Result<()> {
        blocking(|| self.delete_from(last.map_or(0, |last| last.index() + 1)))
    }

    async fn purge(&mut self, id: LogIdOf<T>) -> io::Result<()> {
        blocking(|| self.purge_up_to(&id))
    }
}
