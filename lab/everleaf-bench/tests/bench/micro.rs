//! Small benchmarks of real engines: what they count is exact, whatever they time.

use everleaf_bench::{
    BenchError, BenchKeyType, Contention, Flush, MicroOptions, Order, Phase, PhaseReport, Scratch,
    run_micro,
};

fn micro(options: &MicroOptions) -> Result<Vec<PhaseReport>, BenchError> {
    let mut reports = Vec::new();
    run_micro(options, &mut |report| reports.push(report))?;
    Ok(reports)
}

fn options(engine: &str, keys: u64) -> MicroOptions {
    MicroOptions { engine: engine.into(), keys, seed: 5, ..Default::default() }
}

/// A report without what depends on the clock.
fn counters(report: &PhaseReport) -> PhaseReport {
    let timeless = PhaseReport {
        seconds: 0.0,
        ops_per_second: 0.0,
        mean_ns: 0.0,
        geomean_ns: 0.0,
        ..report.clone()
    };
    PhaseReport { p50_ns: 0.0, p99_ns: 0.0, p999_ns: 0.0, ..timeless }
}

#[test]
fn each_phase_is_reported_with_its_operations_and_what_it_leaves() {
    for engine in [
        "fptree",
        "ptree",
        "btreemap",
        "stx",
        "circtree",
        "fastfair",
        "volatile-std",
        "masstree-transient",
        "masstree",
    ] {
        for key_type in [BenchKeyType::U64, BenchKeyType::String16] {
            let options = MicroOptions { key_type, warm: 500, ..options(engine, 2000) };
            let reports = micro(&options).unwrap();
            let seen: Vec<_> =
                reports.iter().map(|report| (report.phase, report.keys_after)).collect();
            let (all, rest) = (2500, 500);
            use Phase::*;
            let right = [
                (Insert, all),
                (Find, all),
                (Multiget, all),
                (Update, all),
                (Scan, all),
                (Delete, rest),
            ];
            assert_eq!(seen, right, "{engine} {key_type:?}");
            for report in &reports {
                assert!(
                    report.seconds > 0.0 && report.ops_per_second > 0.0 && report.geomean_ns > 0.0
                );
                assert!(report.p50_ns <= report.p99_ns && report.p99_ns <= report.p999_ns);
                assert_eq!(
                    (report.engine.as_str(), report.keys, report.threads),
                    (engine, 2000, 1)
                );
            }
        }
    }
}

#[test]
fn an_insertion_into_an_fptree_flushes_twice_and_splits_add_a_few() {
    let options = MicroOptions {
        phases: vec![Phase::Insert, Phase::Update, Phase::Find],
        ..options("fptree", 10_000)
    };
    let reports = micro(&options).unwrap();
    let flushes = reports[0].flushes.unwrap();
    assert!((20_000..30_000).contains(&flushes), "{flushes} flushes of 10,000 insertions");
    assert!(reports[0].leaf_splits.unwrap() > 100 && reports[0].lines_flushed.unwrap() <= flushes);
    assert_eq!(reports[0].bytes_flushed.unwrap(), 64 * reports[0].lines_flushed.unwrap());
    // An update in place: one flush of a changed line, one fence.
    assert_eq!(
        (reports[1].flushes, reports[1].fences, reports[1].lines_flushed),
        (Some(10_000), Some(10_000), Some(10_000))
    );
    assert_eq!(
        (reports[2].flushes, reports[2].fences, reports[2].lines_flushed),
        (Some(0), Some(0), Some(0))
    );
    assert!(
        reports[2].pm_lines_read.unwrap() >= 20_000,
        "a lookup reads at least a bitmap and an entry"
    );
}

#[test]
fn the_same_seed_gives_the_same_counters() {
    for key_type in [BenchKeyType::U64, BenchKeyType::String16] {
        let options = MicroOptions { key_type, ..options("fptree", 3000) };
        let run = || micro(&options).unwrap().iter().map(counters).collect::<Vec<_>>();
        assert_eq!(run(), run(), "{key_type:?}");
        let other = MicroOptions { seed: 6, ..options.clone() };
        assert_ne!(
            run(),
            micro(&other).unwrap().iter().map(counters).collect::<Vec<_>>(),
            "{key_type:?}"
        );
    }
}

#[test]
fn latencies_and_forced_instructions_change_no_counter() {
    let plain =
        MicroOptions { phases: vec![Phase::Insert, Phase::Delete], ..options("fptree", 500) };
    let right: Vec<_> = micro(&plain).unwrap().iter().map(counters).collect();
    let slow = MicroOptions { flush_ns: 100, fence_ns: 50, read_ns: 100, ..plain.clone() };
    let forced = MicroOptions { flush: Flush::Clflush, ..plain.clone() };
    for changed in [slow, forced, MicroOptions { flush: Flush::None, ..plain }] {
        assert_eq!(
            micro(&changed).unwrap().iter().map(counters).collect::<Vec<_>>(),
            right,
            "{changed:?}"
        );
    }
}

#[test]
fn orders_and_wide_values_are_run() {
    for order in [Order::Ascending, Order::Descending] {
        for engine in ["fptree", "btreemap"] {
            let options =
                MicroOptions { order, value_words: 3, key_bits: 12, ..options(engine, 2000) };
            assert_eq!(micro(&options).unwrap().len(), 6, "{engine} {order:?}");
        }
    }
}

#[test]
fn a_mixture_inserts_with_half_of_its_operations() {
    for (engine, threads) in [("fptree", 1), ("btreemap", 1), ("fptree-c", 1), ("fptree-c", 3)] {
        for key_type in [BenchKeyType::U64, BenchKeyType::String16] {
            let phases =
                vec![Phase::Insert, Phase::Mixed, Phase::Find, Phase::Mixed, Phase::Delete];
            let reports =
                micro(&MicroOptions { phases, key_type, threads, ..options(engine, 1001) })
                    .unwrap();
            let seen: Vec<_> = reports.iter().map(|report| report.keys_after).collect();
            assert_eq!(seen, [1001, 1501, 1501, 2001, 1000], "{engine} {threads} {key_type:?}");
            assert_eq!(reports[1].keys, 1001);
            if engine == "fptree" && key_type == BenchKeyType::U64 {
                let flushes = reports[1].flushes.unwrap();
                assert!(
                    (1000..1700).contains(&flushes),
                    "{flushes} flushes of 500 insertions and 501 lookups"
                );
            }
        }
    }
}

#[test]
fn separate_indexes_are_no_engine_of_their_own() {
    let error = micro(&MicroOptions { threads: 2, ..options("fptree:separate", 10) }).unwrap_err();
    assert!(error.is_wrong_usage(), "{error}");
    assert!(error.to_string().contains("use it in bench compare"), "{error}");
}

#[test]
fn the_peer_counts_nothing() {
    for report in micro(&options("btreemap", 100)).unwrap() {
        let missing = [
            report.flushes,
            report.fences,
            report.leaf_probes,
            report.allocations,
            report.pm_bytes,
            report.dram_bytes,
        ];
        assert_eq!((missing, report.height), ([None; 6], None));
    }
}

#[test]
fn a_named_pool_must_not_exist_and_is_gone_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bench.pool");
    let options = MicroOptions { pool: Scratch::at(Some(path.clone())), ..options("fptree", 100) };
    micro(&options).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    std::fs::write(&path, "precious").unwrap();
    let error = micro(&options).unwrap_err();
    assert!(error.to_string().contains("exists already"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
}

#[test]
fn sizes_that_an_engine_does_not_offer_are_wrong_usage() {
    for wrong in [
        MicroOptions { node_bytes: Some(24), ..options("fptree", 10) },
        MicroOptions { node_bytes: Some(16 * 1000), ..options("fptree", 10) },
        MicroOptions { node_bytes: Some(512), ..options("btreemap", 10) },
        MicroOptions { node_bytes: Some(48), ..options("stx", 10) },
        MicroOptions { inner_keys: Some(4097), ..options("stx", 10) },
        MicroOptions { paper_order: true, ..options("stx", 10) },
        MicroOptions { engine: "stxtree".into(), ..options("fptree", 10) },
    ] {
        let error = micro(&wrong).unwrap_err();
        assert!(error.is_wrong_usage(), "{wrong:?}: {error}");
    }
    for engine in ["fptree", "stx"] {
        let sizes =
            MicroOptions { node_bytes: Some(128), inner_keys: Some(64), ..options(engine, 1000) };
        micro(&sizes).unwrap();
    }
}

/// Updates alone, of random keys.
fn updates(engine: &str) -> MicroOptions {
    MicroOptions { warm: 20_000, phases: vec![Phase::Update], ..options(engine, 800) }
}

#[test]
fn values_in_buffers_are_undone_in_line_where_random_words_are_not() {
    let logged = |engine: &str, buffers, epoch_ops| {
        let options = MicroOptions { buffers, epoch_ops, ..updates(engine) };
        let reports = micro(&options).unwrap();
        let exact = |report: &PhaseReport| match epoch_ops {
            Some(_) => counters(report),
            // What the timed run leaves depends on when its epochs have ended.
            None => {
                let contention = Contention::default();
                let of_run = PhaseReport { contention, ..counters(report) };
                PhaseReport { pm_bytes: None, medium_bytes: None, ..of_run }
            }
        };
        assert_eq!(exact(&reports[0]), exact(&micro(&options).unwrap()[0]), "exact");
        (reports[0].nodes_logged.unwrap(), reports[0].flushes.unwrap())
    };
    let (in_line, all) = (logged("masstree", true, None), logged("masstree-logging", true, None));
    assert!(in_line.0 * 4 < all.0, "{in_line:?} and {all:?}");
    assert_eq!(logged("masstree", false, None), logged("masstree-logging", false, None));
    // An epoch for each update: none needs the log, or each does.
    assert_eq!(logged("masstree", true, Some(1)).0, 0);
    assert_eq!(logged("masstree-logging", true, Some(1)).0, 800);
    let (seldom, often) =
        (logged("masstree", true, Some(400)), logged("masstree", true, Some(100)));
    assert!(in_line.0 > seldom.0 && seldom.0 > often.0, "{in_line:?}, {seldom:?}, {often:?}");
    assert!(seldom.1 > 800, "the ends of epochs flush what was changed: {seldom:?}");
}

#[test]
fn buffers_and_epochs_are_wrong_usage_where_there_are_none() {
    let of = |engine: &str, buffers, epoch_ops| {
        let error = micro(&MicroOptions { buffers, epoch_ops, ..updates(engine) }).unwrap_err();
        assert!(error.is_wrong_usage(), "{error}");
        error.to_string()
    };
    assert!(of("fptree", true, None).contains("has no parameter buffers"));
    assert!(of("btreemap", true, None).contains("has no parameter buffers"));
    for store in ["store", "store:masstree", "skipmap"] {
        assert!(of(store, true, None).contains("index by itself"), "{store}");
    }
    assert!(of("masstree-transient", false, Some(9)).contains("--epoch-ops"));
    assert!(of("fptree", false, Some(9)).contains("masstree-logging"));
    assert!(of("masstree", false, Some(0)).contains("--epoch-ops 0 is out of range"));
}
