//! Closing: the image of the inner nodes.

use everleaf_index::Result;
use everleaf_pmem::Media;
use everleaf_pool::Seal;

use super::NvTree;
use everleaf_tree::image;
use everleaf_tree::key::TreeKey;

impl<K: TreeKey, M: Media> NvTree<K, M> {
    /// Stores the image of the inner nodes: see `support/image`.
    pub(super) fn store_image(&mut self) -> Result<Option<Seal>> {
        let Self { pool, worker, inner, parameters, keys, .. } = self;
        let entries = || {
            let places = std::iter::successors(Some(inner.first()), |place| inner.next(*place));
            places.map(|place| (inner.lower_bound(place), inner.leaf(place)))
        };
        image::write::<K, M, _>(pool, worker, *parameters, *keys, inner.len(), entries)
    }
}
