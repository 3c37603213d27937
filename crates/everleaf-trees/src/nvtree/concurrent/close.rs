//! Closing: the image of the inner nodes.

use everleaf_index::IndexError;
use everleaf_pmem::Media;
use everleaf_pool::Seal;

use super::ConcurrentNvTree;
use crate::support::image;
use crate::support::key::TreeKey;

impl<K: TreeKey, M: Media> ConcurrentNvTree<K, M> {
    /// Stores the image of the inner nodes: see `support/image`. No other operation may run
    /// meanwhile.
    pub(super) fn store_image(&self) -> Result<Option<Seal>, IndexError> {
        let mut worker = self.stock.worker()?;
        let (entries, keys) = (self.parents.entries(), self.count());
        let leaves = entries.len();
        let entries = entries.into_iter();
        image::write::<K, M>(&self.pool, &mut worker, self.parameters, keys, leaves, entries)
    }
}
