//! Update of a value: the entry ends, and another one of the same key follows it.

use everleaf_index::Result;
use everleaf_pmem::{Media, unless_planted};

use super::CddsTree;
use super::node::Entry;
use super::search::Nodes;
use super::shift::{flush_end, place};
use everleaf_tree::key::TreeKey;

impl<K: TreeKey, M: Media> CddsTree<K, M> {
    /// Replaces the value of a key, and returns the old one; none if the key is absent.
    pub(super) fn update(&mut self, key: u64, value: u64) -> Result<Option<u64>> {
        let nodes = Nodes { pool: &self.pool, shape: self.shape, root: self.root };
        let (media, version) = (nodes.media(), self.current.version());
        let leaf = nodes.leaf_of(key)?;
        let Ok(slot) = leaf.slot_of(media, key) else { return Ok(None) };
        let old = media.load(leaf.value(slot));
        // I4: so an update needs no room.
        if !leaf.has_free(media, 1, slot + 1, version) {
            return Err(leaf.damaged("a leaf has no free slot"));
        }
        let next = self.next_version();
        // P1: Crash: recovery makes it live again.
        unless_planted!(279, media.store(leaf.end(slot), next));
        let written = place(media, leaf, slot + 1, Entry::from(next, key, value), version);
        flush_end(media, leaf, slot, &[written]);
        self.commit(None)?;
        Ok(Some(old))
    }

    /// Updates or inserts; the old value, if there was one.
    pub(super) fn upsert(&mut self, key: u64, value: u64) -> Result<Option<u64>> {
        let old = self.update(key, value)?;
        if old.is_none() {
            self.insert(key, value)?;
        }
        Ok(old)
    }
}
