//! How a node and a cluster are, for operators: as a value, as JSON by serde, and for Prometheus.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// How a node is, by its own account.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its number.
    pub node: u64,
    /// Its cluster.
    pub cluster: Uuid,
    /// The version of its program.
    pub version: String,
    /// leader, follower, candidate, learner or shutdown; isolated: a leader that has not heard of a
    /// majority lately.
    pub role: String,
    /// Who leads, as far as it knows.
    pub leader: Option<u64>,
    /// The term.
    pub term: u64,
    /// The last entry of its log.
    pub last_log: Option<u64>,
    /// The last entry that it knows to be committed.
    pub committed: Option<u64>,
    /// The last entry in its state.
    pub applied: Option<u64>,
    /// The last entry that its log no longer has.
    pub purged: Option<u64>,
    /// Bytes that its state takes, and those that it may grow to.
    pub state_bytes: u64,
    /// See `state_bytes`.
    pub max_state_bytes: u64,
    /// Bytes that its log takes.
    pub log_bytes: u64,
    /// Bytes that are free where its folder is.
    pub disk_free_bytes: u64,
    /// Why it has stopped, if it has.
    pub stopped: Option<String>,
    /// All nodes, as far as it knows.
    pub members: Vec<MemberStatus>,
    /// Counters of the peer port: name, what it counts, and how many.
    pub counters: Vec<(String, String, u64)>,
}

/// How a node is, by the account of another one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemberStatus {
    /// Its number.
    pub node: u64,
    /// Where it is reached.
    pub raft: String,
    /// Whether it votes; one that does not is joining.
    pub voter: bool,
    /// The last entry that it has acknowledged; only a leader knows.
    pub matched: Option<u64>,
    /// Entries that it lacks of the leader's log.
    pub lag_entries: Option<u64>,
    /// Milliseconds since it has answered.
    pub silent_ms: Option<u64>,
    /// Why it does not answer.
    pub trouble: Option<String>,
}

/// How a cluster is: by its leader's account, and each node's own one where it answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterStatus {
    /// By the leader, or by the node that was asked if none leads.
    pub by: NodeStatus,
    /// The others, by themselves.
    pub others: Vec<NodeStatus>,
}

impl NodeStatus {
    /// The text form of Prometheus.
    pub fn prometheus(&self) -> String {
        let gauges = [
            ("term", "The term.", self.term),
            ("is_leader", "Whether the node leads.", u64::from(self.role == "leader")),
            ("has_leader", "Whether the node knows a leader.", u64::from(self.leader.is_some())),
            ("last_log", "The last entry of the log.", self.last_log.unwrap_or(0)),
            ("committed", "The last committed entry.", self.committed.unwrap_or(0)),
            ("applied", "The last entry in the state.", self.applied.unwrap_or(0)),
            ("state_bytes", "Bytes that the state takes.", self.state_bytes),
            ("max_state_bytes", "Bytes that the state may grow to.", self.max_state_bytes),
            ("log_bytes", "Bytes that the log takes.", self.log_bytes),
            ("disk_free_bytes", "Bytes that are free where the folder is.", self.disk_free_bytes),
        ];
        let mut text = String::new();
        let mut add = |name: &str, kind: &str, help: &str, number: u64| {
            // A string takes everything.
            let _ = write!(
                text,
                "# HELP everleaf_cluster_{name} {help}\n# TYPE everleaf_cluster_{name} {kind}\n\
                 everleaf_cluster_{name} {number}\n"
            );
        };
        for (name, help, number) in gauges {
            add(name, "gauge", help, number);
        }
        for (name, help, number) in &self.counters {
            add(&format!("{name}_total"), "counter", help, *number);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prometheus_reads_each_number_with_its_kind() {
        let counters = vec![("requests".to_owned(), "Requests.".to_owned(), 7)];
        let status = NodeStatus { term: 3, counters, ..NodeStatus::default() };
        let text = status.prometheus();
        assert!(text.contains("# TYPE everleaf_cluster_term gauge\neverleaf_cluster_term 3\n"));
        assert!(text.contains("# TYPE everleaf_cluster_requests_total counter\n"));
        assert!(text.lines().all(|line| line.starts_with('#') || line.split(' ').count() == 2));
    }
}
