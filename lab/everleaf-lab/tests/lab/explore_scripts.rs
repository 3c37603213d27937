//! explore: its JSON, its verdict, and what it refuses.

use crate::common::{Bench, json};

const CONTRACT: [&str; 12] = [
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

#[test]
fn every_state_of_a_script_is_explored() {
    let bench = Bench::new();
    bench.write(
        "s",
        "insert 1 10\ninsert 2 20\nexplore\nupdate 1 11\nremove 2\nreopen\ninsert 3 1\n",
    );
    let report = json(&bench.ok(["explore", "--engine", "fptree", "--script", "s", "--json"]));
    assert_eq!(report.keys().take(CONTRACT.len()).collect::<Vec<_>>(), CONTRACT);
    assert_eq!(
        (&report["engine"], &report["operations"], &report["violations"]),
        (&"fptree".into(), &4.into(), &0.into())
    );
    assert_eq!(
        (&report["exhaustive"], &report["left_out"], &report["mutants"]),
        (&true.into(), &0.into(), &().into())
    );
    for arguments in [
        ["--value-words", "3"].as_slice(),
        &["--store"],
        &["--keys", "bytes"],
        &["--assume", "eadr"],
    ] {
        let report = json(&bench.ok([&["explore", "--script", "s", "--json"], arguments].concat()));
        assert_eq!(report["violations"], 0, "{arguments:?}");
    }
    let words = bench.ok(["explore", "--script", "s", "--engine", "ptree"]);
    assert!(words.contains("every state") && words.contains("0 violations"), "{words}");
}

#[test]
fn mutants_are_counted_by_kind() {
    let bench = Bench::new();
    bench.write("s", "insert 1 10\nexplore\ninsert 2 20\n");
    let report =
        json(&bench.ok(["explore", "--engine", "fptree", "--script", "s", "--mutate", "--json"]));
    assert_eq!(report["mutants"], report["mutants_killed"]);
    let kind = |kind: &str| report["mutants_by_kind"][kind]["mutants"].as_u64().unwrap_or(0);
    // Entry, fence, bitmap, fence, and the two of opening the pool; the order of fingerprint and
    // bitmap; entry and bitmap.
    assert_eq!(
        (kind("left_out"), kind("stores_swapped"), kind("groups_swapped")),
        (6, 1, 1),
        "{report:?}"
    );
}

#[test]
fn what_is_left_out_is_said() {
    let bench = Bench::new();
    let arguments =
        ["explore", "--ops", "12", "--seed", "3", "--keys", "bytes", "--store", "--budget", "8"];
    let report = json(&bench.ok([arguments.as_slice(), &["--json"]].concat()));
    assert_eq!(report["exhaustive"], false);
    assert!(report["left_out"].as_u64() > Some(0));
    assert!(bench.ok(arguments).contains("left out, seed 3"));
}

#[test]
fn a_recovery_from_a_cut_operation_is_explored() {
    let bench = Bench::new();
    bench.write(
        "s",
        "insert 1 1\ninsert 2 1\ninsert 3 1\ninsert 4 1\ncut fptree.split.S3.fence \
        insert 5 1\nremove 2\n",
    );
    let report = json(&bench.ok(["explore", "--engine", "fptree", "--script", "s", "--json"]));
    assert_eq!((&report["operations"], &report["violations"]), (&2.into(), &0.into()));
    bench.write("s", "insert 1 1\ncut fptree.nowhere insert 5 1\nremove 2\n");
    assert!(
        bench
            .fails(["explore", "--script", "s"])
            .contains("does not reach the barrier fptree.nowhere")
    );
    bench.write("s", "insert 1 1\nrefused insert 2 2\n");
    assert!(bench.fails(["explore", "--script", "s"]).contains("the pool has room for it"));
}

#[test]
fn what_says_nothing_is_refused_and_never_passes() {
    let bench = Bench::new();
    for (script, sentence) in [
        ("insert 1 1\nfrobnicate 2\n", "line 2: `frobnicate` is no operation"),
        ("insert 1\n", "line 1: write `insert KEY VALUE`"),
        ("insert 1 one\n", "line 1: `one` is not a number"),
        ("insert 1 1\nexplore\n", "no operation to explore"),
        ("cut fptree.split.S3.fence\n", "line 1: write `cut SITE OPERATION`"),
        ("refused\n", "line 1: write `refused OPERATION"),
        ("", "no operation to explore"),
        ("refused explore\n", "line 1: write `refused OPERATION"),
        (
            "insert 1 1\ncut fptree.split.S3.fence insert 2 2\nexplore\nremove 1\n",
            "line 3: what follows `cut` is explored anyway",
        ),
    ] {
        bench.write("s", script);
        let said = bench.refused(["explore", "--script", "s"]);
        assert!(said.contains(sentence), "{script:?}: {said}");
    }
    bench.write("s", "insert apple 1\n");
    assert!(
        bench
            .refused(["explore", "--script", "s", "--keys", "u64"])
            .contains("`apple` is not a number")
    );
    bench.write("s", "insert 1 1\n");
    assert!(
        bench
            .refused(["explore", "--script", "s", "--budget", "1"])
            .contains("too small to say anything")
    );
    assert!(
        bench.refused(["explore", "--script", "s", "--engine", "stx"]).contains("not available")
    );
    assert!(
        bench.refused(["explore", "--script", "s", "--leaf-slots", "5"]).contains("leaf-slots")
    );
    for arguments in [
        ["--script", "s", "--ops", "3"].as_slice(),
        &[],
        &["--ops", "3"],
        &["--ops", "0", "--seed", "1"],
        &["--script", "s", "--value-words", "15"],
        &["--script", "s", "--value-words", "2", "--store"],
        &["--suite", "--mutate"],
        &["--suite", "--seed", "1"],
        &["--disk", "--ops", "3", "--seed", "1"],
        &["--disk", "--seeds", "1"],
        &["--disk", "--ops", "3", "--seeds", "1", "--mutate"],
        &["--ops", "3", "--seeds", "1"],
        &["--script", "s", "--assume", "luck"],
    ] {
        bench.refused([&["explore"], arguments].concat());
    }
    assert!(bench.fails(["explore", "--script", "nosuch"]).contains("cannot be read"));
}

#[test]
fn threads_are_refused_where_an_engine_has_none_and_what_does_not_go_together() {
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
    refused(&["--script", "batch", "--value-words", "2"], "the script is for a store");
    refused(&["--script", "form"], "line 1: write `thread N OP..");
    refused(
        &["--ops", "4", "--seed", "1", "--threads", "2"],
        "fptree is single-threaded; use --threads 1",
    );
    refused(
        &["--script", "alone", "--interleaving", "0:1"],
        "--interleaving is for programs of several threads",
    );
    refused(&["--script", "alone", "--interleaving", "nonsense"], "an interleaving is written as");
    refused(
        &["--script", "alone", "--preemptions", "1"],
        "--preemptions is for programs of several threads",
    );
    for script in [
        "close\nthread 1 get 1\n",
        "refused insert 2 2\nthread 1 get 1\n",
        "cut x insert 1 1\nthread 1 get 1\n",
    ] {
        bench.write("mixed", format!("insert 1 1\n{script}"));
        let said = bench.refused(["explore", "--engine", "fptree-c", "--script", "mixed"]);
        assert!(said.contains("a script with `thread` cannot have"), "{script}: {said}");
    }
    bench.write("threads2", "thread 1 insert 1 1\nthread 2 get 1\n");
    let wide = ["explore", "--engine", "fptree-c", "--script", "threads2", "--value-words", "2"];
    assert!(bench.refused(wide).contains("leave out --value-words"));
}

#[test]
fn a_crash_may_be_part_of_the_preparation() {
    let bench = Bench::new();
    let explored = |level: &str, crash: &str| {
        bench.write(
            "s",
            format!("insert 1 1\ninsert 2 2\ninsert 3 3\nremove 2\n{crash}explore\ninsert 4 4\n"),
        );
        let arguments = ["explore", "--engine", "circtree", "--script", "s", "--json"];
        let report = json(&bench.ok(arguments.into_iter().chain(level.split_whitespace())));
        assert_eq!((&report["operations"], &report["violations"]), (&1.into(), &0.into()));
        report["states"].as_u64().unwrap()
    };
    for level in ["", "--store"] {
        // The end of a removal is not flushed, so both of its states meet the insertion; unless
        // there was a crash in between.
        assert!(explored(level, "crash\n") < explored(level, ""), "{level}");
    }
}

#[test]
fn two_threads_are_explored() {
    let bench = Bench::new();
    bench.write("s", "insert 1 1\nexplore\nthread 1 update 1 2\nthread 2 get 1\n");
    let report = json(&bench.ok(["explore", "--engine", "fptree-c", "--script", "s", "--json"]));
    assert_eq!(
        (&report["violations"], &report["exhaustive"], &report["preemption_bound"]),
        (&0.into(), &true.into(), &2.into())
    );
    assert!(report["interleavings"].as_u64() > Some(10));
    bench
        .write("b", "insert 1 1\nexplore\nthread 1 batch update 1 2; insert 2 2\nthread 2 get 1\n");
    let batch = [
        "explore",
        "--engine",
        "fptree-c",
        "--script",
        "b",
        "--preemptions",
        "1",
        "--budget",
        "8",
        "--json",
    ];
    assert_eq!(json(&bench.ok(batch))["violations"], 0);
    let arguments = [
        "explore",
        "--engine",
        "fptree-c",
        "--script",
        "s",
        "--store",
        "--interleavings",
        "20",
        "--json",
    ];
    let report = json(&bench.ok(arguments));
    assert_eq!((&report["violations"], &report["exhaustive"]), (&0.into(), &false.into()));
    assert!(
        report["interleavings_left_out"].as_u64() > Some(0),
        "it is said what was left out: {report:?}"
    );
    let random = [
        "explore",
        "--engine",
        "fptree-c",
        "--threads",
        "2",
        "--ops",
        "4",
        "--seed",
        "1",
        "--interleavings",
        "20",
        "--json",
    ];
    assert_eq!(json(&bench.ok(random))["violations"], 0);
}

#[test]
fn stores_are_cut_on_a_simulated_disk() {
    let bench = Bench::new();
    let asked = ["explore", "--disk", "--engine", "fptree", "--ops", "4", "--seeds", "2"];
    let report = json(&bench.ok(asked.iter().chain(&["--budget", "8", "--json"])));
    let number = |key: &str| report[key].as_u64().unwrap();
    assert_eq!((number("violations"), number("programs"), number("seeds")), (0, 8, 2));
    assert!(number("states") > number("crash_points") && number("recoveries") > number("states"));
    assert!(report["mutants"].is_null() && report["exhaustive"] == false);
    let u64_keys = bench.ok(asked.iter().chain(&["--keys", "u64"]));
    assert!(u64_keys.starts_with("fptree: 4 programs of 2 seeds, "), "{u64_keys}");
    let none = ["explore", "--disk", "--engine", "bogus", "--ops", "4", "--seeds", "1"];
    assert!(bench.refused(none).contains("not available"));
}
