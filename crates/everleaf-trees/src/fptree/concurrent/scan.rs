//! Scans: leaf by leaf (L4). Within a leaf what is shown stood there at one moment; from leaf to leaf time goes on. So a scan shows every key
//! that was there all the time, none that was absent all the time, each at most once and in order.

use std::ops::{Bound, ControlFlow};

use everleaf_index::{Direction, IndexError, Visit};
use everleaf_pmem::Media;

use super::ConcurrentFpTree;
use crate::fptree::key::LeafKey;
use crate::fptree::layout::{MAX_SLOTS, Shape};
use crate::fptree::leaf::Leaf;
use crate::fptree::scan::{Entry, collect, no_entries, show, within};
use crate::support::inner::Sought;

/// What a scan takes with it from leaf to leaf.
struct Scan<'s, 'v, K: LeafKey> {
    direction: Direction,
    visit: &'s mut Visit<'v, K>,
    /// Room for the values of a leaf.
    values: &'s mut [u64],
    /// Whether others were in the way: then the leaf is locked, so that no scan begins again for ever.
    crowded: bool,
}

/// Entries of a leaf, sorted, and the leaf that probably follows.
type Part<'e, 't, K, S> = (&'e [Entry<'t, K>], Option<Leaf<'t, S>>);

impl<K: LeafKey, M: Media, S: Shape> ConcurrentFpTree<K, M, S> {
    /// Visits entries in key order from `from` on. The visitor may run under the lock of a leaf: it must not call the tree.
    pub(super) fn scan_from(
        &self,
        from: Bound<K::Ref<'_>>,
        direction: Direction,
        visit: &mut Visit<'_, K>,
    ) -> Result<(), IndexError> {
        let (mut one_each, mut more) = ([0; MAX_SLOTS], Vec::new());
        let values = match self.shape.value_words() {
            1 => &mut one_each[..],
            _ if K::RECORDS => &mut [],
            words => {
                more.resize(self.shape.slots() * words, 0);
                &mut more[..]
            }
        };
        let mut scan = Scan { direction, visit, values, crowded: false };
        // Where the next leaf began, or the one before ended, when this one was looked for; and the next leaf, if it was easily found.
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
                None => self.show_leaf(&sought, from, &mut scan)?,
                Some(key) => self.show_leaf(&sought, beyond(K::borrow(key), direction), &mut scan)?,
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

    /// Looks for the leaf where what follows a bound begins, and asks for its lines.
    fn seek(&self, bound: Bound<K::Ref<'_>>, direction: Direction) -> Result<Option<Sought<'_, K::Owned>>, IndexError> {
        let sought = self.inner.seek(&self.relax(), bound, direction);
        if let Some(sought) = &sought {
            self.ask_for(sought.child)?;
        }
        Ok(sought)
    }

    /// Asks for all that a scan reads of a leaf, and for its lock.
    #[inline(always)]
    fn ask_for(&self, offset: u64) -> Result<Leaf<'_, S>, IndexError> {
        let leaf = self.leaf(offset)?;
        leaf.prefetch_all(self.pool.media());
        if K::RECORDS {
            self.locks.prefetch_to_lock(offset);
        } else {
            self.locks.prefetch(offset);
        }
        Ok(leaf)
    }

    /// Shows the part within the bound of a leaf, whose lines are on their way; none if others were in the way, or it no longer covers what it was
    /// looked for by.
    fn show_leaf(
        &self,
        sought: &Sought<'_, K::Owned>,
        bound: Bound<K::Ref<'_>>,
        scan: &mut Scan<'_, '_, K>,
    ) -> Result<Option<ControlFlow<()>>, IndexError> {
        if K::RECORDS || scan.crowded { self.show_locked(sought, bound, scan) } else { self.show_copied(sought, bound, scan) }
    }

    /// Copies what is to be shown, as a reader does (L3), so that the visitor runs without a lock.
    fn show_copied(
        &self,
        sought: &Sought<'_, K::Owned>,
        bound: Bound<K::Ref<'_>>,
        scan: &mut Scan<'_, '_, K>,
    ) -> Result<Option<ControlFlow<()>>, IndexError> {
        let (media, words) = (self.pool.media(), self.shape.value_words());
        let leaf = self.leaf(sought.child)?;
        let seen = self.locks.look(sought.child);
        scan.crowded = true; // Unless all goes well.
        if seen.is_locked() || !sought.ticket.is_current() {
            return Ok(None);
        }
        let mut entries = no_entries::<K>();
        let Ok((part, _)) = self.part_of(sought, leaf, bound, scan.direction, &mut entries) else { return Ok(None) };
        for (entry, value) in part.iter().zip(scan.values.chunks_exact_mut(words)) {
            leaf.read_value(media, usize::from(entry.1), value);
        }
        if !seen.is_current() {
            return Ok(None);
        }
        scan.crowded = false;
        let mut entries = part.iter().zip(scan.values.chunks_exact(words));
        let show = |(entry, value): (&Entry<'_, K>, &[u64])| (scan.visit)(entry.0, value);
        Ok(Some(match scan.direction {
            Direction::Forward => entries.try_for_each(show),
            Direction::Backward => entries.rev().try_for_each(show),
        }))
    }

    /// Shows the entries where they stand, under the lock of the leaf.
    fn show_locked(
        &self,
        sought: &Sought<'_, K::Owned>,
        bound: Bound<K::Ref<'_>>,
        scan: &mut Scan<'_, '_, K>,
    ) -> Result<Option<ControlFlow<()>>, IndexError> {
        let leaf = self.leaf(sought.child)?;
        let guard = self.locks.lock(&self.relax(), sought.child);
        if !sought.ticket.is_current() {
            guard.unlock_unchanged();
            return Ok(None);
        }
        let mut entries = no_entries::<K>();
        let (part, next) = self.part_of(sought, leaf, bound, scan.direction, &mut entries)?;
        let shown = show::<K, M, S>(self.pool.media(), leaf, part, next, scan.direction, scan.visit);
        guard.unlock_unchanged();
        scan.crowded = false;
        Ok(Some(shown))
    }

    /// The part within the bound of a leaf.
    #[inline(always)]
    fn part_of<'e, 't>(
        &'t self,
        sought: &Sought<'_, K::Owned>,
        leaf: Leaf<'t, S>,
        bound: Bound<K::Ref<'_>>,
        direction: Direction,
        entries: &'e mut [Entry<'t, K>; MAX_SLOTS],
    ) -> Result<Part<'e, 't, K, S>, IndexError> {
        let media = self.pool.media();
        let entries = collect::<K, M, S>(&self.pool, leaf, leaf.live(media).and(self.shape.all()), entries)?;
        // The next leaf is on its way while this one is sorted and shown.
        let next = sought.hint.and_then(|next| self.ask_for(next).ok()); // It may be no leaf by now.
        K::sort(media.simd(), entries);
        let mut part = within::<K>(entries, bound, direction);
        if let (Some(end), Direction::Forward) = (&sought.bound, direction) {
            // Since the leaf was looked for it may have taken over the range after it, where the scan will look next.
            part = within::<K>(part, Bound::Excluded(K::borrow(end)), Direction::Backward);
        }
        Ok((part, next))
    }
}

/// What follows a border in a direction: the border itself is the first key of a range.
fn beyond<R>(border: R, direction: Direction) -> Bound<R> {
    if direction == Direction::Forward { Bound::Included(border) } else { Bound::Excluded(border) }
}
