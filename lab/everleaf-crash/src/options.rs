//! How thoroughly, and under which assumptions about the hardware.

use std::collections::BTreeSet;

use everleaf_pmem::{LineAtomicity, MapError};

use crate::{Mutant, Path, Traced};

/// What is assumed of the hardware beyond the model (`docs/persistence-model.md`). Nothing, by
/// default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Assumptions {
    /// Caches are inside the power-fail domain: ordinary stores become durable in program order,
    /// without flushes. A store that no fence has followed may still sit in the store buffer and be
    /// lost, together with everything after it.
    pub eadr: bool,
    /// A line written by one failure-atomic line write is there whole or not at all.
    pub atomic_line: bool,
}

/// Parameters of an exploration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of the memory that [`Subject::prepare`](crate::Subject::prepare) is given.
    pub len: u64,
    /// Bytes that it can grow to.
    pub max_len: u64,
    /// Seed of everything drawn at random: the garbage in fresh memory, and samples where a crash
    /// point has too many images.
    pub seed: u64,
    /// Images tried at one crash point. Where there are more, one of each kind that recovery and
    /// checks can tell apart by what they read; where these are more as well, a sample.
    pub budget: u64,
    /// How many crashes inside recovery are explored on top of the first: 0 none, 1 a crash in the
    /// recovery of each image, 2 a crash in the recovery from that one as well. How deep everything
    /// was tried is in the [report](crate::Report::exhaustive_depth).
    pub recovery_depth: u8,
    /// The same for a crash point inside a recovery.
    pub recovery_budget: u64,
    /// Recoveries that one crash point of the operations may cost, those of crashes inside
    /// recoveries included. They are shared out among its images and the crash points of their
    /// recoveries; what would cost more is left out. Deeper crashes, and those behind what a
    /// recovery has left durably, cost at most half of all other recoveries, and so many more.
    pub recoveries: u64,
    /// Recoveries that the exploration of operations which run one after another may cost in all;
    /// so may that of each mutant, unless it is [bounded](Self::mutant_recoveries). Each crash
    /// point gets an even share of what is left, doubled, since most need less; then its images are
    /// so many at most as well, and what would cost more is left out.
    pub all_recoveries: u64,
    /// Recoveries that the exploration of one mutant may cost in all, shared out in the same way:
    /// most that break do so soon, and one that survives here may be killed by another program. Of
    /// threads, no further interleaving of a mutant is explored that has cost as many.
    pub mutant_recoveries: u64,
    /// Work that the exploration of the program may cost in all, in accesses to memory: those of
    /// recoveries and their checks, and so many as take about the time of an image that is copied,
    /// or of a program that is run with its threads. What would cost more is left out, as with
    /// [`all_recoveries`](Self::all_recoveries); interleavings are then not run.
    pub work: u64,
    /// Recoveries that the interleavings of one step of a program of several threads may cost
    /// together, and those of each of its mutants. A quarter of what is left is for those with
    /// fewest preemptions, and so on. Where a crash point's share is less than the extremes of a
    /// few lines, chance says which points are tried; the others are left out.
    pub step_recoveries: u64,
    /// Operations run and explored after a recovery: where it returned before all it wrote was
    /// durable, or left work for the next operation; and once for each memory that recoveries leave
    /// and that these operations can tell from the others.
    pub follow_up: usize,
    /// What is assumed of the hardware.
    pub assumptions: Assumptions,
    /// What the media tells the program of whole-line writes; none: what is assumed. Another
    /// promise shows what becomes of a program that believes it.
    pub promised: Option<LineAtomicity>,
    /// Whether to explore each [`Mutant`] of the program as well, and see whether anything breaks.
    pub mutate: bool,
    /// Mutants that need not be explored, because another exploration has killed them.
    pub spared: BTreeSet<Mutant>,
    /// Whether to explore, with the mutants, each of them on one path at a time as well.
    pub by_path: bool,
    /// Of these the ones that need not be explored.
    pub spared_on: BTreeSet<(Mutant, Path)>,
    /// The only mutants that are explored; none: all.
    pub asked: Option<BTreeSet<Mutant>>,
    /// The exploration stops after so many violations (each is the first one of its operation).
    pub violation_limit: usize,
    /// Accesses to memory that one recovery with its checks may make, before it counts as endless.
    pub access_limit: u64,
    /// Interleavings of threads with at most so many preemptions are explored, all of them if
    /// [`interleavings`](Self::interleavings) allows.
    pub preemption_bound: usize,
    /// Interleavings explored in one step of a program of several threads; where there are more
    /// within the bound, a sample is.
    pub interleavings: u64,
    /// Interleavings drawn by chance in each step, on top of those within the bound.
    pub interleavings_beyond: u64,
}

impl Options {
    /// Whether a mutant is to be explored.
    pub(crate) fn asks_for(&self, mutant: Mutant) -> bool {
        let is_asked = self.asked.as_ref().is_none_or(|asked| asked.contains(&mutant));
        is_asked && !self.spared.contains(&mutant)
    }

    /// Whether a mutant is to be explored on one path.
    pub(crate) fn asks_for_on(&self, mutant: Mutant, path: Path) -> bool {
        let is_asked = self.asked.as_ref().is_none_or(|asked| asked.contains(&mutant));
        self.by_path && is_asked && !self.spared_on.contains(&(mutant, path))
    }

    /// Memory that holds garbage, for the program.
    pub(crate) fn fresh_media(&self) -> Result<Traced, MapError> {
        self.promising(Traced::new(self.len, self.max_len, self.seed)?)
    }

    /// Memory that holds `image`, for the program.
    pub(crate) fn media_of(&self, image: &[u64]) -> Result<Traced, MapError> {
        self.promising(Traced::from_image(image, self.max_len, self.seed)?)
    }

    /// A program may rely on what is assumed of lines.
    fn promising(&self, media: Traced) -> Result<Traced, MapError> {
        let assumed =
            if self.assumptions.atomic_line { LineAtomicity::Line } else { LineAtomicity::Words };
        let media = media.with_line_atomicity(self.promised.unwrap_or(assumed));
        Ok(media.expect("nobody else has this memory yet"))
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            len: 64 << 10,
            max_len: 1 << 20,
            seed: 1,
            budget: 4096,
            recovery_depth: 2,
            recovery_budget: 256,
            recoveries: 65_536,
            all_recoveries: u64::MAX,
            mutant_recoveries: u64::MAX,
            work: u64::MAX,
            step_recoveries: u64::MAX,
            follow_up: 1,
            assumptions: Assumptions::default(),
            promised: None,
            mutate: false,
            spared: BTreeSet::new(),
            by_path: false,
            spared_on: BTreeSet::new(),
            asked: None,
            violation_limit: 4,
            access_limit: 10_000_000,
            preemption_bound: 2,
            interleavings: 20_000,
            interleavings_beyond: 100,
        }
    }
}
