//! Time stamps around operations, and what they cost.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

/// What stands around each operation.
pub trait Clock: Send {
    /// Does `work`, which is `operations` operations.
    fn time<R>(&mut self, operations: usize, work: impl FnOnce() -> R) -> R;
}

/// Nothing: the run is timed as a whole.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Clock for Unobserved {
    #[inline(always)]
    fn time<R>(&mut self, _operations: usize, work: impl FnOnce() -> R) -> R {
        work()
    }
}

/// What a pair of time stamps costs: the median of many.
pub fn stamp_ns() -> f64 {
    let mut pairs: Vec<Duration> = (0..1001)
        .map(|_| {
            let start = Instant::now();
            start.elapsed()
        })
        .collect();
    pairs.sort_unstable();
    pairs[pairs.len() / 2].as_nanos() as f64
}

/// Histogram units in a nanosecond: a key's share of a batch takes a few nanoseconds.
const UNITS: f64 = 10.0;

/// Time stamps around each operation, or each batch, whose keys share its time.
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
    stamp_ns: f64,
}

impl Latencies {
    /// Measures what a pair of time stamps costs.
    pub fn new() -> Self {
        // Three significant digits, as wide as need be; no panic, the digits are a constant within
        // 0 to 5.
        let histogram = Histogram::new(3).expect("three digits are offered");
        Self { histogram, stamp_ns: stamp_ns() }
    }

    /// Takes the measurements of another thread.
    pub fn merge(&mut self, other: &Self) {
        // Both resize themselves, so adding cannot fail.
        let _ = self.histogram.add(&other.histogram);
    }

    /// How many operations were timed.
    #[cfg(test)]
    pub fn recorded(&self) -> u64 {
        self.histogram.len()
    }

    /// What was measured.
    pub fn summary(&self) -> LatencySummary {
        let ns = |units: u64| units as f64 / UNITS;
        let logarithms: f64 = self
            .histogram
            .iter_recorded()
            .map(|step| {
                (self.histogram.median_equivalent(step.value_iterated_to()) as f64).ln()
                    * step.count_at_value() as f64
            })
            .sum();
        LatencySummary {
            geomean_ns: (logarithms / self.histogram.len().max(1) as f64).exp() / UNITS,
            p50_ns: ns(self.histogram.value_at_quantile(0.5)),
            p99_ns: ns(self.histogram.value_at_quantile(0.99)),
            p999_ns: ns(self.histogram.value_at_quantile(0.999)),
        }
    }
}

impl Clock for Latencies {
    #[inline(always)]
    fn time<R>(&mut self, operations: usize, work: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let outcome = work();
        let ns = (start.elapsed().as_nanos() as f64 - self.stamp_ns) / operations as f64;
        let _ = self.histogram.record_n(((ns * UNITS) as u64).max(1), operations as u64);
        outcome
    }
}

/// Latencies of one phase, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencySummary {
    /// Geometric mean.
    pub geomean_ns: f64,
    /// Median.
    pub p50_ns: f64,
    /// 99th percentile.
    pub p99_ns: f64,
    /// 99.9th percentile.
    pub p999_ns: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_follow_the_histogram() {
        let mut latencies = Latencies::new();
        for (ns, count) in [(100, 990), (1000, 9), (10_000, 1)] {
            latencies.histogram.record_n(ns * UNITS as u64, count).unwrap();
        }
        let summary = latencies.summary();
        let close = |measured: f64, right: f64| (measured / right - 1.0).abs() < 0.002;
        assert!(
            close(summary.p50_ns, 100.0)
                && close(summary.p99_ns, 100.0)
                && close(summary.p999_ns, 1000.0),
            "{summary:?}"
        );
        assert!(close(summary.geomean_ns, 100.0 * 10f64.powf(11.0 / 1000.0)), "{summary:?}");
    }
}
