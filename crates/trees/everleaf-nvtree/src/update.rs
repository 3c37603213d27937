//! Updating a value: an element with the new one is appended, and the newest wins.
//!
//! The lines of the element and 1 flush, 2 fences, for values of any width; in a full leaf see
//! `split`.

use everleaf_index::Result;
use everleaf_pmem::Media;

use super::NvTree;
use super::search::Purpose;
use everleaf_tree::key::TreeKey;

impl<K: TreeKey, M: Media> NvTree<K, M> {
    /// Replaces the value of a present key; false if it is absent.
    #[inline(always)]
    pub(super) fn update(&mut self, key: K::Ref<'_>, new: &[u64], old: &mut [u64]) -> Result<bool> {
        let hash = K::hash(key);
        let found = self.search(key, hash, Purpose::Append)?;
        let Some(slot) = found.live_slot() else { return Ok(false) };
        found.leaf.read_value(self.pool.media(), slot, old);
        let (offset, fill, newest) = (found.leaf.offset(), found.fill, found.newest);
        self.put(offset, fill, newest, key, hash, new)?;
        Ok(true)
    }
}
