//! Persistent memory as cells of eight bytes, and the *media* that they live on.
//!
//! Everything above this crate is written once, generic over [`Media`]: the same tree runs on real
//! memory ([`Mapped`]), whose flushes may go to a log (everleaf-log), and on the media of the
//! laboratory, which count, add latencies or record (everleaf-crash). A media is a value chosen
//! when a pool is opened, never a feature flag.
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
//! `durability` (the operations, and what of them can fail) · `mapped` `redo_log` (the media of
//! users) · `transaction` (on DRAM) · `process` (forks) · `cpu` `instructions` `simd` `ranks` (the
//! machine) · `site` `counter` (names for what is counted) · `digits` (numbers in messages) ·
//! `later` (files of later releases).
#![warn(missing_docs)]

#[cfg(not(target_os = "linux"))]
compile_error!(
    "Everleaf runs on Linux only: its pools need mmap with MAP_SYNC, fallocate and flock as Linux \
    has them"
);

mod cell;
mod counter;
mod cpu;
mod digits;
mod dram_arena;
mod durability;
mod instructions;
mod later;
mod layout;
mod mapped;
mod media;
mod medium;
mod planted;
mod pointer;
mod process;
mod ranks;
mod redo_log;
mod region;
mod simd;
mod site;
mod transaction;
mod zeroed;

pub use cell::{Line, PCell, Persistent, Word};
pub use counter::Counter;
pub use cpu::{Cpu, FlushInstruction, LineWriteMethod, Rtm, SimdLevel};
pub use digits::grouped;
pub use dram_arena::{DramArena, DramSource, SpareArenas};
pub use durability::{DurablePoint, LogCounts, MediaError, SyncLatch};
pub use instructions::timestamp;
pub use later::{Features, Newer, Release};
pub use layout::{Field, Layout};
pub use mapped::Mapped;
pub use media::{LineAtomicity, Media};
pub use medium::{DaxHint, Durability, Medium};
pub use planted::planted;
pub use pointer::PPtr;
pub use process::{Peer, Process};
pub use ranks::{MAX_RANKED, ranks};
pub use redo_log::RedoLog;
pub use region::{MAX_REGION_BYTES, MapError, Mapping, Region, length_of, read_start};
pub use simd::{DramLine, prefetch, prefetch_to_write};
pub use site::Site;
pub use transaction::{
    AbortCause, Aborted, Attempt, InjectedAborts, Simulation, TransactionCounts,
    TransactionalMemory, Transactions,
};
pub use zeroed::{ZeroCell, try_zeroed_cells, zeroed_cells};

/// Bytes in a cache line: the unit of a flush.
pub const LINE: usize = 64;
/// Bytes in a word: the unit of power-fail atomicity (p-atomic).
pub const WORD: usize = 8;
