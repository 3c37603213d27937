//! A node of a cluster that is served: when it leads it answers clients as a server by itself does;
//! else it passes them on (`net/relay.rs`).
//!
//! Map of the files: `reign` (from winning to losing) · `view` (who leads) · `aside` (what a node
//! answers with that does not lead).

mod aside;
mod reign;
mod view;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use everleaf_raft::{Node, NodeOptions};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::backup::Backups;
use crate::shared::{Connections, Shared};
use crate::{Address, ServeError, ServeOptions};

/// Threads of the cluster's runtime: openraft, its peers, reigns.
const THREADS: usize = 2;

/// How a read is known to be of the newest state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reads {
    /// A majority confirms, after the read, that this node leads.
    #[default]
    Linearizable,
    /// A majority has confirmed it so lately that no other node can lead, if clocks run alike.
    Lease,
}

/// Which node is served, and how.
#[derive(Clone, Debug, Default)]
pub struct ClusterOptions {
    /// Its folder.
    pub folder: PathBuf,
    /// How it is run.
    pub node: NodeOptions,
    /// The host that clients reach this node at, if it is not the one that other nodes use.
    pub announce: Option<String>,
    /// How reads are done.
    pub reads: Reads,
}

/// What a node is to clients.
#[derive(Clone, Default)]
pub(crate) enum Role {
    /// It leads, and answers.
    Leader(Arc<Shared>),
    /// Another one leads, or none.
    #[default]
    Other,
}

/// A node that is served.
pub(crate) struct Cluster {
    pub node: Arc<Node>,
    pub options: ServeOptions,
    pub reads: Reads,
    /// The connections that are open.
    pub open_connections: Arc<AtomicU64>,
    /// memcached's ones, for who is told of them.
    pub connections: Arc<Connections>,
    role: watch::Sender<Role>,
    /// An empty pool, for connections that need no keys.
    pub aside: Arc<Shared>,
    leader: watch::Sender<Option<u64>>,
}

impl Cluster {
    /// Who leads, as far as this node knows, and each change of it.
    pub fn leader(&self) -> watch::Receiver<Option<u64>> {
        self.leader.subscribe()
    }

    /// Waits until it leads: what all connections share then. None: it has ended.
    pub async fn leads(&self) -> Option<Arc<Shared>> {
        let mut roles = self.role.subscribe();
        let role = roles.wait_for(|role| matches!(role, Role::Leader(_))).await;
        match &*role.ok()? {
            Role::Leader(shared) => Some(Arc::clone(shared)),
            Role::Other => None,
        }
    }

    /// What all connections share, as long as it leads.
    pub fn shared(&self) -> Option<Arc<Shared>> {
        match &*self.role.borrow() {
            Role::Leader(shared) => Some(Arc::clone(shared)),
            Role::Other => None,
        }
    }
}

/// A node while it is served, and the threads that it runs on.
pub(crate) struct Running {
    pub cluster: Arc<Cluster>,
    announce: Option<String>,
    runtime: Runtime,
    reigns: JoinHandle<()>,
    stop: watch::Sender<bool>,
}

impl Running {
    /// Runs the node; from then on it may lead.
    pub fn start(how: ClusterOptions, mut options: ServeOptions) -> Result<Self, ServeError> {
        Backups::new(options.backups.clone(), 0).prepare()?;
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.worker_threads(THREADS).thread_name("cluster").enable_all().build();
        let runtime = runtime.map_err(ServeError::Thread)?;
        let node = NodeOptions { is_served: true, ..how.node };
        let node = runtime.block_on(Node::start(&how.folder, node))?;
        options.look = Some(view::look(&node));
        let open_connections = Arc::default();
        let aside = aside::shared(&how.folder, &options, &open_connections);
        let aside = aside.map_err(everleaf_raft::NodeError::from)?;
        let cluster = Arc::new(Cluster {
            node,
            options,
            reads: how.reads,
            open_connections,
            connections: Arc::default(),
            role: watch::Sender::default(),
            aside,
            leader: watch::Sender::default(),
        });
        let (stop, stopped) = watch::channel(false);
        runtime.spawn(view::watch(Arc::clone(&cluster)));
        let reigns = runtime.spawn(reign::run(Arc::clone(&cluster), stopped));
        Ok(Self { cluster, announce: how.announce, runtime, reigns, stop })
    }

    /// Tells the other nodes where clients reach this one.
    pub fn announce(&self, redis: [&Vec<Address>; 2], memcached: [&Vec<Address>; 2]) {
        let node = &self.cluster.node;
        let own = node.address().rsplit_once(':').map_or("", |(host, _)| host);
        let host = self.announce.as_deref().unwrap_or(own);
        let of = |addresses: [&Vec<Address>; 2]| {
            addresses.into_iter().flatten().find_map(|address| match address {
                Address::Tcp(address) => Some(format!("{host}:{}", address.port())),
                Address::Unix(_) => None,
            })
        };
        let _entered = self.runtime.enter();
        node.announce(of(redis), of(memcached));
    }

    /// Ends the reign, if there is one, lets another node lead, and closes the pools.
    pub fn stop(self) {
        let Self { cluster, runtime, reigns, stop, .. } = self;
        stop.send_replace(true);
        let _ = runtime.block_on(reigns); // A panic there has been reported on stderr.
        runtime.block_on(Arc::clone(&cluster.node).stop());
    }
}
