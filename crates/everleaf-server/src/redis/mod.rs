//! Redis' protocol, RESP2 and RESP3.
//!
//! Map of the files: `session` (a connection) · `dispatch` (the way of its requests to the
//! commands) · `running` (one command for it) · `ahead` (keys of a pipeline) · `greeting` `client`
//! `replies` (what is about the connection) · `queue` `transaction` (MULTI and EXEC) · `weight`
//! (what takes long) · `table` (the commands that there are) · `command` `names` `command_groups`
//! `describing` (what is known and told of them) · `call` (one command at work) · `failure` (why
//! one is not done) · `long` (replies in parts) · `strings` `bits` `bitfield` `common_part` `keys`
//! `scanning` `hashes` `sets` `sorted_sets` `ranges` `algebra` `lists` `blocking` `sorting`
//! `sort_options` `random` `swapping` (commands about keys) · `streams` `reading` `groups`
//! `pending` `stream_info`, with `stream_ids` and `trimming` (commands about streams) · `scripting`
//! `functions` (scripts) · `dump` `stream_dump` `payload` (keys as bytes) · `pubsub` `events`
//! `tracking` `tracked` `monitor` (messages) · `server` `info` `backup` `settings` `ignored`
//! `slowlog` `latency` `roles` (commands about the server) · `cluster` `sentinel` (commands about a
//! cluster that it is a node of) · `outside` (a node that does not lead) · `timing` (under which
//! name a request is counted).
//!
//! What differs from Redis:
//! * geographic and probabilistic types and replication are not there, nor clusters but those of
//!   the feature `cluster`: their commands are unknown;
//! * hashes, sets and KEYS, SCAN are in the order of the bytes;
//! * keys, fields and members have up to 65,472 bytes;
//! * a transaction that meets a full pool does nothing at all.

mod ahead;
mod algebra;
mod backup;
mod bitfield;
mod bits;
mod blocking;
mod call;
mod client;
mod cluster;
mod command;
mod command_groups;
mod common_part;
mod describing;
mod dispatch;
mod dump;
mod events;
mod failure;
#[cfg(feature = "scripts")]
mod functions;
mod greeting;
mod groups;
mod hashes;
mod ignored;
mod info;
mod keys;
mod latency;
mod lists;
mod long;
mod monitor;
mod names;
#[cfg(feature = "cluster")]
mod outside;
mod payload;
mod pending;
mod pubsub;
mod queue;
mod random;
mod ranges;
mod reading;
mod replies;
mod roles;
mod running;
mod scanning;
#[cfg(feature = "scripts")]
mod scripting;
#[cfg(not(feature = "scripts"))]
#[path = "without_scripts.rs"]
mod scripting;
#[cfg(not(feature = "scripts"))]
use scripting as functions;
mod sentinel;
mod server;
mod session;
mod sets;
mod settings;
mod slowlog;
mod sort_options;
mod sorted_sets;
mod sorting;
mod stream_dump;
mod stream_ids;
mod stream_info;
mod streams;
mod strings;
mod swapping;
mod table;
mod timing;
mod tracked;
mod tracking;
mod transaction;
mod trimming;
mod weight;

#[cfg(feature = "scripts")]
pub use functions::load_all as load_libraries;
#[cfg(feature = "cluster")]
pub(crate) use outside::{Outside, PROTOCOL, Way};
#[cfg(feature = "cluster")]
pub(crate) use sentinel::{SWITCHED, switched};
pub use session::Session;
pub use timing::names;

/// The version that HELLO and INFO tell: clients look at it to learn which commands there are.
pub const VERSION: &str = "7.0.15";
