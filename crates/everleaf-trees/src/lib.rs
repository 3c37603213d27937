//! The table of engines by name ([`Engine`]), over the crates of the families, and the families
//! that their papers measure against.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod cdds;
mod engines;
#[cfg(test)]
mod images;
pub mod lcbtree;
pub mod wbtree;

pub use engines::{DEFAULT_ENGINE, Engine, EngineError, Engines, Shipped, layouts};
pub use everleaf_tree::key::TreeKey;
pub use everleaf_tree::{EngineEntry, EngineParameters, Opening, Residence};
pub use {everleaf_circtree as sorted, everleaf_clftree as clftree, everleaf_fptree as fptree};
#[doc(hidden)] // What `engines_on` names.
pub use {
    everleaf_index::{BytesKeys, Index, U64Keys},
    everleaf_pmem::Transactions,
    everleaf_pool::Pool,
};
pub use {everleaf_linetree as linetree, everleaf_masstree as masstree, everleaf_nvtree as nvtree};
