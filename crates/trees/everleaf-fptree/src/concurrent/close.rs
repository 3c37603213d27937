//! Closing: the image of the inner nodes.

use std::sync::atomic::Ordering;

use everleaf_index::Result;
use everleaf_pmem::Media;
use everleaf_pool::Seal;

use super::ConcurrentFpTree;
use crate::layout::Shape;
use everleaf_tree::image;
use everleaf_tree::inner::Sought;
use everleaf_tree::key::TreeKey;
use everleaf_tree::wait::wait;

impl<K: TreeKey, M: Media, S: Shape> ConcurrentFpTree<K, M, S> {
    /// Stores the image of the inner nodes: see `support/image`. No other operation may run
    /// meanwhile.
    pub(super) fn store_image(&self) -> Result<Option<Seal>> {
        let (keys, leaves) = (self.keys(), self.leaves.load(Ordering::Relaxed) as usize);
        let leaf = |(lower, sought): (_, Sought<'_, _>)| (lower, sought.child);
        let entries = || self.inner.leaves(wait(self.pool.media())).map(leaf);
        let mut worker = self.workers.lease()?;
        image::write::<K, M, _>(&self.pool, &mut worker, self.parameters, keys, leaves, entries)
    }
}
