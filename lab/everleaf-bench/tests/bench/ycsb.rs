//! The workloads of YCSB on everything, with every record and distribution: right answers are asked
//! for by the runs themselves.

use everleaf_bench::ycsb::{Distribution, Record, Workload, YcsbOptions, run_ycsb};
use everleaf_bench::{MicroOptions, Peer, Subject};

fn options(engines: &[&str], workload: Workload, record: Record) -> YcsbOptions {
    let engines = engines.iter().map(|engine| engine.to_string()).collect();
    let micro = MicroOptions { keys: 300, seed: 4, ..Default::default() };
    YcsbOptions { engines, workload, distribution: None, record, operations: 500, rounds: 1, micro }
}

#[test]
fn every_workload_runs_on_everything() {
    for subject in Subject::available() {
        let name = subject.to_string();
        for workload in Workload::ALL {
            let record = if subject.has_words() { Record::U64(8) } else { Record::Fields };
            let reports = run_ycsb(&options(&[&name], workload, record))
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            let inserted = workload.inserts(500);
            assert_eq!(reports[0].keys_after, 300 + inserted, "{name} {workload}");
            let counted: u64 = reports[0].latencies.values().map(|kind| kind.operations).sum();
            assert_eq!(counted, 500, "{name} {workload}");
            assert!(reports[0].min_ops_per_second <= reports[0].max_ops_per_second);
        }
    }
}

#[test]
fn every_distribution_and_record_runs_with_threads() {
    let all = [
        Distribution::Uniform,
        Distribution::Zipfian,
        Distribution::Latest,
        Distribution::Normal { deviation: 0.1 },
    ];
    for distribution in all {
        for record in [Record::U64(8), Record::String16(8), Record::String16(100), Record::Fields] {
            for workload in [Workload::A, Workload::D] {
                let base = options(&["store", "skipmap"], workload, record);
                let micro = MicroOptions { threads: 3, ..base.micro.clone() };
                let reports = run_ycsb(&YcsbOptions {
                    distribution: Some(distribution),
                    rounds: 2,
                    micro,
                    ..base
                })
                .unwrap();
                assert_eq!((reports[0].ratio, reports[1].rounds), (1.0, 2));
                assert_eq!(reports[0].distribution, distribution.name());
            }
        }
    }
}

#[test]
fn keys_of_a_normal_distribution_run_with_every_record() {
    for record in [Record::U64(8), Record::String16(8), Record::Fields] {
        for key_deviation in [Some(1), Some(1 << 40)] {
            let base = options(&["store", "btreemap"], Workload::D, record);
            let micro = MicroOptions { key_deviation, threads: 1, ..base.micro.clone() };
            assert_eq!(
                run_ycsb(&YcsbOptions { micro, ..base }).unwrap()[1].keys_after,
                325,
                "distinct, or an insert would fail"
            );
        }
    }
}

#[test]
fn a_store_says_what_a_record_takes() {
    let of = |engine: &str| {
        run_ycsb(&options(&[engine], Workload::C, Record::Fields)).unwrap().remove(0)
    };
    assert!(of("store").bytes_per_key > Some(1000.0));
    let skipmap = of("skipmap");
    assert_eq!((skipmap.bytes_per_key, &*skipmap.durability), (None, "none"));
    if Peer::Lmdb.is_built() {
        assert!(of("lmdb").bytes_per_key > Some(1000.0));
    }
}

#[test]
fn nodes_that_are_logged_are_those_of_epochs_of_so_many_writes() {
    let engines = ["masstree", "masstree-logging", "masstree-transient"];
    let base = options(&engines, Workload::A, Record::U64(8));
    let logged = |epoch_ops, buffers| {
        let micro = MicroOptions { keys: 5000, epoch_ops, buffers, ..base.micro.clone() };
        let options = YcsbOptions { micro, rounds: 2, ..base.clone() };
        run_ycsb(&options).unwrap().iter().map(|report| report.nodes_logged).collect::<Vec<_>>()
    };
    // An update of 250 in each of two rounds is an epoch of its own.
    assert_eq!(logged(Some(1), true), [Some(0), Some(500), None]);
    assert_eq!(logged(Some(1), false), [Some(500), Some(500), None]);
    assert!(logged(Some(1000), true)[1] < Some(500), "nodes are logged once in an epoch");
}
