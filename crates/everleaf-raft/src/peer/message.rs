//! Small messages of the peer port: what is asked, and what is answered. Their order is part of the
//! protocol: a new one is added at the end, and [`PROTOCOL`](crate::peer::wire::PROTOCOL) rises
//! when one changes.
#![allow(missing_docs)] // The fields are what their names say.

use openraft::raft::{
    AppendEntriesResponse, TransferLeaderError, TransferLeaderRequest, TransferLeaderResponse,
    VoteRequest, VoteResponse,
};
use serde::{Deserialize, Serialize};

use crate::peer::status::NodeStatus;
use crate::types::{C, LogId, Member, Vote};

/// A key, and its value or that it has none.
pub type Row = (Vec<u8>, Option<Vec<u8>>);

/// What a node or a client asks. An append request is a frame of its own kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// A candidate wants a vote; `pre`: it asks whether it would get it.
    Vote { vote: Vote, last: Option<LogId>, transfer: bool, pre: bool },
    /// A leader wants another one to lead.
    Transfer { from: Vote, to: u64, last: Option<LogId> },
    /// Parts of a snapshot follow.
    Snapshot { vote: Vote },
    /// How are you?
    Status,
    /// A new node wants to belong to the cluster, and maybe to replace another one.
    Join { node: u64, member: Member, replaces: Option<u64> },
    /// A node is to belong to it no more.
    Remove { node: u64 },
    /// A node is to lead.
    Lead { node: u64 },
    /// Keep the state as it is now, until the connection ends: see `verify.rs`.
    Hold,
    /// The checksum of the state that is kept, without these keys.
    Sum { except: Vec<Vec<u8>> },
    /// The keys that entries have changed, those after the first index up to the second.
    Changed { after: u64, upto: u64 },
    /// Store rows, or remove them, all or nothing.
    Put { rows: Vec<Row> },
    /// A row.
    Get { key: Vec<u8> },
    /// Rows from a key on, in order.
    Scan { from: Vec<u8>, limit: u32 },
    /// Rows from now on, as they change, whose keys begin so.
    Watch { prefix: Vec<u8> },
    /// A node is reached elsewhere from now on.
    Announce { node: u64, member: Member },
    /// The bytes of a client's connection follow, in both directions: see `relay.rs`.
    Relay { origin: Origin },
}

/// A client's connection that one node relays to another: what the client and its node have agreed
/// on. The words are those of the server, and nothing here looks at them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Which protocol the client speaks, and which version of it.
    pub protocol: String,
    pub version: u8,
    /// The database that it has selected.
    pub database: u8,
    /// Who it is, if its node has asked for a password.
    pub user: Option<String>,
    /// Its address, and the one that it has connected to.
    pub peer: String,
    pub local: String,
    /// What it says of itself: its name, its library, the version of that.
    pub says: [Vec<u8>; 3],
}

impl Request {
    /// Whether it may be sent again if nobody knows whether it was answered.
    pub(crate) fn may_be_repeated(&self) -> bool {
        !matches!(self, Request::Put { .. } | Request::Watch { .. } | Request::Relay { .. })
    }
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// It is done.
    Done,
    /// To entries.
    Append(AppendReply),
    /// To a candidate.
    Vote { vote: Vote, granted: bool, last: Option<LogId> },
    /// To a transfer.
    Transfer(TransferReply),
    /// The snapshot is installed, or the vote is higher than the sender's.
    Snapshot { vote: Vote },
    /// How it is.
    Status(Box<NodeStatus>),
    /// The index that the state is of.
    Held { applied: u64 },
    /// Its checksum, and how many rows it is of.
    Sum { crc: u32, rows: u64 },
    /// Keys.
    Keys(Vec<Vec<u8>>),
    /// A value.
    Value(Option<Vec<u8>>),
    /// Rows, and in a watch the index that they are of.
    Rows { rows: Vec<Row>, index: u64 },
    /// Another node leads, or none.
    NotLeader { leader: Option<Member> },
    /// A sentence.
    Failed(String),
}

/// What a follower answers to entries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum AppendReply {
    All,
    Upto(Option<LogId>),
    Conflict,
    HigherVote(Vote),
}

impl From<AppendEntriesResponse<C>> for AppendReply {
    fn from(response: AppendEntriesResponse<C>) -> Self {
        match response {
            AppendEntriesResponse::Success => Self::All,
            AppendEntriesResponse::PartialSuccess(upto) => Self::Upto(upto),
            AppendEntriesResponse::Conflict => Self::Conflict,
            AppendEntriesResponse::HigherVote(vote) => Self::HigherVote(vote),
        }
    }
}

impl From<AppendReply> for AppendEntriesResponse<C> {
    fn from(reply: AppendReply) -> Self {
        match reply {
            AppendReply::All => Self::Success,
            AppendReply::Upto(upto) => Self::PartialSuccess(upto),
            AppendReply::Conflict => Self::Conflict,
            AppendReply::HigherVote(vote) => Self::HigherVote(vote),
        }
    }
}

/// What a node answers to a transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum TransferReply {
    Begun,
    VoteChanged { expected: Vote, actual: Vote },
    NotFlushed { expected: Option<LogId>, actual: Option<LogId> },
}

impl From<TransferLeaderResponse<C>> for TransferReply {
    fn from(response: TransferLeaderResponse<C>) -> Self {
        match response {
            Ok(()) => Self::Begun,
            Err(TransferLeaderError::VoteChanged { expected, actual }) => {
                Self::VoteChanged { expected, actual }
            }
            Err(TransferLeaderError::LogNotFlushed { expected, actual }) => {
                Self::NotFlushed { expected, actual }
            }
        }
    }
}

impl From<TransferReply> for TransferLeaderResponse<C> {
    fn from(reply: TransferReply) -> Self {
        match reply {
            TransferReply::Begun => Ok(()),
            TransferReply::VoteChanged { expected, actual } => {
                Err(TransferLeaderError::VoteChanged { expected, actual })
            }
            TransferReply::NotFlushed { expected, actual } => {
                Err(TransferLeaderError::LogNotFlushed { expected, actual })
            }
        }
    }
}

impl Request {
    /// A candidate's question.
    pub fn vote(request: &VoteRequest<C>, pre: bool) -> Self {
        let (vote, last) = (request.vote, request.last_log_id);
        Self::Vote { vote, last, transfer: request.leadership_transfer, pre }
    }

    /// A leader's wish.
    pub fn transfer(request: &TransferLeaderRequest<C>) -> Self {
        let last = request.last_log_id().copied();
        Self::Transfer { from: *request.from_leader(), to: *request.to_node_id(), last }
    }
}

impl From<VoteResponse<C>> for Reply {
    fn from(response: VoteResponse<C>) -> Self {
        let VoteResponse { vote, vote_granted: granted, last_log_id: last } = response;
        Self::Vote { vote, granted, last }
    }
}
