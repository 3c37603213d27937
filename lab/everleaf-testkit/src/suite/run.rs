//! Exploring many cases, as many at a time as there are processors.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use everleaf_crash::{Mutant, Options, Path, Report};
use parking_lot::Mutex;

use super::{Case, CaseKind, CaseSubject, SuiteReport};
use crate::PathTaken;

/// How far a suite is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuiteProgress {
    /// Explorations made.
    pub done: usize,
    /// Explorations in all.
    pub of: usize,
    /// Distinct images so far.
    pub images: u64,
}

/// The mutants in which something broke.
#[derive(Clone, Default)]
struct Killed {
    everywhere: BTreeSet<Mutant>,
    /// Those of one path.
    on: BTreeSet<(Mutant, Path)>,
}

/// What became of the case with this number.
type Outcome = (usize, Result<(Report, Vec<PathTaken>), String>);

/// Recoveries that each mutant may cost in each exploration at first. Most that break do so sooner,
/// and one that survives one exploration is mostly killed by another.
const FIRST_RECOVERIES: u64 = 2000;
/// Recoveries that those may cost which nothing has killed then, in each exploration that has them.
const LAST_RECOVERIES: u64 = 20_000;

/// Explores all cases on `threads` threads; the mutants of `spared` are not explored. A mutant that
/// one exploration has killed is not explored again in those that begin later; which one is named
/// may therefore depend on the machine, and nothing else.
///
/// Each mutant may cost 2,000 recoveries in each case. Those that nothing has killed then are
/// explored once more in the cases that have them, with ten times as many.
pub fn run_suite(
    cases: &[Case],
    spared: BTreeSet<Mutant>,
    threads: usize,
    progress: &mut dyn FnMut(SuiteProgress),
) -> SuiteReport {
    let mut report = SuiteReport::default();
    continue_suite(&mut report, cases, spared, threads, progress);
    report
}

/// As [`run_suite`], and adds to a report.
pub fn continue_suite(
    report: &mut SuiteReport,
    cases: &[Case],
    spared: BTreeSet<Mutant>,
    threads: usize,
    progress: &mut dyn FnMut(SuiteProgress),
) {
    // The allocator's are quick, and kill the mutants of its barriers, which all others have too.
    let mut order: Vec<usize> = (0..cases.len()).collect();
    order.sort_by_key(|at| (!cases[*at].options.mutate, cases[*at].kind() != CaseKind::Allocator));
    let killed = Mutex::new(Killed { everywhere: spared, on: BTreeSet::new() });
    let (mut done, mut judged) = (0, Vec::<(usize, BTreeSet<Mutant>)>::new());
    let bounded = |at: usize| {
        let Killed { everywhere: spared, on: spared_on } = killed.lock().clone();
        let mutant_recoveries = FIRST_RECOVERIES;
        let options = Options { spared, spared_on, mutant_recoveries, ..cases[at].options.clone() };
        (at, explore(&cases[at], options, &killed))
    };
    on_threads(threads, &order, &bounded, &mut |(at, outcome): Outcome| {
        if let CaseSubject::Engine(subject) = &cases[at].subject {
            report.wide_values |= subject.has_wide_values();
        }
        match outcome {
            Ok((found, paths)) => {
                judged.push((at, found.survivors.iter().copied().collect()));
                report.add(&cases[at].name, cases[at].kind(), found, paths);
            }
            Err(why) => report.failures.push((cases[at].name.clone(), why)),
        }
        done += 1;
        progress(SuiteProgress { done, of: cases.len(), images: report.images });
    });
    let left: BTreeSet<Mutant> = report.survivors().into_iter().collect();
    judged.retain_mut(|(_, asked)| {
        asked.retain(|mutant| left.contains(mutant));
        !asked.is_empty()
    });
    let further = |at: usize| {
        let (case, asked) = &judged[at];
        let asked: BTreeSet<Mutant> =
            asked.difference(&killed.lock().everywhere).copied().collect();
        let mutant_recoveries = LAST_RECOVERIES;
        let asked = Some(asked);
        let options =
            Options { asked, mutant_recoveries, by_path: false, ..cases[*case].options.clone() };
        let is_needless = options.asked.as_ref().is_some_and(BTreeSet::is_empty);
        (!is_needless).then(|| (*case, explore(&cases[*case], options, &killed)))
    };
    let order: Vec<usize> = (0..judged.len()).collect();
    on_threads(threads, &order, &further, &mut |outcome: Option<Outcome>| {
        if let Some((at, Ok((found, _)))) = outcome {
            report.add_killed(&cases[at].name, found.killed);
        }
    });
}

/// Does something with each number of a list, on several threads, and hands over what came of it.
fn on_threads<T: Send>(
    threads: usize,
    numbers: &[usize],
    work: &(dyn Fn(usize) -> T + Sync),
    take: &mut dyn FnMut(T),
) {
    let next = AtomicUsize::new(0);
    let (sender, outcomes) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                while let Some(number) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if sender.send(work(*number)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        outcomes.iter().for_each(take);
    });
}

fn explore(
    case: &Case,
    options: Options,
    killed: &Mutex<Killed>,
) -> Result<(Report, Vec<PathTaken>), String> {
    let report = case.explore(&options, &mut |_| {}).map_err(|e| e.to_string())?;
    let mut killed = killed.lock();
    killed.everywhere.extend(report.killed.iter().map(|(mutant, _)| *mutant));
    killed.on.extend(&report.killed_on);
    drop(killed);
    Ok((report, case.paths()?))
}
