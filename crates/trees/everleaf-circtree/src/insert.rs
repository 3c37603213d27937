//! Inserting: into its leaf, as the leaf keeps its entries ([`Node::insert`]). A full leaf: a split
//! before that.

use everleaf_index::{IndexError, Result};
use everleaf_pmem::Media;

use super::SortedTree;
use super::search::LockedLeaf;
use everleaf_tree::key::TreeKey;
use everleaf_tree::steps::Steps;

impl<K: TreeKey, M: Media> SortedTree<K, M> {
    /// Adds a key; false if it is present.
    #[inline]
    pub(super) fn insert(&self, key: K::Ref<'_>, value: u64) -> Result<bool> {
        K::admit(key)?;
        loop {
            let Some(locked) = self.lock_leaf(key, |present| !present)? else { return Ok(false) };
            if self.add(locked, key, value, &mut Steps::none())? {
                return Ok(true);
            }
        }
    }

    /// Adds a key that its locked leaf does not hold. False if the leaf was full: it was split, and
    /// the key's leaf is to be looked for again.
    #[inline]
    pub(super) fn add(
        &self,
        locked: LockedLeaf<'_>,
        key: K::Ref<'_>,
        value: u64,
        steps: &mut Steps,
    ) -> Result<bool> {
        let LockedLeaf { node, state, rank, guard, .. } = locked;
        if usize::from(state.count) == self.shape.slots {
            guard.unlock_unchanged();
            self.make_room(key)?;
            return Ok(false);
        }
        let word = match K::as_word(key) {
            Some(word) => word,
            None => {
                // B0: the record, which nothing but the header leads to. Crash: the node is at
                // rest, so it is freed.
                K::place(&mut *self.workers.lease()?, &node.head.key, key)?;
                self.pool.media().load(&node.head.key)
            }
        };
        steps.prepare(None)?;
        self.keys.add(node.offset, 1); // Before the fences: what counts would wait for them.
        node.insert::<K, M>(self.pool.media(), state, rank, (word, value), steps);
        // A search by halves may miss a key where others are damaged and out of order: then it is
        // an error now. A few words, all in the cache.
        if self.find_in(node, node.state(self.pool.media())?, key)? != Some(value) {
            return Err(IndexError::Corrupt { offset: node.offset, what: "keys are out of order" });
        }
        Ok(true)
    }

    /// Updates or inserts; the old value if there was one.
    #[inline(always)]
    pub(super) fn upsert(
        &self,
        key: K::Ref<'_>,
        value: u64,
        steps: &mut Steps,
    ) -> Result<Option<u64>> {
        K::admit(key)?;
        loop {
            let Some(locked) = self.lock_leaf(key, |_| true)? else { continue };
            match locked.value(self.pool.media()) {
                Some(old) => {
                    self.take_part(Some(old), steps)?;
                    self.overwrite(locked, value);
                    return Ok(Some(old));
                }
                None if self.add(locked, key, value, steps)? => return Ok(None),
                None => {}
            }
        }
    }
}
