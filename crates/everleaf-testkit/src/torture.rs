//! Torture: a child process writes to a real pool file and is killed with SIGKILL at a random
//! moment; the pool is reopened and compared with what the child had acknowledged.
//!
//! Parent and child draw the same operations from the same seed, so an acknowledgement is one byte
//! on a pipe: the number of the thread whose operation has returned. What each thread did after its
//! last acknowledgement is at most one operation, which must have happened wholly or not at all: a
//! put, a deletion, or a batch of both.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use everleaf::{Engine, Error, KeyType, OpenOptions, OwnedKey, Store, Transactions};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::Serialize;

/// Different keys of each thread.
const KEYS_PER_THREAD: u64 = 2_000;
/// The longest value.
const MAX_VALUE_BYTES: usize = 600;
/// Writes of the largest batch. They are drawn from few keys, so that a key comes twice at times.
const MAX_BATCH: usize = 40;
/// The longest life of a child after its first acknowledgement.
const MAX_LIFE: Duration = Duration::from_millis(40);

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
    /// Where all randomness but the moment of the kill comes from.
    pub seed: u64,
    /// An empty pool, closed.
    pub pool: PathBuf,
    /// What keeps its threads apart, where the engine knows transactions. The children have to open
    /// it with the same.
    pub transactions: Transactions,
}

/// What torture found. All but the first field count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TortureReport {
    /// The engine.
    pub engine: String,
    /// Children killed.
    pub kills: u64,
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
    /// Batches that were not acknowledged when a kill came: begun, or about to begin.
    pub cut_batches: u64,
    /// What kept the threads apart: version locks, transactions, one lock.
    pub concurrency: &'static str,
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

/// One write of a child: a key's number, and its value or none.
type Change = (u64, Option<Vec<u8>>);

/// One operation of a child.
enum ChildOperation {
    Single(Change),
    /// All or nothing.
    Batch(Vec<Change>),
}

impl ChildOperation {
    fn changes(&self) -> &[Change] {
        match self {
            Self::Single(change) => std::slice::from_ref(change),
            Self::Batch(changes) => changes,
        }
    }
}

/// What parent and child must agree on to draw the same operations.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    /// Writing threads, at most 255.
    pub threads: u8,
    /// Percent of the operations that are batches.
    pub batches: u8,
    /// Decides the operations.
    pub seed: u64,
}

/// The operations of one thread of one child, the same whichever process draws them.
struct OperationsOfThread {
    rng: StdRng,
    thread: u8,
    course: Course,
}

impl OperationsOfThread {
    fn new(course: Course, thread: u8) -> Self {
        Self { rng: StdRng::seed_from_u64(course.seed ^ u64::from(thread) << 48), thread, course }
    }

    fn next(&mut self) -> ChildOperation {
        if self.rng.random_range(0..100) < self.course.batches {
            let writes = self.rng.random_range(1..=MAX_BATCH);
            return ChildOperation::Batch((0..writes).map(|_| self.change()).collect());
        }
        ChildOperation::Single(self.change())
    }

    fn change(&mut self) -> Change {
        let key = self.rng.random_range(0..KEYS_PER_THREAD) * u64::from(self.course.threads)
            + u64::from(self.thread);
        if self.rng.random_range(0..10) < 7 {
            let mut value = vec![0; self.rng.random_range(0..MAX_VALUE_BYTES)];
            self.rng.fill(&mut value[..]);
            (key, Some(value))
        } else {
            (key, None)
        }
    }
}

fn key(key_type: KeyType, number: u64) -> OwnedKey {
    match key_type {
        KeyType::U64 => OwnedKey::U64(number),
        KeyType::Bytes => OwnedKey::Bytes(
            format!("key-{number:07}-{}", "x".repeat(number as usize % 40)).into_bytes().into(),
        ),
    }
}

/// Runs in the child: opens the pool with these transactions, writes until it is killed, and
/// acknowledges each operation that returned with a byte on `acknowledge`.
///
/// # Errors
/// When the store refuses or the parent is gone.
pub fn torture_child(
    pool: &Path,
    transactions: Transactions,
    course: Course,
    acknowledge: impl Write + Send,
) -> Result<(), TortureError> {
    let store = OpenOptions::new().transactions(transactions).open(pool)?;
    let acknowledge = Mutex::new(acknowledge);
    let write = |thread: u8| -> Result<(), TortureError> {
        let mut operations = OperationsOfThread::new(course, thread);
        loop {
            perform(&store, &operations.next())?;
            let mut pipe = acknowledge.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            // Unbuffered: an acknowledgement that waits in a buffer would die with the process.
            pipe.write_all(&[thread]).and_then(|()| pipe.flush()).map_err(TortureError::Child)?;
        }
    };
    std::thread::scope(|scope| {
        let writers: Vec<_> =
            (0..course.threads).map(|thread| scope.spawn(move || write(thread))).collect();
        writers
            .into_iter()
            .try_for_each(|writer| writer.join().unwrap_or(Err(TortureError::ChildEnded)))
    })
}

/// Does one operation; it is durable afterwards.
fn perform(store: &Store, operation: &ChildOperation) -> Result<(), Error> {
    let key = |number: &u64| key(store.key_type(), *number);
    match operation {
        ChildOperation::Single((number, Some(value))) => store.put(&key(number), value).map(drop),
        ChildOperation::Single((number, None)) => store.delete(&key(number)).map(drop),
        ChildOperation::Batch(changes) => {
            let mut batch = store.batch();
            for (number, value) in changes {
                match value {
                    Some(value) => batch.put(&key(number), value)?,
                    None => batch.delete(&key(number))?,
                }
            }
            batch.commit().map(drop)
        }
    }
}

/// What one thread's keys should hold.
type State = BTreeMap<u64, Vec<u8>>;

fn apply(state: &mut State, operation: &ChildOperation) {
    for (number, value) in operation.changes() {
        match value {
            Some(value) => drop(state.insert(*number, value.clone())),
            None => drop(state.remove(number)),
        }
    }
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
    let mut report = TortureReport { engine, ..TortureReport::default() };
    let mut rng = StdRng::seed_from_u64(options.seed);
    let mut states = vec![State::new(); usize::from(options.threads)];
    for kill in 0..options.kills {
        let course =
            Course { threads: options.threads, batches: options.batches, seed: rng.random() };
        let life = MAX_LIFE.mul_f64(rng.random_range(0.0..1.0));
        let acknowledged = run_and_kill(child(&options.pool, course), life, options.threads)?;
        report.kills += 1;
        report.operations += acknowledged.iter().sum::<u64>();
        let cuts = replay(&mut states, &acknowledged, course, &mut report);
        examine(options, &mut states, cuts, &mut report);
        progress(kill + 1);
    }
    Ok(report)
}

/// The operations acknowledged by each thread of a child that was killed after `life`.
fn run_and_kill(
    mut command: Command,
    life: Duration,
    threads: u8,
) -> Result<Vec<u64>, TortureError> {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(TortureError::Child)?;
    let mut pipe = child.stdout.take().ok_or(TortureError::ChildEnded)?;
    let reader = std::thread::spawn(move || {
        let mut first = [0];
        let started = pipe.read_exact(&mut first).is_ok();
        (started, first[0], pipe)
    });
    let (started, first, mut pipe) = reader.join().map_err(|_| TortureError::ChildEnded)?;
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
    let mut acknowledged = vec![0; usize::from(threads)];
    for byte in std::iter::once(first).chain(bytes) {
        *acknowledged.get_mut(usize::from(byte)).ok_or(TortureError::ChildEnded)? += 1;
    }
    Ok(acknowledged)
}

/// Brings the states to what was acknowledged; the next operation of each thread, which may have
/// happened.
fn replay(
    states: &mut [State],
    acknowledged: &[u64],
    course: Course,
    report: &mut TortureReport,
) -> Vec<ChildOperation> {
    let mut cuts = Vec::new();
    for (thread, (state, count)) in states.iter_mut().zip(acknowledged).enumerate() {
        let mut operations = OperationsOfThread::new(course, thread as u8);
        for _ in 0..*count {
            let operation = operations.next();
            report.batches += u64::from(matches!(operation, ChildOperation::Batch(_)));
            apply(state, &operation);
        }
        let cut = operations.next();
        report.cut_batches += u64::from(matches!(cut, ChildOperation::Batch(_)));
        cuts.push(cut);
    }
    cuts
}

/// Whether the store holds of the keys that `operation` writes exactly what `state` says.
fn holds(store: &Store, state: &State, operation: &ChildOperation) -> bool {
    operation.changes().iter().all(|(number, _)| {
        let found = store.get(key(store.key_type(), *number).as_ref()).ok().flatten();
        found.as_ref() == state.get(number)
    })
}

/// Reopens the pool, checks it, compares it with the states, and adopts what the cut operations
/// did.
fn examine(
    options: &TortureOptions,
    states: &mut [State],
    cuts: Vec<ChildOperation>,
    report: &mut TortureReport,
) {
    let start = Instant::now();
    let open = OpenOptions::new().transactions(options.transactions);
    let store = match open.open(&options.pool) {
        Ok(store) => store,
        Err(_) => {
            report.damaged += 1;
            return;
        }
    };
    if let Ok(statistics) = store.statistics() {
        report.concurrency = statistics.concurrency.name();
    }
    report.reopen_ms_max = report.reopen_ms_max.max(start.elapsed().as_millis() as u64);
    if !store.check().is_ok_and(|outcome| outcome.ok && outcome.leaked_blocks == 0) {
        report.damaged += 1;
    }
    let mut expected: BTreeMap<OwnedKey, Vec<u8>> = BTreeMap::new();
    for (state, cut) in states.iter_mut().zip(cuts) {
        // All of it, or nothing: what is in between is neither state, and is counted below.
        let mut after = state.clone();
        apply(&mut after, &cut);
        if holds(&store, &after, &cut) {
            *state = after;
        }
        expected.extend(
            state.iter().map(|(number, value)| (key(store.key_type(), *number), value.clone())),
        );
    }
    for entry in store.iter() {
        match entry {
            Ok((key, value)) => match expected.remove(&key) {
                Some(wanted) if wanted == value => {}
                Some(_) => report.lost += 1,
                None => report.phantom += 1,
            },
            Err(_) => {
                report.damaged += 1;
                break;
            }
        }
    }
    report.lost += expected.len() as u64;
}
