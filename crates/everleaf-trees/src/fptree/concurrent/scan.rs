//! Scans: leaf by leaf, each locked while it is shown (L4). Within a leaf what is shown stood there at one moment; from leaf to
//! leaf time goes on. So a scan shows every key that was there all the time, none that was absent all the time, each at most once and
//! in order.

use std::ops::{Bound, ControlFlow};

use everleaf_index::{Direction, IndexError, Visit};
use everleaf_pmem::Media;

use super::ConcurrentFpTree;
use crate::fptree::key::LeafKey;
use crate::fptree::layout::Shape;
use crate::fptree::scan::{collect, no_entries, show, within};
use crate::support::inner::Sought;

/// How far a scan has come.
enum Shown<Owned> {
    /// The leaf changed before it was locked: it is to be looked for again.
    Nothing,
    /// All up to this key, where the next leaf is to be looked for.
    Until(Owned),
    /// All that there is, or all that the visitor wants.
    Everything,
}

impl<K: LeafKey, M: Media, S: Shape> ConcurrentFpTree<K, M, S> {
    /// Visits entries in key order from `from` on. The visitor runs under the lock of a leaf: it must not call the tree.
    pub(super) fn scan_from(
        &self,
        from: Bound<K::Ref<'_>>,
        direction: Direction,
        visit: &mut Visit<'_, K>,
    ) -> Result<(), IndexError> {
        // Where the next leaf began, or the one before ended, when this one was looked for.
        let mut border: Option<K::Owned> = None;
        loop {
            let shown = match (&border, direction) {
                (None, _) => self.show_next(from, direction, visit)?,
                (Some(key), Direction::Forward) => self.show_next(Bound::Included(K::borrow(key)), direction, visit)?,
                (Some(key), Direction::Backward) => self.show_next(Bound::Excluded(K::borrow(key)), direction, visit)?,
            };
            match shown {
                Shown::Nothing => self.restarted(),
                Shown::Until(next) => border = Some(next),
                Shown::Everything => return Ok(()),
            }
        }
    }

    /// Shows the part of one leaf that follows the bound.
    fn show_next(
        &self,
        bound: Bound<K::Ref<'_>>,
        direction: Direction,
        visit: &mut Visit<'_, K>,
    ) -> Result<Shown<K::Owned>, IndexError> {
        let Some(sought) = self.inner.seek(&self.relax(), bound, direction) else { return Ok(Shown::Everything) };
        Ok(match self.show_leaf(&sought, bound, direction, visit)? {
            None => Shown::Nothing,
            Some(ControlFlow::Break(())) => Shown::Everything,
            Some(ControlFlow::Continue(())) => sought.bound.map_or(Shown::Everything, Shown::Until),
        })
    }

    /// Locks a leaf and shows its part within the bound; none if it no longer covers what it was looked for by.
    fn show_leaf(
        &self,
        sought: &Sought<'_, K::Owned>,
        bound: Bound<K::Ref<'_>>,
        direction: Direction,
        visit: &mut Visit<'_, K>,
    ) -> Result<Option<ControlFlow<()>>, IndexError> {
        let media = self.pool.media();
        let leaf = self.leaf(sought.child)?;
        leaf.prefetch_all(media);
        let guard = self.locks.lock(&self.relax(), sought.child);
        if !sought.ticket.is_current() {
            guard.unlock_unchanged();
            return Ok(None);
        }
        let mut entries = no_entries::<K>();
        let entries = collect::<K, M, S>(&self.pool, leaf, leaf.live(media).and(self.shape.all()), &mut entries)?;
        // The next leaf is on its way while this one is sorted and shown.
        if let Some(Ok(next)) = sought.hint.map(|next| self.leaf(next)) {
            next.prefetch_all(media);
        }
        K::sort(entries);
        let mut part = within::<K>(entries, bound, direction);
        if let (Some(end), Direction::Forward) = (&sought.bound, direction) {
            // Since the leaf was looked for it may have taken over the range after it, where the scan will look next.
            part = within::<K>(part, Bound::Excluded(K::borrow(end)), Direction::Backward);
        }
        let shown = show::<K, M, S>(media, leaf, part, direction, visit);
        guard.unlock_unchanged();
        Ok(Some(shown))
    }
}
