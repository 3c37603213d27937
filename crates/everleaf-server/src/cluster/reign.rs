//! A reign: from winning to losing. Everything that connections share is of one reign, and so are
//! they.
//!
//! ```text
//! R1  this node leads, and has applied all that was committed before (`Node::begin_reign`)
//! R2  what connections share is made over the store as it is then. Numbers that a reign before has
//!     given are below the word of the sequence, or were never told. What this writes is proposed.
//! R3  the role is told: connections are answered.
//! R4  lost: replies that are held never go, connections are closed, the role is told
//! ```
//! Nothing is undone, as the store has only rows that were committed.

use std::sync::{Arc, Weak};
use std::time::Duration;

use everleaf::{Error, Statistics};
use everleaf_raft::{Node, ProposeError, Proposer, Rows};
use tokio::sync::watch;
use tokio::task::{JoinSet, block_in_place};
use tracing::{error, info};

use super::{Cluster, Reads, Role};
use crate::data::{Ahead, Database, PendingRows, Propose, Refused, SWEEP_PAUSE, Sweeper, Ticket};
use crate::shared::Shared;

/// Before it is tried again to begin a reign.
const PAUSE: Duration = Duration::from_secs(1);

/// How often a majority is asked whether this node leads, and how long it may take.
const LOOK: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(3);

/// What the tasks of a reign have.
type Reign = (Arc<Cluster>, Arc<Proposer>, Arc<Ahead>);

/// What connections share in a reign, and what works beside them.
type Begun = (Arc<Shared>, Sweeper);

/// Where the rows of a reign are proposed.
struct Proposing {
    proposer: Arc<Proposer>,
    /// Connections that were cut may have this for longer than there is the node.
    node: Weak<Node>,
}

impl Propose for Proposing {
    fn propose(&self, pending: &PendingRows) -> Result<Ticket, Refused> {
        let mut rows = Rows::new();
        for (row, value) in pending {
            rows.push(row, value.as_deref());
        }
        self.proposer.propose(&rows).map_err(|error| match error {
            ProposeError::Lost => Refused::Lost,
            error => Refused::TooLarge(error.to_string()),
        })
    }

    fn leads(&self) -> bool {
        self.proposer.lease().holds()
    }

    fn log_statistics(&self) -> Result<Statistics, Error> {
        self.node.upgrade().ok_or(Error::Closed)?.log_statistics()
    }
}

/// Begins a reign each time that the node leads, until the server stops.
pub async fn run(cluster: Arc<Cluster>, mut stop: watch::Receiver<bool>) {
    loop {
        let proposer = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            proposer = cluster.node.begin_reign() => Arc::new(proposer),
        };
        let to = Proposing { proposer: Arc::clone(&proposer), node: Arc::downgrade(&cluster.node) };
        let ahead = Arc::new(Ahead::new(Box::new(to))); // R1
        let mut tasks = JoinSet::new();
        tasks.spawn(follow_progress(Arc::clone(&proposer), Arc::clone(&ahead)));
        let reign = (Arc::clone(&cluster), Arc::clone(&proposer), Arc::clone(&ahead));
        tasks.spawn(confirm_reads(reign.clone()));
        tasks.spawn(watch_majority(reign));
        match block_in_place(|| begin(&cluster, &ahead)) {
            Ok((shared, sweeper)) => {
                info!("this node leads");
                cluster.role.send_replace(Role::Leader(Arc::clone(&shared))); // R3
                tokio::select! {
                    _ = stop.wait_for(|stop| *stop) => {}
                    () = ahead.lost() => info!("this node leads no more"),
                }
                ahead.lose(); // R4
                cluster.role.send_replace(Role::Other);
                block_in_place(|| end(&shared, sweeper));
            }
            Err(error) => {
                error!(%error, "the rows of the cluster cannot be served");
                tokio::time::sleep(PAUSE).await;
            }
        }
        proposer.end();
    }
}

/// R2.
fn begin(cluster: &Cluster, ahead: &Arc<Ahead>) -> Result<Begun, Error> {
    let state = cluster.node.state();
    let (clock, since_ms) = (cluster.node.clock().clone(), state.applied().clock_ms);
    let data = Database::ahead_of(state.store(), clock, since_ms, ahead)?;
    let (data, options) = (Arc::new(data), cluster.options.clone());
    if let Some(bytes) = options.evict {
        data.evict_beyond(bytes);
    }
    let sweeper = data.sweep(SWEEP_PAUSE);
    let connections = (Arc::clone(&cluster.open_connections), Arc::clone(&cluster.connections));
    let shared = Shared::with_connections(data, options, connections);
    Ok((shared, sweeper))
}

/// Nothing of the reign works on.
fn end(shared: &Shared, sweeper: Sweeper) {
    if let Some(backup) = shared.end() {
        let _ = backup.join(); // A panic there has been reported on stderr.
    }
    drop(sweeper);
}

/// What is applied leaves the rows ahead, and what is settled is told.
async fn follow_progress(proposer: Arc<Proposer>, ahead: Arc<Ahead>) {
    let mut progress = proposer.progress();
    let mut applied = 0;
    loop {
        let now = *progress.borrow_and_update();
        if now.lost {
            return ahead.lose();
        }
        // What is in the store is settled.
        ahead.settled(now.settled.max(now.applied));
        if now.applied > applied {
            applied = now.applied;
            ahead.applied(applied);
        }
        if progress.changed().await.is_err() {
            return ahead.lose();
        }
    }
}

/// Asks for confirmations, one after another: each serves all who wait when it begins.
async fn confirm_reads((cluster, proposer, ahead): Reign) {
    let by_lease = cluster.reads == Reads::Lease;
    loop {
        let number = ahead.confirmation().await;
        if proposer.confirm(cluster.node.raft(), by_lease).await.is_err() {
            return ahead.lose();
        }
        ahead.confirmed(number);
    }
}

/// Ends a reign that no majority answers: its clients are told by others, and not by this node.
async fn watch_majority((cluster, proposer, ahead): Reign) {
    loop {
        let confirmed = proposer.confirm(cluster.node.raft(), false);
        if !matches!(tokio::time::timeout(PATIENCE, confirmed).await, Ok(Ok(()))) {
            return ahead.lose();
        }
        tokio::time::sleep(LOOK).await;
    }
}
