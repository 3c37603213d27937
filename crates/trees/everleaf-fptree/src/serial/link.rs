//! Changing an entry together with what it leads to.

use everleaf_index::{LinkSteps, Result};
use everleaf_pmem::Media;

use super::FpTree;
use crate::entry::key_word;
use crate::layout::Shape;
use crate::leaf::Leaf;
use crate::link::{NewEntry, add, clear, replace};
use everleaf_tree::key::TreeKey;

impl<K: TreeKey, M: Media, S: Shape> FpTree<K, M, S> {
    /// Makes `new` the value of a key, or removes it. False if nothing was done: there is no such
    /// key to be removed, or the key's own record would have to come or go with the entry.
    #[inline(always)]
    pub(super) fn link_entry(
        &mut self,
        key: K::Ref<'_>,
        new: Option<u64>,
        steps: &mut dyn LinkSteps,
    ) -> Result<bool> {
        K::admit(key)?;
        let hash = K::hash(key);
        let leaf_offset = self.inner.find(key);
        let (live, slot) = self.search(self.leaf(leaf_offset)?, key, hash)?;
        let done = match (slot, new, key_word::<K, S>(self.shape, key, hash)) {
            (None, None, _) | (None, _, None) | (_, None, None) => return Ok(false),
            (Some(slot), Some(value), _) => {
                replace(self.pool.media(), self.leaf(leaf_offset)?, slot, value, steps)?
            }
            (None, Some(value), Some(key_word)) => {
                let (leaf_offset, live, slot) = match self.shape.dead_slot(live, hash) {
                    Some(slot) => (leaf_offset, live, slot),
                    None => self.make_room(leaf_offset, live, key, hash)?,
                };
                let entry = NewEntry { slot, key: key_word, value, hash };
                let done = add(self.pool.media(), self.leaf(leaf_offset)?, live, entry, steps)?;
                self.keys += 1;
                done
            }
            (Some(slot), None, Some(_)) => {
                let leaf = Leaf::at(self.pool.media().region(), leaf_offset, self.shape)?;
                let done = clear(self.pool.media(), leaf, live, slot, steps)?;
                self.keys = self.keys.saturating_sub(1);
                if live.without(slot).is_empty() && leaf_offset != self.leftmost {
                    self.inner.remove(key);
                    self.leave(leaf_offset)?;
                }
                done
            }
        };
        done.0.map(|()| true)
    }
}
