//! Redis' protocol, RESP2 and RESP3.
//!
//! Map of the files: `parse` (bytes to arguments) · `reply` (values to bytes) · `session` (a
//! connection) · `ahead` (keys of a pipeline) · `greeting` (what is about the connection) ·
//! `transaction` (MULTI and EXEC) · `weight` (what takes long) · `table` (the commands that there
//! are) · `call` (one command at work) · `long` (replies in parts) · `strings` `bits` `keys`
//! `scanning` `hashes` `sets` `sorted_sets` `ranges` `algebra` `lists` `blocking` `sorting`
//! `random` (commands about keys) · `dump` (keys as bytes) · `pubsub` (messages) · `server`
//! `backup` `settings` `slowlog` (commands about the server) · `timing` (under which name a request
//! is counted) · `number` `long_double` `glob` (forms that arguments have).
//!
//! What differs from Redis:
//! * scripts, streams, geographic and probabilistic types, clusters and replication are not there:
//!   their commands are unknown;
//! * hashes, sets and KEYS, SCAN are in the order of the bytes;
//! * keys, fields and members have up to 65,472 bytes;
//! * a transaction that meets a full pool does nothing at all.

mod ahead;
mod algebra;
mod backup;
mod bits;
mod blocking;
mod call;
mod dump;
mod glob;
mod greeting;
mod hashes;
mod keys;
mod lists;
mod long;
mod long_double;
mod number;
pub mod parse;
mod pubsub;
mod random;
mod ranges;
mod reply;
mod scanning;
mod server;
mod session;
mod sets;
mod settings;
mod slowlog;
mod sorted_sets;
mod sorting;
mod strings;
mod table;
mod timing;
mod transaction;
mod weight;

pub use pubsub::Channels;
pub use scanning::Cursors;
pub use session::Session;
pub use slowlog::Slowlog;
pub use timing::names;

/// The version that HELLO and INFO tell: clients look at it to learn which commands there are.
pub const VERSION: &str = "7.0.15";
