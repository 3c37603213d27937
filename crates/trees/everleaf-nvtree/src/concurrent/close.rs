//! Closing: the image of the inner nodes.

use everleaf_index::Result;
use everleaf_pmem::Media;
use everleaf_pool::Seal;

use super::ConcurrentNvTree;
use everleaf_tree::image;
use everleaf_tree::key::TreeKey;

impl<K: TreeKey, M: Media> ConcurrentNvTree<K, M> {
    /// Stores the image of the inner nodes: see `support/image`. No other operation may run
    /// meanwhile.
    pub(super) fn store_image(&self) -> Result<Option<Seal>> {
        let mut worker = self.stock.worker()?;
        let (found, keys) = (self.parents.entries(), self.count());
        let entry = |(bound, leaf): &(u64, u64)| (K::to_owned(K::of(*bound, &[])), *leaf);
        let entries = || found.iter().map(entry);
        image::write::<K, M, _>(
            &self.pool,
            &mut worker,
            self.parameters,
            keys,
            found.len(),
            entries,
        )
    }
}
