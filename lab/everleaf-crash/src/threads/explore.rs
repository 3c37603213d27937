//! Which interleavings are run, and what is reported.

use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::counterexample::violation;
use super::execution::{Execution, Executor};
use super::history::{MAX_OPERATIONS, Stage};
use super::interleaving::Interleaving;
use super::judge::{Durable, Judge};
use super::mutants::Mutants;
use super::scheduler::{MAX_THREADS, Plan};
use super::shrink::fewer_operations;
use super::subject::{ConcurrentSubject, MAX_THREAD, Step};
use super::worklist::{Beginning, Item, derive};
use crate::explore::{describe, exhaustive_depth};
use crate::explorer::{Explorer, Failure};
use crate::known::Moment;
use crate::machine::Machine;
use crate::redundant::Audit;
use crate::trace::{ExploreError, new_machine};
use crate::violation::Violation;
use crate::{Options, Progress, Report};

/// Explores the interleavings of a program of several threads, and every crash state of each.
///
/// A step is explored after its predecessors have run in one order: thread after thread.
///
/// # Errors
/// [`ExploreError`] when the program cannot be run at all. What goes wrong in an interleaving, with
/// a crash or without, is reported as a [`Violation`].
pub fn explore_threads<S: ConcurrentSubject>(
    subject: &S,
    options: &Options,
) -> Result<Report, ExploreError> {
    explore_threads_with(subject, options, &mut |_| {})
}

/// As [`explore_threads`], and tells how far it is.
///
/// # Errors
/// As [`explore_threads`].
pub fn explore_threads_with<S: ConcurrentSubject>(
    subject: &S,
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, ExploreError> {
    let (mut report, failed) = run(subject, options, None, progress)?;
    if let (Some(step), Some(first)) = (failed, report.violations.first_mut())
        && let Some(smaller) = fewer_operations(subject, options, step, first, first_violation)
    {
        *first = smaller;
    }
    Ok(report)
}

/// The first violation, as it is found; none either if the program cannot be run.
fn first_violation<S: ConcurrentSubject>(subject: &S, options: &Options) -> Option<Violation> {
    run(subject, options, None, &mut |_| {}).ok()?.0.violations.into_iter().next()
}

/// Runs one interleaving again, and explores every crash state of it and of no other.
///
/// # Errors
/// As [`explore_threads`]; [`ExploreError::NoSuchInterleaving`] if the program does not have it.
pub fn explore_interleaving<S: ConcurrentSubject>(
    subject: &S,
    options: &Options,
    interleaving: &Interleaving,
) -> Result<Report, ExploreError> {
    run(subject, options, Some(interleaving), &mut |_| {}).map(|(report, _)| report)
}

/// The report, and the step that broke first.
fn run<S: ConcurrentSubject>(
    subject: &S,
    options: &Options,
    only: Option<&Interleaving>,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Report, Option<usize>), ExploreError> {
    let executor = Executor::new(subject, options)?;
    let operations: Vec<usize> = executor
        .steps
        .iter()
        .flat_map(Step::threads)
        .flat_map(|thread| thread.operations)
        .collect();
    let follow_up = operations.iter().copied().cycle().take(options.follow_up).collect();
    let judge = Judge::new(subject, follow_up);
    let campaign = Campaign {
        subject,
        options,
        judge: &judge,
        executor,
        explorer: Explorer::new(&judge, options),
        mutants: options.mutate.then(Mutants::default),
        mutant_options: Options { work: u64::MAX, ..options.clone() },
        audit: Audit::default(),
        violations: Vec::new(),
        failed: None,
        reduces: only.is_none(),
        interleavings: 0,
        beyond: 0,
        left_out: 0,
        share: u64::MAX,
        progress,
    };
    campaign.run(only, operations.len())
}

/// What a program costs that is run with its threads, in accesses to memory, and each event of it
/// that is walked through.
const RUN_WORK: u64 = 10_000;
const EVENT_WORK: u64 = 20;

/// An exploration that is under way.
pub(super) struct Campaign<'a, S: ConcurrentSubject> {
    subject: &'a S,
    pub(super) options: &'a Options,
    pub(super) judge: &'a Judge<'a, S>,
    pub(super) executor: Executor<'a, S>,
    explorer: Explorer<'a, Judge<'a, S>>,
    mutants: Option<Mutants>,
    /// Of a mutant: what it may cost is [bounded](Options::mutant_recoveries) by itself.
    mutant_options: Options,
    audit: Audit,
    violations: Vec<Violation>,
    /// The step of the first of them.
    failed: Option<usize>,
    /// Whether an interleaving that goes wrong is reduced: not one that was asked for by its name.
    reduces: bool,
    interleavings: u64,
    beyond: u64,
    left_out: u64,
    /// Recoveries that the next interleaving may cost.
    share: u64,
    progress: &'a mut dyn FnMut(Progress),
}

/// What a step begins with.
pub(super) struct Base<C> {
    pub(super) machine: Machine,
    durable: Durable<C>,
}

impl<S: ConcurrentSubject> Campaign<'_, S> {
    fn run(
        mut self,
        only: Option<&Interleaving>,
        operations: usize,
    ) -> Result<(Report, Option<usize>), ExploreError> {
        self.check_threads(only)?;
        let (prepare, content) =
            self.executor.prepare().map_err(|message| ExploreError::Prepare { message })?;
        let mut machine = self.machine(self.executor.start.clone());
        machine.feed(&prepare);
        self.audit.pass(&prepare.events);
        self.audit.start_counting();
        let mut base = Base { machine, durable: Durable::of(content) };
        let end = only.map_or(self.executor.steps.len(), |only| only.step + 1);
        for step in 0..end {
            if self.violations.len() >= self.options.violation_limit {
                break;
            }
            let explores = only.is_none_or(|only| only.step == step);
            let next = match self.executor.steps[step] {
                Step::Crash => self.crash(step, &base, explores),
                _ => {
                    if explores {
                        self.explore_step(step, &base, only)?;
                    }
                    self.after(step, &base)?
                }
            };
            let Some(next) = next else { break };
            base = next;
        }
        let failed = self.failed;
        Ok((self.report(operations, only.is_none()), failed))
    }

    fn machine(&self, image: Vec<u64>) -> Machine {
        new_machine(image, self.options.assumptions, self.options)
    }

    fn check_threads(&self, only: Option<&Interleaving>) -> Result<(), ExploreError> {
        for (step, threads) in self.executor.steps.iter().map(Step::threads).enumerate() {
            let mut names: Vec<u16> = threads.iter().map(|thread| thread.thread).collect();
            names.sort_unstable();
            names.dedup();
            let concurrent = matches!(self.executor.steps[step], Step::Concurrent(_));
            let unnamed = concurrent && names.iter().any(|name| !(1..=MAX_THREAD).contains(name));
            if names.len() != threads.len() || names.len() > MAX_THREADS || unnamed {
                return Err(ExploreError::Threads { step, limit: MAX_THREADS });
            }
            let operations = threads.iter().map(|thread| thread.operations.len()).sum();
            if operations > MAX_OPERATIONS {
                return Err(ExploreError::Operations { step, operations, limit: MAX_OPERATIONS });
            }
        }
        let Some(only) = only else { return Ok(()) };
        let step = self.executor.steps.get(only.step).map(Step::threads).unwrap_or_default();
        let known = step.iter().any(|thread| thread.thread == only.first);
        if known {
            Ok(())
        } else {
            Err(ExploreError::NoSuchInterleaving { interleaving: only.clone() })
        }
    }

    // ---- steps
    // ---------------------------------------------------------------------------------------------

    /// A step that is a crash; none if what it leaves cannot be recovered.
    fn crash(
        &mut self,
        step: usize,
        base: &Base<S::Content>,
        explores: bool,
    ) -> Option<Base<S::Content>> {
        let image = base.machine.floor().to_vec();
        let mut machine = self.machine(image.clone());
        self.audit.crash();
        let (mut trace, content) = match self.executor.crash(step, image) {
            Ok(recovered) => recovered,
            Err(error) => {
                self.found(
                    step,
                    violation(self.subject, &self.executor.steps[..step], &[], None, Err(error)),
                );
                return None;
            }
        };
        self.audit.pass(&trace.events);
        // Until the recovery has returned, what could be left before may still be.
        let mut legal = base.durable.legal.clone();
        legal.insert(content.clone());
        trace.moments = vec![self.judge.moment(legal); trace.events.len()];
        trace.moments.push(self.judge.moment([content.clone()].into()));
        self.explorer.within(u64::MAX).spend_one_in(1);
        if explores
            && let Some(failure) =
                self.explorer.explore_interleaving(&mut machine.clone(), &trace, 0, step)
        {
            self.found(
                step,
                violation(self.subject, &self.executor.steps[..step], &[], None, Ok(&failure)),
            );
        }
        machine.feed(&trace);
        Some(Base { machine, durable: Durable::of(content) })
    }

    /// What the step after this one begins with: its threads have run one after another, as they do
    /// whenever a later step is run. None if they did not come to their end.
    fn after(
        &mut self,
        step: usize,
        base: &Base<S::Content>,
    ) -> Result<Option<Base<S::Content>>, ExploreError> {
        let (trace, content) =
            self.executor.in_turn(step).map_err(|message| ExploreError::Step { step, message })?;
        self.audit.pass(&trace.events);
        let mut machine = base.machine.clone();
        machine.feed(&trace);
        let mut durable = base.durable.clone();
        for operation in self.executor.steps[step].threads().iter().flat_map(|t| &t.operations) {
            durable.run(self.subject, *operation);
        }
        Ok(content.ok().map(|content| Base { machine, durable: Durable { content, ..durable } }))
    }

    /// Explores the interleavings of a step, up to the first that goes wrong.
    fn explore_step(
        &mut self,
        step: usize,
        base: &Base<S::Content>,
        only: Option<&Interleaving>,
    ) -> Result<(), ExploreError> {
        let threads = self.executor.steps[step].threads();
        let slots = threads.len();
        let mut level: Vec<Item> = (0..slots).map(Item::start).collect();
        let mut bound = if slots > 1 { self.options.preemption_bound } else { 0 };
        if let Some(only) = only {
            let first = threads.iter().position(|thread| thread.thread == only.first).unwrap_or(0);
            level = vec![Item { preemptions: only.preemptions.clone(), ..Item::start(first) }];
            bound = 0;
        }
        let mut left = self.options.interleavings.max(slots as u64);
        let mut rng = SmallRng::seed_from_u64(self.options.seed ^ step as u64);
        let begun = self.explorer.tally.recoveries;
        // Each step has an even share of the work that is left.
        let steps_left = (self.executor.steps.len() - step) as u64;
        let work = self.explorer.tally.work;
        let work_until = work + self.options.work.saturating_sub(work) / steps_left;
        for depth in 0..=bound {
            if level.len() as u64 > left {
                self.left_out += level.len() as u64 - left;
                level.shuffle(&mut rng);
                level.truncate(left as usize);
            }
            left -= level.len() as u64;
            let mut derived = Vec::new();
            let items = level.len() as u64;
            let deeper = if depth < bound { 4 } else { 1 };
            self.explorer.spend_one_in(deeper * steps_left);
            for (done, item) in (0..).zip(level) {
                let beyond = if deeper > 1 { 0 } else { self.options.interleavings_beyond };
                self.share_of_step(begun, (items - done + beyond) * deeper);
                if self.explorer.tally.work >= work_until {
                    self.left_out += items - done;
                    return Ok(());
                }
                let from = item.from;
                let first = item.first;
                let mut execution = self.execute(step, item)?;
                if depth < bound {
                    derive(&execution, first, &threads, &mut derived);
                }
                if !self.judge(step, base, &mut execution, from) {
                    return Ok(());
                }
            }
            level = derived;
        }
        if slots > 1 && only.is_none() {
            self.explorer.spend_one_in(steps_left);
            self.explore_beyond(step, base, slots, begun, &mut rng)?;
        }
        Ok(())
    }

    /// The next interleaving may cost a share of what its step has left, which had cost nothing
    /// when the tally came to `begun`: one of so many, doubled, since most need less.
    fn share_of_step(&mut self, begun: u64, interleavings: u64) {
        let spent = self.explorer.tally.recoveries - begun;
        let left = self.options.step_recoveries.saturating_sub(spent);
        self.share = match self.options.step_recoveries {
            u64::MAX => u64::MAX,
            _ => left / interleavings.max(1) * 2,
        };
    }

    /// Interleavings by chance, up to the first that goes wrong.
    fn explore_beyond(
        &mut self,
        step: usize,
        base: &Base<S::Content>,
        slots: usize,
        begun: u64,
        rng: &mut SmallRng,
    ) -> Result<(), ExploreError> {
        for i in 0..self.options.interleavings_beyond {
            if self.explorer.affordable() == 0 {
                break;
            }
            self.share_of_step(begun, self.options.interleavings_beyond - i);
            let chance = SmallRng::seed_from_u64(rng.random());
            let plan =
                Plan { first: i as usize % slots, preemptions: Vec::new(), chance: Some(chance) };
            let mut execution = self.run_plan(step, plan)?;
            self.beyond +=
                u64::from(execution.schedule.preemptions.len() > self.options.preemption_bound);
            if !self.judge(step, base, &mut execution, 0) {
                break;
            }
        }
        Ok(())
    }

    // ---- one interleaving
    // ---------------------------------------------------------------------------------------------

    fn run_plan(&mut self, step: usize, plan: Plan) -> Result<Execution<S>, ExploreError> {
        let failed = |message| ExploreError::Step { step, message };
        let execution = self.executor.execute(step, plan).map_err(failed)?;
        let work = RUN_WORK + EVENT_WORK * execution.trace.events.len() as u64;
        self.explorer.tally.spend(work);
        if matches!(self.executor.steps[step], Step::Concurrent(_)) {
            self.interleavings += 1;
            let (of, states) = (self.executor.steps.len(), self.explorer.tally.states);
            (self.progress)(Progress::Interleavings { step, of, run: self.interleavings, states });
        }
        Ok(execution)
    }

    /// Runs an interleaving whose beginning is known.
    fn execute(&mut self, step: usize, item: Item) -> Result<Execution<S>, ExploreError> {
        let Item { first, preemptions, from, beginning: expected } = item;
        let execution =
            self.run_plan(step, Plan { first, preemptions: preemptions.clone(), chance: None })?;
        let trace = &execution.trace;
        let same =
            trace.events.len() >= from && Beginning::default().up_to(trace, from) == expected;
        if execution.schedule.preemptions != preemptions || !same {
            let interleaving = Interleaving { preemptions, ..execution.interleaving };
            return Err(ExploreError::NoSuchInterleaving { interleaving });
        }
        Ok(execution)
    }

    /// Whether an interleaving and its crashes from event `from` on are as promised; notes the
    /// violation if not.
    fn judge(
        &mut self,
        step: usize,
        base: &Base<S::Content>,
        execution: &mut Execution<S>,
        from: usize,
    ) -> bool {
        let failure = match self.without_crash(base, execution) {
            Err(error) => Some(Err(error)),
            Ok(()) => {
                execution.trace.moments = self.moments(base, execution);
                self.explorer
                    .within(self.share)
                    .explore_interleaving(&mut base.machine.clone(), &execution.trace, from, step)
                    .map(Ok)
            }
        };
        let Some(failure) = failure else {
            if let Some(mutants) = self.mutants.as_mut().filter(|_| self.violations.is_empty()) {
                let Self { judge, mutant_options: options, explorer, .. } = self;
                mutants.explore(
                    judge,
                    options,
                    explorer,
                    &base.machine,
                    &execution.trace,
                    from,
                    step,
                    self.share,
                );
            }
            return true;
        };
        match self
            .reduces
            .then(|| self.fewer_preemptions(step, base, &execution.interleaving))
            .flatten()
        {
            Some((fewer, failure)) => {
                self.note(step, &fewer, failure.as_ref().map_err(Clone::clone))
            }
            None => self.note(step, execution, failure.as_ref().map_err(Clone::clone)),
        }
        false
    }

    fn note(&mut self, step: usize, execution: &Execution<S>, failure: Result<&Failure, String>) {
        let (steps, calls) = (&self.executor.steps[..step], &execution.history.calls);
        let interleaving = matches!(self.executor.steps[step], Step::Concurrent(_))
            .then(|| execution.interleaving.clone());
        self.found(step, violation(self.subject, steps, calls, interleaving, failure));
    }

    fn found(&mut self, step: usize, mut violation: Violation) {
        self.failed.get_or_insert(step);
        violation
            .crashes
            .iter_mut()
            .for_each(|crash| crash.during = self.judge.during(crash.during));
        self.violations.push(violation);
    }

    /// What the operations returned and what is there now can be explained.
    pub(super) fn without_crash(
        &self,
        base: &Base<S::Content>,
        execution: &Execution<S>,
    ) -> Result<(), String> {
        let found = execution.content.as_ref().map_err(Clone::clone)?;
        let apply = |content: &mut S::Content, operation| self.subject.apply(content, operation);
        let events = execution.trace.events.len();
        let legal = execution.history.contents(events, &base.durable.content, &apply);
        if legal.contains(found) {
            return Ok(());
        }
        let (found, legal) = (self.subject.describe_content(found), self.judge.describe(&legal));
        Err(format!(
            "without any crash: the content is {found}; what was returned promises {legal}"
        ))
    }

    /// What is promised after each number of events.
    pub(super) fn moments(&self, base: &Base<S::Content>, execution: &Execution<S>) -> Vec<Moment> {
        let history = &execution.history;
        let apply = |content: &mut S::Content, operation| self.subject.apply(content, operation);
        let acknowledges = |operation| self.subject.acknowledges(operation);
        let mut last: Option<(Vec<Stage>, Moment)> = None;
        let at = |events| {
            let stages: Vec<Stage> = history.calls.iter().map(|call| call.stage(events)).collect();
            let moment = match last.take() {
                Some((same, moment)) if same == stages => moment,
                _ => self.judge.moment(history.legal_contents(
                    events,
                    &base.durable,
                    &apply,
                    &acknowledges,
                )),
            };
            last = Some((stages, moment));
            moment
        };
        (0..=execution.trace.events.len()).map(at).collect()
    }

    // ---- report
    // ---------------------------------------------------------------------------------------------

    fn report(self, operations: usize, whole: bool) -> Report {
        let mut report = describe(
            self.subject.sites(),
            operations,
            &self.explorer.tally,
            self.audit.finish(),
            self.options,
        );
        report.exhaustive =
            whole && report.left_out == 0 && self.left_out == 0 && self.violations.is_empty();
        report.exhaustive_depth = exhaustive_depth(&report, &self.explorer.tally, self.options);
        report.images = self.explorer.known.images();
        report.violations = self.violations;
        report.interleavings = Some(self.interleavings);
        report.interleavings_beyond = self.beyond;
        report.interleavings_left_out = self.left_out;
        report.preemption_bound = whole.then_some(self.options.preemption_bound);
        if let Some(mutants) = self.mutants.filter(|_| report.violations.is_empty()) {
            mutants.report(&mut report);
        }
        report
    }
}
