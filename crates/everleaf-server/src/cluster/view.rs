//! What the server knows of its cluster, and that another node leads than before.

use std::sync::Arc;
use std::time::Duration;

use everleaf_raft::Node;
use everleaf_raft::openraft::type_config::async_runtime::watch::WatchReceiver;
use tokio::time::timeout;

use super::Cluster;
use crate::redis::{SWITCHED, switched};
use crate::view::{Look, Member, View};

/// How often it is looked whether the leader is heard of.
const LOOK: Duration = Duration::from_millis(500);

/// Looks at the cluster of a node.
pub fn look(node: &Arc<Node>) -> Look {
    let node = Arc::downgrade(node);
    Look(Arc::new(move || node.upgrade().map(|node| view(&node)).unwrap_or_default()))
}

fn view(node: &Node) -> View {
    let metrics = node.metrics();
    let members = metrics.membership_config.membership();
    let index = |id: &everleaf_raft::LogId| id.index;
    let of = |(id, member): (&u64, &everleaf_raft::Member)| Member {
        id: *id,
        raft: member.raft.clone(),
        redis: member.redis.clone(),
        votes: members.voter_ids().any(|voter| voter == *id),
        matched: match *id == metrics.id {
            true => metrics.last_log_index,
            false => {
                let replicated = metrics.replication.as_ref().and_then(|all| all.get(id));
                replicated.and_then(|id| id.as_ref().map(index))
            }
        },
    };
    View {
        cluster: node.cluster().simple().to_string(),
        me: metrics.id,
        leader: node.leader(),
        term: metrics.current_term,
        committed: metrics.local_committed.as_ref().map_or(0, index),
        members: members.nodes().map(of).collect(),
    }
}

/// Tells of each other leader, until the node ends: to connections that are relayed to the one
/// before, and to clients that have subscribed to it as a Sentinel's.
pub async fn watch(cluster: Arc<Cluster>) {
    let mut metrics = cluster.node.raft().metrics();
    let mut last: Option<String> = None;
    loop {
        let leader = cluster.node.leader();
        let address = leader
            .and_then(|id| metrics.borrow_watched().membership_config.get_node(&id)?.redis.clone());
        cluster.leader.send_if_modified(|told| std::mem::replace(told, leader) != leader);
        if let Some(address) = address.filter(|address| last.as_ref() != Some(address)) {
            if let Some(before) = &last {
                let message = switched(before, &address);
                let words = [SWITCHED.as_bytes(), message.as_bytes()];
                cluster.aside.channels.publish(words, None, true);
                if let Some(shared) = cluster.shared() {
                    shared.channels.publish(words, None, true);
                }
            }
            last = Some(address);
        }
        // That it is not heard of any more changes nothing there.
        if let Ok(Err(_)) = timeout(LOOK, metrics.changed()).await {
            return;
        }
    }
}
