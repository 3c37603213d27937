//! The measuring loops.
//!
//! A phase is measured in runs of their own, each on an index of its own with the same keys: a *timed* run without time stamps, for
//! throughput; a *latency* run with two time stamps around every operation, whose own cost is measured and subtracted; and a *counted* run.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use everleaf_index::IndexError;
use hdrhistogram::Histogram;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::Phase;
use crate::keys::BenchKey;
use crate::options::MULTIGET_KEYS;
use crate::target::{Operations, Target};

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
        let mut pairs: Vec<Duration> = (0..1001)
            .map(|_| {
                let start = Instant::now();
                start.elapsed()
            })
            .collect();
        pairs.sort_unstable();
        // Three significant digits, as wide as need be; no panic, the digits are a constant within 0 to 5.
        let histogram = Histogram::new(3).expect("three digits are offered");
        Self { histogram, stamp_ns: pairs[pairs.len() / 2].as_nanos() as f64 }
    }

    /// Takes the measurements of another thread.
    pub fn merge(&mut self, other: &Self) {
        // Both resize themselves, so adding cannot fail.
        let _ = self.histogram.add(&other.histogram);
    }

    /// What was measured.
    pub fn summary(&self) -> LatencySummary {
        let ns = |units: u64| units as f64 / UNITS;
        let logarithms: f64 = self
            .histogram
            .iter_recorded()
            .map(|step| (self.histogram.median_equivalent(step.value_iterated_to()) as f64).ln() * step.count_at_value() as f64)
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

/// What the operations answered, to be compared with what they must have answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Operations with the right outcome.
    pub right: u64,
    /// Sum of the returned values without their lowest byte, which changes with every update.
    pub sum: u64,
}

impl Answers {
    #[inline(always)]
    fn take(&mut self, value: Option<u64>) {
        if let Some(value) = value {
            self.right += 1;
            self.sum = self.sum.wrapping_add(value >> 8);
        }
    }

    /// What `keys` must be answered in `phase`.
    pub fn expected<K: BenchKey>(phase: Phase, keys: &[K]) -> Self {
        let sum = match phase {
            Phase::Insert | Phase::Scan => 0,
            _ => keys.iter().fold(0, |sum: u64, key| sum.wrapping_add(key.word() >> 8)),
        };
        Self { right: keys.len() as u64, sum }
    }
}

/// The value that a key gets: `generation` tells updates apart.
#[inline(always)]
fn value_of<K: BenchKey>(key: &K, generation: u8) -> u64 {
    key.word() & !0xff | u64::from(generation)
}

/// Does the operations of a phase.
pub fn perform<K: BenchKey, O: Operations<K>, C: Clock>(
    target: &mut O,
    clock: &mut C,
    phase: Phase,
    keys: &[K],
    generation: u8,
) -> Result<Answers, IndexError> {
    let mut answers = Answers::default();
    match phase {
        Phase::Insert => {
            for key in keys {
                answers.right += u64::from(clock.time(1, || target.insert(key, value_of(key, generation)))?);
            }
        }
        Phase::Find => {
            for key in keys {
                answers.take(clock.time(1, || target.get(key))?);
            }
        }
        Phase::Multiget => {
            let mut values = [None; MULTIGET_KEYS];
            for keys in keys.chunks(MULTIGET_KEYS) {
                let values = &mut values[..keys.len()];
                clock.time(keys.len(), || target.get_many(keys, values))?;
                values.iter().for_each(|value| answers.take(*value));
            }
        }
        Phase::Update => {
            for key in keys {
                answers.take(clock.time(1, || target.update(key, value_of(key, generation)))?);
            }
        }
        Phase::Delete => {
            for key in keys {
                answers.take(clock.time(1, || target.remove(key))?);
            }
        }
        Phase::Scan => {
            for key in keys {
                answers.right += u64::from(clock.time(1, || target.scan(key))?);
            }
        }
    }
    Ok(answers)
}

/// What one phase gave.
pub struct Measured<C> {
    /// From the start of the first thread to the end of the last.
    pub elapsed: Duration,
    /// All threads together.
    pub answers: Answers,
    /// One for each thread.
    pub clocks: Vec<C>,
}

/// Does the operations of a phase with as many threads as there are clocks, which share `keys` in equal parts.
pub fn measure<K: BenchKey, T: Target<K>, C: Clock>(
    target: &mut T,
    mut clocks: Vec<C>,
    phase: Phase,
    keys: &[K],
    generation: u8,
) -> Result<Measured<C>, IndexError> {
    let mut handles = target.handles(clocks.len());
    if let [handle] = &mut handles[..] {
        let start = Instant::now();
        let answers = perform(handle, &mut clocks[0], phase, keys, generation)?;
        return Ok(Measured { elapsed: start.elapsed(), answers, clocks });
    }
    let (threads, barrier) = (handles.len(), Barrier::new(handles.len()));
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> = handles
            .into_iter()
            .zip(clocks)
            .enumerate()
            .map(|(thread, (mut handle, mut clock))| {
                let (part, barrier) = (share(keys, thread, threads), &barrier);
                scope.spawn(move || {
                    pin(thread, threads);
                    barrier.wait();
                    let start = Instant::now();
                    let answers = perform(&mut handle, &mut clock, phase, part, generation);
                    (start, Instant::now(), answers, clock)
                })
            })
            .collect();
        running.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    let start = outcomes.iter().map(|(start, ..)| *start).min();
    let end = outcomes.iter().map(|(_, end, ..)| *end).max();
    let elapsed = start.zip(end).map_or(Duration::ZERO, |(start, end)| end - start);
    let mut measured = Measured { elapsed, answers: Answers::default(), clocks: Vec::new() };
    for (_, _, answers, clock) in outcomes {
        let answers = answers?;
        measured.answers.right += answers.right;
        measured.answers.sum = measured.answers.sum.wrapping_add(answers.sum);
        measured.clocks.push(clock);
    }
    Ok(measured)
}

/// The part of `keys` that thread `thread` of `threads` works on.
fn share<K>(keys: &[K], thread: usize, threads: usize) -> &[K] {
    let bound = |thread: usize| (keys.len() as u128 * thread as u128 / threads as u128) as usize;
    &keys[bound(thread)..bound(thread + 1)]
}

/// Binds the calling thread to a processor of its own, if there are enough; a thread that wanders measures its wandering.
fn pin(thread: usize, threads: usize) {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let processors: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
    if threads <= processors.len() {
        let mut own = CpuSet::new();
        own.set(processors[thread]);
        let _ = sched_setaffinity(None, &own); // What is refused costs only steadiness.
    }
}

#[cfg(test)]
mod tests {
    use everleaf_index::{BytesKeys, Model, Serialized, U64Keys};

    use super::*;
    use crate::keys::String16;
    use crate::target::{IndexTarget, MapTarget};

    /// Inserts, then does each phase; answers must be what they must be.
    fn answers_are_right<K: BenchKey, T: Target<K>, C: Clock + Clone>(mut target: T, clocks: Vec<C>) {
        let keys: Vec<K> = (0..205).map(|i| K::of(i * 7)).collect();
        for (generation, phase) in
            [Phase::Insert, Phase::Find, Phase::Update, Phase::Update, Phase::Multiget, Phase::Scan, Phase::Delete]
                .iter()
                .enumerate()
        {
            let measured = measure(&mut target, clocks.clone(), *phase, &keys, generation as u8).unwrap();
            assert_eq!(measured.answers, Answers::expected(*phase, &keys), "{phase}");
        }
        assert_eq!(target.len(), 0);
        for phase in [Phase::Find, Phase::Update, Phase::Multiget, Phase::Scan, Phase::Delete] {
            let measured = measure(&mut target, clocks.clone(), phase, &keys, 0).unwrap();
            assert_eq!(measured.answers, Answers::default(), "{phase} of absent keys");
        }
    }

    fn model<K: BenchKey<Kind = U64Keys>, const W: usize>() -> IndexTarget<K> {
        IndexTarget::new(Box::new(Serialized::new(Model::<U64Keys, W>::new())))
    }

    #[test]
    fn answers_of_every_target_are_right() {
        answers_are_right::<u64, _, _>(model::<u64, 1>(), vec![Unobserved]);
        answers_are_right::<u64, _, _>(model::<u64, 3>(), vec![Unobserved]);
        answers_are_right::<u64, _, _>(MapTarget::<u64, 1>::new(), vec![Unobserved]);
        answers_are_right::<u64, _, _>(MapTarget::<u64, 3>::new(), vec![Latencies::new()]);
        answers_are_right::<String16, _, _>(MapTarget::<String16, 2>::new(), vec![Unobserved]);
        let strings = IndexTarget::<String16>::new(Box::new(Serialized::new(Model::<BytesKeys>::new())));
        answers_are_right::<String16, _, _>(strings, vec![Latencies::new()]);
        answers_are_right::<u64, _, _>(model::<u64, 1>(), vec![Latencies::new(); 3]);
    }

    #[test]
    fn threads_share_all_keys_and_no_key_twice() {
        for (len, threads) in [(0, 2), (1, 3), (10, 3), (64, 64), (100, 7)] {
            let keys: Vec<usize> = (0..len).collect();
            let parts: Vec<usize> = (0..threads).flat_map(|thread| share(&keys, thread, threads)).copied().collect();
            assert_eq!(parts, keys);
        }
    }

    #[test]
    fn latencies_are_recorded_for_every_operation() {
        let mut target = MapTarget::<u64, 1>::new();
        let keys: Vec<u64> = (0..1000).collect();
        for phase in [Phase::Insert, Phase::Multiget] {
            let measured = measure(&mut target, vec![Latencies::new()], phase, &keys, 0).unwrap();
            assert_eq!(measured.clocks[0].histogram.len(), 1000, "{phase}");
        }
    }

    #[test]
    fn summaries_follow_the_histogram() {
        let mut latencies = Latencies::new();
        for (ns, count) in [(100, 990), (1000, 9), (10_000, 1)] {
            latencies.histogram.record_n(ns * UNITS as u64, count).unwrap();
        }
        let summary = latencies.summary();
        let close = |measured: f64, right: f64| (measured / right - 1.0).abs() < 0.002;
        assert!(close(summary.p50_ns, 100.0) && close(summary.p99_ns, 100.0) && close(summary.p999_ns, 1000.0), "{summary:?}");
        assert!(close(summary.geomean_ns, 100.0 * 10f64.powf(11.0 / 1000.0)), "{summary:?}");
    }
}
