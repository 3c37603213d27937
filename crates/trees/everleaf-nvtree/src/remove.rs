//! Removing a key: a negative element is appended. The removal of the last live key of a leaf takes
//! the leaf out of the list instead, by one word, unless it is the first.
//!
//! 2 or 3 flushes and 2 fences; of the last key 1 flush and 1 fence. Byte-string keys: the record
//! is freed when the leaf is replaced.

use everleaf_index::Result;
use everleaf_pmem::Media;

use super::NvTree;
use super::insert::{Element, append};
use super::leaf::Leaf;
use super::plan::Change;
use super::search::Purpose;
use super::steps::Alone;
use everleaf_tree::key::TreeKey;

impl<K: TreeKey, M: Media> NvTree<K, M> {
    /// Removes a key and copies its value; false if it is absent.
    #[inline(always)]
    pub(super) fn remove(&mut self, key: K::Ref<'_>, old: &mut [u64]) -> Result<bool> {
        let hash = K::hash(key);
        let found = self.search(key, hash, Purpose::Append)?;
        let Some(slot) = found.live_slot() else { return Ok(false) };
        found.leaf.read_value(self.pool.media(), slot, old);
        let (place, offset, fill) = (found.place, found.leaf.offset(), found.fill);
        if fill.live() == 1 && !place.is_first() {
            self.unlink(key)?;
        } else if fill.count() < self.shape.slots() {
            let media = self.pool.media();
            let leaf = Leaf::at(media.region(), offset, self.shape)?;
            let (known, value) = (Some(slot), None);
            let element = Element { hash, known, value, old: None };
            // The key's record is known.
            let after = fill.with_removal();
            append::<K, M, _>(media, leaf, &element, after, |_| Ok(()), &mut Alone)?.0?;
        } else {
            self.make_room(key, &Change::Remove)?;
        }
        self.keys = self.keys.saturating_sub(1);
        Ok(true)
    }
}
