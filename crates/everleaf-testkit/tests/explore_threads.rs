//! Two threads on a concurrent engine: every interleaving within the bound of preemptions, and what a crash can leave of each.

use everleaf::Engine;
use everleaf_crash::{Options, Report, explore_threads};
use everleaf_testkit::{ConcurrentEngineSubject, EngineSubject, Level, Scenario, ScriptKeys};

/// Four keys fill a leaf: 10 to 40 are in the first, and two more leaves follow.
const FULL: &str = "insert 10 1\ninsert 30 3\ninsert 50 5\ninsert 70 7\ninsert 20 2\ninsert 40 4\nexplore\n";

fn options(mutate: bool) -> Options {
    Options { budget: 40_000, recovery_budget: 60, interleavings: 150, mutate, ..Options::default() }
}

fn explored(script: &str, keys: ScriptKeys, mutate: bool) -> Report {
    let engine = Engine::FpTreeConcurrent;
    let scenario = Scenario::parse(&format!("{FULL}{script}"), Some(keys)).unwrap();
    scenario.check_for(engine).unwrap();
    let subject = EngineSubject::new(engine, EngineSubject::tiny_parameters(engine), Level::Index, scenario);
    let report = explore_threads(&ConcurrentEngineSubject::new(subject), &options(mutate)).unwrap();
    let violations: Vec<String> = report.violations.iter().map(ToString::to_string).collect();
    assert_eq!(violations, Vec::<String>::new(), "{keys:?}: {script}");
    report
}

/// Named after what meets.
const MEETINGS: &[(&str, &str)] = &[
    ("two insertions in one leaf", "thread 1 insert 60 6\nthread 2 insert 80 8\n"),
    ("two insertions of one key", "thread 1 insert 60 6\nthread 2 insert 60 8\n"),
    ("two splits of one leaf", "thread 1 insert 15 6\nthread 2 insert 25 8\n"),
    ("a split and a reader of a key that moves", "thread 1 insert 15 6\nthread 2 get 40\n"),
    ("a split and an update of a key that moves", "thread 1 insert 15 6\nthread 2 update 30 9\n"),
    ("a split and a removal", "thread 1 insert 15 6\nthread 2 remove 20\n"),
    ("an update and a reader", "thread 1 update 20 9\nthread 2 get 20\n"),
    ("an upsert and an insertion", "thread 1 upsert 60 9\nthread 2 insert 60 6\n"),
    ("two removals of one key", "thread 1 remove 20\nthread 2 remove 20\n"),
    ("a removal and an insertion of one key", "thread 1 remove 20\nthread 2 insert 20 9\n"),
    ("the end of a leaf and an insertion into it", "remove 50\nthread 1 remove 70\nthread 2 insert 60 6\n"),
    ("the end of a leaf and a reader", "remove 50\nthread 1 remove 70\nthread 2 get 70\n"),
    ("the end of two leaves", "remove 10\nremove 20\nremove 30\nremove 50\nthread 1 remove 40\nthread 2 remove 70\n"),
];

#[test]
fn whatever_meets_is_durably_linearizable() {
    for (name, script) in MEETINGS {
        for keys in [ScriptKeys::U64, ScriptKeys::Bytes] {
            let report = explored(script, keys, false);
            assert!(report.interleavings.unwrap_or(0) > 1, "{name}: {:?}", report.interleavings);
            println!("{name}, {keys:?}: {:?} interleavings, {} states", report.interleavings, report.states);
        }
    }
}

/// One thread alone fences before it fills the leaf that it has split. Another one need not.
#[test]
fn a_split_is_retired_durably_before_another_thread_fills_the_leaf() {
    let script = "thread 1 insert 35 6\nthread 2 insert 11 1\nthread 2 insert 12 1\n";
    let report = explored(script, ScriptKeys::U64, true);
    let survivors: Vec<&str> = report.survivors.iter().map(|site| site.name()).collect();
    assert!(!survivors.contains(&"fptree.split.C5.fence"), "{survivors:?}");
}
