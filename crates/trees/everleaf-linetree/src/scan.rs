//! Scans: leaf by leaf, each locked while it is shown. Within a leaf what is shown stood there at
//! one moment; from leaf to leaf time goes on. So a scan shows every key that was there all the
//! time, none that was absent all the time, each at most once and in order.

use std::ops::{Bound, ControlFlow};

use everleaf_index::{Direction, Result, Visitor};
use everleaf_pmem::{Media, planted};
use everleaf_pool::RecordGuard;

use super::LineTree;
use super::layout::{HALF, KeyWord, Leaf, MAX_ENTRIES, Slot, last_of};
use super::records::{collect, prefetch_records, slot_at};
use everleaf_tree::inner::Sought;
use everleaf_tree::key::TreeKey;
use everleaf_tree::scan::{self, Entry, Leaves, Shown, part_within};
use everleaf_tree::scan_orders::Order;
use everleaf_tree::shared_nodes::SharedNodes;
use everleaf_tree::sort::sort;
use everleaf_tree::wait::wait;

impl<K: TreeKey, M: Media, const LINES: usize> LineTree<K, M, LINES> {
    /// The key of the entry in a slot of a leaf of this half, which is locked.
    #[inline(always)]
    fn key_at<'r>(
        &self,
        records: Option<&'r RecordGuard<'_, M>>,
        leaf: &Leaf<LINES>,
        place: usize,
        half: u64,
    ) -> Result<K::Ref<'r>> {
        let (media, slot) = (self.pool.media(), slot_at(leaf, place as u8));
        let word = media.load(slot.key());
        match records {
            Some(records) => K::read_hashed(records, media.load(slot.value()), word.hash()),
            None => Ok(K::of(word.number(half), &[])),
        }
    }

    /// The entries of a leaf of this half, which is locked, as they come.
    #[inline(always)]
    fn entries_of<'r, 'e>(
        &self,
        records: Option<&'r RecordGuard<'_, M>>,
        leaf: &Leaf<LINES>,
        half: u64,
        entries: &'e mut [Entry<'r, K>; MAX_ENTRIES],
    ) -> Result<&'e mut [Entry<'r, K>]> {
        let mut count = 0;
        if let Some(records) = records {
            count = collect::<K, M, LINES>(records, leaf, entries)?;
        } else {
            for (place, slot) in leaf.lines.iter().flat_map(Slot::all_of).enumerate() {
                // Without a branch: which slots have entries is not to be guessed.
                let word = self.pool.media().load(slot.key());
                entries[count] = (K::of(word.number(half), &[]), place as u8);
                count += usize::from(word.is_entry());
            }
        }
        Ok(&mut entries[..count])
    }
}

impl<K: TreeKey, M: Media, const LINES: usize> Leaves<K> for LineTree<K, M, LINES> {
    fn nodes(&self) -> &SharedNodes<K> {
        &self.inner
    }

    fn wait(&self) {
        wait(self.pool.media())();
    }

    fn restarted(&self) {
        self.restarted();
    }

    #[inline(always)]
    fn prefetch_leaf(&self, offset: u64) -> Result<()> {
        let leaf = self.leaf(offset)?;
        leaf.lines.iter().for_each(|line| self.pool.media().prefetch(line));
        self.locks.prefetch_to_lock(offset);
        self.orders.prefetch(offset);
        Ok(())
    }

    /// Under the lock of the leaf: the visitor must not call the tree.
    fn show_leaf(
        &self,
        sought: &Sought<'_, K::Owned>,
        bound: Bound<K::Ref<'_>>,
        direction: Direction,
        visit: Visitor<'_, K>,
    ) -> Result<Shown> {
        let (media, leaf) = (self.pool.media(), self.leaf(sought.child)?);
        let guard = self.locks.lock(&wait(self.pool.media()), sought.child);
        if !sought.ticket.is_current() {
            guard.unlock_unchanged();
            return Ok(None);
        }
        // Forward the range of the leaf ends at the bound that was found; backward all that is
        // before the bound that was looked for is in its range.
        let upper = sought.bound.as_ref().filter(|_| direction == Direction::Forward);
        let (last, half) = (last_of::<K>(upper), half_at::<K>(sought, direction));
        let records = K::RECORDS.then(|| self.pool.pin());
        let order = self.orders.of(sought.child, &guard);
        // The next leaf is on its way while this one is sorted and shown. It may be no leaf by now.
        let next = sought.hint.filter(|next| self.prefetch_leaf(*next).is_ok());
        let next = next.and_then(|next| self.leaf(next).ok());
        let mut entries = [(K::least(), 0); MAX_ENTRIES];
        let entries: &[Entry<'_, K>] = if order.is_none() {
            let entries = self.entries_of(records.as_ref(), leaf, half, &mut entries)?;
            sort::<K>(media.simd(), entries);
            let places = entries.iter().map(|entry| entry.1);
            self.orders.keep(media.dram(), sought.child, &guard, places);
            entries
        } else {
            &[]
        };
        // Where the order is known the keys that are not shown are not read.
        let place_at = |at: usize| match &order {
            Some(order) => order.place(at),
            None => usize::from(entries[at].1),
        };
        let key_at = |at: usize| match &order {
            Some(order) => self.key_at(records.as_ref(), leaf, order.place(at), half),
            None => Ok(entries[at].0),
        };
        let mut count = order.as_ref().map_or(entries.len(), Order::len);
        // What a split has moved may still be there: it is not in the tree.
        while let Some(at) = count.checked_sub(1).filter(|_| !K::RECORDS && !planted(384))
            && KeyWord::of(K::word(key_at(at)?, 0)) > last
        {
            count = at;
        }
        let part = part_within::<K>(0..count, bound, direction, key_at)?;
        let value = |at: usize| slot_at(leaf, place_at(at) as u8).value();
        let ahead = |at: usize| K::prefetch_value(media, value(at));
        let half_way =
            || next.into_iter().for_each(|next| prefetch_records::<K, M, _>(media, next));
        let mut damaged = None;
        let shown = scan::show(part, direction, ahead, half_way, |at| match key_at(at) {
            Ok(key) => visit(key, &[media.load(value(at))]),
            Err(error) => {
                damaged = Some(error);
                ControlFlow::Break(())
            }
        });
        if let Some(error) = damaged {
            return Err(error);
        }
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
