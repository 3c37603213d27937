//! `bench ycsb`: the core workloads of the Yahoo! Cloud Serving Benchmark, on the store, its peers
//! and the indexes.
//!
//! A run loads `keys` records and then does `operations` operations, of kinds and on records that
//! were drawn before. Engines take turns; each round has its own seed, the same for all. Throughput
//! comes from rounds without time stamps (but one every thousand operations, for its course),
//! latencies from a run of their own.
//!
//! Map of the files: `options` · `draw` (which record an operation is on) · `operations` (what a
//! thread does) · `run` · `report`.

mod draw;
mod operations;
mod options;
mod report;
mod run;

pub(crate) use operations::{Operation, Source};
pub(crate) use options::Kind;
pub use options::{Distribution, Record, Workload, YcsbOptions};
pub use report::{KindReport, YcsbReport};
pub use run::{run_ycsb, run_ycsb_with_progress};
