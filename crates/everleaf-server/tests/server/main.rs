//! The server over real sockets.
#![forbid(unsafe_code)]

mod backup;
mod blocking;
mod cases;
mod changes;
mod clients;
#[cfg(feature = "cluster")]
mod cluster;
mod common;
mod dialog;
mod evict;
mod flush;
mod info;
#[cfg(feature = "scripts")]
mod kept_rows;
mod keyspace;
mod limits;
mod memcached;
mod metrics;
#[cfg(feature = "cluster")]
mod nodes;
mod noise;
mod parts;
mod passwords;
mod pubsub;
mod ranks;
mod redis;
mod restart;
mod ring;
mod room;
#[cfg(feature = "scripts")]
mod scripts;
mod stalls;
mod statistics;
mod stock;
mod streams;
#[cfg(feature = "tls")]
mod tls;
mod unread;
mod view;
