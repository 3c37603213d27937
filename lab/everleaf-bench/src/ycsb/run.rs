//! Loading and running.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use super::operations::{Source, Stopwatch, perform};
use super::options::YcsbOptions;
use super::report::{Done, EngineRuns, YcsbReport};
use super::watches::{Course, KindLatencies};
use super::workloads::{Operation, Record};
use crate::contention::{Contention, nodes_logged};
use crate::key::{BenchKey, String16, UserKey};
use crate::keys::mix;
use crate::measure::pin;
use crate::plan::{MAX_ROUNDS, need_epochs, within};
use crate::session::{Driver, ProgressTracker, Session};
use crate::target::Target;
use crate::{BenchError, Progress, workload};

/// Loads every engine and runs the workload on it, in rounds that take turns; then once more for
/// its latencies.
///
/// # Errors
/// [`BenchError`]; what is wrong with the options, the memory or the medium is said before any work
/// is done.
///
/// # Examples
/// ```
/// use everleaf_bench::ycsb::{Record, Workload, YcsbOptions, run_ycsb};
/// use everleaf_bench::MicroOptions;
///
/// let reports = run_ycsb(&YcsbOptions {
///     engines: vec!["btreemap".into(), "store".into()],
///     workload: Workload::A,
///     distribution: None,
///     record: Record::String16(100),
///     operations: 1000,
///     rounds: 1,
///     micro: MicroOptions { keys: 500, ..MicroOptions::default() },
/// })?;
/// assert_eq!((reports.len(), reports[1].operations), (2, 1000));
/// # Ok::<(), everleaf_bench::BenchError>(())
/// ```
pub fn run_ycsb(options: &YcsbOptions) -> Result<Vec<YcsbReport>, BenchError> {
    run_ycsb_with_progress(options, &mut |_| {})
}

/// As [`run_ycsb`], and tells how far it is.
///
/// # Errors
/// As [`run_ycsb`].
pub fn run_ycsb_with_progress(
    options: &YcsbOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<YcsbReport>, BenchError> {
    if options.engines.is_empty() {
        return Err(BenchError::NothingToCompare);
    }
    within("rounds", options.rounds.into(), 1, MAX_ROUNDS)?;
    need_epochs(options.micro.epoch_ops, options.engines.iter().map(String::as_str))?;
    let sessions = options
        .engines
        .iter()
        .map(|engine| {
            (0..options.rounds)
                .map(|round| Session::of_plan(options.plan(engine, round)?))
                .collect()
        })
        .collect::<Result<Vec<Vec<Session>>, BenchError>>()?;
    let mut steps = ProgressTracker::new(progress, options.all_operations());
    let mut runs: Vec<EngineRuns> = sessions.iter().map(|_| EngineRuns::default()).collect();
    for round in 0..options.rounds as usize {
        for turn in 0..sessions.len() {
            let engine = (turn + round) % sessions.len();
            let run = Run {
                options,
                session: &sessions[engine][round],
                steps: &mut steps,
                name: "timed",
            };
            run.go(|_| Course::default(), &mut |done| runs[engine].timed.push(done))?;
        }
    }
    for (sessions, runs) in sessions.iter().zip(&mut runs) {
        let run = Run { options, session: &sessions[0], steps: &mut steps, name: "latencies" };
        run.go(|_| KindLatencies::new(), &mut |done| {
            (runs.latencies, runs.loads) = (done.watches, done.loads)
        })?;
    }
    let mut reports = Vec::new();
    for (sessions, runs) in sessions.iter().zip(&runs) {
        reports.push(YcsbReport::new(
            options,
            sessions[0].plan.subject,
            sessions[0].durability()?,
            runs,
        ));
    }
    let first = reports[0].median_ops_per_second;
    reports.iter_mut().for_each(|report| report.ratio = report.median_ops_per_second / first);
    Ok(reports)
}

/// A run of one engine.
struct Run<'r, 'p> {
    options: &'r YcsbOptions,
    session: &'r Session,
    steps: &'r mut ProgressTracker<'p>,
    name: &'r str,
}

impl Run<'_, '_> {
    fn go<W: Stopwatch>(
        self,
        watch: impl Fn(u64) -> W,
        done: &mut dyn FnMut(Done<W>),
    ) -> Result<(), BenchError> {
        let (record, session) = (self.options.record, self.session);
        let driver = WithWatch { run: self, watch, done };
        match record {
            Record::Fields => session.with_targets::<UserKey, _>(driver),
            Record::U64(_) => session.with_targets::<u64, _>(driver),
            Record::String16(_) => session.with_targets::<String16, _>(driver),
        }
    }

    fn source(&self) -> Source {
        let plan = &self.session.plan;
        let seed = plan.options.seed;
        Source {
            workload: self.options.workload,
            distribution: self.options.distribution(),
            sequence: plan.sequence(seed),
            loaded: plan.options.warm,
            operations: self.options.operations,
            threads: plan.options.threads.into(),
            seed: mix(seed),
        }
    }
}

struct WithWatch<'r, 'p, 'd, W: Stopwatch, F> {
    run: Run<'r, 'p>,
    watch: F,
    done: &'d mut dyn FnMut(Done<W>),
}

impl<K: BenchKey, W: Stopwatch, F: Fn(u64) -> W> Driver<K> for WithWatch<'_, '_, '_, W, F> {
    const ARRAYS: bool = false;

    fn drive<T: Target<K> + 'static>(self, mut targets: Vec<T>) -> Result<(), BenchError> {
        let Run { options, session, steps, name } = self.run;
        let workloads = [workload::Workload::new(&session.plan, 0)];
        let (load, loads) =
            session.warm_up(steps, name, &mut targets, &workloads, &W::loading())?;
        let source = Run { options, session, steps, name }.source();
        steps.begin(session.plan.subject, &format!("{name}: workload {}", options.workload));
        let drawn: Vec<Vec<Operation<K>>> =
            (0..source.threads).map(|thread| source.draw(thread)).collect();
        let watches = (0..source.threads).map(&self.watch).collect();
        // What is loaded has ended its epoch.
        targets.iter().try_for_each(Target::end_epoch)?;
        let before: Vec<_> = targets.iter().map(Target::statistics).collect();
        let (elapsed, right, watches) =
            operate::<K, T, W>(&mut targets[0], &drawn, watches, options.record)?;
        if right != options.operations {
            let asked = options.operations;
            return Err(BenchError::WrongOutcomes {
                engine: session.plan.subject,
                workload: options.workload,
                asked,
                right,
            });
        }
        steps.end(options.operations);
        let after: Vec<_> = targets.iter().map(Target::statistics).collect();
        let has_epochs = session.plan.subject.has_epochs();
        let nodes_logged = has_epochs.then(|| nodes_logged(&before, &after)).flatten();
        let stalls = after.iter().flatten().map(|of| of.epochs.longest_stall_ns);
        let longest_stall_ns = stalls.max().filter(|_| has_epochs);
        let contention = Contention::between(&before, after.into_iter());
        let target = &targets[0];
        (self.done)(Done {
            load,
            loads,
            elapsed,
            watches,
            keys_after: target.len(),
            medium_bytes: target.medium_bytes(),
            dram_bytes: target.statistics().map(|statistics| statistics.dram_bytes),
            contention,
            nodes_logged,
            longest_stall_ns,
        });
        Ok(())
    }
}

/// What a thread comes back with: when it began and ended, how many operations were right, its
/// watch.
type Returned<W, E> = (Instant, Instant, Result<u64, E>, W);

/// Does the operations of all threads at the same time: how long it took, how many were right, and
/// the watches.
fn operate<K: BenchKey, T: Target<K>, W: Stopwatch>(
    target: &mut T,
    drawn: &[Vec<Operation<K>>],
    watches: Vec<W>,
    record: Record,
) -> Result<(Duration, u64, Vec<W>), BenchError> {
    let (threads, barrier) = (drawn.len(), Barrier::new(drawn.len()));
    let work = |mut handle: T::Handle<'_>, mut watch: W, operations: &[Operation<K>]| {
        barrier.wait();
        watch.begin();
        let start = Instant::now();
        let right = perform(&mut handle, &mut watch, operations, record);
        (start, Instant::now(), right.map_err(Into::into), watch)
    };
    let lanes = target.handles(threads).into_iter().zip(watches).zip(drawn).enumerate();
    let returned: Vec<Returned<W, BenchError>> = std::thread::scope(|scope| {
        let running: Vec<_> = lanes
            .map(|(thread, ((handle, watch), operations))| {
                let work = &work;
                scope.spawn(move || {
                    pin(thread, threads);
                    work(handle, watch, operations)
                })
            })
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let start = returned.iter().map(|(start, ..)| *start).min();
    let end = returned.iter().map(|(_, end, ..)| *end).max();
    let elapsed = start.zip(end).map_or(Duration::ZERO, |(start, end)| end - start);
    let (mut right, mut watches) = (0, Vec::new());
    for (_, _, of_thread, watch) in returned {
        right += of_thread?;
        watches.push(watch);
    }
    Ok((elapsed, right, watches))
}
