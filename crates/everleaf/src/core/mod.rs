//! The core of a store: from a key of the index and what is to be done with it, down to the index
//! and the records of its values. It knows neither trees with names and types, nor options.
//!
//! Map of the files, the lowest first: `value` (what is stored) · `life` (of a tree) · `fetched`
//! (entries that were read) · `value_record` (the bytes of a record) · `keyspace` (many trees in
//! one index) · `write` · `reads` (of a transaction) · `images` (of a snapshot) · `progress` ·
//! `showing` (to closures of callers) · `gate` (who writes alone) · `check` · `link` (the order of
//! persistence) · `backend` (the seam to all above) · `attached` (an index and a pool made one
//! store).

pub(crate) mod attached;
pub mod backend;
pub mod behind;
pub(crate) mod check;
pub(crate) mod fetched;
pub(crate) mod gate;
pub(crate) mod images;
pub(crate) mod keyspace;
pub(crate) mod life;
pub(crate) mod link;
pub(crate) mod progress;
pub(crate) mod reads;
pub(crate) mod showing;
pub(crate) mod value;
pub(crate) mod value_record;
pub(crate) mod write;
