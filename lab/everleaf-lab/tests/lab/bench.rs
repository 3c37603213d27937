//! bench: its JSON, and what it refuses before any work.

use everleaf_bench::PHASE_KEYS;

use crate::common::{Bench, json};

/// Whether the peers are in this build that a feature brings.
const HAS_PEERS: bool = cfg!(feature = "peers");
/// Whether this build draws plots.
const HAS_PLOTS: bool = cfg!(feature = "plots");
/// What every build can run with records of any size.
const IN_EVERY_BUILD: [&str; 3] = ["skipmap", "store", "btreemap"];

#[test]
fn micro_prints_an_object_a_phase() {
    let bench = Bench::new();
    let arguments = [
        "bench",
        "micro",
        "--engine",
        "fptree",
        "--keys",
        "500",
        "--phases",
        "insert,find,delete",
        "--pool",
        "q",
        "--json",
    ];
    let printed = bench.ok(arguments);
    let rows: Vec<_> = printed.lines().map(json).collect();
    assert_eq!(rows.len(), 3);
    for (row, (phase, keys_after)) in
        rows.iter().zip([("insert", 500), ("find", 500), ("delete", 0)])
    {
        assert_eq!(row.keys().collect::<Vec<_>>(), PHASE_KEYS);
        assert_eq!((&row["phase"], &row["keys_after"]), (&phase.into(), &keys_after.into()));
    }
    assert!(rows[0]["flushes"].as_u64() >= Some(1000), "an insert flushes two lines");
    assert_eq!(rows[1]["flushes"], 0, "a find flushes nothing");
    assert!(!bench.path("q").exists());
}

#[test]
fn micro_prints_a_table_for_people() {
    let bench = Bench::new();
    let printed = bench.ok(["bench", "micro", "--engine", "fptree", "--keys", "200"]);
    assert_eq!(printed.lines().count(), 7);
    assert!(printed.starts_with("engine"));
}

#[test]
fn compare_prints_ratios_to_the_first() {
    let bench = Bench::new();
    let arguments = [
        "bench",
        "compare",
        "--engines",
        "fptree,btreemap",
        "--keys",
        "300",
        "--rounds",
        "2",
        "--turn",
        "50",
        "--phases",
        "insert,find",
        "--json",
    ];
    let rows: Vec<_> = bench.ok(arguments).lines().map(json).collect();
    assert_eq!(rows.len(), 4);
    for row in &rows {
        assert_eq!(row["turns"], 2 * 6, "rounds, and turns of each");
        let of = |key: &str| row[key].as_f64().unwrap();
        let ratios = ["ratio_min", "ratio_q1", "ratio", "ratio_q3", "ratio_max"].map(of);
        assert!(ratios.is_sorted(), "{row:?}");
        let rates = ["min", "median", "max"].map(|which| of(&format!("{which}_ops_per_second")));
        assert!(rates.is_sorted() && rates[0] > 0.0, "{row:?}");
    }
    assert!(rows.iter().filter(|row| row["engine"] == "fptree").all(|row| row["ratio"] == 1.0));
}

#[test]
fn leaves_have_their_size_by_entries_as_well_as_by_bytes() {
    let bench = Bench::new();
    let compare = [
        "bench",
        "compare",
        "--engines",
        "fptree,ptree",
        "--keys",
        "300",
        "--rounds",
        "1",
        "--phases",
        "insert",
    ];
    let rows: Vec<_> = bench
        .ok(compare.iter().chain(&["--leaf-slots", "8", "--json"]))
        .lines()
        .map(json)
        .collect();
    assert_eq!(rows.len(), 2);
    let unoffered = bench.refused(compare.iter().chain(&["--leaf-slots", "57"]));
    assert!(unoffered.contains("57") && unoffered.contains("choose one of"), "{unoffered}");
    bench.refused(compare.iter().chain(&["--leaf-slots", "4294967295"]));
    assert!(
        bench
            .refused(compare.iter().chain(&["--leaf-slots", "8", "--node-bytes", "128"]))
            .contains("cannot be used with")
    );
    let splits = |size: [&str; 2]| {
        let micro = [
            "bench", "micro", "--engine", "fptree", "--keys", "300", "--phases", "insert", "--json",
        ];
        json(&bench.ok(micro.iter().chain(&size)))["leaf_splits"].as_u64().unwrap()
    };
    assert_eq!(splits(["--leaf-slots", "8"]), splits(["--node-bytes", "128"]));
    assert!(splits(["--leaf-slots", "8"]) > splits(["--leaf-slots", "56"]));
}

#[test]
fn compare_says_what_a_write_to_each_peer_survives() {
    let bench = Bench::new();
    let peers: &[&str] = if HAS_PEERS { &["lmdb", "redb", "fjall"] } else { &[] };
    let engines = [&["store", "skipmap", "btreemap"], peers].concat();
    let given = [
        "bench",
        "compare",
        "--key-type",
        "string16",
        "--value-bytes",
        "100",
        "--keys",
        "200",
        "--rounds",
        "1",
        "--engines",
    ];
    let rows: Vec<_> =
        bench.ok(given.iter().chain(&[&*engines.join(","), "--json"])).lines().map(json).collect();
    assert_eq!(rows.len(), 6 * engines.len());
    for row in &rows {
        let engine = row["engine"].as_str().unwrap();
        let right =
            if ["skipmap", "btreemap"].contains(&engine) { "none" } else { "process-crash" };
        assert_eq!(
            (row["durability"].as_str(), row["value_bytes"].as_u64()),
            (Some(right), Some(100)),
            "{engine}"
        );
    }
    let table = bench.ok(given.iter().chain(&["store", "--phases", "insert"]));
    assert!(
        table
            .lines()
            .nth(1)
            .is_some_and(|row| row.contains("store") && row.contains("process-crash")),
        "{table}"
    );
    if !HAS_PEERS {
        let refused = bench.refused(given.iter().chain(&["store,lmdb"]));
        assert_eq!(
            refused.trim_end(),
            "everleaf: lmdb is not in this build: build with --features peers"
        );
    }
    assert!(bench.refused(given.iter().chain(&["fptree"])).contains("multiple of 8"));
}

#[test]
fn stores_are_compared_on_one_medium_with_their_settings_beside_them() {
    let bench = Bench::new();
    let given = ["bench", "stores", "--keys", "200", "--rounds", "1", "--pool", "q"];
    if !HAS_PEERS {
        assert!(bench.refused(given).contains("--features peers"));
    }
    let all: &[&str] =
        if HAS_PEERS { &[] } else { &["--engines", "store:fptree,store:ptree,skipmap,store"] };
    let rows: Vec<_> =
        bench.ok(given.iter().chain(all).chain(&["--json"])).lines().map(json).collect();
    assert_eq!(rows.len(), 2 * 4 * 4, "threads, phases, stores");
    for row in &rows {
        // redb knows no durability between none and that of fsync, which is more where the file is
        // on a disk.
        let more = row["engine"] == "redb" && row["durability"] == "power-fail";
        let right = if row["engine"] == "skipmap" { "none" } else { "process-crash" };
        assert!(more || row["durability"] == right, "{row:?}");
        assert_eq!(row["medium"], rows[0]["medium"]);
        assert!(
            row["settings"].as_str().is_some_and(|settings| !settings.is_empty())
                && row["to_best_other"].is_number()
        );
        assert_eq!(row["keys"], if row["phase"] == "scan" { 10 } else { 200 });
    }
    let table = bench.ok(given.iter().chain(&["--engines", "skipmap,store", "--threads", "2"]));
    assert_eq!(table.lines().count(), 1 + 4 * 2, "{table}");
    assert!(!bench.path("q").exists());
    assert!(
        bench
            .refused(given.iter().chain(&["--engines", "skipmap,bogus"]))
            .contains("no engine bogus")
    );
}

#[test]
fn growth_shows_the_longest_puts() {
    let bench = Bench::new();
    let given = ["bench", "growth", "--to", "6MiB", "--value-bytes", "400", "--pool", "q"];
    let grown = json(&bench.ok(given.iter().chain(&["--threads", "2", "--json"])));
    assert!(
        grown["to_bytes"].as_u64() >= Some(6 << 20) && grown["keys"].as_u64() > Some(5000),
        "{grown:?}"
    );
    assert!(grown["max_ms"].as_f64() > Some(0.0) && grown["pauses"].is_array());
    assert!(bench.ok(given).contains("the longest puts"));
    assert!(!bench.path("q").exists());
    assert!(bench.refused(["bench", "growth", "--from", "2GiB", "--to", "1GiB"]).contains("--to"));
}

#[test]
fn space_shows_a_store_as_it_is_filled_and_emptied() {
    let bench = Bench::new();
    let given = ["bench", "space", "--keys", "500", "--cycles", "3", "--records", "8/8,24/1000"];
    let rows: Vec<_> = bench.ok(given.iter().chain(&["--json"])).lines().map(json).collect();
    let moments: Vec<_> = rows.iter().map(|row| row["moment"].as_str().unwrap()).collect();
    assert_eq!(moments, ["loaded", "half deleted", "refilled", "cycle 3"].repeat(2));
    assert!(rows.iter().all(|row| row["used_per_user_byte"].as_f64() > Some(1.0)));
    assert_eq!(bench.ok(given).lines().count(), 9);
    assert!(bench.refused(["bench", "space", "--records", "8"]).contains("no record 8"));
}

#[test]
fn compare_sets_a_shared_index_against_one_for_each_thread() {
    let bench = Bench::new();
    let arguments = [
        "bench",
        "compare",
        "--engines",
        "fptree-c:separate,fptree-c,fptree:separate",
        "--keys",
        "300",
        "--rounds",
    ];
    let rest = ["1", "--threads", "2", "--phases", "insert,mixed", "--pool", "q", "--json"];
    let rows: Vec<_> = bench.ok(arguments.iter().chain(&rest)).lines().map(json).collect();
    let seen: Vec<_> = rows
        .iter()
        .map(|row| (row["phase"].as_str().unwrap(), row["engine"].as_str().unwrap()))
        .collect();
    let engines = ["fptree-c:separate", "fptree-c", "fptree:separate"];
    assert_eq!(
        seen,
        [engines.map(|engine| ("insert", engine)), engines.map(|engine| ("mixed", engine))]
            .concat()
    );
    assert!(rows.iter().all(|row| row["threads"] == 2 && row["keys"] == 300));
    assert!(!bench.path("q").exists());
    let alone =
        ["bench", "micro", "--engine", "fptree-c:separate", "--threads", "2", "--keys", "100"];
    assert!(bench.refused(alone).contains("bench compare"));
    let unequal =
        ["bench", "compare", "--engines", "fptree:separate", "--threads", "2", "--keys", "101"];
    assert!(bench.refused(unequal).contains("no multiple of --threads 2"));
}

#[test]
fn recovery_prints_an_object_for_each_number_of_threads() {
    let bench = Bench::new();
    let arguments = [
        "bench",
        "recovery",
        "--engine",
        "fptree-c",
        "--keys",
        "2000",
        "--threads",
        "1,2",
        "--rounds",
        "2",
    ];
    let rows: Vec<_> =
        bench.ok(arguments.iter().chain(&["--pool", "q", "--json"])).lines().map(json).collect();
    let keys = [
        "engine",
        "keys",
        "threads",
        "shutdown",
        "recovery_ms",
        "min",
        "max",
        "insert_seconds",
        "times_faster_than_inserting",
        "inner_from",
    ];
    assert!(rows.iter().all(|row| row.keys().eq(keys)), "{rows:?}");
    assert_eq!(rows.iter().map(|row| row["threads"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2]);
    assert!(!bench.path("q").exists());
    assert_eq!(bench.ok(arguments).lines().count(), 3);
    for wrong in [
        &["--threads", "0"][..],
        &["--rounds", "0"],
        &["--phases", "find"],
        &["--engine", "btreemap"],
    ] {
        let given = ["bench", "recovery", "--keys", "100"];
        let engine = if wrong[0] == "--engine" { &[][..] } else { &["--engine", "fptree"] };
        bench.refused(given.iter().chain(engine).chain(wrong));
    }
}

#[test]
fn what_makes_no_sense_is_refused_before_any_work() {
    let bench = Bench::new();
    let micro = ["bench", "micro", "--engine", "fptree", "--keys", "100"];
    for wrong in [
        &["--phases", "insert,dance"][..],
        &["--phases", "find"],
        &["--order", "sideways"],
        &["--key-type", "u32"],
        &["--flush", "maybe"],
        &["--threads", "0"],
        &["--threads", "2"],
        &["--value-words", "15"],
        &["--node-bytes", "17"],
        &["--key-bits", "3"],
    ] {
        bench.refused(micro.iter().chain(wrong));
    }
    bench.refused(["bench"]);
    bench.refused(["bench", "micro", "--keys", "100"]);
    assert!(
        bench.refused(["bench", "micro", "--engine", "bogus", "--keys", "100"]).contains("fptree")
    );
    bench.refused(["bench", "compare", "--engines", "fptree,bogus", "--keys", "100"]);
    bench.refused(["bench", "compare", "--engines", "fptree", "--keys", "100", "--rounds", "0"]);
}

#[test]
fn ycsb_prints_an_object_an_engine() {
    let bench = Bench::new();
    let keys = [
        "engine",
        "workload",
        "record",
        "distribution",
        "deviation",
        "key_deviation",
        "keys",
        "operations",
        "threads",
        "rounds",
        "seed",
        "flush",
        "durability",
        "load_ops_per_second",
        "median_ops_per_second",
        "min_ops_per_second",
        "max_ops_per_second",
        "ratio",
        "load_latency",
        "latencies",
        "course",
        "course_seconds",
        "keys_after",
        "medium_bytes",
        "dram_bytes",
        "bytes_per_key",
    ];
    // Those of contention, and what came last.
    let keys = [&keys[..], &PHASE_KEYS[32..], &["nodes_logged", "longest_stall_ns"]].concat();
    for (workload, kinds, keys_after) in [
        ("a", &["read", "update"][..], 300),
        ("b", &["read", "update"], 300),
        ("c", &["read"], 300),
        ("d", &["insert", "read"], 320),
        ("e", &["insert", "scan"], 320),
        ("f", &["read", "read_modify_write"], 300),
    ] {
        let given = [
            "bench",
            "ycsb",
            "--workload",
            workload,
            "--keys",
            "300",
            "--operations",
            "400",
            "--rounds",
            "2",
        ];
        let engines = if HAS_PEERS { ["lmdb", "store", "btreemap"] } else { IN_EVERY_BUILD };
        let rest = ["--engine", &*engines.join(","), "--pool", "q", "--json"];
        let rows: Vec<_> = bench.ok(given.iter().chain(&rest)).lines().map(json).collect();
        assert_eq!(
            rows.iter().map(|row| row["engine"].as_str().unwrap()).collect::<Vec<_>>(),
            engines
        );
        for row in &rows {
            assert_eq!(row.keys().collect::<Vec<_>>(), keys);
            assert_eq!(
                row["latencies"].as_object().unwrap().keys().collect::<Vec<_>>(),
                kinds,
                "{workload}"
            );
            assert_eq!(
                (row["keys_after"].as_u64(), row["course"].as_array().map(Vec::len)),
                (Some(keys_after), Some(20))
            );
        }
        assert!(!bench.path("q").exists());
    }
}

#[test]
fn ycsb_says_with_what_it_was_measured() {
    let bench = Bench::new();
    let given = [
        "bench",
        "ycsb",
        "--workload",
        "d",
        "--engine",
        "store",
        "--keys",
        "100",
        "--operations",
        "107",
        "--rounds",
        "1",
    ];
    let more = [
        "--distribution",
        "normal",
        "--deviation",
        "0.25",
        "--flush",
        "none",
        "--seed",
        "7",
        "--key-deviation",
        "5000",
    ];
    let row = json(&bench.ok(given.iter().chain(&more).chain(&["--threads", "3", "--json"])));
    assert_eq!(
        (row["deviation"].as_f64(), row["key_deviation"].as_u64()),
        (Some(0.25), Some(5000))
    );
    assert_eq!((row["seed"].as_u64(), row["flush"].as_str()), (Some(7), Some("none")));
    assert_eq!(
        row["keys_after"], 105,
        "five in a hundred of 107 operations insert, whatever the threads"
    );
    assert!(
        row["load_latency"]["p99_ns"].as_f64() > Some(0.0)
            && row["load_latency"]["operations"] == 100
    );
    assert!(json(&bench.ok(given.iter().chain(&["--json"])))["deviation"].is_null());
    assert!(
        bench
            .refused(given.iter().chain(&["--deviation", "0.2"]))
            .contains("--distribution normal")
    );
    assert!(
        bench.refused(given.iter().chain(&["--key-deviation", "0"])).contains("--key-deviation 0")
    );
}

#[test]
fn values_in_buffers_and_epochs_of_so_many_writes_are_asked_for() {
    let bench = Bench::new();
    let asked = ["--keys", "600", "--buffers", "--epoch-ops", "1", "--json"];
    let of = |command: &str, more: &[&str]| {
        let printed = bench.ok(["bench", command].iter().chain(more).chain(&asked));
        printed.lines().map(json).collect::<Vec<_>>()
    };
    let both = "masstree-logging,masstree-transient";
    let rows = of("micro", &["--engine", "masstree", "--warm", "600", "--phases", "update"]);
    assert_eq!(rows[0]["nodes_logged"], 0);
    let rows = of("compare", &["--engines", both, "--phases", "insert,update", "--rounds", "1"]);
    assert_eq!((&rows[2]["nodes_logged"], &rows[3]["nodes_logged"]), (&600.into(), &().into()));
    let workload = ["--workload", "a", "--record", "8/8", "--operations", "200", "--rounds", "1"];
    let rows = of("ycsb", &[&workload[..], &["--engine", both]].concat());
    assert_eq!((&rows[0]["nodes_logged"], &rows[1]["nodes_logged"]), (&100.into(), &().into()));
    of("recovery", &["--engine", "masstree", "--rounds", "1"]);
    for (engine, words) in [("fptree", "has no parameter buffers"), ("store", "by itself")] {
        let given = ["bench", "micro", "--engine", engine, "--keys", "9", "--buffers"];
        assert!(bench.refused(given).contains(words), "{engine}");
    }
    let given = ["bench", "ycsb", "--workload", "a", "--keys", "9", "--operations", "9"];
    let refused = bench.refused(given.iter().chain(&["--engine", "store", "--epoch-ops", "5"]));
    assert!(refused.contains("--epoch-ops"), "{refused}");
}

#[test]
fn transactions_are_asked_for_in_every_command_that_measures_and_counted() {
    let bench = Bench::new();
    let of = |command: &str, more: &[&str]| {
        let rtm = ["--rtm", "simulated", "--json"];
        let printed = bench.ok(["bench", command].iter().chain(more).chain(&rtm));
        json(printed.lines().next().unwrap())
    };
    let (keys, rounds) = (["--keys", "300"], ["--rounds", "1"]);
    let measured = [
        of("micro", &[&["--engine", "fptree-c", "--phases", "insert"], &keys[..]].concat()),
        of("compare", &[&["--engines", "fptree-c"], &keys[..], &rounds].concat()),
        of("stores", &[&["--engines", "store"], &keys[..], &rounds].concat()),
        of("growth", &["--from", "1MiB", "--to", "2MiB"]),
    ];
    for row in measured {
        assert_eq!(row["concurrency"], "simulated-rtm", "{row:?}");
        assert!(row["transactions"].as_u64() > Some(0) && row["aborts_conflict"].is_u64());
    }
    let ycsb = ["--workload", "d", "--engine", "store", "--operations", "300"];
    let row = of("ycsb", &[&ycsb, &keys[..], &rounds].concat());
    assert_eq!((&row["concurrency"], row["fallbacks"].is_u64()), (&"simulated-rtm".into(), true));
    of("recovery", &[&["--engine", "fptree-c"], &keys[..], &rounds].concat());
    of("model", &[&["--engines", "fptree-c", "--rounds", "1"], &keys[..]].concat());
    let off = ["bench", "growth", "--from", "1MiB", "--to", "2MiB", "--json"];
    assert_eq!(json(&bench.ok(off))["concurrency"], "version-locks");
}

#[test]
fn ycsb_refuses_what_it_does_not_have() {
    let bench = Bench::new();
    let given = ["bench", "ycsb", "--keys", "100", "--operations", "100"];
    let of = |more: &[&str]| bench.refused(given.iter().chain(more));
    assert!(
        of(&["--workload", "g", "--engine", "store"]).contains("choose among a, b, c, d, e, f")
    );
    assert!(of(&["--workload", "a", "--engine", "bogus"]).contains("there is no engine bogus"));
    let words = of(&["--workload", "a", "--engine", "fptree"]);
    assert!(
        words.contains("choose store or another peer") && words.contains("--record fields"),
        "{words}"
    );
    assert!(of(&["--workload", "a", "--engine", "store", "--record", "9/9"]).contains("16/B"));
    assert!(
        of(&["--workload", "a", "--engine", "store", "--distribution", "pareto"])
            .contains("zipfian")
    );
    assert!(
        of(&[
            "--workload",
            "a",
            "--engine",
            "store",
            "--distribution",
            "normal",
            "--deviation",
            "0"
        ])
        .contains("--deviation 0")
    );
    assert!(
        of(&["--workload", "a", "--engine", "btreemap", "--threads", "2"]).contains("one thread")
    );
    for (command, option) in [
        ("ycsb", "--engine"),
        ("compare", "--engines"),
        ("recovery", "--engine"),
        ("model", "--engines"),
        ("stores", "--engines"),
    ] {
        let engine = if command == "recovery" { "fptree" } else { "store" };
        let workload: &[&str] =
            if command == "ycsb" { &["--workload", "a", "--operations", "10"] } else { &[] };
        let rounds = |rounds| {
            bench.refused(
                ["bench", command, option, engine, "--keys", "10", "--rounds", rounds]
                    .iter()
                    .chain(workload),
            )
        };
        assert!(rounds("1001").contains("--rounds 1001 is out of range"), "{command}");
        assert!(rounds("4294967295").contains("to 1000"), "{command}");
        assert!(command == "model" || rounds("0").contains("--rounds 0"), "{command}");
    }
    let sized = |record, keys, operations, engine| {
        let given = ["bench", "ycsb", "--workload", "a", "--record", record, "--engine", engine];
        given.into_iter().chain(["--keys", keys, "--operations", operations])
    };
    let peers: &[&str] = if HAS_PEERS { &["lmdb"] } else { &[] };
    for engine in ["store", "btreemap", "skipmap"].iter().chain(peers) {
        assert!(bench.fails(sized("fields", "1000000000000", "1", engine)).contains("MiB"));
        assert!(
            bench.fails(sized("fields", "1000", "1000000000000", engine)).contains("MiB"),
            "{engine}"
        );
        assert!(
            bench
                .refused(sized("fields", "1000", "18446744073709551615", engine))
                .contains("--operations 18446744073709551615")
        );
        assert!(
            bench
                .refused(sized("fields", "18446744073709551615", "1000", engine))
                .contains("--keys 18446744073709551615")
        );
        assert!(bench.refused(sized("fields", "1000", "0", engine)).contains("--operations 0"));
        assert!(bench.refused(sized("fields", "0", "1000", engine)).contains("--keys 0"));
        assert!(bench.refused(sized("8/1", "10", "10", engine)).contains("--record 8/1"));
    }
}

#[test]
fn model_counts_the_same_every_time() {
    let bench = Bench::new();
    let given = [
        "bench",
        "model",
        "--engines",
        "fptree,store",
        "--keys",
        "700",
        "--phases",
        "insert,update",
        "--latencies",
    ];
    let counted =
        |more: &[&str]| bench.ok(given.iter().chain(&["300,90/200/10", "--json"]).chain(more));
    let rows: Vec<_> = counted(&[]).lines().map(json).collect();
    assert_eq!(rows.len(), 4);
    assert_eq!(
        (rows[1]["flushes"].as_u64(), rows[1]["fences"].as_u64()),
        (Some(700), Some(700)),
        "an update in place"
    );
    let flushes_and_reads =
        300.0 * (700 + rows[1]["pm_line_misses"].as_u64().unwrap()) as f64 / 700.0;
    assert!(
        (rows[1]["costs"][0]["modelled_ns"].as_f64().unwrap() - flushes_and_reads).abs() < 1e-6
    );
    assert_eq!(rows[1]["costs"][1]["fence_ns"], 10);
    assert_eq!(counted(&[]), counted(&[]), "to the last digit");
    assert_ne!(counted(&[]), counted(&["--seed", "2"]));
    assert!(bench.refused(given.iter().chain(&["fast"])).contains("READ/FLUSH/FENCE"));
    let peer = ["bench", "model", "--engines", "skipmap", "--keys", "10"];
    assert!(bench.refused(peer).contains("no pool"));
}

#[test]
fn figure_writes_a_plot_and_a_file_beside_the_table() {
    let bench = Bench::new();
    assert!(bench.ok(["bench", "figure"]).lines().any(|line| line.starts_with("fptree-7 ")));
    let given = ["bench", "figure", "fptree-4", "--keys", "2000", "--folder", "plots"];
    let table = bench.ok(given);
    assert!(
        table.starts_with("fptree-4")
            && table.contains("wbtree-bitmap")
            && table.contains("what the paper says"),
        "{table}"
    );
    for (file, begin) in
        [("fptree-4.json", &b"{"[..]), ("fptree-4.svg", b"<svg"), ("fptree-4.png", b"\x89PNG")]
    {
        match std::fs::read(bench.path("plots").join(file)) {
            Ok(written) => assert!(written.starts_with(begin), "{file}"),
            Err(_) => assert!(!HAS_PLOTS && begin != b"{", "{file}"),
        }
    }
    let said = bench.run(given).stderr;
    let sentence = "everleaf: no plots were drawn: build with --features plots\n";
    assert_eq!(said, if HAS_PLOTS { "" } else { sentence });
    let printed = json(&bench.ok(given.iter().chain(&["--json"])));
    assert_eq!(printed.keys().take(4).collect::<Vec<_>>(), ["name", "title", "source", "command"]);
    assert!(bench.refused(["bench", "figure", "fptree-99"]).contains("choose among"));
    assert!(bench.refused(["bench", "figure", "fptree-4", "--keys", "1"]).contains("--keys 1"));
    bench.write("file", "");
    bench.fails(["bench", "figure", "fptree-4", "--folder", "file/below"]);
    for refused in [&["--keys", "1"][..], &["--keys", "1000000000000"]] {
        let ran = bench
            .run(["bench", "figure", "fptree-4", "--folder", "new/below"].iter().chain(refused));
        assert!(ran.code != Some(0) && !bench.path("new").exists(), "{ran:?}");
    }
    // A picture that cannot be written: known before anything is measured, said in one sentence,
    // and nothing is left.
    let last = if HAS_PLOTS { "fptree-4.png" } else { "fptree-4.json" };
    std::fs::create_dir_all(bench.path("taken").join(last)).unwrap();
    let sentence =
        bench.fails(["bench", "figure", "fptree-4", "--keys", "100000000", "--folder", "taken"]);
    assert!(
        sentence.contains(&format!("{last} cannot be written")) && !sentence.contains("Error("),
        "{sentence}"
    );
    assert_eq!(std::fs::read_dir(bench.path("taken")).unwrap().count(), 1);
}

#[test]
fn figure_lists_what_the_papers_show() {
    let bench = Bench::new();
    let list = bench.ok(["bench", "figure", "--list"]);
    for words in ["FPTree, Figure 10, 8-byte keys\n", "not shown It needs wbinvd", "run  "] {
        assert!(list.contains(words), "{words}: {list}");
    }
    let widest = list.lines().max_by_key(|line| line.chars().count()).unwrap();
    assert!(widest.chars().count() <= 80, "{widest}");
    let lines = bench.ok(["bench", "figure", "--list", "--json"]);
    let keys = ["paper", "place", "shows", "published", "engines", "missing", "command", "reason"];
    for line in lines.lines() {
        assert_eq!(json(line).keys().collect::<Vec<_>>(), keys, "{line}");
    }
    assert_eq!(lines.lines().count(), list.matches("  shows ").count());
    assert!(bench.refused(["bench", "figure", "fptree-4", "--list"]).contains("--list"));
}

#[test]
fn report_is_one_page_that_fetches_nothing() {
    let bench = Bench::new();
    assert_eq!(
        bench.ok(["bench", "report", "--quick", "--keys", "1000", "--output", "page.html"]).trim(),
        "page.html"
    );
    let page = String::from_utf8(std::fs::read(bench.path("page.html")).unwrap()).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
    let rocksdb = if cfg!(feature = "rocksdb") { "rocksdb" } else { "rocksdb: not in this build" };
    for words in [
        "lmdb",
        "redb",
        "fjall",
        rocksdb,
        "process-crash",
        "fptree-7",
        "commit",
        "everleaf-lab bench ycsb",
    ] {
        assert!(page.contains(words), "{words} is not in the page");
    }
    assert_eq!(page.contains("<svg"), HAS_PLOTS);
    assert!(!page.contains("<script") && !page.contains("src=") && !page.contains("@import"));
    assert_eq!(page.matches("http").count(), page.matches("xmlns=\"http").count());
    bench.fails(["bench", "report", "--quick", "--output", "missing/page.html"]);
    bench.refused(["bench", "report", "--keys", "1", "--output", "other.html"]);
    assert!(!bench.path("other.html").exists());
    for content in ["", "precious"] {
        bench.write("mine.html", content);
        bench.refused(["bench", "report", "--keys", "1", "--output", "mine.html"]);
        bench.fails(["bench", "report", "--keys", "1000000000000", "--output", "mine.html"]);
        assert_eq!(std::fs::read(bench.path("mine.html")).unwrap(), content.as_bytes());
    }
    let commands: Vec<&str> =
        page.split("<pre><code>").skip(1).filter_map(|rest| rest.split("</code>").next()).collect();
    assert!(
        commands.len() > 20 && commands.iter().all(|command| command.contains(" --seed 1")),
        "{commands:?}"
    );
}
