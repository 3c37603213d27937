//! Persistent memory as cells of eight bytes, and the *media* that they live on.
//!
//! Everything above this crate is written once, generic over [`Media`]: the same tree runs on real
//! hardware ([`Hardware`]), with emulated latencies ([`Emulated`]), counted ([`Counted`]), in plain
//! DRAM ([`Dram`]) or recorded for the crash explorer ([`Traced`]). A media is a value chosen when
//! a pool is opened, never a feature flag.
//!
//! The rules that make this safe without `unsafe` in the trees:
//!
//! * persistent structures consist of [`PCell`]s (8-byte atomic words) and of nothing else, see
//!   [`persistent!`];
//! * so any bit pattern is a valid value and racing accesses are defined;
//! * and a reference into the region is safe once its bounds and alignment were checked
//!   ([`Region::get`]).
//!
//! Map of the files: `cell` `pointer` `layout` (what persistent structures are made of) · `region`
//! `medium` (mapped memory and what it can promise) · `dram_arena` (lines of DRAM) · `media`
//! `durability` (the operations, and what of them can fail) · `hardware` `dram` `traced` (the
//! media) · `instrumented` `emulated` `counted` `cache_model` (hardware with hooks) · `event`
//! `watch` `scheduler` (what `traced` records, which loads it notes, which thread runs) ·
//! `transaction` (on DRAM) · `cpu` `instructions` `simd` `ranks` (the machine) · `site` `counter`
//! `tally` (names for what is counted, and where the counts stand) · `source` (for tests: which
//! files import which).
#![warn(missing_docs)]

#[cfg(not(target_os = "linux"))]
compile_error!(
    "Everleaf runs on Linux only: its pools need mmap with MAP_SYNC, fallocate and flock as Linux \
    has them"
);

mod cache_model;
mod cell;
mod counted;
mod counter;
mod cpu;
mod dram;
mod dram_arena;
mod durability;
mod emulated;
mod event;
mod hardware;
mod instructions;
mod instrumented;
mod layout;
mod media;
mod medium;
mod pointer;
mod ranks;
mod region;
mod scheduler;
mod simd;
mod site;
mod source;
mod tally;
mod traced;
mod transaction;
mod watch;

pub use cache_model::CacheModel;
pub use cell::{Line, PCell, Persistent, Word};
pub use counted::{Counted, Counting, Counts};
pub use counter::Counter;
pub use cpu::{Cpu, FlushInstruction, LineWriteMethod, Rtm, SimdLevel};
pub use dram::Dram;
pub use dram_arena::{DramArena, DramSource};
pub use durability::{DurablePoint, MediaError, SyncLatch};
pub use emulated::{AddedLatency, Emulated, Latencies};
pub use event::Event;
pub use hardware::Hardware;
pub use instrumented::{Hook, Instrumented};
pub use layout::{Field, Layout};
pub use media::{LineAtomicity, Media};
pub use medium::{DaxHint, Durability, Medium};
pub use pointer::PPtr;
pub use ranks::{MOST_RANKED, ranks};
pub use region::{MAX_REGION_BYTES, MapError, Mapping, Region, length_of, read_start};
pub use scheduler::Scheduler;
pub use simd::{DramLine, prefetch, prefetch_to_write};
pub use site::{Site, count_sites, find_sites, undeclared_sites};
pub use source::{ModulePath, Sources};
pub use traced::Traced;
pub use transaction::{
    AbortCause, Aborted, Attempt, InjectedAborts, Simulation, TransactionCounts,
    TransactionalMemory, Transactions,
};

/// Bytes in a cache line: the unit of a flush.
pub const LINE: usize = 64;
/// Bytes in a word: the unit of power-fail atomicity (p-atomic).
pub const WORD: usize = 8;
