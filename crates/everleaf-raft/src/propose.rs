//! Writes of a leader: rows are gathered into groups, and groups are proposed in order.
//!
//! A group is computed from what the groups before it write, so it may be committed only behind
//! them. Three things see to it:
//! * openraft refuses a group of an earlier leadership (`with_leader`);
//! * a group whose number does not follow is passed over by every node ([`Group`]); the leader that
//!   sees one ends its reign;
//! * groups settle in their order: what is behind one that has failed never does.
//!
//! A reign begins with an empty group that is applied before anything is read for the next: groups
//! that another reign of the same leadership has under way are before it, or are passed over.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use everleaf::Clock;
use everleaf_pmem::planted;
use openraft::alias::{InstantOf, OneshotReceiverOf};
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{LinearizableReadError, RaftError};
use openraft::impls::ProgressResponder;
use openraft::storage::RaftStateMachine;
use openraft::type_config::TypeConfigExt;
use openraft::{Instant as _, LinearizerOption, ReadPolicy, ServerState};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, watch};

use crate::lease::{LEASE, Lease, Leases};
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
/// Before a majority is asked again whether this node leads.
const PAUSE: Duration = Duration::from_millis(10);

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
/// a time on a node: of two, the groups of the first are passed over.
#[derive(Debug)]
pub struct Proposer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    leader: LeaderId,
    lease: Arc<Lease>,
    open: Mutex<Open>,
    /// There are rows, or the reign has ended.
    woken: Notify,
    progress: watch::Sender<Progress>,
    /// The numbers of groups that are not applied, and their last tickets.
    groups: Mutex<VecDeque<(u64, Ticket)>>,
}

/// What is not proposed yet.
#[derive(Debug, Default)]
struct Open {
    last: Ticket,
    groups: VecDeque<(Ticket, Rows)>,
}

/// How far a reign's writes are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Up to this ticket everything is committed.
    pub settled: Ticket,
    /// Up to this ticket everything is in the state.
    pub applied: Ticket,
    /// The reign has ended: what is not settled may be committed or not.
    pub lost: bool,
}

impl Proposer {
    /// Begins a reign, if this node leads: all that was committed before is applied. It runs three
    /// tasks of the runtime.
    ///
    /// # Errors
    /// [`ProposeError::Lost`].
    pub async fn begin<T: Config, S: RaftStateMachine<T>>(
        raft: &openraft::Raft<T, S>,
        state: &State,
        clock: &Clock,
        leases: &Leases,
    ) -> Result<Self, ProposeError> {
        let leader = *raft.as_leader().map_err(|_| ProposeError::Lost)?.leader_id();
        let confirmed = raft.ensure_linearizable(ReadPolicy::ReadIndex).await;
        confirmed.map_err(|_| ProposeError::Lost)?;
        let mut reign = Reign::next(leader, state, clock);
        reign.open(raft, state).await.ok_or(ProposeError::Lost)?;
        let (open, woken, progress, groups) = Default::default();
        let lease = leases.of(leader);
        let shared = Arc::new(Shared { leader, lease, open, woken, progress, groups });
        let (sender, receiver) = mpsc::channel(PERMITS - 1); // One more is waited for.
        let _they_go_on = (
            T::spawn(propose(raft.clone(), reign, Arc::clone(&shared), sender)),
            T::spawn(settle::<T>(receiver, Arc::clone(&shared))),
            T::spawn(watch(raft.clone(), leader, state.clone(), Arc::clone(&shared))),
        );
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
        if self.shared.progress.borrow().lost {
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
        let mut progress = self.progress();
        let known = progress.wait_for(|now| now.settled >= ticket || now.lost).await;
        match known {
            Ok(now) if now.settled >= ticket => Ok(()),
            _ => Err(ProposeError::Lost),
        }
    }

    /// How far it is, and who is told of changes.
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.shared.progress.subscribe()
    }

    /// For how long it is known that no other node leads, if reads are confirmed by lease.
    pub fn lease(&self) -> &Arc<Lease> {
        &self.shared.lease
    }

    /// Returns when it is known that this reign led after this was called: what was read of its
    /// rows, those that it has proposed included, was the newest state. By lease it is known for
    /// some time to come, too.
    ///
    /// # Errors
    /// [`ProposeError::Lost`]: it may have been an old one.
    pub async fn confirm<T: Config, S: RaftStateMachine<T>>(
        &self,
        raft: &openraft::Raft<T, S>,
        by_lease: bool,
    ) -> Result<(), ProposeError> {
        loop {
            let by_lease = by_lease && !self.shared.lease.is_given_up();
            let age = if by_lease { LEASE } else { Duration::ZERO };
            let option = LinearizerOption::new(Some(age), true);
            let asked = T::now();
            if self.shared.progress.borrow().lost {
                return Err(ProposeError::Lost);
            }
            match raft.get_read_linearizer(option).await {
                Ok(read) if *read.read_log_id().committed_leader_id() == self.shared.leader => {
                    // Given up meanwhile, it may have been no more when it was asked for.
                    if !by_lease || self.renew(raft, asked) {
                        return Ok(());
                    }
                }
                Err(RaftError::APIError(LinearizableReadError::QuorumNotEnough(_))) => {
                    T::sleep(PAUSE).await;
                }
                _ => self.shared.lose(),
            }
        }
    }

    /// A majority has answered what was sent then; a leader that votes alone has answered itself.
    /// False: the lease was given up.
    fn renew<T: Config, S: RaftStateMachine<T>>(
        &self,
        raft: &openraft::Raft<T, S>,
        asked: InstantOf<T>,
    ) -> bool {
        let now = Instant::now();
        let metrics = raft.metrics();
        let metrics = metrics.borrow_watched();
        let members = metrics.membership_config.membership();
        // Another leader has begun to remove this node, and any change of the members goes on.
        if !members.get_joint_config().iter().all(|voters| voters.contains(&metrics.id)) {
            self.shared.lease.give_up();
        }
        let is_alone = members.voter_ids().eq([metrics.id]);
        let acked = match metrics.last_quorum_acked {
            _ if is_alone => Some(asked),
            acked => acked.map(|acked| acked.into_inner()),
        };
        // It may be of another leadership: its leader was this node, or nobody.
        let is_ours = metrics.vote.committed && metrics.vote.leader_id == self.shared.leader;
        let end = acked.filter(|_| is_ours).map_or(T::now(), |acked| acked + LEASE);
        self.shared.lease.renew(now, end.saturating_duration_since(T::now()))
    }

    /// Ends the reign: what is not settled may be committed or not.
    pub fn end(&self) {
        self.shared.lose();
    }

    /// Returns when the reign has ended.
    pub async fn lost(&self) {
        let _ = self.progress().wait_for(|now| now.lost).await; // Its sender is here.
    }
}

impl Drop for Proposer {
    fn drop(&mut self) {
        self.shared.lose();
    }
}

impl Shared {
    fn lose(&self) {
        self.progress.send_modify(|now| now.lost = true);
        self.woken.notify_one();
    }

    /// Groups up to this number are applied.
    fn applied(&self, number: u64) {
        let mut groups = self.groups.lock();
        let mut last = None;
        while let Some((_, ticket)) = groups.pop_front_if(|(group, _)| *group <= number) {
            last = Some(ticket);
        }
        drop(groups);
        if let Some(ticket) = last {
            self.progress.send_modify(|now| now.applied = ticket);
        }
    }

    /// The next group; none when the reign has ended.
    async fn next(&self) -> Option<(Ticket, Rows)> {
        loop {
            if self.progress.borrow().lost {
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
    /// How many groups there were.
    groups: u64,
    clock: Clock,
    clock_ms: u64,
}

impl Reign {
    fn next(leader: LeaderId, state: &State, clock: &Clock) -> Self {
        let applied = state.applied();
        let number = state.next_reign(applied.reign);
        let clock = clock.clone();
        Self { leader, number, groups: 0, clock, clock_ms: applied.clock_ms }
    }

    fn group(&mut self, rows: Rows) -> Group {
        self.groups += 1;
        self.clock_ms = self.clock_ms.max(self.clock.now_ms());
        Group { reign: self.number, number: self.groups, clock_ms: self.clock_ms, rows }
    }

    /// Its first group, which is applied when this returns; none if the reign is lost.
    async fn open<T: Config, S: RaftStateMachine<T>>(
        &mut self,
        raft: &openraft::Raft<T, S>,
        state: &State,
    ) -> Option<()> {
        let (responder, applied) = ProgressResponder::complete_only();
        let write = raft.write(self.group(Rows::new())).with_leader(self.leader);
        write.responder(responder).await.ok()?;
        applied.await.ok()?.ok()?;
        (state.applied().reign == self.number).then_some(())
    }
}

/// A group under way.
type UnderWay<T> = (Ticket, OneshotReceiverOf<T, LogId>);

/// Proposes groups while there is room for one more under way.
async fn propose<T: Config, S: RaftStateMachine<T>>(
    raft: openraft::Raft<T, S>,
    mut reign: Reign,
    shared: Arc<Shared>,
    under_way: mpsc::Sender<UnderWay<T>>,
) {
    while let Ok(permit) = under_way.reserve().await
        && let Some((ticket, rows)) = shared.next().await
    {
        let (responder, committed, _complete) = ProgressResponder::new();
        let group = reign.group(rows);
        shared.groups.lock().push_back((group.number, ticket));
        let write = raft.write(group).with_leader(reign.leader).responder(responder);
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
        shared.progress.send_modify(|now| {
            if !now.lost {
                now.settled = ticket;
            }
        });
    }
}

/// Ends the reign when another leads, when openraft has stopped, or when a group was passed over;
/// until then it tells what is applied.
async fn watch<T: Config, S: RaftStateMachine<T>>(
    raft: openraft::Raft<T, S>,
    leader: LeaderId,
    state: State,
    shared: Arc<Shared>,
) {
    let (mut server, mut applied) = (raft.server_metrics(), state.watch());
    let passed_over = applied.borrow_and_update().passed_over;
    let reign = applied.borrow().reign;
    let mut progress = shared.progress.subscribe();
    loop {
        let (vote, role) = {
            let now = server.borrow_watched();
            (now.vote, now.state)
        };
        let (over, of, number) = {
            let now = applied.borrow_and_update();
            (now.passed_over, now.reign, now.number)
        };
        if vote.leader_id != leader
            || role != ServerState::Leader
            || over > passed_over
            || of != reign
        {
            break;
        }
        shared.applied(number);
        tokio::select! {
            changed = server.changed() => if changed.is_err() { break },
            changed = applied.changed() => if changed.is_err() { break },
            _ = progress.wait_for(|now| now.lost) => break,
        }
    }
    shared.lose();
}
