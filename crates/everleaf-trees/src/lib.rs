//! The persistent B+-trees of Everleaf, one room a family, and the pure mechanism that they share
//! ([`support`]).
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod circtree;
pub mod fastfair;
pub mod fptree;
pub mod sorted;
pub mod support;
