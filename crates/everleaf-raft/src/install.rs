//! A snapshot that another node has sent goes to openraft, unless the node's log has all of it.
//!
//! A leader that has not heard of what a node has, and has purged the entries behind, sends its
//! state, which may be older than the node's log. openraft takes it, and is left in a state that it
//! calls invalid itself: more is synced than was given to the log. A debug build of it ends there.
//! Nothing of such a snapshot is needed: the leader sends what follows, and says what is committed.
//!
//! ```text
//! I1  the log has the snapshot's last entry, so also all before it that are not applied
//! I2  sync
//! I3  openraft is told of the leader, as by an append of nothing behind that entry: it follows it
//!     from now on, and finds the entry, so this leader may count on it.
//! ```

use std::io;

use openraft::OptionalSend;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse};
use openraft::storage::RaftStateMachine;

use crate::blocking;
use crate::log::{Log, failed};
use crate::snapshot::{Snapshot, SnapshotData};
use crate::types::{Config, Vote};

/// Installs a snapshot that the leader of `vote` has sent, or lets the log stand for it; the vote
/// of this node.
///
/// # Errors
/// Those of the log; openraft's, which then has stopped.
pub async fn install<T, S>(
    raft: &openraft::Raft<T, S>,
    log: &Log<T>,
    vote: Vote,
    snapshot: Snapshot,
) -> io::Result<Vote>
where
    T: Config,
    S: RaftStateMachine<T, SnapshotData = SnapshotData> + OptionalSend,
{
    let has = || match &snapshot.meta.last_log_id {
        Some(last) => log.has(last), // I1
        None => Ok(false),
    };
    if blocking(has)? {
        blocking(|| log.store().sync()).map_err(failed)?; // I2
        let nothing = AppendEntriesRequest {
            vote,
            prev_log_id: snapshot.meta.last_log_id,
            entries: Vec::new(),
            leader_commit: None,
        };
        match raft.append_entries(nothing).await.map_err(failed)? {
            AppendEntriesResponse::HigherVote(own) => return Ok(own),
            AppendEntriesResponse::Conflict => {} // Another leader has cut the log.
            _ => return Ok(vote),                 // I3
        }
    }
    let installed = raft.install_full_snapshot(vote, snapshot).await;
    installed.map(|response| response.vote).map_err(failed)
}
