//! Connections to a node that does not lead.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;

use super::Cluster;
use crate::protocol::Protocol;
use crate::shared::Ends;

/// Speaks with a client as long as another node leads, or none; until one of the two ends it, or
/// `stop` says that the server stops. A connection by TLS has begun.
pub async fn run(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    (protocol, _ends): (Protocol, Ends),
    _cluster: Arc<Cluster>,
    _stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let refusal: &[u8] = match protocol {
        Protocol::Memcached => b"SERVER_ERROR no leader\r\n",
        Protocol::Redis => b"-CLUSTERDOWN no leader\r\n",
    };
    stream.write_all(refusal).await?;
    stream.shutdown().await
}
