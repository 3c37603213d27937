//! Everleaf for C. The functions are what `include/everleaf.h` declares, which is made of them.
//!
//! Map of the files: `boundary` (statuses, the last error, pointers, panics) · `store` (opening,
//! single keys) · `iterator` · `batch`.
// What a caller owes is the same for all functions; the head of the header has it.
#![allow(clippy::missing_safety_doc)]

mod batch;
pub mod boundary;
mod iterator;
mod store;

pub use batch::*;
pub use boundary::Status;
pub use iterator::*;
pub use store::*;
