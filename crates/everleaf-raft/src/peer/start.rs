//! How a node begins: its folder, openraft, its peer port, and what it does by itself.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use openraft::type_config::async_runtime::watch::WatchReceiver;
use openraft::{Config, SnapshotPolicy};
use parking_lot::Mutex;
use tokio::net::{TcpListener, lookup_host};

use crate::Raft;
use crate::lease::Leases;
use crate::peer::counters::Counters;
use crate::peer::founding::{self, SECRET_FILE, word};
use crate::peer::hello::Secret;
use crate::peer::network::{Network, Peers};
use crate::peer::node::{Node, NodeOptions};
use crate::peer::node_error::NodeError;
use crate::peer::peer_error::PeerError;
use crate::peer::stream::Keys;
use crate::peer::{janitor, joining, listen};

/// openraft's settings: three of its defaults are not ours.
fn config() -> Result<Config, NodeError> {
    let config = Config {
        cluster_name: "everleaf".to_owned(),
        heartbeat_interval: 100,
        // A leader is waited for as long as the longest of these, and then as one of them.
        election_timeout_min: 500,
        election_timeout_max: 1000,
        enable_pre_vote: Some(true),
        // The state is synced late: a leader that goes on without an election might serve an old
        // one.
        enable_leader_restore: Some(false),
        allow_log_reversion: Some(false),
        // The janitor asks for snapshots and purges.
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: u64::MAX,
        ..Config::default()
    };
    config.validate().map_err(|error| NodeError::Raft(error.to_string()))
}

impl Node {
    /// Runs the node of a folder. It blocks shortly, and needs a runtime of several threads.
    ///
    /// # Errors
    /// [`NodeError`].
    pub async fn start(folder: &Path, options: NodeOptions) -> Result<Arc<Self>, NodeError> {
        let pools = founding::open(folder)?;
        let secret = Secret::read(&folder.join(SECRET_FILE)).map_err(NodeError::Secret)?;
        let address = word(&pools, "address")?.ok_or(NodeError::NoAddress)?;
        let counters = Arc::<Counters>::default();
        let keys = Keys { secret, tls: options.tls };
        let me = (pools.cluster(), pools.node());
        let peers = Peers::of(me, keys, options.snapshot_rate, Arc::clone(&counters));
        refuse_two_of_one(&peers, &address, me.1).await?;
        let listen_at = options.listen.as_ref().unwrap_or(&address);
        let is_safe = peers.keys().tls.is_some() || options.trusted_network;
        let listener = bind(listen_at, is_safe).await?;
        let (log, state) = (pools.log()?, pools.state());
        let network = Network(Arc::clone(&peers));
        let raft = Raft::new(me.1, Arc::new(config()?), network, log.clone(), state.clone())
            .await
            .map_err(|error| NodeError::Raft(error.to_string()))?;
        let members = raft.metrics().borrow_watched().membership_config.clone();
        if members.voter_ids().eq([me.1]) {
            // Nobody else is waited for. An election that does not begin begins later.
            let _ = raft.trigger().elect(false).await;
        }
        let node = Arc::new(Self {
            raft,
            state,
            log,
            pools,
            peers,
            counters,
            folder: folder.to_owned(),
            address,
            heard: Mutex::new(Instant::now()),
            relays: Mutex::default(),
            is_served: options.is_served,
            clock: options.clock,
            reign: tokio::sync::Mutex::default(),
            leases: Leases::default(),
            started: Instant::now(),
            tasks: Mutex::default(),
        });
        let mut tasks = node.tasks.lock();
        tasks.spawn(listen::listen(Arc::downgrade(&node), listener));
        tasks.spawn(janitor::run(Arc::downgrade(&node)));
        tasks.spawn(joining::run(Arc::downgrade(&node)));
        drop(tasks);
        Ok(node)
    }
}

/// Refuses to run beside a process that is the same node, on a copy of the folder.
async fn refuse_two_of_one(peers: &Peers, address: &str, node: u64) -> Result<(), NodeError> {
    match peers.keys().connect(address, peers.hello(), None).await {
        Ok(link) if link.peer.node == node => Err(PeerError::TwoOfOne { node }.into()),
        Ok(link) => Err(NodeError::Peer(PeerError::OtherNode {
            address: address.to_owned(),
            expected: node,
            found: link.peer.node,
        })),
        Err(error @ PeerError::Refused(_)) => Err(error.into()),
        Err(_) => Ok(()), // As it should be: nobody is there.
    }
}

async fn bind(address: &str, is_safe: bool) -> Result<TcpListener, NodeError> {
    let refuse = |source| NodeError::Bind { address: address.to_owned(), source };
    for resolved in lookup_host(address).await.map_err(refuse)? {
        if !is_safe && !resolved.ip().is_loopback() {
            return Err(NodeError::NeedsTls { address: address.to_owned() });
        }
    }
    TcpListener::bind(address).await.map_err(refuse)
}
