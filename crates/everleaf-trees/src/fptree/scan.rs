//! Scanning one leaf: its live keys are sorted on the stack and shown, while the lines of the next
//! leaf finish_search.

use std::ops::{Bound, ControlFlow};

use everleaf_index::{Direction, IndexError, Visit};
use everleaf_pmem::Media;
use everleaf_pool::RecordGuard;

use super::entry::{prefetch_record, read_key};
use super::layout::{MAX_SLOTS, MAX_VALUE_WORDS, Shape, SlotSet};
use super::leaf::Leaf;
use crate::support::key::TreeKey;

/// Entries ahead of the one that is shown whose values are prefetched.
const AHEAD: usize = 8;

/// A live key and its slot.
pub(super) type Entry<'p, K> = (<K as everleaf_index::KeyKind>::Ref<'p>, u8);

/// Room for the entries of a leaf.
#[inline(always)]
pub(super) fn no_entries<'p, K: TreeKey>() -> [Entry<'p, K>; MAX_SLOTS] {
    [(K::least(), 0); MAX_SLOTS]
}

/// Reads the keys of the given live slots, unsorted.
#[inline(always)]
pub(super) fn collect<'p, 'e, K: TreeKey, M: Media, S: Shape>(
    records: &'p RecordGuard<'_, M>,
    leaf: Leaf<'_, S>,
    slots: SlotSet,
    entries: &'e mut [Entry<'p, K>; MAX_SLOTS],
) -> Result<&'e mut [Entry<'p, K>], IndexError> {
    let media = records.media();
    if K::RECORDS {
        slots.for_each(|slot| prefetch_record::<K, M, S>(media, leaf, slot));
    }
    let mut count = 0;
    for (slot, entry) in slots.zip(entries.iter_mut()) {
        *entry = (read_key::<K, M, S>(records, leaf, slot)?, slot as u8);
        count += 1;
    }
    Ok(&mut entries[..count])
}

/// Prefetches the records of a leaf's keys. What it reads may be changing: nothing depends on it.
#[inline(always)]
fn prefetch_keys<K: TreeKey, M: Media, S: Shape>(media: &M, leaf: Leaf<'_, S>) {
    if K::RECORDS && !M::COUNTS_READS {
        let slots = leaf.live(media).and(leaf.shape().all());
        slots.for_each(|slot| prefetch_record::<K, M, S>(media, leaf, slot));
    }
}

/// Shows sorted entries of a leaf in `direction`. Half-way it prefetches the keys of the `next`
/// one, whose lines are there by then.
#[inline(always)]
pub(super) fn show<K: TreeKey, M: Media, S: Shape>(
    media: &M,
    leaf: Leaf<'_, S>,
    entries: &[Entry<'_, K>],
    next: Option<Leaf<'_, S>>,
    direction: Direction,
    visit: &mut Visit<'_, K>,
) -> ControlFlow<()> {
    let mut words = [0; MAX_VALUE_WORDS];
    let words = &mut words[..leaf.shape().value_words()];
    let ask = |entry: Option<&Entry<'_, K>>| {
        if let Some(entry) = entry {
            K::prefetch_value(media, &leaf.value(usize::from(entry.1))[0]);
        }
    };
    let mut left = entries.len().div_ceil(2);
    let mut show_entry = |entry: &Entry<'_, K>| {
        left = left.wrapping_sub(1);
        if let (0, Some(next)) = (left, next) {
            prefetch_keys::<K, M, S>(media, next);
        }
        leaf.read_value(media, usize::from(entry.1), words);
        visit(entry.0, words)
    };
    let count = entries.len();
    match direction {
        Direction::Forward => {
            entries[..AHEAD.min(count)].iter().for_each(|entry| ask(Some(entry)));
            (0..count).try_for_each(|i| {
                ask(entries.get(i + AHEAD));
                show_entry(&entries[i])
            })
        }
        Direction::Backward => {
            entries[count.saturating_sub(AHEAD)..].iter().for_each(|entry| ask(Some(entry)));
            (0..count).rev().try_for_each(|i| {
                ask(i.checked_sub(AHEAD).map(|i| &entries[i]));
                show_entry(&entries[i])
            })
        }
    }
}

/// The part of sorted entries that lies on this side of the bound.
#[inline(always)]
pub(super) fn within<'e, 'p, K: TreeKey>(
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
    // All of them, in most leaves of a scan.
    match direction {
        Direction::Forward if !entries.first().is_some_and(is_before) => return entries,
        Direction::Backward if entries.last().is_none_or(is_before) => return entries,
        _ => {}
    }
    let (before, after) = entries.split_at(entries.partition_point(is_before));
    if direction == Direction::Forward { after } else { before }
}
