//! What both protocols keep in the store, and the only part of the server that calls it.
//!
//! Map of the files: `database` (opening, locks, reading) · `collections` (members
//! of a key) · `work` (the writes of one request,
//! committed together) · `rows` (keys of the store) · `record` (values of the store) · `sequence`
//! (numbers that are never given twice) · `flush` (emptying a database in constant time) · `sweep`
//! (room of what expired or was deleted).

mod collections;
mod database;
mod flush;
mod record;
mod rows;
mod sequence;
mod sweep;
mod work;

pub use collections::behind;
pub use database::Database;
pub use record::{Collection, HEADER_BYTES, Header, Kind};
pub use rows::{DATABASES, MAX_KEY_BYTES, Part, key_row, part_prefix, part_row};
pub use sweep::Sweeper;
pub use work::Work;
