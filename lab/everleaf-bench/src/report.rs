//! What `bench micro` prints.

use everleaf_crash::Counts;
use everleaf_index::IndexStatistics;
use everleaf_pmem::{Counter, Durability, LINE, Site};
use serde::Serialize;

use crate::Phase;
use crate::contention::Contention;
use crate::measure::LatencySummary;
use crate::plan::Plan;

/// The measurements of one phase. Serialised, it is one JSON object whose keys are these fields in
/// this order.
///
/// Counters are exact totals of the phase; none where the engine has no such thing (`btreemap` has
/// nothing of it).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhaseReport {
    /// Name of the engine.
    pub engine: String,
    /// What was done.
    pub phase: Phase,
    /// Operations.
    pub keys: u64,
    /// Threads that shared them.
    pub threads: u32,
    /// From the start of the first thread to the end of the last.
    pub seconds: f64,
    /// `keys / seconds`.
    pub ops_per_second: f64,
    /// Mean time of an operation as its thread sees it: `seconds * threads / keys`.
    pub mean_ns: f64,
    /// Geometric mean of the latencies.
    pub geomean_ns: f64,
    /// Median latency.
    pub p50_ns: f64,
    /// 99th percentile of the latencies.
    pub p99_ns: f64,
    /// 99.9th percentile of the latencies.
    pub p999_ns: f64,
    /// Flush instructions that the tree asked for, one a line, allocator apart.
    pub flushes: Option<u64>,
    /// Fences of the tree, allocator apart.
    pub fences: Option<u64>,
    /// Of these flushes of lines, those of lines that held something new.
    pub lines_flushed: Option<u64>,
    /// 64 times `lines_flushed`.
    pub bytes_flushed: Option<u64>,
    /// Failure-atomic line writes.
    pub line_writes: Option<u64>,
    /// Keys of leaves that were compared with a key asked for.
    pub leaf_probes: Option<u64>,
    /// Distinct lines of persistent memory read, added up over operations.
    pub pm_lines_read: Option<u64>,
    /// Entries moved within their node.
    pub entries_shifted: Option<u64>,
    /// Leaves split.
    pub leaf_splits: Option<u64>,
    /// Inner nodes split.
    pub inner_splits: Option<u64>,
    /// Nodes copied to a log before they were changed.
    pub nodes_logged: Option<u64>,
    /// Blocks taken from the pool.
    pub allocations: Option<u64>,
    /// Flushes of the pool's allocator.
    pub allocator_flushes: Option<u64>,
    /// Fences of the pool's allocator.
    pub allocator_fences: Option<u64>,
    /// Bytes that the index takes from the pool, after the phase.
    pub pm_bytes: Option<u64>,
    /// Bytes of its DRAM, after the phase.
    pub dram_bytes: Option<u64>,
    /// Levels, leaves included, after the phase.
    pub height: Option<u32>,
    /// Keys in the index after the phase.
    pub keys_after: u64,
    /// Bytes of a value.
    pub value_bytes: u64,
    /// Bytes on the medium, after the phase: of the index, the pool or the peer's files.
    pub medium_bytes: Option<u64>,
    /// What an acknowledged write survives: `none`, `process-crash` or `power-fail`.
    pub durability: String,
    /// How often threads met, in the timed run.
    #[serde(flatten)]
    pub contention: Contention,
}

/// What the timed run gave for a phase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timed {
    pub seconds: f64,
    pub statistics: Option<IndexStatistics>,
    pub keys_after: u64,
    pub medium_bytes: Option<u64>,
    pub contention: Contention,
}

/// Rounds to a hundredth: more digits of a nanosecond mean nothing.
fn hundredths(ns: f64) -> f64 {
    (ns * 100.0).round() / 100.0
}

/// Sums barriers of the tree, and of the allocator.
fn by_owner(totals: &std::collections::BTreeMap<Site, u64>) -> (u64, u64) {
    let of_allocator = |site: &Site| site.name().starts_with("pool.");
    let sum = |allocator: bool| {
        totals.iter().filter(|(site, _)| of_allocator(site) == allocator).map(|(_, n)| n).sum()
    };
    (sum(false), sum(true))
}

impl PhaseReport {
    pub(crate) fn new(
        plan: &Plan,
        phase: Phase,
        durability: Durability,
        timed: Timed,
        latencies: LatencySummary,
        counts: Option<&Counts>,
    ) -> Self {
        let options = &plan.options;
        let operations = options.operations(phase) as f64;
        let flushes = counts.map(|counts| by_owner(&counts.flushes));
        let fences = counts.map(|counts| by_owner(&counts.fences));
        let event = |counter| counts.map(|counts| counts.event(counter));
        let lines_flushed = counts.map(|counts| by_owner(&counts.lines_flushed).0);
        Self {
            engine: options.engine.clone(),
            phase,
            keys: options.operations(phase),
            threads: options.threads,
            seconds: timed.seconds,
            ops_per_second: hundredths(operations / timed.seconds),
            mean_ns: hundredths(timed.seconds * 1e9 * f64::from(options.threads) / operations),
            geomean_ns: hundredths(latencies.geomean_ns),
            p50_ns: latencies.p50_ns,
            p99_ns: latencies.p99_ns,
            p999_ns: latencies.p999_ns,
            flushes: flushes.map(|(tree, _)| tree),
            fences: fences.map(|(tree, _)| tree),
            lines_flushed,
            bytes_flushed: lines_flushed.map(|lines| lines * LINE as u64),
            line_writes: counts.map(|counts| counts.line_writes),
            leaf_probes: event(Counter::LeafProbes),
            pm_lines_read: counts.map(|counts| counts.pm_lines_read),
            entries_shifted: event(Counter::EntriesShifted),
            leaf_splits: event(Counter::LeafSplits),
            inner_splits: event(Counter::InnerSplits),
            nodes_logged: event(Counter::NodesLogged),
            allocations: event(Counter::Allocations),
            allocator_flushes: flushes.map(|(_, allocator)| allocator),
            allocator_fences: fences.map(|(_, allocator)| allocator),
            pm_bytes: timed.statistics.map(|s| s.pm_bytes),
            dram_bytes: timed.statistics.map(|s| s.dram_bytes),
            height: timed.statistics.map(|s| s.height),
            keys_after: timed.keys_after,
            value_bytes: plan.value_bytes() as u64,
            medium_bytes: timed.medium_bytes,
            durability: durability.to_string(),
            contention: timed.contention,
        }
    }

    /// The heading of the table for people, whose rows [`table_row`](Self::table_row) gives.
    pub fn table_heading() -> String {
        format!(
            "{:<18} {:<9} {:>11} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8} {:>8} {:>8} {:>7} \
            {:>12} {}",
            "engine",
            "phase",
            "ops/s",
            "mean ns",
            "p50 ns",
            "p99 ns",
            "p99.9 ns",
            "flush/op",
            "fence/op",
            "line/op",
            "probe/op",
            "read/op",
            "height",
            "keys after",
            Contention::heading()
        )
    }

    /// One row of the table for people: times, and the most telling counters for each operation.
    pub fn table_row(&self) -> String {
        let each = |total: Option<u64>| match total {
            Some(total) => format!("{:.2}", total as f64 / self.keys as f64),
            None => "-".into(),
        };
        format!(
            "{:<18} {:<9} {:>11.0} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>9} {:>8} {:>8} {:>8} {:>8} \
            {:>7} {:>12} {}",
            self.engine,
            self.phase,
            self.ops_per_second,
            self.mean_ns,
            self.p50_ns,
            self.p99_ns,
            self.p999_ns,
            each(self.flushes),
            each(self.fences),
            each(self.lines_flushed),
            each(self.leaf_probes),
            each(self.pm_lines_read),
            self.height.map_or("-".into(), |height| height.to_string()),
            self.keys_after,
            self.contention.columns(self.keys)
        )
    }
}

/// The keys of a [`PhaseReport`] as JSON, in their order: a contract.
pub const PHASE_KEYS: [&str; 43] = [
    "engine",
    "phase",
    "keys",
    "threads",
    "seconds",
    "ops_per_second",
    "mean_ns",
    "geomean_ns",
    "p50_ns",
    "p99_ns",
    "p999_ns",
    "flushes",
    "fences",
    "lines_flushed",
    "bytes_flushed",
    "line_writes",
    "leaf_probes",
    "pm_lines_read",
    "entries_shifted",
    "leaf_splits",
    "inner_splits",
    "nodes_logged",
    "allocations",
    "allocator_flushes",
    "allocator_fences",
    "pm_bytes",
    "dram_bytes",
    "height",
    "keys_after",
    "value_bytes",
    "medium_bytes",
    "durability",
    "concurrency",
    "restarts",
    "waits",
    "structure_changes",
    "transactions",
    "aborts_locked",
    "aborts_conflict",
    "aborts_capacity",
    "aborts_unknown",
    "aborts_other",
    "fallbacks",
];

#[cfg(test)]
mod tests {
    use everleaf_pmem::site;

    use super::*;
    use crate::MicroOptions;

    fn report(counts: Option<&Counts>) -> PhaseReport {
        let plan = Plan::new(&MicroOptions { keys: 1000, ..Default::default() }).unwrap();
        let statistics =
            counts.map(|_| IndexStatistics { height: 3, pm_bytes: 4096, ..Default::default() });
        let latencies = LatencySummary { geomean_ns: 1.0, p50_ns: 2.0, p99_ns: 3.0, p999_ns: 4.0 };
        let timed = Timed {
            seconds: 0.002,
            statistics,
            keys_after: 1000,
            medium_bytes: None,
            contention: Contention::default(),
        };
        PhaseReport::new(&plan, Phase::Insert, Durability::ProcessCrash, timed, latencies, counts)
    }

    #[test]
    fn reports_have_exactly_the_promised_keys_in_their_order() {
        for report in [report(None), report(Some(&Counts::default()))] {
            let json = serde_json::to_string(&report).unwrap();
            let value: serde_json::Value = serde_json::from_str(&json).unwrap();
            assert_eq!(value.as_object().unwrap().keys().collect::<Vec<_>>(), PHASE_KEYS);
        }
    }

    #[test]
    fn an_engine_without_counters_has_nulls() {
        let value = serde_json::to_value(report(None)).unwrap();
        for key in &PHASE_KEYS[11..28] {
            assert!(value[key].is_null(), "{key}");
        }
        assert_eq!((&value["keys_after"], &value["phase"]), (&1000.into(), &"insert".into()));
    }

    #[test]
    fn barriers_of_the_allocator_are_apart() {
        let counts = Counts {
            flushes: [(site!("fptree.a"), 3), (site!("pool.a"), 5), (site!("poolside.a"), 7)]
                .into(),
            fences: [(site!("fptree.b"), 1), (site!("pool.b"), 2)].into(),
            lines_flushed: [(site!("fptree.a"), 2), (site!("pool.a"), 5), (site!("poolside.a"), 3)]
                .into(),
            ..Default::default()
        };
        let report = report(Some(&counts));
        assert_eq!((report.flushes, report.allocator_flushes), (Some(10), Some(5)));
        assert_eq!((report.fences, report.allocator_fences), (Some(1), Some(2)));
        assert_eq!((report.lines_flushed, report.bytes_flushed), (Some(5), Some(320)));
    }

    #[test]
    fn rates_follow_the_time() {
        let report = report(None);
        assert_eq!((report.ops_per_second, report.mean_ns), (500_000.0, 2000.0));
    }

    #[test]
    fn rows_align_with_their_heading() {
        let heading = PhaseReport::table_heading();
        for report in [report(None), report(Some(&Counts::default()))] {
            assert_eq!(
                report.table_row().len(),
                heading.len(),
                "\n{heading}\n{}",
                report.table_row()
            );
        }
    }
}
