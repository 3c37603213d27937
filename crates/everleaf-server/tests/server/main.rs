//! The server over real sockets.
#![forbid(unsafe_code)]

mod backup;
mod blocking;
mod cases;
mod changes;
mod clients;
mod common;
mod dialog;
mod evict;
mod flush;
mod info;
mod keyspace;
mod limits;
mod memcached;
mod metrics;
mod noise;
mod parts;
mod pubsub;
mod ranks;
mod redis;
mod restart;
mod ring;
mod room;
mod stalls;
mod stock;
#[cfg(feature = "tls")]
mod tls;
mod unread;
