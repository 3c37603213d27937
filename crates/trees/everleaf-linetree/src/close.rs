//! Closing: the image of the inner nodes.

use std::sync::atomic::Ordering;

use everleaf_index::Result;
use everleaf_pmem::Media;
use everleaf_pool::Seal;

use super::LineTree;
use everleaf_tree::image;
use everleaf_tree::key::TreeKey;

impl<K: TreeKey, M: Media, const LINES: usize> LineTree<K, M, LINES> {
    /// Stores the image of the inner nodes: see `support/image`. No other operation may run
    /// meanwhile.
    pub(super) fn store_image(&self) -> Result<Option<Seal>> {
        let (keys, leaves) = (self.keys(), self.leaves.load(Ordering::Relaxed) as usize);
        let entries = || self.leaves().map(|(lower, sought)| (lower, sought.child));
        let mut worker = self.stock.worker()?;
        image::write::<K, M, _>(&self.pool, &mut worker, self.parameters, keys, leaves, entries)
    }
}
