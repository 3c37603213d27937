//! Folders of nodes: of the first one of a cluster, of one that will join, and of one that goes on
//! alone because a majority is lost.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use openraft::storage::{RaftLogStorage, RaftLogStorageExt};
use openraft::{EntryPayload, Membership, RaftLogReader};
use uuid::Uuid;

use crate::peer::client::Client;
use crate::peer::hello::Secret;
use crate::peer::node_error::NodeError;
use crate::peer::peer_error::PeerError;
use crate::peer::stream::Keys;
use crate::pools::{FolderError, PoolOptions, Pools};
use crate::types::{Entry, LeaderId, LogId, Member, Vote};

/// The file of the secret, in the folder of each node.
pub const SECRET_FILE: &str = "secret";

/// Opens the pools of a folder.
pub(crate) fn open(folder: &Path) -> Result<Pools, NodeError> {
    if !folder.join("raft.pool").exists() {
        return Err(NodeError::NoFolder { folder: folder.to_owned() });
    }
    Pools::open(folder).map_err(|error| match error {
        FolderError::Pool(error) if is_damage(&error) => NodeError::Damaged(Box::new(error)),
        error => error.into(),
    })
}

fn is_damage(error: &everleaf::Error) -> bool {
    use everleaf::{Error, IndexError, LogError, PoolError};
    match error {
        Error::Pool(PoolError::Corrupt { .. })
        | Error::Index(IndexError::Corrupt { .. } | IndexError::Pool(PoolError::Corrupt { .. })) => {
            true
        }
        Error::Log { source, .. } => {
            matches!(**source, LogError::Missing | LogError::Damaged { .. } | LogError::OtherTime)
        }
        _ => false,
    }
}

/// A word that this crate keeps in a folder.
pub(crate) fn word(pools: &Pools, name: &str) -> Result<Option<String>, NodeError> {
    let word = pools.meta().get(format!("net.{name}"))?;
    Ok(word.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

fn set_word(pools: &Pools, name: &str, text: &str) -> Result<(), NodeError> {
    pools.meta().put(format!("net.{name}"), text)?;
    Ok(())
}

pub(crate) fn forget_word(pools: &Pools, name: &str) -> Result<(), NodeError> {
    pools.meta().delete(format!("net.{name}"))?;
    Ok(())
}

/// Makes the folder of the first node of a new cluster, and says where its secret is.
///
/// # Errors
/// [`NodeError`].
pub async fn init(
    folder: &Path,
    address: &str,
    options: &PoolOptions,
) -> Result<PathBuf, NodeError> {
    check_address(address)?;
    let pools = Pools::create(folder, Uuid::new_v4(), options)?;
    set_word(&pools, "address", address)?;
    found(&pools, address).await?;
    write_secret(folder, &Secret::random())
}

/// Makes the folder of a node that asks to join when it is run, and maybe to replace another one.
/// The cluster is asked who it is.
///
/// # Errors
/// [`NodeError`].
pub async fn prepare_to_join(
    folder: &Path,
    address: &str,
    via: &str,
    keys: &Keys,
    replaces: Option<u64>,
    options: &PoolOptions,
) -> Result<(), NodeError> {
    check_address(address)?;
    let mut client = Client::new(vec![via.to_owned()], keys.clone());
    let status = client.status_of_leader().await?;
    if let Some(other) = status.members.iter().find(|member| member.raft == address) {
        let sentence = format!("node {} has the address {address}; remove it first", other.node);
        return Err(PeerError::Refused(sentence).into());
    }
    if let Some(old) = replaces.filter(|old| status.members.iter().all(|it| it.node != *old)) {
        let sentence = format!("the cluster has no node {old} that could be replaced");
        return Err(PeerError::Refused(sentence).into());
    }
    let pools = Pools::create(folder, status.cluster, options)?;
    set_word(&pools, "address", address)?;
    if let Some(old) = replaces {
        set_word(&pools, "replaces", &old.to_string())?;
    }
    write_secret(folder, &keys.secret)?;
    set_word(&pools, "via", via) // Last: the folder is complete.
}

/// What a node that goes on alone has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// Its number.
    pub node: u64,
    /// The last entry of its log: what others had acknowledged beyond it is missing.
    pub last_log: Option<u64>,
    /// The cluster that it is now.
    pub cluster: Uuid,
}

/// Makes a cluster of its own of a node whose cluster has lost its majority for ever. The node must
/// not run. The others can never come back to it: it is another cluster, and they join with empty
/// folders.
///
/// # Errors
/// [`NodeError`].
pub async fn recover(folder: &Path) -> Result<Recovered, NodeError> {
    let pools = open(folder)?;
    let address = word(&pools, "address")?.ok_or(NodeError::NoAddress)?;
    let cluster = Uuid::new_v4();
    // First (a word of `pools.rs`): if this is cut short, the node is alone without a majority, and
    // is recovered again.
    pools.meta().put("cluster", cluster.to_string())?;
    let last_log = found(&pools, &address).await?;
    Ok(Recovered { node: pools.node(), last_log, cluster })
}

/// Makes this node the only member, by an entry at the end of its log: its own vote is a majority,
/// so it commits that entry, and all before it. The entry that was the last one before.
async fn found(pools: &Pools, address: &str) -> Result<Option<u64>, NodeError> {
    let raft = |error: &dyn std::fmt::Display| NodeError::Raft(error.to_string());
    let mut log = pools.log()?;
    let last = log.get_log_state().await?.last_log_id;
    let vote = log.get_log_reader().await.read_vote().await?;
    let terms = [vote.map(|vote| vote.leader_id.term), last.map(|id| id.leader_id.term)];
    let (node, term) = (pools.node(), terms.into_iter().flatten().max().unwrap_or(0) + 1);
    let member = Member { raft: address.to_owned(), ..Member::default() };
    let alone = Membership::new(vec![[node].into()], BTreeMap::from([(node, member)]))
        .map_err(|error| raft(&error))?;
    let (leader_id, index) = (LeaderId { term, node_id: node }, last.map_or(0, |id| id.index + 1));
    let log_id = LogId { leader_id, index };
    log.save_vote(&Vote::new_committed(term, node)).await?;
    let entry = Entry { log_id, payload: EntryPayload::Membership(alone) };
    log.blocking_append([entry]).await.map_err(|error| raft(&error))?;
    Ok(last.map(|id| id.index))
}

fn check_address(address: &str) -> Result<(), NodeError> {
    let is_address = address.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0)
    });
    match is_address {
        true => Ok(()),
        false => Err(NodeError::Address { address: address.to_owned() }),
    }
}

/// Only its owner may read it.
fn write_secret(folder: &Path, secret: &Secret) -> Result<PathBuf, NodeError> {
    let path = folder.join(SECRET_FILE);
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
    file.write_all(&[secret.text(), b"\n"].concat())?;
    file.sync_all()?;
    Ok(path)
}
