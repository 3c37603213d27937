//! memcached's text protocol, the meta commands included.
//!
//! Map of the files: `parse` (lines and numbers) · `items` (what commands do to a key) · `session`
//! (a connection) · `dispatch` (the way of its requests to the commands) · `ahead` (keys of a
//! pipeline) · `classic` (get, set, incr and their like) · `meta` (mg, ms, md, ma, mn, me) ·
//! `flags` (what follows a meta command's key) · `admin` `stats` (everything that is about the
//! server).
//!
//! What differs from memcached:
//! * the binary protocol is not offered: a connection that begins with byte 80 is closed;
//! * slab classes, LRU queues and watchers do not exist: their commands say so;
//! * flags h and l of `mg`, and `la` and `fetch` elsewhere, are kept in memory alone;
//! * nothing at all is sent for a line that ends in `noreply`, and the value behind one that is
//!   refused is swallowed;
//! * flags and lengths of more than 32 bits are refused instead of being cut (times are cut).

mod admin;
mod ahead;
mod classic;
mod dispatch;
mod flags;
pub mod items;
mod meta;
pub mod parse;
mod session;
mod stats;

pub use session::Session;

/// Names under which the time of requests is counted, the more frequent first; what has none of its
/// own is the last.
pub const COMMANDS: &[&str] = &[
    "get",
    "set",
    "mg",
    "ms",
    "gets",
    "md",
    "ma",
    "mn",
    "me",
    "delete",
    "incr",
    "decr",
    "touch",
    "add",
    "cas",
    "replace",
    "append",
    "prepend",
    "gat",
    "gats",
    "flush_all",
    "stats",
    "version",
    "other",
];

/// What `version` tells: clients look at the numbers to learn which commands there are.
pub const VERSION: &str = concat!("1.6.18-everleaf-", env!("CARGO_PKG_VERSION"));
