//! Removing a key from its locked leaf: 1 flush and 1 fence; the end of a leaf that this empties
//! besides.

use everleaf_index::IndexError;
use everleaf_pmem::{Media, site};

use super::LineTree;
use super::layout::{KeyWord, Leaf, Slot};
use super::search::{Found, SkipIf};
use crate::support::key::TreeKey;

impl<K: TreeKey, M: Media, const LINES: usize> LineTree<K, M, LINES> {
    /// Removes a key; its value, or none if it is absent.
    #[inline(always)]
    pub(super) fn remove(&self, key: K::Ref<'_>) -> Result<Option<u64>, IndexError> {
        let wanted = Self::wanted(key);
        let found = match self.try_lock_leaf(key, wanted, SkipIf::Absent) {
            Some(found) => found,
            None => self.lock_leaf(key, wanted, SkipIf::Absent)?,
        };
        let Found::Present(locked, slot) = found else { return Ok(None) };
        let media = self.pool.media();
        let old = media.load(slot.value());
        let is_line_empty = clear(media, slot);
        locked.guard.count(-1);
        if is_line_empty && is_empty(media, locked.leaf) {
            self.end_leaf(locked, key)?;
        }
        Ok(Some(old))
    }
}

/// Takes the entry out of a slot; whether it was the last one of its line. No other thread has the
/// leaf.
#[inline(always)]
fn clear<M: Media>(media: &M, slot: Slot<'_>) -> bool {
    let (mut has_room, mut is_last) = (false, true);
    for other in Slot::all_of(slot.line).filter(|other| other.number != slot.number) {
        let word = media.load(other.key());
        has_room |= word == KeyWord::NEVER_USED;
        is_last &= !word.is_entry();
    }
    // R1 COMMIT: one p-atomic store. Crash: the entry is there or it is not. A line that is full
    // gets no slot that counts as never used: entries may have gone past it.
    let word = if has_room { KeyWord::NEVER_USED } else { KeyWord::DEAD };
    media.store(slot.key(), word);
    media.flush(site!("linetree.remove.R1.entry"), slot.key());
    media.fence(site!("linetree.remove.R1.fence"));
    is_last
}

/// Whether a leaf has no entry at all, not even one that is out of its range since a split.
fn is_empty<M: Media, const LINES: usize>(media: &M, leaf: &Leaf<LINES>) -> bool {
    let mut slots = leaf.lines.iter().flat_map(Slot::all_of);
    slots.all(|slot| !media.load(slot.key()).is_entry())
}
