//! The core of a store: from a key of the index and what is to be done with it, down to the index
//! and the records of its values. It knows neither trees with names and types, nor options.
//!
//! Map of the files, the lowest first: `value` (what is stored) · `tree_liveness` (of a tree) ·
//! `entry_batches` (entries that were read) · `value_record` (the bytes of a record) · `keyspace`
//! (many trees in one index) · `write` · `read_set` (of a transaction) · `images` (of a snapshot) ·
//! `progress` · `reentrancy` (to closures of callers) · `gate` (who writes alone) · `check` ·
//! `link` (the order of persistence) · `backend` (the seam to all above) · `attached` (an index and
//! a pool made one store).

pub(crate) mod attached;
pub mod backend;
pub(crate) mod check;
pub mod deferred_waits;
pub(crate) mod entry_batches;
pub(crate) mod gate;
pub(crate) mod images;
pub(crate) mod keyspace;
pub(crate) mod link;
pub(crate) mod progress;
pub(crate) mod read_set;
pub(crate) mod reentrancy;
pub(crate) mod tree_liveness;
pub(crate) mod value;
pub(crate) mod value_record;
pub(crate) mod write;
