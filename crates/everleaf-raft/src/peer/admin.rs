//! Changes of a cluster, done by its leader: a node joins, is removed, leads.

use std::sync::Arc;
use std::time::Duration;

use openraft::errors::ForwardToLeader;
use openraft::type_config::async_runtime::watch::WatchReceiver;
use openraft::{ChangeMembers, ReadPolicy};
use tokio::time::{Instant, sleep, timeout};

use crate::peer::message::Reply;
use crate::peer::node::Node;
use crate::peer::row_requests::refused;
use crate::types::Member;

/// A joining node votes when it lacks no more entries than these.
const LAG: u64 = 1000;
/// How long a change waits for a majority.
const PATIENCE: Duration = Duration::from_secs(30);

type Done = Result<(), Reply>;

fn fail<T>(sentence: impl Into<String>) -> Result<T, Reply> {
    Err(Reply::Failed(sentence.into()))
}

fn reply_of(done: Done) -> Reply {
    done.map_or_else(|reply| reply, |()| Reply::Done)
}

/// A new node: it is sent everything, and then votes; the one that it replaces goes in the same
/// step. Asked again, it does what is left to do.
pub async fn join(node: &Arc<Node>, new: u64, member: Member, replaces: Option<u64>) -> Reply {
    reply_of(try_join(node, new, member, replaces).await)
}

async fn try_join(node: &Node, new: u64, member: Member, replaces: Option<u64>) -> Done {
    lead_now(node).await?;
    let members = node.metrics().membership_config;
    let raft = member.raft.clone();
    match members.get_node(&new) {
        Some(known) if known.raft != raft => {
            return fail(format!(
                "node {new} is in this cluster already, at {}: two nodes would have one number; \
                 join with an empty folder",
                known.raft
            ));
        }
        Some(_) => {}
        None => {
            let clash = members.nodes().find(|(_, known)| known.raft == raft);
            if let Some((other, _)) = clash {
                return fail(format!("node {other} has the address {raft}; remove it first"));
            }
            if replaces.is_some_and(|old| members.get_node(&old).is_none()) {
                return fail("the cluster has no node of the number that is to be replaced");
            }
            let added = timeout(PATIENCE, node.raft.add_learner(new, member, false)).await;
            done(added.map(|added| added.map_err(|error| refused(&error))))?;
        }
    }
    catch_up(node, new).await?;
    if let Some(old) = replaces {
        leave(node, old).await?;
    }
    let add = ChangeMembers::AddVoterIds([new].into());
    let change = match replaces {
        Some(old) => ChangeMembers::Batch(vec![add, ChangeMembers::RemoveVoters([old].into())]),
        None => add,
    };
    change_members(node, change).await
}

/// Waits until a new node has nearly everything; as long as it answers.
async fn catch_up(node: &Node, new: u64) -> Done {
    let metrics = node.raft.metrics();
    let mut answered = Instant::now();
    loop {
        let now = metrics.borrow_watched().clone();
        let Some(replication) = &now.replication else {
            return Err(Reply::NotLeader { leader: None });
        };
        let matched = replication.get(&new).copied().flatten();
        if matched.is_some_and(|id| id.index + LAG >= now.last_log_index.unwrap_or(0)) {
            return Ok(());
        }
        match node.peers.trouble_of(new) {
            None => answered = Instant::now(),
            Some(trouble) if answered.elapsed() > PATIENCE => {
                return fail(format!("node {new} cannot be brought up to date: {trouble}"));
            }
            Some(_) => {}
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// A node is reached elsewhere.
pub async fn announce(node: &Arc<Node>, at: u64, member: Member) -> Reply {
    let announced = async {
        lead_now(node).await?;
        let members = node.metrics().membership_config;
        match members.get_node(&at) {
            None => fail(format!("node {at} does not belong to this cluster")),
            Some(known) if *known == member => Ok(()),
            Some(known) if known.raft != member.raft => {
                fail(format!("node {at} has the address {}", known.raft))
            }
            Some(_) => {
                let shares = |known: &Member| {
                    let same = |a: &Option<String>, b: &Option<String>| a.is_some() && a == b;
                    same(&known.redis, &member.redis) || same(&known.memcached, &member.memcached)
                };
                match members.nodes().find(|(other, known)| **other != at && shares(known)) {
                    None => {
                        change_members(node, ChangeMembers::SetNodes([(at, member)].into())).await
                    }
                    Some((other, _)) => fail(format!(
                        "clients reach node {other} at the same address; start each node with an \
                         address of its own"
                    )),
                }
            }
        }
    };
    reply_of(announced.await)
}

/// A node goes for ever.
pub async fn remove(node: &Arc<Node>, old: u64) -> Reply {
    reply_of(try_remove(node, old).await)
}

async fn try_remove(node: &Node, old: u64) -> Done {
    lead_now(node).await?;
    let members = node.metrics().membership_config;
    let voters: Vec<u64> = members.voter_ids().collect();
    if members.get_node(&old).is_none() {
        return fail(format!(
            "the cluster has no node {old}; `everleaf cluster status` lists them"
        ));
    }
    if voters == [old] {
        return fail(format!("node {old} is the last one: stop it instead"));
    }
    leave(node, old).await?;
    let change = match voters.contains(&old) {
        true => ChangeMembers::RemoveVoters([old].into()),
        false => ChangeMembers::RemoveNodes([old].into()),
    };
    change_members(node, change).await
}

/// Before a node is removed: if it is this one, another one leads first, and removes it.
async fn leave(node: &Node, old: u64) -> Done {
    if old != node.number() {
        return Ok(());
    }
    node.hand_over().await; // Otherwise nobody led until an election.
    if node.raft.as_leader().is_err() {
        return Err(Reply::NotLeader { leader: None });
    }
    // Nobody else could. Those who are left need not wait for this one.
    node.give_up_lease().await.map_err(|error| Reply::Failed(error.to_string()))
}

async fn change_members(node: &Node, change: ChangeMembers<u64, Member>) -> Done {
    let changed = timeout(PATIENCE, node.raft.change_membership(change, false)).await;
    done(changed.map(|changed| changed.map_err(|error| refused(&error))))
}

/// What came of a change that may have taken too long.
fn done<T>(changed: Result<Result<T, Reply>, tokio::time::error::Elapsed>) -> Done {
    match changed {
        Ok(changed) => changed.map(drop),
        Err(_) => fail(
            "no majority has confirmed the change in 30 s: it may still be done; look at the \
             status, start the nodes that are down, and ask again",
        ),
    }
}

/// This node must lead, and know everything that was decided before it did.
async fn lead_now(node: &Node) -> Done {
    let confirmed = node.raft.ensure_linearizable(ReadPolicy::ReadIndex);
    done(timeout(PATIENCE, confirmed).await.map(|ready| ready.map_err(|error| refused(&error))))
}

/// Another node leads.
pub async fn lead(node: &Arc<Node>, next: u64) -> Reply {
    reply_of(try_lead(node, next).await)
}

async fn try_lead(node: &Node, next: u64) -> Done {
    if let Err(ForwardToLeader { leader_node: leader, .. }) = node.raft.as_leader() {
        return Err(Reply::NotLeader { leader });
    }
    if node.number() == next {
        return Ok(());
    }
    if !node.metrics().membership_config.voter_ids().any(|voter| voter == next) {
        return fail(format!("the cluster has no node {next} that votes"));
    }
    let asked = node.transfer(next).await;
    asked.map_err(|error| Reply::Failed(error.to_string()))?;
    let wait = node.raft.wait(Some(Duration::from_secs(5)));
    match wait.metrics(|now| now.current_leader == Some(next), "transfer").await {
        Ok(_) => Ok(()),
        Err(_) => fail(format!(
            "node {next} does not lead after 5 s: it is stopped or lags too far behind"
        )),
    }
}
