//! A node that was made by `join` asks to belong to the cluster when it is run for the first time:
//! only then can the leader send it everything.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::peer::client::Client;
use crate::peer::founding::{forget_word, word};
use crate::peer::node::Node;
use crate::peer::node_error::NodeError;
use crate::types::Member;

impl Node {
    /// Tells the cluster where clients reach this node, now and until it is known: other nodes send
    /// clients there.
    pub fn announce(self: &Arc<Self>, redis: Option<String>, memcached: Option<String>) {
        let member = Member { raft: self.address().to_owned(), redis, memcached };
        self.tasks.lock().spawn(announce(Arc::downgrade(self), member));
    }
}

async fn announce(node: Weak<Node>, member: Member) {
    loop {
        let Some(this) = node.upgrade() else { return };
        let members = this.metrics().membership_config;
        match members.get_node(&this.number()) {
            Some(known) if *known == member => return,
            Some(_) => {
                let via = members.nodes().map(|(_, member)| member.raft.clone()).collect();
                let mut client = Client::new(via, this.peers.keys().clone());
                if let Err(error) = client.announce(this.number(), member.clone()).await {
                    tracing::warn!("where clients reach this node is not known yet: {error}");
                }
            }
            None => {} // It has not joined yet.
        }
        drop(this);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

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
