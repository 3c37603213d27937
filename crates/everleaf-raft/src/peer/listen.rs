//! The peer port: other nodes ask for votes and bring entries and snapshots, clients ask for rows
//! and for changes of the cluster. A connection is a task, and its requests are answered in turn.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Instant;

use everleaf_pmem::planted;
use openraft::ServerState;
use openraft::raft::{TransferLeaderRequest, VoteRequest};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::blocking;
use crate::lease::SILENCE;
use crate::peer::counters::Counters;
use crate::peer::hello::Hello;
use crate::peer::message::{AppendReply, Reply, Request};
use crate::peer::node::{Node, since};
use crate::peer::peer_error::PeerError;
use crate::peer::stream::Link;
use crate::peer::verify::{self, Held};
use crate::peer::wire::{Kind, MAX_BODY, damaged, decode, decode_append, encode, read_frame};
use crate::peer::{admin, relay, row_requests, transmit};
use crate::types::Vote;

/// Connections at a time; others wait.
const CONNECTIONS: usize = 1024;
/// A leader that a majority has answered within this time knows who belongs to the cluster.
const FRESH_MS: u128 = 500;

/// Accepts connections until the node ends.
pub async fn listen(node: Weak<Node>, listener: TcpListener) {
    let mut connections = JoinSet::new();
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        while connections.try_join_next().is_some() {}
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let (tcp, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!("the peer port accepts no connection: {error}");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                continue;
            }
        };
        let Some(node) = node.upgrade() else { return };
        connections.spawn(async move {
            if let Err(error) = serve(&node, tcp, from).await {
                tracing::info!("the connection of {from} ended: {error}");
            }
            drop(place);
        });
    }
}

async fn serve(node: &Arc<Node>, tcp: TcpStream, from: SocketAddr) -> io::Result<()> {
    let (me, admit) = (node.peers.hello(), |peer: &Hello| admit(node, peer));
    let mut link = match node.peers.keys().accept(tcp, from, me, admit).await {
        Ok(link) => link,
        Err(error) => {
            Counters::add(&node.counters.connections_refused, 1);
            match error {
                // Who only looks whether somebody listens says nothing.
                PeerError::Stream(error) => tracing::debug!("{from} has said nothing: {error}"),
                error => tracing::warn!("a connection of {from} was refused: {error}"),
            }
            return Ok(());
        }
    };
    Counters::add(&node.counters.connections, 1);
    let mut held = None;
    loop {
        let frame = match read_frame(&mut link.stream, MAX_BODY).await {
            Ok(frame) => frame,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        };
        let reply = match frame.kind {
            Kind::Append => append(node, &frame.body).await?,
            Kind::Message => match decode(&frame.body)? {
                Request::Relay { origin } => return relay::take(node, link, origin).await,
                request => answer(node, &mut link, request, &mut held).await?,
            },
            _ => return Err(damaged("a request of another kind came")),
        };
        link.send(Kind::Message, &encode(&reply)?).await?;
    }
}

/// Whom the node does not talk to, though it knows the secret.
fn admit(node: &Node, peer: &Hello) -> Result<(), PeerError> {
    if peer.node == node.number() {
        return Err(PeerError::TwoOfOne { node: peer.node });
    }
    let metrics = node.metrics();
    // A leader that a majority listens to knows all nodes; any other one may know old ones.
    let is_fresh = metrics.state == ServerState::Leader
        && metrics.last_quorum_acked.is_some_and(|at| since(&at).as_millis() < FRESH_MS);
    let is_member = metrics.membership_config.get_node(&peer.node).is_some();
    match peer.node != 0 && is_fresh && !is_member {
        true => Err(PeerError::Removed { node: peer.node }),
        false => Ok(()),
    }
}

async fn append(node: &Node, body: &[u8]) -> io::Result<Reply> {
    let request = decode_append(body)?;
    Counters::add(&node.counters.appends_received, 1);
    Ok(match node.raft.append_entries(request).await {
        Ok(response) => {
            let reply = response.into();
            if !matches!(reply, AppendReply::HigherVote(_)) {
                *node.heard.lock() = Instant::now();
            }
            Reply::Append(reply)
        }
        Err(error) => failed(&error),
    })
}

/// A sentence for the other side, of a node that has ended.
fn failed(error: &dyn std::fmt::Display) -> Reply {
    Reply::Failed(format!("this node has stopped: {error}"))
}

async fn answer(
    node: &Arc<Node>,
    link: &mut Link,
    request: Request,
    held: &mut Option<Held>,
) -> io::Result<Reply> {
    if link.peer.node == 0 {
        Counters::add(&node.counters.requests, 1);
    }
    Ok(match request {
        Request::Vote { vote, last, transfer, pre } => {
            let mut request = VoteRequest::new(vote, last);
            request.leadership_transfer = transfer;
            answer_candidate(node, request, pre).await
        }
        Request::Transfer { from, to, last } => transfer(node, from, to, last).await,
        Request::Snapshot { vote } => {
            transmit::receive(link, &node.raft, (&node.log, &node.state), vote, &node.counters)
                .await?
        }
        Request::Status => match blocking(|| node.status()) {
            Ok(status) => Reply::Status(Box::new(status)),
            Err(error) => Reply::Failed(error.to_string()),
        },
        Request::Join { node: new, member, replaces } => {
            admin::join(node, new, member, replaces).await
        }
        Request::Remove { node: old } => admin::remove(node, old).await,
        Request::Lead { node: next } => admin::lead(node, next).await,
        Request::Announce { node: at, member } => admin::announce(node, at, member).await,
        Request::Hold => verify::hold(node, held),
        Request::Sum { except } => verify::sum(held.take(), except).await,
        Request::Changed { after, upto } => verify::changed(node, after, upto).await,
        Request::Put { rows } => row_requests::put(node, rows).await,
        Request::Get { key } => row_requests::get(node, &key).await,
        Request::Scan { from, limit } => row_requests::scan(node, &from, limit).await,
        Request::Watch { prefix } => row_requests::watch(node, link, &prefix).await?,
        Request::Relay { .. } => return Err(damaged("a relay came where none is taken")),
    })
}

async fn answer_candidate(node: &Node, request: VoteRequest<crate::types::C>, pre: bool) -> Reply {
    if !request.leadership_transfer && !planted(445) {
        tokio::time::sleep_until((node.started + SILENCE).into()).await;
    }
    let response = match pre {
        true => node.raft.pre_vote(request).await,
        false => node.raft.vote(request).await,
    };
    if response.as_ref().is_ok_and(|response| response.vote_granted) && !pre && !planted(446) {
        node.leases.give_up(); // Before the vote counts.
    }
    response.map_or_else(|error| failed(&error), Reply::from)
}

async fn transfer(node: &Node, from: Vote, to: u64, last: Option<crate::types::LogId>) -> Reply {
    let request = TransferLeaderRequest::new(from, to, last);
    match node.raft.handle_transfer_leader(request).await {
        Ok(response) => Reply::Transfer(response.into()),
        Err(error) => failed(&error),
    }
}
