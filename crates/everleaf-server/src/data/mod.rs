//! What both protocols keep in the store, and the only part of the server that calls it.
//!
//! Map of the files: `database` (opening, locks, reading) · `collections` (members of a key) ·
//! `work` (the writes of one request, committed together) · `keys` (all keys of a database) ·
//! `counts` (how many there are) · `picture` (about where) · `ranks` (of members) · `moment`
//! (what replies are read from that are sent in parts) · `rows` (keys of the store) · `record`
//! (values of the store) · `sequence` (numbers that are never given twice) · `flush` (emptying a
//! database in constant time) · `sweep` (room of what expired or was deleted) · `evict` (room of
//! what was not used for long) · `room` (for a write that finds none) · `waiting` (clients that
//! wait for a key).

mod collections;
mod counts;
mod database;
mod evict;
mod flush;
mod keys;
mod moment;
mod picture;
mod ranks;
mod record;
mod room;
mod rows;
mod sequence;
mod sweep;
mod waiting;
mod work;

pub use collections::behind;
pub use database::{Database, Held, Live};
pub use keys::key_ends;
pub use moment::{Ends, Moment, Source};
pub use ranks::Spot;
pub use record::{Collection, HEADER_BYTES, Header, Kind};
pub use rows::{DATABASES, MAX_KEY_BYTES, Part, key_of, key_row, part_prefix, part_rest, part_row};
pub use sweep::Sweeper;
pub use waiting::Place;
pub use work::Work;
