//! Snapshots of a state: the snapshot that a node has is its state itself, and is copied only to be
//! sent.
//!
//! ```text
//! R1  the pool state.M, empty                                 State::receive
//! R2  what another node sends, all of it or nothing; sync     Store::restore
//!     Crash: `state` in raft.meta names another pool, so this one is removed when the folder is
//!     opened. The other node begins anew.
//! S1  COMMIT `state` = M, which is waited for                 State::install
//!     Crash: state.M counts, and state.N is removed when the folder is opened. Entries of the log
//!     that lie before it are purged then.
//! S2  the pools change places in memory
//! S3  state.N is removed
//! ```

use std::fmt;
use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use everleaf::Store;
use everleaf_pmem::unless_planted;

use crate::log::failed;
use crate::place::{Place, STATE_WORD};
use crate::state::{Applied, State, StatePool, TREE};
use crate::types::{C, SnapshotMeta};

/// A snapshot of a state.
pub type Snapshot = openraft::alias::SnapshotOf<C, SnapshotData>;

/// The content of a snapshot.
#[derive(Debug)]
pub enum SnapshotData {
    /// The state of a node, as it is when it is sent: at the snapshot's entry, or behind it.
    Here(State),
    /// What another node has sent.
    Received(Received),
}

/// A pool with the state that another node has sent. It is removed when this is dropped and was not
/// installed.
pub struct Received {
    place: Arc<dyn Place>,
    number: u64,
    /// None once it is installed.
    store: Option<Store>,
}

impl fmt::Debug for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Received").field(&self.number).finish()
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        if let Some(store) = self.store.take() {
            let _ = store.close();
            // What stays is removed when the folder is opened.
            let _ = self.place.remove(&StatePool::name(self.number));
        }
    }
}

impl SnapshotData {
    /// Writes the state as it is at one moment, and how far it goes, while others go on. The other
    /// node [receives](State::receive) it. It blocks.
    ///
    /// # Errors
    /// [`everleaf::Error::Stream`], [`everleaf::Error::SnapshotLost`] if too much was written
    /// meanwhile, damage, [`everleaf::Error::Closed`] if a snapshot was installed meanwhile.
    pub fn send(&self, output: impl Write) -> everleaf::Result<()> {
        let store = match self {
            Self::Here(state) => Some(state.store()),
            Self::Received(received) => received.store.clone(),
        };
        let store = store.ok_or(everleaf::Error::Closed)?;
        let sent = store.dump_tree_with(TREE, output, |_| ControlFlow::Continue(()))?;
        sent.map(drop).ok_or(everleaf::Error::TreeDropped)
    }
}

impl State {
    /// Reads what [`SnapshotData::send`] writes into a pool of its own, durably, and says how far
    /// it goes: what `Raft::install_full_snapshot` is to be given. It blocks.
    ///
    /// # Errors
    /// [`everleaf::Error::Dump`] if it was cut off or is damaged; as a new pool.
    pub fn receive(&self, input: impl Read) -> everleaf::Result<Snapshot> {
        let number = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let store = self.shared.place.create(&StatePool::name(number))?; // R1
        let place = Arc::clone(&self.shared.place);
        let received = Received { place, number, store: Some(store.clone()) };
        store.restore(input)?; // R2
        let meta = Applied::of(&store.tree(TREE)?)?.meta();
        Ok(Snapshot { meta, snapshot: SnapshotData::Received(received) })
    }

    /// What of another state in this process: as if it was sent.
    fn receive_from(&self, other: &SnapshotData) -> io::Result<SnapshotData> {
        let (input, output) = io::pipe()?;
        thread::scope(|scope| {
            let sent = scope.spawn(|| other.send(output));
            let received = self.receive(io::BufReader::new(input));
            let sent = sent.join().unwrap_or(Err(everleaf::Error::Aborted));
            sent.and(received).map(|snapshot| snapshot.snapshot).map_err(failed)
        })
    }

    /// Up to where a snapshot goes that is durable from now on.
    pub(crate) fn build(&self) -> io::Result<SnapshotMeta> {
        let (store, meta) = (self.store(), self.applied().meta());
        unless_planted!(435, store.sync().map_err(failed)?);
        *self.shared.snapshot.lock() = Some(meta.clone());
        Ok(meta)
    }

    pub(crate) fn install(&self, meta: &SnapshotMeta, snapshot: SnapshotData) -> io::Result<()> {
        let mut received = match snapshot {
            SnapshotData::Received(received) => received,
            here => match self.receive_from(&here)? {
                SnapshotData::Received(received) => received,
                SnapshotData::Here(_) => return Ok(()),
            },
        };
        let store = received.store.clone().ok_or_else(|| failed("it was installed before"))?;
        let pool = StatePool::of(received.number, store).map_err(failed)?;
        let passed_over = self.shared.applied.borrow().passed_over;
        let applied = Applied { passed_over, ..Applied::of(&pool.tree).map_err(failed)? };
        if applied.meta() != *meta {
            return Err(failed("a snapshot holds another state than it says"));
        }
        let number = pool.number.to_string();
        // It is not removed from now on: a put whose sync fails may be durable nevertheless.
        received.store = None;
        unless_planted!(434, self.shared.meta.put(STATE_WORD, number).map_err(failed)?); // S1
        let old = std::mem::replace(&mut *self.shared.pool.write(), pool); // S2
        self.shared.applied.send_replace(applied);
        *self.shared.snapshot.lock() = Some(meta.clone());
        let _ = old.store.close(); // It is not needed any more, however it is closed.
        self.shared.place.remove(&StatePool::name(old.number)) // S3
    }
}
