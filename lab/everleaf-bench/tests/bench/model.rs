//! `bench model` on real engines: what it counts is exact, and adds up.

use everleaf_bench::model::{Latency, ModelOptions, ModelRow, run_model};
use everleaf_bench::{MicroOptions, Phase};

#[test]
fn the_cost_of_a_phase_is_the_sum_of_its_parts() {
    let micro = MicroOptions {
        keys: 3000,
        phases: vec![Phase::Insert, Phase::Find, Phase::Update],
        ..Default::default()
    };
    let latencies =
        vec![Latency { read_ns: 1, flush_ns: 1000, fence_ns: 1_000_000 }, Latency::of(0)];
    let engines = ["fptree", "store", "fptree-c", "ptree"].map(Into::into).into();
    let options = ModelOptions { engines, latencies, rounds: 0, micro };
    let rows = run_model(&options).unwrap();
    assert_eq!(rows.len(), 12);
    for row in &rows {
        let total = row.costs[0].modelled_ns * 3000.0;
        let parts = row.pm_line_misses as f64 + row.flushes as f64 * 1e3 + row.fences as f64 * 1e6;
        assert!((total / parts - 1.0).abs() < 1e-9 || parts == total, "{row:?}");
        assert_eq!((row.costs[1].modelled_ns, row.costs[0].measured_ns), (0.0, None));
    }
    let update = &rows[2];
    assert_eq!(
        (update.flushes, update.fences, update.lines_written, update.allocations),
        (3000, 3000, 3000, 0)
    );
    assert_eq!(rows[1].flushes, 0);
    assert!(rows[3].allocations >= 3000, "the store allocates a record for each value");
    assert_eq!(rows, run_model(&options).unwrap(), "the same seed, to the last digit");
    let other =
        ModelOptions { micro: MicroOptions { seed: 2, ..options.micro.clone() }, ..options };
    assert_ne!(rows, run_model(&other).unwrap());
}

#[test]
fn the_model_stands_beside_what_was_measured() {
    let micro = MicroOptions { keys: 200, phases: vec![Phase::Insert], ..Default::default() };
    let options = ModelOptions {
        engines: vec!["fptree".into()],
        latencies: vec![Latency::of(5000)],
        rounds: 1,
        micro,
    };
    let rows = run_model(&options).unwrap();
    assert!(rows[0].costs[0].measured_ns.is_some() && rows[0].costs[0].modelled_ns >= 10_000.0);
    assert_eq!(rows[0].table_row().len(), ModelRow::table_heading(&options.latencies, true).len());
    let peer = ModelOptions { engines: vec!["skipmap".into()], ..options };
    assert!(run_model(&peer).unwrap_err().to_string().contains("skipmap"));
}
