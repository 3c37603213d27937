//! Scans: leaf by leaf, each locked while it is shown (L4). Within a leaf what is shown stood there
//! at one moment; from leaf to leaf time goes on. So a scan shows every key that was there all the
//! time, none that was absent all the time, each at most once and in order.

use std::ops::Bound;

use everleaf_index::{Direction, Result, Visitor};
use everleaf_pmem::{Media, planted};

use super::ConcurrentFpTree;
use crate::entry::read_key;
use crate::layout::Shape;
use crate::scan::{collect, no_entries, show};
use everleaf_tree::inner::Sought;
use everleaf_tree::key::TreeKey;
use everleaf_tree::scan::{Entry, Leaves, Shown, part_within};
use everleaf_tree::scan_orders::Order;
use everleaf_tree::shared_nodes::SharedNodes;
use everleaf_tree::sort::sort;
use everleaf_tree::wait::wait;

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
        let mut entries = no_entries::<K>();
        let entries: &[Entry<'_, K>] = if order.is_none() {
            let live = leaf.live(media).and(self.shape.all());
            let entries = collect::<K, M, S>(&records, leaf, live, &mut entries)?;
            sort::<K>(media.simd(), entries);
            let places = entries.iter().map(|entry| entry.1);
            self.orders.keep(media.dram(), sought.child, &guard, places);
            entries
        } else {
            &[]
        };
        // Where the order is known the keys that are not shown are not read.
        let slot_at = |at: usize| match &order {
            Some(order) => order.place(at),
            None => usize::from(entries[at].1),
        };
        let key_at = |at: usize| match &order {
            Some(order) => read_key::<K, M, S>(&records, leaf, order.place(at)),
            None => Ok(entries[at].0),
        };
        let all = 0..order.as_ref().map_or(entries.len(), Order::len);
        let mut part = part_within::<K>(all, bound, direction, key_at)?;
        if let (Some(end), Direction::Forward) = (&sought.bound, direction) {
            // Since the leaf was looked for it may have taken over the range after it, where the
            // scan will look next.
            let end = Bound::Excluded(K::borrow(end));
            part = part_within::<K>(part, end, Direction::Backward, key_at)?;
        }
        let shown = show::<K, M, S>(media, leaf, part, next, direction, (slot_at, key_at), visit)?;
        guard.unlock_unchanged();
        Ok(Some(shown))
    }
}
