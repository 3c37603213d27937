//! A run of an engine: fresh indexes, warmed up and driven through the phases.

mod targets;

use std::time::Duration;

use everleaf::EngineParameters;
use everleaf::internal::registry;
use everleaf_index::IndexStatistics;
use everleaf_pmem::{Cpu, Durability, Medium, Region};

use crate::contention::Contention;
use crate::key::{BenchKey, String16};
use crate::measure::{Answers, Clock, Measured, Unobserved, lanes, measure};
use crate::options::{BenchKeyType, Flush, MicroOptions};
use crate::place::{Need, Place};
use crate::plan::{Plan, Sharing, copy, divide};
use crate::report::Timed;
use crate::target::Target;
use crate::workload::{Drawn, Part, Workload, wholes};
use crate::{Acknowledged, BenchError, Made, Peer, Phase, Progress, Subject};

pub(crate) use targets::{Driver, key_type, stx_sizes};

/// Adds up what is done.
pub(crate) struct ProgressTracker<'p> {
    tell: &'p mut dyn FnMut(Progress),
    done: u64,
    total: u64,
}

impl<'p> ProgressTracker<'p> {
    pub fn new(tell: &'p mut dyn FnMut(Progress), total: u64) -> Self {
        Self { tell, done: 0, total }
    }

    /// Something begins.
    pub fn begin(&mut self, subject: impl std::fmt::Display, doing: &str) {
        (self.tell)(Progress {
            done: self.done,
            total: self.total,
            doing: format!("{subject} {doing}"),
        });
    }

    /// More is to be done than was known.
    pub fn extend(&mut self, operations: u64) {
        self.total += operations;
    }

    /// Tells how far something is that counts for itself.
    pub fn pass_on(&mut self, progress: Progress) {
        let (done, total) = (self.done + progress.done, self.total.max(self.done + progress.total));
        (self.tell)(Progress { done, total, doing: progress.doing });
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
    pub indexes: u64,
    parameters: EngineParameters,
    place: Place,
    pool_bytes: u64,
    /// Of all indexes.
    pub need: Need,
    pub cpu: Cpu,
}

/// Receives what one phase of a run gave.
pub(crate) type AfterPhase<'a, C> =
    dyn FnMut(Phase, Measured<C>, &dyn Describe) -> Result<(), BenchError> + 'a;

/// What can be asked of any targets between phases.
pub(crate) trait Describe {
    fn timed(&self, elapsed: Duration) -> Timed;
}

struct Described<'t, T, K> {
    targets: &'t [T],
    /// What each had counted before the phase.
    before: &'t [Option<IndexStatistics>],
    kind: std::marker::PhantomData<K>,
}

impl<K, T: Target<K>> Describe for Described<'_, T, K> {
    fn timed(&self, elapsed: Duration) -> Timed {
        let statistics: Option<IndexStatistics> = match self.targets {
            [target] => target.statistics(),
            _ => None, // Shapes of several indexes do not add up to one.
        };
        let keys_after = self.targets.iter().map(Target::len).sum();
        let medium_bytes = self.targets.iter().map(Target::medium_bytes).sum();
        let contention =
            Contention::between(self.before, self.targets.iter().map(Target::statistics));
        Timed {
            seconds: elapsed.as_secs_f64().max(1e-9),
            statistics,
            keys_after,
            medium_bytes,
            contention,
        }
    }
}

impl Session {
    /// All threads share one index.
    pub fn shared(options: &MicroOptions) -> Result<Self, BenchError> {
        Self::new(Plan::new(options)?, 1)
    }

    /// Threads share one index, or each has one of its own, in a pool of its own.
    pub fn with(options: &MicroOptions, sharing: Sharing) -> Result<Self, BenchError> {
        let of_each = match sharing {
            Sharing::Shared => return Self::shared(options),
            Sharing::Separate => divide(options)?,
            Sharing::Copies => copy(options)?,
        };
        Self::new(Plan::new(&of_each)?, options.threads.into())
    }

    /// Options that were looked through already.
    pub fn of_plan(plan: Plan) -> Result<Self, BenchError> {
        Self::new(plan, 1)
    }

    fn new(plan: Plan, indexes: u64) -> Result<Self, BenchError> {
        let options = &plan.options;
        let mut parameters = EngineParameters::default();
        (parameters.leaf_slots, parameters.inner_keys) = (plan.leaf_slots()?, options.inner_keys);
        parameters.paper_order = options.paper_order;
        parameters.log_ranges = options.log_ranges;
        parameters.buffers = options.buffers;
        match plan.subject {
            // No pool is made of it, so it has no format: only its parameters are looked at.
            Subject::Index(engine)
                if !engine.entry().is_available() && !engine.entry().is_volatile_twin() =>
            {
                engine.check(&parameters)?;
            }
            Subject::Index(engine) => {
                let words = plan.options.value_words as usize;
                registry::pool_format(engine, key_type(options.key_type), &parameters, words)?;
            }
            // Its values are records, whatever the index has; and it ends its epochs itself.
            Subject::Store(_) if options.buffers || options.epoch_ops.is_some() => {
                return Err(BenchError::NotAnIndex { engine: plan.subject });
            }
            Subject::Store(engine) => {
                registry::pool_format(engine, key_type(options.key_type), &parameters, 1)?;
            }
            Subject::Stx => {
                stx_sizes(options.key_type, &parameters)?;
            }
            Subject::Peer(_) if parameters != EngineParameters::default() => {
                return Err(BenchError::NotAnIndex { engine: plan.subject });
            }
            Subject::Peer(_) => {}
        }
        let cpu = Cpu::detect();
        if plan.subject.has_pool() {
            options.flush.require(&cpu)?;
        }
        let need = Need::of(&plan);
        let pool_bytes = need.pool_bytes;
        let need = need.times(indexes);
        let waits = options.acknowledged != Acknowledged::Process;
        let place = if waits { Place::find_on_disk } else { Place::find };
        let place = place(need, &options.pool)?;
        Ok(Self { plan, indexes, parameters, place, pool_bytes, need, cpu })
    }

    /// What an acknowledged write survives, on this medium and with the settings that are used.
    pub fn durability(&self) -> Result<Durability, BenchError> {
        let options = &self.plan.options;
        match self.plan.subject {
            subject if subject.is_volatile() => Ok(Durability::None),
            Subject::Store(_) if options.acknowledged != Acknowledged::Process => {
                Ok(Durability::PowerFail)
            }
            Subject::Index(_) | Subject::Store(_) | Subject::Stx => {
                let of_medium = self.place.durability()?;
                let unflushed = self.plan.options.flush == Flush::None;
                Ok(if unflushed { of_medium.min(Durability::ProcessCrash) } else { of_medium })
            }
            Subject::Peer(Peer::Redb) if options.acknowledged == Acknowledged::Buffered => {
                Ok(Durability::None)
            }
            Subject::Peer(Peer::Redb) if !self.place.is_memory() => Ok(Durability::PowerFail),
            Subject::Peer(_) if options.acknowledged == Acknowledged::Immediate => {
                Ok(Durability::PowerFail)
            }
            Subject::Peer(_) => Ok(Durability::ProcessCrash),
        }
    }

    /// The same, at a place with room for so many bytes of persistent memory more.
    pub fn with_room_for(mut self, pool_bytes: u64) -> Result<Self, BenchError> {
        self.need = self.need.and(Need { pool_bytes, dram_bytes: 0 });
        self.place = Place::find(self.need, &self.plan.options.pool)?;
        Ok(self)
    }

    /// Persistent memory of so many bytes.
    pub fn region_of(&self, bytes: u64) -> Result<Region, BenchError> {
        self.place.create(bytes)
    }

    /// A folder where the files lie.
    pub fn folder(&self) -> Result<Made, BenchError> {
        self.place.create_folder()
    }

    /// What the files lie on.
    pub fn medium(&self) -> Result<Medium, BenchError> {
        self.place.medium()
    }

    /// Operations of one run, the warm-up included.
    pub fn operations(&self) -> u64 {
        let options = &self.plan.options;
        let of_phases: u64 = options.phases.iter().map(|phase| options.operations(*phase)).sum();
        (options.warm + of_phases) * self.indexes
    }

    /// The timed run alone: seconds of each phase.
    pub fn seconds(&self, steps: &mut ProgressTracker<'_>) -> Result<Vec<f64>, BenchError> {
        Ok(self.timed(steps)?.into_iter().map(|timed| timed.seconds).collect())
    }

    /// The timed run alone.
    pub fn timed(&self, steps: &mut ProgressTracker<'_>) -> Result<Vec<Timed>, BenchError> {
        let mut phases = Vec::new();
        let mut after = |_, measured: Measured<Unobserved>, targets: &dyn Describe| {
            phases.push(targets.timed(measured.elapsed));
            Ok(())
        };
        match self.plan.options.key_type {
            BenchKeyType::U64 => self.run::<u64, _>(steps, "timed", &Unobserved, &mut after)?,
            BenchKeyType::String16 => {
                self.run::<String16, _>(steps, "timed", &Unobserved, &mut after)?
            }
        }
        Ok(phases)
    }

    /// A run on the media that was asked for, or of a peer.
    pub fn run<K: BenchKey, C: Clock + Clone>(
        &self,
        steps: &mut ProgressTracker<'_>,
        name: &str,
        clock: &C,
        after: &mut AfterPhase<'_, C>,
    ) -> Result<(), BenchError> {
        self.with_targets::<K, _>(Phases { session: self, steps, name, clock, after })
    }

    /// Warms the targets up and does one phase after the other.
    pub fn drive<K: BenchKey, T: Target<K>, C: Clock + Clone>(
        &self,
        steps: &mut ProgressTracker<'_>,
        name: &str,
        targets: &mut [T],
        clock: &C,
        before: &mut dyn FnMut(),
        after: &mut AfterPhase<'_, C>,
    ) -> Result<(), BenchError> {
        let (subject, threads) = (self.plan.subject, self.plan.options.threads as usize);
        let mut workloads: Vec<_> =
            (0..self.indexes).map(|index| Workload::new(&self.plan, index)).collect();
        self.warm_up(steps, name, targets, &workloads, &Unobserved)?;
        for (i, &phase) in self.plan.options.phases.iter().enumerate() {
            steps.begin(subject, &format!("{name}: {phase}"));
            let drawn: Vec<Drawn<K>> =
                workloads.iter_mut().map(|workload| workload.operations(phase)).collect();
            targets.iter().try_for_each(Target::end_epoch)?;
            before();
            let counted: Vec<_> = targets.iter().map(Target::statistics).collect();
            let clocks = vec![clock.clone(); threads * targets.len()];
            let measured =
                measure(lanes(targets, wholes(&drawn), threads), clocks, phase, i as u8)?;
            verify(subject, phase, wholes(&drawn), measured.answers, T::RETURNS_OLD)?;
            let kind = std::marker::PhantomData;
            after(phase, measured, &Described { targets, before: &counted, kind })?;
            steps.end(drawn.iter().map(Drawn::len).sum());
        }
        Ok(())
    }

    /// Inserts the first keys in batches, so that they need not all be held; how long it took, and
    /// what each thread's clock saw.
    pub fn warm_up<K: BenchKey, T: Target<K>, C: Clock + Clone>(
        &self,
        steps: &mut ProgressTracker<'_>,
        name: &str,
        targets: &mut [T],
        workloads: &[Workload],
        clock: &C,
    ) -> Result<(Duration, Vec<C>), BenchError> {
        const BATCH: u64 = 1 << 20;
        let mut elapsed = Duration::ZERO;
        let (warm, threads) = (self.plan.options.warm, self.plan.options.threads as usize);
        let mut clocks = vec![clock.clone(); threads * targets.len()];
        for start in (0..warm).step_by(BATCH as usize) {
            steps.begin(self.plan.subject, &format!("{name}: warm-up"));
            let batch = start..warm.min(start + BATCH);
            let draw = |workload: &Workload| {
                Drawn::alike(batch.clone().map(|place| workload.key(place)).collect())
            };
            let drawn: Vec<Drawn<K>> = workloads.iter().map(draw).collect();
            let inserted =
                measure(lanes(targets, wholes(&drawn), threads), clocks, Phase::Insert, 0)?;
            let answers = inserted.answers;
            verify(self.plan.subject, Phase::Insert, wholes(&drawn), answers, T::RETURNS_OLD)?;
            elapsed += inserted.elapsed;
            clocks = inserted.clocks;
            steps.end(drawn.iter().map(Drawn::len).sum());
        }
        Ok((elapsed, clocks))
    }
}

/// The phases of a run, waiting for its targets.
struct Phases<'r, 'p, 'a, C> {
    session: &'r Session,
    steps: &'r mut ProgressTracker<'p>,
    name: &'r str,
    clock: &'r C,
    after: &'r mut AfterPhase<'a, C>,
}

impl<K: BenchKey, C: Clock + Clone> Driver<K> for Phases<'_, '_, '_, C> {
    const ARRAYS: bool = true;

    fn drive<T: Target<K> + 'static>(self, mut targets: Vec<T>) -> Result<(), BenchError> {
        self.session.drive(self.steps, self.name, &mut targets, self.clock, &mut || {}, self.after)
    }
}

/// Whether the operations that were drawn had the outcomes that they must have.
pub(crate) fn verify<'d, K: BenchKey>(
    engine: Subject,
    phase: Phase,
    drawn: impl Iterator<Item = Part<'d, K>>,
    found: Answers,
    returns_old: bool,
) -> Result<(), BenchError> {
    let mut expected = Answers::default();
    drawn.for_each(|part| expected.merge(Answers::expected(phase, part, returns_old)));
    if found.right != expected.right {
        return Err(BenchError::WrongAnswers {
            engine,
            phase,
            asked: expected.right,
            right: found.right,
        });
    }
    if found.sum != expected.sum {
        return Err(BenchError::WrongValues { engine, phase });
    }
    Ok(())
}
