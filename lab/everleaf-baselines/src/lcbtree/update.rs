//! Update of a value: one word of one record.

use everleaf_index::Result;
use everleaf_pmem::Media;

use super::LcbTree;
use super::search::Nodes;
use everleaf_tree::key::TreeKey;

impl<K: TreeKey, M: Media> LcbTree<K, M> {
    /// Replaces the value of a key, and returns the old one; none if the key is absent.
    pub(super) fn update(&mut self, key: u64, value: u64) -> Result<Option<u64>> {
        let nodes = Nodes::new(&self.pool, self.shape);
        let leaf = nodes.leaf_of(key)?;
        let Ok(slot) = leaf.slot_of(nodes.media(), key) else { return Ok(None) };
        let old = leaf.value(nodes.media(), slot);
        self.redo.begin();
        self.redo.set_value(leaf, slot, value);
        self.redo.commit(nodes)?;
        Ok(Some(old))
    }
}
