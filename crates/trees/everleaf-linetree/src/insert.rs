//! Adding a key to its locked leaf: 1 flush and 1 fence; where the window is full a split besides.

use everleaf_index::Result;
use everleaf_pmem::{Media, site};

use super::LineTree;
use super::free_slots::{enter, free_in};
use super::layout::{Slot, Wanted, half};
use super::search::{Found, LockedLeaf};
use super::update::overwrite;
use everleaf_tree::key::TreeKey;
use everleaf_tree::operations::SkipIf;

impl<K: TreeKey, M: Media, const LINES: usize> LineTree<K, M, LINES> {
    /// Adds a key; false if it is present.
    #[inline(always)]
    pub(super) fn insert(&self, key: K::Ref<'_>, value: u64) -> Result<bool> {
        K::admit(key)?;
        let wanted = Self::wanted(key);
        let inserted = match self.try_lock_leaf(key, wanted, SkipIf::Present) {
            Some(Found::Absent(locked)) => self.insert_absent(locked, key, wanted, value)?,
            Some(Found::Present(..) | Found::Nothing) => return Ok(false),
            None => false,
        };
        if inserted { Ok(true) } else { self.insert_retrying(key, wanted, value) }
    }

    /// The same, as often as it takes.
    #[inline(never)]
    fn insert_retrying(&self, key: K::Ref<'_>, wanted: Wanted, value: u64) -> Result<bool> {
        loop {
            let Found::Absent(locked) = self.lock_leaf(key, wanted, SkipIf::Present)? else {
                return Ok(false);
            };
            if self.insert_absent(locked, key, wanted, value)? {
                return Ok(true);
            }
        }
    }

    /// Adds a key that the locked leaf does not hold. False if its window was full: room was made,
    /// and the key's leaf is to be looked for again.
    #[inline(always)]
    fn insert_absent(
        &self,
        locked: LockedLeaf<'_, LINES>,
        key: K::Ref<'_>,
        wanted: Wanted,
        value: u64,
    ) -> Result<bool> {
        let media = self.pool.media();
        let Some(slot) = free_in(media, locked.leaf, wanted) else {
            self.make_room(locked, key)?;
            return Ok(false);
        };
        enter::<K, M, LINES>(media, locked.leaf, slot, half::<K>(key), |_| true);
        add(media, slot, wanted, value);
        locked.guard.count(1);
        Ok(true)
    }

    /// Updates or inserts; the old value, if there was one.
    pub(super) fn upsert(&self, key: K::Ref<'_>, value: u64) -> Result<Option<u64>> {
        K::admit(key)?;
        let wanted = Self::wanted(key);
        loop {
            let found = match self.try_lock_leaf(key, wanted, SkipIf::Never) {
                Some(found) => found,
                None => self.lock_leaf(key, wanted, SkipIf::Never)?,
            };
            match found {
                Found::Present(locked, slot) => {
                    let old = overwrite(self.pool.media(), slot, value);
                    drop(locked);
                    return Ok(Some(old));
                }
                Found::Absent(locked) => {
                    if self.insert_absent(locked, key, wanted, value)? {
                        return Ok(None);
                    }
                }
                Found::Nothing => {}
            }
        }
    }
}

/// Makes a slot without an entry that of a key. No other thread has the leaf.
#[inline(always)]
fn add<M: Media>(media: &M, slot: Slot<'_>, wanted: Wanted, value: u64) {
    // P1 COMMIT: value, then key word, in one line. Crash: the key is there with its value, or the
    // slot has no entry. Every line that the entry went past is full, durably, since none of its
    // slots got an entry without the fence below; see I3.
    media.store(slot.value(), value);
    media.order(site!("linetree.insert.P1.order"));
    media.store(slot.key(), wanted.word);
    media.flush(site!("linetree.insert.P1.entry"), slot.key());
    media.fence(site!("linetree.insert.P1.fence"));
}
