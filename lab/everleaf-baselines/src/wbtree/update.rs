//! Update of a value. One word is stored in place: 1 flush, 1 fence. A longer value comes with its
//! key into a free place, as in an insertion; a full leaf is split before that.

use everleaf_index::Result;
use everleaf_pmem::{Media, site};

use super::WbTree;
use super::publish::{Change, Entry, publish};
use super::search::Nodes;
use everleaf_tree::key::TreeKey;

impl<K: TreeKey, M: Media> WbTree<K, M> {
    /// Replaces the value of a key, and hands the old one over; false if the key is absent.
    pub(super) fn update(&mut self, key: K::Ref<'_>, new: &[u64], old: &mut [u64]) -> Result<bool> {
        K::admit(key)?;
        let nodes = Nodes::<K, M>::new(&self.pool, self.shape);
        let media = nodes.media();
        let (leaf, found) = nodes.find(key)?;
        let Ok(slot) = found else { return Ok(false) };
        let before = leaf.place(media, slot);
        if let [word] = new {
            leaf.read_value(media, slot, old);
            self.redo.forget(nodes)?;
            // U1 COMMIT: the word. Crash: the old value or the new one.
            let cell = &leaf.entry_cells(before)[1];
            media.store(cell, *word);
            media.flush(site!("wbtree.update.U1.value"), cell);
            media.fence(site!("wbtree.update.U1.fence"));
            return Ok(true);
        }
        if leaf.is_full() {
            self.make_room(key)?;
            return self.update(key, new, old);
        }
        leaf.read_value(media, slot, old);
        let slots = leaf.slots(media);
        let place = leaf.free_place(media, &slots)?;
        self.redo.forget(nodes)?;
        let new = Some(Entry { place, key: leaf.key(media, slot), value: new });
        let change = Change { slots: slots.moved(slot, place), new, old: Some(before) };
        publish(media, leaf, &change);
        Ok(true)
    }
}
