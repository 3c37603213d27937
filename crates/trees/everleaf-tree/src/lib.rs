//! What the persistent B+-trees of Everleaf are made of: what an engine is ([`EngineEntry`],
//! [`TreeFamily`]), and pure mechanism that several families share. Nothing here but [`image`]
//! stores into persistent memory, flushes or fences.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod count;
mod engine;
pub mod fresh;
pub mod groups;
pub mod image;
pub mod inner;
pub mod inner_nodes;
pub mod key;
mod latch;
pub mod opening;
pub mod operations;
pub mod parallel;
pub mod parameters;
pub mod path;
pub mod redo;
pub mod reuse;
pub mod scan;
pub mod scan_orders;
pub mod shared_nodes;
pub mod sort;
pub mod statistics;
pub mod steps;
pub mod version_locks;
pub mod wait;

pub use engine::{
    EngineCode, EngineEntry, Engines, Open, Opening, Residence, TreeFamily, slots_of_array,
};
pub use parameters::EngineParameters;
