//! An embedded, ordered key-value store for byte-addressable persistent memory: it restarts in
//! milliseconds, survives a crash at any store instruction, and keeps its keys in one of several
//! published B+-tree designs.
//!
//! ```
//! use everleaf::Store;
//!
//! # fn main() -> everleaf::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("trees.pool");
//! let store = Store::create(&path)?;
//! store.put("oak", "Quercus robur")?;
//! store.put("ash", "Fraxinus excelsior")?;
//! store.put("aspen", "Populus tremula")?;
//! drop(store); // Closes it. A process that is killed instead loses nothing either.
//!
//! let store = Store::open(&path)?;
//! assert_eq!(store.get("oak")?, Some(b"Quercus robur".to_vec()));
//! for entry in store.prefix("as") {
//!     let (key, value) = entry?;
//!     println!("{key}: {}", String::from_utf8_lossy(&value));
//! }
//! # Ok(())
//! # }
//! ```
//!
//! * **Keys** are byte strings of up to 64 KiB or `u64` ([`CreateOptions::key_type`]); **values**
//!   are bytes, up to 1 GiB. A [typed tree](Store::typed_tree) has keys and values of Rust's types.
//! * **Durability.** When a write returns, it is durable; a write that a crash cuts has happened
//!   wholly or not at all. On persistent memory (a file on a DAX file system, or a DAX device) and
//!   on ordinary disks (by a log beside the pool) this holds for power failures; on tmpfs for the
//!   death of the process. [`Store::statistics`] says which.
//! * **Threads.** A [`Store`] is shared by reference or cloned. Readers and, with a concurrent
//!   engine,
//!   writers run side by side.
//! * **Ranges** go both ways and live beside writers, see [`Range`]; a [`Snapshot`] shows one
//!   moment.
//! * **Batches** happen together or not at all, across all [trees](Store::tree) of a store, see
//!   [`Batch`].
//! * **Transactions** read and write many keys as if nobody else did, see [`Transaction`].
//! * **Damage** is an [`Error`], never undefined behaviour and never the value of another key;
//!   [`Store::check`] looks for all of it.
//!
//! # How it is made
//! A value is a record in the pool (`everleaf-pool`), with its key in front; the index
//! (`everleaf-trees`) maps the key to the record's offset. The order in which the two become
//! durable is in `link.rs`.
//!
//! Map of the files: `store` `tree` `view` `batch` `transaction` `snapshot` (what users
//! call) · `handle` (what is
//! behind them) · `typed` (trees with types) · `options` (making and opening) · `key` · `keyspace`
//! `catalog` (named trees) · `scan` (ranges) · `transfer` `dump`
//! `dump_files` `salvage` `unfinished` (whole stores) · `expiry` `clock` · `durability` (when a
//! write is durable, by engine, medium and choice) · `logged` (pools with a log beside them) ·
//! `memory` (how much there is) ·
//! `registry` (an index by the name of its engine) · `backend` (the seam between the store and its
//! media, keys and engine) · `attached` (an index and a pool made one) · `link` (the order of
//! persistence, of one write and of batches) · `value_record` (a value's bytes) · `check` ·
//! `statistics` · `error`.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod batch;
mod catalog;
mod clock;
mod core;
mod dump;
mod dump_files;
mod durability;
mod entry;
mod error;
mod expiry;
mod handle;
mod held;
#[doc(hidden)]
pub mod internal;
mod key;
mod logged;
mod memory;
mod options;
mod registry;
mod salvage;
mod scan;
mod snapshot;
mod statistics;
mod store;
mod transaction;
mod transfer;
mod tree;
mod typed;
mod unfinished;
mod untyped;
mod view;

pub use batch::{Batch, BatchOn};
pub use clock::Clock;
pub use core::backend::Swept;
pub use core::behind::Unsynced;
pub use core::fetched::Entry;
pub use core::progress::{Progress, Watch};
pub use dump_files::{restore, restore_with};
pub use durability::{DurabilityMode, NoDurabilityMode};
pub use entry::TreeEntry;
pub use error::{Error, MAX_VALUE_BYTES, Result};
pub use everleaf_index::{
    Concurrency, Conflicts, Contract, Direction, EpochStatistics, IndexError, InnerFrom,
    MAX_KEY_BYTES, NoImage,
};
pub use everleaf_log::{Damage, LogError};
pub use everleaf_pmem::{
    DaxHint, Durability, FlushInstruction, LogCounts, Medium, TransactionCounts, Transactions,
};
pub use everleaf_pool::{KeyType, PoolError, Shutdown};
pub use everleaf_trees::{DEFAULT_ENGINE, Engine, EngineError, EngineParameters};
pub use key::{AsKey, Key, KeyRange, OwnedKey, key_type_name};
pub use options::{CreateOptions, DEFAULT_SIZE_BYTES, FlushChoice, OpenOptions};
pub use salvage::{Salvaged, salvage, salvage_with};
pub use scan::{Keys, Range, Scan};
pub use snapshot::{DEFAULT_SNAPSHOT_BYTES, Snapshot};
pub use statistics::{Capabilities, CheckOutcome, Statistics};
pub use store::Store;
pub use transaction::{Transaction, TransactionOn};
pub use tree::Tree;
#[cfg(feature = "serde")]
pub use typed::Json;
pub use typed::{
    KeyFor, OrderedKey, PrefixFor, RangeFor, StoredValue, TypedKeys, TypedRange, ValueFor,
};
pub use view::View;

// Within the crate only; others have it from `internal`.
use key::StoreKey;

/// The README's example runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
