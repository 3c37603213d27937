//! Exploring many cases, as many at a time as there are processors.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use everleaf_crash::{Mutant, Options, Report};

use super::{Case, CaseSubject, SuiteReport};
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

/// What became of the case with this number.
type Outcome = (usize, Result<(Report, Vec<PathTaken>), String>);

/// Explores all cases on `threads` threads; the mutants of `spared` are not explored. A mutant that
/// one exploration has killed is not explored again in those that begin later; which one is named
/// may therefore depend on the machine, and nothing else.
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
    let next = AtomicUsize::new(0);
    let killed = parking_lot::Mutex::new(spared);
    let (sender, outcomes) = mpsc::channel::<Outcome>();
    let work = |sender: mpsc::Sender<Outcome>| {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = cases.get(at) else { break };
            // A statement of its own: the lock is not to be held while the case is explored.
            let spared = killed.lock().clone();
            let outcome = explore(case, spared);
            if let Ok((report, _)) = &outcome {
                killed.lock().extend(report.killed.iter().map(|(mutant, _)| *mutant));
            }
            if sender.send((at, outcome)).is_err() {
                break;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            let sender = sender.clone();
            scope.spawn(|| work(sender));
        }
        drop(sender);
        for (done, (at, outcome)) in outcomes.iter().enumerate() {
            if let CaseSubject::Engine(subject) = &cases[at].subject {
                report.wide_values |= subject.has_wide_values();
            }
            match outcome {
                Ok((found, paths)) => report.add(&cases[at].name, cases[at].kind(), found, paths),
                Err(why) => report.failures.push((cases[at].name.clone(), why)),
            }
            progress(SuiteProgress { done: done + 1, of: cases.len(), images: report.images });
        }
    });
}

fn explore(case: &Case, spared: BTreeSet<Mutant>) -> Result<(Report, Vec<PathTaken>), String> {
    let options = Options { spared, ..case.options.clone() };
    let report = case.explore(&options, &mut |_| {}).map_err(|e| e.to_string())?;
    Ok((report, case.paths()?))
}
