//! Scans: leaf by leaf through the parents, the newest element of each key of a leaf sorted while
//! the lines of the next one are on their way.

use std::ops::{Bound, ControlFlow};

use everleaf_index::{Direction, Result, Start, Visitor};
use everleaf_pmem::Media;
use everleaf_pool::RecordGuard;

use super::NvTree;
use super::layout::{Fill, Kind, MAX_VALUE_WORDS};
use super::leaf::Leaf;
use everleaf_tree::key::TreeKey;
use everleaf_tree::scan::{ScanRequest, within_by};

/// The newest element of a key.
pub(super) struct Entry<'p, K: TreeKey> {
    pub key: K::Ref<'p>,
    pub slot: usize,
    pub kind: Kind,
}

/// The newest element of each key of a leaf, by ascending keys.
pub(super) fn newest_of_each<'p, K: TreeKey, M: Media>(
    records: &'p RecordGuard<'_, M>,
    leaf: Leaf<'_>,
    fill: Fill,
) -> Result<Vec<Entry<'p, K>>> {
    let media = records.media();
    let count = fill.count();
    if K::RECORDS && !M::COUNTS_READS {
        (0..count).for_each(|slot| K::prefetch(media, media.load(leaf.key(slot))));
    }
    let mut entries = Vec::with_capacity(count);
    for slot in 0..count {
        let key = K::read(records, media.load(leaf.key(slot)))?;
        entries.push(Entry { key, slot, kind: leaf.kind(media, slot)? });
    }
    entries.sort_unstable_by(|a: &Entry<'p, K>, b| {
        K::cmp_keys(a.key, b.key).then(b.slot.cmp(&a.slot))
    });
    entries.dedup_by(|older, newer| K::cmp_keys(older.key, newer.key).is_eq());
    Ok(entries)
}

/// The part of sorted entries that lies on this side of the bound.
pub(super) fn within<'e, 'p, K: TreeKey>(
    entries: &'e [Entry<'p, K>],
    bound: Start<'_, K>,
    direction: Direction,
) -> &'e [Entry<'p, K>] {
    within_by::<K, _>(entries, |entry| entry.key, bound, direction)
}

/// Shows those of sorted entries whose keys are live; `words` is room for a value.
pub(super) fn show<K: TreeKey, M: Media>(
    media: &M,
    leaf: Leaf<'_>,
    entries: &[Entry<'_, K>],
    direction: Direction,
    words: &mut [u64],
    visit: Visitor<'_, K>,
) -> ControlFlow<()> {
    let mut show = |entry: &Entry<'_, K>| {
        if entry.kind == Kind::Removed {
            return ControlFlow::Continue(());
        }
        leaf.read_value(media, entry.slot, words);
        visit(entry.key, words)
    };
    match direction {
        Direction::Forward => entries.iter().try_for_each(&mut show),
        Direction::Backward => entries.iter().rev().try_for_each(&mut show),
    }
}

impl<K: TreeKey, M: Media> NvTree<K, M> {
    /// Visits entries in key order from `from` on.
    pub(super) fn scan_from(&self, scan: ScanRequest<'_, '_, K>) -> Result<()> {
        let ScanRequest { from, direction, visit } = scan;
        let media = self.pool.media();
        let mut next = Some(match (from, direction) {
            (Bound::Included(key) | Bound::Excluded(key), _) => self.inner.find(key),
            (Bound::Unbounded, Direction::Forward) => self.inner.first(),
            (Bound::Unbounded, Direction::Backward) => self.inner.last(),
        });
        let mut bound = from;
        let mut words = [0; MAX_VALUE_WORDS];
        let words = &mut words[..self.shape.value_words()];
        while let Some(place) = next {
            let leaf = self.leaf(self.inner.leaf(place))?;
            next = match direction {
                Direction::Forward => self.inner.next(place),
                Direction::Backward => self.inner.previous(place),
            };
            if let Some(next) = next {
                let next = self.leaf(self.inner.leaf(next))?;
                next.prefetch_head(media);
                next.prefetch_elements(media, self.shape.slots());
            }
            let records = self.pool.pin();
            let entries = newest_of_each::<K, M>(&records, leaf, leaf.fill(media)?)?;
            let entries = within::<K>(&entries, bound, direction);
            let shown = show::<K, M>(media, leaf, entries, direction, words, visit);
            if shown.is_break() {
                break;
            }
            bound = Bound::Unbounded;
        }
        Ok(())
    }
}
