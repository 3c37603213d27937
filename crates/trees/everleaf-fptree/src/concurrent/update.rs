//! Updating a value in its locked leaf, by the sequences P1 or W1 to W3 of the tree for one thread.
//!
//! One word: 1 flush, 1 fence. Wider: the lines of the entry and 1 flush, 2 fences; byte-string
//! keys 1 flush and 1 fence more; a full leaf is split first.

use everleaf_index::Result;
use everleaf_pmem::Media;

use super::ConcurrentFpTree;
use super::search::{Found, LockedLeaf};
use crate::layout::Shape;
use crate::update::{overwrite, write_beside};
use everleaf_tree::key::KeyHash;
use everleaf_tree::key::TreeKey;
use everleaf_tree::operations::SkipIf;

impl<K: TreeKey, M: Media, S: Shape> ConcurrentFpTree<K, M, S> {
    /// Replaces the value of a present key; false if it is absent.
    #[inline(always)]
    pub(super) fn update(&self, key: K::Ref<'_>, value: &[u64], old: &mut [u64]) -> Result<bool> {
        let hash = K::hash(key);
        let updated = match self.try_lock_leaf(key, hash, SkipIf::Absent) {
            Some(Found::Present(locked, slot)) => {
                self.replace(locked, slot, key, hash, value, old)?
            }
            Some(Found::Absent(_) | Found::Nothing) => return Ok(false),
            None => false,
        };
        if updated { Ok(true) } else { self.update_retrying(key, hash, value, old) }
    }

    /// The same, as often as it takes.
    #[inline(never)]
    fn update_retrying(
        &self,
        key: K::Ref<'_>,
        hash: KeyHash,
        value: &[u64],
        old: &mut [u64],
    ) -> Result<bool> {
        loop {
            let Found::Present(locked, slot) = self.lock_leaf(key, hash, SkipIf::Absent)? else {
                return Ok(false);
            };
            if self.replace(locked, slot, key, hash, value, old)? {
                return Ok(true);
            }
        }
    }

    /// Replaces the value in a live slot of the locked leaf. False if a wider value found it full:
    /// it was split, and the key's leaf is to be looked for again.
    #[inline(always)]
    pub(super) fn replace(
        &self,
        locked: LockedLeaf<'_, S>,
        slot: usize,
        key: K::Ref<'_>,
        hash: KeyHash,
        value: &[u64],
        old: &mut [u64],
    ) -> Result<bool> {
        let media = self.pool.media();
        locked.leaf.read_value(media, slot, old);
        if self.shape.value_words() == 1 {
            overwrite(media, locked.leaf, slot, value);
            return Ok(true);
        }
        let Some(new_slot) = self.shape.dead_slot(locked.live, hash) else {
            self.split(locked, key)?;
            return Ok(false);
        };
        write_beside::<K, M, S>(media, locked.leaf, locked.live, slot, new_slot, hash, value);
        Ok(true)
    }
}
