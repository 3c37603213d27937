//! How a cluster is, for people and as JSON.

use std::collections::BTreeMap;
use std::io::{self, Write};

use everleaf_raft::{ClusterStatus, MemberStatus, NodeStatus};
use serde::Serialize;

use crate::commands::cluster::say;
use crate::failure::{Failure, Outcome};
use crate::size::{display_count, display_size};

/// What `status --json` prints. Its names are a contract.
#[derive(Serialize)]
struct Cluster<'s> {
    cluster: String,
    term: u64,
    /// The number of the node that leads.
    leader: Option<u64>,
    nodes: Vec<Node<'s>>,
}

/// One node: by the leader's account, and by its own if it answers.
#[derive(Serialize)]
struct Node<'s> {
    node: u64,
    raft: &'s str,
    voter: bool,
    /// unreachable, if it does not answer.
    role: &'s str,
    matched: Option<u64>,
    lag_entries: Option<u64>,
    silent_ms: Option<u64>,
    trouble: Option<&'s str>,
    version: Option<&'s str>,
    applied: Option<u64>,
    state_bytes: Option<u64>,
    max_state_bytes: Option<u64>,
    log_bytes: Option<u64>,
    disk_free_bytes: Option<u64>,
    stopped: Option<&'s str>,
    counters: BTreeMap<&'s str, u64>,
}

impl<'s> Node<'s> {
    fn of(member: &'s MemberStatus, own: Option<&'s NodeStatus>) -> Self {
        let counters = own.iter().flat_map(|own| &own.counters);
        Self {
            node: member.node,
            raft: &member.raft,
            voter: member.voter,
            role: own.map_or("unreachable", |own| &own.role),
            matched: member.matched,
            lag_entries: member.lag_entries,
            silent_ms: member.silent_ms,
            trouble: member.trouble.as_deref(),
            version: own.map(|own| &*own.version),
            applied: own.and_then(|own| own.applied),
            state_bytes: own.map(|own| own.state_bytes),
            max_state_bytes: own.map(|own| own.max_state_bytes),
            log_bytes: own.map(|own| own.log_bytes),
            disk_free_bytes: own.map(|own| own.disk_free_bytes),
            stopped: own.and_then(|own| own.stopped.as_deref()),
            counters: counters.map(|(name, _, number)| (&**name, *number)).collect(),
        }
    }

    fn line(&self) -> [String; 8] {
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let size = |bytes: Option<u64>| or_none(bytes.map(display_size));
        [
            self.node.to_string(),
            self.raft.to_owned(),
            if self.voter { self.role.to_owned() } else { format!("{} (joining)", self.role) },
            or_none(self.lag_entries.map(display_count)),
            or_none(self.silent_ms.map(|ms| format!("{:.1} s", ms as f64 / 1000.0))),
            format!("{} of {}", size(self.state_bytes), size(self.max_state_bytes)),
            size(self.disk_free_bytes),
            or_none(self.version.map(str::to_owned)),
        ]
    }
}

const HEAD: [&str; 8] =
    ["node", "address", "role", "lag", "heard", "state", "disk free", "version"];

/// Shows it; without a leader it is a failure.
pub fn status(status: ClusterStatus, json: bool) -> Outcome {
    let by = &status.by;
    let own = |node: u64| [by].into_iter().chain(&status.others).find(|own| own.node == node);
    let cluster = Cluster {
        cluster: by.cluster.to_string(),
        term: by.term,
        leader: by.leader.filter(|leader| own(*leader).is_some_and(|own| own.role == "leader")),
        nodes: by.members.iter().map(|member| Node::of(member, own(member.node))).collect(),
    };
    match json {
        true => serde_json::to_writer(io::stdout().lock(), &cluster)
            .map_err(io::Error::from)
            .and_then(|()| writeln!(io::stdout().lock()))
            .map_err(|error| Failure::output(&error))?,
        false => show(&cluster)?,
    }
    match cluster.leader {
        Some(_) => Ok(()),
        None => Err(Failure::failed(
            "no node leads: a majority of the nodes must run and reach each other; if it is lost \
             for ever: `everleaf cluster recover FOLDER --alone`",
        )),
    }
}

fn show(cluster: &Cluster<'_>) -> Outcome {
    let leader =
        cluster.leader.map_or("nobody leads".to_owned(), |node| format!("node {node} leads"));
    say(&format!("cluster {}, term {}, {leader}", cluster.cluster, cluster.term))?;
    let lines = [HEAD.map(str::to_owned)].into_iter().chain(cluster.nodes.iter().map(Node::line));
    let lines: Vec<[String; 8]> = lines.collect();
    let mut widths = [0; 8];
    for line in &lines {
        widths.iter_mut().zip(line).for_each(|(width, cell)| *width = cell.len().max(*width));
    }
    for line in &lines {
        let cells = line.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        say(cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    for node in &cluster.nodes {
        for trouble in [node.trouble, node.stopped].into_iter().flatten() {
            say(&format!("node {}: {trouble}", node.node))?;
        }
    }
    Ok(())
}
