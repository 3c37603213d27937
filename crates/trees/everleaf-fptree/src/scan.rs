//! Scanning one leaf: its live keys are sorted on the stack and shown, while the lines of the next
//! leaf are on their way.

use std::ops::ControlFlow;

use everleaf_index::{Direction, Result, Visitor};
use everleaf_pmem::Media;
use everleaf_pool::RecordGuard;

use super::entry::{prefetch_record, read_key};
use super::layout::{MAX_SLOTS, MAX_VALUE_WORDS, Shape};
use super::leaf::Leaf;
use everleaf_tree::key::TreeKey;
use everleaf_tree::scan::{self, Entry};

/// Room for the entries of a leaf.
#[inline(always)]
pub(super) fn no_entries<'p, K: TreeKey>() -> [Entry<'p, K>; MAX_SLOTS] {
    [(K::least(), 0); MAX_SLOTS]
}

/// Reads the keys of the given live slots, as they come.
#[inline(always)]
pub(super) fn collect<'p, 'e, K: TreeKey, M: Media, S: Shape>(
    records: &'p RecordGuard<'_, M>,
    leaf: Leaf<'_, S>,
    slots: impl Iterator<Item = usize> + Clone,
    entries: &'e mut [Entry<'p, K>; MAX_SLOTS],
) -> Result<&'e mut [Entry<'p, K>]> {
    let media = records.media();
    if K::RECORDS {
        slots.clone().for_each(|slot| prefetch_record::<K, M, S>(media, leaf, slot));
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

/// Shows sorted entries of a leaf in `direction`; the caller says which slot an entry has, and
/// reads its key. Half-way it prefetches the keys of the `next` leaf: its lines are there by then.
///
/// # Errors
/// As of `key_of`.
#[inline(always)]
pub(super) fn show<'p, K: TreeKey, M: Media, S: Shape, E: Copy>(
    media: &M,
    leaf: Leaf<'_, S>,
    entries: impl DoubleEndedIterator<Item = E> + ExactSizeIterator + Clone,
    next: Option<Leaf<'_, S>>,
    direction: Direction,
    (slot_of, key_of): (impl Fn(E) -> usize, impl Fn(E) -> Result<K::Ref<'p>>),
    visit: Visitor<'_, K>,
) -> Result<ControlFlow<()>> {
    let (mut words, mut damaged) = ([0; MAX_VALUE_WORDS], None);
    let words = &mut words[..leaf.shape().value_words()];
    let ahead = |entry: E| K::prefetch_value(media, &leaf.value(slot_of(entry))[0]);
    let half_way = || next.into_iter().for_each(|next| prefetch_keys::<K, M, S>(media, next));
    let shown = scan::show(entries, direction, ahead, half_way, |entry| match key_of(entry) {
        Ok(key) => {
            leaf.read_value(media, slot_of(entry), words);
            visit(key, words)
        }
        Err(error) => {
            damaged = Some(error);
            ControlFlow::Break(())
        }
    });
    damaged.map_or(Ok(shown), Err)
}

/// The same of entries that were read.
#[inline(always)]
pub(super) fn show_read<'p, K: TreeKey, M: Media, S: Shape>(
    media: &M,
    leaf: Leaf<'_, S>,
    entries: &[Entry<'p, K>],
    next: Option<Leaf<'_, S>>,
    direction: Direction,
    visit: Visitor<'_, K>,
) -> Result<ControlFlow<()>> {
    let read = (|entry: Entry<'p, K>| usize::from(entry.1), |entry: Entry<'p, K>| Ok(entry.0));
    show::<K, M, S, _>(media, leaf, entries.iter().copied(), next, direction, read, visit)
}
