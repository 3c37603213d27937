//! What stands around operations: the course of a run, and latencies.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;

use super::operations::{STRIDE, Stopwatch};
use super::workloads::Kind;
use crate::measure::{Clock, Unobserved, stamp_ns};

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

/// Latencies of loading.
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
pub const PARTS: usize = 20;

/// Operations a second in equal parts of `elapsed`.
pub fn course_of(courses: &[Course], elapsed: Duration) -> Vec<f64> {
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

    /// By kind of operation, of all threads together.
    pub fn reports(all: &[Self]) -> BTreeMap<String, KindReport> {
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

impl Stopwatch for Course {
    type Load = Unobserved;

    fn loading() -> Unobserved {
        Unobserved
    }
    fn begin(&mut self) {
        Course::begin(self);
    }
    #[inline(always)]
    fn time<R>(&mut self, _kind: Kind, work: impl FnOnce() -> R) -> R {
        work()
    }
    #[inline(always)]
    fn passed(&mut self, operations: usize) {
        debug_assert!(operations <= STRIDE);
        self.note(operations as u64);
    }
}

impl Stopwatch for KindLatencies {
    type Load = LoadLatencies;

    fn loading() -> LoadLatencies {
        LoadLatencies(KindLatencies::new())
    }
    #[inline(always)]
    fn time<R>(&mut self, kind: Kind, work: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let outcome = work();
        self.note(kind, start.elapsed());
        outcome
    }
    #[inline(always)]
    fn passed(&mut self, _operations: usize) {}
}

impl Clock for LoadLatencies {
    #[inline(always)]
    fn time<R>(&mut self, _operations: usize, work: impl FnOnce() -> R) -> R {
        self.0.time(Kind::Insert, work)
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
