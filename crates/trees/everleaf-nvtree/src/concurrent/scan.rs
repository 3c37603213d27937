//! Scans: leaf by leaf, each locked while it is shown: a call that replaces or removes what is
//! shown returns only afterwards. From leaf to leaf time goes on. So a scan shows every key that
//! was there all the time, none that was absent all the time, each at most once and in order.

use std::ops::Bound;

use everleaf_index::{Direction, Result};
use everleaf_pmem::Media;

use super::ConcurrentNvTree;
use crate::layout::MAX_VALUE_WORDS;
use crate::scan::{newest_of_each, show, within};
use everleaf_tree::key::TreeKey;
use everleaf_tree::scan::ScanRequest;

impl<K: TreeKey, M: Media> ConcurrentNvTree<K, M> {
    /// Visits entries in key order from `from` on. The visitor runs under the latch of a leaf: it
    /// must not call the tree.
    pub(super) fn scan_from(&self, scan: ScanRequest<'_, '_, K>) -> Result<()> {
        let ScanRequest { from, direction, visit } = scan;
        let media = self.pool.media();
        let mut words = [0; MAX_VALUE_WORDS];
        let words = &mut words[..self.shape.value_words()];
        let mut sought = match (from, direction) {
            (Bound::Included(key) | Bound::Excluded(key), _) => K::word(key, 0),
            (Bound::Unbounded, Direction::Forward) => 0,
            (Bound::Unbounded, Direction::Backward) => u64::MAX,
        };
        // Where the leaf that was shown last began or ended; none before the first.
        let mut border: Option<u64> = None;
        loop {
            let (guard, pinned, place) = self.lock_covering(None, sought);
            let leaf = self.leaf(place.leaf)?;
            let beside = match direction {
                Direction::Forward => self.parents.next(&pinned, &place),
                Direction::Backward => self.parents.previous(&pinned, &place),
            };
            drop(pinned);
            let records = self.pool.pin();
            let entries = newest_of_each::<K, M>(&records, leaf, leaf.fill(media)?)?;
            if let Some(beside) = beside {
                let next = self.leaf(beside.leaf)?;
                next.prefetch_head(media);
                next.prefetch_elements(media, self.shape.slots());
                self.locks.prefetch_to_lock(beside.leaf);
            }
            // Since the last leaf was shown this one may have taken a part of its range over.
            let part = match border {
                None => within::<K>(&entries, from, direction),
                Some(word) => {
                    let key = K::read_bound(&records, word)?;
                    let bound = match direction {
                        Direction::Forward => Bound::Included(key),
                        Direction::Backward => Bound::Excluded(key),
                    };
                    within::<K>(&entries, bound, direction)
                }
            };
            let shown = show::<K, M>(media, leaf, part, direction, words, visit);
            guard.unlock_unchanged();
            let Some(beside) = beside.filter(|_| shown.is_continue()) else { return Ok(()) };
            (border, sought) = match direction {
                Direction::Forward => (Some(beside.lower), beside.lower),
                Direction::Backward => (Some(place.lower), place.lower.saturating_sub(1)),
            };
        }
    }
}
