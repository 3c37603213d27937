//! `explore --suite`, and the directed scenarios behind `--mutate`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use everleaf::Engine;
use everleaf_crash::Report;
use everleaf_pmem::Site;
use everleaf_testkit::{ARGUED, Case, PATHS, SuiteReport, directed_cases, full_suite, run_suite};
use serde::Serialize;

use crate::failure::{Failure, Outcome, complain};
use crate::progress::steps_bar;

/// Distinct images that the full suite of an engine explores at least.
const LEAST_IMAGES: u64 = 1_000_000;

/// The first keys are those of every exploration; what else there is comes behind them.
#[derive(Serialize)]
struct Summary {
    engine: &'static str,
    operations: usize,
    crash_points: u64,
    states: u64,
    recoveries: u64,
    violations: usize,
    sites: usize,
    sites_reached: usize,
    mutants: usize,
    mutants_killed: usize,
    redundant_flushes: u64,
    exhaustive: bool,
    images: u64,
    explorations: usize,
    exhaustive_explorations: usize,
    left_out: u64,
    redundant_fences: u64,
    unreached: Vec<&'static str>,
    survivors: Vec<&'static str>,
    argued: BTreeMap<&'static str, &'static str>,
    /// How many explored operations took which path.
    paths: BTreeMap<String, u64>,
    /// Which exploration missed a barrier first.
    missed_by: BTreeMap<&'static str, String>,
}

impl Summary {
    fn new(engine: Engine, report: &SuiteReport) -> Self {
        let names = |sites: Vec<Site>| sites.iter().map(|site| site.name()).collect();
        Self {
            engine: engine.name(),
            operations: report.operations,
            crash_points: report.crash_points,
            states: report.states,
            recoveries: report.recoveries,
            violations: report.violations.len(),
            sites: report.sites.len(),
            sites_reached: report.reached.len(),
            mutants: report.mutants.len(),
            mutants_killed: report.killed.len(),
            redundant_flushes: report.redundant_flushes,
            exhaustive: report.exhaustive_cases == report.cases,
            images: report.images,
            explorations: report.cases,
            exhaustive_explorations: report.exhaustive_cases,
            left_out: report.left_out,
            redundant_fences: report.redundant_fences.values().sum(),
            unreached: names(report.unreached()),
            survivors: names(report.survivors()),
            argued: ARGUED.iter().copied().collect(),
            paths: PATHS.iter().map(|path| (format!("{}: {}", path.0, path.1), taken(report, path))).collect(),
            missed_by: report.killed.iter().map(|(site, case)| (site.name(), case.clone())).collect(),
        }
    }
}

fn taken(report: &SuiteReport, path: &(&'static str, &'static str)) -> u64 {
    report.paths.get(path).copied().unwrap_or(0)
}

/// Explores the full suite of an engine.
pub fn run(engine: Engine, json: bool) -> Outcome {
    let report = explore(&full_suite(engine), BTreeSet::new());
    let mut shortcomings = report.shortcomings();
    if report.images < LEAST_IMAGES {
        shortcomings.push(format!("only {} distinct images were explored, not {LEAST_IMAGES}", report.images));
    }
    let summary = Summary::new(engine, &report);
    let text = if json {
        serde_json::to_string(&summary).map_err(|e| Failure::failed(e.to_string()))? + "\n"
    } else {
        in_words(&summary, &report)
    };
    std::io::stdout().lock().write_all(text.as_bytes()).map_err(|e| Failure::output(&e))?;
    if let Some((name, violation)) = report.violations.first() {
        complain(&format!("{name}:\n{violation}"));
    }
    if shortcomings.is_empty() { Ok(()) } else { Err(Failure::failed(shortcomings.join("; "))) }
}

fn in_words(summary: &Summary, report: &SuiteReport) -> String {
    let Summary { engine, operations, crash_points, states, images, recoveries, explorations, .. } = summary;
    let mut text = format!(
        "{engine}: {explorations} explorations ({} of them exhaustive; at most {} images left out), {operations} operations, \
         {crash_points} crash points, {states} states with {images} distinct images, {recoveries} recoveries\n\
         {} violations; {} of {} sites reached; {} of {} suppressed barriers missed; {} flushes and {} fences without work\n\n",
        summary.exhaustive_explorations,
        summary.left_out,
        summary.violations,
        summary.sites_reached,
        summary.sites,
        summary.mutants_killed,
        summary.mutants,
        summary.redundant_flushes,
        summary.redundant_fences,
    );
    for path in PATHS {
        text += &format!("{:<8} {:<24} {:>7}\n", path.0, path.1, taken(report, path));
    }
    text += "\nbarrier missed in the exploration\n";
    for (site, case) in &report.killed {
        text += &format!("{:<32} {case}\n", site.name());
    }
    for (site, reason) in ARGUED {
        text += &format!("{site:<32} stays although nothing misses it: {reason}\n");
    }
    text
}

/// Lets the directed scenarios of an engine judge the barriers that an exploration did not miss: all of the engine, or with `whole` unset those
/// only that the exploration reached. Returns how many scenarios were explored.
pub fn ask_directed(engine: Engine, whole: bool, report: &mut Report) -> Result<usize, Failure> {
    if !whole && report.survivors.is_empty() {
        return Ok(0);
    }
    let cases: Vec<Case> = directed_cases(engine).into_iter().map(Case::judging).collect();
    let mut spared: BTreeSet<Site> = report.killed.iter().map(|(site, _)| *site).collect();
    if !whole {
        spared.extend(report.sites.iter().filter(|site| !report.survivors.contains(site)));
    }
    let directed = explore(&cases, spared);
    if let Some((name, violation)) = directed.violations.first() {
        complain(&format!("{name}:\n{violation}"));
        return Err(Failure::failed(format!("a crash state of the directed scenario `{name}` is not recovered from")));
    }
    if let Some((name, why)) = directed.failures.first() {
        return Err(Failure::failed(format!("the directed scenario `{name}` could not be explored: {why}")));
    }
    report.survivors.extend(directed.survivors());
    report.survivors.sort_unstable();
    report.survivors.dedup();
    report.survivors.retain(|site| !directed.killed.contains_key(site));
    if whole {
        let sites: BTreeSet<Site> = report.sites.iter().chain(&directed.sites).copied().collect();
        let reached: BTreeSet<Site> = report.sites_reached.iter().chain(&directed.reached).copied().collect();
        report.mutants = Some(report.killed.len() + directed.killed.len() + report.survivors.len());
        report.unreached = sites.difference(&reached).copied().collect();
        report.sites = sites.into_iter().collect();
        report.sites_reached = reached.into_iter().collect();
    }
    report.mutants_killed = report.mutants.map(|mutants| mutants - report.survivors.len());
    Ok(directed.cases)
}

fn explore(cases: &[Case], spared: BTreeSet<Site>) -> SuiteReport {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let bar = steps_bar(cases.len() as u64);
    let report = run_suite(cases, spared, threads, &mut |progress| {
        bar.set_position(progress.done as u64);
        bar.set_message(format!("{} images", progress.images));
    });
    bar.finish_and_clear();
    report
}
