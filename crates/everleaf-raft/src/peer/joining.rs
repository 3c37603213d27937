//! A node that was made by `join` asks to belong to the cluster when it is run for the first time:
//! only then can the leader send it everything.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::peer::client::Client;
use crate::peer::founding::{forget_word, word};
use crate::peer::node::Node;
use crate::peer::node_error::NodeError;
use crate::types::Member;

/// Asks until it is done, or there was nothing to ask.
pub async fn run(node: Weak<Node>) {
    loop {
        let Some(node) = node.upgrade() else { return };
        match ask(&node).await {
            Ok(()) => return,
            Err(error) => tracing::warn!("this node has not joined the cluster yet: {error}"),
        }
        drop(node);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn ask(node: &Arc<Node>) -> Result<(), NodeError> {
    let Some(via) = word(&node.pools, "via")? else { return Ok(()) };
    let replaces = word(&node.pools, "replaces")?.and_then(|text| text.parse().ok());
    let member = Member { raft: node.address().to_owned(), ..Member::default() };
    let mut client = Client::new(vec![via], node.peers.keys().clone());
    client.join(node.number(), member, replaces).await?;
    tracing::info!("node {} belongs to the cluster", node.number());
    forget_word(&node.pools, "via")?;
    forget_word(&node.pools, "replaces")
}
