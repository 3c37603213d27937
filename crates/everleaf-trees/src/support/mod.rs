//! Pure mechanism that several families of trees share: nothing here but `image` stores into
//! persistent memory, flushes or fences.

pub(crate) mod count;
pub(crate) mod groups;
pub(crate) mod image;
pub mod inner;
pub mod key;
mod latch;
pub(crate) mod parallel;
pub mod parameters;
pub(crate) mod path;
pub(crate) mod redo;
pub(crate) mod reuse;
pub(crate) mod steps;
pub mod version_locks;
pub(crate) mod wait;
