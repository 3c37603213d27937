//! Finding a key without waiting for anybody, and locking the leaf that covers a key.

use everleaf_index::Result;
use everleaf_pmem::{Media, site};
use everleaf_pool::Pinned;

use super::ConcurrentNvTree;
use super::parents::Place;
use super::stock::Glances;
use crate::layout::{Fill, Kind};
use crate::leaf::Leaf;
use crate::search::{Newest, Purpose, newest};
use everleaf_tree::key::{KeyHash, TreeKey};
use everleaf_tree::operations::{GROUP, SkipIf};
use everleaf_tree::version_locks::LockGuard;
use everleaf_tree::wait::wait;

/// A leaf that covers a key, and that no other thread changes.
pub(super) struct LockedLeaf<'t> {
    pub leaf: Leaf<'t>,
    pub fill: Fill,
    /// The newest element of the key.
    pub newest: Option<Newest>,
    /// Unlocks it when dropped.
    pub guard: LockGuard<'t>,
}

impl LockedLeaf<'_> {
    /// The slot of the key's value, if it is there.
    #[inline(always)]
    pub fn live_slot(&self) -> Option<usize> {
        self.newest.and_then(Newest::live_slot)
    }
}

impl<K: TreeKey, M: Media> ConcurrentNvTree<K, M> {
    /// Begins to look at inner nodes and leaves without being pinned: what is seen counts if the
    /// glances are current afterwards.
    #[inline(always)]
    fn glance(&self) -> Glances<'_> {
        Glances { blocks: self.parents.reuse().glance(), leaves: self.stock.reuse().glance() }
    }

    /// Lets this thread look at inner nodes and leaves.
    #[inline(always)]
    pub(super) fn enter(&self) -> Pinned<'_> {
        self.stock.pins().enter(self.pool.media())
    }

    /// The leaf at a place that the inner nodes know.
    #[inline(always)]
    pub(super) fn leaf(&self, offset: u64) -> Result<Leaf<'_>> {
        Leaf::at(self.pool.media().region(), offset, self.shape)
    }

    /// Whose leaf it is: the place of the leaf that covers `key`.
    #[inline(always)]
    pub(super) fn place_of(&self, pinned: &Pinned<'_>, key: K::Ref<'_>) -> Place {
        self.parents.find(pinned, K::word(key, 0))
    }

    /// What a leaf has of a key. What is below a count never changes while the leaf may be read.
    #[inline(always)]
    fn search(
        &self,
        leaf: Leaf<'_>,
        key: K::Ref<'_>,
        hash: KeyHash,
        purpose: Purpose,
    ) -> Result<(Fill, Option<Newest>)> {
        let fill = leaf.fill(self.pool.media())?;
        if purpose == Purpose::Append {
            leaf.prefetch_next(self.pool.media(), fill.count());
        }
        if !self.shape.is_hashed() {
            leaf.prefetch_elements(self.pool.media(), fill.count());
        }
        Ok((fill, newest::<K, M>(&self.pool, leaf, fill.count(), key, hash)?))
    }

    /// H: makes the count of a leaf durable, by which this thread is about to answer, where another
    /// thread may not have done so yet. The latch is loaded after the count: if no thread has it,
    /// the one that stored the count has fenced.
    #[inline(always)]
    fn settle(&self, leaf: Leaf<'_>) {
        if self.locks.look(leaf.offset()).is_locked() {
            self.settle_locked(leaf);
        }
    }

    #[cold]
    fn settle_locked(&self, leaf: Leaf<'_>) {
        let media = self.pool.media();
        media.flush(site!("nvtree.find.H.fill"), &leaf.head.fill);
        media.fence(site!("nvtree.find.H.fence"));
    }

    /// Copies the value of `key` to `value`. First without being pinned.
    #[inline(always)]
    pub(super) fn find(&self, key: K::Ref<'_>, value: &mut [u64]) -> Result<bool> {
        if let [value] = value {
            let (glance, mut seen) = (self.glance(), [0]);
            let place = self.parents.look(K::word(key, 0));
            let found = place.and_then(|place| self.find_at(place.leaf, key, &mut seen).ok());
            if let Some(found) = found.filter(|_| glance.are_current()) {
                if found {
                    *value = seen[0];
                }
                return Ok(found);
            }
        }
        self.find_pinned(key, value)
    }

    #[inline(never)]
    fn find_pinned(&self, key: K::Ref<'_>, value: &mut [u64]) -> Result<bool> {
        let pinned = self.enter();
        self.find_at(self.place_of(&pinned, key).leaf, key, value)
    }

    /// The same where the leaf is known.
    #[inline(always)]
    fn find_at(&self, offset: u64, key: K::Ref<'_>, value: &mut [u64]) -> Result<bool> {
        let leaf = self.leaf(offset)?;
        let (_, newest) = self.search(leaf, key, K::hash(key), Purpose::Read)?;
        let slot = newest.and_then(Newest::live_slot);
        if let Some(slot) = slot {
            leaf.read_value(self.pool.media(), slot, value);
        }
        self.settle(leaf);
        Ok(slot.is_some())
    }

    /// Looks up to 16 keys up together: each level of misses is in flight for all of them at once.
    pub(super) fn find_group(&self, keys: &[K::Ref<'_>], values: &mut [Option<u64>]) -> Result<()> {
        let media = self.pool.media();
        let pinned = self.enter();
        let mut offsets = [0; GROUP];
        for (offset, key) in offsets.iter_mut().zip(keys) {
            *offset = self.place_of(&pinned, *key).leaf;
            self.leaf(*offset)?.prefetch_head(media);
            self.locks.prefetch(*offset);
        }
        for (offset, key) in offsets.iter().zip(keys) {
            let leaf = self.leaf(*offset)?;
            let hash = K::hash(*key).fingerprint();
            leaf.prefetch_sought(media, leaf.fill(media)?.count(), hash);
        }
        for ((offset, key), value) in offsets.iter().zip(keys).zip(values) {
            let leaf = self.leaf(*offset)?;
            let count = leaf.fill(media)?.count();
            let newest = newest::<K, M>(&self.pool, leaf, count, *key, K::hash(*key))?;
            let live = newest.filter(|newest| newest.kind == Kind::Present);
            *value = live.map(|newest| media.load(&leaf.value(newest.slot)[0]));
            self.settle(leaf);
        }
        Ok(())
    }

    /// Locks the leaf that covers `key`, unless there is nothing to do: none then, and what was
    /// seen is durable. Looks for the key before, and without being pinned, so that the exchange
    /// that locks, the only one, waits for the fence of the operation before as late as can be.
    #[inline(always)]
    pub(super) fn lock_leaf(
        &self,
        key: K::Ref<'_>,
        hash: KeyHash,
        skip: SkipIf,
    ) -> Result<Option<LockedLeaf<'_>>> {
        let glance = self.glance();
        let Some(place) = self.parents.look(K::word(key, 0)) else {
            return self.lock_waiting(None, key, hash, skip);
        };
        self.locks.prefetch_to_lock(place.leaf);
        let seen = self.leaf(place.leaf).and_then(|leaf| {
            let (fill, newest) = self.search(leaf, key, hash, Purpose::Append)?;
            Ok((leaf, fill, newest))
        });
        let Ok((leaf, fill, newest)) = seen else {
            return self.lock_waiting(None, key, hash, skip);
        };
        if skip.applies(newest.and_then(Newest::live_slot).is_some()) {
            self.settle(leaf);
            if glance.are_current() {
                return Ok(None);
            }
            return self.lock_waiting(None, key, hash, skip);
        }
        let Some(guard) = self.locks.peek(place.leaf).and_then(|seen| seen.try_lock()) else {
            return self.lock_waiting(Some(place.leaf), key, hash, skip);
        };
        // The glances last: until then nothing of what was seen may have served again.
        if !(self.parents.is_current(&place) && glance.are_current()) {
            guard.unlock_unchanged();
            return self.lock_waiting(None, key, hash, skip);
        }
        if leaf.fill(self.pool.media())? != fill {
            return self.look_again(leaf, guard, key, hash, skip);
        }
        Ok(Some(LockedLeaf { leaf, fill, newest, guard }))
    }

    /// The same of a leaf that was locked after others had changed it.
    #[cold]
    fn look_again<'t>(
        &'t self,
        leaf: Leaf<'t>,
        guard: LockGuard<'t>,
        key: K::Ref<'_>,
        hash: KeyHash,
        skip: SkipIf,
    ) -> Result<Option<LockedLeaf<'t>>> {
        let (fill, newest) = self.search(leaf, key, hash, Purpose::Append)?;
        if skip.applies(newest.and_then(Newest::live_slot).is_some()) {
            guard.unlock_unchanged();
            return Ok(None);
        }
        Ok(Some(LockedLeaf { leaf, fill, newest, guard }))
    }

    /// The same where others are in the way: waits for the latch, without being pinned, and then
    /// looks whether the key still leads to the leaf.
    #[cold]
    fn lock_waiting(
        &self,
        guess: Option<u64>,
        key: K::Ref<'_>,
        hash: KeyHash,
        skip: SkipIf,
    ) -> Result<Option<LockedLeaf<'_>>> {
        let (guard, _, place) = self.lock_covering(guess, K::word(key, 0));
        self.look_again(self.leaf(place.leaf)?, guard, key, hash, skip)
    }

    /// Locks the leaf that covers a key, given as a word; `guess` may be that leaf. Each turn waits
    /// for a thread that has the leaf, or finds that one has given the key to another leaf. The
    /// place may be asked about as long as the thread is pinned.
    pub(super) fn lock_covering(
        &self,
        guess: Option<u64>,
        word: u64,
    ) -> (LockGuard<'_>, Pinned<'_>, Place) {
        let mut sought = guess.unwrap_or_else(|| self.parents.find(&self.enter(), word).leaf);
        loop {
            let guard = self.locks.lock(&wait(self.pool.media()), sought);
            let pinned = self.enter();
            let place = self.parents.find(&pinned, word);
            if place.leaf == sought {
                return (guard, pinned, place);
            }
            drop(pinned);
            guard.unlock_unchanged();
            self.restarted();
            sought = place.leaf;
        }
    }
}
