//! Finding a key: the inner nodes lead to the one leaf that may hold it, its fingerprints to the
//! slot.
//!
//! Two dependent misses of persistent memory: line 0 of the leaf, and the line of the entry.

use everleaf_index::Result;
use everleaf_pmem::Media;

use super::FpTree;
use crate::entry::prefetch_record;
use crate::layout::{Shape, SlotSet};
use crate::leaf::Leaf;
use crate::search::{candidates, probe};
use everleaf_tree::key::KeyHash;
use everleaf_tree::key::TreeKey;
use everleaf_tree::operations::GROUP;

impl<K: TreeKey, M: Media, S: Shape> FpTree<K, M, S> {
    /// The leaf at a place that the inner nodes or the groups know.
    #[inline(always)]
    pub(super) fn leaf(&self, offset: u64) -> Result<Leaf<'_, S>> {
        Leaf::at(self.pool.media().region(), offset, self.shape)
    }

    /// The live slots of a leaf, and the slot of `key` if it is there.
    #[inline(always)]
    pub(super) fn search(
        &self,
        leaf: Leaf<'_, S>,
        key: K::Ref<'_>,
        hash: KeyHash,
    ) -> Result<(SlotSet, Option<usize>)> {
        leaf.prefetch_home(self.pool.media(), hash); // Its miss overlaps with that of line 0.
        let (live, candidates) = candidates(self.pool.media(), leaf, hash);
        Ok((live, probe::<K, M, S>(&self.pool, leaf, candidates, key, hash)?))
    }

    /// Copies the value of `key` to `value`.
    #[inline(always)]
    pub(super) fn find(&self, key: K::Ref<'_>, value: &mut [u64]) -> Result<bool> {
        let leaf = self.leaf(self.inner.find(key))?;
        let (_, slot) = self.search(leaf, key, K::hash(key))?;
        if let Some(slot) = slot {
            leaf.read_value(self.pool.media(), slot, value);
        }
        Ok(slot.is_some())
    }

    /// Looks up to 16 keys up together: each level of misses is in flight for all of them at once.
    pub(super) fn find_group(&self, keys: &[K::Ref<'_>], values: &mut [Option<u64>]) -> Result<()> {
        let media = self.pool.media();
        let mut children = [0; GROUP];
        let mut slots = [SlotSet::EMPTY; GROUP];
        let children = &mut children[..keys.len()];
        self.inner.find_many(keys, children);
        for (child, key) in children.iter().zip(keys) {
            let leaf = self.leaf(*child)?;
            leaf.prefetch_head(media);
            leaf.prefetch_home(media, K::hash(*key));
            if !S::FINGERPRINTS {
                (0..self.shape.slots())
                    .step_by(everleaf_pmem::LINE / everleaf_pmem::WORD)
                    .for_each(|slot| leaf.prefetch_key(media, slot));
            }
        }
        for ((child, key), found) in children.iter().zip(keys).zip(&mut slots) {
            let leaf = self.leaf(*child)?;
            *found = candidates(media, leaf, K::hash(*key)).1;
            if let (Some(slot), true) = (found.lowest(), S::FINGERPRINTS) {
                leaf.prefetch_key(media, slot);
            }
        }
        if K::RECORDS {
            for (child, found) in children.iter().zip(&slots) {
                if let Some(slot) = found.lowest() {
                    let leaf = self.leaf(*child)?;
                    prefetch_record::<K, M, S>(media, leaf, slot);
                    K::prefetch_value(media, &leaf.value(slot)[0]);
                }
            }
        }
        for (i, (child, key)) in children.iter().zip(keys).enumerate() {
            let leaf = self.leaf(*child)?;
            values[i] = probe::<K, M, S>(&self.pool, leaf, slots[i], *key, K::hash(*key))?
                .map(|slot| media.load(&leaf.value(slot)[0]));
        }
        Ok(())
    }
}
