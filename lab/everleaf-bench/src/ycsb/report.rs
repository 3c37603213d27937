//! What `bench ycsb` prints.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use everleaf_pmem::Durability;
use hdrhistogram::Histogram;
use serde::Serialize;

use super::options::{Distribution, Kind, YcsbOptions};
use super::run::Done;
use crate::Subject;
use crate::compare::Spread;
use crate::contention::Contention;
use crate::measure::stamp_ns;

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

/// Latencies of the operations of a kind, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct KindReport {
    /// How many there were.
    pub operations: u64,
    /// Arithmetic mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: f64,
    /// 95th percentile.
    pub p95_ns: f64,
    /// 99th percentile.
    pub p99_ns: f64,
    /// 99.9th percentile.
    pub p999_ns: f64,
    /// The slowest.
    pub max_ns: f64,
}

/// The runs of an engine.
#[derive(Default)]
pub struct EngineRuns {
    pub timed: Vec<Done<Course>>,
    pub latencies: Vec<KindLatencies>,
    pub loads: Vec<LoadLatencies>,
}

/// Those of loading.
#[derive(Clone, Debug)]
pub struct LoadLatencies(pub KindLatencies);

/// When a thread had done how many operations.
#[derive(Clone, Debug, Default)]
pub struct Course(Vec<(Duration, u64)>, Option<Instant>);

impl Course {
    /// The first operation begins.
    pub fn begin(&mut self) {
        self.1 = Some(Instant::now());
    }

    /// So many are done since the last note.
    pub fn note(&mut self, operations: u64) {
        self.0.push((self.1.map_or(Duration::ZERO, |start| start.elapsed()), operations));
    }
}

/// Parts in which the course of a run is told.
const PARTS: usize = 20;

/// Operations a second in equal parts of `elapsed`.
fn course_of(courses: &[Course], elapsed: Duration) -> Vec<f64> {
    let part = elapsed.as_secs_f64().max(1e-9) / PARTS as f64;
    let mut operations = vec![0u64; PARTS];
    for (at, done) in courses.iter().flat_map(|course| &course.0) {
        operations[((at.as_secs_f64() / part) as usize).min(PARTS - 1)] += done;
    }
    operations.into_iter().map(|done| (done as f64 / part).round()).collect()
}

/// Histograms of nanoseconds, one for each kind of operation.
#[derive(Clone, Debug)]
pub struct KindLatencies {
    histograms: [Histogram<u64>; Kind::ALL.len()],
    stamp_ns: u64,
}

impl KindLatencies {
    /// Measures what a pair of time stamps costs.
    pub fn new() -> Self {
        // No panic: three digits are offered.
        let histograms =
            std::array::from_fn(|_| Histogram::new(3).expect("three digits are offered"));
        Self { histograms, stamp_ns: stamp_ns() as u64 }
    }

    /// An operation took so long, the stamps included.
    #[inline(always)]
    pub fn note(&mut self, kind: Kind, took: Duration) {
        let ns = (took.as_nanos() as u64).saturating_sub(self.stamp_ns).max(1);
        let _ = self.histograms[kind as usize].record(ns); // It resizes itself.
    }

    fn reports(all: &[Self]) -> BTreeMap<String, KindReport> {
        let of_kind = |kind: Kind| {
            let mut merged = all.first()?.histograms[kind as usize].clone();
            for other in &all[1..] {
                let _ = merged.add(&other.histograms[kind as usize]); // It resizes itself.
            }
            let at = |quantile| merged.value_at_quantile(quantile) as f64;
            let (p50_ns, p95_ns, p99_ns, p999_ns) = (at(0.5), at(0.95), at(0.99), at(0.999));
            let (operations, mean_ns) = (merged.len(), (merged.mean() * 100.0).round() / 100.0);
            let report = KindReport {
                operations,
                mean_ns,
                p50_ns,
                p95_ns,
                p99_ns,
                p999_ns,
                max_ns: merged.max() as f64,
            };
            (operations > 0).then_some((kind.name().replace('-', "_"), report))
        };
        Kind::ALL.into_iter().filter_map(of_kind).collect()
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_course_counts_every_operation_once() {
        let course = |at: &[u64]| {
            Course(at.iter().map(|ms| (Duration::from_millis(*ms), 1000)).collect(), None)
        };
        let parts = course_of(
            &[course(&[1, 50, 99, 100]), course(&[2, 51, 104])],
            Duration::from_millis(100),
        );
        assert_eq!(parts.len(), PARTS);
        assert_eq!(parts.iter().sum::<f64>() * 0.005, 7000.0);
        assert_eq!((parts[0], parts[10], parts[19]), (400_000.0, 400_000.0, 600_000.0));
    }

    #[test]
    fn latencies_are_told_by_kind() {
        let mut latencies = KindLatencies::new();
        latencies.stamp_ns = 20;
        (0..99).for_each(|_| latencies.note(Kind::Read, Duration::from_nanos(120)));
        latencies.note(Kind::Read, Duration::from_nanos(1020));
        latencies.note(Kind::ReadModifyWrite, Duration::from_nanos(5));
        let reports = KindLatencies::reports(&[latencies.clone(), latencies]);
        assert_eq!(reports.keys().collect::<Vec<_>>(), ["read", "read_modify_write"]);
        let read = reports["read"];
        assert_eq!(
            (read.operations, read.p50_ns, read.p99_ns, read.max_ns),
            (200, 100.0, 100.0, 1000.0)
        );
        assert_eq!(read.mean_ns, 109.0);
        assert_eq!(reports["read_modify_write"].p50_ns, 1.0);
    }
}
