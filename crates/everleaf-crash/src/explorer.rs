//! The walk: every crash point, every image, its recovery, and the crashes inside that.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::ControlFlow::{self, Break, Continue};

use everleaf_pmem::{Site, Traced};
use rand::SeedableRng;
use rand::rngs::SmallRng;

use crate::known::{Known, Moment};
use crate::machine::{Effect, Machine, Scope, is_crash_point};
use crate::mutant::{Mutant, OperationOf};
use crate::trace::{Recording, Trace, barrier, caught, new_machine};
use crate::violation::{Crash, During};
use crate::{Options, Progress, Subject, images};

/// An image that did not pass: the crashes that led to it, and what broke.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub moment: Moment,
    pub crashes: Vec<Crash>,
    pub error: String,
}

/// What an exploration counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub crash_points: u64,
    pub states: u64,
    pub recoveries: u64,
    pub left_out: u64,
    /// Barriers of the explored operations and, where they were explored, of recoveries.
    pub sites: BTreeSet<Site>,
    /// The mutants that do something else.
    pub mutants: BTreeSet<Mutant>,
}

impl Tally {
    fn reach(&mut self, trace: &Trace, options: &Options, operation_of: OperationOf<'_>) {
        self.sites.extend(trace.events.iter().filter_map(barrier));
        if options.mutate {
            self.mutants.extend(trace.mutants(options.assumptions, operation_of));
        }
    }
}

pub(crate) struct Explorer<'a, S: Subject> {
    subject: &'a S,
    options: &'a Options,
    /// The program is not explored as it is, but this mutant of it.
    mutant: Option<Mutant>,
    /// What was found good in the whole program.
    baseline: Option<&'a Known>,
    /// Whether counterexamples are worth reducing.
    reduces: bool,
    pub known: Known,
    pub tally: Tally,
    scratch: Option<Traced>,
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
}

impl Walk<'_> {
    /// What is promised after so many events.
    fn moment_after(&self, events: usize) -> Moment {
        self.trace.moments.get(events).copied().unwrap_or(self.moment)
    }
}

/// Where failures go; it says whether to go on.
type Sink<'s> = dyn FnMut(Failure) -> ControlFlow<()> + 's;

impl<'a, S: Subject> Explorer<'a, S> {
    pub fn new(subject: &'a S, options: &'a Options) -> Self {
        Self {
            subject,
            options,
            mutant: None,
            baseline: None,
            reduces: true,
            known: Known::default(),
            tally: Tally::default(),
            scratch: None,
            rng: SmallRng::seed_from_u64(options.seed),
        }
    }

    /// Only looks whether there is a failure; counterexamples stay as they are found.
    pub fn only_looking(mut self) -> Self {
        self.reduces = false;
        self
    }

    /// Explores a mutant, knowing what is good in the program.
    pub fn mutant(subject: &'a S, options: &'a Options, mutant: Mutant, baseline: &'a Known) -> Self {
        Self { mutant: Some(mutant), baseline: Some(baseline), ..Self::new(subject, options).only_looking() }
    }

    /// Goes on with what was kept of an exploration of the same program: the images that passed, and memory to work in.
    pub fn with_memory(mut self, (known, scratch): (Known, Option<Traced>)) -> Self {
        (self.known, self.scratch) = (known, scratch);
        self
    }

    /// What is to be kept.
    pub fn into_memory(self) -> (Known, Option<Traced>) {
        (self.known, self.scratch)
    }

    /// Explores the operations from `first` on. At most one failure is reported for each operation and for each time between two.
    pub fn explore(&mut self, recording: &Recording, first: usize, progress: &mut dyn FnMut(Progress), sink: &mut Sink) {
        let mut machine = new_machine(recording.start.clone(), self.options.assumptions, self.options);
        machine.feed(&recording.prepare);
        if first == 0 && self.between(&mut machine, &Trace::default(), During::Prepare, 0, sink).is_break() {
            return;
        }
        for (operation, step) in recording.steps.iter().enumerate() {
            if let Some(image) = &step.restart {
                machine = new_machine(image.clone(), self.options.assumptions, self.options);
            }
            let trace = self.mutated(&step.trace);
            if operation < first {
                machine.feed(&trace);
                continue;
            }
            progress(Progress::Operations { done: operation, of: recording.steps.len(), states: self.tally.states });
            self.reach(&trace);
            let during = During::Operation(operation);
            let walk = self.outer_walk(&trace, during, Moment::during(operation));
            if self.walk(&mut machine, &walk, sink).is_break()
                || self.between(&mut machine, &trace, During::After(operation), operation + 1, sink).is_break()
            {
                return;
            }
        }
    }

    fn outer_walk<'t>(&self, trace: &'t Trace, during: During, moment: Moment) -> Walk<'t> {
        Walk { trace, during, moment, from: 0, depth: self.options.recovery_depth, budget: self.options.budget }
    }

    /// Explores the crashes of one interleaving, whose trace says what is promised when, from event `from` on; then the one after it. `machine`
    /// has taken in what was before. At most one failure is reported.
    pub fn explore_interleaving(&mut self, machine: &mut Machine, trace: &Trace, from: usize, step: usize) -> Option<Failure> {
        let from = self.mutant.map_or(from, |mutant| trace.start_without(mutant.site(), from));
        let trace = &*self.mutated(trace);
        self.reach(trace);
        let walk = Walk { from, ..self.outer_walk(trace, During::Step(step), Moment::between(0)) };
        if from == 0 {
            self.tally.crash_points += 1;
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
        self.tally.crash_points += 1;
        match self.crash_at(machine, &walk, trace.events.len(), Scope::All) {
            Err(failure) => sink(failure),
            Ok(_) => Continue(()),
        }
    }

    fn mutated<'t>(&self, trace: &'t Trace) -> Cow<'t, Trace> {
        self.mutant.map_or(Cow::Borrowed(trace), |mutant| mutant.applied(trace, &|site| self.subject.operation_of(site)))
    }

    fn reach(&mut self, trace: &Trace) {
        if self.mutant.is_none() {
            self.tally.reach(trace, self.options, &|site| self.subject.operation_of(site));
        }
    }

    /// Crashes wherever a trace allows; goes no further than the first failure. Breaks if the sink does.
    fn walk(&mut self, machine: &mut Machine, walk: &Walk, sink: &mut Sink) -> ControlFlow<()> {
        let mut complete = !machine.has_pending() || self.tally.left_out == 0;
        let mut failed = false;
        // What was promised at the last crash point; none if there was no such point in this walk.
        let mut promised = (walk.from == 0).then(|| walk.moment_after(0));
        for (i, event) in walk.trace.events.iter().enumerate() {
            let effect = machine.apply(walk.trace.thread(i), event, &walk.trace.fresh);
            let promises = Some(walk.moment_after(i + 1));
            if failed || i + 1 < walk.from || !(is_crash_point(&walk.trace.events, i) || promised != promises) {
                continue;
            }
            self.tally.crash_points += u64::from(matches!(walk.during, During::Operation(_) | During::Step(_)));
            // After a fence nothing is possible that was not before; look again only if that was a sample, or if more is promised.
            let scope = match effect {
                _ if std::mem::replace(&mut promised, promises) != promises => Scope::All,
                Effect::Stored(key) => Scope::New(key),
                Effect::Fenced if complete => {
                    machine.ranges(Scope::All);
                    continue;
                }
                _ => Scope::All,
            };
            match self.crash_at(machine, walk, i + 1, scope) {
                Ok(left_out) => complete = left_out == 0 && (complete || matches!(scope, Scope::All)),
                Err(failure) => {
                    failed = true;
                    sink(failure)?;
                }
            }
        }
        Continue(())
    }

    /// Tries the images of one crash point, up to the first failure; returns how many were left out.
    fn crash_at(&mut self, machine: &mut Machine, walk: &Walk, event: usize, scope: Scope) -> Result<u64, Failure> {
        let walk = &Walk { moment: walk.moment_after(event), ..*walk };
        let ranges = machine.ranges(scope);
        let mut failure = None;
        let mut rng = self.rng.clone();
        let mut each = |choice: &[usize]| match self.try_image(machine, choice, walk, Fresh::Required) {
            Ok(()) => Continue(()),
            Err(found) => {
                failure = Some((choice.to_vec(), found));
                Break(())
            }
        };
        let left_out = images::visit(&ranges, walk.budget, &mut rng, &mut each);
        self.rng = rng;
        let Some((choice, found)) = failure else {
            self.tally.left_out = self.tally.left_out.saturating_add(left_out);
            return Ok(left_out);
        };
        let (choice, found) = if self.reduces { self.reduce(machine, choice, found, walk) } else { (choice, found) };
        let crash = Crash::new(self.subject, walk.during, walk.trace, event, machine, &choice);
        // What follows a recovery has a moment of its own; the counterexample speaks of the outermost crash.
        Err(Failure { moment: walk.moment, crashes: [vec![crash], found.crashes].concat(), error: found.error })
    }

    /// Makes as many lines as possible wholly durable, or wholly lost, whichever leaves fewer exceptions, while it still fails.
    fn reduce(&mut self, machine: &mut Machine, choice: Vec<usize>, found: Failure, walk: &Walk) -> (Vec<usize>, Failure) {
        let ranges = machine.ranges(Scope::All);
        let most: Vec<usize> = ranges.iter().map(|range| range.fullest).collect();
        let least: Vec<usize> = ranges.iter().map(|range| range.from).collect();
        let mut best: Option<(usize, Vec<usize>, Failure)> = None;
        for (first, second) in [(&most, &least), (&least, &most)] {
            let (mut choice, mut found) = (choice.clone(), found.clone());
            for goal in [first, second] {
                for i in 0..choice.len() {
                    if choice[i] == first[i] || choice[i] == goal[i] {
                        continue;
                    }
                    let before = std::mem::replace(&mut choice[i], goal[i]);
                    match self.try_image(machine, &choice, walk, Fresh::Any) {
                        Err(still) => found = still,
                        Ok(()) => choice[i] = before,
                    }
                }
            }
            let exceptions = choice.iter().zip(first).filter(|(a, b)| a != b).count();
            if best.as_ref().is_none_or(|(fewest, ..)| exceptions < *fewest) {
                best = Some((exceptions, choice, found));
            }
        }
        best.map_or((choice, found), |(_, choice, found)| (choice, found))
    }

    // ---- one image ----------------------------------------------------------------------------------------------------

    /// Recovers one image, checks it, and explores the crashes inside its recovery.
    fn try_image(&mut self, machine: &Machine, choice: &[usize], walk: &Walk, fresh: Fresh) -> Result<(), Failure> {
        let (hash, moment, depth) = (machine.hash_of(choice), walk.moment, walk.depth);
        if fresh == Fresh::Required && self.is_known(moment, hash, depth) {
            return Ok(());
        }
        let image = machine.image_of(choice);
        let recovery = self.recover_and_verify(&image, moment).map_err(|error| Failure { moment, crashes: Vec::new(), error })?;
        let mut sites: Vec<Site> = Vec::new();
        if depth > 0 {
            let recovery = self.mutated(&recovery);
            sites.extend(recovery.events.iter().filter_map(barrier));
            self.reach(&recovery);
            if recovery.stores_anything() {
                self.crash_in_recovery(image, hash, &recovery, walk, &mut sites)?;
            }
            sites.sort_unstable();
            sites.dedup();
        }
        let is_new = self.known.insert(moment, hash, depth, sites);
        self.tally.states += u64::from(is_new);
        Ok(())
    }

    fn is_known(&self, moment: Moment, hash: u128, depth: u8) -> bool {
        self.known.covers(moment, hash, depth, None)
            || self.baseline.is_some_and(|known| known.covers(moment, hash, depth, self.mutant.map(Mutant::site)))
    }

    fn recover_and_verify(&mut self, image: &[u64], moment: Moment) -> Result<Trace, String> {
        let media = self.media_with(image)?;
        self.tally.recoveries += 1;
        let Moment { acknowledged, cut } = moment;
        caught(|| {
            let mut state = self.subject.recover(media.clone())?;
            let recovery = Trace::take(&media);
            media.record(false, false);
            self.subject.verify(&mut state, acknowledged, cut)?;
            Ok(recovery)
        })
    }

    /// Memory that holds `image`: the same mapping as last time, where nobody kept it.
    fn media_with(&mut self, image: &[u64]) -> Result<Traced, String> {
        let restored = self.scratch.as_mut().is_some_and(|media| media.restore(image));
        if !restored {
            let media = Traced::from_image(image, self.options.max_len, self.options.seed).map_err(|e| e.to_string())?;
            self.scratch = Some(media);
        }
        let media = self.scratch.clone().ok_or("no memory")?;
        media.limit_accesses(self.options.access_limit);
        Ok(media)
    }

    /// Crashes inside a recovery; and if it returned before everything it wrote was durable, in the operations after it.
    fn crash_in_recovery(
        &mut self,
        image: Vec<u64>,
        hash: u128,
        recovery: &Trace,
        outer: &Walk,
        sites: &mut Vec<Site>,
    ) -> Result<(), Failure> {
        let Options { assumptions, recovery_budget: budget, seed, .. } = *self.options;
        let mut machine = Machine::hashed(image.clone(), hash, assumptions, budget, seed);
        let depth = outer.depth - 1;
        let mut failure = None;
        let mut keep = |found| {
            failure = Some(found);
            Break(())
        };
        let walk = Walk { trace: recovery, during: During::Recovery, moment: outer.moment, from: 0, depth, budget };
        let walked = self.walk(&mut machine, &walk, &mut keep);
        if walked.is_continue() && machine.has_pending() && self.options.follow_up > 0 {
            for (operation, trace) in self.follow_up(&image, outer.moment) {
                let trace = self.mutated(&trace);
                sites.extend(trace.events.iter().filter_map(barrier));
                let during = During::FollowUp(operation);
                let walk = Walk { trace: &trace, during, moment: Moment::during(operation), from: 0, depth: 0, budget };
                if self.walk(&mut machine, &walk, &mut keep).is_break() {
                    break;
                }
                let walk = Walk { moment: Moment::between(operation + 1), ..walk };
                if let Err(found) = self.crash_at(&mut machine, &walk, trace.events.len(), Scope::All) {
                    let _ = keep(found);
                    break;
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Recovers once more and runs the next operations; nothing where that is not possible.
    fn follow_up(&mut self, image: &[u64], moment: Moment) -> Vec<(usize, Trace)> {
        let Ok(media) = self.media_with(image) else { return Vec::new() };
        let mut traces = Vec::new();
        // What fails here without a crash is the business of `verify`, which has passed.
        let _ = caught(|| {
            let mut state = self.subject.recover(media.clone())?;
            let Some(next) = self.subject.completed(&mut state, moment.acknowledged, moment.cut) else { return Ok(()) };
            media.take_events();
            let end = self.subject.operation_count().min(next + self.options.follow_up);
            for operation in (next..end).take_while(|operation| !self.subject.is_crash(*operation)) {
                self.subject.run(&mut state, operation)?;
                traces.push((operation, Trace::take(&media).on_thread(self.subject.thread(operation))));
            }
            Ok(())
        });
        traces
    }
}

/// Whether an image that passed before is tried again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fresh {
    Required,
    Any,
}
