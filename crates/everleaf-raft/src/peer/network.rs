//! openraft's network, over TCP: what this node asks the others.
//!
//! Each openraft task has a [`Channel`] to one node, with a connection of its own, so a long
//! snapshot does not delay a heartbeat. openraft may drop a question before its answer has come:
//! the connection goes with it, since the answer would be taken for that to the next question. A
//! connection is begun by a task of its own, so that a question with a short time limit does not
//! begin it again and again.
//!
//! **Guard.** A follower that has lost what it had acknowledged, because its folder is an old copy,
//! would make openraft's leader panic, and entries that were counted on a majority may no longer be
//! on one. So what each node has acknowledged to this leader is remembered, and a node that denies
//! it is unreachable from then on, with a sentence for the operator.

use std::collections::BTreeMap;
use std::error::Error;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use openraft::RaftNetworkFactory;
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::SnapshotData;
use crate::peer::counters::Counters;
use crate::peer::hello::Hello;
use crate::peer::message::{AppendReply, Reply, Request};
use crate::peer::peer_error::PeerError;
use crate::peer::stream::{Keys, Link};
use crate::peer::transmit;
use crate::peer::wire::{Kind, encode, encode_append};
use crate::snapshot::Snapshot;
use crate::types::{C, LogId, Member, Vote};

/// How long an answer may take that waits for the other node's disk.
const PATIENCE: Duration = Duration::from_secs(10);

/// What this node knows of the others, and how it reaches them.
#[derive(Debug)]
pub struct Peers {
    me: (uuid::Uuid, u64),
    keys: Keys,
    /// Bytes of a snapshot a second.
    snapshot_rate: Option<u64>,
    counters: Arc<Counters>,
    nodes: Mutex<BTreeMap<u64, Peer>>,
}

/// What is known of one node.
#[derive(Debug, Default)]
struct Peer {
    /// By which vote this node leads, and how far the other one has acknowledged to it.
    vote: Option<Vote>,
    acknowledged: Option<LogId>,
    /// Why it does not answer.
    trouble: Option<String>,
}

impl Peers {
    /// For a node of a cluster.
    pub fn of(
        me: (uuid::Uuid, u64),
        keys: Keys,
        snapshot_rate: Option<u64>,
        counters: Arc<Counters>,
    ) -> Arc<Self> {
        Arc::new(Self { me, keys, snapshot_rate, counters, nodes: Mutex::default() })
    }

    /// How this node begins.
    pub fn hello(&self) -> Hello {
        Hello::of(self.me.0, self.me.1)
    }

    /// The secret, and TLS.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Why a node does not answer, if it does not.
    pub fn trouble_of(&self, node: u64) -> Option<String> {
        self.nodes.lock().get(&node)?.trouble.clone()
    }

    /// Remembers whether a node answers; a new sentence is an event.
    fn note(&self, node: u64, trouble: Option<String>) {
        let mut nodes = self.nodes.lock();
        let peer = nodes.entry(node).or_default();
        if peer.trouble != trouble {
            match &trouble {
                Some(sentence) => tracing::warn!("node {node}: {sentence}"),
                None => tracing::info!("node {node} answers again"),
            }
            peer.trouble = trouble;
        }
    }

    /// See the head of this file.
    fn guard(
        &self,
        node: u64,
        request: &Acknowledging,
        reply: &AppendReply,
    ) -> Result<(), RPCError<C>> {
        let mut nodes = self.nodes.lock();
        let peer = nodes.entry(node).or_default();
        if peer.vote != Some(request.vote) {
            (peer.vote, peer.acknowledged) = (Some(request.vote), None);
        }
        match reply {
            AppendReply::All => peer.acknowledged = peer.acknowledged.max(request.last),
            AppendReply::Upto(upto) => peer.acknowledged = peer.acknowledged.max(*upto),
            AppendReply::Conflict if request.prev <= peer.acknowledged => {
                drop(nodes);
                let sentence = format!("node {node} has lost its log: replace it");
                self.note(node, Some(sentence.clone()));
                return Err(Unreachable::from_string(sentence).into());
            }
            AppendReply::Conflict | AppendReply::HigherVote(_) => {}
        }
        Ok(())
    }
}

/// What the answer to an append request acknowledges.
struct Acknowledging {
    vote: Vote,
    prev: Option<LogId>,
    last: Option<LogId>,
}

impl Acknowledging {
    fn of(request: &AppendEntriesRequest<C>) -> Self {
        let (vote, prev) = (request.vote, request.prev_log_id);
        Self { vote, prev, last: request.entries.last().map(|entry| entry.log_id).or(prev) }
    }
}

/// Makes channels.
#[derive(Debug)]
pub struct Network(pub Arc<Peers>);

impl RaftNetworkFactory<C> for Network {
    type Network = Channel;

    async fn new_client(&mut self, target: u64, member: &Member) -> Channel {
        let (peers, address) = (Arc::clone(&self.0), member.raft.clone());
        Channel { peers, target, address, ready: None, dialling: None }
    }
}

/// Questions of one task to one node.
pub struct Channel {
    peers: Arc<Peers>,
    target: u64,
    address: String,
    /// A connection that nothing is awaited on.
    ready: Option<Link>,
    dialling: Option<JoinHandle<Result<Link, PeerError>>>,
}

impl Channel {
    async fn link(&mut self) -> Result<Link, RPCError<C>> {
        if let Some(link) = self.ready.take() {
            return Ok(link);
        }
        let dialling = self.dialling.get_or_insert_with(|| {
            let (peers, address) = (Arc::clone(&self.peers), self.address.clone());
            let target = self.target;
            tokio::spawn(
                async move { peers.keys.connect(&address, peers.hello(), Some(target)).await },
            )
        });
        let dialled = dialling.await;
        self.dialling = None;
        match dialled {
            Ok(Ok(link)) => Ok(link),
            Ok(Err(error)) => Err(self.unreachable(&error)),
            Err(error) => Err(self.unreachable(&error)),
        }
    }

    fn unreachable(&self, error: &(impl Error + 'static)) -> RPCError<C> {
        self.peers.note(self.target, Some(error.to_string()));
        Unreachable::new(error).into()
    }

    /// Asks, and waits for the answer.
    async fn ask(&mut self, kind: Kind, body: io::Result<Vec<u8>>) -> Result<Reply, RPCError<C>> {
        let body = body.map_err(|error| self.unreachable(&error))?;
        let mut link = self.link().await?;
        let talk = async {
            link.send(kind, &body).await?;
            link.reply().await
        };
        match timeout(PATIENCE, talk).await {
            Ok(Ok(Reply::Failed(sentence))) => Err(self.unreachable(&PeerError::Refused(sentence))),
            Ok(Ok(reply)) => {
                self.ready = Some(link);
                Ok(reply)
            }
            Ok(Err(error)) => Err(NetworkError::new(&error).into()), // It may be a new process.
            Err(_) => {
                let address = self.address.clone();
                Err(self.unreachable(&PeerError::Silent { address }))
            }
        }
    }

    fn unexpected(&self) -> RPCError<C> {
        self.unreachable(&crate::peer::wire::damaged("an answer to another question came"))
    }

    async fn ask_for_vote(
        &mut self,
        request: &VoteRequest<C>,
        pre: bool,
    ) -> Result<VoteResponse<C>, RPCError<C>> {
        match self.ask(Kind::Message, encode(&Request::vote(request, pre))).await? {
            Reply::Vote { vote, granted, last } => {
                self.peers.note(self.target, None);
                Ok(VoteResponse::new(vote, last, granted))
            }
            _ => Err(self.unexpected()),
        }
    }

    async fn send_snapshot(
        &mut self,
        vote: Vote,
        data: SnapshotData,
    ) -> Result<SnapshotResponse<C>, RPCError<C>> {
        let mut link = self.link().await?;
        Counters::add(&self.peers.counters.snapshots_sent, 1);
        let (rate, counters) = (self.peers.snapshot_rate, &self.peers.counters);
        match transmit::send(&mut link, vote, data, rate, counters).await {
            Ok(Reply::Snapshot { vote }) => Ok(SnapshotResponse::new(vote)),
            Ok(Reply::Failed(sentence)) => Err(self.unreachable(&PeerError::Refused(sentence))),
            Ok(_) => Err(self.unexpected()),
            Err(error) => Err(self.unreachable(&error)),
        }
    }
}

impl RaftNetworkV2<C> for Channel {
    type SnapshotData = SnapshotData;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<C>,
        _: RPCOption,
    ) -> Result<AppendEntriesResponse<C>, RPCError<C>> {
        let acknowledging = Acknowledging::of(&request);
        match self.ask(Kind::Append, encode_append(&request)).await? {
            Reply::Append(reply) => {
                self.peers.guard(self.target, &acknowledging, &reply)?;
                self.peers.note(self.target, None);
                Counters::add(&self.peers.counters.appends_sent, 1);
                Counters::add(&self.peers.counters.entries_sent, request.entries.len() as u64);
                Ok(reply.into())
            }
            _ => Err(self.unexpected()),
        }
    }

    async fn vote(
        &mut self,
        request: VoteRequest<C>,
        _: RPCOption,
    ) -> Result<VoteResponse<C>, RPCError<C>> {
        self.ask_for_vote(&request, false).await
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<C>,
        _: RPCOption,
    ) -> Result<VoteResponse<C>, RPCError<C>> {
        self.ask_for_vote(&request, true).await
    }

    /// No error of the state here is told as one of storage, which would end the leader: a snapshot
    /// that was lost is sent again.
    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
        _: RPCOption,
    ) -> Result<SnapshotResponse<C>, StreamingError<C>> {
        tokio::select! {
            sent = self.send_snapshot(vote, snapshot.snapshot) => Ok(sent?),
            closed = cancel => Err(closed.into()),
        }
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<C>,
        _: RPCOption,
    ) -> Result<TransferLeaderResponse<C>, RPCError<C>> {
        match self.ask(Kind::Message, encode(&Request::transfer(&request))).await? {
            Reply::Transfer(reply) => Ok(reply.into()),
            _ => Err(self.unexpected()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::hello::Secret;
    use crate::types::LeaderId;

    #[test]
    fn a_follower_that_denies_what_it_acknowledged_is_unreachable() {
        let keys = Keys { secret: Secret::random(), tls: None };
        let peers = Peers::of((uuid::Uuid::nil(), 1), keys, None, Arc::default());
        let at = |index| Some(LogId { leader_id: LeaderId { term: 1, node_id: 1 }, index });
        let ask = |term, prev, last| Acknowledging { vote: Vote::new(term, 1), prev, last };
        // Before it has acknowledged anything the leader looks for where the logs agree.
        assert!(peers.guard(3, &ask(1, at(9), at(9)), &AppendReply::Conflict).is_ok());
        assert!(peers.guard(3, &ask(1, at(4), at(7)), &AppendReply::All).is_ok());
        assert!(peers.guard(3, &ask(1, at(8), at(9)), &AppendReply::Conflict).is_ok());
        assert_eq!(peers.trouble_of(3), None);
        for prev in [at(7), at(2)] {
            assert!(peers.guard(3, &ask(1, prev, at(9)), &AppendReply::Conflict).is_err());
        }
        let sentence = "node 3 has lost its log: replace it";
        assert_eq!(peers.trouble_of(3).as_deref(), Some(sentence));
        // Another node, and another reign, begin anew.
        assert!(peers.guard(2, &ask(1, at(2), at(9)), &AppendReply::Conflict).is_ok());
        assert!(peers.guard(3, &ask(2, at(2), at(9)), &AppendReply::Conflict).is_ok());
    }
}
