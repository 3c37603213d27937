//! Stores on memory that records what is stored and can be taken apart. One program: stores on
//! these media are code that is compiled anew for each program that has any, which takes longer
//! than all of these tests.
//!
//! Map of the files: `costs` (flushes and fences) · `crash_in_a_write` (what a power failure leaves
//! of one) · `damage` (errors, never panics).

#[path = "../common/mod.rs"]
mod common;
mod costs;
mod crash_in_a_write;
mod damage;
