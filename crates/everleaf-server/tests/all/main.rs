//! The server over real sockets.
#![forbid(unsafe_code)]

mod cases;
mod common;
mod limits;
mod memcached;
mod restart;
mod stock;
