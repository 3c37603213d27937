//! The trees that papers measure against: wB+-tree, CDDS B-tree and LCB+Tree.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod cdds;
pub mod lcbtree;
mod shared;
pub mod wbtree;
