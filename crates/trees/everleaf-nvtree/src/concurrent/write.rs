//! Changing a key in its locked leaf: an element is appended, by the sequence P1, P2 of the tree
//! for one thread. In a full leaf the change goes into the leaves that take its place (`change`).
//!
//! u64 keys and values of one word: 2 or 3 flushes, 2 fences.

use everleaf_index::Result;
use everleaf_pmem::{Media, PCell};
use parking_lot::MutexGuard;

use super::ConcurrentNvTree;
use super::search::LockedLeaf;
use crate::insert::{Element, append};
use crate::plan::Change;
use crate::steps::{Done, Steps};
use everleaf_tree::key::{KeyHash, TreeKey};
use everleaf_tree::operations::SkipIf;
use everleaf_tree::wait::wait;

/// Attempts in vain after which a thread makes others of its kind wait.
const PATIENCE: usize = 64;

/// What became of a change.
pub(super) enum Outcome {
    Done(Done),
    /// Nothing: another thread has the leaf before it, which is this one if it is known.
    Blocked(Option<u64>),
}

/// A change of a key.
pub(super) struct Write<'k, 'v, K: TreeKey> {
    pub key: K::Ref<'k>,
    pub hash: KeyHash,
    /// None: the key is removed.
    pub value: Option<&'v [u64]>,
}

impl<K: TreeKey, M: Media> ConcurrentNvTree<K, M> {
    /// Gives a key a value, or removes it, unless it is to be skipped; copies the old value. None
    /// if it was skipped, else whether the key was there.
    #[inline(always)]
    pub(super) fn write<S: Steps>(
        &self,
        write: &Write<'_, '_, K>,
        skip: SkipIf,
        old: &mut [u64],
        steps: &mut S,
    ) -> Result<Option<bool>> {
        let (mut attempts, mut patience) = (0, None);
        loop {
            let Some(locked) = self.lock_leaf(write.key, write.hash, skip)? else {
                return Ok(None);
            };
            let slot = locked.live_slot();
            if let Some(slot) = slot {
                locked.leaf.read_value(self.pool.media(), slot, old);
            }
            let old = slot.map(|_| old[0]);
            match self.change(&locked, write, old, steps)? {
                Outcome::Done(done) => {
                    let change = i64::from(write.value.is_some()) - i64::from(slot.is_some());
                    if change != 0 {
                        locked.guard.count(change);
                    }
                    drop(locked);
                    done.0?;
                    return Ok(Some(slot.is_some()));
                }
                Outcome::Blocked(before) => {
                    locked.guard.unlock_unchanged();
                    attempts += 1;
                    self.wait_for(before, attempts, &mut patience);
                }
            }
        }
    }

    /// Changes a key in its locked leaf.
    #[inline(always)]
    fn change<S: Steps>(
        &self,
        locked: &LockedLeaf<'_>,
        write: &Write<'_, '_, K>,
        old: Option<u64>,
        steps: &mut S,
    ) -> Result<Outcome> {
        let (media, fill) = (self.pool.media(), locked.fill);
        let is_first = || media.load(&locked.leaf.head.lower_bound) == 0;
        if write.value.is_none() && fill.live() == 1 && !is_first() {
            return self.unlink(locked, old, steps);
        }
        if fill.count() == self.shape.slots() {
            return self.make_room(locked, write, old, steps);
        }
        let after = match (write.value, old) {
            (None, _) => fill.with_removal(),
            (Some(_), Some(_)) => fill.with_value(),
            (Some(_), None) => fill.with_key(),
        };
        let known = locked.newest.map(|newest| newest.slot);
        let Write { key, hash, value } = *write;
        let element = Element { hash, known, value, old };
        let place = |cell: &PCell| {
            media.store(cell, K::word(key, 0));
            Ok(())
        };
        Ok(Outcome::Done(append::<K, M, S>(media, locked.leaf, &element, after, place, steps)?))
    }

    /// The change of a full leaf, and what the key had there.
    pub(super) fn change_of<'v>(locked: &LockedLeaf<'_>, write: &Write<'_, 'v, K>) -> Change<'v> {
        let known = locked.newest.map(|newest| newest.slot);
        match write.value {
            Some(value) => Change::Put { known, hash: write.hash, value },
            None => Change::Remove,
        }
    }

    /// Waits for the thread that has the leaf before. A thread that has waited often has the
    /// others that have, too, wait for it: two that lock the same two latches in turn do not
    /// hinder each other for ever.
    #[cold]
    fn wait_for<'t>(
        &'t self,
        before: Option<u64>,
        attempts: usize,
        patience: &mut Option<MutexGuard<'t, ()>>,
    ) {
        self.restarted();
        let relax = wait(self.pool.media());
        if let Some(before) = before {
            let _ = self.locks.read(&relax, before);
        }
        if attempts < PATIENCE || patience.is_some() {
            return;
        }
        while patience.is_none() {
            *patience = self.patience.try_lock();
            if patience.is_none() {
                relax();
            }
        }
    }
}
