//! Finding a key without writing anything that is shared (L3), and locking the leaf that covers a key (L2).

use everleaf_index::IndexError;
use everleaf_pmem::Media;

use super::ConcurrentFpTree;
use crate::fptree::key::LeafKey;
use crate::fptree::layout::{KeyHash, Shape, SlotSet};
use crate::fptree::leaf::Leaf;
use crate::fptree::search::{candidates, probe};
use crate::support::version_locks;

/// Keys that descend together: enough misses in flight to saturate a core's line-fill buffers.
const GROUP: usize = 16;

/// A locked leaf that covers the key it was looked for by.
pub(super) struct Locked<'t, S> {
    /// Where it is.
    pub offset: u64,
    /// Its cells.
    pub leaf: Leaf<'t, S>,
    /// Its live slots.
    pub live: SlotSet,
    /// Unlocks it when dropped.
    pub guard: version_locks::Locked<'t>,
}

/// What a writer found.
pub(super) enum Found<'t, S> {
    /// The key is in this slot of the leaf, which is locked.
    Present(Locked<'t, S>, usize),
    /// It is not there; the leaf where it belongs is locked.
    Absent(Locked<'t, S>),
}

/// In which case a writer has nothing to do, and the leaf is not locked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unless {
    /// The key is there.
    Present,
    /// It is not.
    Absent,
    /// There is always something to do.
    Never,
}

/// A leaf that nobody was changing, and that covered a key, at one moment.
struct Located<'t, S> {
    offset: u64,
    leaf: Leaf<'t, S>,
    /// The version that it had then.
    seen: version_locks::Seen<'t>,
}

impl<K: LeafKey, M: Media, S: Shape> ConcurrentFpTree<K, M, S> {
    /// The leaf of `key`, on its way into the cache; none if others changed the tree meanwhile (L1).
    #[inline(always)]
    fn locate(&self, key: K::Ref<'_>, hash: KeyHash) -> Result<Option<Located<'_, S>>, IndexError> {
        if self.transactional
            && let Some((offset, seen)) = self.locate_at_once(key)
        {
            let leaf = self.fetched(offset, hash)?;
            return Ok(Some(Located { offset, leaf, seen }));
        }
        let (offset, ticket) = self.inner.find(&self.relax(), key);
        let leaf = self.fetched(offset, hash)?;
        let seen = self.locks.read(&self.relax(), offset);
        Ok(ticket.is_current().then_some(Located { offset, leaf, seen }))
    }

    /// The leaf at `offset`, whose first line and home line are asked for.
    #[inline(always)]
    fn fetched(&self, offset: u64, hash: KeyHash) -> Result<Leaf<'_, S>, IndexError> {
        let leaf = self.leaf(offset)?;
        leaf.prefetch_head(self.pool.media());
        leaf.prefetch_home(self.pool.media(), hash);
        Ok(leaf)
    }

    /// The leaf of `key` and its version, read in one transaction; none if transactions gave up. While somebody has the leaf locked it
    /// waits, and looks again: it may be another one then.
    #[inline(never)]
    fn locate_at_once(&self, key: K::Ref<'_>) -> Option<(u64, version_locks::Seen<'_>)> {
        loop {
            let (offset, seen) = self.inner.find_at_once(&self.relax(), key, |leaf| self.locks.peek(leaf))?;
            match seen {
                Some(seen) => return Some((offset, seen)),
                None => drop(self.locks.read(&self.relax(), offset)),
            }
        }
    }

    /// Looks for `key` as a reader does, and then locks the leaf if it is still as it was read; none if there is nothing to do. The
    /// exchange that locks waits for the fence of the operation before: all that can be read comes before it.
    #[inline(always)]
    pub(super) fn lock_leaf(&self, key: K::Ref<'_>, hash: KeyHash, unless: Unless) -> Result<Option<Found<'_, S>>, IndexError> {
        loop {
            if let Some(Located { offset, leaf, seen }) = self.locate(key, hash)? {
                let found = self.search(leaf, key, hash);
                let idle = match &found {
                    Ok((_, Some(_))) => unless == Unless::Present,
                    Ok((_, None)) => unless == Unless::Absent,
                    Err(_) => true,
                };
                if idle && seen.is_current() {
                    return found.map(|_| None);
                }
                if let (false, Ok((live, slot)), Some(guard)) = (idle, found, seen.try_lock()) {
                    let locked = Locked { offset, leaf, live, guard };
                    return Ok(Some(match slot {
                        Some(slot) => Found::Present(locked, slot),
                        None => Found::Absent(locked),
                    }));
                }
            }
            self.restarted();
        }
    }

    /// The live slots of a leaf, and the slot of `key` if it is there.
    #[inline(always)]
    pub(super) fn search(
        &self,
        leaf: Leaf<'_, S>,
        key: K::Ref<'_>,
        hash: KeyHash,
    ) -> Result<(SlotSet, Option<usize>), IndexError> {
        let (live, candidates) = candidates(self.pool.media(), leaf, hash);
        Ok((live, probe::<K, M, S>(&self.pool, leaf, candidates, key)?))
    }

    /// Copies the value of `key` to `value`.
    #[inline(always)]
    pub(super) fn find(&self, key: K::Ref<'_>, value: &mut [u64]) -> Result<bool, IndexError> {
        let hash = K::hash(key);
        loop {
            if let Some(located) = self.locate(key, hash)?
                && let Some(found) = self.read_leaf(located, key, hash, value)
            {
                return found;
            }
            self.restarted();
        }
    }

    /// Looks for `key` in the leaf that covers it; none if the leaf changed meanwhile.
    #[inline(always)]
    fn read_leaf(
        &self,
        Located { leaf, seen, .. }: Located<'_, S>,
        key: K::Ref<'_>,
        hash: KeyHash,
        value: &mut [u64],
    ) -> Option<Result<bool, IndexError>> {
        let found = self.search(leaf, key, hash).map(|(_, slot)| {
            if let Some(slot) = slot {
                leaf.read_value(self.pool.media(), slot, value);
            }
            slot.is_some()
        });
        // What was read, an error too, counts only if nobody changed the leaf.
        seen.is_current().then_some(found)
    }

    /// Looks many keys up, a group at a time.
    pub(super) fn find_many(&self, keys: &[K::Ref<'_>], values: &mut [Option<u64>]) -> Result<(), IndexError> {
        assert_eq!(keys.len(), values.len(), "get_many wants a place for the value of each key");
        for (keys, values) in keys.chunks(GROUP).zip(values.chunks_mut(GROUP)) {
            self.find_group(keys, values)?;
            self.pool.media().end_operation();
        }
        Ok(())
    }

    /// Looks up to 16 keys up together: each level of misses is in flight for all of them at once. A key whose leaf changed
    /// meanwhile is looked up again by itself.
    fn find_group(&self, keys: &[K::Ref<'_>], values: &mut [Option<u64>]) -> Result<(), IndexError> {
        let media = self.pool.media();
        let mut children = [0; GROUP];
        let mut tickets = [self.inner.stale_ticket(); GROUP];
        let children = &mut children[..keys.len()];
        self.inner.find_many(&self.relax(), keys, children, &mut tickets[..keys.len()]);
        for (child, key) in children.iter().zip(keys) {
            let leaf = self.leaf(*child)?;
            leaf.prefetch_head(media);
            leaf.prefetch_home(media, K::hash(*key));
            self.locks.prefetch(*child);
        }
        let mut views = [None; GROUP];
        for ((child, key), view) in children.iter().zip(keys).zip(&mut views) {
            let leaf = self.leaf(*child)?;
            let seen = self.locks.read(&self.relax(), *child);
            let candidates = candidates(media, leaf, K::hash(*key)).1;
            if let Some(slot) = candidates.lowest() {
                leaf.prefetch_key(media, slot);
            }
            *view = Some((leaf, seen, candidates));
        }
        if K::RECORDS {
            for (leaf, _, candidates) in views.iter().flatten() {
                if let Some(slot) = candidates.lowest() {
                    K::prefetch(media, media.load(leaf.key(slot)));
                    K::prefetch_value(media, &leaf.value(slot)[0]);
                }
            }
        }
        let mut words = [0; crate::fptree::layout::MAX_VALUE_WORDS];
        let words = &mut words[..self.shape.value_words()];
        for (i, ((leaf, seen, candidates), key)) in views.into_iter().flatten().zip(keys).enumerate() {
            let found = probe::<K, M, S>(&self.pool, leaf, candidates, *key).map(|slot| {
                slot.is_some_and(|slot| {
                    leaf.read_value(media, slot, words);
                    true
                })
            });
            // L1, L3: what was read counts if the leaf covered the key and did not change; the ticket was drawn before its version was read.
            let found = if tickets[i].is_current() && seen.is_current() { found? } else { self.find(*key, words)? };
            values[i] = found.then(|| words[0]);
        }
        Ok(())
    }
}
