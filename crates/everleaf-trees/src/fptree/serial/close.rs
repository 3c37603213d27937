//! Closing: the image of the inner nodes.

use everleaf_index::{Direction, IndexError};
use everleaf_pmem::Media;
use everleaf_pool::Seal;

use super::FpTree;
use crate::fptree::layout::Shape;
use crate::support::image;
use crate::support::key::TreeKey;

impl<K: TreeKey, M: Media, S: Shape> FpTree<K, M, S> {
    /// Stores the image of the inner nodes: see `support/image`.
    pub(super) fn store_image(&mut self) -> Result<Option<Seal>, IndexError> {
        let Self { pool, worker, inner, groups, parameters, keys, .. } = self;
        let leaves: u64 = groups.all().iter().map(|group| group.used).sum();
        let mut walk = inner.start(Direction::Forward);
        let mut next = Some((0, walk.current()));
        let entries = std::iter::from_fn(|| {
            let entry = next?;
            let leaf = walk.step(Direction::Forward);
            next = leaf.map(|leaf| (K::word(K::borrow(&walk.lower_bound()), 0), leaf));
            Some(entry)
        });
        image::write::<K, M>(pool, worker, *parameters, *keys, leaves as usize, entries)
    }
}
