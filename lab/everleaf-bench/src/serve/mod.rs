//! `bench serve`: servers beside each other, all driven by one client.
//!
//! Servers that speak the same protocol are started, filled with the same keys and stay. Then they
//! take turns: in each round every one of them answers the same requests. A connection sends a
//! pipeline of requests, waits for all of its replies, and sends the next one. Each reply is
//! compared with what it must be, byte by byte.
//!
//! Map of the files: `options` (what is asked for) · `requests` (which keys, in which mix) · `wire`
//! (requests and replies of a protocol) · `client` (the connections) · `server` (what is started,
//! and the processor time that it takes) · `run` (rounds and turns) · `row` (what is printed).

mod client;
mod options;
mod requests;
mod row;
mod run;
mod server;
mod wire;

pub use options::{Append, ServeOptions, Served};
pub use requests::Mix;
pub use row::ServeRow;
pub use run::run_serve_with_progress;
pub(crate) use run::{all_requests, plan_serve};
pub use wire::Protocol;

/// Name of the command of our program that serves a pool, as `everleaf serve` does.
pub const SERVER: &str = "__serve";
