//! Scans: leaf by leaf, each locked while it is shown (L4). Within a leaf what is shown stood there
//! at one moment; from leaf to leaf time goes on. So a scan shows every key that was there all the
//! time, none that was absent all the time, each at most once and in order.

use std::ops::{Bound, ControlFlow};

use everleaf_index::{Direction, IndexError, Visit};
use everleaf_pmem::{Media, planted};

use super::ConcurrentFpTree;
use crate::fptree::layout::Shape;
use crate::fptree::leaf::Leaf;
use crate::fptree::scan::{collect, no_entries, show, within};
use crate::support::inner::Sought;
use crate::support::key::TreeKey;
use crate::support::sort::sort;

impl<K: TreeKey, M: Media, S: Shape> ConcurrentFpTree<K, M, S> {
    /// Visits entries in key order from `from` on. The visitor runs under the lock of a leaf: it
    /// must not call the tree.
    pub(super) fn scan_from(
        &self,
        from: Bound<K::Ref<'_>>,
        direction: Direction,
        visit: &mut Visit<'_, K>,
    ) -> Result<(), IndexError> {
        // Where the next leaf began, or the one before ended, when this one was looked for; and the
        // next leaf, if it was easily found.
        let mut border: Option<K::Owned> = None;
        let mut ahead: Option<Sought<'_, K::Owned>> = None;
        loop {
            let sought = match (ahead.take(), &border) {
                (Some(sought), _) => Some(sought),
                (None, None) => self.seek(from, direction)?,
                (None, Some(key)) => self.seek(beyond(K::borrow(key), direction), direction)?,
            };
            let Some(sought) = sought else { return Ok(()) };
            let shown = match &border {
                None => self.show_leaf(&sought, from, direction, visit)?,
                Some(key) => {
                    self.show_leaf(&sought, beyond(K::borrow(key), direction), direction, visit)?
                }
            };
            match shown {
                None => self.restarted(),
                Some(ControlFlow::Break(())) => return Ok(()),
                Some(ControlFlow::Continue(())) => {
                    ahead = self.inner.seek_on(&sought, direction);
                    border = sought.bound;
                    if border.is_none() {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Looks for the leaf where what follows a bound begins, and prefetches its lines.
    fn seek(
        &self,
        bound: Bound<K::Ref<'_>>,
        direction: Direction,
    ) -> Result<Option<Sought<'_, K::Owned>>, IndexError> {
        let sought = self.inner.seek(&self.relax(), bound, direction);
        if let Some(sought) = &sought {
            self.prefetch_node(sought.child)?;
        }
        Ok(sought)
    }

    /// Prefetches all that a scan reads of a leaf, and for its lock.
    #[inline(always)]
    fn prefetch_node(&self, offset: u64) -> Result<Leaf<'_, S>, IndexError> {
        let leaf = self.leaf(offset)?;
        leaf.prefetch_all(self.pool.media());
        self.locks.prefetch_to_lock(offset);
        Ok(leaf)
    }

    /// Locks a leaf, whose lines are on their way, and shows its part within the bound; none if it
    /// no longer covers what it was looked for by.
    fn show_leaf(
        &self,
        sought: &Sought<'_, K::Owned>,
        bound: Bound<K::Ref<'_>>,
        direction: Direction,
        visit: &mut Visit<'_, K>,
    ) -> Result<Option<ControlFlow<()>>, IndexError> {
        let media = self.pool.media();
        let leaf = self.leaf(sought.child)?;
        let guard = self.locks.lock(&self.relax(), sought.child);
        if !sought.ticket.is_current() && !planted(218) {
            guard.unlock_unchanged();
            return Ok(None);
        }
        let records = self.pool.pin();
        let mut entries = no_entries::<K>();
        let entries = collect::<K, M, S>(
            &records,
            leaf,
            leaf.live(media).and(self.shape.all()),
            &mut entries,
        )?;
        // The next leaf is on its way while this one is sorted and shown.
        // It may be no leaf by now.
        let next = sought.hint.and_then(|next| self.prefetch_node(next).ok());
        sort::<K>(media.simd(), entries);
        let mut part = within::<K>(entries, bound, direction);
        if let (Some(end), Direction::Forward) = (&sought.bound, direction) {
            // Since the leaf was looked for it may have taken over the range after it, where the
            // scan will look next.
            part = within::<K>(part, Bound::Excluded(K::borrow(end)), Direction::Backward);
        }
        let shown = show::<K, M, S>(media, leaf, part, next, direction, visit);
        guard.unlock_unchanged();
        Ok(Some(shown))
    }
}

/// What follows a border in a direction: the border itself is the first key of a range.
fn beyond<R>(border: R, direction: Direction) -> Bound<R> {
    if direction == Direction::Forward { Bound::Included(border) } else { Bound::Excluded(border) }
}
