//! One file a command.

pub mod cas;
pub mod check;
#[cfg(feature = "cluster")]
pub mod cluster;
pub mod completions;
pub mod copy;
pub mod count;
pub mod create;
pub mod del;
pub mod drop;
pub mod dump;
pub mod expire;
pub mod get;
pub mod incr;
pub mod info;
pub mod load;
pub mod man;
pub mod put;
pub mod restore;
pub mod scan;
pub mod serve;
pub mod shell;
pub mod tour;
pub mod trees;
pub mod ttl;
pub mod upgrade;
