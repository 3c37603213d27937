//! Insertion of a key.

use everleaf_index::Result;
use everleaf_pmem::Media;

use super::CddsTree;
use super::node::Entry;
use super::search::Nodes;
use super::shift::place;
use everleaf_tree::key::TreeKey;

impl<K: TreeKey, M: Media> CddsTree<K, M> {
    /// Adds a key; false if it is present.
    pub(super) fn insert(&mut self, key: u64, value: u64) -> Result<bool> {
        let nodes = Nodes { pool: &self.pool, shape: self.shape, root: self.root };
        let (media, version) = (nodes.media(), self.current.version());
        let leaf = nodes.leaf_of(key)?;
        let Err(at) = leaf.slot_of(media, key) else { return Ok(false) };
        let entry = Entry::from(self.next_version(), key, value);
        // I4: one is left for an update.
        if leaf.has_free(media, 2, at, version) {
            place(media, leaf, at, entry, version);
            self.commit(None)?;
        } else {
            self.split(entry)?;
        }
        self.keys += 1;
        Ok(true)
    }
}
