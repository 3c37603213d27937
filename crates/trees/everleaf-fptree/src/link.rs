//! Changing an entry together with what it leads to: the sequences of insertion, update and removal
//! with one step of another's before each of the two fences ([`LinkSteps`]).
//!
//! Values of one word only. Added: 2 flushes (PTree: 3); replaced: 1; removed: 1; and those of the
//! steps. Each 2 fences. Splits and leaves that are emptied besides.

use everleaf_index::{LinkSteps, Links, Result};
use everleaf_pmem::{Media, planted, site};

use super::layout::{Shape, SlotSet};
use super::leaf::Leaf;
use everleaf_tree::key::{KeyHash, TreeKey};

/// The changes that a tree makes so: entries whose keys are records of their own come and go with
/// those.
pub(super) fn links_of<K: TreeKey, S: Shape>(shape: S) -> Links {
    match (shape.value_words(), shape.owns_keys::<K>()) {
        (1, false) => Links::All,
        (1, true) => Links::Replacements,
        _ => Links::None,
    }
}

/// A new entry.
pub(super) struct NewEntry {
    /// The dead slot that it goes to.
    pub slot: usize,
    /// Its key word.
    pub key: u64,
    /// Its value.
    pub value: u64,
    /// The hash of its key.
    pub hash: KeyHash,
}

/// Makes a dead slot of a leaf live. No other thread has the leaf. After an error nothing has
/// changed.
#[inline(always)]
pub(super) fn add<M: Media, S: Shape>(
    media: &M,
    leaf: Leaf<'_, S>,
    live: SlotSet,
    NewEntry { slot, key, value, hash }: NewEntry,
    steps: &mut dyn LinkSteps,
) -> Result<Done> {
    // N1: what the steps prepare, and the entry. Crash: the slot is dead, its bytes mean nothing.
    steps.prepare(None)?;
    media.store(leaf.key(slot), key);
    leaf.store_value(media, slot, &[value]);
    leaf.flush_entry(media, site!("fptree.link.N1.entry"), site!("fptree.link.N1.value"), slot);
    media.fence(site!("fptree.link.N1.fence"));
    // N2 COMMIT: fingerprint, then bitmap, in one line; with them the rest of the steps. Crash: in
    // any mixture; what the steps have prepared tells recovery where to look.
    planted!(227, media.store(leaf.bitmap(), live.with(slot)));
    if S::FINGERPRINTS {
        leaf.store_fingerprint(media, slot, hash.fingerprint());
        media.order(site!("fptree.link.N2.order"));
    }
    media.store(leaf.bitmap(), live.with(slot));
    media.flush(site!("fptree.link.N2.bitmap"), leaf.bitmap());
    let completed = steps.complete();
    media.fence(site!("fptree.link.N2.fence"));
    Ok(Done(completed))
}

/// Overwrites the value of a live slot. No other thread has the leaf.
#[inline(always)]
pub(super) fn replace<M: Media, S: Shape>(
    media: &M,
    leaf: Leaf<'_, S>,
    slot: usize,
    value: u64,
    steps: &mut dyn LinkSteps,
) -> Result<Done> {
    // U1: what the steps prepare. Crash: the old value.
    steps.prepare(Some(media.load(&leaf.value(slot)[0])))?;
    media.fence(site!("fptree.link.U1.fence"));
    // U2 COMMIT: one p-atomic store, and the rest of the steps. Crash: as after N2.
    leaf.store_value(media, slot, &[value]);
    leaf.flush_value(media, site!("fptree.link.U2.value"), slot);
    let completed = steps.complete();
    media.fence(site!("fptree.link.U2.fence"));
    Ok(Done(completed))
}

/// Makes a live slot dead. No other thread has the leaf.
#[inline(always)]
pub(super) fn clear<M: Media, S: Shape>(
    media: &M,
    leaf: Leaf<'_, S>,
    live: SlotSet,
    slot: usize,
    steps: &mut dyn LinkSteps,
) -> Result<Done> {
    // R1: what the steps prepare. Crash: the key is there.
    steps.prepare(Some(media.load(&leaf.value(slot)[0])))?;
    media.fence(site!("fptree.link.R1.fence"));
    // R2 COMMIT: the bit goes off, and the rest of the steps. Crash: as after N2; if it was the
    // last one, the leaf has left the tree in the same moment.
    media.store(leaf.bitmap(), live.without(slot));
    media.flush(site!("fptree.link.R2.bitmap"), leaf.bitmap());
    let completed = steps.complete();
    media.fence(site!("fptree.link.R2.fence"));
    Ok(Done(completed))
}

/// The entry is changed, durably; the inner result is that of the steps.
#[must_use]
pub(super) struct Done(pub Result<()>);
