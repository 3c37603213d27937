//! Scans: leaf by leaf, each locked while it is shown. Within a leaf what is shown stood there at
//! one moment; from leaf to leaf time goes on. So a scan shows every key that was there all the
//! time, none that was absent all the time, each at most once and in order.

use std::ops::{Bound, ControlFlow};

use everleaf_index::{Direction, IndexError, Visit};
use everleaf_pmem::{Media, planted};

use super::LineTree;
use super::layout::{ENTRIES, HALF, Leaf, MOST, Slot, last_of};
use super::records::{Entry, collect};
use crate::support::inner::Sought;
use crate::support::key::TreeKey;
use crate::support::sort::sort;

impl<K: TreeKey, M: Media, const LINES: usize> LineTree<K, M, LINES> {
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
            self.prefetch_leaf(self.leaf(sought.child)?, sought.child);
        }
        Ok(sought)
    }

    /// Prefetches all that a scan reads of a leaf, and for its lock.
    #[inline(always)]
    fn prefetch_leaf(&self, leaf: &Leaf<LINES>, offset: u64) {
        leaf.lines.iter().for_each(|line| self.pool.media().prefetch(line));
        self.locks.prefetch_to_lock(offset);
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
        let (media, leaf) = (self.pool.media(), self.leaf(sought.child)?);
        let guard = self.locks.lock(&self.relax(), sought.child);
        if !sought.ticket.is_current() {
            guard.unlock_unchanged();
            return Ok(None);
        }
        // Forward the range of the leaf ends at the bound that was found; backward all that is
        // before the bound that was looked for is in its range.
        let upper = sought.bound.as_ref().filter(|_| direction == Direction::Forward);
        let (last, half) = (last_of::<K>(upper), half_at::<K>(sought, direction));
        let (mut entries, mut count) = ([(K::least(), 0); MOST], 0);
        let records = K::RECORDS.then(|| self.pool.pin());
        if let Some(records) = &records {
            count = collect::<K, M, LINES>(records, leaf, &mut entries)?;
        } else {
            for (place, slot) in leaf.lines.iter().flat_map(Slot::all_of).enumerate() {
                // Without a branch: which slots have entries is not to be guessed.
                let word = media.load(slot.key());
                entries[count] = (K::of(word.number(half), &[]), place as u8);
                count += usize::from(word.is_entry() && (word <= last || planted(384)));
            }
        }
        // The next leaf is on its way while this one is sorted and shown. It may be no leaf by now.
        if let Some(next) = sought.hint
            && let Ok(leaf) = self.leaf(next)
        {
            self.prefetch_leaf(leaf, next);
        }
        let entries = &mut entries[..count];
        sort::<K>(media.simd(), entries);
        let mut show = |entry: &Entry<'_, K>| {
            let (line, slot) = (usize::from(entry.1) / ENTRIES, usize::from(entry.1) % ENTRIES);
            let slot = Slot { line: &leaf.lines[line], number: slot };
            visit(entry.0, &[media.load(slot.value())])
        };
        let part = within::<K>(entries, bound, direction);
        let shown = match direction {
            Direction::Forward => part.iter().try_for_each(&mut show),
            Direction::Backward => part.iter().rev().try_for_each(&mut show),
        };
        guard.unlock_unchanged();
        Ok(Some(shown))
    }
}

/// The half of all keys that a leaf is in, by where its range ends in the direction of a scan.
fn half_at<K: TreeKey>(sought: &Sought<'_, K::Owned>, direction: Direction) -> u64 {
    match (direction, sought.bound.as_ref().map(number::<K>)) {
        (Direction::Forward, Some(upper)) if upper <= HALF => 0,
        (Direction::Forward, _) => HALF,
        (Direction::Backward, lower) => lower.unwrap_or(0) & HALF,
    }
}

fn number<K: TreeKey>(key: &K::Owned) -> u64 {
    K::word(K::borrow(key), 0)
}

/// What follows a border in a direction: the border itself is the first key of a range.
fn beyond<R>(border: R, direction: Direction) -> Bound<R> {
    if direction == Direction::Forward { Bound::Included(border) } else { Bound::Excluded(border) }
}

/// The part of sorted entries that lies on this side of the bound.
#[inline(always)]
fn within<'e, 'p, K: TreeKey>(
    entries: &'e [Entry<'p, K>],
    bound: Bound<K::Ref<'_>>,
    direction: Direction,
) -> &'e [Entry<'p, K>] {
    let (key, included) = match bound {
        Bound::Unbounded => return entries,
        Bound::Included(key) => (key, true),
        Bound::Excluded(key) => (key, false),
    };
    let equal_is_before = included == (direction == Direction::Backward);
    let is_before = |entry: &Entry<'_, K>| {
        let order = K::cmp_keys(entry.0, key);
        order.is_lt() || order.is_eq() && equal_is_before
    };
    let (before, after) = entries.split_at(entries.partition_point(is_before));
    if direction == Direction::Forward { after } else { before }
}
