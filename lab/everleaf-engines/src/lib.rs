//! The engines on the media of the laboratory: here each tree is compiled for each of them, once,
//! and nowhere else. On [`Mapped`] they are those of the product.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

use everleaf_crash::{Dram, Instrumented, Traced};
use everleaf_pmem::Mapped;
use everleaf_trees::{Shipped, engines_on};

/// All engines, on every media.
#[derive(Clone, Copy, Debug)]
pub struct AllEngines;

engines_on!(AllEngines, Traced);
engines_on!(AllEngines, Instrumented);
engines_on!(AllEngines, Dram);
engines_on!(AllEngines, Mapped, Shipped);
