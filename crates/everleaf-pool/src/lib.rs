//! The pool: one file of persistent memory with a header, a crash-safe allocator, and an audit.
//!
//! Map of the files: `error` · `word` (self-checking words) · `layout` (every byte of the header and the chunk table) · `file`
//! (creating, opening, locking pool files) · `pool` (create, open, close, grow) · `chunks` (the chunk table and its DRAM shadow) ·
//! `classes` (sizes of blocks) · `worker` (allocation: the order of persistence) · `recover` (crash states of a worker's intent) ·
//! `record` (byte strings) · `audit` (every block reachable exactly once, or free) · `sites`.
#![warn(missing_docs)]

mod audit;
mod error;
mod pool;
mod record;
mod worker;

pub use audit::{Audit, AuditReport};
pub use error::{Corruption, PoolError};
pub use pool::{Format, KeyType, OpenMode, Opened, PendingLink, Pool, Run, Shutdown, Space, create_file, open_file};
pub use record::{MAX_RECORD_BYTES, Record};
pub use worker::Worker;
