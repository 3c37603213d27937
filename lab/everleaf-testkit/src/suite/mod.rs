//! Everything that is explored of an engine: directed scenarios, which also judge the barriers, and
//! random ones.
//!
//! Map of the files: `case` (one exploration) · `directed` `sorted` `appended` `refused` `epochs`
//! `random` (which there are) · `run` (exploring many) · `report` (what they found together).

mod appended;
mod case;
mod directed;
mod epochs;
mod random;
mod refused;
mod report;
mod run;
mod sorted;

use everleaf::Engine;
use everleaf_crash::Mutant;

use crate::{POOL_SITES, engine_sites};

pub use case::{Case, CaseKind, CaseSubject};
pub use report::{Coverage, SuiteReport};
pub use run::{SuiteProgress, continue_suite, run_suite};

/// Mutants in which no exploration breaks and that are right all the same, each with the reason.
/// Every other survivor is a mistake: of the code, where a barrier is redundant, or of the
/// scenarios.
pub const ARGUED: &[(&str, &str)] = &[
    (
        "nvtree.recover.R3.fence",
        "before a record is freed to which a pointer still leads that was made null here, the one \
        thread that is explored fences; the fence is for a tree that another thread uses then",
    ),
    (
        "swap nvtree.split.S3.fence",
        "what follows is an element of another leaf, and recovery forgets once more what it finds \
        in a leaf that is not in the list; that it is durable before a record is freed is what the \
        fence is for: left out, it is missed",
    ),
    (
        "swap fptree.recover.R4.fence",
        "what follows is the next repair, of something else, and a log that is still there after a \
        crash is retired again; that it is \
         durable before the tree is used is what the fence is for: left out, it is missed",
    ),
    (
        "swap sorted.recover.R3.fence",
        "what follows is the repair of a merge by the same log, which has other words and other \
        nodes; left out, the fence is missed",
    ),
    (
        "swap sorted.recover.R4.fence",
        "what follows is the next worker's log, which speaks of other nodes; left out, the fence \
        is missed",
    ),
    (
        "swap pool.recover.retire.fence",
        "what follows is the next worker's intent, which speaks of other blocks, so either may be \
        settled first; that it is durable before \
         the slot serves a worker again is what the fence is for: left out, it is missed",
    ),
];

/// Flushes and fences that may find nothing to do, since they cannot know what the session before
/// has flushed, that the caller had nothing to prepare in a run, or which lines of a block an epoch
/// has written.
pub const UNKNOWING: &[&str] =
    &["pool.rescue.lines", "pool.run.R1.fence", "masstree.epoch.E1.lines"];

/// The reason, if this mutant is [argued for](ARGUED).
pub fn argument(mutant: Mutant) -> Option<&'static str> {
    let name = mutant.to_string();
    ARGUED.iter().find(|(argued, _)| *argued == name).map(|(_, reason)| *reason)
}

/// Every mutant that an engine, or the pool beneath it, can have, and some that it cannot.
pub fn every_mutant(engine: Engine) -> impl Iterator<Item = Mutant> {
    let sites = engine_sites(engine).chain(POOL_SITES.iter().copied());
    sites.flat_map(|site| {
        [Mutant::Without(site), Mutant::SwappedStores(site), Mutant::SwappedGroups(site)]
    })
}

/// The directed scenarios of an engine: every barrier is reached, and missed where it is left out.
pub fn directed_cases(engine: Engine) -> Vec<Case> {
    directed::directed(engine)
}

/// The full suite of an engine: the directed scenarios, the same under kinder assumptions about the
/// hardware, and random ones of every key type and assumption. [`more_cases`] are added until there
/// are as many images as are wanted.
pub fn full_suite(engine: Engine) -> Vec<Case> {
    let directed = directed::directed(engine);
    let mut cases: Vec<Case> = directed.iter().cloned().map(Case::judging).collect();
    for assumptions in random::KINDER {
        cases.extend(directed.iter().map(|case| case.clone().under(assumptions)));
    }
    if sorted::has_sorted_nodes(engine) {
        cases.extend(sorted::every_base_and_fill(engine));
    }
    cases.extend((1..=FULL_SUITE_SEEDS).flat_map(|seed| random::random(engine, seed)));
    cases
}

/// Seeds of the random scenarios in the [full suite](full_suite).
pub const FULL_SUITE_SEEDS: u64 = 2;

/// Random scenarios of another seed, greater than [`FULL_SUITE_SEEDS`].
pub fn more_cases(engine: Engine, seed: u64) -> Vec<Case> {
    random::random(engine, seed)
}
