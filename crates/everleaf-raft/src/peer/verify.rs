//! Whether all nodes have the same rows, while writers go on.
//!
//! Each node keeps a snapshot of its state, in memory, and says which index it is of. These differ
//! by the entries that were applied between the snapshots. The leader's log names the keys of those
//! entries; they are left out, and the checksums of all other rows must be the same. (The next run
//! looks at other moments, and so at the rows that this one has left out.)

use std::collections::HashSet;

use everleaf::{Snapshot, View};

use crate::bytes::Reader;
use crate::entry::read_log_id;
use crate::peer::client::Client;
use crate::peer::message::{Reply, Request};
use crate::peer::node::Node;
use crate::peer::peer_error::PeerError;
use crate::peer::row_requests::{changed_keys, is_own};

/// The state's word of how far it goes: it begins with a log id (`state.rs`).
const APPLIED: &[u8] = b"\0raft applied";

/// A state that is kept for a connection.
pub struct Held {
    /// It keeps the view alive.
    _snapshot: Snapshot,
    view: View,
}

/// Keeps the state as it is, and says which index it is of.
pub fn hold(node: &Node, held: &mut Option<Held>) -> Reply {
    let mut keep = || {
        let snapshot = node.state.store().snapshot()?;
        let view = snapshot.of(&node.state.tree())?;
        let word = view.get(APPLIED)?.unwrap_or_default();
        let applied = read_log_id(&mut Reader::of(&word)).map_or(0, |id| id.index);
        *held = Some(Held { _snapshot: snapshot, view });
        Ok::<_, everleaf::Error>(applied)
    };
    match keep() {
        Ok(applied) => Reply::Held { applied },
        Err(error) => Reply::Failed(error.to_string()),
    }
}

/// The checksum of what is kept, without some keys and the state's own words.
pub async fn sum(held: Option<Held>, except: Vec<Vec<u8>>) -> Reply {
    let Some(held) = held else { return Reply::Failed("nothing is kept".to_owned()) };
    let work = move || {
        let except: HashSet<Vec<u8>> = except.into_iter().collect();
        let (mut crc, mut rows) = (0, 0);
        for entry in held.view.iter() {
            let (key, value) = entry?;
            let key = key.as_bytes().unwrap_or_default();
            if is_own(key) || except.contains(key) {
                continue;
            }
            for part in [&(key.len() as u64).to_le_bytes(), key, &value] {
                crc = crc32c::crc32c_append(crc, part);
            }
            rows += 1;
        }
        Ok::<_, everleaf::Error>(Reply::Sum { crc, rows })
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(reply)) => reply,
        Ok(Err(error)) => Reply::Failed(error.to_string()),
        Err(error) => Reply::Failed(error.to_string()),
    }
}

/// The keys of entries.
pub async fn changed(node: &Node, after: u64, upto: u64) -> Reply {
    match changed_keys(node, after, upto).await {
        Ok(keys) => Reply::Keys(keys.into_iter().collect()),
        Err(sentence) => Reply::Failed(sentence),
    }
}

/// What a verification has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Each node's checksum, and of how many rows it is.
    pub sums: Vec<(u64, u32, u64)>,
    /// Rows that were changed while it began, and left out.
    pub left_out: u64,
}

impl Verified {
    /// Whether all have the same rows.
    pub fn is_equal(&self) -> bool {
        self.sums.windows(2).all(|pair| (pair[0].1, pair[0].2) == (pair[1].1, pair[1].2))
    }
}

/// Compares the rows of all nodes.
///
/// # Errors
/// [`PeerError`]: a node does not answer, or lags too far behind.
pub async fn verify(client: &mut Client) -> Result<Verified, PeerError> {
    let status = client.status_of_leader().await?;
    let mut nodes = Vec::new();
    for member in &status.members {
        let mut link = client.connect(&member.raft, Some(member.node)).await?;
        match link.ask(&Request::Hold).await? {
            Reply::Held { applied } => nodes.push((member.node, link, applied)),
            other => return Err(Client::unexpected(other)),
        }
    }
    let indexes = || nodes.iter().map(|(_, _, applied)| *applied);
    let (after, upto) = (indexes().min().unwrap_or(0), indexes().max().unwrap_or(0));
    let except = match client.ask(&Request::Changed { after, upto }).await? {
        Reply::Keys(keys) => keys,
        other => return Err(Client::unexpected(other)),
    };
    let left_out = except.len() as u64;
    let request = Request::Sum { except };
    let ask = nodes.iter_mut().map(|(node, link, _)| {
        let request = &request;
        async move {
            match link.ask(request).await? {
                Reply::Sum { crc, rows } => Ok((*node, crc, rows)),
                other => Err(Client::unexpected(other)),
            }
        }
    });
    let sums = futures_util::future::try_join_all(ask).await?;
    Ok(Verified { sums, left_out })
}
