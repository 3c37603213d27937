//! Random scenarios.

use everleaf::{Engine, EngineParameters};
use everleaf_crash::Assumptions;

use super::case::Case;
use crate::Level::{Index, Store};
use crate::ScriptKeys::{Bytes, U64};
use crate::families;
use crate::{AllocatorSubject, EngineSubject, Scenario};

/// What may be assumed of the hardware beyond the model.
pub(super) const STRONGER_HARDWARE: [Assumptions; 2] = [
    Assumptions { eadr: true, atomic_line: false },
    Assumptions { eadr: false, atomic_line: true },
];

/// Images a crash point: more than the smallest scenarios need to be exhaustive.
const BUDGET: u64 = 256;

/// Random operations on indexes, stores and the allocator.
pub(super) fn random(engine: Engine, seed: u64) -> Vec<Case> {
    let mut cases = Vec::new();
    for (keys, level, words, operations, budget) in [
        (U64, Index, 1, 400, BUDGET),
        (U64, Index, 2, 200, BUDGET),
        (Bytes, Index, 1, 400, BUDGET),
        (Bytes, Index, 2, 200, BUDGET),
        (Bytes, Index, 14, 60, 32),
        (U64, Store, 1, 60, 64),
        (Bytes, Store, 1, 40, 64),
    ] {
        if words > engine.entry().max_value_words || !keys.are_of(engine) {
            continue;
        }
        let share = families::of(engine).map_or(1, |(family, _)| family.random_share);
        let (operations, budget) = (operations / share as usize, budget / share);
        let name = format!("random, {keys:?}, {level:?}, {words} words, seed {seed}");
        let scenario = match level {
            Index => Scenario::random(keys, operations, seed),
            Store => Scenario::random_of_store(keys, operations, seed),
        };
        let tiny = EngineSubject::tiny_parameters(engine);
        if engine.entry().parameters.contains(&EngineParameters::LOG_RANGES) {
            let (name, ranges) = (format!("{name}, ranges"), tiny.log_ranges(true));
            let case = Case::of_engine(name, engine, level, words, ranges, scenario.clone());
            cases.push(case.with_budget(budget).seeded(seed + 3000));
        }
        if level == Index && engine.entry().parameters.contains(&EngineParameters::BUFFERS) {
            let (name, buffers) = (format!("{name}, buffers"), tiny.buffers(true));
            let case = Case::of_engine(name, engine, level, words, buffers, scenario.clone());
            cases.push(case.with_budget(budget).seeded(seed + 4000));
        }
        let case = Case::of_engine(name, engine, level, words, tiny, scenario);
        cases.push(case.with_budget(budget).seeded(seed));
        if seed == 1 {
            cases.extend(
                STRONGER_HARDWARE
                    .map(|assumptions| cases[cases.len() - 1].clone().under(assumptions)),
            );
        }
    }
    let allocator = Case::of_allocator(
        format!("random, allocator, seed {seed}"),
        AllocatorSubject::random(40, seed),
    );
    cases.push(allocator.with_budget(32).seeded(seed));
    cases
}
