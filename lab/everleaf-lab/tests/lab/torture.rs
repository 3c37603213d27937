//! torture: real kills of a real process.

use crate::common::{Bench, json};

#[test]
fn batches_that_a_kill_cuts_are_there_wholly_or_not_at_all() {
    let bench = Bench::new();
    // The processor's transactions, where it has any.
    let real = everleaf_pmem::Cpu::detect().rtm().is_some();
    let transactions = if real { ("on", "rtm") } else { ("simulated", "simulated-rtm") };
    for (keys, (rtm, concurrency)) in [("bytes", ("off", "version-locks")), ("u64", transactions)] {
        let arguments = [
            "torture",
            "--kills",
            "8",
            "--threads",
            "2",
            "--batches",
            "60",
            "--medium",
            "memory",
            "--seed",
            "7",
            "--json",
            "--keys",
            keys,
            "--rtm",
            rtm,
        ];
        let report = json(&bench.ok(arguments));
        assert_eq!(report["concurrency"], concurrency);
        assert_eq!(
            [&report["lost"], &report["phantom"], &report["damaged"]],
            [0, 0, 0],
            "{report:?}"
        );
        let [operations, batches] =
            ["operations", "batches"].map(|key| report[key].as_u64().unwrap());
        assert!(batches * 2 > operations && report["cut_batches"].as_u64() > Some(4), "{report:?}");
    }
    assert!(bench.refused(["torture", "--batches", "101"]).contains("101"));
}

#[test]
fn an_engine_of_epochs_has_after_a_kill_what_was_synced_and_a_state_of_one_moment() {
    let bench = Bench::new();
    for keys in ["bytes", "u64"] {
        let what = ["--engine", "masstree", "--keys", keys, "--threads", "2", "--batches", "20"];
        let report = json(&bench.ok(["torture", "--kills", "8", "--json"].iter().chain(&what)));
        let found = ["lost", "phantom", "damaged"].map(|key| &report[key]);
        assert_eq!(found, [0, 0, 0], "{report:?}");
        assert_eq!(report["contract"], "buffered");
        assert!(report["syncs"].as_u64() > Some(0), "{report:?}");
    }
}

#[test]
fn an_engine_without_byte_strings_is_tortured_with_numbers() {
    let report =
        json(&Bench::new().ok(["torture", "--engine", "lcbtree", "--kills", "4", "--json"]));
    let found = ["lost", "phantom", "damaged"].map(|key| &report[key]);
    assert_eq!(found, [0, 0, 0], "{report:?}");
    assert!(report["operations"].as_u64() > Some(0), "{report:?}");
}
