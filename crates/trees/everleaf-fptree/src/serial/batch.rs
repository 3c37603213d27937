//! Changing many entries together with what they lead to.

use std::sync::Arc;

use everleaf_index::{BatchSteps, Changes, Result};
use everleaf_pmem::Media;

use super::FpTree;
use crate::batch::{BatchTree, HeldLeaf, link_all};
use crate::layout::Shape;
use everleaf_tree::key::TreeKey;

impl<K: TreeKey, M: Media, S: Shape> FpTree<K, M, S> {
    /// Makes the changes of a batch.
    pub(super) fn link_entries(
        &mut self,
        changes: &Changes<'_, K>,
        steps: &mut dyn BatchSteps,
    ) -> Result<()> {
        let (pool, shape) = (Arc::clone(&self.pool), self.shape);
        link_all(self, &pool, shape, changes, steps)
    }
}

impl<K: TreeKey, M: Media, S: Shape> BatchTree<K, S> for FpTree<K, M, S> {
    type Hold = ();

    fn hold(&mut self, key: K::Ref<'_>, _: &[HeldLeaf<'_, S, ()>]) -> Option<(u64, ())> {
        Some((self.inner.find(key), ()))
    }

    fn count(&mut self, (): &(), change: i64) {
        self.keys = self.keys.saturating_add_signed(change);
    }

    fn change(&mut self, key: K::Ref<'_>, new: Option<u64>) -> Result<()> {
        match new {
            Some(word) => self.upsert(key, &[word], &mut [0])?,
            None => self.remove(key, &mut [0])?,
        };
        Ok(())
    }
}
