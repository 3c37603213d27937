//! What both protocols keep in the store, and the only part of the server that calls it.
//!
//! Map of the files, each above those that it imports: `sweep` (room of what expired or was
//! deleted) · `flush` (emptying a database in constant time) · `commit` (the end of a request's
//! writes) · `room` (for a write that finds none) · `evict` (room of what was not used for long) ·
//! `removal` (of keys with their parts) · `moment` (what replies are read from that are sent in
//! parts) · `keys` (all keys of a database) · `collections` (members of a key) · `changes` (what
//! one request has written) · `work` (its writes) · `database` (opening, locks, reading), and what
//! it has: `counts` (how many keys there are) · `picture` (about where) · `holders` (who keeps
//! locks for long) · `libraries` (code of functions) · `ranks` (of members) · `flush_words` (what
//! was emptied) · `last_use` (of keys) · `listener` (who is told of changes) · `owners` (keys of
//! collections) · `waiting` (clients that wait for a key) · `sequence` (numbers that are never
//! given twice) · `stored` (rows, and those that will come to the store of a cluster: `ahead`) ·
//! `stream` (rows of streams) · `record` (values of the store) · `rows` (keys of the store).

#[cfg_attr(not(feature = "cluster"), allow(dead_code))] // Nothing is made of it.
mod ahead;
mod changes;
mod collections;
mod commit;
mod counts;
mod database;
mod evict;
mod flush;
mod flush_words;
mod holders;
mod keys;
mod last_use;
mod libraries;
mod listener;
mod moment;
mod owners;
mod picture;
mod ranks;
mod record;
mod removal;
mod room;
mod rows;
mod sequence;
mod stored;
mod stream;
mod sweep;
mod waiting;
mod work;

pub use ahead::{Ahead, LONGEST, Mark as AheadMark, Progress};
#[cfg(feature = "cluster")]
pub use ahead::{Propose, Refused, Ticket};
pub use changes::Change;
pub use collections::behind;
pub use database::{Database, Held, KEPT, Live, Mark};
#[cfg(feature = "scripts")]
pub use holders::{Killed, Running};
pub use keys::key_ends;
pub use listener::{Gone, Listener};
pub use moment::{Moment, Source};
pub use ranks::Spot;
pub use record::{Collection, HEADER_BYTES, Header, Kind};
#[cfg(feature = "cluster")]
pub use rows::Pending as PendingRows;
pub use rows::{
    DATABASES, Ends, MAX_KEY_BYTES, Part, hash, key_of, key_row, part_prefix, part_rest, part_row,
};
pub use stream::{Consumer, Group, Id, Pending, Stream, add_string, group_row, groups, strings};
pub use sweep::{SWEEP_PAUSE, Sweeper};
pub use waiting::{Awaited, Place};
pub use work::Work;
