//! The persistent B+-trees of Everleaf, one module a family, the pure mechanism that they share
//! ([`support`]), and the table of engines by name ([`Engine`]).
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod cdds;
pub mod clftree;
mod engine;
mod engines;
pub mod fptree;
pub mod lcbtree;
pub mod linetree;
pub mod masstree;
pub mod nvtree;
pub mod sorted;
pub mod support;
pub mod wbtree;

pub use engine::{EngineEntry, Opening, Residence};
pub use engines::{DEFAULT_ENGINE, Engine, EngineError, layouts};
pub use support::parameters::EngineParameters;
