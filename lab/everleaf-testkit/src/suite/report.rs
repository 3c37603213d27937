//! What the explorations of a suite found together.

use std::collections::{BTreeMap, BTreeSet};

use everleaf_crash::{Mutant, Path, Report, Violation};
use everleaf_pmem::Site;

use super::{CaseKind, argument};
use crate::may_be_idle;
use crate::{ALLOCATOR_PATHS, PATHS, PathTaken, WIDE_PATHS};

/// What the explorations of a suite found together.
#[derive(Clone, Debug, Default)]
pub struct SuiteReport {
    /// Explorations made.
    pub cases: usize,
    /// Those of them that were exhaustive.
    pub exhaustive_cases: usize,
    /// Operations explored.
    pub operations: usize,
    /// Moments at which a crash was tried.
    pub crash_points: u64,
    /// Distinct crash states: images, each with what was acknowledged when it was left.
    pub states: u64,
    /// Distinct images, counted in each exploration by itself. Every exploration fills its fresh
    /// memory with other garbage.
    pub images: u64,
    /// Recoveries run.
    pub recoveries: u64,
    /// Possible images that were not tried, at most.
    pub left_out: u64,
    /// Interleavings of threads that were not run, at most.
    pub interleavings_left_out: u64,
    /// Crash points with too many images to list, of which all were accounted for by what recovery
    /// and checks read.
    pub lazily_exhaustive_points: u64,
    /// Crash points of which only a sample of the images was tried.
    pub sampled_points: u64,
    /// What broke, with the name of the exploration.
    pub violations: Vec<(String, Violation)>,
    /// Explorations that could not be made, and why.
    pub failures: Vec<(String, String)>,
    /// Every barrier that is declared.
    pub sites: BTreeSet<Site>,
    /// Those that were executed.
    pub reached: BTreeSet<Site>,
    /// Barriers that were executed and not declared, but for those of the test's own structures.
    pub undeclared: BTreeSet<Site>,
    /// Mutants that were explored, but for the next.
    pub mutants: BTreeSet<Mutant>,
    /// Those that were explored and are [argued for](crate::argument): they behave as the program
    /// does, so nothing broke.
    pub argued: BTreeSet<Mutant>,
    /// Those of them in which something broke, with the exploration that found it.
    pub killed: BTreeMap<Mutant, String>,
    /// Mutants of one path that were explored; of those that are argued for, none.
    pub mutants_on: BTreeSet<(Mutant, Path)>,
    /// Those of them in which something broke.
    pub killed_on: BTreeSet<(Mutant, Path)>,
    /// Times that a flush had nothing to do.
    pub redundant_flushes: u64,
    /// Times that a fence had nothing to wait for.
    pub redundant_fences: u64,
    /// Flushes and fences that had nothing to do, how often, by barrier.
    pub redundant: BTreeMap<Site, u64>,
    /// Whether there were values of several words, which go ways of their own.
    pub wide_values: bool,
    /// What each kind of exploration covered.
    pub coverage: BTreeMap<CaseKind, Coverage>,
}

/// What explorations of one kind covered.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// Barriers that are declared there.
    pub sites: BTreeSet<Site>,
    /// Those that were executed: with several threads, in any interleaving; in recoveries as well.
    pub reached: BTreeSet<Site>,
    /// How often each way through an operation was explored, and the barriers on it. Of threads,
    /// the way that an operation takes when they run one after another: in other interleavings it
    /// may take another one.
    pub paths: BTreeMap<Path, (u64, BTreeSet<Site>)>,
}

impl SuiteReport {
    /// Takes in what one exploration found. The barriers of the test's own structures are left out.
    pub fn add(&mut self, name: &str, kind: CaseKind, report: Report, paths: Vec<PathTaken>) {
        let own = |site: &Site| site.name().starts_with("testkit.");
        let mut report = report;
        report.redundant_flushes.retain(|row| !may_be_idle(row.site));
        report.redundant_fences.retain(|row| !may_be_idle(row.site));
        self.cases += 1;
        self.exhaustive_cases += usize::from(report.exhaustive);
        self.operations += report.operations;
        self.crash_points += report.crash_points;
        self.states += report.states;
        self.images += report.images;
        self.recoveries += report.recoveries;
        self.left_out = self.left_out.saturating_add(report.left_out);
        self.interleavings_left_out =
            self.interleavings_left_out.saturating_add(report.interleavings_left_out);
        self.lazily_exhaustive_points += report.lazily_exhaustive_points;
        self.sampled_points += report.sampled_points;
        self.redundant_flushes += report.redundant_flush_count();
        self.redundant_fences += report.redundant_fence_count();
        for row in report.redundant() {
            *self.redundant.entry(row.site).or_default() += row.redundant;
        }
        self.undeclared.extend(report.undeclared.into_iter().filter(|site| !own(site)));
        let coverage = self.coverage.entry(kind).or_default();
        coverage.reached.extend(&report.sites_reached);
        coverage.sites.extend(&report.sites);
        for (path, sites) in paths {
            let (times, on_it) = coverage.paths.entry(path).or_default();
            *times += 1;
            on_it.extend(sites);
        }
        self.reached.extend(report.sites_reached);
        self.sites.extend(report.sites);
        for mutant in report.survivors.into_iter().filter(|mutant| !own(&mutant.site())) {
            let list =
                if argument(mutant).is_some() { &mut self.argued } else { &mut self.mutants };
            list.insert(mutant);
        }
        self.add_killed(name, report.killed);
        self.add_on_paths(report.survivors_on, report.killed_on);
        self.violations
            .extend(report.violations.into_iter().map(|violation| (name.to_owned(), violation)));
    }

    /// Takes in the mutants in which an exploration broke something.
    pub fn add_killed(&mut self, name: &str, killed: Vec<(Mutant, String)>) {
        for (mutant, _) in killed {
            if !mutant.site().name().starts_with("testkit.") {
                self.mutants.insert(mutant);
                self.killed.entry(mutant).or_insert_with(|| name.to_owned());
            }
        }
    }

    /// Takes in the mutants of one path of an exploration.
    pub fn add_on_paths(
        &mut self,
        survivors: BTreeSet<(Mutant, Path)>,
        killed: BTreeSet<(Mutant, Path)>,
    ) {
        let counts = |(mutant, _): &(Mutant, Path)| {
            argument(*mutant).is_none() && !mutant.site().name().starts_with("testkit.")
        };
        self.killed_on.extend(killed.into_iter().filter(counts));
        self.mutants_on.extend(survivors.into_iter().filter(counts));
        self.mutants_on.extend(&self.killed_on);
    }

    /// Mutants of one path in which nothing broke: no exploration tells whether the barrier is
    /// needed on this path.
    pub fn not_distinguished(&self) -> Vec<(Mutant, Path)> {
        self.mutants_on.difference(&self.killed_on).copied().collect()
    }

    /// Barriers that are declared and were never executed.
    pub fn unreached(&self) -> Vec<Site> {
        self.sites.difference(&self.reached).copied().collect()
    }

    /// Mutants in which nothing broke.
    pub fn survivors(&self) -> Vec<Mutant> {
        self.mutants.iter().filter(|mutant| !self.killed.contains_key(mutant)).copied().collect()
    }

    /// How often explorations of a kind took a path.
    pub fn times(&self, kind: CaseKind, path: &Path) -> u64 {
        self.coverage
            .get(&kind)
            .and_then(|coverage| coverage.paths.get(path))
            .map_or(0, |(times, _)| *times)
    }

    /// Paths through an index, and through the allocator if that was explored too, that no explored
    /// operation took.
    pub fn paths_not_taken(&self) -> Vec<Path> {
        let of = |kind, paths: &'static [Path]| {
            paths.iter().filter(move |path| self.times(kind, path) == 0).copied()
        };
        let possible = |path: &Path| self.wide_values || !WIDE_PATHS.contains(path);
        let has_allocator = self.coverage.contains_key(&CaseKind::Allocator);
        let of_allocator = if has_allocator { ALLOCATOR_PATHS } else { &[] };
        of(CaseKind::Index, PATHS)
            .filter(possible)
            .chain(of(CaseKind::Allocator, of_allocator))
            .collect()
    }

    /// What is wrong or missing, each a sentence; nothing if all is well.
    pub fn shortcomings(&self) -> Vec<String> {
        let names = |sites: Vec<Site>| sites.iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut sentences: Vec<String> = Vec::new();
        sentences.extend(
            self.violations
                .iter()
                .map(|(name, _)| format!("a crash state of `{name}` is not recovered from")),
        );
        sentences.extend(
            self.failures
                .iter()
                .map(|(name, why)| format!("`{name}` could not be explored: {why}")),
        );
        for (what, missing) in [
            ("no exploration reached", names(self.unreached())),
            (
                "nothing broke in these mutants:",
                self.survivors().iter().map(ToString::to_string).collect(),
            ),
            ("these barriers are not declared:", names(self.undeclared.iter().copied().collect())),
        ] {
            if !missing.is_empty() {
                sentences.push(format!("{what} {}", missing.join(", ")));
            }
        }
        sentences.extend(
            self.paths_not_taken()
                .iter()
                .map(|(operation, path)| format!("no {operation} took the path `{path}`")),
        );
        sentences.extend(
            self.redundant
                .iter()
                .map(|(site, times)| format!("{times} times `{site}` had nothing to do")),
        );
        sentences
    }
}
