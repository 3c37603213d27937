//! The state of a node: the rows, on `state.N.pool`.
//!
//! Beside the rows there are two words in the same tree: up to where entries are applied, and who
//! the members are.
//!
//! | call | what is written, in this order | waited for |
//! |---|---|---|
//! | `apply` | rows and words of the entries, one batch | no |
//! | `build_snapshot` | nothing: the snapshot is the state itself | a sync of what was applied |
//! | `install_snapshot` | see `snapshot` | yes |
//!
//! I1: as rows and words are one batch, a crash leaves the state as it was at one entry. It may lie
//! behind what was applied; the log has the rest, as it is purged only up to a snapshot. It may lie
//! before what is left of the log: openraft purges that, or
//! [`Log::agree_with`](crate::Log::agree_with) removes it.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use everleaf::{Batch, Store, Tree};
use everleaf_pmem::planted;
use openraft::EntryPayload;
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use crate::blocking;
use crate::bytes::{EntryError, Reader};
use crate::entry::{read_log_id, write_log_id};
use crate::log::failed;
use crate::place::Place;
use crate::types::{Entry, Group, LogId, Members, SnapshotMeta};

/// The tree of the rows.
pub(crate) const TREE: &str = "everleaf.server";
const APPLIED: &[u8] = b"\0raft applied";
const MEMBERS: &[u8] = b"\0raft members";
/// Writes that are committed at a time, if there are so many at once.
pub(crate) const STEP_WRITES: usize = 4096;

/// Up to where entries are applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// The last entry that is applied.
    pub log_id: Option<LogId>,
    /// Who belongs to the cluster as far as it is known there.
    pub members: Members,
    /// The greatest clock of a leader so far, in milliseconds since 1970.
    pub clock_ms: u64,
    /// The reign of the last group.
    pub reign: u64,
    /// Its number.
    pub number: u64,
    /// Groups that were passed over, since the pool was opened.
    pub passed_over: u64,
}

/// Forgets which entries were applied and who belonged to the cluster: the rows begin another one.
/// It is durable when the store is closed.
pub(crate) fn forget_cluster(store: &Store) -> everleaf::Result<()> {
    let tree = store.tree(TREE)?;
    let mut words = tree.batch();
    words.delete(APPLIED)?;
    words.delete(MEMBERS)?;
    words.commit()?;
    Ok(())
}

impl Applied {
    /// What the words of a tree say.
    pub(crate) fn of(tree: &Tree) -> everleaf::Result<Self> {
        let damaged = |what: String| everleaf::Error::Dump { what };
        let members = tree.get(MEMBERS)?.map(|bytes| serde_json::from_slice(&bytes));
        let members = members.transpose().map_err(|error| damaged(error.to_string()))?;
        let mut applied = Self { members: members.unwrap_or_default(), ..Self::default() };
        if let Some(bytes) = tree.get(APPLIED)? {
            let read = applied.read(&mut Reader::of(&bytes));
            read.map_err(|error| damaged(error.to_string()))?;
        }
        Ok(applied)
    }

    fn read(&mut self, bytes: &mut Reader<'_>) -> Result<(), EntryError> {
        self.log_id = Some(read_log_id(bytes)?);
        (self.clock_ms, self.reign, self.number) = (bytes.u64()?, bytes.u64()?, bytes.u64()?);
        Ok(())
    }

    fn to_bytes(&self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        write_log_id(self.log_id.as_ref()?, &mut bytes);
        for number in [self.clock_ms, self.reign, self.number] {
            bytes.extend(number.to_le_bytes());
        }
        Some(bytes)
    }

    /// Whether the group counts; if so, it is the last one now.
    fn takes(&mut self, group: &Group) -> bool {
        self.clock_ms = self.clock_ms.max(group.clock_ms);
        let begins = group.number == 1 && group.reign > self.reign;
        let goes_on = group.reign == self.reign && group.number == self.number + 1;
        let takes = begins || goes_on || planted(431);
        if takes {
            (self.reign, self.number) = (group.reign, group.number);
        } else {
            self.passed_over += 1;
        }
        takes
    }

    pub(crate) fn meta(&self) -> SnapshotMeta {
        SnapshotMeta { last_log_id: self.log_id, last_membership: self.members.clone() }
    }
}

/// openraft's state machine: the rows of a node. Clones are the same.
#[derive(Clone)]
pub struct State {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub place: Arc<dyn Place>,
    /// `raft.meta`.
    pub meta: Tree,
    pub pool: RwLock<StatePool>,
    /// The number of the next pool.
    pub next: AtomicU64,
    pub applied: watch::Sender<Applied>,
    /// The last reign that was begun here: its groups may not be applied yet.
    pub reign: AtomicU64,
    /// Up to where the last snapshot that was built, or installed, goes.
    pub snapshot: Mutex<Option<SnapshotMeta>>,
}

/// The pool of a state.
#[derive(Clone)]
pub(crate) struct StatePool {
    pub number: u64,
    pub store: Store,
    pub tree: Tree,
}

impl StatePool {
    pub fn of(number: u64, store: Store) -> everleaf::Result<Self> {
        let tree = store.tree(TREE)?;
        Ok(Self { number, store, tree })
    }

    /// Its name where the pools lie.
    pub fn name(number: u64) -> String {
        format!("state.{number}")
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let applied = self.shared.applied.borrow().log_id;
        f.debug_struct("State").field("applied", &applied).finish_non_exhaustive()
    }
}

impl State {
    /// The state in a pool; later ones get the numbers that follow.
    pub(crate) fn of(place: Arc<dyn Place>, meta: Tree, pool: StatePool) -> everleaf::Result<Self> {
        let applied = watch::Sender::new(Applied::of(&pool.tree)?);
        let (pool, next) = (RwLock::new(pool.clone()), AtomicU64::new(pool.number + 1));
        let (reign, snapshot) = Default::default();
        let shared = Shared { place, meta, pool, next, applied, reign, snapshot };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Up to where entries are applied.
    pub fn applied(&self) -> Applied {
        self.shared.applied.borrow().clone()
    }

    /// Told after each batch of entries, and after a snapshot was installed.
    pub fn watch(&self) -> watch::Receiver<Applied> {
        self.shared.applied.subscribe()
    }

    /// The pool of the rows. When a snapshot is installed it is closed, and another one is the
    /// state's.
    pub fn store(&self) -> Store {
        self.shared.pool.read().store.clone()
    }

    /// The tree of the rows, of [`store`](Self::store).
    pub fn tree(&self) -> Tree {
        self.shared.pool.read().tree.clone()
    }

    /// The number of a new reign, which nobody has given before.
    pub(crate) fn next_reign(&self, applied: u64) -> u64 {
        self.shared.reign.fetch_max(applied, Ordering::Relaxed);
        self.shared.reign.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Writes one batch.
    pub(crate) fn commit(&self, step: Step) -> io::Result<()> {
        let Step { mut batch, applied, has_members } = step;
        let work = || {
            planted!(433, std::mem::replace(&mut batch, self.tree().batch()).commit()?);
            if let Some(bytes) = applied.to_bytes() {
                batch.put(APPLIED, bytes)?;
            }
            if has_members {
                batch.put(MEMBERS, serde_json::to_vec(&applied.members).unwrap_or_default())?;
            }
            batch.commit()
        };
        // A batch may wait for a checkpoint of the pool's log.
        let (done, _not_waited_for) = blocking(|| self.store().unsynced(work));
        done.map_err(failed)?;
        self.shared.applied.send_replace(applied);
        Ok(())
    }
}

/// Entries that are applied together.
pub(crate) struct Step {
    pub batch: Batch,
    applied: Applied,
    has_members: bool,
}

impl Step {
    pub fn begin(state: &State) -> Self {
        let (batch, applied) = (state.tree().batch(), state.applied());
        Self { batch, applied, has_members: false }
    }

    pub fn add(&mut self, entry: Entry) -> everleaf::Result<()> {
        self.applied.log_id = Some(entry.log_id);
        match entry.payload {
            EntryPayload::Blank => {}
            EntryPayload::Membership(members) => {
                self.applied.members = Members::new(Some(entry.log_id), members);
                self.has_members = true;
            }
            EntryPayload::Normal(group) if self.applied.takes(&group) => {
                planted!(
                    436,
                    if group.number % 2 == 0 {
                        return Ok(());
                    }
                );
                for (key, value) in group.rows.iter() {
                    match value {
                        Some(value) => self.batch.put(key, value)?,
                        None => self.batch.delete(key)?,
                    };
                }
            }
            EntryPayload::Normal(_) => {}
        }
        Ok(())
    }
}
