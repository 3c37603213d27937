//! `bench micro`: each phase of one engine, timed, its latencies, and counted.

use std::collections::BTreeMap;

use everleaf_crash::{Counts, Instrumented};
use everleaf_pmem::Mapped;
use everleaf_pool::Pool;

use crate::key::{BenchKey, String16};
use crate::measure::{Latencies, LatencySummary, Measured, Unobserved};
use crate::options::{BenchKeyType, MicroOptions};
use crate::peers::store::Everleaf;
use crate::plan::need_epochs;
use crate::report::PhaseReport;
use crate::session::{Describe, ProgressTracker, Session};
use crate::target::{ByteTarget, Target};
use crate::{BenchError, Progress, Subject};

/// Measures every phase and hands each one's report over: three runs on fresh indexes with the same
/// keys, counted, latencies, timed.
///
/// # Errors
/// [`BenchError`]; what is wrong with the options, the memory or the medium is said before any work
/// is done.
///
/// # Examples
/// ```
/// use everleaf_bench::{MicroOptions, Phase, run_micro};
///
/// let options = MicroOptions {
///     engine: "btreemap".into(),
///     keys: 1000,
///     phases: vec![Phase::Insert, Phase::Find],
///     ..MicroOptions::default()
/// };
/// let mut reports = Vec::new();
/// run_micro(&options, &mut |report| reports.push(report))?;
/// assert_eq!((reports.len(), reports[1].keys_after), (2, 1000));
/// # Ok::<(), everleaf_bench::BenchError>(())
/// ```
pub fn run_micro(
    options: &MicroOptions,
    report: &mut dyn FnMut(PhaseReport),
) -> Result<(), BenchError> {
    run_micro_with_progress(options, &mut |_| {}, report)
}

/// As [`run_micro`], and tells how far it is.
///
/// # Errors
/// As [`run_micro`].
pub fn run_micro_with_progress(
    options: &MicroOptions,
    progress: &mut dyn FnMut(Progress),
    report: &mut dyn FnMut(PhaseReport),
) -> Result<(), BenchError> {
    need_epochs(options.epoch_ops, std::iter::once(&*options.engine))?;
    let session = Session::shared(options)?;
    let runs = if session.plan.subject.has_pool() { 3 } else { 2 };
    let mut steps = ProgressTracker::new(progress, runs * session.operations());
    match options.key_type {
        BenchKeyType::U64 => session.micro::<u64>(&mut steps, report),
        BenchKeyType::String16 => session.micro::<String16>(&mut steps, report),
    }
}

impl Session {
    fn micro<K: BenchKey>(
        &self,
        steps: &mut ProgressTracker<'_>,
        report: &mut dyn FnMut(PhaseReport),
    ) -> Result<(), BenchError> {
        let counts =
            if self.plan.subject.has_pool() { self.counted::<K>(steps)? } else { Vec::new() };
        let (durability, latencies) = (self.durability()?, self.latencies_of::<K>(steps)?);
        let mut next = 0;
        self.run::<K, Unobserved>(steps, "timed", &Unobserved, &mut |phase, measured, target| {
            report(PhaseReport::new(
                &self.plan,
                phase,
                durability,
                target.timed(measured.elapsed),
                latencies[next],
                counts.get(next),
            ));
            next += 1;
            Ok(())
        })
    }

    /// The run in which every operation is timed by itself: latencies of each phase.
    pub(crate) fn latencies(
        &self,
        steps: &mut ProgressTracker<'_>,
    ) -> Result<Vec<LatencySummary>, BenchError> {
        match self.plan.options.key_type {
            BenchKeyType::U64 => self.latencies_of::<u64>(steps),
            BenchKeyType::String16 => self.latencies_of::<String16>(steps),
        }
    }

    fn latencies_of<K: BenchKey>(
        &self,
        steps: &mut ProgressTracker<'_>,
    ) -> Result<Vec<LatencySummary>, BenchError> {
        let mut latencies = Vec::new();
        self.run::<K, Latencies>(steps, "latencies", &Latencies::new(), &mut |_, measured, _| {
            latencies.push(summary(measured));
            Ok(())
        })?;
        Ok(latencies)
    }

    /// The counted run, by one thread: so counters are exact and the same whenever the seed is.
    pub(crate) fn counted<K: BenchKey>(
        &self,
        steps: &mut ProgressTracker<'_>,
    ) -> Result<Vec<Counts>, BenchError> {
        let media = Instrumented::counting(Mapped::new(self.region()?, &self.cpu)?);
        match self.plan.subject {
            Subject::Index(engine) => {
                let (pool, target) = self.index::<K, _>(engine, media)?;
                self.count::<K, _>(steps, &pool, target)
            }
            Subject::Store(engine) => {
                let (store, pool) = self.store::<K, _>(engine, media)?;
                self.count::<K, _>(
                    steps,
                    &pool,
                    ByteTarget::new(Everleaf::new(store), self.plan.value_bytes(), 1),
                )
            }
            Subject::Stx | Subject::Peer(_) => Ok(Vec::new()),
        }
    }

    fn count<K: BenchKey, T: Target<K>>(
        &self,
        steps: &mut ProgressTracker<'_>,
        pool: &Pool<Instrumented>,
        target: T,
    ) -> Result<Vec<Counts>, BenchError> {
        let mut phases = Vec::new();
        let mut after = |_, _: Measured<Unobserved>, _: &dyn Describe| {
            let mut counts = pool.media().counts();
            let twin =
                |subject| matches!(subject, Subject::Index(one) if one.entry().is_volatile_twin());
            if twin(self.plan.subject) {
                // Timed without any; what the code asks for is nothing there.
                [&mut counts.flushes, &mut counts.fences, &mut counts.lines_flushed]
                    .into_iter()
                    .for_each(BTreeMap::clear);
            }
            phases.push(counts);
            Ok(())
        };
        self.drive(
            steps,
            "counted",
            &mut [target],
            &Unobserved,
            &mut || pool.media().reset(),
            &mut after,
        )?;
        Ok(phases)
    }
}

/// The latencies of all threads.
fn summary(measured: Measured<Latencies>) -> LatencySummary {
    let mut clocks = measured.clocks.into_iter();
    let mut all = clocks.next().unwrap_or_else(Latencies::new);
    clocks.for_each(|clock| all.merge(&clock));
    all.summary()
}
