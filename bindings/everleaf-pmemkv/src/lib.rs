//! The C interface of pmemkv 1.5 on an Everleaf store: a program that is linked with libpmemkv
//! runs with ours. `include/libpmemkv.h` declares the functions; docs/languages.md tells what is
//! different.
//!
//! Map of the files: `status` (what functions return, and the last message) · `config` ·
//! `comparator` · `engine` (their engines and ours, opening) · `read` · `write` · `tx` ·
//! `iterator`.
// What a caller owes is what libpmemkv(3) says.
#![allow(clippy::missing_safety_doc)]

mod comparator;
mod config;
mod engine;
mod iterator;
mod read;
mod status;
mod tx;
mod write;

pub use comparator::*;
pub use config::*;
pub use engine::*;
pub use iterator::*;
pub use read::*;
pub use status::*;
pub use tx::*;
pub use write::*;
