//! `bench micro`: each phase of one engine, timed, its latencies, and counted.

use everleaf::Engine;
use everleaf_pmem::{Counted, Counts, Hardware};

use crate::keys::String16;
use crate::measure::{Latencies, LatencySummary, Measured, Unobserved};
use crate::options::{BenchKeyType, MicroOptions};
use crate::report::PhaseReport;
use crate::session::{Describe, Session, Steps};
use crate::target::MapKey;
use crate::{BenchError, Progress};

/// Measures every phase and hands each one's report over: three runs on fresh indexes with the same keys, counted, latencies, timed.
///
/// # Errors
/// [`BenchError`]; what is wrong with the options, the memory or the medium is said before any work is done.
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
pub fn run_micro(options: &MicroOptions, report: &mut dyn FnMut(PhaseReport)) -> Result<(), BenchError> {
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
    let session = Session::shared(options)?;
    let runs = if session.plan.engine == Engine::BTreeMap { 2 } else { 3 };
    let mut steps = Steps::new(progress, runs * session.operations());
    match options.key_type {
        BenchKeyType::U64 => session.micro::<u64>(&mut steps, report),
        BenchKeyType::String16 => session.micro::<String16>(&mut steps, report),
    }
}

impl Session {
    fn micro<K: MapKey>(&self, steps: &mut Steps<'_>, report: &mut dyn FnMut(PhaseReport)) -> Result<(), BenchError> {
        let counts = if self.plan.engine == Engine::BTreeMap { Vec::new() } else { self.counted::<K>(steps)? };
        let mut latencies = Vec::new();
        self.run::<K, Latencies>(steps, "latencies", &Latencies::new(), &mut |_, measured, _| {
            latencies.push(summary(measured));
            Ok(())
        })?;
        let mut next = 0;
        self.run::<K, Unobserved>(steps, "timed", &Unobserved, &mut |phase, measured, target| {
            report(PhaseReport::new(&self.plan, phase, target.timed(measured.elapsed), latencies[next], counts.get(next)));
            next += 1;
            Ok(())
        })
    }

    /// The counted run, by one thread: so counters are exact and the same whenever the seed is.
    fn counted<K: MapKey>(&self, steps: &mut Steps<'_>) -> Result<Vec<Counts>, BenchError> {
        let media = Counted::new(Hardware::new(self.region()?, &self.cpu)?);
        let (pool, target) = self.index::<K, _>(media)?;
        let mut counts = Vec::new();
        let mut after = |_, _: Measured<Unobserved>, _: &dyn Describe| {
            let mut counted = pool.media().counts();
            if self.plan.engine.is_volatile_twin() {
                // Timed without any; what the code asks for is nothing there.
                [&mut counted.flushes, &mut counted.fences, &mut counted.lines_flushed]
                    .into_iter()
                    .for_each(std::collections::BTreeMap::clear);
            }
            counts.push(counted);
            Ok(())
        };
        self.drive(steps, "counted", &mut [target], &Unobserved, &mut || pool.media().reset(), &mut after)?;
        Ok(counts)
    }
}

/// The latencies of all threads.
fn summary(measured: Measured<Latencies>) -> LatencySummary {
    let mut clocks = measured.clocks.into_iter();
    let mut all = clocks.next().unwrap_or_else(Latencies::new);
    clocks.for_each(|clock| all.merge(&clock));
    all.summary()
}
