//! A node while it runs, and what nodes and clients say to each other at its peer port.
//!
//! Map of the files, each above those that it uses: `node` (a node: openraft, its tasks) ·
//! `founding` (folders of new nodes) · `client` (finds the leader and asks it) · `listen` (the
//! port) · `admin` (join, remove, transfer) · `verify` (whether all have the same rows) ·
//! `row_requests` (put, get, scan, watch) · `relay` (connections of clients that follow the leader)
//! · `janitor` (the log's length) · `joining` (a new node asks) · `network` (openraft's network;
//! the guard) · `transmit` (snapshots) · `stream` (connections) · `hello` (how they begin) · `tls`
//! · `message` (requests and replies) · `wire` (frames) · `status` · `counters` · `node_error`,
//! `peer_error` (sentences).

mod admin;
mod client;
mod counters;
mod founding;
mod hello;
mod janitor;
mod joining;
mod listen;
mod message;
mod network;
mod node;
mod node_error;
mod peer_error;
mod relay;
mod row_requests;
mod start;
mod status;
mod stream;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "without_tls.rs"]
mod tls;
mod transmit;
mod verify;
mod wire;

pub use client::Client;
pub use founding::{Recovered, init, prepare_to_join, recover};
pub use hello::Secret;
pub use message::{Origin, Reply, Request, Row};
pub use node::{Node, NodeOptions};
pub use node_error::NodeError;
pub use peer_error::PeerError;
pub use status::{ClusterStatus, MemberStatus, NodeStatus};
pub use stream::{Keys, Relayed};
pub use tls::Tls;
pub use verify::{Verified, verify};
pub use wire::Stream;

/// Runs one of this crate's futures to its end, for a program that has no runtime of its own.
///
/// # Errors
/// The system gives no threads.
pub fn block_on<F: Future>(future: F) -> std::io::Result<F::Output> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    Ok(runtime.worker_threads(2).enable_all().build()?.block_on(future))
}
