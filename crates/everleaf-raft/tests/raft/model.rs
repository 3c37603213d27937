//! Three and five nodes in one process, over a network that loses, delays, reorders and doubles
//! messages by a seed, on disks whose power fails and that are full.
//!
//! The clock is the runtime's, which moves when nobody has anything to do. What must hold:
//! * M1: what nodes apply at an index is the same entry, on all of them, before and after crashes;
//! * M2: what a proposer has settled is there at the end, on every node;
//! * M3: the rows of every node are those of the entries up to the one that it has applied, without
//!   the groups that do not follow their predecessors;
//! * M4: openraft stops on no node whose disks work, and panics on none;
//! * M5: when nothing fails any more, all nodes come to the same entry.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use everleaf_raft::{
    Entry, Group, Leases, LogId, Member, Members, Pools, Proposer, Rows, Snapshot, SnapshotData,
    SnapshotMeta, State, Ticket, Vote, install,
};
use futures_util::{Stream, StreamExt};
use openraft::async_runtime::WatchReceiver;
use openraft::errors::{Fatal, RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::RPCOption;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};
use openraft::storage::{EntryResponder, IOFlushed, RaftStateMachine};
use openraft::type_config::TypeConfigExt;
use openraft::{
    EntryPayload, OptionalSend, Raft, RaftNetworkFactory, RaftNetworkV2, SnapshotPolicy,
};
use openraft_rt::deterministic_rng::DeterministicRng;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::sleep;
use uuid::Uuid;

use crate::disks::Disks;
use crate::groups::rows;

type Runtime = DeterministicRng<<everleaf_raft::C as openraft::RaftTypeConfig>::AsyncRuntime>;

openraft::declare_raft_types!(
    /// As the crate's, with chance from a seed.
    M:
        D = Group,
        R = (),
        NodeId = u64,
        Node = Member,
        AsyncRuntime = Runtime,
);

type Node = Raft<M, Watched>;
type Log = everleaf_raft::Log<M>;

/// How long the network and the disks fail.
const TROUBLE: Duration = Duration::from_secs(6);
/// With this seed a node is sent a snapshot that is older than its log, every other time: threads
/// that sync and write have their own clock.
const OLD_SNAPSHOT: u64 = 1562;
/// How long nodes may take to agree afterwards.
const PATIENCE: Duration = Duration::from_secs(60);

thread_local! {
    /// The seed that this thread tries, and panics in it.
    static TRIED: Cell<(u64, u32)> = const { Cell::new((0, 0)) };
}

/// Counts panics in the tasks of openraft, and says of each in which seed it was.
fn count_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let (seed, count) = TRIED.get();
        TRIED.set((seed, count + 1));
        eprintln!("seed {seed}:");
        before(panic);
    }));
}

/// What all share.
struct World {
    rng: Mutex<StdRng>,
    /// The nodes that run.
    nodes: Mutex<BTreeMap<u64, Running>>,
    /// From where to where nothing comes through.
    cut: Mutex<BTreeSet<(u64, u64)>>,
    /// Of a hundred messages so many are lost.
    loss: Mutex<u32>,
    history: Mutex<Vec<Entry>>,
    /// Keys whose tickets have settled.
    settled: Mutex<BTreeSet<Vec<u8>>>,
    next_key: Mutex<u64>,
    /// Nodes that have a proposer.
    proposing: Mutex<BTreeSet<u64>>,
    wrong: Mutex<Option<String>>,
}

#[derive(Clone)]
struct Running {
    raft: Node,
    log: Log,
    state: State,
    disks: Disks,
}

impl World {
    fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self {
            rng: Mutex::new(StdRng::seed_from_u64(seed)),
            nodes: Mutex::default(),
            cut: Mutex::default(),
            loss: Mutex::new(0),
            history: Mutex::default(),
            settled: Mutex::default(),
            next_key: Mutex::default(),
            proposing: Mutex::default(),
            wrong: Mutex::default(),
        })
    }

    fn below(&self, ways: u64) -> u64 {
        self.rng.lock().random_range(0..ways)
    }

    fn in_hundred(&self, chances: u32) -> bool {
        self.rng.lock().random_ratio(chances, 100)
    }

    fn fail(&self, what: impl Into<String>) {
        self.wrong.lock().get_or_insert(what.into());
    }

    /// M1. A node applies an entry.
    fn applies(&self, node: u64, entry: &Entry) {
        let mut history = self.history.lock();
        let at = entry.log_id.index as usize;
        match history.get(at) {
            Some(known) if known == entry => {}
            Some(known) => self.fail(format!("M1: node {node} applies {entry} and not {known}")),
            None if at == history.len() => history.push(entry.clone()),
            None => self.fail(format!("M1: node {node} applies {entry} behind a hole")),
        }
    }
}

/// A state whose entries are noted.
struct Watched {
    world: Arc<World>,
    node: u64,
    state: State,
}

impl RaftStateMachine<M> for Watched {
    type SnapshotData = SnapshotData;
    type SnapshotBuilder = State;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, Members)> {
        RaftStateMachine::<M>::applied_state(&mut self.state).await
    }

    async fn apply<S>(&mut self, entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<M>>> + Unpin + OptionalSend,
    {
        let (world, node) = (Arc::clone(&self.world), self.node);
        let noted = entries.inspect(move |entry| {
            if let Ok((entry, _)) = entry {
                world.applies(node, entry);
            }
        });
        RaftStateMachine::<M>::apply(&mut self.state, noted).await
    }

    async fn get_snapshot_builder(&mut self) -> State {
        self.state.clone()
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta,
        data: SnapshotData,
    ) -> io::Result<()> {
        RaftStateMachine::<M>::install_snapshot(&mut self.state, meta, data).await
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        RaftStateMachine::<M>::get_current_snapshot(&mut self.state).await
    }
}

/// From one node to another.
struct Link {
    world: Arc<World>,
    from: u64,
    to: u64,
}

struct Links {
    world: Arc<World>,
    from: u64,
}

impl RaftNetworkFactory<M> for Links {
    type Network = Link;

    async fn new_client(&mut self, to: u64, _: &Member) -> Link {
        Link { world: Arc::clone(&self.world), from: self.from, to }
    }
}

fn unreachable<E>(error: E) -> Unreachable<M>
where
    E: std::fmt::Display,
{
    Unreachable::from_string(error.to_string())
}

impl Link {
    /// One way: a message comes late, or not at all.
    async fn travels(&self, from: u64, to: u64) -> Result<(), Unreachable<M>> {
        let (lost, delay) = {
            let cut = self.world.cut.lock().contains(&(from, to));
            let loss = *self.world.loss.lock();
            let late = loss > 0 && self.world.in_hundred(5);
            let delay = if late { self.world.below(800) } else { 1 + self.world.below(20) };
            (cut || self.world.in_hundred(loss), Duration::from_millis(delay))
        };
        sleep(if lost { Duration::from_millis(150) } else { delay }).await;
        if lost { Err(unreachable("lost")) } else { Ok(()) }
    }

    fn target(&self) -> Result<Running, Unreachable<M>> {
        let nodes = self.world.nodes.lock();
        nodes.get(&self.to).cloned().ok_or_else(|| unreachable("it does not run"))
    }

    /// A question and its answer. Some questions come a second time, whose answer nobody hears.
    async fn ask<Q, A, F>(
        &self,
        question: Q,
        answer: impl Fn(Node, Q) -> F,
    ) -> Result<A, Unreachable<M>>
    where
        Q: Clone,
        A: Send + 'static,
        F: Future<Output = Result<A, String>> + Send + 'static,
    {
        self.travels(self.from, self.to).await?;
        let target = self.target()?.raft;
        if *self.world.loss.lock() > 0 && self.world.in_hundred(5) {
            let again = answer(target.clone(), question.clone());
            let later = Duration::from_millis(self.world.below(1000));
            M::spawn(async move {
                sleep(later).await;
                let _ = again.await;
            });
        }
        let answered = answer(target, question).await.map_err(unreachable)?;
        self.travels(self.to, self.from).await?;
        Ok(answered)
    }
}

impl RaftNetworkV2<M> for Link {
    type SnapshotData = SnapshotData;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<M>,
        _: RPCOption,
    ) -> Result<AppendEntriesResponse<M>, RPCError<M>> {
        let answer = |node: Node, request| async move {
            node.append_entries(request).await.map_err(|error| error.to_string())
        };
        Ok(self.ask(request, answer).await?)
    }

    async fn vote(
        &mut self,
        request: VoteRequest<M>,
        _: RPCOption,
    ) -> Result<VoteResponse<M>, RPCError<M>> {
        let answer = |node: Node, request| async move {
            node.vote(request).await.map_err(|error| error.to_string())
        };
        Ok(self.ask(request, answer).await?)
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<M>,
        _: RPCOption,
    ) -> Result<VoteResponse<M>, RPCError<M>> {
        let answer = |node: Node, request| async move {
            node.pre_vote(request).await.map_err(|error| error.to_string())
        };
        Ok(self.ask(request, answer).await?)
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        _: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _: RPCOption,
    ) -> Result<SnapshotResponse<M>, StreamingError<M>> {
        self.travels(self.from, self.to).await?;
        let target = self.target()?;
        let mut bytes = Vec::new();
        snapshot.snapshot.send(&mut bytes).map_err(unreachable)?;
        let received = target.state.receive(&bytes[..]).map_err(unreachable)?;
        let installed = install(&target.raft, &target.log, vote, received).await;
        let vote = installed.map_err(unreachable)?;
        self.travels(self.to, self.from).await?;
        Ok(SnapshotResponse::new(vote))
    }
}

fn config() -> openraft::Config {
    openraft::Config {
        heartbeat_interval: 100,
        election_timeout_min: 300,
        election_timeout_max: 600,
        enable_pre_vote: Some(true),
        enable_leader_restore: Some(false),
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: 0,
        ..Default::default()
    }
    .validate()
    .unwrap()
}

/// A disk takes its time; what was appended later may be called back earlier.
fn slowly(world: &Arc<World>) -> impl Fn(everleaf::Unsynced, IOFlushed<M>) + Send + Sync + use<> {
    let world = Arc::clone(world);
    move |unsynced, callback| {
        let takes = Duration::from_millis(world.below(15));
        M::spawn(async move {
            sleep(takes).await;
            callback.io_completed(unsynced.wait().map_err(io::Error::other));
        });
    }
}

/// Starts a node; not if its disk fails meanwhile.
async fn start(world: &Arc<World>, id: u64, pools: &Pools, disks: Disks) -> Option<()> {
    let log = Log::open_with(pools.raft_store().clone(), Box::new(slowly(world)));
    let log = pools.agreed(log.ok()?).ok()?;
    let state = Watched { world: Arc::clone(world), node: id, state: pools.state() };
    let links = Links { world: Arc::clone(world), from: id };
    let raft = Raft::new(id, Arc::new(config()), links, log.clone(), state).await;
    let raft = match raft {
        Ok(raft) => raft,
        Err(error) => {
            world.fail(format!("M4: node {id} does not start: {error}"));
            return None;
        }
    };
    let running = Running { raft, log, state: pools.state(), disks };
    world.nodes.lock().insert(id, running);
    Some(())
}

/// A node that does not run: what is left of its disks.
async fn stop(world: &Arc<World>, id: u64) -> Option<Disks> {
    let running = world.nodes.lock().remove(&id)?;
    let stopped = running.raft.metrics().borrow_watched().running_state.clone();
    let whole = !running.disks.are_off() && !running.disks.are_full();
    match stopped {
        Err(error) if whole => world.fail(format!("M4: node {id} has stopped: {error}")),
        Err(Fatal::Panicked) => world.fail(format!("M4: node {id} has panicked")),
        _ => {}
    }
    // The disks as they are now: what is written from now on is not written.
    let image = running.disks.drawn(&mut world.rng.lock());
    running.disks.cut_after(0);
    let _ = running.raft.shutdown().await;
    Some(image)
}

async fn restart(world: &Arc<World>, id: u64, disks: Disks) {
    match Pools::open_at(Arc::new(disks.clone())) {
        Ok(pools) => {
            start(world, id, &pools, disks).await;
        }
        Err(error) => world.fail(format!("M4: node {id} is not opened: {error}")),
    }
}

/// Proposes at whichever node leads, until the trouble is over. A node has one proposer at a time,
/// but groups of the one before may be under way.
async fn client(world: Arc<World>, ids: u64) {
    loop {
        sleep(Duration::from_millis(20 + world.below(100))).await;
        let id = 1 + world.below(ids);
        let Some(node) = world.nodes.lock().get(&id).cloned() else { continue };
        if !world.proposing.lock().insert(id) {
            continue;
        }
        let (clock, leases) = (everleaf::Clock::system(), Leases::default());
        let begun = Proposer::begin(&node.raft, &node.state, &clock, &leases);
        let begun = tokio::time::timeout(Duration::from_secs(1), begun).await;
        if let Ok(Ok(proposer)) = begun {
            reign(&world, proposer).await;
        }
        world.proposing.lock().remove(&id);
    }
}

async fn reign(world: &Arc<World>, proposer: Proposer) {
    let (proposer, mut under_way) = (Arc::new(proposer), Vec::new());
    for _ in 0..world.below(60) {
        sleep(Duration::from_millis(world.below(8))).await;
        let Some((ticket, keys)) = propose(world, &proposer) else { break };
        let (world, proposer) = (Arc::clone(world), Arc::clone(&proposer));
        under_way.push(M::spawn(async move {
            if proposer.settled(ticket).await.is_ok() {
                world.settled.lock().extend(keys);
            }
        }));
    }
    sleep(Duration::from_millis(world.below(200))).await;
    for one in under_way {
        one.abort();
        let _ = one.await;
    }
}

fn propose(world: &World, proposer: &Proposer) -> Option<(Ticket, Vec<Vec<u8>>)> {
    let (mut rows, mut keys) = (Rows::new(), Vec::new());
    let more = if world.in_hundred(3) { 3000 } else { 10 };
    for _ in 0..=world.below(3) {
        let mut next = world.next_key.lock();
        *next += 1;
        let key = format!("key {:06}", *next).into_bytes();
        rows.push(&key, Some(&vec![b'.'; more]));
        rows.push(b"last", Some(&key));
        keys.push(key);
    }
    proposer.propose(&rows).ok().map(|ticket| (ticket, keys))
}

/// One thing that goes wrong, or is done.
async fn trouble(world: &Arc<World>, ids: u64) {
    let id = 1 + world.below(ids);
    let running = world.nodes.lock().get(&id).cloned();
    match world.below(10) {
        0..=2 => {
            // The power fails, at once or in the middle of what is being written.
            if let Some(running) = running.filter(|_| world.below(2) == 0) {
                running.disks.cut_after(world.below(8));
                sleep(Duration::from_millis(world.below(200))).await;
            }
            if let Some(disks) = stop(world, id).await {
                let (world, down) = (Arc::clone(world), world.below(2500));
                M::spawn(async move {
                    sleep(Duration::from_millis(down)).await;
                    restart(&world, id, disks).await;
                });
            }
        }
        3 => {
            if let Some(running) = running {
                running.disks.fill();
                sleep(Duration::from_millis(world.below(500))).await;
                if let Some(disks) = stop(world, id).await {
                    disks.give_room();
                    restart(world, id, disks).await;
                }
            }
        }
        4..=6 => {
            let mut cut = world.cut.lock();
            let other = 1 + world.below(ids);
            match world.below(3) {
                0 => cut.clear(),
                1 => cut.extend([(id, other)]),
                _ => cut.extend((1..=ids).flat_map(|other| [(id, other), (other, id)])),
            }
        }
        7 | 8 => {
            if let Some(Running { raft, state, .. }) = running {
                let _ = raft.trigger().snapshot().await;
                let applied = state.applied().log_id.map_or(0, |id| id.index);
                let keep = world.below(20);
                let _ = raft.trigger().purge_log(applied.saturating_sub(keep)).await;
            }
        }
        _ => *world.loss.lock() = [0, 5, 30][world.below(3) as usize],
    }
}

async fn run(world: Arc<World>, ids: u64) {
    let members: BTreeMap<u64, Member> = (1..=ids).map(|id| (id, Member::default())).collect();
    for id in 1..=ids {
        let disks = Disks::new();
        let pools = Pools::create_at(Arc::new(disks.clone()), Uuid::nil(), id).unwrap();
        start(&world, id, &pools, disks).await;
    }
    let first = world.nodes.lock()[&1].raft.clone();
    first.initialize(members).await.unwrap();
    let clients: Vec<_> = (0..2).map(|_| M::spawn(client(Arc::clone(&world), ids))).collect();
    let over = tokio::time::Instant::now() + TROUBLE;
    while tokio::time::Instant::now() < over && world.wrong.lock().is_none() {
        sleep(Duration::from_millis(50 + world.below(400))).await;
        trouble(&world, ids).await;
    }
    clients.iter().for_each(|client| client.abort());
    world.cut.lock().clear();
    *world.loss.lock() = 0;
    sleep(Duration::from_secs(4)).await; // Those that are down come back.
    for id in 1..=ids {
        if let Some(disks) = stop(&world, id).await {
            restart(&world, id, disks).await;
        }
    }
    agree(&world, ids).await;
}

/// M5, and then M2 and M3.
async fn agree(world: &Arc<World>, ids: u64) {
    let begun = tokio::time::Instant::now();
    loop {
        sleep(Duration::from_millis(500)).await;
        let nodes: Vec<_> = world.nodes.lock().values().cloned().collect();
        let applied: BTreeSet<_> = nodes.iter().map(|node| node.state.applied().log_id).collect();
        let leads = nodes.iter().any(|node| {
            let metrics = node.raft.metrics();
            let metrics = metrics.borrow_watched();
            metrics.state.is_leader()
                && metrics.last_log_index == applied.first().copied().flatten().map(|id| id.index)
        });
        if nodes.len() as u64 == ids && applied.len() == 1 && leads {
            break;
        }
        if begun.elapsed() > PATIENCE || world.wrong.lock().is_some() {
            world.fail(format!("M5: the nodes do not agree: {applied:?}"));
            return;
        }
    }
    let expected = model(&world.history.lock());
    for (id, node) in &*world.nodes.lock() {
        if let Err(error) = &node.raft.metrics().borrow_watched().running_state {
            world.fail(format!("M4: node {id} has stopped: {error}"));
        }
        if rows(&node.state) != expected {
            world.fail(format!("M3: the rows of node {id} are others"));
        }
    }
    for key in &*world.settled.lock() {
        if !expected.contains_key(key) {
            world.fail(format!("M2: {} is lost", String::from_utf8_lossy(key)));
        }
    }
}

/// The rows that a history leaves.
fn model(history: &[Entry]) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let (mut rows, mut last) = (BTreeMap::new(), (0, 0));
    for entry in history {
        let EntryPayload::Normal(group) = &entry.payload else { continue };
        let (reign, number) = (group.reign, group.number);
        if (reign == last.0 && number == last.1 + 1) || (reign > last.0 && number == 1) {
            last = (reign, number);
            for (key, value) in group.rows.iter() {
                rows.insert(key.to_vec(), value.unwrap().to_vec());
            }
        }
    }
    rows
}

/// Entries that were committed, and keys that were settled.
fn simulate(seed: u64) -> Result<(usize, usize), String> {
    let world = World::new(seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let ids = if seed.is_multiple_of(4) { 5 } else { 3 };
    runtime.block_on(Runtime::scope(seed, run(Arc::clone(&world), ids)));
    drop(runtime);
    world.nodes.lock().clear();
    if let Some(wrong) = world.wrong.lock().take() {
        return Err(wrong);
    }
    let counts = (world.history.lock().len(), world.settled.lock().len());
    Ok(counts)
}

/// `EVERLEAF_RAFT_SEEDS=10000` tries so many, `EVERLEAF_RAFT_SEED=17` that one.
#[test]
fn committed_entries_are_equal_and_never_lost() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seeds: Vec<u64> = match number("EVERLEAF_RAFT_SEED") {
        Some(seed) => vec![seed],
        None => {
            let seeds = 0..number("EVERLEAF_RAFT_SEEDS").unwrap_or(50);
            seeds.chain([OLD_SNAPSHOT; 3]).collect()
        }
    };
    let (mut entries, mut keys) = (0, 0);
    count_panics();
    for &seed in &seeds {
        TRIED.set((seed, 0));
        let simulated = match simulate(seed) {
            Ok(_) if TRIED.get().1 > 0 => Err("M4: a node has panicked".to_owned()),
            simulated => simulated,
        };
        if seed % 500 == 499 {
            println!("seed {seed}: {entries} entries committed, {keys} keys settled");
        }
        match simulated {
            Ok((more, settled)) => (entries, keys) = (entries + more, keys + settled),
            Err(wrong) => panic!("seed {seed}: {wrong}"),
        }
    }
    println!("{} seeds, {entries} entries committed, {keys} keys settled", seeds.len());
    assert!(keys > 0);
}
