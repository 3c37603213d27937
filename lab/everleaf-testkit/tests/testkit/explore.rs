//! The explorer on the engines of this release: a smoke part of what `everleaf-lab explore` does at
//! length.

use everleaf::Engine;
use everleaf_crash::{Options, Report, explore};
use everleaf_engines::pools;
use everleaf_testkit::{EngineSubject, Level, Scenario, ScriptKeys, folders, may_be_idle};

/// One engine for each way to write: of those with the same barriers the first.
fn trees() -> impl Iterator<Item = Engine> {
    let mut seen = Vec::new();
    pools().map(Engine::of).filter(move |engine| {
        let is_new = !seen.contains(&folders(*engine));
        seen.push(folders(*engine));
        is_new
    })
}

fn explored(engine: Engine, level: Level, scenario: Scenario, mutate: bool) -> Report {
    let subject =
        EngineSubject::new(engine, EngineSubject::tiny_parameters(engine), level, scenario);
    let (len, max_len) = (96 << 10, 256 << 10);
    let options = Options {
        len,
        max_len,
        budget: 24,
        recovery_budget: 4,
        recoveries: 96,
        // A mutant is a sample where the program is.
        all_recoveries: if mutate { 20_000 } else { 3_000 },
        mutate,
        ..Options::default()
    };
    let report = explore(&subject, &options).expect("the operations run");
    assert!(report.violations.is_empty(), "{engine}, {level:?}: {}", report.violations[0]);
    assert_eq!(report.undeclared, [], "{engine}: every barrier is declared");
    let redundant = report.redundant_flushes.iter().filter(|row| row.redundant > 0);
    let redundant: Vec<_> = redundant.filter(|row| !may_be_idle(row.site)).collect();
    assert!(redundant.is_empty(), "{engine}: {redundant:?}");
    report
}

#[test]
fn every_engine_survives_random_operations() {
    for engine in pools().map(Engine::of) {
        for keys in [ScriptKeys::U64, ScriptKeys::Bytes] {
            if !keys.are_of(engine) {
                continue;
            }
            explored(engine, Level::Index, Scenario::random(keys, 50, 11), false);
        }
    }
}

#[test]
fn the_store_survives_random_operations() {
    for keys in [ScriptKeys::U64, ScriptKeys::Bytes] {
        for engine in trees().filter(|engine| keys.are_of(*engine)) {
            explored(engine, Level::Store, Scenario::random_of_store(keys, 25, 13), false);
        }
    }
}

/// The chunk of a record that was removed, and is still in doubt, becomes a part of a run. A crash
/// then leaves a doubt about a block that the chunk no longer has.
#[test]
fn a_doubt_about_a_block_of_chunks_that_a_cut_link_takes_says_nothing() {
    let run = 5_u64 << 32;
    let script = format!(
        "insert 1 3\ninsert 2 3\nexplore\nupdate 1 {run}\nupdate 2 4\nupdate 1 4\n\
         update 1 {run}\nremove 1\ninsert 3 3\n"
    );
    let engine = trees().next().unwrap();
    let scenario = Scenario::parse(&script, Some(ScriptKeys::U64)).unwrap();
    explored(engine, Level::Store, scenario, false);
}

#[test]
fn leaves_that_are_emptied_and_trees_that_are_filled_again_survive() {
    let fill = |from: u64, to: u64| {
        (from..to).map(|i| format!("insert {} {i}\n", i * 7 % 13 + i)).collect::<String>()
    };
    let empty = |from: u64, to: u64| {
        (from..to).map(|i| format!("remove {}\n", i * 7 % 13 + i)).collect::<String>()
    };
    let script =
        format!("{}explore\n{}{}reopen\n{}", fill(0, 9), empty(0, 9), fill(0, 9), empty(3, 9));
    for keys in [ScriptKeys::U64, ScriptKeys::Bytes] {
        for engine in trees().filter(|engine| keys.are_of(*engine)) {
            explored(engine, Level::Index, Scenario::parse(&script, Some(keys)).unwrap(), false);
        }
    }
}

#[test]
fn barriers_of_plain_operations_are_needed() {
    let script = "insert 5 1\ninsert 3 1\nexplore\ninsert 4 2\nupdate 4 3\nremove 4\ninsert 1 \
        1\ninsert 2 1\ninsert 6 1\nremove 5\ninsert 10 1\ninsert 20 1\ninsert 30 1\ninsert 40 \
        1\ninsert 25 1\ninsert 15 1\ninsert 12 1\ninsert 35 1\ninsert 32 1\n";
    // The suites of every day judge each barrier of the others (`suite.rs`).
    let without_suite = ["nvtree-c", "lcbtree", "wbtree-slot", "circtree", "fastfair", "masstree"];
    for engine in trees().filter(|engine| without_suite.contains(&engine.name())) {
        let report = explored(engine, Level::Index, Scenario::parse(script, None).unwrap(), true);
        // `lcbtree` has eight barriers in all.
        let least = if engine.name() == "lcbtree" { 8 } else { 15 };
        assert!(report.mutants_killed.unwrap_or(0) >= least, "{engine}: {:?}", report.survivors);
    }
}
