//! What both protocols keep in the store, and the only part of the server that calls it.
//!
//! Map of the files: `database` (opening, locks, reading) · `work` (the writes of one request,
//! committed together) · `rows` (keys of the store) · `record` (values of the store) · `sequence`
//! (numbers that are never given twice) · `flush` (emptying a database in constant time) · `sweep`
//! (room of what expired or was deleted).

mod database;
mod flush;
mod record;
mod rows;
mod sequence;
mod sweep;
mod work;

pub use database::Database;
pub use record::{HEADER_BYTES, Header, Kind};
pub use rows::key_row;
pub use sweep::Sweeper;
pub use work::Work;
