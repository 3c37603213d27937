//! Why a node and whoever talks to it do not understand each other.

use std::io;

use uuid::Uuid;

use crate::peer::wire::PROTOCOL;

/// Why a connection of the peer port came to nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// The network, or the other side's end.
    #[error("the connection failed: {0}")]
    Stream(#[from] io::Error),
    /// Nobody listens there.
    #[error(
        "{address} cannot be reached: {source}; is the node running, and is it its --raft \
        address?"
    )]
    Unreachable {
        /// Where.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// Something else listens there, or speaks.
    #[error("the other side is not the peer port of an Everleaf cluster; check the address")]
    NotAPeer,
    /// A client of HTTP has come to the peer port.
    #[error("a client of HTTP came to the peer port; clients use the server's own ports")]
    Http,
    /// The other side is of another version.
    #[error(
        "the other side speaks version {theirs} of the cluster's protocol and this program \
        version {PROTOCOL}; run the same version of Everleaf on all nodes"
    )]
    Version {
        /// Its version.
        theirs: u16,
    },
    /// The other side belongs to another cluster.
    #[error("the other side belongs to another cluster ({theirs}, not {ours}); check the address")]
    Cluster {
        /// Its cluster.
        theirs: Uuid,
        /// The own one.
        ours: Uuid,
    },
    /// The secrets differ.
    #[error(
        "the secret is not that of the cluster; use the file that `everleaf cluster init` named"
    )]
    Secret,
    /// A node has the number of another one.
    #[error(
        "two nodes have the number {node}: one of them runs on a copy of the other's folder; \
        stop it and let it join with an empty folder"
    )]
    TwoOfOne {
        /// The number.
        node: u64,
    },
    /// Another node listens where one is expected.
    #[error(
        "node {found} listens at {address}, where node {expected} is expected; start each node \
        at its own address"
    )]
    OtherNode {
        /// Where.
        address: String,
        /// Who should.
        expected: u64,
        /// Who does.
        found: u64,
    },
    /// A node that was removed has come back.
    #[error(
        "node {node} was removed from this cluster; its folder cannot be used again: join with \
        an empty one"
    )]
    Removed {
        /// The node.
        node: u64,
    },
    /// It took too long.
    #[error("{address} did not answer in time; is the node overloaded or stopped?")]
    Silent {
        /// Where.
        address: String,
    },
    /// The other side's sentence.
    #[error("{0}")]
    Refused(String),
    /// Nobody leads, as far as those know who were asked.
    #[error("no node leads the cluster: a majority of its nodes must run and reach each other")]
    NoLeader,
}
