//! Who answers clients: this server by itself, or a node of a cluster as long as it leads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ServeOptions;
#[cfg(feature = "cluster")]
use crate::cluster::Cluster;
use crate::counters::Counters;
use crate::shared::{Connections, Shared};

/// Who answers clients.
#[derive(Clone)]
pub(super) enum Front {
    /// This server.
    Alone(Arc<Shared>),
    /// A node.
    #[cfg(feature = "cluster")]
    Node(Arc<Cluster>),
}

impl Front {
    /// What all connections share; none: the node does not lead.
    pub(super) fn shared(&self) -> Option<Arc<Shared>> {
        match self {
            Self::Alone(shared) => Some(Arc::clone(shared)),
            #[cfg(feature = "cluster")]
            Self::Node(cluster) => cluster.shared(),
        }
    }

    pub(super) fn options(&self) -> &ServeOptions {
        match self {
            Self::Alone(shared) => &shared.options,
            #[cfg(feature = "cluster")]
            Self::Node(cluster) => &cluster.options,
        }
    }

    /// How many connections are open.
    pub(super) fn open_connections(&self) -> &Arc<AtomicU64> {
        match self {
            Self::Alone(shared) => &shared.open_connections,
            #[cfg(feature = "cluster")]
            Self::Node(cluster) => &cluster.open_connections,
        }
    }

    /// memcached's connections.
    pub(super) fn connections(&self) -> &Arc<Connections> {
        match self {
            Self::Alone(shared) => &shared.connections,
            #[cfg(feature = "cluster")]
            Self::Node(cluster) => &cluster.connections,
        }
    }

    /// Connections at a time.
    pub(super) fn max_connections(&self) -> u64 {
        match self.shared() {
            Some(shared) => shared.settings.connections.load(Ordering::Relaxed),
            None => self.options().limits.connections as u64,
        }
    }

    /// Counts something, if it is counted now.
    pub(super) fn counted(&self, count: impl FnOnce(&Counters)) {
        if let Some(shared) = self.shared() {
            count(&shared.counters);
        }
    }
}
