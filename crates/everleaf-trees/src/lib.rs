//! The persistent B+-trees of Everleaf, one module a family, and the pure mechanism that they share
//! ([`support`]).
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod fptree;
pub mod masstree;
pub mod sorted;
pub mod support;

#[cfg(test)]
mod tests;
