//! Inserting a key into its locked leaf, by the sequence P1, P2 of the tree for one thread.
//!
//! 2 flushes and 2 fences for entries within a line; records of keys: the allocation of the record
//! besides; a full leaf: a split besides.

use everleaf_index::Result;
use everleaf_pmem::{Media, PCell};

use super::ConcurrentFpTree;
use super::search::{Found, LockedLeaf};
use crate::insert::add_entry;
use crate::layout::Shape;
use everleaf_tree::key::KeyHash;
use everleaf_tree::key::TreeKey;
use everleaf_tree::operations::SkipIf;

impl<K: TreeKey, M: Media, S: Shape> ConcurrentFpTree<K, M, S> {
    /// Adds a key; false if it is present.
    #[inline(always)]
    pub(super) fn insert(&self, key: K::Ref<'_>, value: &[u64]) -> Result<bool> {
        K::admit(key)?;
        let hash = K::hash(key);
        let inserted = match self.try_lock_leaf(key, hash, SkipIf::Present) {
            Some(Found::Absent(locked)) => self.insert_absent(locked, key, hash, value)?,
            Some(Found::Present(..) | Found::Nothing) => return Ok(false),
            None => false,
        };
        if inserted { Ok(true) } else { self.insert_retrying(key, hash, value) }
    }

    /// The same, as often as it takes.
    #[inline(never)]
    fn insert_retrying(&self, key: K::Ref<'_>, hash: KeyHash, value: &[u64]) -> Result<bool> {
        loop {
            let Found::Absent(locked) = self.lock_leaf(key, hash, SkipIf::Present)? else {
                return Ok(false);
            };
            if self.insert_absent(locked, key, hash, value)? {
                return Ok(true);
            }
        }
    }

    /// Adds a key that the locked leaf does not hold. False if the leaf was full: it was split, and
    /// the key's leaf is to be looked for again.
    #[inline(always)]
    fn insert_absent(
        &self,
        locked: LockedLeaf<'_, S>,
        key: K::Ref<'_>,
        hash: KeyHash,
        value: &[u64],
    ) -> Result<bool> {
        let LockedLeaf { leaf, live, .. } = locked;
        let Some(slot) = self.shape.dead_slot(live, hash) else {
            self.split(locked, key)?;
            return Ok(false);
        };
        // What the worker has not fenced yet, the retirement of its intent, is fenced by P1, before
        // the leaf is unlocked.
        let place = |cell: &PCell| K::place(&mut *self.workers.lease()?, cell, key);
        let media = self.pool.media();
        add_entry::<K, M, S>(media, leaf, live, slot, key, hash, value, place)?;
        locked.guard.count(1);
        Ok(true)
    }

    /// Updates or inserts; true if there was an old value.
    pub(super) fn upsert(&self, key: K::Ref<'_>, value: &[u64], old: &mut [u64]) -> Result<bool> {
        K::admit(key)?;
        let hash = K::hash(key);
        loop {
            let (done, present) = match self.lock_leaf(key, hash, SkipIf::Never)? {
                Found::Present(locked, slot) => {
                    (self.replace(locked, slot, key, hash, value, old)?, true)
                }
                Found::Absent(locked) => (self.insert_absent(locked, key, hash, value)?, false),
                Found::Nothing => continue,
            };
            if done {
                return Ok(present);
            }
        }
    }
}
