//! Numbers that are counted by how large they are.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Where the buckets end: a number is counted in the first one that it is not beyond.
pub type Bounds = [u64; 16];

/// Nanoseconds, from a microsecond to ten seconds.
pub const TIMES_NS: Bounds = [
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    10_000_000,
    50_000_000,
    250_000_000,
    1_000_000_000,
    10_000_000_000,
];

/// How many were together.
pub const GROUPS: Bounds = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256, 1024, 4096];

/// A histogram that any thread adds to without waiting.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static Bounds,
    /// One for each bound, and what is beyond all of them.
    buckets: [AtomicU64; 17],
    sum: AtomicU64,
}

impl Histogram {
    /// Nothing was counted.
    pub const fn new(bounds: &'static Bounds) -> Self {
        Self { bounds, buckets: [const { AtomicU64::new(0) }; 17], sum: AtomicU64::new(0) }
    }

    /// Counts.
    pub fn add(&self, number: u64) {
        let at = self.bounds.partition_point(|bound| *bound < number);
        self.buckets[at].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(number, Ordering::Relaxed);
    }

    /// Counts a time, in nanoseconds.
    pub fn add_time(&self, time: Duration) {
        self.add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Begins anew.
    pub fn reset(&self) {
        self.sum.store(0, Ordering::Relaxed);
        self.buckets.iter().for_each(|bucket| bucket.store(0, Ordering::Relaxed));
    }

    /// What was counted.
    pub fn seen(&self) -> Seen {
        let sum = self.sum.load(Ordering::Relaxed);
        let buckets = self.buckets.each_ref().map(|bucket| bucket.load(Ordering::Relaxed));
        Seen { bounds: self.bounds, buckets, sum }
    }
}

/// What a histogram had counted at some moment.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub bounds: &'static Bounds,
    pub buckets: [u64; 17],
    pub sum: u64,
}

impl Seen {
    /// How many numbers were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The bound that so many of a hundred numbers are not beyond.
    pub fn percentile(&self, percent: f64) -> u64 {
        let enough = (percent / 100.0 * self.count() as f64).ceil().max(1.0);
        let mut below = 0;
        let at = self.buckets.iter().position(|bucket| {
            below += bucket;
            below as f64 >= enough
        });
        let last = self.bounds.len() - 1;
        self.bounds[at.unwrap_or(last).min(last)]
    }

    /// What both have counted.
    pub fn and(mut self, other: &Self) -> Self {
        for (bucket, more) in self.buckets.iter_mut().zip(&other.buckets) {
            *bucket += more;
        }
        self.sum += other.sum;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_counted_where_it_is_not_beyond_the_bound() {
        assert!(TIMES_NS.is_sorted() && GROUPS.is_sorted());
        let histogram = Histogram::new(&GROUPS);
        for number in [0, 1, 2, 5, 6, 7, 4096, 4097] {
            histogram.add(number);
        }
        let seen = histogram.seen();
        let mut expected = [0; 17];
        for (at, count) in [(0, 2), (1, 1), (4, 2), (5, 1), (15, 1), (16, 1)] {
            expected[at] = count;
        }
        assert_eq!(seen.buckets, expected);
        assert_eq!((seen.count(), seen.sum), (8, 8214));
        for (percent, bound) in [(0.0, 1), (25.0, 1), (50.0, 6), (75.0, 8), (100.0, 4096)] {
            assert_eq!(seen.percentile(percent), bound, "{percent}");
        }
        let twice = seen.and(&seen);
        assert_eq!((twice.count(), twice.sum, twice.buckets[4]), (16, 16_428, 4));
        histogram.reset();
        assert_eq!((histogram.seen().count(), histogram.seen().sum), (0, 0));
    }
}
