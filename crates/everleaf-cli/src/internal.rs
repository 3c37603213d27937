//! What the fuzzer needs of this crate. Not for users: it may change at any time.

pub use crate::commands::shell::{After, Session};
pub use crate::load::{HeaderError, Lines, Record, Records, Rows, Tsv};
