//! The explorer on the engines of this release: a smoke part of what `everleaf explore` does at length.

use everleaf::Engine;
use everleaf_crash::{Options, Report, explore};
use everleaf_testkit::{EngineSubject, Level, Scenario, ScriptKeys};

fn explored(engine: Engine, level: Level, scenario: Scenario, mutate: bool) -> Report {
    let subject = EngineSubject::new(engine, EngineSubject::tiny_parameters(), level, scenario);
    let options = Options { len: 96 << 10, max_len: 256 << 10, budget: 64, recovery_budget: 8, mutate, ..Options::default() };
    let report = explore(&subject, &options).expect("the operations run");
    assert!(report.violations.is_empty(), "{engine}, {level:?}: {}", report.violations[0]);
    assert_eq!(report.undeclared, [], "{engine}: every barrier is declared");
    assert_eq!(report.redundant_flush_count(), 0, "{engine}: {:?}", report.redundant_flushes);
    report
}

#[test]
fn every_engine_survives_random_operations() {
    for engine in [Engine::FpTree, Engine::PTree] {
        for keys in [ScriptKeys::U64, ScriptKeys::Bytes] {
            for seed in [11, 12] {
                explored(engine, Level::Index, Scenario::random(keys, 60, seed), false);
            }
        }
    }
}

#[test]
fn the_store_survives_random_operations() {
    for keys in [ScriptKeys::U64, ScriptKeys::Bytes] {
        explored(Engine::FpTree, Level::Store, Scenario::random(keys, 25, 13), false);
    }
}

#[test]
fn leaves_that_are_emptied_and_trees_that_are_filled_again_survive() {
    let fill = |from: u64, to: u64| (from..to).map(|i| format!("insert {} {i}\n", i * 7 % 13 + i)).collect::<String>();
    let empty = |from: u64, to: u64| (from..to).map(|i| format!("remove {}\n", i * 7 % 13 + i)).collect::<String>();
    let script = format!("{}explore\n{}{}reopen\n{}", fill(0, 9), empty(0, 9), fill(0, 9), empty(3, 9));
    for keys in [ScriptKeys::U64, ScriptKeys::Bytes] {
        explored(Engine::FpTree, Level::Index, Scenario::parse(&script, Some(keys)).unwrap(), false);
    }
}
