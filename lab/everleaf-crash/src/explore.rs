//! The exploration as a whole: the program, its mutants, the report.

use std::collections::BTreeSet;
use std::ops::ControlFlow::{Break, Continue};

use everleaf_pmem::Site;

use crate::explorer::{Explorer, Failure, Tally};
use crate::known::Known;
use crate::mutant::Mutant;
use crate::redundant::{Redundant, redundant_barriers};
use crate::shrink::fewer_operations;
use crate::trace::{ExploreError, RecordedOperation, Recording, barrier, record};
use crate::violation::{During, Violation};
use crate::{Options, Path, Progress, Report, Subject};

/// Explores every crash state of `subject`.
///
/// # Errors
/// [`ExploreError`] when the subject fails without any crash. That it does not survive one is
/// reported as a [`Violation`].
pub fn explore<S: Subject>(subject: &S, options: &Options) -> Result<Report, ExploreError> {
    explore_with(subject, options, &mut |_| {})
}

/// As [`explore`], and tells how far it is.
///
/// # Errors
/// As [`explore`].
pub fn explore_with<S: Subject>(
    subject: &S,
    options: &Options,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, ExploreError> {
    let recording = record(subject, options)?;
    let mut explorer = Explorer::new(subject, options);
    let mut failures = failures_of(&mut explorer, &recording, progress);
    let (known, tally) = (explorer.known, explorer.tally);
    let plain = match failures.is_empty() {
        true => Vec::new(),
        false => {
            failures_of(&mut Explorer::new(subject, options).plainly(), &recording, &mut |_| {})
        }
    };
    // One that needs less is the better counterexample.
    let plainly = !plain.is_empty();
    if plainly {
        failures = plain;
    }
    let mut report = describe(
        subject.sites(),
        recording.steps.len(),
        &tally,
        redundant_barriers(&recording),
        options,
    );
    report.violations = failures.iter().map(|failure| violation(subject, None, failure)).collect();
    if let (Some(first), Some(failure)) = (report.violations.first_mut(), failures.first())
        && let Some((kept, smaller, failure)) =
            fewer_operations(subject, options, last_operation(failure), plainly)
    {
        *first = violation(&smaller, Some(&kept), &failure);
    }
    report.images = known.images();
    report.exhaustive = tally.left_out == 0 && failures.is_empty();
    report.exhaustive_depth = exhaustive_depth(&report, &tally, options);
    if options.mutate && failures.is_empty() {
        mutate(subject, options, &recording, &known, &tally, progress, &mut report);
    }
    Ok(report)
}

/// All that breaks, as far as the limit of violations.
fn failures_of<S: Subject>(
    explorer: &mut Explorer<'_, S>,
    recording: &Recording,
    progress: &mut dyn FnMut(Progress),
) -> Vec<Failure> {
    let (mut failures, limit) = (Vec::new(), explorer.options.violation_limit);
    explorer.explore(recording, 0, progress, &mut |failure| {
        failures.push(failure);
        if failures.len() < limit { Continue(()) } else { Break(()) }
    });
    failures
}

/// How deep everything was tried.
pub(crate) fn exhaustive_depth(report: &Report, tally: &Tally, options: &Options) -> u8 {
    match options.recovery_depth {
        _ if !report.exhaustive => 0,
        depth if tally.left_out_deeper > 0 => depth.min(1),
        depth => depth,
    }
}

/// The part of a report that depends on what was run, and not on what broke.
pub(crate) fn describe(
    declared: Vec<Site>,
    operations: usize,
    tally: &Tally,
    (redundant_flushes, redundant_fences): (Vec<Redundant>, Vec<Redundant>),
    options: &Options,
) -> Report {
    let declared: BTreeSet<Site> = declared.into_iter().collect();
    let (sites_reached, unreached) = declared.iter().partition(|site| tally.sites.contains(site));
    Report {
        operations,
        crash_points: tally.crash_points,
        states: tally.states,
        recoveries: tally.recoveries,
        sites_reached,
        unreached,
        undeclared: tally.sites.difference(&declared).copied().collect(),
        sites: declared.into_iter().collect(),
        redundant_flushes,
        redundant_fences,
        lazily_exhaustive_points: tally.lazily_exhaustive_points,
        sampled_points: tally.sampled_points,
        sampled_in: tally.sampled_in.clone(),
        left_out: tally.left_out,
        seed: options.seed,
        ..Report::default()
    }
}

// ---- mutants
// -------------------------------------------------------------------------------------------------

/// Explores each mutant, up to its first violation; where it is asked for, on one path at a time as
/// well.
fn mutate<S: Subject>(
    subject: &S,
    options: &Options,
    recording: &Recording,
    known: &Known,
    tally: &Tally,
    progress: &mut dyn FnMut(Progress),
    report: &mut Report,
) {
    let all_recoveries = options.all_recoveries.min(options.mutant_recoveries);
    let bounded = &Options { all_recoveries, work: u64::MAX, ..options.clone() };
    let killer = |mutant, path| killed_by(subject, bounded, recording, known, mutant, path);
    let asked = tally.mutants.keys().filter(|mutant| options.asks_for(**mutant)).count();
    for (mutant, paths) in &tally.mutants {
        let mut judged = None;
        if options.asks_for(*mutant) {
            let done = report.killed.len() + report.survivors.len();
            progress(Progress::Mutants { done, of: asked });
            let broken = killer(*mutant, None);
            judged = Some(broken.is_some());
            match broken {
                Some(error) => report.killed.push((*mutant, error)),
                None => report.survivors.push(*mutant),
            }
        }
        for path in paths.iter().filter(|path| options.asks_for_on(*mutant, **path)) {
            // One that survives on all paths together is not looked for on each. One that does not
            // may have been killed on a path of what is run behind a recovery.
            let is_killed = judged != Some(false) && killer(*mutant, Some(*path)).is_some();
            let list = if is_killed { &mut report.killed_on } else { &mut report.survivors_on };
            list.insert((*mutant, *path));
        }
    }
    report.mutants = Some(asked);
    report.mutants_killed = Some(report.killed.len());
}

/// What breaks first in a mutant, of one path if any is named.
fn killed_by<S: Subject>(
    subject: &S,
    options: &Options,
    recording: &Recording,
    known: &Known,
    mutant: Mutant,
    path: Option<Path>,
) -> Option<String> {
    let mut explorer = Explorer::mutant(subject, options, mutant, known).only_on(path);
    let mut killed_by = None;
    let is_in_recoveries = known.recovery_sites().any(|site| site == mutant.site());
    let first = if is_in_recoveries { 0 } else { first_use(recording, mutant.site()) };
    explorer.explore(recording, first, &mut |_| {}, &mut |failure| {
        killed_by = Some(failure.error);
        Break(())
    });
    killed_by
}

/// The first operation whose trace has this barrier.
fn first_use(recording: &Recording, site: Site) -> usize {
    let uses = |step: &RecordedOperation| {
        step.trace.events.iter().any(|event| barrier(event) == Some(site))
    };
    recording.steps.iter().position(uses).unwrap_or(0)
}

// ---- counterexamples
// -------------------------------------------------------------------------------------------------

/// The last operation that a failure needs.
fn last_operation(failure: &Failure) -> usize {
    failure.moment.cut.unwrap_or(failure.moment.acknowledged.saturating_sub(1))
}

/// A failure of `subject`, whose operation `i` is the operation `original[i]` of the subject that
/// was asked for.
fn violation<S: Subject>(subject: &S, original: Option<&[usize]>, failure: &Failure) -> Violation {
    let renamed = |operation: usize| {
        original.map_or(operation, |names| names.get(operation).copied().unwrap_or(operation))
    };
    let moment = failure.moment;
    let count = moment.cut.map_or(moment.acknowledged, |cut| cut + 1);
    let mut crashes = failure.crashes.clone();
    for crash in &mut crashes {
        crash.during = match crash.during {
            During::Operation(operation) => During::Operation(renamed(operation)),
            During::After(operation) => During::After(renamed(operation)),
            During::FollowUp(operation) => During::FollowUp(renamed(operation)),
            other => other,
        };
    }
    Violation {
        operations: (0..count).map(renamed).collect(),
        descriptions: (0..count).map(|operation| subject.describe_operation(operation)).collect(),
        acknowledged: moment.acknowledged,
        cut: moment.cut.map(renamed),
        crashes,
        error: failure.error.clone(),
        interleaving: None,
        found_in: None,
    }
}
