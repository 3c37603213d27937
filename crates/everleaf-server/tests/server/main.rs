//! The server over real sockets.
#![forbid(unsafe_code)]

mod cases;
mod common;
mod limits;
mod memcached;
mod noise;
mod redis;
mod restart;
mod stock;
