//! One file a command.

pub mod bench;
pub mod check;
pub mod create;
pub mod del;
pub mod explore;
pub mod get;
pub mod info;
pub mod load;
pub mod put;
pub mod scan;
pub mod torture;
pub mod tour;
