//! `bench growth`: a pool that begins small grows under load, and every put is timed: which ones
//! took longest, and why.
//!
//! Two clocks look at each put: that of the wall, and that of the thread, which stands still while
//! the system lets others run. What a put waits for the processor is not a pause of the store; what
//! the kernel does for it (faults, huge pages, space in the file) is.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use everleaf::{CreateOptions, Engine, KeyType, Store, Transactions};
use everleaf_engines::all;
use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::contention::Contention;
use crate::key::{BenchKey, String16};
use crate::keys::KeySequence;
use crate::place::{Need, Place, without_log};
use crate::plan::{within, within_threads};
use crate::{BenchError, Order, Progress, Scratch, Subject};

/// How many of the longest pauses are shown.
const SHOWN: usize = 12;
/// A put that takes longer is looked at: did the pool grow?
const NOTABLE: Duration = Duration::from_micros(200);
/// Puts after which a thread looks whether the pool is large enough.
const PUTS_BETWEEN_LOOKS: u64 = 256;

/// What `bench growth` measures.
#[derive(Clone, Debug, PartialEq)]
pub struct GrowthOptions {
    /// The engine of the store.
    pub engine: Engine,
    /// Bytes of the pool at first.
    pub from_bytes: u64,
    /// Bytes of the pool at which the load ends.
    pub to_bytes: u64,
    /// Bytes of a value.
    pub value_bytes: u32,
    /// Threads that put.
    pub threads: u32,
    /// Which transactions keep them apart, in engines that know any.
    pub transactions: Transactions,
    /// Decides the keys.
    pub seed: u64,
    /// Where the pool is made (and removed); none is /dev/shm, or the temporary folder if there is
    /// no room.
    pub pool: Scratch,
}

impl Default for GrowthOptions {
    fn default() -> Self {
        Self {
            engine: Engine::default(),
            from_bytes: 1 << 20,
            to_bytes: 8 << 30,
            value_bytes: 100,
            threads: 1,
            transactions: Transactions::default(),
            seed: 1,
            pool: Scratch::default(),
        }
    }
}

/// A put that took long.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pause {
    /// How long it took.
    pub ms: f64,
    /// How long its thread ran meanwhile; the rest it waited, for the processor or for another
    /// thread.
    pub running_ms: f64,
    /// Bytes of the pool afterwards.
    pub pool_bytes: u64,
    /// Bytes that the pool grew by since the last notable put of the thread.
    pub grown_bytes: u64,
    /// What it was, in words.
    pub cause: &'static str,
}

/// What `bench growth` prints. Serialised, it is one JSON object whose keys are these fields in
/// this order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Growth {
    /// The engine of the store.
    pub engine: String,
    /// Threads that put.
    pub threads: u32,
    /// Bytes of a value.
    pub value_bytes: u32,
    /// Bytes of the pool at first.
    pub from_bytes: u64,
    /// Bytes of the pool in the end.
    pub to_bytes: u64,
    /// Keys that were put.
    pub keys: u64,
    /// How long it took.
    pub seconds: f64,
    /// Microseconds that half of the puts did not exceed.
    pub p50_us: f64,
    /// The same for 99 of 100.
    pub p99_us: f64,
    /// For 999 of 1000.
    pub p999_us: f64,
    /// For all but one of 100,000.
    pub p99999_us: f64,
    /// The longest put.
    pub max_ms: f64,
    /// The longest time that a thread ran in one put.
    pub max_running_ms: f64,
    /// How often threads met.
    #[serde(flatten)]
    pub contention: Contention,
    /// The longest, the longest first.
    pub pauses: Vec<Pause>,
}

/// Lets a pool grow under load.
///
/// # Errors
/// [`BenchError`]; what is wrong with the options is said before any work is done.
///
/// # Examples
/// ```
/// use everleaf_bench::{GrowthOptions, run_growth_with_progress};
///
/// let options = GrowthOptions { to_bytes: 8 << 20, ..GrowthOptions::default() };
/// let grown = run_growth_with_progress(&options, &mut |_| {})?;
/// assert!(grown.to_bytes >= 8 << 20 && grown.pauses[0].ms <= grown.max_ms);
/// # Ok::<(), everleaf_bench::BenchError>(())
/// ```
pub fn run_growth_with_progress(
    options: &GrowthOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Growth, BenchError> {
    within_threads(options.threads)?;
    within("from", options.from_bytes, 64 << 10, 1 << 40)?;
    within("to", options.to_bytes, options.from_bytes, 1 << 40)?;
    within("value-bytes", options.value_bytes.into(), 0, 1 << 20)?;
    if options.threads > 1 && !options.engine.is_concurrent() {
        return Err(BenchError::SerialEngine {
            engine: Subject::Store(options.engine),
            threads: options.threads,
        });
    }
    // The last step may go beyond the end; inner nodes and snapshots of the search for room are in
    // DRAM.
    let need = Need {
        pool_bytes: options.to_bytes / 16 * 17 + (64 << 20),
        dram_bytes: options.to_bytes / 32 + (64 << 20),
    };
    let folder = Place::find(need, &options.pool)?.create_folder()?;
    let path = folder.path().join("pool");
    let create = CreateOptions::new()
        .engines(all())
        .engine(options.engine)
        .key_type(KeyType::Bytes)
        .size_bytes(options.from_bytes)
        .transactions(options.transactions);
    let create = without_log(create);
    let store = folder.fill(|_| create.create(&path))?;
    let load = Load {
        options,
        store: &store,
        path: &path,
        next_key: AtomicU64::new(0),
        ended: AtomicBool::new(false),
    };
    let start = Instant::now();
    let watched = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..options.threads).map(|_| scope.spawn(|| load.write())).collect();
        while !writers.iter().all(|writer| writer.is_finished()) {
            let done = load.pool_bytes().min(options.to_bytes);
            progress(Progress { done, total: options.to_bytes, doing: "growth".into() });
            std::thread::park_timeout(Duration::from_millis(100));
        }
        let one =
            |writer: std::thread::ScopedJoinHandle<'_, Result<Watched, BenchError>>| match writer
                .join()
            {
                Ok(watched) => watched,
                Err(panic) => std::panic::resume_unwind(panic),
            };
        writers.into_iter().map(one).collect::<Result<Vec<_>, _>>()
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let statistics = store.statistics()?;
    let contention = Contention::of(statistics.concurrency, &[statistics.conflicts]);
    let keys = statistics.entries;
    let to_bytes = load.pool_bytes();
    let grown = Watched::all(watched).report(options);
    Ok(Growth { keys, seconds, to_bytes, contention, ..grown })
}

/// What writers share.
struct Load<'l> {
    options: &'l GrowthOptions,
    store: &'l Store,
    path: &'l Path,
    next_key: AtomicU64,
    ended: AtomicBool,
}

impl Load<'_> {
    /// Bytes of the pool's file.
    fn pool_bytes(&self) -> u64 {
        std::fs::metadata(self.path).map_or(0, |metadata| metadata.len())
    }

    /// One thread: puts until the pool is large enough.
    fn write(&self) -> Result<Watched, BenchError> {
        let keys = KeySequence::new(Order::Random, u64::BITS, u64::MAX, self.options.seed);
        let value = vec![0x5a; self.options.value_bytes as usize];
        let mut watched = Watched::new(self.pool_bytes());
        while !self.ended.load(Ordering::Relaxed) {
            let from = self.next_key.fetch_add(PUTS_BETWEEN_LOOKS, Ordering::Relaxed);
            let mut running = thread_time();
            for number in from..from + PUTS_BETWEEN_LOOKS {
                let key = String16::of(keys.number(number));
                let start = Instant::now();
                let put = self.store.put(&key[..], &value);
                let (taken, ran) = (start.elapsed(), thread_time());
                if let Err(error) = put {
                    self.ended.store(true, Ordering::Relaxed);
                    return Err(error.into());
                }
                watched.put(taken, ran - running, || self.pool_bytes());
                running = ran;
            }
            if self.pool_bytes() >= self.options.to_bytes {
                self.ended.store(true, Ordering::Relaxed);
            }
        }
        Ok(watched)
    }
}

/// How long this thread has been running.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The puts of a thread.
struct Watched {
    histogram: Histogram<u64>,
    longest_run: Duration,
    pauses: Vec<Pause>,
    pool_bytes: u64,
}

impl Watched {
    fn new(pool_bytes: u64) -> Self {
        let histogram = Histogram::new(3).expect("three digits are offered");
        Self { histogram, longest_run: Duration::ZERO, pauses: Vec::new(), pool_bytes }
    }

    /// A put took so long, and its thread ran so long in it.
    fn put(&mut self, taken: Duration, running: Duration, pool_bytes: impl FnOnce() -> u64) {
        // It resizes itself, so this cannot fail.
        let _ = self.histogram.record(taken.as_nanos() as u64);
        self.longest_run = self.longest_run.max(running.min(taken));
        if taken < NOTABLE {
            return;
        }
        let before = std::mem::replace(&mut self.pool_bytes, pool_bytes());
        let grown_bytes = self.pool_bytes.saturating_sub(before);
        let ran = running.min(taken);
        let cause = match (grown_bytes > 0, ran * 2 >= taken) {
            (true, true) => "the pool grew",
            (true, false) => {
                "the pool grew, and the thread waited: for another that made it grow, or for the \
                processor"
            }
            (false, true) => "the thread ran: a split, a table of the kernel's, or an interrupt",
            (false, false) => "the thread waited for the processor, or for another thread",
        };
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        self.pauses.push(Pause {
            ms: ms(taken),
            running_ms: ms(ran),
            pool_bytes: self.pool_bytes,
            grown_bytes,
            cause,
        });
        if self.pauses.len() >= 64 * SHOWN {
            self.keep_longest();
        }
    }

    fn keep_longest(&mut self) {
        self.pauses.sort_by(|a, b| b.ms.total_cmp(&a.ms));
        self.pauses.truncate(SHOWN);
    }

    fn all(threads: Vec<Self>) -> Self {
        let mut all = Self::new(0);
        for thread in threads {
            let _ = all.histogram.add(&thread.histogram);
            all.longest_run = all.longest_run.max(thread.longest_run);
            all.pauses.extend(thread.pauses);
        }
        all.keep_longest();
        all
    }

    /// What was seen of the puts; the pool's part is for the caller to add.
    fn report(self, options: &GrowthOptions) -> Growth {
        let us = |quantile: f64| self.histogram.value_at_quantile(quantile) as f64 / 1e3;
        Growth {
            engine: options.engine.to_string(),
            threads: options.threads,
            value_bytes: options.value_bytes,
            from_bytes: options.from_bytes,
            to_bytes: options.to_bytes,
            keys: 0,
            seconds: 0.0,
            p50_us: us(0.5),
            p99_us: us(0.99),
            p999_us: us(0.999),
            p99999_us: us(0.99999),
            max_ms: self.histogram.max() as f64 / 1e6,
            max_running_ms: self.longest_run.as_secs_f64() * 1e3,
            contention: Contention::default(),
            pauses: self.pauses,
        }
    }
}

impl Growth {
    /// For people: some lines.
    pub fn table(&self) -> String {
        let mib = |bytes: u64| bytes >> 20;
        let mut lines = format!(
            "{}, {} threads, values of {} bytes: from {} to {} MiB, {} keys in {:.1} s\n\
             a put: half within {:.2} us, 99 % {:.2}, 99.9 % {:.2}, 99.999 % {:.0}; the longest \
             {:.2} ms, of which its thread ran at most {:.2}\n\
             {:>9} {:>11} {:>9} {:>9}  the longest puts",
            self.engine,
            self.threads,
            self.value_bytes,
            mib(self.from_bytes),
            mib(self.to_bytes),
            self.keys,
            self.seconds,
            self.p50_us,
            self.p99_us,
            self.p999_us,
            self.p99999_us,
            self.max_ms,
            self.max_running_ms,
            "ms",
            "running ms",
            "pool MiB",
            "grown MiB",
        );
        for pause in &self.pauses {
            let Pause { ms, running_ms, pool_bytes, grown_bytes, cause } = pause;
            lines += &format!(
                "\n{ms:>9.2} {running_ms:>11.2} {:>9} {:>9}  {cause}",
                mib(*pool_bytes),
                mib(*grown_bytes)
            );
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_that_grows_is_seen_to_grow() {
        for threads in [1, 2] {
            let options = GrowthOptions {
                to_bytes: 40 << 20,
                value_bytes: 500,
                threads,
                ..GrowthOptions::default()
            };
            let mut told = Vec::new();
            let grown =
                run_growth_with_progress(&options, &mut |progress| told.push(progress)).unwrap();
            assert!(
                grown.to_bytes >= 40 << 20
                    && grown.keys > 30_000
                    && grown.keys.is_multiple_of(PUTS_BETWEEN_LOOKS),
                "{grown:?}"
            );
            assert!(
                grown.p50_us <= grown.p999_us && grown.p999_us / 1e3 <= grown.max_ms * 1.001,
                "{grown:?}"
            );
            assert!(
                grown.pauses.len() <= SHOWN && grown.pauses.is_sorted_by(|a, b| a.ms >= b.ms),
                "{grown:?}"
            );
            assert!(grown.max_running_ms <= grown.max_ms * 1.001, "{grown:?}");
            assert!(
                grown
                    .pauses
                    .iter()
                    .any(|pause| pause.grown_bytes > 0 && pause.cause.contains("grew")),
                "{grown:?}"
            );
            assert_eq!(grown.table().lines().count(), 3 + grown.pauses.len());
            assert!(
                told.iter().all(|progress| progress.done <= progress.total)
                    && told.is_sorted_by_key(|p| p.done)
            );
        }
    }

    #[test]
    fn what_makes_no_sense_is_wrong_usage() {
        let usual = GrowthOptions { to_bytes: 2 << 20, ..GrowthOptions::default() };
        for wrong in [
            GrowthOptions { from_bytes: 1, ..usual.clone() },
            GrowthOptions { from_bytes: 4 << 20, ..usual.clone() },
            GrowthOptions { threads: 0, ..usual.clone() },
            GrowthOptions { threads: 2, engine: Engine::FPTREE, ..usual.clone() },
        ] {
            assert!(
                run_growth_with_progress(&wrong, &mut |_| {}).unwrap_err().is_wrong_usage(),
                "{wrong:?}"
            );
        }
    }
}
