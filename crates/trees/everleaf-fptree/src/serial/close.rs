//! Closing: the image of the inner nodes.

use everleaf_index::{Direction, Result};
use everleaf_pmem::Media;
use everleaf_pool::Seal;

use super::FpTree;
use crate::layout::Shape;
use everleaf_tree::image;
use everleaf_tree::key::TreeKey;

impl<K: TreeKey, M: Media, S: Shape> FpTree<K, M, S> {
    /// Stores the image of the inner nodes: see `support/image`.
    pub(super) fn store_image(&mut self) -> Result<Option<Seal>> {
        let Self { pool, worker, inner, groups, parameters, keys, .. } = self;
        let entries = || {
            let mut walk = inner.start(Direction::Forward);
            let mut next = Some((K::to_owned(K::least()), walk.current()));
            std::iter::from_fn(move || {
                let entry = next.take()?;
                next = walk.step(Direction::Forward).map(|leaf| (walk.lower_bound(), leaf));
                Some(entry)
            })
        };
        image::write::<K, M, _>(pool, worker, *parameters, *keys, groups.used() as usize, entries)
    }
}
