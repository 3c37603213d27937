//! Changing an entry together with what it leads to ([`LinkSteps`]): the sequences of insertion,
//! update, removal and split, with the steps before their first and their last fence.
//!
//! Where keys have records of their own: only the value of a present key, for an entry comes and
//! goes with its record.

use everleaf_index::{LinkSteps, Links, Result};
use everleaf_pmem::Media;

use super::ClfTree;
use super::insert::Put;
use everleaf_tree::key::TreeKey;
use everleaf_tree::steps::Steps;

impl<K: TreeKey, M: Media> ClfTree<K, M> {
    /// The changes that are made so.
    pub(super) fn links_of_tree(&self) -> Links {
        if self.nodes().owns_keys() { Links::Replacements } else { Links::All }
    }

    /// Makes `new` the value of a key, or removes it. False if nothing was done: there is no such
    /// key to be removed, or its record would have to come or go with the entry.
    #[inline(always)]
    pub(super) fn link_entry(
        &mut self,
        key: K::Ref<'_>,
        new: Option<u64>,
        steps: &mut dyn LinkSteps,
    ) -> Result<bool> {
        let (mut steps, owns_keys) = (Steps::of(steps), self.nodes().owns_keys());
        let done = match new {
            Some(value) => {
                let only = owns_keys.then_some(Put::Update);
                self.put(key, value, only, &mut steps)?.is_some() || !owns_keys
            }
            None if owns_keys => false,
            None => self.remove(key, &mut steps)?.is_some(),
        };
        steps.end().map(|()| done)
    }
}
