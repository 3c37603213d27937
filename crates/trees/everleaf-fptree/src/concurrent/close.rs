//! Closing: the image of the inner nodes.

use std::ops::Bound;
use std::sync::atomic::Ordering;

use everleaf_index::{Direction, IndexError};
use everleaf_pmem::Media;
use everleaf_pool::Seal;

use super::ConcurrentFpTree;
use crate::layout::Shape;
use everleaf_tree::image;
use everleaf_tree::key::TreeKey;

impl<K: TreeKey, M: Media, S: Shape> ConcurrentFpTree<K, M, S> {
    /// Stores the image of the inner nodes: see `support/image`. No other operation may run
    /// meanwhile.
    pub(super) fn store_image(&self) -> Result<Option<Seal>, IndexError> {
        let (leaves, relax) = (self.leaves.load(Ordering::Relaxed), self.relax());
        let seek = |from: Bound<K::Ref<'_>>| self.inner.seek(&relax, from, Direction::Forward);
        let entries = || {
            let first = seek(Bound::Unbounded);
            let mut next = first.map(|first| (K::to_owned(K::least()), first));
            std::iter::from_fn(move || {
                let (lower, sought) = next.take()?;
                if let Some(upper) = &sought.bound {
                    let beside = self.inner.seek_on(&sought, Direction::Forward);
                    let behind = beside.or_else(|| seek(Bound::Included(K::borrow(upper))));
                    next = behind.map(|behind| (upper.clone(), behind));
                }
                Some((lower, sought.child))
            })
        };
        let mut worker = self.workers.lease()?;
        let (pool, keys) = (&self.pool, self.keys());
        image::write::<K, M, _>(pool, &mut worker, self.parameters, keys, leaves as usize, entries)
    }
}
