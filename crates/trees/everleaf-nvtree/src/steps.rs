//! What takes part in a change of an element and becomes durable by the same fences: the steps of a
//! store, or nothing.

use everleaf_index::{LinkSteps, Result};

/// Steps beside a change: the first before the fence that precedes its commit, the rest before the
/// fence that follows it.
pub(super) trait Steps {
    /// Whether there are any.
    const ANY: bool;

    /// As [`LinkSteps::prepare`].
    fn prepare(&mut self, old: Option<u64>) -> Result<()>;

    /// As [`LinkSteps::complete`].
    fn complete(&mut self) -> Result<()>;
}

/// None.
pub(super) struct Alone;

impl Steps for Alone {
    const ANY: bool = false;
    #[inline(always)]
    fn prepare(&mut self, _old: Option<u64>) -> Result<()> {
        Ok(())
    }
    #[inline(always)]
    fn complete(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Those of a caller of [`Index::link`](everleaf_index::Index::link).
pub(super) struct Linked<'s>(pub &'s mut dyn LinkSteps);

impl Steps for Linked<'_> {
    const ANY: bool = true;
    fn prepare(&mut self, old: Option<u64>) -> Result<()> {
        self.0.prepare(old)
    }
    fn complete(&mut self) -> Result<()> {
        self.0.complete()
    }
}

/// A change is durable; the inner result is that of the steps.
#[must_use]
pub(super) struct Done(pub Result<()>);
