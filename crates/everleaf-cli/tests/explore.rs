//! explore: its JSON, and what of threads and batches is refused.

mod common;

use common::{Bench, json};

#[test]
fn explore_has_the_keys_of_the_contract_first() {
    let bench = Bench::new();
    bench.write("script", "insert 1 1\nexplore\nget 1\nupdate 1 2\nget 2\n");
    let report = json(&bench.ok(["explore", "--engine", "fptree", "--script", "script", "--json"]));
    let contract = [
        "engine",
        "operations",
        "crash_points",
        "states",
        "recoveries",
        "violations",
        "sites",
        "sites_reached",
        "mutants",
        "mutants_killed",
        "redundant_flushes",
        "exhaustive",
    ];
    assert_eq!(report.keys().take(contract.len()).collect::<Vec<_>>(), contract);
    assert_eq!((&report["operations"], &report["violations"], &report["exhaustive"]), (&3.into(), &0.into(), &true.into()));
    assert!(report["interleavings"].is_null() && report["preemption_bound"].is_null(), "there is one thread");
}

#[test]
fn threads_and_batches_are_refused_where_an_engine_has_none() {
    let bench = Bench::new();
    bench.write("threads", "thread 1 insert 1 1\nthread 2 get 1\n");
    bench.write("batch", "batch insert 1 1; remove 2\n");
    bench.write("form", "thread 1 crash\n");
    bench.write("alone", "insert 1 1\n");
    let refused = |arguments: &[&str], sentence: &str| {
        let said = bench.refused(["explore", "--engine", "fptree"].iter().chain(arguments));
        assert!(said.contains(sentence), "{sentence:?} is not in {said}");
    };
    refused(&["--script", "threads"], "fptree is single-threaded; remove `thread` from the script");
    refused(&["--script", "batch"], "engine fptree has no batches");
    refused(&["--script", "form"], "line 1: write `thread N OP..");
    refused(&["--ops", "4", "--seed", "1", "--threads", "2"], "fptree is single-threaded; use --threads 1");
    refused(&["--script", "alone", "--interleaving", "0:1"], "--interleaving is for programs of several threads");
    refused(&["--script", "alone", "--interleaving", "nonsense"], "an interleaving is written as");
}
