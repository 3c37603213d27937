//! What `bench ycsb` prints.

use std::collections::BTreeMap;
use std::time::Duration;

use everleaf_pmem::Durability;
use serde::Serialize;

use super::operations::Stopwatch;
use super::options::YcsbOptions;
use super::watches::{Course, KindLatencies, KindReport, LoadLatencies, PARTS, course_of};
use super::workloads::Distribution;
use crate::Subject;
use crate::compare::Spread;
use crate::contention::Contention;

/// What one engine did in a workload. Serialised, it is one JSON object whose keys are these fields
/// in this order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct YcsbReport {
    /// Name of the engine.
    pub engine: String,
    /// The workload.
    pub workload: String,
    /// The shape of a record.
    pub record: String,
    /// Which records are wanted.
    pub distribution: String,
    /// Of normal: its standard deviation, as a part of all records.
    pub deviation: Option<f64>,
    /// Standard deviation of the keys, if they are of a normal distribution.
    pub key_deviation: Option<u64>,
    /// Records that were loaded.
    pub keys: u64,
    /// Operations.
    pub operations: u64,
    /// Threads that shared them.
    pub threads: u32,
    /// How often it was measured.
    pub rounds: u32,
    /// Of the first round.
    pub seed: u64,
    /// The flush instruction that was asked for: `auto` is what the medium needs. Peers know none.
    pub flush: String,
    /// What an acknowledged write survives: `none`, `process-crash` or `power-fail`.
    pub durability: String,
    /// Records loaded in a second; median of the rounds.
    pub load_ops_per_second: f64,
    /// Operations in a second; median of the rounds.
    pub median_ops_per_second: f64,
    /// The slowest round.
    pub min_ops_per_second: f64,
    /// The fastest round.
    pub max_ops_per_second: f64,
    /// Its median to that of the first engine.
    pub ratio: f64,
    /// Latencies of loading, a record at a time.
    pub load_latency: Option<KindReport>,
    /// Latencies by kind of operation.
    pub latencies: BTreeMap<String, KindReport>,
    /// Operations in a second in each of twenty equal parts of the last round.
    pub course: Vec<f64>,
    /// Seconds of a part.
    pub course_seconds: f64,
    /// Records afterwards.
    pub keys_after: u64,
    /// Bytes on the medium afterwards, where that is known.
    pub medium_bytes: Option<u64>,
    /// Bytes of DRAM beside them afterwards, where that is known.
    pub dram_bytes: Option<u64>,
    /// Both, for each record.
    pub bytes_per_key: Option<f64>,
    /// How often threads met in the workload, in all rounds together, without the loading.
    #[serde(flatten)]
    pub contention: Contention,
    /// Nodes copied to a log before they were changed, in the workload, in all rounds together;
    /// none of an engine without epochs.
    pub nodes_logged: Option<u64>,
    /// The longest time, in nanoseconds, that the end of an epoch kept writers waiting in any
    /// round, loading included; none of an engine without epochs.
    pub longest_stall_ns: Option<u64>,
}

/// What a run gave.
pub struct Done<W: Stopwatch> {
    pub load: Duration,
    pub loads: Vec<W::Load>,
    pub elapsed: Duration,
    pub watches: Vec<W>,
    pub keys_after: u64,
    pub medium_bytes: Option<u64>,
    pub dram_bytes: Option<u64>,
    pub contention: Contention,
    pub nodes_logged: Option<u64>,
    /// The longest time that the end of an epoch kept writers waiting, loading included.
    pub longest_stall_ns: Option<u64>,
}

/// The runs of an engine.
#[derive(Default)]
pub struct EngineRuns {
    pub timed: Vec<Done<Course>>,
    pub latencies: Vec<KindLatencies>,
    pub loads: Vec<LoadLatencies>,
}

impl YcsbReport {
    pub(crate) fn new(
        options: &YcsbOptions,
        subject: Subject,
        durability: Durability,
        runs: &EngineRuns,
    ) -> Self {
        let rate =
            |operations: u64, time: Duration| operations as f64 / time.as_secs_f64().max(1e-9);
        let loads: Vec<f64> =
            runs.timed.iter().map(|done| rate(options.micro.keys, done.load)).collect();
        let rates: Vec<f64> =
            runs.timed.iter().map(|done| rate(options.operations, done.elapsed)).collect();
        let (load, spread, last) =
            (Spread::of(&loads), Spread::of(&rates), &runs.timed[runs.timed.len() - 1]);
        let load_latencies = KindLatencies::reports(
            &runs.loads.iter().map(|load| load.0.clone()).collect::<Vec<_>>(),
        );
        let bytes = last.medium_bytes.map(|bytes| bytes + last.dram_bytes.unwrap_or(0));
        Self {
            engine: subject.to_string(),
            workload: options.workload.to_string(),
            record: options.record.to_string(),
            distribution: options.distribution().name().to_owned(),
            deviation: match options.distribution() {
                Distribution::Normal { deviation } => Some(deviation),
                _ => None,
            },
            key_deviation: options.micro.key_deviation,
            keys: options.micro.keys,
            operations: options.operations,
            threads: options.micro.threads,
            rounds: options.rounds,
            seed: options.micro.seed,
            flush: options.micro.flush.name().to_owned(),
            durability: durability.to_string(),
            load_ops_per_second: load.middle.round(),
            median_ops_per_second: spread.middle.round(),
            min_ops_per_second: spread.min.round(),
            max_ops_per_second: spread.max.round(),
            ratio: 1.0,
            load_latency: load_latencies.values().next().copied(),
            latencies: KindLatencies::reports(&runs.latencies),
            course: course_of(&last.watches, last.elapsed),
            course_seconds: last.elapsed.as_secs_f64() / PARTS as f64,
            keys_after: last.keys_after,
            medium_bytes: last.medium_bytes,
            dram_bytes: last.dram_bytes,
            bytes_per_key: bytes
                .map(|bytes| (bytes as f64 / last.keys_after.max(1) as f64 * 10.0).round() / 10.0),
            contention: runs
                .timed
                .iter()
                .map(|done| done.contention)
                .reduce(Contention::and)
                .unwrap_or_default(),
            nodes_logged: runs.timed.iter().map(|done| done.nodes_logged).sum(),
            longest_stall_ns: runs.timed.iter().filter_map(|done| done.longest_stall_ns).max(),
        }
    }

    /// The heading of the table for people, whose rows [`table_row`](Self::table_row) gives.
    pub fn table_heading() -> String {
        format!(
            "{:<12} {:<13} {:>11} {:>11} {:>11} {:>11} {:>6} {:>9} {}  p50 / p99 / p99.9 ns",
            "engine",
            "durability",
            "load ops/s",
            "ops/s",
            "min",
            "max",
            "ratio",
            "bytes/key",
            Contention::heading()
        )
    }

    /// One row of the table for people.
    pub fn table_row(&self) -> String {
        let of_kind = |(kind, of): (&String, &KindReport)| {
            format!("{kind} {} / {} / {}", of.p50_ns, of.p99_ns, of.p999_ns)
        };
        let latencies: Vec<String> = self.latencies.iter().map(of_kind).collect();
        format!(
            "{:<12} {:<13} {:>11} {:>11} {:>11} {:>11} {:>6.2} {:>9} {}  {}",
            self.engine,
            self.durability,
            self.load_ops_per_second,
            self.median_ops_per_second,
            self.min_ops_per_second,
            self.max_ops_per_second,
            self.ratio,
            self.bytes_per_key.map_or("-".into(), |bytes| format!("{bytes:.1}")),
            self.contention.columns(self.operations * u64::from(self.rounds)),
            latencies.join(", ")
        )
    }
}
