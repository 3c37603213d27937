//! `explore --suite`, and the directed scenarios behind `--mutate`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use everleaf::Engine;
use everleaf_crash::{Mutant, Path, Report};
use everleaf_pmem::Site;
use everleaf_testkit::{
    Case, CaseKind, Coverage, FULL_SUITE_SEEDS, PATHS, SuiteReport, argument, continue_suite,
    directed_cases, every_mutant, full_suite, more_cases,
};
use serde::Serialize;

use everleaf_cli::failure::{Failure, Outcome, complain};
use everleaf_cli::progress::steps_bar;

/// Distinct images that the full suite of an engine explores at least.
const MIN_IMAGES: u64 = 1_000_000;
/// Seeds of random scenarios that are enough for it, by far.
const MAX_SEEDS: u64 = 100;

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
    interleavings_left_out: u64,
    lazily_exhaustive_points: u64,
    sampled_points: u64,
    redundant_fences: u64,
    /// By site, flushes and fences.
    redundant: BTreeMap<&'static str, u64>,
    unreached: Vec<&'static str>,
    survivors: Vec<String>,
    mutants_by_kind: MutantsByKind,
    argued: Arguments,
    /// How many explored operations took which path.
    paths: BTreeMap<String, u64>,
    /// By kind of exploration: which barriers were reached, which path was taken how often, and
    /// which barriers are on it.
    coverage: BTreeMap<&'static str, KindCoverage>,
    /// Which exploration a mutant broke in first.
    missed_by: BTreeMap<String, String>,
    /// Mutants of one path: the barrier is changed there and kept on all others.
    mutants_by_path: usize,
    mutants_by_path_killed: usize,
    /// Those in which nothing broke: no exploration tells whether the barrier is needed there.
    not_distinguished: Vec<String>,
}

/// Mutants, and those of them in which something broke.
#[derive(Serialize, Default)]
pub struct MutantsByKind {
    /// Flushes, fences and line writes that are not made.
    left_out: Score,
    /// Stores to one line that an `order` keeps apart, swapped.
    stores_swapped: Score,
    /// What is stored and flushed before and behind a fence, swapped.
    groups_swapped: Score,
}

#[derive(Serialize, Default)]
struct Score {
    mutants: usize,
    killed: usize,
}

impl MutantsByKind {
    /// Those of one exploration.
    pub fn of(report: &Report) -> Self {
        let killed = report.killed.iter().map(|(mutant, _)| (mutant, true));
        Self::count(killed.chain(report.survivors.iter().map(|mutant| (mutant, false))))
    }

    fn count<'m>(mutants: impl Iterator<Item = (&'m Mutant, bool)>) -> Self {
        let mut kinds = Self::default();
        for (mutant, killed) in mutants {
            let score = match mutant {
                Mutant::SwappedStores(_) => &mut kinds.stores_swapped,
                Mutant::SwappedGroups(_) => &mut kinds.groups_swapped,
                _ => &mut kinds.left_out,
            };
            score.mutants += 1;
            score.killed += usize::from(killed);
        }
        kinds
    }
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
            exhaustive: report.exhaustive_cases == report.cases && report.failures.is_empty(),
            images: report.images,
            explorations: report.cases,
            exhaustive_explorations: report.exhaustive_cases,
            left_out: report.left_out,
            interleavings_left_out: report.interleavings_left_out,
            lazily_exhaustive_points: report.lazily_exhaustive_points,
            sampled_points: report.sampled_points,
            redundant_fences: report.redundant_fences,
            redundant: report.redundant.iter().map(|(site, times)| (site.name(), *times)).collect(),
            unreached: names(report.unreached()),
            survivors: report.survivors().iter().map(ToString::to_string).collect(),
            mutants_by_kind: MutantsByKind::count(
                report.mutants.iter().map(|mutant| (mutant, report.killed.contains_key(mutant))),
            ),
            argued: arguments(&report.argued),
            paths: PATHS
                .iter()
                .map(|path| {
                    (format!("{}: {}", path.0, path.1), report.times(CaseKind::Index, path))
                })
                .collect(),
            coverage: report
                .coverage
                .iter()
                .map(|(kind, coverage)| (kind.name(), KindCoverage::of(coverage)))
                .collect(),
            missed_by: report
                .killed
                .iter()
                .map(|(mutant, case)| (mutant.to_string(), case.clone()))
                .collect(),
            mutants_by_path: report.mutants_on.len(),
            mutants_by_path_killed: report.killed_on.len(),
            not_distinguished: report.not_distinguished().iter().map(on_path).collect(),
        }
    }
}

#[derive(Serialize)]
struct KindCoverage {
    sites: usize,
    sites_reached: usize,
    unreached: Vec<&'static str>,
    paths: BTreeMap<String, PathCoverage>,
}

#[derive(Serialize)]
struct PathCoverage {
    operations: u64,
    sites: Vec<&'static str>,
}

impl KindCoverage {
    fn of(Coverage { sites, reached, paths }: &Coverage) -> Self {
        let path = |((operation, way), (operations, sites)): (&Path, &(u64, BTreeSet<Site>))| {
            let sites = sites.iter().map(|site| site.name()).collect();
            (format!("{operation}: {way}"), PathCoverage { operations: *operations, sites })
        };
        Self {
            sites: sites.len(),
            sites_reached: sites.intersection(reached).count(),
            unreached: sites.difference(reached).map(|site| site.name()).collect(),
            paths: paths.iter().map(path).collect(),
        }
    }
}

/// A mutant of one path.
pub fn on_path((mutant, (operation, way)): &(Mutant, Path)) -> String {
    format!("{mutant} in {operation}: {way}")
}

/// Explores the full suite of an engine, or its directed scenarios alone.
pub fn run(engine: Engine, directed: bool, json: bool) -> Outcome {
    let mut report = SuiteReport::default();
    if directed {
        let cases = directed_cases(engine).into_iter().map(|case| case.judging().briefly());
        explore(&mut report, &cases.collect::<Vec<_>>(), BTreeSet::new());
    } else {
        explore(&mut report, &full_suite(engine), BTreeSet::new());
    }
    for seed in FULL_SUITE_SEEDS + 1..=MAX_SEEDS {
        if directed || report.images >= MIN_IMAGES || !report.violations.is_empty() {
            break;
        }
        explore(&mut report, &more_cases(engine, seed), BTreeSet::new());
    }
    let mut shortcomings = report.shortcomings();
    if !directed && report.images < MIN_IMAGES {
        shortcomings.push(format!(
            "only {} distinct images were explored, not {MIN_IMAGES}",
            report.images
        ));
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
    let Summary {
        engine, operations, crash_points, states, images, recoveries, explorations, ..
    } = summary;
    let mut text = format!(
        "{engine}: {explorations} explorations ({} of them exhaustive; at most {} images and {} \
        interleavings left out), {operations} operations, \
        {crash_points} crash points ({} of them exhausted by what is read, {} sampled), {states} \
        states with {images} distinct images, {recoveries} recoveries\n{} violations; {} of {} \
        sites reached; {} of {} mutants broke something; {} flushes and {} fences without work\n\n",
        summary.exhaustive_explorations,
        summary.left_out,
        summary.interleavings_left_out,
        summary.lazily_exhaustive_points,
        summary.sampled_points,
        summary.violations,
        summary.sites_reached,
        summary.sites,
        summary.mutants_killed,
        summary.mutants,
        summary.redundant_flushes,
        summary.redundant_fences,
    );
    text += "kind           path                                operations  barriers on it\n";
    for (kind, coverage) in &report.coverage {
        let reached = coverage.sites.intersection(&coverage.reached).count();
        text += &format!(
            "{:<14} {reached} of {} barriers reached\n",
            kind.name(),
            coverage.sites.len()
        );
        for ((operation, way), (times, sites)) in &coverage.paths {
            text += &format!(
                "{:<14} {:<35} {times:>10} {:>15}\n",
                kind.name(),
                format!("{operation}: {way}"),
                sites.len()
            );
        }
    }
    text += "\nmutant                                broke something in the exploration\n";
    for (mutant, case) in &report.killed {
        text += &format!("{:<37} {case}\n", mutant.to_string());
    }
    for (mutant, reason) in &summary.argued {
        text += &format!("{mutant:<37} breaks nothing and is right: {reason}\n");
    }
    text += &format!(
        "\nof one path: {} of {} mutants broke something; not told apart from the program:\n",
        summary.mutants_by_path_killed, summary.mutants_by_path
    );
    for mutant in &summary.not_distinguished {
        text += &format!("{mutant}\n");
    }
    text
}

/// Mutants that are [argued for](everleaf_testkit::argument), each with the reason. They are the
/// program in another order, so they count as no mutants.
pub type Arguments = BTreeMap<String, &'static str>;

fn arguments<'m>(mutants: impl IntoIterator<Item = &'m Mutant>) -> Arguments {
    mutants
        .into_iter()
        .filter_map(|mutant| Some((mutant.to_string(), argument(*mutant)?)))
        .collect()
}

/// Takes those that are argued for out of a report.
pub fn set_argued_apart(report: &mut Report) -> Arguments {
    let argued = arguments(&report.survivors);
    report.survivors.retain(|mutant| argument(*mutant).is_none());
    report.mutants = report.mutants.map(|mutants| mutants - argued.len());
    argued
}

/// Lets the directed scenarios of an engine judge the mutants in which an exploration did not
/// break: all of the engine, or with `whole` unset those only that the exploration met. Returns how
/// many scenarios were explored.
pub fn ask_directed(
    engine: Engine,
    whole: bool,
    report: &mut Report,
    argued: &mut Arguments,
) -> Result<usize, Failure> {
    if !whole && report.survivors.is_empty() {
        return Ok(0);
    }
    let cases: Vec<Case> = directed_cases(engine).into_iter().map(Case::judging).collect();
    let mut spared: BTreeSet<Mutant> = report.killed.iter().map(|(mutant, _)| *mutant).collect();
    if !whole {
        spared.extend(every_mutant(engine).filter(|mutant| !report.survivors.contains(mutant)));
    }
    let mut directed = SuiteReport::default();
    explore(&mut directed, &cases, spared);
    if let Some((name, violation)) = directed.violations.first() {
        complain(&format!("{name}:\n{violation}"));
        return Err(Failure::failed(format!(
            "a crash state of the directed scenario `{name}` is not recovered from"
        )));
    }
    if let Some((name, why)) = directed.failures.first() {
        return Err(Failure::failed(format!(
            "the directed scenario `{name}` could not be explored: {why}"
        )));
    }
    report.survivors.extend(directed.survivors());
    report.survivors.sort_unstable();
    report.survivors.dedup();
    let killed =
        directed.killed.iter().filter(|(mutant, _)| whole || report.survivors.contains(mutant));
    report.killed.extend(
        killed.map(|(mutant, case)| (*mutant, format!("in the directed scenario `{case}`"))),
    );
    report.survivors.retain(|mutant| !directed.killed.contains_key(mutant));
    if whole {
        let sites: BTreeSet<Site> = report.sites.iter().chain(&directed.sites).copied().collect();
        let reached: BTreeSet<Site> =
            report.sites_reached.iter().chain(&directed.reached).copied().collect();
        report.mutants = Some(report.killed.len() + report.survivors.len());
        argued.extend(arguments(&directed.argued));
        report.unreached = sites.difference(&reached).copied().collect();
        report.sites = sites.into_iter().collect();
        report.sites_reached = reached.into_iter().collect();
    }
    report.mutants_killed = report.mutants.map(|mutants| mutants - report.survivors.len());
    Ok(directed.cases)
}

fn explore(report: &mut SuiteReport, cases: &[Case], spared: BTreeSet<Mutant>) {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let bar = steps_bar(cases.len() as u64);
    continue_suite(report, cases, spared, threads, &mut |progress| {
        bar.set_position(progress.done as u64);
        bar.set_message(format!("{} images", progress.images));
    });
    bar.finish_and_clear();
}
