//! What may take part in a change of an entry: the steps of a store ([`LinkSteps`]), or nothing.

use everleaf_index::{IndexError, LinkSteps, Result};

/// Steps of another, before the first and before the last fence of an operation.
pub struct Steps<'s> {
    steps: Option<&'s mut dyn LinkSteps>,
    failed: Option<IndexError>,
}

impl<'s> Steps<'s> {
    /// Nothing takes part.
    pub const fn none() -> Self {
        Self { steps: None, failed: None }
    }

    /// These take part.
    pub fn of(steps: &'s mut dyn LinkSteps) -> Self {
        Self { steps: Some(steps), failed: None }
    }

    /// Whether there are any: then what they prepare needs a fence before the commit.
    #[inline(always)]
    pub fn take_part(&self) -> bool {
        self.steps.is_some()
    }

    /// The entry has this value now, and the operation can no longer be refused.
    #[inline(always)]
    pub fn prepare(&mut self, old: Option<u64>) -> Result<()> {
        self.steps.as_mut().map_or(Ok(()), |steps| steps.prepare(old))
    }

    /// The commit word is stored and flushed; a fence follows, whatever the steps say.
    #[inline(always)]
    pub fn complete(&mut self) {
        self.failed = self.steps.as_mut().and_then(|steps| steps.complete().err());
    }

    /// What the steps said when the entry was changed.
    #[inline(always)]
    pub fn end(self) -> Result<()> {
        self.failed.map_or(Ok(()), Err)
    }
}
