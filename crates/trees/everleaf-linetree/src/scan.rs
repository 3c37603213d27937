//! Scans: leaf by leaf, each locked while it is shown. Within a leaf what is shown stood there at
//! one moment; from leaf to leaf time goes on. So a scan shows every key that was there all the
//! time, none that was absent all the time, each at most once and in order.

use std::ops::Bound;

use everleaf_index::{Direction, Result, Visitor};
use everleaf_pmem::{Media, planted};
use everleaf_pool::RecordGuard;

use super::LineTree;
use super::layout::{HALF, KeyWord, Leaf, MAX_ENTRIES, Slot, last_of};
use super::records::{collect, prefetch_records, slot_at};
use everleaf_tree::inner::Sought;
use everleaf_tree::key::TreeKey;
use everleaf_tree::scan::{self, Entry, Leaves, Shown, within};
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
        let (mut entries, mut count) = ([(K::least(), 0); MAX_ENTRIES], 0);
        let records = K::RECORDS.then(|| self.pool.pin());
        let order = self.orders.of(sought.child, &guard);
        if let Some(order) = &order {
            for (entry, place) in entries.iter_mut().zip(order.places()) {
                *entry = (self.key_at(records.as_ref(), leaf, place, half)?, place as u8);
                count += 1;
            }
        } else if let Some(records) = &records {
            count = collect::<K, M, LINES>(records, leaf, &mut entries)?;
        } else {
            for (place, slot) in leaf.lines.iter().flat_map(Slot::all_of).enumerate() {
                // Without a branch: which slots have entries is not to be guessed.
                let word = media.load(slot.key());
                entries[count] = (K::of(word.number(half), &[]), place as u8);
                count += usize::from(word.is_entry());
            }
        }
        // The next leaf is on its way while this one is sorted and shown. It may be no leaf by now.
        let next = sought.hint.filter(|next| self.prefetch_leaf(*next).is_ok());
        let next = next.and_then(|next| self.leaf(next).ok());
        let entries = &mut entries[..count];
        if order.is_none() {
            sort::<K>(media.simd(), entries);
            let places = entries.iter().map(|entry| entry.1);
            self.orders.keep(media.dram(), sought.child, &guard, places);
        }
        // What a split has moved may still be there: it is not in the tree.
        let is_moved =
            |entry: &Entry<'_, K>| !K::RECORDS && KeyWord::of(K::word(entry.0, 0)) > last;
        let moved = entries.iter().rev().take_while(|entry| is_moved(entry) && !planted(384));
        let entries = &entries[..count - moved.count()];
        let value = |entry: &Entry<'_, K>| slot_at(leaf, entry.1).value();
        let ahead = |entry: &Entry<'_, K>| K::prefetch_value(media, value(entry));
        let half_way =
            || next.into_iter().for_each(|next| prefetch_records::<K, M, _>(media, next));
        let part = within::<K>(entries, bound, direction);
        let shown = scan::show(part.iter(), direction, ahead, half_way, |entry| {
            visit(entry.0, &[media.load(value(entry))])
        });
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
