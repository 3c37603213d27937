//! `bench recovery`: how long it takes to open an index again, after a crash or after a clean
//! shutdown.
//!
//! An index is filled and dropped without being closed, so that its pool is what a killed process
//! leaves; or it is closed. Then it is opened, looked through, and left in the same way, as often
//! as is asked for. The file has no name meanwhile (see `place`); it is reached through a
//! descriptor.

use everleaf_engines::{LaboratoryMedia, all};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use everleaf::Engine;
use everleaf::internal::registry;
use everleaf_crash::Instrumented;
use everleaf_pmem::{Mapped, Region};
use everleaf_pool::{OpenMode, Pool, PoolError, Seal, Shutdown, open_file};
use serde::Serialize;

use crate::compare::Spread;
use crate::key::{BenchKey, String16};
use crate::measure::{Unobserved, lanes, measure};
use crate::options::{BenchKeyType, MicroOptions, RecoveryOptions};
use crate::plan::{MAX_ROUNDS, need_epochs, within, within_threads};
use crate::session::{ProgressTracker, Session, verify};
use crate::target::{IndexTarget, Target};
use crate::workload::{Drawn, Workload, wholes};
use crate::{BenchError, Phase, Progress, Subject};

/// Keys that are looked up after each recovery, untimed.
const SAMPLE: u64 = 10_000;

/// What `bench recovery` prints for a number of threads. Serialised, it is one JSON object whose
/// keys are these fields in this order, `min` and `max` without their unit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recovery {
    /// Name of the engine.
    pub engine: String,
    /// Keys in the index.
    pub keys: u64,
    /// Threads that rebuilt what the index keeps in DRAM.
    pub threads: u32,
    /// How the pool was left before it was opened: `clean` or `crash`.
    pub shutdown: &'static str,
    /// From the opening of the file to an index that answers: median of the rounds.
    pub recovery_ms: f64,
    /// The fastest round.
    #[serde(rename = "min")]
    pub min_ms: f64,
    /// The slowest round.
    #[serde(rename = "max")]
    pub max_ms: f64,
    /// What it took one thread to insert the keys, one after the other.
    pub insert_seconds: f64,
    /// `insert_seconds` in terms of `recovery_ms`.
    pub times_faster_than_inserting: f64,
    /// Where its inner nodes came from: `pool`, `image` or `leaves`.
    pub inner_from: &'static str,
}

/// Fills an index, leaves it as a crash would, and measures how long it takes to open it, with each
/// number of threads in each round.
///
/// # Errors
/// [`BenchError`]; what is wrong with the options is said before any work is done.
///
/// # Examples
/// ```
/// use everleaf_bench::{MicroOptions, RecoveryOptions, run_recovery};
///
/// let micro = MicroOptions { engine: "fptree-c".into(), keys: 1000, ..MicroOptions::default() };
/// let (threads, rounds, clean, image) = (vec![1, 2], 3, false, true);
/// let options = RecoveryOptions { threads, rounds, clean, image, micro };
/// let rows = run_recovery(&options)?;
/// assert_eq!((rows.len(), rows[1].threads), (2, 2));
/// # Ok::<(), everleaf_bench::BenchError>(())
/// ```
pub fn run_recovery(options: &RecoveryOptions) -> Result<Vec<Recovery>, BenchError> {
    run_recovery_with_progress(options, &mut |_| {})
}

/// As [`run_recovery`], and tells how far it is.
///
/// # Errors
/// As [`run_recovery`].
pub fn run_recovery_with_progress(
    options: &RecoveryOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<Recovery>, BenchError> {
    let (session, engine) = plan_recovery(options)?;
    let recoveries = u64::from(options.rounds) * options.threads.len() as u64;
    let mut steps = ProgressTracker::new(
        progress,
        session.operations() + recoveries * SAMPLE.min(options.micro.keys),
    );
    let leaving = Leaving::of(options);
    match options.micro.key_type {
        BenchKeyType::U64 => Reopenable::<u64>::fill(&session, engine, leaving, &mut steps)?
            .measure(options, &mut steps),
        BenchKeyType::String16 => {
            Reopenable::<String16>::fill(&session, engine, leaving, &mut steps)?
                .measure(options, &mut steps)
        }
    }
}

/// Finds everything that is wrong before any work is done.
pub(crate) fn plan_recovery(options: &RecoveryOptions) -> Result<(Session, Engine), BenchError> {
    if options.threads.is_empty() {
        return Err(BenchError::NothingToRecover);
    }
    within("rounds", options.rounds.into(), 1, MAX_ROUNDS)?;
    options.threads.iter().try_for_each(|threads| within_threads(*threads))?;
    need_epochs(options.micro.epoch_ops, std::iter::once(&*options.micro.engine))?;
    let session = Session::shared(&MicroOptions {
        warm: 0,
        threads: 1,
        phases: vec![Phase::Insert],
        ..options.micro.clone()
    })?;
    let subject = session.plan.subject;
    match subject {
        Subject::Index(engine) if !subject.is_volatile() => Ok((session, engine)),
        Subject::Index(_) | Subject::Stx => Err(BenchError::NothingPersists { engine: subject }),
        _ => Err(BenchError::NotAnIndex { engine: subject }),
    }
}

/// A pool file without a name that is not open as a pool.
pub(crate) struct PoolFile(File);

impl PoolFile {
    /// The path by which the system reaches an open file. Opening it gives a descriptor with a lock
    /// of its own.
    fn path(file: &File) -> PathBuf {
        format!("/proc/self/fd/{}", file.as_raw_fd()).into()
    }

    /// Of a pool that is open; it can be opened again when `region` is gone.
    pub fn of(region: &Region) -> Result<Self, BenchError> {
        let file = region.file().ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotFound));
        let opened = file.and_then(|file| File::open(Self::path(file)));
        opened.map(Self).map_err(|source| BenchError::Io {
            action: "keeping",
            path: "the pool".into(),
            source,
        })
    }

    fn region(&self) -> Result<Region, BenchError> {
        Ok(open_file(&Self::path(&self.0), OpenMode::ReadWrite)?)
    }
}

/// An index that waits to be opened.
struct Reopenable<'s, K> {
    session: &'s Session,
    file: PoolFile,
    leaving: Leaving,
    insert_seconds: f64,
    /// Some of its keys.
    sample: [Drawn<K>; 1],
}

/// How an index is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    /// As a killed process does.
    Crash,
    /// Closed.
    Clean,
    /// Closed, and without the image of its inner nodes.
    WithoutImage,
}

impl Leaving {
    fn of(options: &RecoveryOptions) -> Self {
        match (options.clean, options.image) {
            (false, _) => Self::Crash,
            (true, true) => Self::Clean,
            (true, false) => Self::WithoutImage,
        }
    }
}

/// Marks a pool as closed, when its index is gone.
type ClosePool = Box<dyn FnOnce(Option<Seal>) -> Result<(), PoolError>>;

/// What opening it gave.
pub(crate) struct Reopened<K: BenchKey> {
    elapsed: Duration,
    pub target: IndexTarget<K>,
    shutdown: Shutdown,
    close: ClosePool,
}

/// Opens an index of a session by so many threads, with the latencies that are to be added.
pub(crate) fn reopen<K: BenchKey>(
    session: &Session,
    file: &PoolFile,
    threads: u32,
) -> Result<Reopened<K>, BenchError> {
    let start = Instant::now();
    let hardware = session.hardware(file.region()?)?;
    let reopened = match session.added() {
        None => open(session, hardware, threads)?,
        Some(added) => open(session, Instrumented::delaying(hardware, added), threads)?,
    };
    Ok(Reopened { elapsed: start.elapsed(), ..reopened })
}

fn open<K: BenchKey, M: LaboratoryMedia>(
    session: &Session,
    media: M,
    threads: u32,
) -> Result<Reopened<K>, BenchError> {
    let (pool, opened) = Pool::open(media)?;
    let transactions = session.plan.options.transactions;
    let threads = Some(threads as usize);
    let opening = registry::Opening { threads, transactions, ..(&opened).into() };
    let target =
        IndexTarget::new(registry::open_index_with::<K::Kind, _>(all(), &pool, opening)?.0);
    Ok(Reopened {
        elapsed: Duration::ZERO,
        target,
        shutdown: opened.shutdown,
        close: Box::new(move |seal| pool.close_with(seal)),
    })
}

impl<'s, K: BenchKey> Reopenable<'s, K> {
    /// Inserts the keys by one thread and leaves the index; only the file stays.
    fn fill(
        session: &'s Session,
        engine: Engine,
        leaving: Leaving,
        steps: &mut ProgressTracker<'_>,
    ) -> Result<Self, BenchError> {
        let region = session.region()?;
        let file = PoolFile::of(&region)?;
        let (pool, target) = session.index::<K, Mapped>(engine, session.hardware(region)?)?;
        let mut targets = [target];
        let mut insert_seconds = 0.0;
        session.drive(
            steps,
            "filled",
            &mut targets,
            &Unobserved,
            &mut || {},
            &mut |_, measured, _| {
                insert_seconds = measured.elapsed.as_secs_f64().max(1e-9);
                Ok(())
            },
        )?;
        let [target] = targets;
        leave(target, Box::new(move |seal| pool.close_with(seal)), leaving)?;
        let (workload, keys) = (Workload::new(&session.plan, 0), session.plan.options.keys);
        let places = (0..keys).step_by((keys / SAMPLE).max(1) as usize).take(SAMPLE as usize);
        let sample = [Drawn::alike(places.map(|place| workload.key(place)).collect())];
        Ok(Self { session, file, leaving, insert_seconds, sample })
    }

    /// Opens the index by so many threads.
    fn reopen(&self, threads: u32) -> Result<Reopened<K>, BenchError> {
        reopen(self.session, &self.file, threads)
    }

    /// Whether all keys are there, by their number, and some, by their values.
    fn look_through(&self, target: &mut IndexTarget<K>) -> Result<(), BenchError> {
        let (engine, asked, right) =
            (self.session.plan.subject, self.session.plan.options.keys, target.len());
        if right != asked {
            return Err(BenchError::WrongAnswers { engine, phase: Phase::Insert, asked, right });
        }
        let found = measure(
            lanes(std::slice::from_mut(target), wholes(&self.sample), 1),
            vec![Unobserved],
            Phase::Find,
            0,
        )?;
        verify(engine, Phase::Find, wholes(&self.sample), found.answers, true)
    }

    /// All rounds; each begins with another number of threads.
    fn measure(
        &self,
        options: &RecoveryOptions,
        steps: &mut ProgressTracker<'_>,
    ) -> Result<Vec<Recovery>, BenchError> {
        let numbers = options.threads.len();
        let (mut times, mut shutdown) = (vec![Vec::new(); numbers], Shutdown::Crash);
        let mut inner_from = "";
        for round in 0..options.rounds as usize {
            for turn in 0..numbers {
                let place = (turn + round) % numbers;
                let threads = options.threads[place];
                steps.begin(self.session.plan.subject, &format!("recovery by {threads}"));
                let mut reopened = self.reopen(threads)?;
                shutdown = reopened.shutdown;
                inner_from = reopened.target.inner_from();
                self.look_through(&mut reopened.target)?;
                times[place].push(reopened.elapsed.as_secs_f64().max(1e-9) * 1e3);
                leave(reopened.target, reopened.close, self.leaving)?;
                steps.end(self.sample[0].len());
            }
        }
        let row = |(threads, times): (&u32, &Vec<f64>)| {
            let times = Spread::of(times);
            Recovery {
                engine: options.micro.engine.clone(),
                keys: options.micro.keys,
                threads: *threads,
                shutdown: if shutdown == Shutdown::Clean { "clean" } else { "crash" },
                inner_from,
                recovery_ms: times.middle,
                min_ms: times.min,
                max_ms: times.max,
                insert_seconds: self.insert_seconds,
                times_faster_than_inserting: self.insert_seconds * 1e3 / times.middle,
            }
        };
        Ok(options.threads.iter().zip(&times).map(row).collect())
    }
}

/// Leaves an index: closed, or as a killed process does. Where it has epochs, the last one has
/// ended by then, so that all keys are there again.
fn leave<K: BenchKey>(
    target: IndexTarget<K>,
    close_pool: ClosePool,
    leaving: Leaving,
) -> Result<(), BenchError> {
    target.end_epoch()?;
    match leaving {
        Leaving::Crash => Ok(()),
        Leaving::Clean => {
            let seal = target.close()?;
            Ok(close_pool(seal)?)
        }
        Leaving::WithoutImage => {
            target.close()?;
            Ok(close_pool(None)?)
        }
    }
}

impl Recovery {
    /// The heading of the table for people, whose rows [`table_row`](Self::table_row) gives.
    pub fn table_heading() -> String {
        format!(
            "{:<18} {:>12} {:>7} {:>8} {:>6} {:>12} {:>12} {:>12} {:>12} {:>12}",
            "engine",
            "keys",
            "threads",
            "shutdown",
            "from",
            "recovery ms",
            "min",
            "max",
            "inserting s",
            "times faster"
        )
    }

    /// One row of the table for people.
    pub fn table_row(&self) -> String {
        format!(
            "{:<18} {:>12} {:>7} {:>8} {:>6} {:>12.2} {:>12.2} {:>12.2} {:>12.2} {:>12.1}",
            self.engine,
            self.keys,
            self.threads,
            self.shutdown,
            self.inner_from,
            self.recovery_ms,
            self.min_ms,
            self.max_ms,
            self.insert_seconds,
            self.times_faster_than_inserting
        )
    }
}

#[cfg(test)]
mod tests {
    use everleaf_engines::named;

    use super::*;

    fn options(engine: &str, keys: u64) -> MicroOptions {
        MicroOptions {
            engine: engine.into(),
            keys,
            seed: 3,
            phases: vec![Phase::Insert],
            ..Default::default()
        }
    }

    #[test]
    fn what_is_opened_is_left_in_the_same_way_every_time() {
        for (engine, leaving, left, from) in [
            ("fptree", Leaving::Crash, Shutdown::Crash, "leaves"),
            ("fptree-c", Leaving::Crash, Shutdown::Crash, "leaves"),
            ("ptree", Leaving::Crash, Shutdown::Crash, "leaves"),
            ("fptree", Leaving::Clean, Shutdown::Clean, "image"),
            ("fptree-c", Leaving::WithoutImage, Shutdown::Clean, "leaves"),
            ("fptree-c", Leaving::Clean, Shutdown::Clean, "image"),
            ("nvtree-c", Leaving::Clean, Shutdown::Clean, "image"),
            ("circtree", Leaving::Clean, Shutdown::Clean, "pool"),
        ] {
            let session = Session::shared(&options(engine, 20_000)).unwrap();
            let subject = Reopenable::<u64>::fill(
                &session,
                Engine::of(named(engine).unwrap()),
                leaving,
                &mut ProgressTracker::new(&mut |_| {}, 1),
            )
            .unwrap();
            for threads in [1, 2, 5, 1] {
                let mut reopened = subject.reopen(threads).unwrap();
                assert_eq!((reopened.target.len(), reopened.shutdown), (20_000, left), "{engine}");
                assert!(
                    subject.file.region().is_err(),
                    "{engine}: the pool is locked while it is open"
                );
                subject.look_through(&mut reopened.target).unwrap();
                assert_eq!(reopened.target.inner_from(), from, "{engine}");
                leave(reopened.target, reopened.close, leaving).unwrap();
                if leaving == Leaving::Crash {
                    let (_, opened) =
                        Pool::open(session.hardware(subject.file.region().unwrap()).unwrap())
                            .unwrap();
                    assert_eq!(opened.shutdown, left, "{engine}");
                }
            }
        }
    }

    #[test]
    fn a_key_that_is_missing_after_a_recovery_is_found_out() {
        let session = Session::shared(&options("fptree-c", 100)).unwrap();
        let mut subject = Reopenable::<u64>::fill(
            &session,
            Engine::FPTREE_C,
            Leaving::Crash,
            &mut ProgressTracker::new(&mut |_| {}, 1),
        )
        .unwrap();
        let absent = Drawn::alike(vec![Workload::new(&session.plan, 1).key(0)]);
        subject.sample = [absent];
        let error = subject.look_through(&mut subject.reopen(1).unwrap().target).unwrap_err();
        assert!(
            matches!(
                error,
                BenchError::WrongAnswers { phase: Phase::Find, asked: 1, right: 0, .. }
            ),
            "{error}"
        );
        let mut reopened = subject.reopen(1).unwrap();
        let removed = [Drawn::alike(vec![Workload::new(&session.plan, 0).key(0)])];
        measure(
            lanes(std::slice::from_mut(&mut reopened.target), wholes(&removed), 1),
            vec![Unobserved],
            Phase::Delete,
            0,
        )
        .unwrap();
        let error = subject.look_through(&mut reopened.target).unwrap_err();
        assert!(
            matches!(
                error,
                BenchError::WrongAnswers { phase: Phase::Insert, asked: 100, right: 99, .. }
            ),
            "{error}"
        );
    }
}
