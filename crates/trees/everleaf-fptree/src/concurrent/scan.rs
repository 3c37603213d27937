//! Scans: leaf by leaf, each locked while it is shown (L4). Within a leaf what is shown stood there
//! at one moment; from leaf to leaf time goes on. So a scan shows every key that was there all the
//! time, none that was absent all the time, each at most once and in order.

use std::ops::Bound;

use everleaf_index::{Direction, Result, Visitor};
use everleaf_pmem::{Media, planted};
use everleaf_pool::RecordGuard;

use super::ConcurrentFpTree;
use crate::entry::read_key;
use crate::layout::{MAX_SLOTS, Shape};
use crate::scan::{collect, no_entries, show, show_read};
use everleaf_tree::inner::Sought;
use everleaf_tree::key::TreeKey;
use everleaf_tree::scan::{Entry, Leaves, Shown, part_within, within};
use everleaf_tree::scan_orders::Order;
use everleaf_tree::shared_nodes::SharedNodes;
use everleaf_tree::sort::sort;
use everleaf_tree::version_locks::LockGuard;
use everleaf_tree::wait::wait;

impl<K: TreeKey, M: Media, S: Shape> ConcurrentFpTree<K, M, S> {
    /// The entries of a locked leaf by their keys; an order that was not known is kept.
    #[inline(always)]
    fn sorted<'p, 'e>(
        &self,
        records: &'p RecordGuard<'_, M>,
        offset: u64,
        guard: &LockGuard<'_>,
        order: Option<Order>,
        entries: &'e mut [Entry<'p, K>; MAX_SLOTS],
    ) -> Result<&'e [Entry<'p, K>]> {
        let (media, leaf) = (self.pool.media(), self.leaf(offset)?);
        if let Some(order) = order {
            return Ok(collect::<K, M, S>(records, leaf, order.places(), entries)?);
        }
        let live = leaf.live(media).and(self.shape.all());
        let entries = collect::<K, M, S>(records, leaf, live, entries)?;
        sort::<K>(media.simd(), entries);
        let places = entries.iter().map(|entry| entry.1);
        self.orders.keep(media.dram(), offset, guard, places);
        Ok(entries)
    }
}

impl<K: TreeKey, M: Media, S: Shape> Leaves<K> for ConcurrentFpTree<K, M, S> {
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
        self.leaf(offset)?.prefetch_all(self.pool.media());
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
        let media = self.pool.media();
        let leaf = self.leaf(sought.child)?;
        let guard = self.locks.lock(&wait(self.pool.media()), sought.child);
        if !sought.ticket.is_current() && !planted(218) {
            guard.unlock_unchanged();
            return Ok(None);
        }
        let records = self.pool.pin();
        let order = self.orders.of(sought.child, &guard);
        // The next leaf is on its way while this one is sorted and shown.
        // It may be no leaf by now.
        let next = sought.hint.filter(|next| self.prefetch_leaf(*next).is_ok());
        let next = next.and_then(|next| self.leaf(next).ok());
        // Since the leaf was looked for it may have taken over the range after it, where the scan
        // will look next.
        let end = sought.bound.as_ref().filter(|_| direction == Direction::Forward);
        let end = end.map_or(Bound::Unbounded, |end| Bound::Excluded(K::borrow(end)));
        let shown = match &order {
            // The records of keys that are not shown are not read.
            Some(order) if K::RECORDS => {
                let key_at = |at: usize| read_key::<K, M, S>(&records, leaf, order.place(at));
                let part = part_within::<K>(0..order.len(), bound, direction, key_at)?;
                let part = part_within::<K>(part, end, Direction::Backward, key_at)?;
                let read = (|at: usize| order.place(at), key_at);
                show::<K, M, S, _>(media, leaf, part, next, direction, read, visit)?
            }
            _ => {
                let mut entries = no_entries::<K>();
                let entries = self.sorted(&records, sought.child, &guard, order, &mut entries)?;
                let part = within::<K>(entries, bound, direction);
                let part = within::<K>(part, end, Direction::Backward);
                show_read::<K, M, S>(media, leaf, part, next, direction, visit)?
            }
        };
        guard.unlock_unchanged();
        Ok(Some(shown))
    }
}
