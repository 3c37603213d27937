//! The types that openraft is instantiated with.

use std::fmt;

use openraft::impls::ProgressResponder;
use openraft::raft::ClientWriteResult;
use openraft::{EntryPayload, RaftTypeConfig};
use serde::{Deserialize, Serialize};

use crate::rows::Rows;

openraft::declare_raft_types!(
    /// openraft's types: groups of rows, applied without an answer, by nodes with a number.
    pub C:
        D = Group,
        R = (),
        NodeId = u64,
        Node = Member,
);

/// [`C`], or what differs from it in nothing but its runtime: so tests have a clock and chance of
/// their own.
pub trait Config:
    RaftTypeConfig<
        D = Group,
        R = (),
        NodeId = u64,
        Node = Member,
        Term = u64,
        LeaderId = LeaderId,
        Vote = Vote,
        Payload = EntryPayload<Group, u64, Member>,
        Entry = Entry,
        Responder<ClientWriteResult<Self>> = ProgressResponder<Self, ClientWriteResult<Self>>,
    >
{
}

impl<T> Config for T where
    T: RaftTypeConfig<
            D = Group,
            R = (),
            NodeId = u64,
            Node = Member,
            Term = u64,
            LeaderId = LeaderId,
            Vote = Vote,
            Payload = EntryPayload<Group, u64, Member>,
            Entry = Entry,
            Responder<ClientWriteResult<T>> = ProgressResponder<T, ClientWriteResult<T>>,
        >
{
}

/// Which entry: its leader's term and number, and its index in the log.
pub type LogId = openraft::alias::LogIdOf<C>;
/// Who leads: a term and the number of a node.
pub type LeaderId = openraft::alias::LeaderIdOf<C>;
/// The vote that a node has given.
pub type Vote = openraft::alias::VoteOf<C>;
/// An entry of the log.
pub type Entry = openraft::alias::EntryOf<C>;
/// Who belongs to the cluster, since which entry.
pub type Members = openraft::alias::StoredMembershipOf<C>;
/// Up to where a snapshot goes, and who belonged to the cluster then.
pub type SnapshotMeta = openraft::alias::SnapshotMetaOf<C>;

/// Where a node is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Host and port that other nodes use.
    pub raft: String,
    /// Host and port for clients of Redis, if there is one.
    pub redis: Option<String>,
    /// Host and port for clients of memcached, if there is one.
    pub memcached: Option<String>,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.raft)
    }
}

/// What one entry writes: rows that are put or deleted, all of them or none.
///
/// Rows are computed from what the groups before have written, so a group counts only directly
/// behind its predecessor: number 1 of a reign that is newer than all before, or the next number of
/// the same reign. Any other group is passed over, on every node alike.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Which reign: it grows from one to the next.
    pub reign: u64,
    /// Which group of it, from 1 on.
    pub number: u64,
    /// The clock of the leader, in milliseconds since 1970.
    pub clock_ms: u64,
    /// What is written, in this order.
    pub rows: Rows,
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "group {} of reign {}, {} bytes", self.number, self.reign, self.rows.len_bytes())
    }
}
