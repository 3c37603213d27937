//! What takes the place of a full leaf: which of its keys are live, with the change that found it
//! full, and how many leaves they need.

use std::cmp::Ordering;

use everleaf_index::Result;
use everleaf_pmem::Media;
use everleaf_pool::RecordGuard;

use super::layout::Kind;
use super::leaf::Leaf;
use super::scan::{Entry, newest_of_each};
use everleaf_tree::key::{KeyHash, TreeKey};

/// What is done to a key in a full leaf.
pub(super) enum Change<'a> {
    /// It gets a value. `known`: the slot of its newest element.
    Put { known: Option<usize>, hash: KeyHash, value: &'a [u64] },
    /// It goes.
    Remove,
    /// Nothing: the leaf is replaced without what is dead.
    Nothing,
}

/// Where an element of a new leaf comes from.
#[derive(Clone, Copy)]
pub(super) enum Source {
    /// A slot of the full leaf, or of its right sibling.
    Slot { sibling: bool, slot: usize },
    /// It is the change.
    New,
}

/// A live key that comes into a new leaf.
pub(super) struct Item<'p, K: TreeKey> {
    /// None: that of the change.
    pub key: Option<K::Ref<'p>>,
    pub source: Source,
}

impl<K: TreeKey> Item<'_, K> {
    pub const NEW: Self = Self { key: None, source: Source::New };
}

/// What takes the place of the full leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// Two leaves; the second has the keys from this one on.
    Split(usize),
    /// One leaf.
    Replace,
    /// One leaf, and that of the right sibling.
    Merge,
}

impl Plan {
    /// How many of so many items the first leaf takes.
    pub fn middle(self, items: usize) -> usize {
        if let Self::Split(middle) = self { middle } else { items }
    }
}

/// The keys of a leaf, if as many are live as it says.
pub(super) fn live_checked<'p, K: TreeKey, M: Media>(
    records: &'p RecordGuard<'_, M>,
    leaf: Leaf<'_>,
) -> Result<Vec<Entry<'p, K>>> {
    let fill = leaf.fill(records.media())?;
    let entries = newest_of_each::<K, M>(records, leaf, fill)?;
    let live = entries.iter().filter(|entry| entry.kind == Kind::Present).count();
    if live == fill.live() {
        Ok(entries)
    } else {
        Err(leaf.damaged("a leaf has not as many live keys as it says"))
    }
}

/// The live keys of a leaf after a change of `key`, ascending.
pub(super) fn items_of<'p, K: TreeKey>(
    entries: &[Entry<'p, K>],
    key: K::Ref<'_>,
    change: &Change<'_>,
) -> Vec<Item<'p, K>> {
    let mut items = Vec::with_capacity(entries.len() + 1);
    let mut new = matches!(change, Change::Put { .. }).then_some(Item::NEW);
    for entry in entries {
        match K::cmp_keys(entry.key, key) {
            Ordering::Less => {}
            Ordering::Equal if matches!(change, Change::Nothing) => {}
            Ordering::Equal => {
                items.extend(new.take());
                continue;
            }
            Ordering::Greater => items.extend(new.take()),
        }
        if entry.kind == Kind::Present {
            let source = Source::Slot { sibling: false, slot: entry.slot };
            items.push(Item { key: Some(entry.key), source });
        }
    }
    items.extend(new);
    items
}

/// The live keys of a right sibling.
pub(super) fn items_of_sibling<'p, K: TreeKey>(
    entries: &[Entry<'p, K>],
) -> impl Iterator<Item = Item<'p, K>> {
    let live = entries.iter().filter(|entry| entry.kind == Kind::Present);
    live.map(|entry| {
        let source = Source::Slot { sibling: true, slot: entry.slot };
        Item { key: Some(entry.key), source }
    })
}

/// Whether the last of the items is a new key that is greater than all elements.
pub(super) fn is_greatest<K: TreeKey>(items: &[Item<'_, K>], change: &Change<'_>) -> bool {
    matches!(change, Change::Put { known: None, .. })
        && matches!(items.last(), Some(Item { source: Source::New, .. }))
}

/// The lower bound of the second of two leaves, if the items are divided there; `key` is that of
/// the change.
pub(super) fn separator_at<K: TreeKey>(
    items: &[Item<'_, K>],
    middle: usize,
    key: K::Ref<'_>,
) -> Option<K::Owned> {
    let right = items.get(middle)?;
    let left = items.get(middle.checked_sub(1)?)?;
    Some(match (left.key, right.key) {
        (Some(left), Some(right)) => K::separator(left, right),
        (Some(left), None) => K::separator(left, key),
        (None, right) => K::separator(key, right.unwrap_or(K::least())),
    })
}

/// The lower bound of a leaf behind the last one, whose elements these are.
pub(super) fn separator_behind<K: TreeKey>(entries: &[Entry<'_, K>], key: K::Ref<'_>) -> K::Owned {
    let live = entries.iter().filter(|entry| entry.kind == Kind::Present);
    K::separator(live.map(|entry| entry.key).max().unwrap_or(K::least()), key)
}
