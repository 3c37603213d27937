//! Torture: a child process writes to a real pool file and is killed with SIGKILL at a random
//! moment; the pool is reopened and compared with what the child had acknowledged.
//!
//! Parent and child draw the same operations from the same seed, so an acknowledgement is two bytes
//! on a pipe: what has returned, and of which thread. An operation is a put, a deletion, a batch or
//! a transaction of both, which must have happened wholly or not at all, or a sweep of what has
//! expired. Where a call promises durability it is acknowledged when it returns; elsewhere, when a
//! `sync` or a close returns that began later.
//!
//! A child closes its pool and opens it again at times; one in four is killed some moments after
//! its process began, so perhaps while it opens. Before the parent looks, children that do nothing
//! but open and close are killed as well: so a recovery is cut, and the one after it.
//!
//! Map of the files: `operations` (what is done) · `child` (what is killed) · `judge` (what is
//! owed, and what is there).

mod child;
mod judge;
mod operations;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use everleaf::{Contract, Engine, Error, OpenOptions, Transactions};
use everleaf_engines::all;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::Serialize;

pub use child::{Course, torture_child};
use child::{is_buffered, named_tree};
use judge::{Acknowledged, Found, State};

/// The longest life of a child after its first acknowledgement, or after its process began.
const MAX_LIFE: Duration = Duration::from_millis(40);
/// Children in a row that only open and close, at most.
const MAX_OPENINGS: u32 = 3;
/// Longer than the shortest of values lives.
const EXPIRED_BY_NOW: Duration = Duration::from_millis(2);

/// What to torture.
#[derive(Clone, Debug)]
pub struct TortureOptions {
    /// The engine of the pool.
    pub engine: Engine,
    /// Writing threads of each child, at most 255.
    pub threads: u8,
    /// Children to kill.
    pub kills: u64,
    /// Percent of the operations that are batches.
    pub batches: u8,
    /// Percent of the operations that are transactions.
    pub transactions: u8,
    /// Where all randomness but the moment of the kill comes from.
    pub seed: u64,
    /// An empty pool, closed.
    pub pool: PathBuf,
    /// What keeps its threads apart, where the engine knows transactions of the processor. The
    /// children have to open it with the same.
    pub rtm: Transactions,
}

/// What torture found. All but the first field count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TortureReport {
    /// The engine.
    pub engine: String,
    /// Children killed that wrote.
    pub kills: u64,
    /// Children killed besides, which opened and closed the pool and did nothing else.
    pub openings: u64,
    /// Operations acknowledged.
    pub operations: u64,
    /// Keys whose acknowledged state was not found.
    pub lost: u64,
    /// Keys found that no operation explains.
    pub phantom: u64,
    /// Reopenings after which the check found violations or leaks, or that failed.
    pub damaged: u64,
    /// The longest reopening.
    pub reopen_ms_max: u64,
    /// Operations that were batches.
    pub batches: u64,
    /// Operations that were transactions.
    pub transactions: u64,
    /// Batches and transactions that were not acknowledged when a kill came: begun, or about to
    /// begin.
    pub cut_batches: u64,
    /// What kept the threads apart: version locks, transactions, one lock.
    pub concurrency: &'static str,
    /// When an operation of the engine counts as acknowledged: `strict`, when it returns;
    /// `buffered`, when a `sync` returns that began later.
    pub contract: &'static str,
    /// Calls of `sync`, and closes, that returned where operations return before they are durable.
    pub syncs: u64,
    /// What ran: the medium, whether there was a log, and the durability.
    pub ran: BTreeSet<String>,
}

impl TortureReport {
    /// Adds what was found in another pool.
    pub fn add(&mut self, other: Self) {
        self.kills += other.kills;
        self.openings += other.openings;
        self.operations += other.operations;
        self.lost += other.lost;
        self.phantom += other.phantom;
        self.damaged += other.damaged;
        self.reopen_ms_max = self.reopen_ms_max.max(other.reopen_ms_max);
        self.batches += other.batches;
        self.transactions += other.transactions;
        self.cut_batches += other.cut_batches;
        self.syncs += other.syncs;
        self.ran.extend(other.ran);
        (self.engine, self.contract) = (other.engine, other.contract);
        self.concurrency = other.concurrency;
    }
}

/// Why torture could not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TortureError {
    /// The store refused.
    #[error(transparent)]
    Store(#[from] Error),
    /// The child could not be run.
    #[error("the tortured child process failed: {0}")]
    Child(io::Error),
    /// The child ended by itself, which it never should.
    #[error(
        "the tortured child process ended by itself before it was killed; run it with the same \
        seed to see why"
    )]
    ChildEnded,
    /// A single-threaded engine with several threads.
    #[error("{engine} is single-threaded; use --threads 1")]
    SingleThreaded {
        /// The engine.
        engine: String,
    },
}

/// Tortures an empty pool. `child` makes the command that runs [`torture_child`] by the given
/// course on the given pool and its acknowledgements on standard output; `progress` is told of each
/// kill.
///
/// # Errors
/// When a child cannot be run; what is found in the pool is in the report.
pub fn torture(
    options: &TortureOptions,
    child: &dyn Fn(&Path, Course) -> Command,
    progress: &mut dyn FnMut(u64),
) -> Result<TortureReport, TortureError> {
    if options.threads != 1 && !options.engine.is_concurrent() {
        return Err(TortureError::SingleThreaded { engine: options.engine.to_string() });
    }
    let engine = options.engine.to_string();
    let contract = match options.engine.contract() {
        Contract::Strict => "strict",
        Contract::Buffered => "buffered",
    };
    let mut report = TortureReport { engine, contract, ..TortureReport::default() };
    let mut rng = StdRng::seed_from_u64(options.seed);
    let mut states = vec![State::new(); usize::from(options.threads)];
    for kill in 0..options.kills {
        let course = Course {
            threads: options.threads,
            batches: options.batches,
            transactions: options.transactions,
            seed: rng.random(),
        };
        let opens_only = Course { threads: 0, ..course };
        let life = MAX_LIFE.mul_f64(rng.random_range(0.0..1.0));
        let from = if rng.random_ratio(1, 4) { Since::Start } else { Since::FirstNote };
        let notes = run_and_kill(child(&options.pool, course), from, life)?;
        report.kills += 1;
        for _ in 0..rng.random_range(0..=MAX_OPENINGS) {
            let life = MAX_LIFE.mul_f64(rng.random_range(0.0..1.0));
            run_and_kill(child(&options.pool, opens_only), Since::Start, life)?;
            report.openings += 1;
        }
        std::thread::sleep(EXPIRED_BY_NOW);
        if let Some((found, contract)) = reopen(options, &mut report) {
            let acknowledged = Acknowledged::read(&notes, course.threads, contract);
            let acknowledged = acknowledged.ok_or(TortureError::ChildEnded)?;
            report.operations += acknowledged.returned.len() as u64;
            report.syncs += acknowledged.syncs;
            judge::judge(&mut states, &acknowledged, course, &found, &mut report);
        }
        progress(kill + 1);
    }
    Ok(report)
}

/// From when on the life of a child is counted.
enum Since {
    Start,
    FirstNote,
}

/// What a child has told that was killed after `life`.
fn run_and_kill(
    mut command: Command,
    since: Since,
    life: Duration,
) -> Result<Vec<u8>, TortureError> {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(TortureError::Child)?;
    let mut pipe = child.stdout.take().ok_or(TortureError::ChildEnded)?;
    let mut first = [0; 2];
    let started = match since {
        Since::Start => true,
        Since::FirstNote => pipe.read_exact(&mut first).is_ok(),
    };
    let rest = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).map(|_| bytes)
    });
    std::thread::sleep(life);
    let ended = child.try_wait().map_err(TortureError::Child)?.is_some();
    child.kill().map_err(TortureError::Child)?; // SIGKILL
    child.wait().map_err(TortureError::Child)?;
    let bytes = rest.join().map_err(|_| TortureError::ChildEnded)?.map_err(TortureError::Child)?;
    if !started || ended {
        return Err(TortureError::ChildEnded);
    }
    Ok(match since {
        Since::Start => bytes,
        Since::FirstNote => [&first[..], &bytes].concat(),
    })
}

/// Reopens the pool, checks it, and reads all of it; none if that is impossible.
fn reopen(options: &TortureOptions, report: &mut TortureReport) -> Option<(Found, Contract)> {
    let start = Instant::now();
    let open = OpenOptions::new().engines(all()).transactions(options.rtm);
    let Ok(store) = open.open(&options.pool) else {
        report.damaged += 1;
        return None;
    };
    report.reopen_ms_max = report.reopen_ms_max.max(start.elapsed().as_millis() as u64);
    if let Ok(statistics) = store.statistics() {
        report.concurrency = statistics.concurrency.name();
        let log = if statistics.log { " with a log" } else { "" };
        report.ran.insert(format!("{}{log}, {}", statistics.medium, statistics.durability_mode));
    }
    if !store.check().is_ok_and(|outcome| outcome.ok && outcome.leaked_blocks == 0) {
        report.damaged += 1;
    }
    let contract = if is_buffered(&store) { Contract::Buffered } else { Contract::Strict };
    let named = named_tree(&store).ok()?;
    let named = named.iter().flat_map(|tree| tree.iter().map(|entry| (true, entry)));
    let mut entries = BTreeMap::new();
    for (named, entry) in store.iter().map(|entry| (false, entry)).chain(named) {
        let Ok((key, value)) = entry else {
            report.damaged += 1;
            break;
        };
        entries.insert((named, key), value);
    }
    Some((Found { key_type: store.key_type(), entries }, contract))
}
