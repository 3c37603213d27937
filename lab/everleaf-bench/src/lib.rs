//! Workloads and measurements: what stands behind `everleaf-lab bench`.
//!
//! A benchmark warms an index up, then does one *phase* after the other, each of `keys` operations
//! of one kind. Keys are a bijection of a counter, so they are distinct, random and the same for
//! the same seed, and no set of them is kept. The keys of a phase are drawn before it is timed;
//! loops are compiled for each target; answers are checked by their number and a sum.
//!
//! Throughput, latencies and counters come from three runs on indexes of their own: see `measure`.
//! What the numbers say, and what they do not, is in `docs/benchmarks.md`.
//!
//! Map of the files: `options` (what is asked for) · `error` · `key` (kinds of keys) · `keys`
//! (computed numbers behind them) · `workload` (the keys of each phase) · `subject` (what is
//! measured, by name) · `target` (what is called, and how) · `stx` (a tree in memory) · `columns`
//! (a database over indexes) · `peers` (other people's stores) · `measure` (the loops and the
//! clocks) · `place` (where pools live) · `scratch` (that they go again) · `session` (a run) ·
//! `turns` (runs of several engines, cut into turns) · `micro` `compare` `stores` `recovery`
//! `growth` `space` `ycsb` `serve` (the commands) · `report`.
#![deny(unsafe_code)] // `peers::lmdb` has one call.
#![warn(missing_docs)]

mod columns;
mod compare;
mod contention;
mod error;
pub mod figure;
mod growth;
mod key;
mod keys;
mod log_work;
mod measure;
mod micro;
pub mod model;
mod options;
pub mod page;
mod peers;
mod place;
mod plan;
mod raw_log;
mod recovery;
mod report;
mod scratch;
pub mod serve;
mod session;
mod space;
mod stores;
mod stx;
mod subject;
mod target;
mod turns;
mod workload;
pub mod ycsb;

pub use compare::{Comparison, run_compare, run_compare_with_progress};
pub use contention::Contention;
pub use error::BenchError;
pub use growth::{Growth, GrowthOptions, Pause, run_growth_with_progress};
pub use micro::{run_micro, run_micro_with_progress};
pub use options::{
    Acknowledged, BenchKeyType, CompareOptions, Flush, MULTIGET_KEYS, MicroOptions, Order, Phase,
    RecoveryOptions, SCAN_RECORDS,
};
pub use peers::PeerError;
pub use recovery::{Recovery, run_recovery, run_recovery_with_progress};
pub use report::{PHASE_KEYS, PhaseReport};
pub use scratch::{Made, Scratch};
pub use space::{RecordBytes, SpaceOptions, SpaceRow, run_space_with_progress};
pub use stores::{Reopened, StoresOptions, StoresRow, reopen_store, run_stores_with_progress};
pub use subject::{Peer, Subject};

/// How far a benchmark is; told when something begins, never while it is timed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Operations that are done, in all runs, warm-ups included.
    pub done: u64,
    /// Operations in all.
    pub total: u64,
    /// What begins now.
    pub doing: String,
}

/// The programs for other stores run as tests where these are: they are the peers.
#[cfg(all(doctest, feature = "peers"))]
#[doc = include_str!("../../../docs/from-other-stores.md")]
struct FromOtherStores;
