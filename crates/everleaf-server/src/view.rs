//! A cluster, as one of its nodes knows it: what commands tell of it. Nothing of it is there where
//! a pool is served alone.

use std::fmt;
use std::sync::Arc;

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// Its number.
    pub id: u64,
    /// Host and port for other nodes.
    pub raft: String,
    /// Host and port for clients of Redis, if it has told.
    pub redis: Option<String>,
    /// Whether it votes; one that does not is joining.
    pub votes: bool,
    /// The last entry of the log that it has; only the leader knows.
    pub matched: Option<u64>,
}

/// A cluster at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The number of the cluster, in digits of 16.
    pub cluster: String,
    /// The node that knows this.
    pub me: u64,
    /// Who leads.
    pub leader: Option<u64>,
    /// The term.
    pub term: u64,
    /// The last entry that is known to be on a majority.
    pub committed: u64,
    /// All nodes.
    pub members: Vec<Member>,
}

impl View {
    /// Whether this node leads.
    pub fn leads(&self) -> bool {
        self.leader == Some(self.me)
    }

    /// Who leads, and where clients of Redis reach it.
    pub fn leader(&self) -> Option<(&Member, (&str, u16))> {
        self.reachable().find(|(member, _)| Some(member.id) == self.leader)
    }

    /// The others, and where clients of Redis reach them.
    pub fn followers(&self) -> impl Iterator<Item = (&Member, (&str, u16))> {
        self.reachable().filter(|(member, _)| Some(member.id) != self.leader)
    }

    fn reachable(&self) -> impl Iterator<Item = (&Member, (&str, u16))> {
        self.members.iter().filter_map(|member| Some((member, ends(member.redis.as_deref()?))))
    }

    /// Forty digits that stand for a node.
    pub fn digits(&self, node: u64) -> String {
        format!("{node:016x}{:0>24.24}", self.cluster)
    }

    /// How many others have all that is known to be on a majority.
    pub fn up_to_date(&self) -> usize {
        let others = self.members.iter().filter(|member| member.id != self.me);
        others.filter(|member| member.matched.is_some_and(|at| at >= self.committed)).count()
    }

    /// How many others have whatever this node has answered.
    pub fn always(&self) -> usize {
        self.members.iter().filter(|member| member.votes).count() / 2
    }
}

/// Host and port of an address.
pub fn ends(address: &str) -> (&str, u16) {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
    (host.trim_matches(['[', ']']), port.parse().unwrap_or(0))
}

/// Looks at a cluster.
#[derive(Clone)]
pub struct Look(pub Arc<dyn Fn() -> View + Send + Sync>);

impl fmt::Debug for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Look")
    }
}
