//! Everything that is explored of an engine: directed scenarios, which also judge the barriers, and random ones.
//!
//! Map of the files: `case` (one exploration) · `directed` `rings` `random` (which there are) · `run` (exploring many) · `report` (what they found
//! together).

mod case;
mod directed;
mod random;
mod report;
mod rings;
mod run;

use everleaf::Engine;

pub use case::{Case, CaseSubject};
pub use report::SuiteReport;
pub use run::{SuiteProgress, run_suite};

/// Barriers that no exploration misses and that stay all the same, each with the reason. Every other survivor is a mistake: of the code, where the
/// barrier is redundant, or of the scenarios.
pub const ARGUED: &[(&str, &str)] = &[];

/// The directed scenarios of an engine: every barrier is reached, and missed where it is left out.
pub fn directed_cases(engine: Engine) -> Vec<Case> {
    directed::directed(engine)
}

/// The full suite of an engine: the directed scenarios, the same under kinder assumptions about the hardware, and random ones of every key
/// type and assumption, with more than a million distinct images together.
pub fn full_suite(engine: Engine) -> Vec<Case> {
    let directed = directed::directed(engine);
    let mut cases: Vec<Case> = directed.iter().cloned().map(Case::judging).collect();
    for assumptions in random::KINDER {
        cases.extend(directed.iter().map(|case| case.clone().under(assumptions)));
    }
    if rings::has_rings(engine) {
        cases.extend(rings::every_base_and_fill(engine));
    }
    cases.extend(random::random(engine));
    cases
}
