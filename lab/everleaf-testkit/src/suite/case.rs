//! One exploration: what is explored, and how thoroughly.

use everleaf::internal::{InjectedAborts, Simulation};
use everleaf::{Contract, Engine, EngineParameters, Transactions};
use everleaf_crash::{
    Assumptions, ExploreError, Options, Progress, Report, explore_threads_with, explore_with,
};

use crate::families::Directed;
use crate::{
    AllocatorOperation, AllocatorSubject, ConcurrentEngineSubject, EngineSubject, Level, PathTaken,
    Scenario, ScriptKeys,
};

/// Bytes of a small pool, and what it may grow to.
pub(super) const SMALL_POOL: (u64, u64) = (96 << 10, 256 << 10);

/// One exploration of a suite.
#[derive(Clone, Debug)]
pub struct Case {
    /// What may go wrong there, in words joined by underscores.
    pub name: String,
    /// What is explored.
    pub subject: CaseSubject,
    /// How thoroughly.
    pub options: Options,
}

/// What a case explores.
#[derive(Clone, Debug)]
pub enum CaseSubject {
    /// An index or a store.
    Engine(Box<EngineSubject>),
    /// An index that several threads use.
    Threads(Box<ConcurrentEngineSubject>),
    /// The allocator by itself.
    Allocator(AllocatorSubject),
}

/// Kinds of explorations: what each covers is reported apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CaseKind {
    /// Of an index, one operation after another.
    Index,
    /// Of a store.
    Store,
    /// Of an index that several threads use.
    Threads,
    /// Of a store that several threads use.
    StoreThreads,
    /// Of the allocator by itself.
    Allocator,
}

impl CaseKind {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Store => "store",
            Self::Threads => "threads",
            Self::StoreThreads => "store, threads",
            Self::Allocator => "allocator",
        }
    }
}

impl Case {
    /// What kind of exploration it is.
    pub fn kind(&self) -> CaseKind {
        match &self.subject {
            CaseSubject::Engine(subject) if subject.level() == Level::Store => CaseKind::Store,
            CaseSubject::Engine(_) => CaseKind::Index,
            CaseSubject::Threads(subject) if subject.level() == Level::Store => {
                CaseKind::StoreThreads
            }
            CaseSubject::Threads(_) => CaseKind::Threads,
            CaseSubject::Allocator(_) => CaseKind::Allocator,
        }
    }

    /// Whether the engine has the keys of its scenario.
    pub(super) fn has_keys_of(&self, engine: Engine) -> bool {
        match &self.subject {
            CaseSubject::Engine(subject) => subject.scenario().keys.are_of(engine),
            CaseSubject::Threads(_) | CaseSubject::Allocator(_) => true,
        }
    }

    /// Which ways its operations take, with the barriers on each, when they run one after another;
    /// none of a store.
    ///
    /// # Errors
    /// What an operation says that fails.
    pub fn paths(&self) -> Result<Vec<PathTaken>, String> {
        let Options { len, max_len, .. } = self.options;
        match &self.subject {
            CaseSubject::Engine(subject) => subject.paths(len, max_len),
            CaseSubject::Threads(subject) => subject.paths(len, max_len),
            CaseSubject::Allocator(subject) => subject.paths(len, max_len),
        }
    }

    /// A scenario of an engine whose values have `value_words` words.
    pub(super) fn of_engine(
        name: impl Into<String>,
        engine: Engine,
        level: Level,
        value_words: usize,
        parameters: EngineParameters,
        scenario: Scenario,
    ) -> Self {
        let subject =
            EngineSubject::new(engine, parameters, level, scenario).with_value_words(value_words);
        Self {
            name: name.into(),
            subject: CaseSubject::Engine(Box::new(subject)),
            options: options(),
        }
    }

    /// A script of an engine with the smallest sizes.
    ///
    /// # Panics
    /// If the script is wrong: it is the programmer's.
    pub(super) fn scripted(
        name: &str,
        engine: Engine,
        level: Level,
        keys: ScriptKeys,
        words: usize,
        script: &str,
    ) -> Self {
        let scenario =
            Scenario::parse(script, Some(keys)).unwrap_or_else(|e| panic!("{name}: {e}"));
        Self::of_engine(
            name,
            engine,
            level,
            words,
            EngineSubject::tiny_parameters(engine),
            scenario,
        )
    }

    /// A scenario of the engine's family.
    ///
    /// # Panics
    /// As [`scripted`](Self::scripted).
    pub(super) fn directed(engine: Engine, scenario: Directed) -> Self {
        let Directed { name, level, keys, words, slots, script, .. } = scenario;
        let Directed { budget, pool, closes, whole_lines, log_ranges, buffers, .. } = scenario;
        let tiny = EngineSubject::tiny_parameters(engine).log_ranges(log_ranges).buffers(buffers);
        let parameters = slots.map_or(tiny, |slots| tiny.leaf_slots(slots));
        let parsed = Scenario::parse(&script, Some(keys)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut case = Self::of_engine(name, engine, level, words, parameters, parsed);
        if let Some((len, max_len)) = pool {
            case = case.in_pool(len, max_len);
        }
        if let Some(budget) = budget {
            case = case.with_budget(budget);
        }
        if whole_lines {
            case = case.under(Assumptions { atomic_line: true, ..Assumptions::default() });
        }
        if closes { case.closing() } else { case }
    }

    /// What was closed must be found closed.
    pub(super) fn closing(mut self) -> Self {
        if let CaseSubject::Engine(subject) = self.subject {
            self.subject = CaseSubject::Engine(Box::new(subject.demanding_clean_shutdown()));
        }
        self.options.recovery_depth = 0;
        self
    }

    /// As [`scripted`](Case::scripted), its lines `thread` being threads; so many interleavings
    /// beyond which a sample is taken.
    pub(super) fn threaded(
        name: &str,
        engine: Engine,
        level: Level,
        keys: ScriptKeys,
        interleavings: u64,
        script: &str,
    ) -> Self {
        let mut case = Self::scripted(name, engine, level, keys, 1, script);
        if let CaseSubject::Engine(subject) = case.subject {
            case.subject = CaseSubject::Threads(Box::new(ConcurrentEngineSubject::new(*subject)));
        }
        case.options.interleavings = interleavings;
        if engine.contract() == Contract::Buffered {
            case.options.step_recoveries = BUFFERED_STEP;
        }
        case
    }

    /// The same with simulated transactions, a third of which abort.
    pub(super) fn by_transactions(mut self) -> Self {
        let transactions =
            Transactions::Simulated(Simulation { seed: 1, aborts: InjectedAborts::OneIn(3) });
        self.name = format!("{}, by transactions", self.name);
        self.subject = match self.subject {
            CaseSubject::Threads(subject) => {
                CaseSubject::Threads(Box::new(subject.with_transactions(transactions)))
            }
            CaseSubject::Engine(subject) => {
                CaseSubject::Engine(Box::new(subject.with_transactions(transactions)))
            }
            other => other,
        };
        self
    }

    pub(super) fn of_allocator(name: impl Into<String>, subject: AllocatorSubject) -> Self {
        Self { name: name.into(), subject: CaseSubject::Allocator(subject), options: options() }
    }

    pub(super) fn allocating(
        name: &str,
        prepare: &[AllocatorOperation],
        explore: &[AllocatorOperation],
    ) -> Self {
        Self::of_allocator(name, AllocatorSubject::new(prepare.to_vec(), explore.to_vec()))
    }

    /// In a pool of `len` bytes that may grow to `max_len`.
    pub(super) fn in_pool(mut self, len: u64, max_len: u64) -> Self {
        (self.options.len, self.options.max_len) = (len, max_len);
        self
    }

    /// With all mutants.
    pub fn judging(mut self) -> Self {
        self.options.mutate = true;
        self
    }

    /// With the mutants of one path as well.
    pub fn judging_by_path(mut self) -> Self {
        let Options { len, max_len, .. } = self.options;
        self.options.by_path = true;
        self.subject = match self.subject {
            CaseSubject::Engine(subject) => {
                CaseSubject::Engine(Box::new(subject.knowing_paths(len, max_len)))
            }
            CaseSubject::Allocator(subject) => {
                CaseSubject::Allocator(subject.knowing_paths(len, max_len))
            }
            threads @ CaseSubject::Threads(_) => threads,
        };
        self.judging()
    }

    /// With other garbage in fresh memory, and other samples.
    pub(super) fn seeded(mut self, seed: u64) -> Self {
        self.options.seed = seed;
        self
    }

    /// On kinder hardware.
    pub(super) fn under(mut self, assumptions: Assumptions) -> Self {
        let mode = if assumptions.eadr { "eadr" } else { "atomic-line" };
        self.name = format!("{}, {mode}", self.name);
        self.options.assumptions = assumptions;
        if let CaseSubject::Engine(subject) = self.subject {
            let subject = subject.with_whole_lines(assumptions.atomic_line);
            self.subject = CaseSubject::Engine(Box::new(subject));
        }
        // No image of one mode is counted again in another.
        self.options.seed += if assumptions.eadr { 1000 } else { 2000 };
        self
    }

    /// With so many images a crash point.
    pub(super) fn with_budget(mut self, budget: u64) -> Self {
        (self.options.budget, self.options.recovery_budget, self.options.recoveries) =
            (budget, budget / 16 + 2, 4 * budget);
        self
    }

    /// With fewer images a crash point and fewer interleavings: as many as show that every barrier
    /// is needed.
    pub fn briefly(mut self) -> Self {
        self.options.interleavings = self.options.interleavings.min(BRIEF_INTERLEAVINGS);
        self.options.step_recoveries = self.options.step_recoveries.min(BRIEF_STEP);
        let budget = self.options.budget.min(BRIEF_BUDGET);
        self.with_budget(budget)
    }

    /// At no more than a few seconds, without the mutants; of threads the step's bound is each
    /// mutant's too.
    pub(super) fn bounded(mut self) -> Self {
        self.options.work = self.options.work.min(WORK);
        self.options.step_recoveries = self.options.step_recoveries.min(STEP);
        self
    }

    /// Explores.
    ///
    /// # Errors
    /// As [`explore_with`].
    pub fn explore(
        &self,
        options: &Options,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Report, ExploreError> {
        match &self.subject {
            CaseSubject::Engine(subject) => explore_with(&**subject, options, progress),
            CaseSubject::Threads(subject) => explore_threads_with(&**subject, options, progress),
            CaseSubject::Allocator(subject) => explore_with(subject, options, progress),
        }
    }
}

/// Of a [brief](Case::briefly) exploration: images a crash point, interleavings, and recoveries of
/// all of these together.
const BRIEF_BUDGET: u64 = 16;
const BRIEF_INTERLEAVINGS: u64 = 30;
const BRIEF_STEP: u64 = 6_000;

/// Of a [bounded](Case::bounded) exploration: accesses to memory, and recoveries of all
/// interleavings together.
const WORK: u64 = 150_000_000;
const STEP: u64 = 20_000;

/// Recoveries of all interleavings where a crash may take back all since the last end of an epoch:
/// no line that was changed since is durable for certain, so each crash point has very many images.
const BUFFERED_STEP: u64 = 6_000;

fn options() -> Options {
    let (len, max_len) = SMALL_POOL;
    Options { len, max_len, budget: 64, recovery_budget: 8, recoveries: 256, ..Options::default() }
}
