//! A server for memcached and Redis clients on an [Everleaf](everleaf) store. What it has
//! acknowledged survives the death of the process, and on persistent memory and on a disk a power
//! failure.
//!
//! ```
//! use std::io::{Read, Write};
//! use std::sync::Arc;
//! use everleaf::{Clock, Store};
//! use everleaf_server::{Address, Database, Limits, ServeOptions, Server};
//!
//! # let folder = tempfile::tempdir()?;
//! # let store = everleaf::Store::create(folder.path().join("a.pool"))?;
//! let data = Arc::new(Database::over(store, Clock::system())?);
//! let options = ServeOptions { memcached: vec!["127.0.0.1:0".parse()?], ..Default::default() };
//! let server = Server::start(data, options)?;
//! # let Address::Tcp(address) = server.memcached_addresses()[0] else { unreachable!() };
//! let mut client = std::net::TcpStream::connect(address)?;
//! client.write_all(b"set leaf 0 0 5\r\ngreen\r\n")?;
//! let mut reply = [0; 8];
//! client.read_exact(&mut reply)?;
//! assert_eq!(&reply, b"STORED\r\n");
//! server.stop();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Threads
//! One thread accepts connections and gives each to one of the threads that answer, in turn. Each
//! of these has a tokio runtime of its own, so a connection's state is touched by one thread and no
//! work moves between threads. Calls of the store are mostly short and do not wait for the network,
//! so they are made right there; a request that takes long (`redis/weight.rs`), or that needs what
//! such a one has locked, is served by a thread beside. A thread waits for syncs, one removes what
//! expired or was deleted, and one answers who operates the server, if there is an address for it.
//!
//! # Requests and replies
//! What one read brought is answered together: requests are taken from the front of the bytes until
//! they end, or until the replies reach [`Limits::reply_bytes`], and the replies are sent by one
//! write. A request whose reply is longer is answered in parts, and goes on when the client has
//! read (`redis/long.rs`). What was understood of a request is kept until the rest of it has come,
//! so the time is proportional to the bytes. The reply is written after the store has acknowledged,
//! so it means what the store's durability says: with `immediate` what is answered is durable.
//! Requests are answered in their order, so a reply covers the requests without reply that came
//! before it on the connection.
//!
//! # Limits
//! A client may write many requests before it reads a reply: what waits has a shared limit
//! (`net/unsent.rs`), beyond which a client that does not read is not read. A line, a key, a value
//! and the number of connections have limits ([`Limits`]); requests that have not come to their end
//! share one limit of memory, and the connection that exceeds it is closed. Replies that cannot be
//! made in parts, because something is removed or changed, share another one; where it is reached,
//! nothing is changed. An idle connection holds no buffer (TLS keeps some), and ends after
//! [`ServeOptions::idle`].
//!
//! # Stopping
//! When the server stops, no client is accepted any more, what came is answered, and the
//! connections are closed. Then the store is closed. A server that is killed instead loses nothing
//! that it had acknowledged.
//!
//! # What is durable
//! A key's type, flags, CAS number and expiry are part of its record (`data/record.rs`). Expiry is
//! a moment of the system's clock. Numbers of the sequence, which CAS numbers and the ids of
//! collections are taken from, are never given twice, because a bound above all of them is in the
//! store before they are given (`data/sequence.rs`). Databases are emptied by one such number; a
//! delayed `flush_all` is a word of the store as well (`data/flush.rs`).
//!
//! # Keys
//! All that is served is in one named tree of the pool. A first byte tells keys from parts of
//! collections and from the server's own words; a collection's parts are found by an id of fixed
//! length that is in the key's record (`data/rows.rs`). So no key can be taken for a field, and to
//! delete or rename a collection costs the same for every size. Both protocols see the same keys;
//! memcached's are those of database 0.
//!
//! # Atomic requests
//! A request that reads and writes holds the locks of its keys meanwhile, gathers its writes, and
//! does them as one batch (`data/work.rs`), so that it has happened wholly or not at all, at any
//! crash.
//!
//! Map of the folders, each above those that it calls: `net` (sockets and threads) · `cluster` (a
//! node: when it leads, and what it says otherwise) · `memcached` · `redis` (the protocols) ·
//! `scripts` (Lua) · `shared` (what all connections share) · `resp` (forms of Redis' protocol) ·
//! `metrics` (for who operates it) · `data` (all calls of the store); and the files `start` (what a
//! server begins with) · `process` (what the system tells of it) · `protocol` (what the two are to
//! a connection) · `backup` (dumps while it serves) · `counters` · `memory` (limits that
//! connections share) · `authentication` · `tls` · `view` (of a cluster) · `options` · `error`.
//! Warnings are events of `tracing`.
#![forbid(unsafe_code)]
#![warn(missing_docs)]
// Some of what scripts need is part of what all commands use.
#![cfg_attr(not(feature = "scripts"), allow(dead_code))]

mod authentication;
mod backup;
#[cfg(feature = "cluster")]
mod cluster;
mod counters;
mod data;
mod error;
pub mod memcached;
mod memory;
mod metrics;
mod net;
mod open_files;
mod options;
mod process;
mod protocol;
mod random;
pub mod redis;
mod resp;
#[cfg(feature = "scripts")]
mod scripts;
mod setting_file;
mod shared;
mod start;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "without_tls.rs"]
mod tls;
mod view;

pub use authentication::Users;
#[cfg(feature = "cluster")]
pub use cluster::{ClusterOptions, Reads};
pub use counters::{Counter, Counters};
pub use data::Database;
pub use error::ServeError;
pub use net::{Server, wait_for_signal};
pub use options::{Address, Limits, ServeOptions};
pub use protocol::{Served, Then};
pub use setting_file::read_setting_file;
pub use shared::{Settings, Shared};
pub use tls::Tls;
pub use view::{Look, Member, View};
