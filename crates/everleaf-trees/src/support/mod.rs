//! Pure mechanism that several families of trees share: nothing here but `image` stores into
//! persistent memory, flushes or fences.

pub(crate) mod count;
pub(crate) mod fresh;
pub(crate) mod groups;
pub(crate) mod image;
pub mod inner;
pub(crate) mod inner_nodes;
pub mod key;
mod latch;
pub(crate) mod opening;
pub(crate) mod parallel;
pub mod parameters;
pub(crate) mod path;
pub(crate) mod redo;
pub(crate) mod reuse;
pub(crate) mod scan;
pub(crate) mod shared_nodes;
pub(crate) mod sort;
pub(crate) mod steps;
pub mod version_locks;
pub(crate) mod wait;
