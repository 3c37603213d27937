//! Everleaf for C. The functions are what `include/everleaf.h` declares, which is made of them.
//!
//! Map of the files: `boundary` (statuses, the last error, pointers, panics) · `store` (opening) ·
//! `tree` (by name) · `keys` (single ones) · `iterator` · `batch` · `transaction` · `snapshot` ·
//! `maintenance` (expired values, backups, checks, statistics).
// What a caller owes is the same for all functions; the head of the header has it.
#![allow(clippy::missing_safety_doc)]

mod batch;
pub mod boundary;
mod iterator;
mod keys;
mod maintenance;
mod snapshot;
mod store;
mod transaction;
mod tree;

pub use batch::*;
pub use boundary::Status;
pub use iterator::*;
pub use keys::*;
pub use maintenance::*;
pub use snapshot::*;
pub use store::*;
pub use transaction::*;
pub use tree::*;

/// What the header says of threads.
const _: fn() = || {
    fn by_many<T: Send + Sync>() {}
    fn by_one<T: Send>() {}
    by_many::<(StoreHandle, SnapshotHandle)>();
    by_one::<(IteratorHandle, BatchHandle, TransactionHandle)>();
};
