//! What the explorations of a suite found together.

use std::collections::{BTreeMap, BTreeSet};

use everleaf_crash::{Report, Violation};
use everleaf_pmem::Site;

use super::ARGUED;
use crate::{PATHS, Path, WIDE_PATHS};

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
    /// Distinct images, counted in each exploration by itself. Every exploration fills its fresh memory with other garbage.
    pub images: u64,
    /// Recoveries run.
    pub recoveries: u64,
    /// Possible images that were not tried, at most.
    pub left_out: u64,
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
    /// Barriers that were suppressed.
    pub mutants: BTreeSet<Site>,
    /// Those of them that were missed, with the exploration that missed them.
    pub killed: BTreeMap<Site, String>,
    /// Times that a flush had nothing to do.
    pub redundant_flushes: u64,
    /// Times that a fence had nothing to wait for, by barrier.
    pub redundant_fences: BTreeMap<Site, u64>,
    /// Whether there were values of several words, which go ways of their own.
    pub wide_values: bool,
    /// How often each way through an operation was explored.
    pub paths: BTreeMap<Path, u64>,
}

impl SuiteReport {
    /// Takes in what one exploration found. The barriers of the test's own structures are left out.
    pub fn add(&mut self, name: &str, report: Report, paths: Vec<Path>) {
        let own = |site: &Site| site.name().starts_with("testkit.");
        self.cases += 1;
        self.exhaustive_cases += usize::from(report.exhaustive);
        self.operations += report.operations;
        self.crash_points += report.crash_points;
        self.states += report.states;
        self.images += report.images;
        self.recoveries += report.recoveries;
        self.left_out = self.left_out.saturating_add(report.left_out);
        self.redundant_flushes += report.redundant_flush_count();
        for row in &report.redundant_fences {
            *self.redundant_fences.entry(row.site).or_default() += row.redundant;
        }
        self.undeclared.extend(report.undeclared.into_iter().filter(|site| !own(site)));
        self.reached.extend(report.sites_reached);
        self.sites.extend(report.sites);
        self.mutants.extend(report.survivors.into_iter().filter(|site| !own(site)));
        for (site, _) in report.killed.into_iter().filter(|(site, _)| !own(site)) {
            self.mutants.insert(site);
            self.killed.entry(site).or_insert_with(|| name.to_owned());
        }
        for path in paths {
            *self.paths.entry(path).or_default() += 1;
        }
        self.violations.extend(report.violations.into_iter().map(|violation| (name.to_owned(), violation)));
    }

    /// Barriers that are declared and were never executed.
    pub fn unreached(&self) -> Vec<Site> {
        self.sites.difference(&self.reached).copied().collect()
    }

    /// Barriers that nothing missed, but for those that are argued for.
    pub fn survivors(&self) -> Vec<Site> {
        let argued = |site: &Site| ARGUED.iter().any(|(name, _)| *name == site.name());
        self.mutants.iter().filter(|site| !self.killed.contains_key(site) && !argued(site)).copied().collect()
    }

    /// Paths that no explored operation took.
    pub fn untrodden(&self) -> Vec<Path> {
        let possible = |path: &&Path| self.wide_values || !WIDE_PATHS.contains(path);
        PATHS.iter().filter(possible).filter(|path| !self.paths.contains_key(*path)).copied().collect()
    }

    /// What is wrong or missing, each a sentence; nothing if all is well.
    pub fn shortcomings(&self) -> Vec<String> {
        let list = |sites: &[Site]| sites.iter().map(|site| site.name()).collect::<Vec<_>>().join(", ");
        let undeclared: Vec<Site> = self.undeclared.iter().copied().collect();
        let mut sentences: Vec<String> = Vec::new();
        sentences.extend(self.violations.iter().map(|(name, _)| format!("a crash state of `{name}` is not recovered from")));
        sentences.extend(self.failures.iter().map(|(name, why)| format!("`{name}` could not be explored: {why}")));
        for (what, sites) in [
            ("no exploration reached", self.unreached()),
            ("nothing missed, when they were suppressed,", self.survivors()),
            ("these barriers are not declared:", undeclared),
        ] {
            if !sites.is_empty() {
                sentences.push(format!("{what} {}", list(&sites)));
            }
        }
        sentences.extend(self.untrodden().iter().map(|(operation, path)| format!("no {operation} took the path `{path}`")));
        if self.redundant_flushes > 0 {
            sentences.push(format!("{} flushes had nothing to do", self.redundant_flushes));
        }
        sentences
    }
}
