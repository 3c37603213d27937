//! Rows for clients of the peer port: what a program needs that uses a cluster as a replicated map.
//!
//! A put is answered when a majority has synced it, a get and a scan see every put that was
//! answered before they were asked (by openraft's read index). A watch may be asked of any node,
//! and tells of the rows that entries name, in the order of the log, each as it is when it is told.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io;
use std::sync::Arc;

use everleaf::Scan;
use openraft::errors::{ForwardToLeader, LinearizableReadError, RaftError};
use openraft::storage::RaftLogStorage;
use openraft::{EntryPayload, RaftLogReader, ReadPolicy, TryAsRef};
use tokio::io::AsyncReadExt;

use crate::peer::message::{Reply, Row};
use crate::peer::node::Node;
use crate::peer::stream::Link;
use crate::peer::wire::{Kind, encode};
use crate::propose::ProposeError;
use crate::rows::Rows;
use crate::types::C;

/// Rows and bytes of one answer to a scan.
const MAX_ROWS: u32 = 10_000;
const MAX_BYTES: usize = 1 << 20;
/// Bytes of keys that a watch, or a verification, gathers at a time.
const MAX_KEYS: usize = 32 << 20;

/// Whether a key is one of the state's own words, as `state.rs` names them.
pub fn is_own(key: &[u8]) -> bool {
    key.starts_with(b"\0raft ")
}

/// Another node leads; or what openraft says.
pub fn refused<E>(error: &RaftError<C, E>) -> Reply
where
    E: TryAsRef<ForwardToLeader<C>> + std::fmt::Debug + Display,
{
    match error.forward_to_leader() {
        Some(forward) => Reply::NotLeader { leader: forward.leader_node.clone() },
        None => Reply::Failed(error.to_string()),
    }
}

fn not_leader(node: &Node) -> Reply {
    let leader = node.raft.as_leader().err().and_then(|forward| forward.leader_node);
    Reply::NotLeader { leader }
}

/// Stores rows, all or none.
pub async fn put(node: &Arc<Node>, rows: Vec<Row>) -> Reply {
    if node.is_served {
        return Reply::Failed(
            "the rows of this cluster are a server's: use its clients".to_owned(),
        );
    }
    let mut gathered = Rows::new();
    for (key, value) in &rows {
        if is_own(key) || key.len() > usize::from(u16::MAX) {
            return Reply::Failed("a key is too long, or one of the state's own".to_owned());
        }
        gathered.push(key, value.as_deref());
    }
    let Ok(proposer) = node.proposer().await else { return not_leader(node) };
    let ticket = match proposer.propose(&gathered) {
        Ok(ticket) => ticket,
        Err(ProposeError::Lost) => {
            node.lost(&proposer).await;
            return not_leader(node);
        }
        Err(error) => return Reply::Failed(error.to_string()),
    };
    match proposer.settled(ticket).await {
        Ok(()) => Reply::Done,
        Err(_) => {
            node.lost(&proposer).await;
            Reply::Failed(
                "the leader has changed meanwhile: the rows may be stored or not; read them, or \
                put them again"
                    .to_owned(),
            )
        }
    }
}

/// Waits until the state has all that was committed when it was asked.
async fn up_to_date(node: &Node) -> Result<(), Reply> {
    match node.raft.ensure_linearizable(ReadPolicy::ReadIndex).await {
        Ok(_) => Ok(()),
        Err(RaftError::APIError(LinearizableReadError::QuorumNotEnough(_))) => {
            Err(Reply::NotLeader { leader: None })
        }
        Err(error) => Err(refused(&error)),
    }
}

/// A row.
pub async fn get(node: &Node, key: &[u8]) -> Reply {
    if let Err(reply) = up_to_date(node).await {
        return reply;
    }
    match node.state.tree().get(key) {
        Ok(value) => Reply::Value(value),
        Err(error) => Reply::Failed(error.to_string()),
    }
}

/// Rows from a key on; none: there are no more.
pub async fn scan(node: &Node, from: &[u8], limit: u32) -> Reply {
    if let Err(reply) = up_to_date(node).await {
        return reply;
    }
    match read_rows(node, from, limit.min(MAX_ROWS)) {
        Ok(rows) => Reply::Rows { rows, index: 0 },
        Err(error) => Reply::Failed(error.to_string()),
    }
}

fn read_rows(node: &Node, from: &[u8], limit: u32) -> everleaf::Result<Vec<Row>> {
    let tree = node.state.tree();
    let (mut rows, mut bytes) = (Vec::new(), 0);
    for entry in tree.scan(Scan::all().starting_at(from)) {
        let (key, value) = entry?;
        let key = key.as_bytes().unwrap_or_default().to_vec();
        if is_own(&key) {
            continue;
        }
        bytes += key.len() + value.len();
        rows.push((key, Some(value)));
        if rows.len() >= limit as usize || bytes >= MAX_BYTES {
            break;
        }
    }
    Ok(rows)
}

/// The keys that entries have named, those after the first index up to the second.
///
/// # Errors
/// A sentence: they are not in the log any more, or too many.
pub async fn changed_keys(node: &Node, after: u64, upto: u64) -> Result<BTreeSet<Vec<u8>>, String> {
    let mut reader = node.log.clone().get_log_reader().await;
    let (mut keys, mut bytes, mut next) = (BTreeSet::new(), 0, after + 1);
    while next <= upto {
        let entries = reader.limited_get_log_entries(next, upto + 1).await;
        let entries = entries.map_err(|error| error.to_string())?;
        if entries.first().is_none_or(|entry| entry.log_id.index != next) {
            return Err(format!("the log of node {} has no entry {next} any more", node.number()));
        }
        next += entries.len() as u64;
        for entry in entries {
            let EntryPayload::Normal(group) = entry.payload else { continue };
            for (key, _) in group.rows.iter() {
                bytes += key.len();
                keys.insert(key.to_vec());
            }
        }
        if bytes > MAX_KEYS {
            return Err("too many rows have changed meanwhile; try again".to_owned());
        }
    }
    Ok(keys)
}

/// Tells of changed rows until the other side sends something or goes.
pub async fn watch(node: &Node, link: &mut Link, prefix: &[u8]) -> io::Result<Reply> {
    let mut applied = node.state.watch();
    let mut told = index_of(&applied.borrow_and_update());
    link.send(Kind::Message, &encode(&Reply::Rows { rows: Vec::new(), index: told })?).await?;
    loop {
        tokio::select! {
            ended = link.stream.read_u8() => return ended.map(|_| Reply::Done),
            changed = applied.changed() => {
                if changed.is_err() {
                    return Ok(Reply::Failed("this node has stopped".to_owned()));
                }
            }
        }
        let upto = index_of(&applied.borrow_and_update());
        let keys = match changed_keys(node, told, upto).await {
            Ok(keys) => keys,
            Err(sentence) => {
                let more = "what was watched must be read again by a scan";
                return Ok(Reply::Failed(format!("{sentence}; {more}")));
            }
        };
        told = upto;
        let rows = keys.into_iter().filter(|key| key.starts_with(prefix));
        let tree = node.state.tree();
        let read = |key: Vec<u8>| Ok((key.clone(), tree.get(&key)?));
        match rows.map(read).collect::<everleaf::Result<Vec<Row>>>() {
            Ok(rows) if rows.is_empty() => {}
            Ok(rows) => {
                link.send(Kind::Message, &encode(&Reply::Rows { rows, index: told })?).await?;
            }
            Err(error) => return Ok(Reply::Failed(error.to_string())),
        }
    }
}

/// 0: nothing is applied; the entry 0 of a cluster has no rows.
pub fn index_of(applied: &crate::state::Applied) -> u64 {
    applied.log_id.map_or(0, |id| id.index)
}
