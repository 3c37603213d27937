//! Changing an entry together with what it leads to, in its locked leaf. No other thread sees the
//! entry before what it leads to is durable.

use everleaf_index::{LinkSteps, Result};
use everleaf_pmem::Media;

use super::ConcurrentFpTree;
use super::search::Found;
use crate::entry::key_word;
use crate::layout::Shape;
use crate::link::{NewEntry, add, clear, replace};
use everleaf_tree::key::TreeKey;
use everleaf_tree::operations::SkipIf;

impl<K: TreeKey, M: Media, S: Shape> ConcurrentFpTree<K, M, S> {
    /// Makes `new` the value of a key, or removes it. False if nothing was done: there is no such
    /// key to be removed, or the key's own record would have to come or go with the entry.
    #[inline(always)]
    pub(super) fn link_entry(
        &self,
        key: K::Ref<'_>,
        new: Option<u64>,
        steps: &mut dyn LinkSteps,
    ) -> Result<bool> {
        K::admit(key)?;
        let hash = K::hash(key);
        let skip = if new.is_some() { SkipIf::Never } else { SkipIf::Absent };
        let media = self.pool.media();
        let mut locked_at_once = self.try_lock_leaf(key, hash, skip);
        loop {
            let found = match locked_at_once.take() {
                Some(found) => found,
                None => self.lock_leaf(key, hash, skip)?,
            };
            let done = match (found, new, key_word::<K, S>(self.shape, key, hash)) {
                (Found::Nothing | Found::Absent(_), None, _)
                | (Found::Present(..), None, None)
                | (Found::Absent(_), Some(_), None) => return Ok(false),
                // Another thread put or removed the key meanwhile; looked for again.
                (Found::Nothing, Some(_), _) => continue,
                (Found::Present(locked, slot), Some(value), _) => {
                    replace(media, locked.leaf, slot, value, steps)?
                }
                (Found::Absent(locked), Some(value), Some(key_word)) => {
                    let Some(slot) = self.shape.dead_slot(locked.live, hash) else {
                        self.split(locked, key)?;
                        continue; // The key's leaf may be another one now.
                    };
                    let entry = NewEntry { slot, key: key_word, value, hash };
                    let done = add(media, locked.leaf, locked.live, entry, steps)?;
                    locked.guard.count(1);
                    done
                }
                (Found::Present(locked, slot), None, Some(_)) => {
                    let done = clear(media, locked.leaf, locked.live, slot, steps)?;
                    locked.guard.count(-1);
                    if locked.live.without(slot).is_empty() && locked.offset != self.leftmost {
                        self.leave(&locked, key)?;
                    }
                    done
                }
            };
            return done.0.map(|()| true);
        }
    }
}
