//! `bench ycsb`: the core workloads of the Yahoo! Cloud Serving Benchmark, on the store, its peers
//! and the indexes.
//!
//! A run loads `keys` records and then does `operations` operations, of kinds and on records that
//! were drawn before. Engines take turns; each round has its own seed, the same for all. Throughput
//! comes from rounds without time stamps (but one every thousand operations, for its course),
//! latencies from a run of their own.
//!
//! Map of the files: `workloads` (what YCSB says) · `options` · `draw` (which record an operation
//! is on) · `operations` (what a thread does) · `watches` (what stands around it) · `run` ·
//! `report`.

mod draw;
mod operations;
mod options;
mod report;
mod run;
mod watches;
mod workloads;

pub(crate) use operations::Source;
pub use options::YcsbOptions;
pub use report::YcsbReport;
pub use run::{run_ycsb, run_ycsb_with_progress};
pub use watches::KindReport;
pub use workloads::{Distribution, Record, Workload};
pub(crate) use workloads::{Kind, Operation};
