//! Stores on memory that records what is stored and can be taken apart.
//!
//! Map of the files: `costs` (flushes and fences) · `crash_in_a_write` (what a power failure leaves
//! of one) · `crash_in_a_restore` · `crash_in_the_catalog` · `damage` (errors, never panics).

mod costs;
mod crash_in_a_restore;
mod crash_in_a_write;
mod crash_in_the_catalog;
mod damage;
