//! Insertion: into a free place of the leaf, and then into its slot array. A full leaf is split
//! before that.

use everleaf_index::Result;
use everleaf_pmem::{Media, PCell};
use everleaf_pool::Worker;

use super::WbTree;
use super::publish::{Change, Entry, publish};
use super::search::Nodes;
use everleaf_tree::key::TreeKey;

/// The word that stands for a key. A record that it needs is written, and its address to a cell of
/// the anchor, where recovery looks for it; what that had belongs to the tree or is null.
pub(super) fn place_key<K: TreeKey, M: Media>(
    worker: &mut Worker<M>,
    media: &M,
    cell: &PCell,
    key: K::Ref<'_>,
) -> Result<u64> {
    if let Some(word) = K::as_word(key) {
        return Ok(word);
    }
    // Crash: the cell has the record before, which recovery finds in the tree, or null, or this
    // one, which it does not find there and frees.
    media.store(cell, 0);
    K::place(worker, cell, key)?;
    Ok(media.load(cell))
}

impl<K: TreeKey, M: Media> WbTree<K, M> {
    /// Adds a key; false if it is present.
    pub(super) fn insert(&mut self, key: K::Ref<'_>, value: &[u64]) -> Result<bool> {
        K::admit(key)?;
        let nodes = Nodes::<K, M>::new(&self.pool, self.shape);
        let (leaf, found) = nodes.find(key)?;
        let Err(slot) = found else { return Ok(false) };
        if leaf.is_full() {
            self.make_room(key)?;
            return self.insert(key, value);
        }
        let (media, anchor) = (nodes.media(), nodes.anchor()?);
        let slots = leaf.slots(media);
        let place = leaf.free_place(media, &slots)?;
        let word = place_key::<K, M>(&mut self.worker, media, &anchor.key, key)?;
        self.redo.forget(nodes)?;
        let new = Some(Entry { place, key: word, value });
        publish(media, leaf, &Change { slots: slots.with(slot, place), new, old: None });
        self.changed.keys += 1;
        Ok(true)
    }

    /// Updates or inserts; whether there was a value, which is handed over then.
    pub(super) fn upsert(&mut self, key: K::Ref<'_>, new: &[u64], old: &mut [u64]) -> Result<bool> {
        Ok(self.update(key, new, old)? || !self.insert(key, new)?)
    }
}
