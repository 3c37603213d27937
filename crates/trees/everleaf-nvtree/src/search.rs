//! Finding a key: the inner nodes lead to the one leaf that may hold it; its elements are read from
//! the newest to the oldest, and the first that is of the key says what holds.
//!
//! The head has a byte of hash of each element, so only those are read that have the key's: one
//! line or two of a present key, hardly any of an absent one. In leaves without hashes half of the
//! elements are read of a present key, all of an absent one: 12 lines of 32 elements. Their
//! addresses are known with the count, so the lines are asked for together.

use everleaf_index::Result;
use everleaf_pmem::{Counter, Media};
use everleaf_pool::Pool;

use super::NvTree;
use super::inner::Place;
use super::layout::{Fill, Kind};
use super::leaf::Leaf;
use everleaf_tree::key::{KeyHash, TreeKey};
use everleaf_tree::operations::GROUP;

/// What a search is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// What was found is read.
    Read,
    /// An element is appended to the leaf.
    Append,
}

/// The newest element of a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Newest {
    pub slot: usize,
    pub kind: Kind,
}

/// The newest element of `key` among the first `count`.
#[inline(always)]
pub(super) fn newest<K: TreeKey, M: Media>(
    pool: &Pool<M>,
    leaf: Leaf<'_>,
    count: usize,
    key: K::Ref<'_>,
    hash: KeyHash,
) -> Result<Option<Newest>> {
    let media = pool.media();
    let is_of_key = |slot| {
        if K::RECORDS && media.load(leaf.mark(slot)).tag() != hash.tag() {
            return Ok(false);
        }
        media.count(Counter::LeafProbes, 1);
        K::is_key(pool, media.load(leaf.key(slot)), key)
    };
    let found = |slot| Ok(Some(Newest { slot, kind: leaf.kind(media, slot)? }));
    if leaf.shape().is_hashed() {
        let mut slots = leaf.slots_of_hash(media, count, hash.fingerprint());
        while let Some(slot) = slots.checked_ilog2() {
            if is_of_key(slot as usize)? {
                return found(slot as usize);
            }
            slots ^= 1 << slot;
        }
        return Ok(None);
    }
    for slot in (0..count).rev() {
        if is_of_key(slot)? {
            return found(slot);
        }
    }
    Ok(None)
}

/// Where a key is, or would be.
pub(super) struct Found<'p> {
    pub place: Place,
    pub leaf: Leaf<'p>,
    pub fill: Fill,
    pub newest: Option<Newest>,
}

impl Newest {
    /// The slot of the key's value, if it is there.
    #[inline(always)]
    pub fn live_slot(self) -> Option<usize> {
        (self.kind == Kind::Present).then_some(self.slot)
    }
}

impl Found<'_> {
    /// The slot of the key's value, if it is there.
    #[inline(always)]
    pub fn live_slot(&self) -> Option<usize> {
        self.newest.and_then(Newest::live_slot)
    }
}

impl<K: TreeKey, M: Media> NvTree<K, M> {
    /// The leaf at a place that the inner nodes or the groups know.
    #[inline(always)]
    pub(super) fn leaf(&self, offset: u64) -> Result<Leaf<'_>> {
        Leaf::at(self.pool.media().region(), offset, self.shape)
    }

    /// Looks for a key.
    #[inline(always)]
    pub(super) fn search(
        &self,
        key: K::Ref<'_>,
        hash: KeyHash,
        purpose: Purpose,
    ) -> Result<Found<'_>> {
        let place = self.inner.find(key);
        let leaf = self.leaf(self.inner.leaf(place))?;
        let fill = leaf.fill(self.pool.media())?;
        if purpose == Purpose::Append {
            leaf.prefetch_next(self.pool.media(), fill.count());
        }
        if !self.shape.is_hashed() {
            leaf.prefetch_elements(self.pool.media(), fill.count());
        }
        let newest = newest::<K, M>(&self.pool, leaf, fill.count(), key, hash)?;
        Ok(Found { place, leaf, fill, newest })
    }

    /// Copies the value of `key` to `value`.
    #[inline(always)]
    pub(super) fn find(&self, key: K::Ref<'_>, value: &mut [u64]) -> Result<bool> {
        let found = self.search(key, K::hash(key), Purpose::Read)?;
        let slot = found.live_slot();
        if let Some(slot) = slot {
            found.leaf.read_value(self.pool.media(), slot, value);
        }
        Ok(slot.is_some())
    }

    /// Looks up to 16 keys up together: each level of misses is in flight for all of them at once.
    pub(super) fn find_group(&self, keys: &[K::Ref<'_>], values: &mut [Option<u64>]) -> Result<()> {
        let media = self.pool.media();
        let mut leaves = [0; GROUP];
        for (leaf, key) in leaves.iter_mut().zip(keys) {
            *leaf = self.inner.leaf(self.inner.find(*key));
            self.leaf(*leaf)?.prefetch_head(media);
        }
        for (leaf, key) in leaves.iter().zip(keys) {
            let leaf = self.leaf(*leaf)?;
            let hash = K::hash(*key).fingerprint();
            leaf.prefetch_sought(media, leaf.fill(media)?.count(), hash);
        }
        for ((leaf, key), value) in leaves.iter().zip(keys).zip(values) {
            let leaf = self.leaf(*leaf)?;
            let count = leaf.fill(media)?.count();
            let newest = newest::<K, M>(&self.pool, leaf, count, *key, K::hash(*key))?;
            let live = newest.filter(|newest| newest.kind == Kind::Present);
            *value = live.map(|newest| media.load(&leaf.value(newest.slot)[0]));
        }
        Ok(())
    }
}
