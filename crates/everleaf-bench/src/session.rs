//! A run of an engine: fresh indexes, warmed up and driven through the phases.

use std::sync::Arc;
use std::time::Duration;

use everleaf::{Engine, EngineParameters, StoreKey, registry};
use everleaf_index::IndexStatistics;
use everleaf_pmem::{Cpu, Dram, Emulated, FlushInstruction, Hardware, Latencies as AddedLatencies, Media, Region};
use everleaf_pool::Pool;

use crate::keys::{BenchKey, String16};
use crate::measure::{Answers, Clock, Measured, Unobserved, lanes, measure};
use crate::options::{BenchKeyType, Flush, MicroOptions, Plan, divide};
use crate::place::{Need, Place};
use crate::report::Timed;
use crate::target::{IndexTarget, MapKey, MapTarget, Target};
use crate::workload::{Drawn, Workload};
use crate::{BenchError, Phase, Progress};

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

    /// Something begins.
    pub fn begin(&mut self, engine: Engine, doing: &str) {
        (self.tell)(Progress { done: self.done, total: self.total, doing: format!("{engine} {doing}") });
    }

    /// It is done, with so many operations.
    pub fn end(&mut self, operations: u64) {
        self.done += operations;
    }
}

/// Checked options, and a place with room.
pub(crate) struct Session {
    /// Of each index.
    pub plan: Plan,
    /// One, which all threads share, or one for each thread.
    indexes: u64,
    parameters: EngineParameters,
    place: Place,
    pool_bytes: u64,
    pub cpu: Cpu,
}

/// Receives what one phase of a run gave.
pub(crate) type AfterPhase<'a, C> = dyn FnMut(Phase, Measured<C>, &dyn Describe) -> Result<(), BenchError> + 'a;

/// What can be asked of any targets between phases.
pub(crate) trait Describe {
    fn timed(&self, elapsed: Duration) -> Timed;
}

struct Described<'t, T, K>(&'t [T], std::marker::PhantomData<K>);

impl<K, T: Target<K>> Describe for Described<'_, T, K> {
    fn timed(&self, elapsed: Duration) -> Timed {
        let statistics: Option<IndexStatistics> = match self.0 {
            [target] => target.statistics(),
            _ => None, // Shapes of several indexes do not add up to one.
        };
        let keys_after = self.0.iter().map(Target::len).sum();
        Timed { seconds: elapsed.as_secs_f64().max(1e-9), statistics, keys_after }
    }
}

impl Session {
    /// All threads share one index.
    pub fn shared(options: &MicroOptions) -> Result<Self, BenchError> {
        Self::new(Plan::new(options)?, 1)
    }

    /// Every thread has an index of its own, in a pool of its own, and an equal part of the operations.
    pub fn separate(options: &MicroOptions) -> Result<Self, BenchError> {
        Self::new(Plan::new(&divide(options)?)?, options.threads.into())
    }

    fn new(plan: Plan, indexes: u64) -> Result<Self, BenchError> {
        let options = &plan.options;
        let mut parameters = EngineParameters::default();
        (parameters.leaf_slots, parameters.inner_keys) = (plan.leaf_slots()?, options.inner_keys);
        let key_type = match options.key_type {
            BenchKeyType::U64 => <u64 as BenchKey>::Kind::TYPE,
            BenchKeyType::String16 => <String16 as BenchKey>::Kind::TYPE,
        };
        registry::pool_format(plan.engine, key_type, &parameters, options.value_words as usize)?;
        let need = if plan.engine == Engine::BTreeMap { Need::of_map(&plan) } else { Need::of_index(&plan) };
        let place = Place::find(need.times(indexes), options.pool.as_deref())?;
        Ok(Self { plan, indexes, parameters, place, pool_bytes: need.pool_bytes, cpu: Cpu::detect() })
    }

    /// Operations of one run, the warm-up included.
    pub fn operations(&self) -> u64 {
        let options = &self.plan.options;
        (options.warm + options.keys * options.phases.len() as u64) * self.indexes
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

    /// A run on the media that was asked for, or of the peer.
    pub fn run<K: MapKey, C: Clock + Clone>(
        &self,
        steps: &mut Steps<'_>,
        name: &str,
        clock: &C,
        after: &mut AfterPhase<'_, C>,
    ) -> Result<(), BenchError> {
        let options = &self.plan.options;
        if self.plan.engine == Engine::BTreeMap {
            return self.run_map::<K, C>(steps, name, clock, after);
        }
        if self.plan.engine.is_volatile_twin() {
            let target = |_| Ok(self.index::<K, Dram>(Dram::new(self.region()?, &self.cpu))?.1);
            let mut targets = (0..self.indexes).map(target).collect::<Result<Vec<_>, BenchError>>()?;
            return self.drive(steps, name, &mut targets, clock, &mut || {}, after);
        }
        let added = AddedLatencies { flush_ns: options.flush_ns, fence_ns: options.fence_ns, read_ns: options.read_ns };
        if added == AddedLatencies::default() {
            let mut targets = self.targets::<K, _>(|hardware| hardware)?;
            self.drive(steps, name, &mut targets, clock, &mut || {}, after)
        } else {
            let mut targets = self.targets::<K, _>(|hardware| Emulated::new(hardware, added))?;
            self.drive(steps, name, &mut targets, clock, &mut || {}, after)
        }
    }

    fn run_map<K: MapKey, C: Clock + Clone>(
        &self,
        steps: &mut Steps<'_>,
        name: &str,
        clock: &C,
        after: &mut AfterPhase<'_, C>,
    ) -> Result<(), BenchError> {
        macro_rules! of_words {
            ($($words:literal)*) => {
                match self.plan.options.value_words {
                    $($words => {
                        let mut maps: Vec<_> = (0..self.indexes).map(|_| MapTarget::<K, $words>::new()).collect();
                        self.drive(steps, name, &mut maps, clock, &mut || {}, after)
                    })*
                    words => Err(BenchError::OutOfRange { option: "value-words", value: words.into(), least: 1, most: 14 }),
                }
            };
        }
        of_words!(1 2 3 4 5 6 7 8 9 10 11 12 13 14)
    }

    /// Empty indexes, each in a pool of its own.
    fn targets<K: BenchKey, M: Media>(&self, over: impl Fn(Hardware) -> M) -> Result<Vec<IndexTarget<K>>, BenchError> {
        let target = |_| Ok(self.index::<K, M>(over(self.hardware(self.region()?)?))?.1);
        (0..self.indexes).map(target).collect()
    }

    /// Memory for a pool.
    pub fn region(&self) -> Result<Region, BenchError> {
        self.place.create(self.pool_bytes)
    }

    /// The media that was asked for, without added latencies.
    pub fn hardware(&self, region: Region) -> Result<Hardware, BenchError> {
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
    pub fn index<K: BenchKey, M: Media>(&self, media: M) -> Result<(Arc<Pool<M>>, IndexTarget<K>), BenchError> {
        let words = self.plan.options.value_words as usize;
        let format = registry::pool_format(self.plan.engine, K::Kind::TYPE, &self.parameters, words)?;
        let pool = Pool::create(media, &format)?;
        let index = registry::create_index::<K::Kind, M>(&pool, self.plan.engine, &self.parameters, words)?;
        Ok((pool, IndexTarget::new(index)))
    }

    /// Warms the targets up and does one phase after the other.
    pub fn drive<K: BenchKey, T: Target<K>, C: Clock + Clone>(
        &self,
        steps: &mut Steps<'_>,
        name: &str,
        targets: &mut [T],
        clock: &C,
        before: &mut dyn FnMut(),
        after: &mut AfterPhase<'_, C>,
    ) -> Result<(), BenchError> {
        let (engine, threads) = (self.plan.engine, self.plan.options.threads as usize);
        let mut workloads: Vec<_> = (0..self.indexes).map(|index| Workload::new(&self.plan, index)).collect();
        self.warm_up(steps, name, targets, &workloads)?;
        for (i, &phase) in self.plan.options.phases.iter().enumerate() {
            steps.begin(engine, &format!("{name}: {phase}"));
            let drawn: Vec<Drawn<K>> = workloads.iter_mut().map(|workload| workload.operations(phase)).collect();
            before();
            let clocks = vec![clock.clone(); threads * targets.len()];
            let measured = measure(lanes(targets, &drawn, threads), clocks, phase, i as u8)?;
            verify(engine, phase, &drawn, measured.answers)?;
            after(phase, measured, &Described(targets, std::marker::PhantomData))?;
            steps.end(drawn.iter().map(Drawn::len).sum());
        }
        Ok(())
    }

    /// Inserts the first keys in batches, so that they need not all be held.
    fn warm_up<K: BenchKey, T: Target<K>>(
        &self,
        steps: &mut Steps<'_>,
        name: &str,
        targets: &mut [T],
        workloads: &[Workload],
    ) -> Result<(), BenchError> {
        const BATCH: u64 = 1 << 20;
        let (warm, threads) = (self.plan.options.warm, self.plan.options.threads as usize);
        for start in (0..warm).step_by(BATCH as usize) {
            steps.begin(self.plan.engine, &format!("{name}: warm-up"));
            let batch = start..warm.min(start + BATCH);
            let draw = |workload: &Workload| Drawn::alike(batch.clone().map(|place| workload.key(place)).collect());
            let drawn: Vec<Drawn<K>> = workloads.iter().map(draw).collect();
            let clocks = vec![Unobserved; threads * targets.len()];
            let inserted = measure(lanes(targets, &drawn, threads), clocks, Phase::Insert, 0)?;
            verify(self.plan.engine, Phase::Insert, &drawn, inserted.answers)?;
            steps.end(drawn.iter().map(Drawn::len).sum());
        }
        Ok(())
    }
}

/// Whether the operations that were drawn had the outcomes that they must have.
pub(crate) fn verify<K: BenchKey>(engine: Engine, phase: Phase, drawn: &[Drawn<K>], found: Answers) -> Result<(), BenchError> {
    let mut expected = Answers::default();
    drawn.iter().for_each(|drawn| expected.merge(Answers::expected(phase, drawn.whole())));
    if found.right != expected.right {
        return Err(BenchError::WrongAnswers { engine, phase, asked: expected.right, right: found.right });
    }
    if found.sum != expected.sum {
        return Err(BenchError::WrongValues { engine, phase });
    }
    Ok(())
}
