//! `bench model`: what operations cost, counted, and the time that this costs at given latencies of
//! persistent memory.
//!
//! Everything comes from the counting run and is exact: the same seed gives the same numbers on
//! every machine. The time is
//!
//! ```text
//! reads that miss the modelled cache * read
//!     + (flushed lines + line writes) * flush
//!     + fences * fence
//! ```
//!
//! which is what these latencies add to a run on DRAM. On request it is set beside what they were
//! measured to add: the mean time of an operation with busy waits of these lengths in place
//! ([`Instrumented`](everleaf_crash::Instrumented), whose model of a cache is the same), less that
//! without.

use std::fmt;
use std::str::FromStr;

use everleaf_crash::Counts;
use everleaf_pmem::Counter;
use serde::Serialize;

use crate::compare::Spread;
use crate::key::String16;
use crate::options::{BenchKeyType, MicroOptions};
use crate::plan::{MAX_ROUNDS, within};
use crate::session::{ProgressTracker, Session};
use crate::{BenchError, Phase, Progress};

/// Nanoseconds that persistent memory takes beyond DRAM. Given as `L` (reads and flushes take L,
/// fences nothing) or `READ/FLUSH/FENCE`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Latency {
    /// Of a read that misses the modelled cache.
    pub read_ns: u64,
    /// Of a flush.
    pub flush_ns: u64,
    /// Of a fence.
    pub fence_ns: u64,
}

impl Latency {
    /// Reads and flushes of the same latency.
    pub const fn of(ns: u64) -> Self {
        Self { read_ns: ns, flush_ns: ns, fence_ns: 0 }
    }

    /// Nanoseconds of so many misses, flushes and line writes, and fences.
    const fn cost(self, misses: u64, flushes: u64, fences: u64) -> f64 {
        misses as f64 * self.read_ns as f64
            + flushes as f64 * self.flush_ns as f64
            + fences as f64 * self.fence_ns as f64
    }

    /// Nanoseconds of all that was counted.
    pub(crate) fn cost_ns(self, counts: &Counts) -> f64 {
        let flushes = counts.flushes.values().sum::<u64>() + counts.line_writes;
        self.cost(counts.pm_line_misses, flushes, counts.fences.values().sum())
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}/{}", self.read_ns, self.flush_ns, self.fence_ns))
    }
}

impl FromStr for Latency {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Self, BenchError> {
        let parts: Option<Vec<u64>> =
            text.split('/').map(|part| part.parse().ok().filter(|ns| *ns <= 1_000_000)).collect();
        match parts.as_deref() {
            Some([ns]) => Ok(Self::of(*ns)),
            Some([read_ns, flush_ns, fence_ns]) => {
                Ok(Self { read_ns: *read_ns, flush_ns: *flush_ns, fence_ns: *fence_ns })
            }
            _ => Err(BenchError::Unknown {
                what: "latency",
                name: text.into(),
                choices: "L or READ/FLUSH/FENCE, in nanoseconds up to 1000000".into(),
            }),
        }
    }
}

/// What `bench model` counts.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelOptions {
    /// Names of engines that live in a pool.
    pub engines: Vec<String>,
    /// What persistent memory takes.
    pub latencies: Vec<Latency>,
    /// How often each is measured with these latencies emulated, to be set beside the model; 0
    /// measures nothing.
    pub rounds: u32,
    /// All but the engine and the latencies.
    pub micro: MicroOptions,
}

/// What the operations of a phase cost. Serialised, it is one JSON object whose keys are these
/// fields in this order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelRow {
    /// Name of the engine.
    pub engine: String,
    /// What was done.
    pub phase: Phase,
    /// Operations.
    pub keys: u64,
    /// Bytes of a value.
    pub value_bytes: u64,
    /// Distinct lines of persistent memory read, added up over operations.
    pub pm_lines_read: u64,
    /// Reads of lines that a cache of 16 MiB did not hold.
    pub pm_line_misses: u64,
    /// Lines flushed that held something new.
    pub lines_written: u64,
    /// Flushes, the allocator's among them.
    pub flushes: u64,
    /// Fences, the allocator's among them.
    pub fences: u64,
    /// Failure-atomic line writes.
    pub line_writes: u64,
    /// Blocks taken from the pool.
    pub allocations: u64,
    /// What this costs.
    pub costs: Vec<Cost>,
}

/// What an operation costs beyond DRAM at some latencies, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// The latencies.
    #[serde(flatten)]
    pub latency: Latency,
    /// By the counts, for each operation.
    pub modelled_ns: f64,
    /// What they were measured to add to the mean time of an operation.
    pub measured_ns: Option<f64>,
}

impl ModelRow {
    fn new(session: &Session, phase: Phase, counts: &Counts) -> Self {
        let options = &session.plan.options;
        Self {
            engine: session.plan.subject.to_string(),
            phase,
            keys: options.operations(phase),
            value_bytes: session.plan.value_bytes() as u64,
            pm_lines_read: counts.pm_lines_read,
            pm_line_misses: counts.pm_line_misses,
            lines_written: counts.lines_flushed.values().sum(),
            flushes: counts.flushes.values().sum(),
            fences: counts.fences.values().sum(),
            line_writes: counts.line_writes,
            allocations: counts.event(Counter::Allocations),
            costs: Vec::new(),
        }
    }

    /// A total for each operation.
    pub fn each(&self, total: u64) -> f64 {
        total as f64 / self.keys as f64
    }

    /// What an operation costs beyond DRAM, in nanoseconds.
    pub fn modelled_ns(&self, latency: Latency) -> f64 {
        latency.cost(self.pm_line_misses, self.flushes + self.line_writes, self.fences)
            / self.keys as f64
    }

    /// The heading of the table for people, whose rows [`table_row`](Self::table_row) gives.
    pub fn table_heading(latencies: &[Latency], measured: bool) -> String {
        let of_latency = |latency: &Latency| match measured {
            true => format!(" {latency:>14} {:>9}", "measured"),
            false => format!(" {latency:>14}"),
        };
        format!(
            "{:<14} {:<9} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}  ns/op beyond DRAM at \
            read/flush/fence{}",
            "engine",
            "phase",
            "read/op",
            "miss/op",
            "write/op",
            "flush/op",
            "fence/op",
            "alloc/op",
            latencies.iter().map(of_latency).collect::<String>()
        )
    }

    /// One row of the table for people.
    pub fn table_row(&self) -> String {
        let each = |total: u64| format!("{:.3}", self.each(total));
        let of_cost = |cost: &Cost| match cost.measured_ns {
            Some(measured) => format!(" {:>14.1} {measured:>9.1}", cost.modelled_ns),
            None => format!(" {:>14.1}", cost.modelled_ns),
        };
        format!(
            "{:<14} {:<9} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}  {:<37}{}",
            self.engine,
            self.phase,
            each(self.pm_lines_read),
            each(self.pm_line_misses),
            each(self.lines_written),
            each(self.flushes),
            each(self.fences),
            each(self.allocations),
            "",
            self.costs.iter().map(of_cost).collect::<String>()
        )
    }
}

/// Counts what each phase of each engine costs, and sets the time of it beside what was measured,
/// if that was asked for.
///
/// # Errors
/// [`BenchError`]; what is wrong with the options, the memory or the medium is said before any work
/// is done.
///
/// # Examples
/// ```
/// use everleaf_bench::model::{Latency, ModelOptions, run_model};
/// use everleaf_bench::{MicroOptions, Phase};
///
/// let phases = vec![Phase::Insert, Phase::Update];
/// let micro = MicroOptions { keys: 1000, phases, ..MicroOptions::default() };
/// let (engines, latencies) = (vec!["fptree".into()], vec![Latency::of(300)]);
/// let options = ModelOptions { engines, latencies, rounds: 0, micro };
/// let rows = run_model(&options)?;
/// assert_eq!((rows[1].flushes, rows[1].fences), (1000, 1000));
/// assert_eq!(rows, run_model(&options)?, "to the last digit");
/// # Ok::<(), everleaf_bench::BenchError>(())
/// ```
pub fn run_model(options: &ModelOptions) -> Result<Vec<ModelRow>, BenchError> {
    run_model_with_progress(options, &mut |_| {})
}

/// As [`run_model`], and tells how far it is.
///
/// # Errors
/// As [`run_model`].
pub fn run_model_with_progress(
    options: &ModelOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<ModelRow>, BenchError> {
    if options.engines.is_empty() {
        return Err(BenchError::NothingToCompare);
    }
    within("rounds", options.rounds.into(), 0, MAX_ROUNDS)?;
    let session = |engine: &String, added: Latency, round: u32| {
        let Latency { read_ns, flush_ns, fence_ns } = added;
        let seed = options.micro.seed.wrapping_add(round.into());
        let micro = MicroOptions {
            engine: engine.clone(),
            read_ns,
            flush_ns,
            fence_ns,
            seed,
            ..options.micro.clone()
        };
        let session = Session::shared(&micro)?;
        if session.plan.subject.has_pool() {
            Ok(session)
        } else {
            Err(BenchError::NoPool { engine: session.plan.subject })
        }
    };
    let none = Latency::default();
    let sessions = options
        .engines
        .iter()
        .map(|engine| session(engine, none, 0))
        .collect::<Result<Vec<_>, _>>()?;
    let runs = 1 + u64::from(options.rounds) * (options.latencies.len() as u64 + 1);
    let mut steps = ProgressTracker::new(
        progress,
        runs * sessions.iter().map(Session::operations).sum::<u64>(),
    );
    let mut rows = Vec::new();
    for (engine, counting) in options.engines.iter().zip(&sessions) {
        let counts = counting.phase_counts(&mut steps)?;
        // By latency, the first without any: nanoseconds of an operation, by phase.
        let mut measured = Vec::new();
        if options.rounds > 0 {
            for added in std::iter::once(none).chain(options.latencies.iter().copied()) {
                let mut means = vec![Vec::new(); options.micro.phases.len()];
                for round in 0..options.rounds {
                    let seconds = session(engine, added, round)?.seconds(&mut steps)?;
                    means
                        .iter_mut()
                        .zip(seconds)
                        .for_each(|(means, seconds)| means.push(seconds * 1e9));
                }
                let each = |(means, phase): (&Vec<f64>, &Phase)| {
                    Spread::of(means).middle / options.micro.operations(*phase) as f64
                };
                measured
                    .push(means.iter().zip(&options.micro.phases).map(each).collect::<Vec<f64>>());
            }
        }
        for (place, (phase, counts)) in options.micro.phases.iter().zip(&counts).enumerate() {
            let mut row = ModelRow::new(counting, *phase, counts);
            let cost = |(i, latency): (usize, &Latency)| Cost {
                latency: *latency,
                modelled_ns: row.modelled_ns(*latency),
                measured_ns: measured.get(i + 1).map(|means| means[place] - measured[0][place]),
            };
            row.costs = options.latencies.iter().enumerate().map(cost).collect();
            rows.push(row);
        }
    }
    Ok(rows)
}

impl Session {
    /// The counting run: what each phase counted.
    pub(crate) fn phase_counts(
        &self,
        steps: &mut ProgressTracker<'_>,
    ) -> Result<Vec<Counts>, BenchError> {
        match self.plan.options.key_type {
            BenchKeyType::U64 => self.counted::<u64>(steps),
            BenchKeyType::String16 => self.counted::<String16>(steps),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_read_and_shown() {
        assert_eq!(
            "300".parse::<Latency>().unwrap(),
            Latency { read_ns: 300, flush_ns: 300, fence_ns: 0 }
        );
        let all: Latency = "90/200/50".parse().unwrap();
        assert_eq!(
            (all, all.to_string()),
            (Latency { read_ns: 90, flush_ns: 200, fence_ns: 50 }, "90/200/50".into())
        );
        for wrong in ["", "1/2", "1/2/3/4", "fast", "-1", "1000001"] {
            assert!(wrong.parse::<Latency>().unwrap_err().is_wrong_usage(), "{wrong}");
        }
    }
}
