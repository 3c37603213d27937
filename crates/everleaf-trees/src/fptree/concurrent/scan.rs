//! Scans: leaf by leaf, each locked while it is shown (L4). Within a leaf what is shown stood there at one moment; from leaf to
//! leaf time goes on. So a scan shows every key that was there all the time, none that was absent all the time, each at most once and
//! in order.

use std::ops::{Bound, ControlFlow};

use everleaf_index::{Direction, IndexError, Visit};
use everleaf_pmem::Media;

use super::ConcurrentFpTree;
use super::nodes::Place;
use crate::fptree::key::LeafKey;
use crate::fptree::layout::Shape;
use crate::fptree::scan::{collect, no_entries, show, within};

impl<K: LeafKey, M: Media, S: Shape> ConcurrentFpTree<K, M, S> {
    /// Visits entries in key order from `from` on. The visitor runs under the lock of a leaf: it must not call the tree.
    pub(super) fn scan_from(
        &self,
        from: Bound<K::Ref<'_>>,
        direction: Direction,
        visit: &mut Visit<'_, K>,
    ) -> Result<(), IndexError> {
        // Where the next leaf begins (forward), or the one before ends (backward).
        let mut border: Option<K::Owned> = None;
        loop {
            let place = match &border {
                None => self.inner.seek(&self.relax(), from, direction),
                Some(key) if direction == Direction::Forward => {
                    self.inner.seek(&self.relax(), Bound::Included(K::borrow(key)), direction)
                }
                Some(key) => self.inner.seek(&self.relax(), Bound::Excluded(K::borrow(key)), direction),
            };
            let bound = border.as_ref().map_or(from, |_| Bound::Unbounded);
            match self.show_leaf(&place, bound, direction, visit)? {
                None => {} // The leaf changed: it is looked for again.
                Some(ControlFlow::Break(())) => return Ok(()),
                Some(ControlFlow::Continue(())) => match place.border {
                    Some(next) => border = Some(next),
                    None => return Ok(()),
                },
            }
        }
    }

    /// Locks a leaf and shows its part within the bound; none if it no longer covers what it was looked for by.
    fn show_leaf(
        &self,
        place: &Place<K>,
        bound: Bound<K::Ref<'_>>,
        direction: Direction,
        visit: &mut Visit<'_, K>,
    ) -> Result<Option<ControlFlow<()>>, IndexError> {
        let media = self.pool.media();
        let leaf = self.leaf(place.child)?;
        leaf.prefetch_all(media);
        let guard = self.locks.lock(&self.relax(), place.child);
        if !self.inner.is_current(place.ticket) {
            guard.release_unchanged();
            return Ok(None);
        }
        let mut entries = no_entries::<K>();
        let entries = collect::<K, M, S>(&self.pool, leaf, leaf.live(media).and(self.shape.all()), &mut entries)?;
        // The next leaf is on its way while this one is sorted and shown.
        if let Some(Ok(next)) = place.next.map(|next| self.leaf(next)) {
            next.prefetch_all(media);
        }
        K::sort(entries);
        let shown = show::<K, M, S>(media, leaf, within::<K>(entries, bound, direction), direction, visit);
        guard.release_unchanged();
        Ok(Some(shown))
    }
}
