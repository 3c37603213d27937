//! Everything that is explored of an engine: directed scenarios, which also judge the barriers, and
//! random ones.
//!
//! Map of the files: `case` (one exploration) · `directed` `stores` `refused` `random` (which there
//! are, beside those of families) · `run` (exploring many) · `report` (what they found together).

mod case;
mod directed;
mod random;
mod refused;
mod report;
mod run;
mod stores;

use everleaf::{Contract, Engine};
use everleaf_crash::Mutant;

use crate::families;
use crate::{POOL_SITES, engine_sites};

pub use case::{Case, CaseKind, CaseSubject};
pub use report::{Coverage, SuiteReport};
pub use run::{SuiteProgress, continue_suite, run_suite};

/// The reason, if this mutant may survive.
pub fn argument(mutant: Mutant) -> Option<&'static str> {
    families::why_equivalent(&mutant.to_string())
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
/// are as many images as are wanted. What one exploration may cost is bounded; where that leaves
/// anything out, it is counted.
pub fn full_suite(engine: Engine) -> Vec<Case> {
    let directed: Vec<Case> = directed::directed(engine).into_iter().map(Case::bounded).collect();
    let mut cases: Vec<Case> = directed.iter().cloned().map(Case::judging_by_path).collect();
    for assumptions in random::STRONGER_HARDWARE {
        cases.extend(directed.iter().map(|case| case.clone().under(assumptions)));
    }
    let more = families::of(engine).map(|(family, _)| (family.more)(engine)).unwrap_or_default();
    let more = more.into_iter().map(|scenario| Case::directed(engine, scenario));
    cases.extend((5000..).zip(more).map(|(seed, case)| case.bounded().seeded(seed)));
    let large = if engine.contract() == Contract::Strict { stores::large(engine) } else { vec![] };
    cases.extend((6000..).zip(large).map(|(seed, case)| case.bounded().seeded(seed)));
    cases.extend((1..=FULL_SUITE_SEEDS).flat_map(|seed| more_cases(engine, seed)));
    cases
}

/// Seeds of the random scenarios in the [full suite](full_suite).
pub const FULL_SUITE_SEEDS: u64 = 2;

/// Random scenarios of another seed, greater than [`FULL_SUITE_SEEDS`].
pub fn more_cases(engine: Engine, seed: u64) -> Vec<Case> {
    random::random(engine, seed).into_iter().map(Case::bounded).collect()
}
