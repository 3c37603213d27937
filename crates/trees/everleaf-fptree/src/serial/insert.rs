//! Inserting a key: the entry into a dead slot, then the bit that makes it live.
//!
//! 2 flushes and 2 fences for entries within a line (PTree: 3 flushes); records of keys: the
//! allocation of the record besides; a full leaf: a split besides.

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Media, PCell, site};

use super::FpTree;
use crate::insert::add_entry;
use crate::layout::{Shape, SlotSet};
use crate::leaf::Leaf;
use everleaf_tree::key::KeyHash;
use everleaf_tree::key::TreeKey;

impl<K: TreeKey, M: Media, S: Shape> FpTree<K, M, S> {
    /// Adds a key; false if it is present.
    #[inline(always)]
    pub(super) fn insert(&mut self, key: K::Ref<'_>, value: &[u64]) -> Result<bool> {
        K::admit(key)?;
        let hash = K::hash(key);
        let leaf_offset = self.inner.find(key);
        let (live, slot) = self.search(self.leaf(leaf_offset)?, key, hash)?;
        if slot.is_some() {
            return Ok(false);
        }
        self.insert_absent(leaf_offset, live, key, hash, value)?;
        Ok(true)
    }

    /// Adds a key that the leaf where it belongs, whose live slots are `live`, does not hold.
    #[inline(always)]
    pub(super) fn insert_absent(
        &mut self,
        leaf_offset: u64,
        live: SlotSet,
        key: K::Ref<'_>,
        hash: KeyHash,
        value: &[u64],
    ) -> Result<()> {
        let (leaf_offset, live, slot) = match self.shape.dead_slot(live, hash) {
            Some(slot) => (leaf_offset, live, slot),
            None => self.make_room(leaf_offset, live, key, hash)?,
        };
        let leaf = Leaf::at(self.pool.media().region(), leaf_offset, self.shape)?;
        let worker = &mut self.worker;
        let media = self.pool.media();
        let place = |cell: &PCell| K::place(worker, cell, key);
        let added = add_entry::<K, M, S>(media, leaf, live, slot, key, hash, value, place);
        if added.is_err() {
            // A split before this has retired its log without a fence, which is to come before the
            // next commit.
            media.fence(site!("fptree.insert.P1.refused"));
        }
        added?;
        self.keys += 1;
        Ok(())
    }

    /// Splits a full leaf; the half where `key` belongs, its live slots and a dead one.
    #[cold]
    pub(super) fn make_room(
        &mut self,
        leaf_offset: u64,
        live: SlotSet,
        key: K::Ref<'_>,
        hash: KeyHash,
    ) -> Result<(u64, SlotSet, usize)> {
        let leaf_offset = self.split(leaf_offset, live, key)?;
        let live = self.leaf(leaf_offset)?.live(self.pool.media());
        let slot = self.shape.dead_slot(live, hash);
        let slot = slot.ok_or(IndexError::Corrupt {
            offset: leaf_offset,
            what: "a leaf is full after its split",
        })?;
        Ok((leaf_offset, live, slot))
    }

    /// Updates or inserts; true if there was an old value.
    pub(super) fn upsert(&mut self, key: K::Ref<'_>, new: &[u64], old: &mut [u64]) -> Result<bool> {
        K::admit(key)?;
        let hash = K::hash(key);
        let leaf_offset = self.inner.find(key);
        let (live, slot) = self.search(self.leaf(leaf_offset)?, key, hash)?;
        match slot {
            Some(slot) => self.replace(leaf_offset, live, slot, key, hash, new, old)?,
            None => self.insert_absent(leaf_offset, live, key, hash, new)?,
        }
        Ok(slot.is_some())
    }
}
