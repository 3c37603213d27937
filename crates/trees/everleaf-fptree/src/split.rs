//! Splitting a leaf: which of its keys move to the new one, and where they go.

use everleaf_index::{IndexError, Result};
use everleaf_pmem::planted;

use super::layout::{MAX_SLOTS, Shape, SlotSet};
use everleaf_tree::key::TreeKey;
use everleaf_tree::scan::Entry;

/// Which slots move to the new leaf, and where they go.
pub(super) struct Plan<Owned> {
    /// The least key that belongs to the new leaf.
    pub separator: Owned,
    /// The slots of the old leaf that move.
    pub moved: SlotSet,
    /// The slot of the new leaf for each of the upper entries, in their order.
    pub places: [u8; MAX_SLOTS],
    /// The slots of the new leaf that will be live.
    pub new_bitmap: SlotSet,
}

impl Plan<()> {
    /// How the `upper` entries of a leaf move to a new one.
    pub fn of<K: TreeKey, S: Shape>(
        shape: S,
        lower: &[Entry<'_, K>],
        upper: &[Entry<'_, K>],
    ) -> Result<Plan<K::Owned>> {
        let full = IndexError::Corrupt { offset: 0, what: "half a leaf does not fit into one" };
        let Some((least, _)) = upper.first() else { return Err(full) };
        let greatest = lower.iter().map(|entry| entry.0).max().unwrap_or(K::least());
        let mut separator = K::separator(greatest, *least);
        planted!(205, separator = K::to_owned(greatest));
        let moved = upper.iter().fold(SlotSet::EMPTY, |set, entry| set.with(usize::from(entry.1)));
        // Where each goes: home, as after an insertion.
        let mut places = [0u8; MAX_SLOTS];
        let mut new_bitmap = SlotSet::EMPTY;
        for ((key, _), place) in upper.iter().zip(&mut places) {
            let Some(slot) = shape.dead_slot(new_bitmap, K::hash(*key)) else { return Err(full) };
            *place = slot as u8;
            new_bitmap = new_bitmap.with(slot);
        }
        Ok(Plan { separator, moved, places, new_bitmap })
    }
}
