//! A node of a cluster while it runs: its folder, openraft, its peer port, and what it does by
//! itself (`janitor`, `joining`).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use everleaf::Clock;
use everleaf_pmem::planted;
use openraft::errors::Fatal;
use openraft::type_config::async_runtime::watch::WatchReceiver;
use openraft::{RaftMetrics, ServerState};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::Raft;
use crate::lease::Leases;
use crate::log::Log;
use crate::peer::counters::Counters;
use crate::peer::network::Peers;
use crate::peer::node_error::NodeError;
use crate::peer::status::{MemberStatus, NodeStatus};
use crate::peer::stream::Relayed;
use crate::peer::tls::Tls;
use crate::pools::Pools;
use crate::propose::{ProposeError, Proposer};
use crate::state::State;
use crate::types::{C, Member};

/// A node is silent that was not heard of for so long, in milliseconds: elections take less.
const SILENT_MS: u64 = 3000;
/// A leader is lost that was not heard of for so long: followers begin to elect another one sooner.
const UNHEARD: Duration = Duration::from_millis(1500);
/// Before it is tried again to begin a reign.
const RETRY: Duration = Duration::from_millis(200);

/// How a node is run.
#[derive(Clone, Debug, Default)]
pub struct NodeOptions {
    /// Where the peer port listens, if not at the address that the other nodes use.
    pub listen: Option<String>,
    /// How connections are encrypted. Without it, only addresses of the loopback are served.
    pub tls: Option<Tls>,
    /// Other addresses are served without TLS too: whoever can listen to this network may read and
    /// change what the nodes say.
    pub trusted_network: bool,
    /// Bytes a second that a snapshot is sent with; none: as fast as it goes.
    pub snapshot_rate: Option<u64>,
    /// The rows belong to a server, which writes them by [`Node::begin_reign`]: clients of the peer
    /// port do not.
    pub is_served: bool,
    /// The clock that entries tell.
    pub clock: Clock,
}

/// A node that runs. It ends by [`stop`](Node::stop).
#[derive(Debug)]
pub struct Node {
    pub(crate) raft: Raft,
    pub(crate) state: State,
    pub(crate) log: Log<C>,
    pub(crate) pools: Pools,
    pub(crate) peers: Arc<Peers>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) folder: PathBuf,
    pub(crate) address: String,
    /// When the leader was heard of, if another node leads.
    pub(crate) heard: Mutex<Instant>,
    /// Who takes connections that other nodes relay.
    pub(crate) relays: Mutex<Option<mpsc::Sender<Relayed>>>,
    pub(crate) is_served: bool,
    pub(crate) clock: Clock,
    /// What writes go through while this node leads.
    pub(crate) reign: tokio::sync::Mutex<Option<Arc<Proposer>>>,
    pub(crate) leases: Leases,
    pub(crate) started: Instant,
    pub(crate) tasks: Mutex<JoinSet<()>>,
}

impl Node {
    /// The number of the node.
    pub fn number(&self) -> u64 {
        self.pools.node()
    }

    /// The number of its cluster.
    pub fn cluster(&self) -> Uuid {
        self.pools.cluster()
    }

    /// The address that other nodes use.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The clock that entries tell.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// openraft.
    pub fn raft(&self) -> &Raft {
        &self.raft
    }

    /// The rows.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Returns when it votes in its cluster, and no change of the members is under way.
    pub async fn joined(&self) {
        let votes = |now: &RaftMetrics<C>| {
            let members = now.membership_config.membership();
            let is_settled = members.get_joint_config().len() == 1;
            is_settled && members.voter_ids().any(|it| it == now.id)
        };
        // It fails when the node ends.
        let _ = self.raft.wait(None).metrics(votes, "joined").await;
    }

    /// Returns when openraft has ended by itself, and why: a disk that failed a sync, or is full.
    pub async fn stopped(&self) -> String {
        let mut metrics = self.raft.metrics();
        loop {
            if let Err(error) = &metrics.borrow_watched().running_state {
                return error.to_string();
            }
            if metrics.changed().await.is_err() {
                return "the cluster's engine has ended".to_owned();
            }
        }
    }

    /// The pool of the log: it needs room for what is proposed.
    ///
    /// # Errors
    /// Of the pool.
    pub fn log_statistics(&self) -> everleaf::Result<everleaf::Statistics> {
        self.log.store().statistics()
    }

    /// Why openraft has ended by itself, if it has.
    pub fn failure(&self) -> Option<String> {
        self.metrics().running_state.err().map(|error| error.to_string())
    }

    /// Who leads; none: nobody, or the leader was not heard of for longer than an election takes to
    /// begin, or it has heard of no majority for as long.
    pub fn leader(&self) -> Option<u64> {
        let metrics = self.metrics();
        let leader = metrics.current_leader?;
        let is_heard_of = match leader == self.number() {
            true => is_followed(&metrics),
            false => self.heard.lock().elapsed() < UNHEARD,
        };
        is_heard_of.then_some(leader)
    }

    /// What openraft knows now.
    pub fn metrics(&self) -> RaftMetrics<C> {
        self.raft.metrics().borrow_watched().clone()
    }

    /// What writes go through, if this node leads. It waits until everything that was committed
    /// before is applied.
    pub(crate) async fn proposer(&self) -> Result<Arc<Proposer>, ProposeError> {
        let mut reign = self.reign.lock().await;
        if let Some(proposer) = &*reign {
            return Ok(Arc::clone(proposer));
        }
        Ok(Arc::clone(reign.insert(Arc::new(self.begin().await?))))
    }

    async fn begin(&self) -> Result<Proposer, ProposeError> {
        Proposer::begin(&self.raft, &self.state, &self.clock, &self.leases).await
    }

    /// A reign has ended.
    pub(crate) async fn lost(&self, proposer: &Arc<Proposer>) {
        let mut reign = self.reign.lock().await;
        if reign.as_ref().is_some_and(|reign| Arc::ptr_eq(reign, proposer)) {
            *reign = None;
        }
    }

    /// Returns when this node leads, and begins a reign then: all that was committed before is
    /// applied. There is one at a time.
    pub async fn begin_reign(&self) -> Proposer {
        let mut server = self.raft.server_metrics();
        loop {
            drop(server.borrow_and_update());
            if let Ok(proposer) = self.begin().await {
                return proposer;
            }
            // It may lead, and no majority has answered in time.
            let _ = tokio::time::timeout(RETRY, server.changed()).await;
        }
    }

    /// How it is.
    ///
    /// # Errors
    /// Of its pools.
    pub fn status(&self) -> Result<NodeStatus, NodeError> {
        let metrics = self.metrics();
        let (state, log) = (self.state.store().statistics()?, self.log.store().statistics()?);
        let disk = rustix::fs::statvfs(&self.folder).map_err(std::io::Error::from)?;
        let index = |id: &Option<crate::types::LogId>| id.as_ref().map(|id| id.index);
        let members = self.members(&metrics);
        let role = match metrics.state {
            ServerState::Leader if !is_heard_by_majority(&members) => "isolated".to_owned(),
            state => format!("{state:?}").to_lowercase(),
        };
        Ok(NodeStatus {
            node: self.number(),
            cluster: self.pools.cluster(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            role,
            leader: metrics.current_leader,
            term: metrics.current_term,
            last_log: metrics.last_log_index,
            committed: index(&metrics.local_committed),
            applied: index(&metrics.last_applied),
            purged: index(&metrics.purged),
            state_bytes: state.used_bytes,
            max_state_bytes: state.max_bytes,
            log_bytes: log.used_bytes,
            disk_free_bytes: disk.f_bavail.saturating_mul(disk.f_frsize),
            stopped: metrics.running_state.as_ref().err().map(ToString::to_string),
            members,
            counters: self.counters.all(),
        })
    }

    fn members(&self, metrics: &RaftMetrics<C>) -> Vec<MemberStatus> {
        let membership = metrics.membership_config.membership();
        let voters: Vec<u64> = membership.voter_ids().collect();
        let own = metrics.last_log_index;
        let of = |(node, member): (&u64, &Member)| {
            let is_me = *node == self.number();
            let replicated = metrics.replication.as_ref().and_then(|all| all.get(node));
            let matched = if is_me { own } else { replicated.and_then(|id| id.map(|id| id.index)) };
            let heard = metrics.heartbeat.as_ref().and_then(|all| all.get(node).copied().flatten());
            MemberStatus {
                node: *node,
                raft: member.raft.clone(),
                voter: voters.contains(node),
                matched,
                lag_entries: metrics.replication.as_ref().map(|_| {
                    own.map_or(0, |own| (own + 1).saturating_sub(matched.map_or(0, |at| at + 1)))
                }),
                silent_ms: match is_me {
                    true => Some(0),
                    false => heard.map(|at| since(&at).as_millis() as u64),
                },
                trouble: self.peers.trouble_of(*node),
            }
        };
        membership.nodes().map(of).collect()
    }

    /// Ends: another node leads, if this one did and one can, then the pools are closed.
    pub async fn stop(self: Arc<Self>) {
        self.hand_over().await;
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.shutdown().await;
        if let Err(error) = self.raft.shutdown().await {
            tracing::warn!("openraft ended badly: {error}");
        }
    }

    /// Asks a node to lead. It need not wait until the lease of this one has ended.
    pub(crate) async fn transfer(&self, next: u64) -> Result<(), Fatal<C>> {
        self.give_up_lease().await?;
        self.raft.trigger().transfer_leader(next).await
    }

    /// Before others may lead sooner than it ends: as long as this node leads, a majority confirms
    /// what is read.
    pub(crate) async fn give_up_lease(&self) -> Result<(), Fatal<C>> {
        if planted(444) {
            return Ok(());
        }
        self.leases.give_up();
        let leader = self.raft.with_raft_state(|state| state.vote_ref().leader_id).await?;
        if leader.node_id == self.number() {
            self.leases.of(leader).give_up(); // Its first reign may begin only now.
        }
        Ok(())
    }

    /// Asks the follower that lacks least to lead, and waits shortly.
    pub(crate) async fn hand_over(&self) {
        let metrics = self.metrics();
        let Some(replication) =
            metrics.replication.filter(|_| metrics.state == ServerState::Leader)
        else {
            return;
        };
        let voters: Vec<u64> = metrics.membership_config.voter_ids().collect();
        let others = replication
            .into_iter()
            .filter(|(node, _)| *node != self.number() && voters.contains(node))
            .filter(|(node, _)| self.peers.trouble_of(*node).is_none());
        let Some((next, _)) = others.max_by_key(|(_, matched)| *matched) else { return };
        if self.transfer(next).await.is_ok() {
            let wait = self.raft.wait(Some(Duration::from_secs(2)));
            // If nobody takes over, they elect one.
            let _ = wait.metrics(|now| now.current_leader != Some(now.id), "hand over").await;
        }
    }
}

/// Whether a majority has answered this node lately as their leader.
fn is_followed(metrics: &RaftMetrics<C>) -> bool {
    let voters = || metrics.membership_config.voter_ids();
    let Some(heartbeat) = metrics.heartbeat.as_ref() else { return false };
    let answers = |id: &u64| match heartbeat.get(id).copied().flatten() {
        _ if *id == metrics.id => true,
        Some(at) => since(&at) < UNHEARD,
        None => false,
    };
    2 * voters().filter(answers).count() > voters().count()
}

/// Whether a leader has heard of a majority lately: others may lead otherwise.
fn is_heard_by_majority(members: &[MemberStatus]) -> bool {
    let voters = || members.iter().filter(|member| member.voter);
    let heard = voters().filter(|member| member.silent_ms.is_some_and(|ms| ms < SILENT_MS));
    2 * heard.count() > voters().count()
}

/// How long ago it was.
pub(crate) fn since<I: openraft::Instant>(at: &openraft::metrics::SerdeInstant<I>) -> Duration {
    at.elapsed()
}
