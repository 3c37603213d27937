//! The folder of a node.
//!
//! ```text
//! raft.pool       the log and the vote (tree raft.log, tree raft.meta); synced before an answer
//! state.N.pool    the rows; N is the word `state` of raft.meta
//! ```
//! On a disk each has its log beside it, `raft.pool.log`. Whoever has `raft.pool` open has the
//! folder.
//!
//! ```text
//! F1  raft.pool with the words `node` and `cluster`
//! F2  state.1.pool, empty or a copy
//! F3  COMMIT `state` = 1, which is waited for
//!     Crash before: the folder is refused, and says so.
//! ```

use std::collections::BTreeSet;
use std::fmt::{Debug, Display};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use everleaf::{CreateOptions, DurabilityMode, OpenOptions, Store, Tree};
use everleaf_pmem::unless_planted;
use uuid::Uuid;

use crate::log::Log;
use crate::place::{Place, STATE_WORD};
use crate::state::{State, StatePool, forget_cluster};
use crate::types::{C, Config};

const RAFT: &str = "raft";
/// What the log may grow to at least: the longest entry has room in a quarter of it.
const LEAST_LOG_BYTES: u64 = 256 << 20;
const NODE_WORD: &str = "node";
const CLUSTER_WORD: &str = "cluster";
/// Bits of the number of a node: few enough for programs whose numbers are floating-point.
const NODE_BITS: u32 = 48;

/// How the pools of a new node are made.
#[derive(Clone, Debug, Default)]
pub struct PoolOptions {
    /// The most bytes that each of the pools may grow to, if not what a store's default is; the log
    /// may have 256 MiB in any case.
    pub max_size_bytes: Option<u64>,
    /// A pool that the state begins as a copy of.
    pub from: Option<PathBuf>,
}

/// Why a folder is not made or opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// Of a pool in it.
    #[error(transparent)]
    Pool(#[from] everleaf::Error),
    /// Of the folder, or of the log.
    #[error("{what}: {source}")]
    Io {
        /// What was done.
        what: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// A word is not there: the folder was not finished, or is no node's.
    #[error("the folder is no node's, or was not finished: make another one")]
    Unfinished,
}

fn doing(what: &'static str) -> impl FnOnce(io::Error) -> FolderError {
    move |source| FolderError::Io { what, source }
}

/// A folder of pool files.
struct Folder {
    path: PathBuf,
    /// How far a pool that is made may grow, if not as a store's default is.
    max_size_bytes: OnceLock<u64>,
}

impl Folder {
    fn of(path: &Path) -> Self {
        Self { path: path.into(), max_size_bytes: OnceLock::new() }
    }

    fn pool(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.pool"))
    }
}

impl Place for Folder {
    fn create(&self, name: &str) -> everleaf::Result<Store> {
        let mut options = CreateOptions::new();
        if let Some(bytes) = self.max_size_bytes.get() {
            let least = if name == RAFT { LEAST_LOG_BYTES } else { 0 };
            options = options.max_size_bytes(least.max(*bytes));
        }
        options.create_closed(self.pool(name))?;
        self.open(name)
    }

    fn open(&self, name: &str) -> everleaf::Result<Store> {
        let options = match name {
            RAFT => OpenOptions::new(),
            _ => OpenOptions::new().relaxed_durability(DurabilityMode::buffered()),
        };
        options.open(self.pool(name))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let pool = self.pool(name);
        let log = self.path.join(format!("{name}.pool.log"));
        // The pool first: without its log it would be refused, not taken for another.
        let gone = |result: io::Result<()>| match result {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        };
        gone(fs::remove_file(pool)).and_then(|()| gone(fs::remove_dir_all(log)))
    }

    fn names(&self) -> io::Result<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        for entry in fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            let name = name.to_str().and_then(|name| name.split_once(".pool"));
            names.extend(name.map(|(name, _)| name.to_owned()));
        }
        Ok(names)
    }

    fn limit(&self, bytes: u64) {
        let _ = self.max_size_bytes.set(bytes); // The first one stays.
    }
}

/// The folder of a node: its pools, its number, its cluster. One process has it open at a time.
#[derive(Debug)]
pub struct Pools {
    raft: Store,
    meta: Tree,
    state: State,
    node: u64,
    cluster: Uuid,
}

impl Pools {
    /// Makes the folder of a new node of a cluster, which must not exist. The number of the node is
    /// drawn at random: it belongs to this folder, and is never another node's.
    ///
    /// # Errors
    /// [`FolderError`]; what was made stays.
    ///
    /// # Examples
    /// ```
    /// # let parent = tempfile::tempdir()?;
    /// # let folder = parent.path().join("node");
    /// use everleaf_raft::Pools;
    ///
    /// let cluster = uuid::Uuid::new_v4();
    /// let pools = Pools::create(&folder, cluster, &Default::default())?;
    /// let (log, state) = (pools.log()?, pools.state()); // for `openraft::Raft::new`
    /// # drop(log);
    /// # drop(state);
    /// let node = pools.node();
    /// drop(pools);
    /// assert_eq!(Pools::open(&folder)?.node(), node);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create(
        folder: &Path,
        cluster: Uuid,
        options: &PoolOptions,
    ) -> Result<Self, FolderError> {
        fs::create_dir(folder).map_err(doing("making the folder"))?;
        let place = Folder::of(folder);
        options.max_size_bytes.into_iter().for_each(|bytes| place.limit(bytes));
        if let Some(from) = &options.from {
            let from = OpenOptions::new().read_only(true).open(from)?;
            from.copy(place.pool(&StatePool::name(1)))?;
            let state = place.open(&StatePool::name(1))?;
            forget_cluster(&state)?; // It may be a node's.
            state.close()?;
        }
        let node = Uuid::new_v4().as_u64_pair().1 & ((1 << NODE_BITS) - 1);
        Self::create_at(Arc::new(place), cluster, node.max(1))
    }

    /// Opens the folder of a node, and removes what a crash has left of other states.
    ///
    /// # Errors
    /// [`FolderError`]; a folder that another process has open is a pool that is locked.
    pub fn open(folder: &Path) -> Result<Self, FolderError> {
        Self::open_at(Arc::new(Folder::of(folder)))
    }

    #[doc(hidden)]
    pub fn create_at(place: Arc<dyn Place>, cluster: Uuid, node: u64) -> Result<Self, FolderError> {
        let raft = place.create(RAFT)?; // F1
        let meta = raft.tree("raft.meta")?;
        meta.put(NODE_WORD, node.to_string())?;
        meta.put(CLUSTER_WORD, cluster.to_string())?;
        let name = StatePool::name(1);
        let is_there = place.names().map_err(doing("reading the folder"))?.contains(&name);
        let store = if is_there { place.open(&name)? } else { place.create(&name)? }; // F2
        store.sync()?;
        meta.put(STATE_WORD, "1")?; // F3
        let state = State::of(place, meta.clone(), StatePool::of(1, store)?)?;
        Ok(Self { raft, meta, state, node, cluster })
    }

    #[doc(hidden)]
    pub fn open_at(place: Arc<dyn Place>) -> Result<Self, FolderError> {
        let raft = place.open(RAFT)?;
        let meta = raft.tree("raft.meta")?;
        let (node, cluster) = (word(&meta, NODE_WORD)?, word(&meta, CLUSTER_WORD)?);
        let number: u64 = word(&meta, STATE_WORD)?;
        let name = StatePool::name(number);
        for other in place.names().map_err(doing("reading the folder"))? {
            if other.starts_with("state.") && other != name {
                place.remove(&other).map_err(doing("removing what is left of another state"))?;
            }
        }
        let pool = StatePool::of(number, place.open(&name)?)?;
        place.limit(pool.store.statistics()?.max_bytes); // As the node was made.
        let state = State::of(place, meta.clone(), pool)?;
        Ok(Self { raft, meta, state, node, cluster })
    }

    /// The number of the node.
    pub fn node(&self) -> u64 {
        self.node
    }

    /// Which cluster the node belongs to.
    pub fn cluster(&self) -> Uuid {
        self.cluster
    }

    /// The pool of the log.
    pub fn raft_store(&self) -> &Store {
        &self.raft
    }

    /// Words about the node, beside those of the log: `peers` and others. A put is durable when it
    /// returns.
    pub fn meta(&self) -> &Tree {
        &self.meta
    }

    /// openraft's log, and the thread that syncs it. It agrees with the state.
    ///
    /// # Errors
    /// Those of the pool.
    pub fn log(&self) -> io::Result<Log<C>> {
        self.agreed(Log::open(self.raft.clone())?)
    }

    /// A log that was opened in another way, once it agrees with the state.
    #[doc(hidden)]
    pub fn agreed<T: Config>(&self, log: Log<T>) -> io::Result<Log<T>> {
        if let Some(applied) = self.state.applied().log_id {
            unless_planted!(426, log.agree_with(&applied)?);
        }
        Ok(log)
    }

    /// openraft's state machine.
    pub fn state(&self) -> State {
        self.state.clone()
    }
}

/// A word about the node.
fn word<W: FromStr<Err: Display>>(meta: &Tree, name: &str) -> Result<W, FolderError> {
    let bytes = meta.get(name)?.unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    text.parse().map_err(|_| FolderError::Unfinished)
}
