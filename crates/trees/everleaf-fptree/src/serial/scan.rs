//! Scans: leaf by leaf through the inner nodes, each leaf sorted on the stack while the lines of
//! the next one are on their way.

use std::ops::{Bound, ControlFlow};

use everleaf_index::Result;
use everleaf_pmem::Media;

use super::FpTree;
use crate::layout::Shape;
use crate::scan::{collect, no_entries, show_read};
use everleaf_tree::key::TreeKey;
use everleaf_tree::scan::{ScanRequest, within};
use everleaf_tree::sort::sort;

impl<K: TreeKey, M: Media, S: Shape> FpTree<K, M, S> {
    /// Visits entries in key order from `from` on.
    pub(super) fn scan_from(&self, scan: ScanRequest<'_, '_, K>) -> Result<()> {
        let ScanRequest { from, direction, visit } = scan;
        let mut leaves = match (from, direction) {
            (Bound::Included(key) | Bound::Excluded(key), _) => self.inner.seek(key),
            (Bound::Unbounded, _) => self.inner.start(direction),
        };
        let mut bound = from;
        let mut leaf = self.leaf(leaves.current())?;
        leaf.prefetch_all(self.pool.media());
        loop {
            let records = self.pool.pin();
            let mut entries = no_entries::<K>();
            let live = leaf.live(self.pool.media()).and(self.shape.all());
            let entries = collect::<K, M, S>(&records, leaf, live, &mut entries)?;
            // The next leaf is on its way while this one is sorted and shown.
            let next = leaves.step(direction).map(|next| self.leaf(next)).transpose()?;
            if let Some(next) = next {
                next.prefetch_all(self.pool.media());
            }
            sort::<K>(self.pool.media().simd(), entries);
            let (media, part) = (self.pool.media(), within::<K>(entries, bound, direction));
            let shown = show_read::<K, M, S>(media, leaf, part, next, direction, visit)?;
            match (shown, next) {
                (ControlFlow::Continue(()), Some(next)) => leaf = next,
                _ => return Ok(()),
            }
            bound = Bound::Unbounded; // All keys of the leaves that follow are beyond it.
        }
    }
}
