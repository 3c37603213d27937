//! Replicated Everleaf stores: openraft decides, Everleaf keeps its log and its state.
//!
//! Each node has a folder with two pools. `raft.pool` has the log and the vote, and is synced
//! before anybody is told of an entry. `state.N.pool` has the rows that committed entries have
//! written; it may lag behind, as the log has what it lacks.
//!
//! Map of the files: `types` (openraft's types; groups) · `rows`, `entry` (bytes of an entry) ·
//! `log` (the log on a pool) · `state` (the rows on a pool) · `snapshot`, `install` · `pools` (a
//! node's folder) · `propose` (writes of a leader) · `peer` (a node while it runs, and what nodes
//! say to each other).
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod bytes;
mod entry;
mod install;
mod lease;
mod log;
mod machine;
mod peer;
mod place;
mod pools;
mod propose;
mod rows;
mod snapshot;
mod state;
mod types;

pub use bytes::{EntryError, Reader};
pub use entry::{EntryBytes, read_log_id, write_log_id};
#[doc(hidden)] // For tests of what a peer sends.
pub use install::install;
pub use lease::{Lease, Leases};
pub use log::Log;
pub use openraft;
pub use peer::{
    Client, ClusterStatus, Keys, MemberStatus, Node, NodeError, NodeOptions, NodeStatus, Origin,
    PeerError, Recovered, Relayed, Row, Secret, Stream, Tls, Verified, block_on, init,
    prepare_to_join, recover, verify,
};
#[doc(hidden)] // For tests of what a peer sends.
pub use peer::{Reply, Request};
#[doc(hidden)] // For tests on disks that are simulated.
pub use place::Place;
pub use pools::{FolderError, PoolOptions, Pools};
pub use propose::{Progress, ProposeError, Proposer, Ticket};
pub use rows::{RowBytes, Rows};
pub use snapshot::{Received, Snapshot, SnapshotData};
pub use state::{Applied, State};
pub use types::{C, Config, Entry, Group, LeaderId, LogId, Member, Members, SnapshotMeta, Vote};

/// openraft itself: one node.
pub type Raft = openraft::Raft<C, State>;

/// Runs what may wait for a disk: the threads of a runtime that has several go on with other tasks.
fn blocking<R>(work: impl FnOnce() -> R) -> R {
    use tokio::runtime::{Handle, RuntimeFlavor};

    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}
