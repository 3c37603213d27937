//! A reign: from winning to losing.

use std::sync::Arc;

use tokio::sync::watch;

use super::Cluster;

/// Begins a reign each time that the node leads, until the server stops.
pub async fn run(_cluster: Arc<Cluster>, mut stop: watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}
