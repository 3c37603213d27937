//! Finding a key without writing anything that is shared (L3), and locking the leaf that covers a
//! key (L2).

use everleaf_index::Result;
use everleaf_pmem::{Media, planted};

use super::ConcurrentFpTree;
use crate::entry::{prefetch_block, prefetch_record};
use crate::layout::{MAX_VALUE_WORDS, Shape, SlotSet};
use crate::leaf::Leaf;
use crate::search::{candidates, probe};
use everleaf_tree::key::KeyHash;
use everleaf_tree::key::TreeKey;
use everleaf_tree::operations::{GROUP, SkipIf};
use everleaf_tree::version_locks;
use everleaf_tree::wait::wait;

/// A locked leaf that covers the key it was looked for by.
pub(super) struct LockedLeaf<'t, S> {
    /// Where it is.
    pub offset: u64,
    /// Its cells.
    pub leaf: Leaf<'t, S>,
    /// Its live slots.
    pub live: SlotSet,
    /// Unlocks it when dropped.
    pub guard: version_locks::LockGuard<'t>,
}

/// What a writer found.
pub(super) enum Found<'t, S> {
    /// The key is in this slot of the leaf, which is locked.
    Present(LockedLeaf<'t, S>, usize),
    /// It is not there; the leaf where it belongs is locked.
    Absent(LockedLeaf<'t, S>),
    /// What there is nothing to do about, and nothing is locked.
    Nothing,
}

/// A leaf that no thread was changing, and that covered a key, at one moment.
struct Located<'t, S> {
    offset: u64,
    leaf: Leaf<'t, S>,
    /// The version that it had then.
    seen: version_locks::Seen<'t>,
}

impl<K: TreeKey, M: Media, S: Shape> ConcurrentFpTree<K, M, S> {
    /// The leaf of `key`, on its way into the cache, by versions and at the first attempt: none if
    /// others are in the way, or the inner nodes cannot tell so quickly. Neither waits nor begins
    /// again, so that the operations, into which it is inlined, are straight code;
    /// [`locate`](Self::locate) is for the rest.
    #[inline(always)]
    fn try_locate(&self, key: K::Ref<'_>, hash: KeyHash) -> Option<Located<'_, S>> {
        let (offset, ticket) = self.inner.find_unvalidated(key)?;
        let leaf = self.fetched(offset, hash).ok()?;
        let seen = self.locks.look(offset);
        let holds = ticket.is_current() || planted(217);
        if seen.is_locked() || !holds {
            self.restarted();
            return None;
        }
        Some(Located { offset, leaf, seen })
    }

    /// The leaf of `key`, on its way into the cache; none if others changed the tree meanwhile
    /// (L1).
    fn locate(&self, key: K::Ref<'_>, hash: KeyHash) -> Result<Option<Located<'_, S>>> {
        if self.transactional
            && let Some((offset, seen)) = self.locate_in_transaction(key)
        {
            let leaf = self.fetched(offset, hash)?;
            return Ok(Some(Located { offset, leaf, seen }));
        }
        let (offset, ticket) = self.inner.find(&wait(self.pool.media()), key);
        let leaf = self.fetched(offset, hash)?;
        let seen = self.locks.read(&wait(self.pool.media()), offset);
        Ok(ticket.is_current().then_some(Located { offset, leaf, seen }))
    }

    /// The leaf at `offset`, whose first line and home line are prefetched.
    #[inline(always)]
    fn fetched(&self, offset: u64, hash: KeyHash) -> Result<Leaf<'_, S>> {
        let leaf = self.leaf(offset)?;
        leaf.prefetch_head(self.pool.media());
        leaf.prefetch_home(self.pool.media(), hash);
        Ok(leaf)
    }

    /// The leaf of `key` and its version, read in one transaction; none if transactions gave up.
    /// While another thread has the leaf locked it waits, and looks again: it may be another one
    /// then.
    #[inline(never)]
    fn locate_in_transaction(&self, key: K::Ref<'_>) -> Option<(u64, version_locks::Seen<'_>)> {
        loop {
            let (offset, seen) =
                self.inner.find_in_transaction(&wait(self.pool.media()), key, |leaf| {
                    self.locks.peek(leaf)
                })?;
            match seen {
                Some(seen) => return Some((offset, seen)),
                None => drop(self.locks.read(&wait(self.pool.media()), offset)),
            }
        }
    }

    /// Looks for `key` as a reader does, and then locks the leaf if it is still as it was read. The
    /// exchange that locks waits for the fence of the operation before: all that can be read comes
    /// before it. None if others are in the way, or something is the matter:
    /// [`lock_leaf`](Self::lock_leaf) tells.
    #[inline(always)]
    pub(super) fn try_lock_leaf(
        &self,
        key: K::Ref<'_>,
        hash: KeyHash,
        skip: SkipIf,
    ) -> Option<Found<'_, S>> {
        if self.transactional {
            return None;
        }
        let located = self.try_locate(key, hash)?;
        let found = self.lock_located(located, key, hash, skip);
        self.restarts.at_once(self.pool.media(), found)
    }

    /// The same, as often as it takes.
    pub(super) fn lock_leaf(
        &self,
        key: K::Ref<'_>,
        hash: KeyHash,
        skip: SkipIf,
    ) -> Result<Found<'_, S>> {
        self.restarts.until_done(self.pool.media(), || match self.locate(key, hash)? {
            Some(located) => self.lock_located(located, key, hash, skip).transpose(),
            None => Ok(None),
        })
    }

    /// Looks for `key` in the leaf that covers it, and locks the leaf; none if the leaf changed
    /// meanwhile.
    #[inline(always)]
    fn lock_located<'t>(
        &'t self,
        Located { offset, leaf, seen }: Located<'t, S>,
        key: K::Ref<'_>,
        hash: KeyHash,
        skip: SkipIf,
    ) -> Option<Result<Found<'t, S>>> {
        let (live, candidates) = candidates(self.pool.media(), leaf, hash);
        // The block of the record that is about to be replaced is known to the allocator: a miss
        // beside that of the record, whose key is compared now.
        candidates.for_each(|slot| prefetch_block::<K, M, S>(&self.pool, leaf, slot));
        let found = probe::<K, M, S>(&self.pool, leaf, candidates, key, hash);
        let found = found.map(|slot| (live, slot));
        if found.as_ref().map_or(true, |(_, slot)| skip.applies(slot.is_some())) {
            return seen.is_current().then(|| found.map(|_| Found::Nothing));
        }
        let (live, slot) = found.ok()?;
        let locked = LockedLeaf { offset, leaf, live, guard: seen.try_lock()? };
        Some(Ok(match slot {
            Some(slot) => Found::Present(locked, slot),
            None => Found::Absent(locked),
        }))
    }

    /// Copies the value of `key` to `value`; none if others are in the way, or something is the
    /// matter: [`find`](Self::find) tells.
    #[inline(always)]
    pub(super) fn try_find(&self, key: K::Ref<'_>, value: &mut [u64]) -> Option<bool> {
        if self.transactional {
            return None;
        }
        let hash = K::hash(key);
        let located = self.try_locate(key, hash)?;
        let found = self.read_leaf(located, key, hash, value);
        self.restarts.at_once(self.pool.media(), found)
    }

    /// The same, as often as it takes.
    #[inline(never)]
    pub(super) fn find(&self, key: K::Ref<'_>, value: &mut [u64]) -> Result<bool> {
        let hash = K::hash(key);
        self.restarts.until_done(self.pool.media(), || match self.locate(key, hash)? {
            Some(located) => self.read_leaf(located, key, hash, value).transpose(),
            None => Ok(None),
        })
    }

    /// Looks for `key` in the leaf that covers it; none if the leaf changed meanwhile.
    #[inline(always)]
    fn read_leaf(
        &self,
        Located { leaf, seen, .. }: Located<'_, S>,
        key: K::Ref<'_>,
        hash: KeyHash,
        value: &mut [u64],
    ) -> Option<Result<bool>> {
        let (_, candidates) = candidates(self.pool.media(), leaf, hash);
        let found = probe::<K, M, S>(&self.pool, leaf, candidates, key, hash).map(|slot| {
            if let Some(slot) = slot {
                leaf.read_value(self.pool.media(), slot, value);
            }
            slot.is_some()
        });
        // What was read, an error too, counts only if no thread changed the leaf.
        (seen.is_current() || planted(216)).then_some(found)
    }

    /// Looks up to 16 keys up together: each level of misses is in flight for all of them at once.
    /// A key that others were in the way of is looked up again by itself.
    pub(super) fn find_group(&self, keys: &[K::Ref<'_>], values: &mut [Option<u64>]) -> Result<()> {
        let media = self.pool.media();
        let mut children = [0; GROUP];
        let mut tickets = [self.inner.stale_ticket(); GROUP];
        self.inner.find_many_unvalidated(
            keys,
            &mut children[..keys.len()],
            &mut tickets[..keys.len()],
        );
        let mut leaves = [None; GROUP];
        for ((child, key), leaf) in children.iter().zip(keys).zip(&mut leaves) {
            *leaf = self.fetched(*child, K::hash(*key)).ok();
            self.locks.prefetch(*child);
        }
        let mut views = [None; GROUP];
        for (i, key) in keys.iter().enumerate() {
            let (Some(leaf), seen) = (leaves[i], self.locks.look(children[i])) else { continue };
            // As in `try_locate`: from here on the leaf's version vouches for all.
            if !seen.is_locked() && tickets[i].is_current() {
                let candidates = candidates(media, leaf, K::hash(*key)).1;
                if let Some(slot) = candidates.lowest() {
                    leaf.prefetch_key(media, slot);
                }
                views[i] = Some((seen, candidates));
            }
        }
        if K::RECORDS {
            for (leaf, view) in leaves.iter().zip(&views) {
                if let (Some(leaf), Some(slot)) =
                    (leaf, view.and_then(|(_, candidates)| candidates.lowest()))
                {
                    prefetch_record::<K, M, S>(media, *leaf, slot);
                    K::prefetch_value(media, &leaf.value(slot)[0]);
                }
            }
        }
        for (i, key) in keys.iter().enumerate() {
            values[i] = match (leaves[i], views[i]) {
                (Some(leaf), Some((seen, candidates))) => {
                    let hash = K::hash(*key);
                    let slot = probe::<K, M, S>(&self.pool, leaf, candidates, *key, hash);
                    let value = slot.map(|slot| slot.map(|slot| media.load(&leaf.value(slot)[0])));
                    if seen.is_current() { value? } else { self.find_first_word(*key)? }
                }
                _ => self.find_first_word(*key)?,
            };
        }
        Ok(())
    }

    /// The first word of the value of `key`.
    #[cold]
    fn find_first_word(&self, key: K::Ref<'_>) -> Result<Option<u64>> {
        let mut words = [0; MAX_VALUE_WORDS];
        let words = &mut words[..self.shape.value_words()];
        Ok(self.find(key, words)?.then(|| words[0]))
    }
}
