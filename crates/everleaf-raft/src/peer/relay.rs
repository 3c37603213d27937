//! Connections of clients that one node relays to the leader. When both have agreed, a connection
//! of the peer port has the client's bytes and nothing else, in both directions, until it ends;
//! none of them is looked at. The leader's server takes it as one of its own.
//!
//! A node that does not lead any more refuses: nothing is relayed twice.

use std::io;
use std::sync::Arc;

use tokio::io::duplex;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::peer::message::{Origin, Reply, Request};
use crate::peer::node::Node;
use crate::peer::peer_error::PeerError;
use crate::peer::stream::{Link, PATIENCE, Relayed};
use crate::peer::wire::{Kind, Stream, damaged, encode};

/// Connections that have come and that the server has not taken; others wait.
const WAITING: usize = 64;
/// Bytes that wait between the two ends of a connection that stays on this node.
const BETWEEN: usize = 64 << 10;

impl Node {
    /// The connections that other nodes relay to this one from now on, while it leads. Whoever asks
    /// last gets them; before anybody has asked, they are refused.
    pub fn relays(&self) -> mpsc::Receiver<Relayed> {
        let (sender, receiver) = mpsc::channel(WAITING);
        *self.relays.lock() = Some(sender);
        receiver
    }

    /// A connection to the leader's server. Nothing of the client was sent when this fails.
    ///
    /// # Errors
    /// [`PeerError`]: nobody leads, or who did cannot be reached or leads no more.
    pub async fn relay(&self, origin: Origin) -> Result<Box<dyn Stream>, PeerError> {
        let metrics = self.metrics();
        let leader = self.leader().ok_or(PeerError::NoLeader)?;
        if leader == self.number() {
            let (here, there) = duplex(BETWEEN);
            return match give(self, (origin, Box::new(there))).await {
                Ok(()) => Ok(Box::new(here)),
                Err(sentence) => Err(PeerError::Refused(sentence)),
            };
        }
        let members = metrics.membership_config;
        let address = &members.get_node(&leader).ok_or(PeerError::NoLeader)?.raft;
        let (keys, me) = (self.peers.keys(), self.peers.hello());
        let mut link = keys.connect(address, me, Some(leader)).await?;
        let silent = |_| PeerError::Silent { address: address.clone() };
        match timeout(PATIENCE, link.ask(&Request::Relay { origin })).await.map_err(silent)?? {
            Reply::Done => Ok(link.stream),
            Reply::Failed(sentence) => Err(PeerError::Refused(sentence)),
            _ => Err(damaged("an answer to another question came").into()),
        }
    }
}

/// Gives a connection to this node's server; why not.
async fn give(node: &Node, relayed: Relayed) -> Result<(), String> {
    let server = node.relays.lock().clone();
    let server = server.ok_or_else(|| format!("node {} serves no clients", node.number()))?;
    let ended = |_| format!("the server of node {} has ended", node.number());
    server.send(relayed).await.map_err(ended)
}

/// Takes a connection that another node relays.
pub async fn take(node: &Arc<Node>, mut link: Link, origin: Origin) -> io::Result<()> {
    let refused = match node.raft.as_leader() {
        Ok(_) => None,
        Err(_) => Some(format!(
            "node {} does not lead: what is relayed to it is not relayed again",
            node.number()
        )),
    };
    let refused = refused.or_else(|| match &*node.relays.lock() {
        Some(_) => None,
        None => Some(format!("node {} serves no clients", node.number())),
    });
    let reply = refused.map_or(Reply::Done, Reply::Failed);
    link.send(Kind::Message, &encode(&reply)?).await?;
    match reply {
        Reply::Done => give(node, (origin, link.stream)).await.map_err(io::Error::other),
        _ => Ok(()),
    }
}
