//! The walk over the crash points: `point` tries the images of one, `image` recovers one image and
//! crashes inside that, `left` remembers what recoveries have left behind, `unread` which words
//! they have read.

mod image;
mod left;
mod point;
mod unread;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::ControlFlow::{self, Break, Continue};
use std::rc::Rc;

use everleaf_pmem::Site;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::{Options, Path, Progress, Promise, RECOVERY, Restart, Subject, Traced};

use self::left::{Left, Leftovers};
use self::unread::Chain;
use crate::known::{Known, Moment};
use crate::machine::{Effect, Machine, Scope, is_crash_point};
use crate::media::ReadSet;
use crate::mutant::{Mutant, OperationOf};
use crate::trace::{
    RecordedOperation, Recording, Trace, barrier, new_machine, promise_of, stored_word,
};
use crate::undecided::UndecidedLine;
use crate::violation::{Crash, During};

/// An image that did not pass: the crashes that led to it, and what broke.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub moment: Moment,
    pub crashes: Vec<Crash>,
    pub error: String,
    /// What it needs of the lines that the crash before had left undecided: the line, and its
    /// outcome.
    settled: Vec<(usize, usize)>,
}

/// What an exploration counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub crash_points: u64,
    pub states: u64,
    pub recoveries: u64,
    /// What was spent of [`Options::work`].
    pub work: u64,
    pub left_out: u64,
    /// The same of crashes inside recoveries from a crash inside a recovery.
    pub left_out_deeper: u64,
    /// Crash points, inside recoveries and behind them as well, of whose images some were left out.
    pub samples: u64,
    /// Crash points of the operations with too many images to list, of which all were accounted
    /// for.
    pub lazily_exhaustive_points: u64,
    /// Crash points of the operations where some were left out, of their images or of those of a
    /// crash inside a recovery.
    pub sampled_points: u64,
    /// The same by what was cut: an operation, or the step of a program of threads.
    pub sampled_in: BTreeMap<usize, u64>,
    /// Barriers of the explored operations and, where they were explored, of recoveries.
    pub sites: BTreeSet<Site>,
    /// The mutants that do something else, and the paths on which they do.
    pub mutants: BTreeMap<Mutant, BTreeSet<Path>>,
}

impl Tally {
    /// Spends of [`Options::work`].
    pub fn spend(&mut self, work: u64) {
        self.work = self.work.saturating_add(work);
    }

    /// Notes how many crash points, in what is cut, are samples.
    fn note_samples(&mut self, during: During, points: u64) {
        if points > 0 {
            let cut = match during {
                During::Operation(at) | During::After(at) | During::Step(at) => at,
                During::FollowUp(at) => at,
                During::Prepare | During::Recovery => 0,
            };
            self.sampled_points += points;
            *self.sampled_in.entry(cut).or_default() += points;
        }
    }

    fn reach(
        &mut self,
        trace: &Trace,
        path: Path,
        options: &Options,
        operation_of: OperationOf<'_>,
    ) {
        self.sites.extend(trace.events.iter().filter_map(barrier));
        if options.mutate {
            for mutant in trace.mutants(options.assumptions, operation_of) {
                self.mutants.entry(mutant).or_default().insert(path);
            }
        }
    }
}

pub(crate) struct Explorer<'a, S: Subject> {
    subject: &'a S,
    pub options: &'a Options,
    /// The program is not explored as it is, but this mutant of it.
    mutant: Option<Mutant>,
    /// It is mutated on this path alone, if any is named.
    only_on: Option<Path>,
    /// What was found good in the whole program.
    baseline: Option<&'a Known>,
    /// The mutated barrier is executed in no recovery (nor behind one), so what was good as a set
    /// is so still.
    spares_recoveries: bool,
    /// Nothing is explored on [credit](Self::credit).
    is_plain: bool,
    /// Whether counterexamples are worth reducing.
    reduces: bool,
    /// The crashes among the operations that have lost some.
    restarts: Rc<[Restart]>,
    /// What was promised at the moment that was asked for last.
    promise: Option<(Moment, Rc<Promise>)>,
    pub known: Known,
    pub tally: Tally,
    /// The barriers of the recoveries from the crash point that is being tried.
    point_sites: BTreeSet<Site>,
    /// What was read since the last crash point that all images were tried of.
    chain: Chain,
    /// What the last run has read.
    run_reads: ReadSet,
    /// What operations of the program begin with, where nothing is pending: their numbers, and the
    /// hashes of the memory.
    begun: HashSet<(usize, u128)>,
    /// What recoveries have left behind.
    leftovers: Leftovers,
    /// What the operations begin with that are being crashed in, if a recovery has left it.
    going_on_from: Option<Left>,
    /// Whether crashes inside a recovery from a crash inside a recovery are being tried.
    deeper: bool,
    /// Crash points of the operations that are still to come, at most; none where that is unknown.
    points_left: Option<u64>,
    /// How many recoveries the tally may come to in this interleaving, where that is bounded.
    interleaving_until: Option<u64>,
    /// The same of all interleavings with so many preemptions.
    level_until: u64,
    /// Recoveries that the crash point may cost which is being tried.
    allowance: u64,
    /// What was spent of the [credit](Self::credit).
    on_credit: u64,
    /// Whether it is being spent.
    is_on_credit: bool,
    scratch: Option<Traced>,
    /// Memory of images that are needed no more.
    images: Vec<Vec<u64>>,
    rng: SmallRng,
}

/// A trace that is being walked.
#[derive(Clone, Copy)]
struct Walk<'t> {
    trace: &'t Trace,
    during: During,
    /// What is promised, where the trace does not say.
    moment: Moment,
    /// Crashes after fewer events than this were explored elsewhere.
    from: usize,
    depth: u8,
    budget: u64,
    /// How many recoveries the [`Tally`] may come to, where this is a walk inside a recovery or
    /// behind one.
    until: u64,
    /// Lines that the crash before has left undecided. No store of the trace is to a word in which
    /// their outcomes differ.
    inherited: &'t [UndecidedLine],
}

impl Walk<'_> {
    /// What is promised after so many events.
    fn moment_after(&self, events: usize) -> Moment {
        self.trace.moments.get(events).copied().unwrap_or(self.moment)
    }

    fn is_inner(&self) -> bool {
        matches!(self.during, During::Recovery | During::FollowUp(_))
    }
}

/// What making an image costs, in accesses to memory, with what its recovery costs besides them.
pub(crate) const IMAGE_WORK: u64 = 1000;
/// Recoveries that a crash point may cost at least: enough for the extremes of a few lines.
const MIN_ALLOWANCE: u64 = 8;

/// Where failures go; it says whether to go on.
type Sink<'s> = dyn FnMut(Failure) -> ControlFlow<()> + 's;

impl<'a, S: Subject> Explorer<'a, S> {
    pub fn new(subject: &'a S, options: &'a Options) -> Self {
        Self {
            subject,
            options,
            mutant: None,
            only_on: None,
            baseline: None,
            spares_recoveries: true,
            is_plain: false,
            reduces: true,
            restarts: Rc::new([]),
            promise: None,
            begun: HashSet::new(),
            leftovers: Leftovers::default(),
            going_on_from: None,
            deeper: false,
            points_left: None,
            interleaving_until: None,
            level_until: u64::MAX,
            allowance: options.recoveries,
            on_credit: 0,
            is_on_credit: false,
            known: Known::default(),
            point_sites: BTreeSet::new(),
            chain: Chain::default(),
            run_reads: ReadSet::default(),
            tally: Tally::default(),
            scratch: None,
            images: Vec::new(),
            rng: SmallRng::seed_from_u64(options.seed),
        }
    }

    /// Only looks whether there is a failure; counterexamples stay as they are found.
    pub fn only_looking(mut self) -> Self {
        self.reduces = false;
        self
    }

    /// Explores a crash and a crash in the recovery from it, and nothing behind what that has left.
    pub fn plainly(self) -> Self {
        Self { is_plain: true, ..self }
    }

    /// Explores a mutant, knowing what is good in the program.
    pub fn mutant(
        subject: &'a S,
        options: &'a Options,
        mutant: Mutant,
        baseline: &'a Known,
    ) -> Self {
        let spares_recoveries = baseline.recovery_sites().all(|site| site != mutant.site());
        let explorer = Self::new(subject, options).only_looking();
        Self { mutant: Some(mutant), baseline: Some(baseline), spares_recoveries, ..explorer }
    }

    /// Mutates this path alone, if any is named.
    pub fn only_on(self, path: Option<Path>) -> Self {
        Self { only_on: path, ..self }
    }

    /// Goes on with what was kept of an exploration of the same program: the images that passed,
    /// and memory to work in.
    pub fn with_memory(mut self, (known, scratch): (Known, Option<Traced>)) -> Self {
        (self.known, self.scratch) = (known, scratch);
        self
    }

    /// What is to be kept.
    pub fn into_memory(self) -> (Known, Option<Traced>) {
        (self.known, self.scratch)
    }

    /// Explores the operations from `first` on. At most one failure is reported for each operation
    /// and for each time between two.
    pub fn explore(
        &mut self,
        recording: &Recording,
        first: usize,
        progress: &mut dyn FnMut(Progress),
        sink: &mut Sink,
    ) {
        self.restarts = recording.restarts.clone();
        let points = |step: &RecordedOperation| 1 + step.trace.crash_points() as u64;
        self.begun = begun(recording, self.options);
        self.points_left = Some(recording.steps[first..].iter().map(points).sum::<u64>() + 1);
        let mut machine =
            new_machine(recording.start.clone(), self.options.assumptions, self.options);
        machine.feed(&recording.prepare);
        if first == 0
            && self.between(&mut machine, &Trace::default(), During::Prepare, 0, sink).is_break()
        {
            return;
        }
        for (operation, step) in recording.steps.iter().enumerate() {
            if let Some(image) = &step.restart {
                machine = new_machine(image.clone(), self.options.assumptions, self.options);
                self.chain.forget();
            }
            let path = self.path_of(operation);
            let trace = self.mutated(&step.trace, path);
            if operation < first {
                machine.feed(&trace);
                continue;
            }
            progress(Progress::Operations {
                done: operation,
                of: recording.steps.len(),
                states: self.tally.states,
            });
            self.reach(&trace, path);
            let during = During::Operation(operation);
            let walk = self.outer_walk(&trace, during, Moment::during(operation));
            if self.walk(&mut machine, &walk, sink).is_break()
                || self
                    .between(&mut machine, &trace, During::After(operation), operation + 1, sink)
                    .is_break()
            {
                return;
            }
        }
    }

    fn promise(&mut self, moment: Moment) -> Rc<Promise> {
        if let Some((last, promise)) = &self.promise
            && *last == moment
        {
            return promise.clone();
        }
        let promise = Rc::new(promise_of(self.subject, moment, self.restarts.clone()));
        self.promise = Some((moment, promise.clone()));
        promise
    }

    /// What a recovery has promised that returned and has found so many operations.
    fn found(&mut self, operations: usize) -> Moment {
        let moment = Moment::between(operations);
        match self.promise(moment).boundaries() {
            [_] => moment,
            _ => Moment { recovered: operations, ..moment },
        }
    }

    fn outer_walk<'t>(&self, trace: &'t Trace, during: During, moment: Moment) -> Walk<'t> {
        let Options { recovery_depth, budget, .. } = *self.options;
        // That nothing breaks deeper is shown for the program; a mutant need not be tried there.
        let is_shallow = self.is_plain || self.mutant.is_some();
        let depth = if is_shallow { recovery_depth.min(1) } else { recovery_depth };
        Walk { trace, during, moment, from: 0, depth, budget, until: u64::MAX, inherited: &[] }
    }

    /// The next interleavings may cost so many recoveries each.
    pub fn within(&mut self, recoveries: u64) -> &mut Self {
        let is_bounded = recoveries < u64::MAX;
        self.interleaving_until =
            is_bounded.then(|| self.tally.recoveries.saturating_add(recoveries));
        self
    }

    /// The next interleavings may cost together one in so many of the recoveries that the rest of
    /// the [work](Options::work) pays for.
    pub fn spend_one_in(&mut self, parts: u64) {
        let affordable = self.affordable();
        let part = if affordable == u64::MAX { affordable } else { affordable / parts };
        self.level_until = self.tally.recoveries.saturating_add(part);
    }

    /// Explores the crashes of one interleaving, whose trace says what is promised when, from event
    /// `from` on; then the one after it. `machine` has taken in what was before. At most one
    /// failure is reported.
    pub fn explore_interleaving(
        &mut self,
        machine: &mut Machine,
        trace: &Trace,
        from: usize,
        step: usize,
    ) -> Option<Failure> {
        let from = self.mutant.map_or(from, |mutant| trace.start_without(mutant.site(), from));
        let path = self.path_of(step);
        let trace = &*self.mutated(trace, path);
        self.reach(trace, path);
        let walk = Walk { from, ..self.outer_walk(trace, During::Step(step), Moment::between(0)) };
        self.chain.forget();
        if self.interleaving_until.is_some() {
            let points = (from..trace.events.len()).filter(|i| is_crash_point(&trace.events, *i));
            self.points_left = Some(points.count() as u64 + 1);
        }
        if from == 0 {
            self.count_point();
            self.chain.begin(self.tally.samples);
            if let Err(failure) = self.crash_at(machine, &walk, 0, Scope::All) {
                return Some(failure);
            }
        }
        let mut found = None;
        let mut keep = |failure| {
            found = Some(failure);
            Break(())
        };
        if self.walk(machine, &walk, &mut keep).is_continue() {
            let _ = self.between(machine, trace, walk.during, 0, &mut keep);
        }
        found
    }

    /// The crash point at the end of `trace`.
    fn between(
        &mut self,
        machine: &mut Machine,
        trace: &Trace,
        during: During,
        acknowledged: usize,
        sink: &mut Sink,
    ) -> ControlFlow<()> {
        let walk = self.outer_walk(trace, during, Moment::between(acknowledged));
        self.count_point();
        self.chain.begin(self.tally.samples);
        match self.crash_at(machine, &walk, trace.events.len(), Scope::All) {
            Err(failure) => sink(failure),
            Ok(_) => Continue(()),
        }
    }

    /// The path of an operation; a crash among them is a recovery.
    fn path_of(&self, operation: usize) -> Path {
        let is_recovery = self.subject.is_crash(operation);
        if is_recovery { RECOVERY } else { self.subject.path(operation) }
    }

    fn mutated<'t>(&self, trace: &'t Trace, path: Path) -> Cow<'t, Trace> {
        let mutant = self.mutant.filter(|_| self.only_on.is_none_or(|only| only == path));
        mutant.map_or(Cow::Borrowed(trace), |mutant| {
            mutant.applied(trace, &|site| self.subject.operation_of(site))
        })
    }

    fn reach(&mut self, trace: &Trace, path: Path) {
        if self.mutant.is_none() {
            let operation_of = |site| self.subject.operation_of(site);
            self.tally.reach(trace, path, self.options, &operation_of);
        }
    }

    /// Sets how many recoveries the next crash point of an operation may cost; the images that it
    /// may try.
    fn allow(&mut self) -> u64 {
        let Options { recoveries, all_recoveries, .. } = *self.options;
        let until = self.interleaving_until.unwrap_or(all_recoveries);
        let affordable = self.affordable();
        let until = until.min(self.level_until);
        let allowed = until.saturating_sub(self.tally.recoveries);
        let left = allowed.min(affordable);
        let share = self.points_left.map_or(left, |points| left / (points + 1));
        let is_spent = self.mutant.is_some() && left == 0;
        let least = if is_spent { 0 } else { MIN_ALLOWANCE };
        let share = share.saturating_mul(2);
        let is_bounded = self.interleaving_until.is_some() || affordable < allowed;
        let share = match is_bounded {
            true if share < least => least * u64::from(self.rng.random_range(0..least) < share),
            _ => share.max(least),
        };
        self.allowance = recoveries.min(share);
        share
    }

    /// Recoveries that the rest of the [work](Options::work) pays for, if they go on to cost what
    /// they have cost so far.
    pub fn affordable(&self) -> u64 {
        if self.options.work == u64::MAX {
            return u64::MAX;
        }
        let Tally { work, recoveries, .. } = self.tally;
        let left = self.options.work.saturating_sub(work);
        left / (work / recoveries.max(1)).max(IMAGE_WORK)
    }

    /// How many recoveries may be made beyond those of a crash and a crash in the recovery from it:
    /// for crashes that are deeper, and for operations behind what a recovery has left. They are
    /// half of all others together, and what one crash point may cost. So these crashes never cost
    /// much more time than the others; what they would cost more is left out.
    fn credit(&self) -> u64 {
        let others = self.tally.recoveries - self.on_credit;
        (self.options.recoveries.saturating_add(others / 2)).saturating_sub(self.on_credit)
    }

    /// Spends of the credit, no more than a crash point may cost. `act` is told how many recoveries
    /// the [`Tally`] may come to. Within another such action, whose walk may come to `until`, it is
    /// that one's credit.
    fn on_credit<T>(&mut self, until: u64, act: impl FnOnce(&mut Self, u64) -> T) -> T {
        if self.is_on_credit {
            return act(self, until);
        }
        let before = self.tally.recoveries;
        let until = before.saturating_add(self.credit().min(self.allowance));
        self.is_on_credit = true;
        let outcome = act(self, until);
        self.is_on_credit = false;
        self.on_credit += self.tally.recoveries - before;
        outcome
    }

    /// A crash point of the operations is reached.
    fn count_point(&mut self) {
        self.tally.crash_points += 1;
        self.points_left = self.points_left.map(|points| points.saturating_sub(1));
    }

    /// The runs for the next of so many crash points of a recovery: an even share of what the walk
    /// has left. Where that is less than one for each, chance says which get one.
    fn share_of_point(&mut self, walk: &Walk, points_left: u64) -> u64 {
        let left = walk.until.saturating_sub(self.tally.recoveries);
        let points_left = points_left.max(1);
        let share = left / points_left
            + u64::from(self.rng.random_range(0..points_left) < left % points_left);
        share.min(walk.budget)
    }

    /// Where the walks inside the recovery of the next of so many images end. Few recoveries have
    /// many crash points, and a point may turn out to have few images: so the first may use more
    /// than an even share.
    fn share_of_image(&self, walk: &Walk, images_left: u64) -> u64 {
        let left = walk.until.saturating_sub(self.tally.recoveries);
        self.tally.recoveries.saturating_add(left / images_left.clamp(1, 8))
    }

    /// Crashes wherever a trace allows; goes no further than the first failure. Breaks if the sink
    /// does.
    fn walk(&mut self, machine: &mut Machine, walk: &Walk, sink: &mut Sink) -> ControlFlow<()> {
        let mut complete = !machine.has_pending() || self.tally.left_out == 0;
        let mut failed = false;
        // What was promised at the last crash point; none if there was no such point in this walk.
        let mut promised = (walk.from == 0).then(|| walk.moment_after(0));
        let mut stored = Vec::new();
        let mut points_left = if walk.is_inner() { walk.trace.crash_points() as u64 } else { 0 };
        for (i, event) in walk.trace.events.iter().enumerate() {
            let effect = machine.apply(walk.trace.thread(i), event, &walk.trace.fresh);
            stored.extend(stored_word(event));
            let promises = Some(walk.moment_after(i + 1));
            if failed
                || i + 1 < walk.from
                || !(is_crash_point(&walk.trace.events, i) || promised != promises)
            {
                continue;
            }
            if !walk.is_inner() {
                self.count_point();
            }
            // After a fence nothing is possible that was not before; look again only if that was a
            // sample, or if more is promised.
            let scope = match effect {
                _ if std::mem::replace(&mut promised, promises) != promises => Scope::All,
                Effect::Stored(key) => Scope::New(key),
                Effect::Fenced if complete => {
                    machine.ranges(Scope::All);
                    continue;
                }
                _ => Scope::All,
            };
            let unread = self.skips_unread(machine, walk, scope, &stored);
            stored.clear();
            if unread {
                continue;
            }
            if !walk.is_inner() && matches!(scope, Scope::All) && effect != Effect::Fenced {
                self.chain.begin(self.tally.samples);
            }
            let budget =
                if walk.is_inner() { self.share_of_point(walk, points_left) } else { walk.budget };
            points_left = points_left.saturating_sub(1);
            match self.crash_at(machine, &Walk { budget, ..*walk }, i + 1, scope) {
                Ok(left_out) => {
                    complete = left_out == 0 && (complete || matches!(scope, Scope::All))
                }
                Err(failure) => {
                    failed = true;
                    sink(failure)?;
                }
            }
        }
        Continue(())
    }
}

/// What operations begin with where nothing is pending.
fn begun(recording: &Recording, options: &Options) -> HashSet<(usize, u128)> {
    let mut machine = new_machine(recording.start.clone(), options.assumptions, options);
    machine.feed(&recording.prepare);
    let mut begun = HashSet::new();
    for (operation, step) in recording.steps.iter().enumerate() {
        if !machine.has_pending() {
            begun.insert((operation, machine.hash_of(&[])));
        }
        if let Some(image) = &step.restart {
            machine = new_machine(image.clone(), options.assumptions, options);
        }
        machine.feed(&step.trace);
    }
    begun
}

/// Whether an image that passed before is tried again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fresh {
    Required,
    Any,
}
