//! An embedded, ordered key-value store: `BTreeMap`s that outlive the process, in one file, for
//! persistent memory and for ordinary disks. What was written is still there after `kill -9` and,
//! on these media, after a power failure.
//!
//! ```
//! use everleaf::Store;
//!
//! # fn main() -> everleaf::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("people.pool");
//! let store = Store::open_or_create(&path)?;
//! let born = store.typed_tree::<String, u32>("born")?;
//! born.put("ann", 1971)?; // durable when it returns
//! born.put("bob", 1968)?;
//! for entry in born.range("a".."b") {
//!     let (name, year) = entry?;
//!     println!("{name} was born in {year}");
//! }
//! drop(store); // Closes it. A process that is killed instead loses nothing either.
//!
//! let store = Store::open(&path)?;
//! assert_eq!(store.typed_tree::<String, u32>("born")?.get("ann")?, Some(1971));
//! # Ok(())
//! # }
//! ```
//!
//! # Trees
//! A store is a map from bytes to bytes itself ([`Tree::put`]), and has any number of named trees:
//! of bytes ([`Store::tree`]), or of Rust's types ([`Store::typed_tree`]). [`Tree`] has the calls
//! of a map: `get`, `insert`, `remove`, `entry`, `update`, `range`, `prefix`, `first`, `pop_first`,
//! `retain`, `extend`; beside them are `compare_and_swap`, values that expire
//! ([`put_for`](Tree::put_for), [`with_expiry`](Tree::with_expiry)), and reads without a copy
//! ([`get_with`](View::get_with)). [`OrderedKey`] and [`StoredValue`] list the types; with the
//! feature `uuid` there is `Uuid`, and with `serde` any type as JSON (`Json`). Keys have up to 64
//! KiB, values up to 1 GiB.
//!
//! # Many keys at a time
//! A [`Batch`] writes keys of any trees, all or none. A [`Transaction`] reads and writes them at
//! one moment:
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
//! let accounts = store.typed_tree::<String, u64>("accounts")?;
//! accounts.put("ann", 100)?;
//! store.transaction(|tx| {
//!     let accounts = tx.on(&accounts)?;
//!     let (ann, bob) = (accounts.get("ann")?.unwrap_or(0), accounts.get("bob")?.unwrap_or(0));
//!     accounts.put("ann", ann - 30)?.put("bob", bob + 30)?;
//!     Ok(())
//! })?;
//! assert_eq!(accounts.get("bob")?, Some(30));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`Snapshot`] shows one moment while others write; a [`Range`] does not stop them either.
//!
//! # Durability
//! When a write returns, it is durable; a write that a crash cuts has happened wholly or not at
//! all. On persistent memory (a file on a DAX file system, or a DAX device) and on ordinary disks
//! (by a log beside the pool) this holds for power failures; on tmpfs for the death of the process.
//! [`Statistics::durability`] says which. [`DurabilityMode::Buffered`] does not wait for the disk:
//! a crash loses at most the last milliseconds, and [`Store::sync`] waits for all at once.
//!
//! # Threads and damage
//! A [`Store`] and its trees are shared by reference or cloned. With the default engine many
//! threads read and write at a time. Data that is damaged is an [`Error`], never undefined
//! behaviour and never the value of another key; [`Store::check`] looks for all of it, and
//! [`salvage`] copies what can be read.
//!
//! # Features
//! Each family of engines is a feature: `fptree` (the default), `linetree`, `nvtree`, `clftree`,
//! `circtree`, `masstree`; `all-engines` has all of them. `serde` and `uuid` are for typed trees.
//! `control` lets other processes read a pool that is open (`OpenOptions::control_socket`).
//!
//! # More
//! The repository has a guide (`docs/guide.md`: engines, media, sizes, backups), a comparison with
//! LMDB, redb, fjall and others (`docs/from-other-stores.md`), and `ARCHITECTURE.md`, which says
//! how the store is made.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod batch;
mod catalog;
mod clock;
#[cfg(feature = "control")]
mod control;
#[cfg(not(feature = "control"))]
mod control {
    /// Nothing answers other processes.
    #[derive(Default)]
    pub(crate) enum Control {
        #[default]
        Off,
    }
}
mod core;
mod dump;
mod dump_files;
mod durability;
mod engine;
mod error;
mod expiry;
mod handle;
#[doc(hidden)]
pub mod internal;
mod key;
mod logged;
mod memory;
mod options;
mod registry;
mod restore;
mod salvage;
mod scan;
mod snapshot;
pub mod statistics;
mod store;
mod store_parts;
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
pub use core::deferred_waits::Unsynced;
pub use core::entry_batches::Entry;
pub use core::progress::Progress;
pub use core::value::Expiry;
pub use durability::{DurabilityMode, NoDurabilityMode};
pub use engine::Engine;
pub use error::{Error, MAX_VALUE_BYTES, Result};
pub use everleaf_index::{Contract, Direction, IndexError, MAX_KEY_BYTES};
pub use everleaf_log::{Damage, LogError};
pub use everleaf_pmem::{Durability, Medium, Newer, Release, Transactions};
pub use everleaf_pool::{KeyType, PoolError, Shutdown};
#[doc(hidden)] // Sizes of nodes, for the laboratory.
pub use everleaf_tree::EngineParameters;
pub use key::{AsKey, Key, KeyRange, OwnedKey};
pub use options::{CreateOptions, DEFAULT_SIZE_BYTES, FlushChoice, OpenOptions};
pub use restore::{restore, restore_with};
pub use salvage::{Salvaged, salvage, salvage_with};
pub use scan::{Keys, Range, Scan};
pub use snapshot::{DEFAULT_SNAPSHOT_BYTES, Snapshot};
pub use statistics::{Capabilities, CheckOutcome, Statistics};
pub use store::Store;
pub use transaction::{Savepoint, Transaction, TransactionOn, TransactionRange, TransactionResult};
pub use transfer::CopyOptions;
pub use tree::Tree;
#[cfg(feature = "serde")]
pub use typed::Json;
pub use typed::{
    KeyFor, OrderedKey, PrefixFor, RangeFor, StoredValue, TreeEntry, TypedKeys, TypedRange,
    ValueFor,
};
pub use view::View;

// Within the crate only; others have it from `internal`.
use key::StoreKey;

/// The README's example runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
