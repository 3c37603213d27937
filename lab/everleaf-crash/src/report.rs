//! What an exploration found.

use std::collections::{BTreeMap, BTreeSet};

use everleaf_pmem::Site;

use crate::Path;
use crate::mutant::Mutant;
use crate::redundant::Redundant;
use crate::violation::Violation;

/// What an exploration found. Counts are exact and depend on subject and options only.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Operations explored.
    pub operations: usize,
    /// Moments of these operations at which a crash was tried: after every store and every fence,
    /// and after each operation.
    pub crash_points: u64,
    /// Distinct crash states: an image together with how many operations were acknowledged when it
    /// was left.
    pub states: u64,
    /// Distinct images among these states.
    pub images: u64,
    /// Recoveries run, those inside which a crash was tried included.
    pub recoveries: u64,
    /// What broke; at most one for each operation and for each time between two.
    pub violations: Vec<Violation>,
    /// Every barrier that the subject declares.
    pub sites: Vec<Site>,
    /// Those of them that an explored operation or recovery executed.
    pub sites_reached: Vec<Site>,
    /// Those of them that none did.
    pub unreached: Vec<Site>,
    /// Barriers that were executed but not declared.
    pub undeclared: Vec<Site>,
    /// Mutants that were explored; none if not asked for, or if the program itself has violations.
    pub mutants: Option<usize>,
    /// Those of them that made some state break.
    pub mutants_killed: Option<usize>,
    /// The mutants in which nothing broke.
    pub survivors: Vec<Mutant>,
    /// What broke in each other mutant.
    pub killed: Vec<(Mutant, String)>,
    /// Mutants of one path in which nothing broke, or whose mutant on all paths together survived
    /// here, so that they were not explored: the barrier is changed on this path and kept on
    /// all others. So the exploration does not tell whether it is needed there. None of programs of
    /// several threads, and none if [not asked for](crate::Options::by_path).
    pub survivors_on: BTreeSet<(Mutant, Path)>,
    /// Mutants of one path in which something broke.
    pub killed_on: BTreeSet<(Mutant, Path)>,
    /// Flushes of lines that nothing was stored to since their last flush.
    pub redundant_flushes: Vec<Redundant>,
    /// Fences that had nothing to wait for.
    pub redundant_fences: Vec<Redundant>,
    /// Whether every possible image of every crash point (of every interleaving within the bound)
    /// was tried, or one that could not be told from it, and none of them broke anything: crash
    /// points of the operations, of the recoveries from crashes there, and of the operations after
    /// these recoveries. [`exhaustive_depth`](Self::exhaustive_depth) says how much deeper.
    pub exhaustive: bool,
    /// How many crashes inside recoveries, each in the recovery from the one before, were tried
    /// wherever they can come; 0 where the exploration is not [exhaustive](Self::exhaustive). At
    /// most [`Options::recovery_depth`](crate::Options::recovery_depth), and less where what is
    /// deeper is too much.
    pub exhaustive_depth: u8,
    /// Crash points with more images than the budget allows, of which all were accounted for
    /// nevertheless: for each there was one tried that recovery and checks could not tell from it,
    /// since they do not read what differs.
    pub lazily_exhaustive_points: u64,
    /// Crash points where only a sample was tried: of their images, or of those that a second
    /// crash, inside the recovery of one, can leave.
    pub sampled_points: u64,
    /// The same by the number of the operation that was cut, or of the step of a program of several
    /// threads.
    pub sampled_in: BTreeMap<usize, u64>,
    /// Possible images that were not tried, nor any that could not be told from them, at most (an
    /// image that is possible at several crash points may be counted more than once).
    /// [`u64::MAX`]: more than can be counted.
    pub left_out: u64,
    /// The seed of everything that was drawn at random.
    pub seed: u64,
    /// Interleavings of threads that were run; none if the program has but one thread.
    pub interleavings: Option<u64>,
    /// Those of them that were drawn by chance and have more preemptions than the bound.
    pub interleavings_beyond: u64,
    /// Interleavings within the bound that were not run, at least: those derived from them are not
    /// counted.
    pub interleavings_left_out: u64,
    /// The most preemptions of the interleavings that were explored systematically; none if one
    /// interleaving was run again.
    pub preemption_bound: Option<usize>,
}

impl Report {
    /// Whether nothing broke and, where it was asked for, each barrier proved to be needed.
    pub fn is_good(&self) -> bool {
        self.violations.is_empty() && self.survivors.is_empty()
    }

    /// Times that a flush had nothing to do.
    pub fn redundant_flush_count(&self) -> u64 {
        self.redundant_flushes.iter().map(|row| row.redundant).sum()
    }

    /// Times that a fence had nothing to do.
    pub fn redundant_fence_count(&self) -> u64 {
        self.redundant_fences.iter().map(|row| row.redundant).sum()
    }

    /// The flushes and the fences that had nothing to do.
    pub fn redundant(&self) -> impl Iterator<Item = &Redundant> {
        self.redundant_flushes.iter().chain(&self.redundant_fences)
    }
}

/// How far an exploration is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// Operations explored so far, of so many.
    Operations {
        /// So far.
        done: usize,
        /// In all.
        of: usize,
        /// States seen so far.
        states: u64,
    },
    /// Steps of a program of several threads explored so far, of so many.
    Interleavings {
        /// The step.
        step: usize,
        /// In all.
        of: usize,
        /// Interleavings of it that were run.
        run: u64,
        /// Distinct crash states seen so far.
        states: u64,
    },
    /// Mutants of the program explored so far, of so many.
    Mutants {
        /// So far.
        done: usize,
        /// In all.
        of: usize,
    },
}
