//! Writes of a leader: rows are gathered into groups, and groups are proposed in order.
//!
//! A group is computed from what the groups before it write, so it may be committed only behind
//! them. Three things see to it:
//! * openraft refuses a group of an earlier leadership (`with_leader`);
//! * a group whose number does not follow is passed over by every node ([`Group`]); the leader that
//!   sees one ends its reign;
//! * groups settle in their order: what is behind one that has failed never does.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use everleaf_pmem::planted;
use openraft::ReadPolicy;
use openraft::alias::OneshotReceiverOf;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::impls::ProgressResponder;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, watch};

use crate::rows::Rows;
use crate::state::State;
use crate::types::{Config, Group, LeaderId, LogId};

/// Which of a reign's writes: they are numbered from 1 on.
pub type Ticket = u64;

/// Groups that are proposed and not committed, at most.
const PERMITS: usize = 4;
/// A group takes no more rows once it has so many bytes.
const GROUP_BYTES: usize = 256 << 10;
/// The most that is proposed at once.
const MOST_BYTES: usize = 64 << 20;

/// Why rows are not proposed, or not known to be committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProposeError {
    /// The reign has ended, or did not begin: what was proposed may be committed or not.
    #[error("this node does not lead the cluster: ask another one")]
    Lost,
    /// Nothing was proposed.
    #[error("{bytes} bytes are too many for one write of a cluster: {MOST_BYTES} are allowed")]
    TooLarge {
        /// Of the rows.
        bytes: usize,
    },
}

/// Proposes what one reign of a leader writes. The reign ends when this is dropped. There is one at
/// a time: of two, the groups of one are passed over.
#[derive(Debug)]
pub struct Proposer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    open: Mutex<Open>,
    /// There are rows, or the reign has ended.
    woken: Notify,
    settled: watch::Sender<Settled>,
}

/// What is not proposed yet.
#[derive(Debug, Default)]
struct Open {
    last: Ticket,
    groups: VecDeque<(Ticket, Rows)>,
}

/// Up to where everything is committed.
#[derive(Clone, Copy, Debug, Default)]
struct Settled {
    ticket: Ticket,
    lost: bool,
}

impl Proposer {
    /// Begins a reign, if this node leads: all that was committed before is applied. It runs two
    /// tasks of the runtime.
    ///
    /// # Errors
    /// [`ProposeError::Lost`].
    pub async fn begin<T: Config>(
        raft: &openraft::Raft<T, State>,
        state: &State,
    ) -> Result<Self, ProposeError> {
        let leader = *raft.as_leader().map_err(|_| ProposeError::Lost)?.leader_id();
        let confirmed = raft.ensure_linearizable(ReadPolicy::ReadIndex).await;
        confirmed.map_err(|_| ProposeError::Lost)?;
        let applied = state.applied();
        let reign = Reign { leader, number: applied.reign + 1, clock_ms: applied.clock_ms };
        let (open, woken, settled) = Default::default();
        let shared = Arc::new(Shared { open, woken, settled });
        let (sender, receiver) = mpsc::channel(PERMITS - 1); // One more is waited for.
        tokio::spawn(propose(raft.clone(), reign, Arc::clone(&shared), sender));
        tokio::spawn(settle::<T>(receiver, Arc::clone(&shared)));
        tokio::spawn(watch(raft.clone(), leader, state.clone(), Arc::clone(&shared)));
        Ok(Self { shared })
    }

    /// Proposes rows, all or none, behind all that was proposed before. It does not wait.
    ///
    /// # Errors
    /// [`ProposeError`].
    pub fn propose(&self, rows: &Rows) -> Result<Ticket, ProposeError> {
        let bytes = rows.len_bytes();
        if bytes > MOST_BYTES {
            return Err(ProposeError::TooLarge { bytes });
        }
        if self.shared.settled.borrow().lost {
            return Err(ProposeError::Lost);
        }
        let mut open = self.shared.open.lock();
        open.last += 1;
        let ticket = open.last;
        match open.groups.back_mut().filter(|(_, group)| group.len_bytes() < GROUP_BYTES) {
            Some((last, group)) => {
                *last = ticket;
                group.append(rows);
            }
            None => open.groups.push_back((ticket, rows.clone())),
        }
        drop(open);
        self.shared.woken.notify_one();
        Ok(ticket)
    }

    /// Returns when what has this ticket, and all before, is committed.
    ///
    /// # Errors
    /// [`ProposeError::Lost`]: it may be committed or not.
    pub async fn settled(&self, ticket: Ticket) -> Result<(), ProposeError> {
        let mut settled = self.shared.settled.subscribe();
        let known = settled.wait_for(|settled| settled.ticket >= ticket || settled.lost).await;
        match known {
            Ok(settled) if settled.ticket >= ticket => Ok(()),
            _ => Err(ProposeError::Lost),
        }
    }

    /// Returns when the reign has ended.
    pub async fn lost(&self) {
        let mut settled = self.shared.settled.subscribe();
        let _ = settled.wait_for(|settled| settled.lost).await; // Its sender is here.
    }
}

impl Drop for Proposer {
    fn drop(&mut self) {
        self.shared.lose();
    }
}

impl Shared {
    fn lose(&self) {
        self.settled.send_modify(|settled| settled.lost = true);
        self.woken.notify_one();
    }

    /// The next group; none when the reign has ended.
    async fn next(&self) -> Option<(Ticket, Rows)> {
        loop {
            if self.settled.borrow().lost {
                return None;
            }
            let next = self.open.lock().groups.pop_front();
            if next.is_some() {
                return next;
            }
            self.woken.notified().await;
        }
    }
}

struct Reign {
    leader: LeaderId,
    number: u64,
    clock_ms: u64,
}

/// A group under way.
type UnderWay<T> = (Ticket, OneshotReceiverOf<T, LogId>);

/// Proposes groups while there is room for one more under way.
async fn propose<T: Config>(
    raft: openraft::Raft<T, State>,
    mut reign: Reign,
    shared: Arc<Shared>,
    under_way: mpsc::Sender<UnderWay<T>>,
) {
    let mut number = 0;
    while let Ok(permit) = under_way.reserve().await
        && let Some((ticket, rows)) = shared.next().await
    {
        number += 1;
        reign.clock_ms = reign.clock_ms.max(now_ms());
        let group = Group { reign: reign.number, number, clock_ms: reign.clock_ms, rows };
        let (responder, committed, _complete) = ProgressResponder::new();
        let write = raft.write(group).responder(responder).with_leader(reign.leader);
        if write.await.is_err() {
            break;
        }
        permit.send((ticket, committed));
    }
    shared.lose();
}

/// Waits for groups in their order.
async fn settle<T: Config>(mut under_way: mpsc::Receiver<UnderWay<T>>, shared: Arc<Shared>) {
    while let Some((ticket, committed)) = under_way.recv().await {
        if !planted(441) && committed.await.is_err() {
            return shared.lose();
        }
        shared.settled.send_modify(|settled| {
            if !settled.lost {
                settled.ticket = ticket;
            }
        });
    }
}

/// Ends the reign when another leads, when openraft has stopped, or when a group was passed over.
async fn watch<T: Config>(
    raft: openraft::Raft<T, State>,
    leader: LeaderId,
    state: State,
    shared: Arc<Shared>,
) {
    let (mut server, mut applied) = (raft.server_metrics(), state.watch());
    let passed_over = applied.borrow_and_update().passed_over;
    let mut settled = shared.settled.subscribe();
    loop {
        let vote = server.borrow_watched().vote;
        if vote.leader_id != leader || applied.borrow_and_update().passed_over > passed_over {
            break;
        }
        tokio::select! {
            changed = server.changed() => if changed.is_err() { break },
            changed = applied.changed() => if changed.is_err() { break },
            _ = settled.wait_for(|settled| settled.lost) => break,
        }
    }
    shared.lose();
}

/// The system's clock, in milliseconds since 1970.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
