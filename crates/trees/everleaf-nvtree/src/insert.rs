//! Appending an element to a leaf, which is what every insertion, update and removal does: the
//! element behind the last one, then the count that makes it one of them.
//!
//! u64 keys and values of one word: 2 or 3 flushes (an element lies in one line or in two), 2
//! fences. Byte-string keys: the allocation of the record besides, unless the leaf has one of this
//! key already. In a full leaf the change goes into the leaves that take its place (`split`).

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Media, PCell, planted, site};

use super::NvTree;
use super::layout::{Fill, Kind, Mark};
use super::leaf::{Leaf, tag_of};
use super::plan::Change;
use super::search::{Newest, Purpose};
use super::steps::{Alone, Done, Steps};
use everleaf_tree::key::{KeyHash, TreeKey};

/// An element to append.
pub(super) struct Element<'v> {
    pub hash: KeyHash,
    /// The slot of the key's newest element, which has its record.
    pub known: Option<usize>,
    /// None: the key is removed.
    pub value: Option<&'v [u64]>,
    /// The first word of the value that it had, for the steps of others.
    pub old: Option<u64>,
}

/// Appends an element to a leaf that is not full, and whose fill is `after` then; `place` writes
/// the key word of a key that the leaf has no record of. No other thread changes the leaf. After an
/// error nothing has changed.
#[inline(always)]
pub(super) fn append<K: TreeKey, M: Media, S: Steps>(
    media: &M,
    leaf: Leaf<'_>,
    element: &Element<'_>,
    after: Fill,
    place: impl FnOnce(&PCell) -> Result<()>,
    steps: &mut S,
) -> Result<Done> {
    let slot = after.count() - 1;
    // P1: the element. Crash: it is behind the count and means nothing; its key word is null, or a
    // copy of another element's, or the only one that leads to its record, which recovery frees.
    match element.known {
        Some(known) => media.store(leaf.key(slot), media.load(leaf.key(known))),
        None => place(leaf.key(slot))?,
    }
    steps.prepare(element.old)?;
    let kind = if element.value.is_some() { Kind::Present } else { Kind::Removed };
    media.store(leaf.mark(slot), Mark::new(kind, tag_of::<K>(element.hash)));
    let words = element.value.map_or(0, <[u64]>::len); // A removal has none.
    leaf.store_value(media, slot, element.value.unwrap_or_default());
    leaf.flush_element(media, site!("nvtree.append.P1.element"), slot, words);
    media.fence(site!("nvtree.append.P1.fence"));
    // P2 COMMIT: the hash, then the count and the live keys in one word of the same line, with the
    // rest of the steps. Crash: the element is there, and its hash with it, or neither counts; the
    // steps in any mixture with it, and what they have prepared tells recovery where to look. Other
    // threads see the count before it is durable: see `concurrent`.
    planted!(231, media.store(&leaf.head.fill, after));
    leaf.store_hash(media, slot, element.hash.fingerprint());
    media.order(site!("nvtree.append.P2.order"));
    media.store(&leaf.head.fill, after);
    media.flush(site!("nvtree.append.P2.fill"), &leaf.head.fill);
    let completed = steps.complete();
    media.fence(site!("nvtree.append.P2.fence"));
    Ok(Done(completed))
}

impl<K: TreeKey, M: Media> NvTree<K, M> {
    /// Adds a key; false if it is present.
    #[inline(always)]
    pub(super) fn insert(&mut self, key: K::Ref<'_>, value: &[u64]) -> Result<bool> {
        K::admit(key)?;
        let hash = K::hash(key);
        let found = self.search(key, hash, Purpose::Append)?;
        if found.live_slot().is_some() {
            return Ok(false);
        }
        let (offset, fill, newest) = (found.leaf.offset(), found.fill, found.newest);
        self.put(offset, fill, newest, key, hash, value)?;
        Ok(true)
    }

    /// Makes the value of a key what is given; `newest` is its newest element in its leaf. If the
    /// pool has no room for the record of a new key, the records of dead ones of its leaf make
    /// some.
    #[inline(always)]
    pub(super) fn put(
        &mut self,
        offset: u64,
        fill: Fill,
        newest: Option<Newest>,
        key: K::Ref<'_>,
        hash: KeyHash,
        value: &[u64],
    ) -> Result<()> {
        match self.put_here(offset, fill, newest, key, hash, value) {
            Err(IndexError::Pool(error))
                if error.is_full()
                    && K::RECORDS
                    && newest.is_none()
                    && fill.live() < fill.count() =>
            {
                self.make_room(key, &Change::Nothing)?;
                let found = self.search(key, hash, Purpose::Append)?;
                let (offset, fill) = (found.leaf.offset(), found.fill);
                self.put_here(offset, fill, None, key, hash, value)
            }
            done => done,
        }
    }

    #[inline(always)]
    fn put_here(
        &mut self,
        offset: u64,
        fill: Fill,
        newest: Option<Newest>,
        key: K::Ref<'_>,
        hash: KeyHash,
        value: &[u64],
    ) -> Result<()> {
        let is_live = newest.is_some_and(|newest| newest.kind == Kind::Present);
        let known = newest.map(|newest| newest.slot);
        if fill.count() < self.shape.slots() {
            let is_old = is_live && !planted(232);
            let after = if is_old { fill.with_value() } else { fill.with_key() };
            let media = self.pool.media();
            let leaf = Leaf::at(media.region(), offset, self.shape)?;
            let element = Element { hash, known, value: Some(value), old: None };
            let worker = &mut self.worker;
            let place = |cell: &PCell| K::place(worker, cell, key);
            append::<K, M, _>(media, leaf, &element, after, place, &mut Alone)?.0?;
        } else {
            self.make_room(key, &Change::Put { known, hash, value })?;
        }
        self.keys += u64::from(!is_live);
        Ok(())
    }

    /// Updates or inserts; true if there was an old value.
    pub(super) fn upsert(&mut self, key: K::Ref<'_>, new: &[u64], old: &mut [u64]) -> Result<bool> {
        K::admit(key)?;
        let hash = K::hash(key);
        let found = self.search(key, hash, Purpose::Append)?;
        let slot = found.live_slot();
        if let Some(slot) = slot {
            found.leaf.read_value(self.pool.media(), slot, old);
        }
        let (offset, fill, newest) = (found.leaf.offset(), found.fill, found.newest);
        self.put(offset, fill, newest, key, hash, new)?;
        Ok(slot.is_some())
    }
}
