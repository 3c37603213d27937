//! The pool: one file of persistent memory with a header, a crash-safe allocator, and an audit.
//!
//! Map of the files: `error` · `word` (self-checking words) · `layout` (every byte of the header
//! and the chunk table) · `format` (what the documentation shows of it) · `header` (identity) ·
//! `file` (opening and locking pool files) · `new_file` (making them) · `naming` (giving names to
//! new files) · `boot` (which boot of the machine left one) · `pool` (create, open, close) · `seal`
//! (what a close leaves for the index) · `growth` · `listing` (what is in it) · `chunks` (the chunk
//! table and its DRAM shadow) · `classes` (sizes of blocks, kinds of nodes, uses of chunks) ·
//! `intent` (a worker's line) · `worker` (allocation: the order of persistence) · `doubt` (links
//! that an index takes part in) · `batch` (many links with one commit point) · `epoch` (memory that
//! follows epochs) · `lease` (workers for many threads) · `recover` (crash states of a worker's
//! intent) · `record` (byte strings) · `entry_head` `record_key` (the keys in them) · `reader_pins`
//! (threads that look at what others may free) · `guard` (lending records) · `roots` (where
//! structures begin, by name) · `audit` (every block reachable exactly once, or free) · `sites`.
#![warn(missing_docs)]

mod audit;
mod batch;
mod boot;
mod chunks;
mod claim;
mod classes;
mod doubt;
mod entry_head;
mod epoch;
mod error;
mod file;
mod format;
mod growth;
mod guard;
mod header;
mod intent;
mod layout;
mod lease;
mod listing;
mod naming;
mod new_file;
mod pool;
mod reader_pins;
mod record;
mod record_key;
mod recover;
mod reserve;
mod roots;
mod seal;
mod search;
mod word;
mod worker;

pub use audit::{Audit, AuditReport};
pub use batch::PendingBatch;
pub use claim::Claim;
pub use classes::{Content, Node, NodeKind};
pub use doubt::Doubt;
pub use entry_head::EntryHead;
pub use epoch::EpochWorker;
pub use error::{Corruption, PoolError};
pub use file::{
    DEFAULT_MAX_BYTES, DamagedFile, LockedFile, OpenMode, lock_damaged_file, lock_file, open_file,
    uuid_of,
};
pub use format::layouts;
pub use guard::RecordGuard;
pub use header::{Format, KeyType};
pub use layout::{LOG_STAMP_OFFSET, MAX_ROOTS, POOL_MAGIC};
pub use lease::{Lease, Workers, slot_of_thread, slots_of_thread};
pub use listing::TablePart;
pub use naming::{
    ParentFolder, create_locked, folder_of_new, remove_abandoned, rename_new, unfinished_name,
};
pub use new_file::{check_new_path, create_file};
pub use pool::{Opened, Pool, Run, Shutdown, SpaceUsage};
pub use reader_pins::{Pinned, Pins};
pub use record::{MAX_RECORD_BYTES, Record};
pub use recover::PendingLink;
pub use reserve::{Place, Reserve};
pub use roots::RootName;
pub use seal::Seal;
pub use search::Found;
pub use worker::Worker;
