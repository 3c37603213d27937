//! `serve --cluster`: a node of a cluster in the place of a pool.

use std::net::IpAddr;
use std::path::PathBuf;

use everleaf_raft::{NodeOptions, Tls};
use everleaf_server::{ClusterOptions, Reads};

use crate::failure::Failure;
use crate::size::parse_size;

/// Which node is served, and how.
#[derive(Debug, clap::Args)]
pub struct NodeArgs {
    /// Serve a node of a cluster in the place of a pool: the folder that `cluster init` or
    /// `cluster join` has made. The node that leads answers, on the word of a majority.
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["pool", "beside", "durability", "memory", "prefault"]
    )]
    cluster: Option<PathBuf>,
    /// The host that clients reach this node at [default: that of its --raft address].
    #[arg(long, value_name = "HOST", conflicts_with = "pool", value_parser = host)]
    announce: Option<String>,
    /// How it is known that a read tells the newest state.
    #[arg(long, value_name = "HOW", conflicts_with = "pool", default_value = "linearizable")]
    reads: ReadsArg,
    /// Listen here for the other nodes, if not at the --raft address that the node was made with.
    #[arg(long, value_name = "ADDR", conflicts_with = "pool")]
    raft_listen: Option<String>,
    /// Encrypt what nodes say: the certificates, in PEM format, of those who signed the nodes'
    /// ones.
    #[arg(
        long,
        value_name = "FILE",
        requires_all = ["raft_tls_cert", "raft_tls_key"],
        conflicts_with = "pool"
    )]
    raft_tls_ca: Option<PathBuf>,
    /// The certificate of this node for it.
    #[arg(long, value_name = "FILE", requires = "raft_tls_ca")]
    raft_tls_cert: Option<PathBuf>,
    /// The key of the certificate.
    #[arg(long, value_name = "FILE", requires = "raft_tls_ca")]
    raft_tls_key: Option<PathBuf>,
    /// Let nodes talk without TLS over a network that others cannot listen to.
    #[arg(long, conflicts_with = "pool")]
    trusted_network: bool,
    /// The most bytes a second that a node which lacks much is sent.
    #[arg(long, value_name = "S", conflicts_with = "pool", value_parser = parse_size)]
    snapshot_rate: Option<u64>,
}

/// How it is known that a read tells the newest state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ReadsArg {
    /// A majority says so after the read.
    Linearizable,
    /// A majority has said so lately: faster, and right as long as clocks run alike.
    Lease,
}

/// A host that clients can be told; the port is that of the server.
fn host(text: &str) -> Result<String, String> {
    let bare = text.trim_matches(['[', ']']);
    match bare.parse::<IpAddr>() {
        Ok(ip) if ip.is_unspecified() => {
            Err("no client can connect to it; name the host as clients reach it".to_owned())
        }
        Ok(IpAddr::V6(ip)) => Ok(format!("[{ip}]")),
        Ok(IpAddr::V4(ip)) => Ok(ip.to_string()),
        Err(_) if text.is_empty() || text.contains([':', '/', ' ']) => {
            Err("it is no host; the port is that of --redis or --memcached".to_owned())
        }
        Err(_) => Ok(text.to_owned()),
    }
}

impl NodeArgs {
    /// The node that is served; none: a pool is.
    pub fn options(self) -> Result<Option<ClusterOptions>, Failure> {
        let Some(folder) = self.cluster else { return Ok(None) };
        let own = self.raft_tls_cert.as_deref().zip(self.raft_tls_key.as_deref());
        let tls = self.raft_tls_ca.as_deref().map(|authority| Tls::read(authority, own));
        let node = NodeOptions {
            listen: self.raft_listen,
            tls: tls.transpose().map_err(Failure::failed)?,
            trusted_network: self.trusted_network,
            snapshot_rate: self.snapshot_rate,
            ..NodeOptions::default()
        };
        let reads = match self.reads {
            ReadsArg::Linearizable => Reads::Linearizable,
            ReadsArg::Lease => Reads::Lease,
        };
        let announce = self.announce;
        Ok(Some(ClusterOptions { folder, node, announce, reads }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_those_that_clients_can_be_told() {
        for (text, told) in [
            ("10.0.0.1", "10.0.0.1"),
            ("db-1.example", "db-1.example"),
            ("2001:db8::1", "[2001:db8::1]"),
            ("[::1]", "[::1]"),
        ] {
            assert_eq!(host(text).as_deref(), Ok(told));
        }
        for wrong in ["0.0.0.0", "::", "", "10.0.0.1:6379", "db:6379", "http://db", "a b"] {
            assert!(host(wrong).is_err(), "{wrong}");
        }
    }
}
