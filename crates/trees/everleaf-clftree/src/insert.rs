//! Adding a key: the entry goes into the first free slot of its leaf, then its live bit is set.
//!
//! 1 flush and 1 fence where the entry lies in the line of the live bits, else 2 and 2; with steps
//! of a store 2 fences always. Byte-string keys: the allocation of the record besides. In a full
//! leaf see `split`.

use everleaf_index::Result;
use everleaf_pmem::{Media, PCell, PPtr, planted, site};
use everleaf_pool::{Record, Worker};

use super::ClfTree;
use super::layout::LiveSet;
use super::leaf::{Leaf, entry_word};
use super::search::Nodes;
use everleaf_tree::key::{KeyHash, TreeKey};
use everleaf_tree::steps::Steps;

/// Writes a key's record, if it needs one, where recovery finds it: into a cell of the anchor. What
/// that had belongs to the tree or is null. The word that stands for the key.
pub(super) fn place<K: TreeKey, M: Media>(
    worker: &mut Worker<M>,
    media: &M,
    cell: &PCell<PPtr<Record>>,
    key: K::Ref<'_>,
) -> Result<u64> {
    if !K::RECORDS {
        return Ok(K::word(key, 0));
    }
    // Crash: the cell has the record before, which recovery finds in the tree, or this one, which
    // it does not find there and frees.
    media.store(cell, PPtr::NULL);
    K::place(worker, cell.as_word(), key)?;
    Ok(media.load(cell).offset())
}

/// Makes a free slot of a leaf live; `apart`: entry and live bit are flushed apart in any case.
#[inline(always)]
fn append<M: Media>(
    media: &M,
    leaf: Leaf<'_>,
    live: LiveSet,
    slot: usize,
    [key, value]: [u64; 2],
    apart: bool,
    steps: &mut Steps<'_>,
) {
    let same_line = leaf.shape().is_in_first_line(slot) && !apart;
    // P1: the entry. Crash: the slot is free, its words mean nothing.
    if !same_line {
        leaf.store_entry(media, slot, key, value);
        media.flush(site!("clftree.insert.P1.entry"), leaf.key(slot));
    }
    if !same_line || steps.take_part() {
        media.fence(site!("clftree.insert.P1.fence"));
    }
    planted!(266, leaf.store_live(media, live.with(slot), slot));
    if same_line {
        leaf.store_entry(media, slot, key, value);
        media.order(site!("clftree.insert.P2.order"));
    }
    // P2 COMMIT: the live bit. Crash: the key is there or not.
    leaf.store_live(media, live.with(slot), slot);
    media.flush(site!("clftree.insert.P2.live"), leaf.live_cell(slot));
    steps.complete();
    media.fence(site!("clftree.insert.P2.fence"));
}

/// The key word of a new entry: a record that it needs is written where recovery finds it.
pub(super) fn place_key<K: TreeKey, M: Media>(
    nodes: Nodes<'_, K, M>,
    worker: &mut Worker<M>,
    key: K::Ref<'_>,
    hash: KeyHash,
) -> Result<u64> {
    let word = match K::RECORDS && !nodes.owns_keys() {
        true => 0,
        false => place::<K, M>(worker, nodes.media(), &nodes.anchor()?.key, key)?,
    };
    Ok(entry_word::<K>(nodes.settings.shape, word, hash))
}

impl<K: TreeKey, M: Media> ClfTree<K, M> {
    /// Adds a key or replaces its value, as far as `only` lets it; the value that it had.
    #[inline(always)]
    pub(super) fn put(
        &mut self,
        key: K::Ref<'_>,
        value: u64,
        only: Option<Put>,
        steps: &mut Steps<'_>,
    ) -> Result<Option<u64>> {
        K::admit(key)?;
        if self.settings.encoded {
            return self.put_encoded(key, value, only, steps);
        }
        let nodes = Nodes::<K, M>::new(&self.pool, self.settings);
        let (media, hash) = (nodes.media(), K::hash(key));
        let found = nodes.search(key, hash)?;
        if let Some(slot) = found.slot {
            let old = media.load(found.leaf.value(slot));
            if only != Some(Put::Insert) {
                super::update::replace(media, found.leaf, slot, value, steps)?;
            }
            return Ok(Some(old));
        }
        if only == Some(Put::Update) {
            return Ok(None);
        }
        let Some(slot) = found.live.first_free(self.settings.shape.slots()) else {
            self.split(key, hash, value, steps)?;
            return Ok(None);
        };
        let word = place_key::<K, M>(nodes, &mut self.worker, key, hash)?;
        if let Err(error) = steps.prepare(None) {
            if nodes.owns_keys() {
                K::discard(&mut self.worker, nodes.anchor()?.key.as_word())?;
            }
            return Err(error);
        }
        let (entry, apart) = ([word, value], self.settings.paper_order);
        append(media, found.leaf, found.live, slot, entry, apart, steps);
        self.keys += 1;
        Ok(None)
    }
}

/// What a change of an entry is confined to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// The key must be absent.
    Insert,
    /// It must be present.
    Update,
}
