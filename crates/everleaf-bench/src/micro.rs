//! `bench micro`: each phase of one engine, timed, its latencies, and counted.

use std::sync::Arc;
use std::time::Duration;

use everleaf::{Engine, EngineParameters, StoreKey, registry};
use everleaf_pmem::{Counted, Counts, Cpu, Emulated, FlushInstruction, Hardware, Latencies as AddedLatencies, Media, Region};
use everleaf_pool::Pool;

use crate::keys::{BenchKey, String16};
use crate::measure::{Answers, Clock, Latencies, LatencySummary, Measured, Unobserved, measure};
use crate::options::{BenchKeyType, Flush, MicroOptions, Plan};
use crate::place::{Need, Place};
use crate::report::{PhaseReport, Timed};
use crate::target::{IndexTarget, MapKey, MapTarget, Target};
use crate::workload::Workload;
use crate::{BenchError, Phase, Progress};

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
    let session = Session::new(options)?;
    let runs = if session.plan.engine == Engine::BTreeMap { 2 } else { 3 };
    let mut steps = Steps::new(progress, runs * session.operations());
    match options.key_type {
        BenchKeyType::U64 => session.micro::<u64>(&mut steps, report),
        BenchKeyType::String16 => session.micro::<String16>(&mut steps, report),
    }
}

/// Adds up what is done.
pub(crate) struct Steps<'p> {
    tell: &'p mut dyn FnMut(Progress),
    done: u64,
    total: u64,
}

impl<'p> Steps<'p> {
    pub fn new(tell: &'p mut dyn FnMut(Progress), total: u64) -> Self {
        Self { tell, done: 0, total }
    }

    fn begin(&mut self, engine: Engine, doing: &str) {
        (self.tell)(Progress { done: self.done, total: self.total, doing: format!("{engine} {doing}") });
    }

    fn end(&mut self, operations: u64) {
        self.done += operations;
    }
}

/// Checked options, and a place with room.
pub(crate) struct Session {
    pub plan: Plan,
    parameters: EngineParameters,
    place: Place,
    pool_bytes: u64,
    cpu: Cpu,
}

/// Receives what one phase of a run gave.
type AfterPhase<'a, C> = dyn FnMut(Phase, Measured<C>, &dyn Describe) -> Result<(), BenchError> + 'a;

/// What can be asked of any target between phases.
trait Describe {
    fn timed(&self, elapsed: Duration) -> Timed;
}

struct Described<'t, T, K>(&'t T, std::marker::PhantomData<K>);

impl<K, T: Target<K>> Describe for Described<'_, T, K> {
    fn timed(&self, elapsed: Duration) -> Timed {
        let seconds = elapsed.as_secs_f64().max(1e-9);
        Timed { seconds, statistics: self.0.statistics(), keys_after: self.0.len() }
    }
}

impl Session {
    pub fn new(options: &MicroOptions) -> Result<Self, BenchError> {
        let plan = Plan::new(options)?;
        let mut parameters = EngineParameters::default();
        (parameters.leaf_slots, parameters.inner_keys) = (plan.leaf_slots()?, options.inner_keys);
        let key_type = match options.key_type {
            BenchKeyType::U64 => <u64 as BenchKey>::Kind::TYPE,
            BenchKeyType::String16 => <String16 as BenchKey>::Kind::TYPE,
        };
        registry::pool_format(plan.engine, key_type, &parameters, options.value_words as usize)?;
        let need = if plan.engine == Engine::BTreeMap { Need::of_map(&plan) } else { Need::of_index(&plan) };
        let place = Place::find(need, options.pool.as_deref())?;
        Ok(Self { plan, parameters, place, pool_bytes: need.pool_bytes, cpu: Cpu::detect() })
    }

    /// Operations of one run, the warm-up included.
    pub fn operations(&self) -> u64 {
        let options = &self.plan.options;
        options.warm + options.keys * options.phases.len() as u64
    }

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

    /// The timed run alone: seconds of each phase.
    pub fn seconds(&self, steps: &mut Steps<'_>) -> Result<Vec<f64>, BenchError> {
        let mut seconds = Vec::new();
        let mut after = |_, measured: Measured<Unobserved>, _: &dyn Describe| {
            seconds.push(measured.elapsed.as_secs_f64().max(1e-9));
            Ok(())
        };
        match self.plan.options.key_type {
            BenchKeyType::U64 => self.run::<u64, _>(steps, "timed", &Unobserved, &mut after)?,
            BenchKeyType::String16 => self.run::<String16, _>(steps, "timed", &Unobserved, &mut after)?,
        }
        Ok(seconds)
    }

    /// The counted run, by one thread: so counters are exact and the same whenever the seed is.
    fn counted<K: MapKey>(&self, steps: &mut Steps<'_>) -> Result<Vec<Counts>, BenchError> {
        let media = Counted::new(Hardware::new(self.place.create(self.pool_bytes)?, &self.cpu)?);
        let (pool, mut target) = self.index::<K, _>(media)?;
        let mut counts = Vec::new();
        let mut after = |_, _: Measured<Unobserved>, _: &dyn Describe| {
            counts.push(pool.media().counts());
            Ok(())
        };
        self.drive(steps, "counted", &mut target, &[Unobserved], &mut || pool.media().reset(), &mut after)?;
        Ok(counts)
    }

    /// A run on the media that was asked for, or of the peer.
    fn run<K: MapKey, C: Clock + Clone>(
        &self,
        steps: &mut Steps<'_>,
        name: &str,
        clock: &C,
        after: &mut AfterPhase<'_, C>,
    ) -> Result<(), BenchError> {
        let options = &self.plan.options;
        let clocks = vec![clock.clone(); options.threads as usize];
        if self.plan.engine == Engine::BTreeMap {
            return self.run_map::<K, C>(steps, name, &clocks, after);
        }
        let added = AddedLatencies { flush_ns: options.flush_ns, fence_ns: options.fence_ns, read_ns: options.read_ns };
        let hardware = self.hardware(self.place.create(self.pool_bytes)?)?;
        if added == AddedLatencies::default() {
            let (_pool, mut target) = self.index::<K, _>(hardware)?;
            self.drive(steps, name, &mut target, &clocks, &mut || {}, after)
        } else {
            let (_pool, mut target) = self.index::<K, _>(Emulated::new(hardware, added))?;
            self.drive(steps, name, &mut target, &clocks, &mut || {}, after)
        }
    }

    fn run_map<K: MapKey, C: Clock + Clone>(
        &self,
        steps: &mut Steps<'_>,
        name: &str,
        clocks: &[C],
        after: &mut AfterPhase<'_, C>,
    ) -> Result<(), BenchError> {
        macro_rules! of_words {
            ($($words:literal)*) => {
                match self.plan.options.value_words {
                    $($words => self.drive(steps, name, &mut MapTarget::<K, $words>::new(), clocks, &mut || {}, after),)*
                    words => Err(BenchError::OutOfRange { option: "value-words", value: words.into(), least: 1, most: 14 }),
                }
            };
        }
        of_words!(1 2 3 4 5 6 7 8 9 10 11 12 13 14)
    }

    fn hardware(&self, region: Region) -> Result<Hardware, BenchError> {
        let forced = match self.plan.options.flush {
            Flush::Auto => return Ok(Hardware::new(region, &self.cpu)?),
            Flush::Clwb => FlushInstruction::Clwb,
            Flush::ClflushOpt => FlushInstruction::ClflushOpt,
            Flush::Clflush => FlushInstruction::Clflush,
            Flush::None => FlushInstruction::None,
        };
        Ok(Hardware::forced(region, &self.cpu, forced)?)
    }

    /// A fresh pool and an empty index in it.
    fn index<K: BenchKey, M: Media>(&self, media: M) -> Result<(Arc<Pool<M>>, IndexTarget<K>), BenchError> {
        let words = self.plan.options.value_words as usize;
        let format = registry::pool_format(self.plan.engine, K::Kind::TYPE, &self.parameters, words)?;
        let pool = Pool::create(media, &format)?;
        let index = registry::create_index::<K::Kind, M>(&pool, self.plan.engine, &self.parameters, words)?;
        Ok((pool, IndexTarget::new(index)))
    }

    /// Warms `target` up and does one phase after the other.
    fn drive<K: BenchKey, T: Target<K>, C: Clock + Clone>(
        &self,
        steps: &mut Steps<'_>,
        name: &str,
        target: &mut T,
        clocks: &[C],
        before: &mut dyn FnMut(),
        after: &mut AfterPhase<'_, C>,
    ) -> Result<(), BenchError> {
        let engine = self.plan.engine;
        let mut workload = Workload::new(&self.plan);
        self.warm_up(steps, name, target, &workload, clocks.len())?;
        for (i, &phase) in self.plan.options.phases.iter().enumerate() {
            steps.begin(engine, &format!("{name}: {phase}"));
            let keys: Vec<K> = workload.operations(phase);
            before();
            let measured = measure(target, clocks.to_vec(), phase, &keys, i as u8)?;
            let (expected, found) = (Answers::expected(phase, &keys), measured.answers);
            if found.right != expected.right {
                return Err(BenchError::WrongAnswers { engine, phase, asked: expected.right, right: found.right });
            }
            if found.sum != expected.sum {
                return Err(BenchError::WrongValues { engine, phase });
            }
            after(phase, measured, &Described(target, std::marker::PhantomData))?;
            steps.end(keys.len() as u64);
        }
        Ok(())
    }

    /// Inserts the first keys in batches, so that they need not all be held.
    fn warm_up<K: BenchKey, T: Target<K>>(
        &self,
        steps: &mut Steps<'_>,
        name: &str,
        target: &mut T,
        workload: &Workload,
        threads: usize,
    ) -> Result<(), BenchError> {
        const BATCH: u64 = 1 << 20;
        let warm = self.plan.options.warm;
        for start in (0..warm).step_by(BATCH as usize) {
            steps.begin(self.plan.engine, &format!("{name}: warm-up"));
            let keys: Vec<K> = (start..warm.min(start + BATCH)).map(|place| workload.key(place)).collect();
            let inserted = measure(target, vec![Unobserved; threads], Phase::Insert, &keys, 0)?.answers;
            if inserted.right != keys.len() as u64 {
                let (engine, asked) = (self.plan.engine, keys.len() as u64);
                return Err(BenchError::WrongAnswers { engine, phase: Phase::Insert, asked, right: inserted.right });
            }
            steps.end(keys.len() as u64);
        }
        Ok(())
    }
}

/// The latencies of all threads.
fn summary(measured: Measured<Latencies>) -> LatencySummary {
    let mut clocks = measured.clocks.into_iter();
    let mut all = clocks.next().unwrap_or_else(Latencies::new);
    clocks.for_each(|clock| all.merge(&clock));
    all.summary()
}
