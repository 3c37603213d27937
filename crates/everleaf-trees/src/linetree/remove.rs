//! Removing a key from its locked leaf: 1 flush and 1 fence; the end of a leaf that this empties
//! besides.

use everleaf_index::IndexError;
use everleaf_pmem::{Media, planted, site};

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
    let (word, is_last) = emptied(media, slot);
    // R1 COMMIT: one p-atomic store. Crash: the entry is there or it is not.
    media.store(slot.key(), word);
    media.flush(site!("linetree.remove.R1.entry"), slot.key());
    media.fence(site!("linetree.remove.R1.fence"));
    is_last
}

/// The key word that a slot gets when its entry goes, and whether that is the last one of its line.
/// A line that is full gets no slot that counts as never used: entries may have gone past it (I3).
#[inline(always)]
pub(super) fn emptied<M: Media>(media: &M, slot: Slot<'_>) -> (KeyWord, bool) {
    let (mut has_room, mut is_last) = (false, true);
    for other in Slot::all_of(slot.line).filter(|other| other.number != slot.number) {
        let word = media.load(other.key());
        has_room |= word == KeyWord::NEVER_USED;
        is_last &= !word.is_entry();
    }
    (if has_room || planted(382) { KeyWord::NEVER_USED } else { KeyWord::DEAD }, is_last)
}

/// Whether a leaf has no entry at all, not even one that is out of its range since a split.
pub(super) fn is_empty<M: Media, const LINES: usize>(media: &M, leaf: &Leaf<LINES>) -> bool {
    let mut slots = leaf.lines.iter().flat_map(Slot::all_of);
    slots.all(|slot| !media.load(slot.key()).is_entry())
}
