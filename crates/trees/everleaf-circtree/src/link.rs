//! Changing an entry together with what it leads to ([`LinkSteps`]): the sequences of insertion,
//! update and removal, with the steps of the caller in front.
//!
//! ```text
//! L1  the caller's first step; fence. An insertion into a ring needs none of its own: its first
//!     fence comes before its commit
//! L2  the caller's second step, and the operation, whose last fence is for both
//! ```
//!
//! The leaf is locked from L1 on until all is durable. After a crash within L2 the second step may
//! be durable and the change not, or the other way round: the caller's recovery asks which.
//!
//! Where keys have records of their own: only the value of a present key, for an entry comes and
//! goes with its record.

use everleaf_index::{LinkSteps, Links, Result};
use everleaf_pmem::{Media, site};

use super::SortedTree;
use everleaf_tree::key::TreeKey;
use everleaf_tree::steps::Steps;

impl<K: TreeKey, M: Media> SortedTree<K, M> {
    /// The changes that are made so.
    pub(super) fn links_of_tree() -> Links {
        if K::RECORDS { Links::Replacements } else { Links::All }
    }

    /// Makes `new` the value of a key, or removes it. False if nothing was done: there is no such
    /// key to be removed, or its record would have to come or go with the entry.
    #[inline(always)]
    pub(super) fn link_entry(
        &self,
        key: K::Ref<'_>,
        new: Option<u64>,
        steps: &mut dyn LinkSteps,
    ) -> Result<bool> {
        let mut steps = Steps::of(steps);
        let done = match new {
            Some(value) if K::RECORDS => self.update(key, value, &mut steps)?.is_some(),
            Some(value) => self.upsert(key, value, &mut steps).map(|_| true)?,
            None if K::RECORDS => false,
            None => self.remove(key, &mut steps)?.is_some(),
        };
        steps.end().map(|()| done)
    }

    /// The caller's steps in front of a change whose first store may commit it.
    #[inline(always)]
    pub(super) fn take_part(&self, old: Option<u64>, steps: &mut Steps) -> Result<()> {
        if steps.take_part() {
            steps.prepare(old)?;
            fence_and_complete(self.pool.media(), steps);
        }
        Ok(())
    }
}

/// L1, and what follows it.
#[inline(always)]
pub(super) fn fence_and_complete<M: Media>(media: &M, steps: &mut Steps) {
    if steps.take_part() {
        // L1: what the caller has prepared. Crash: it is prepared, and nothing has changed.
        media.fence(site!("sorted.link.L1.fence"));
        steps.complete();
    }
}
