//! Changing an entry together with what it leads to: the sequences of insertion, update and removal
//! with one step of another's before each of the two fences ([`LinkSteps`]). No other thread sees
//! the entry before what it leads to is durable.
//!
//! 1 flush and those of the steps, 2 fences. Splits and leaves that are emptied besides.

use everleaf_index::{LinkSteps, Result};
use everleaf_pmem::{Media, site};

use super::LineTree;
use super::free_slots::{enter, free_in, has_no_other, leave};
use super::layout::{Leaf, Slot, Wanted, half};
use super::search::Found;
use everleaf_tree::key::TreeKey;
use everleaf_tree::operations::SkipIf;

impl<K: TreeKey, M: Media, const LINES: usize> LineTree<K, M, LINES> {
    /// Makes `new` the value of a key, or removes it. False if nothing was done: there is no such
    /// key to be removed.
    pub(super) fn link_entry(
        &self,
        key: K::Ref<'_>,
        new: Option<u64>,
        steps: &mut dyn LinkSteps,
    ) -> Result<bool> {
        K::admit(key)?;
        let wanted = Self::wanted(key);
        let skip = if new.is_some() { SkipIf::Never } else { SkipIf::Absent };
        let media = self.pool.media();
        loop {
            let found = match self.try_lock_leaf(key, wanted, skip) {
                Some(found) => found,
                None => self.lock_leaf(key, wanted, skip)?,
            };
            let done = match (found, new) {
                (Found::Nothing, _) | (Found::Absent(_), None) => return Ok(false),
                (Found::Present(locked, slot), Some(value)) => {
                    let done = replace(media, slot, value, steps)?;
                    drop(locked);
                    done
                }
                (Found::Absent(locked), Some(value)) => {
                    let Some(slot) = free_in(media, locked.leaf, wanted) else {
                        self.make_room(locked, key)?;
                        continue; // The key's leaf may be another one now.
                    };
                    let (leaf, half) = (locked.leaf, half::<K>(key));
                    let enter = || enter::<K, M, LINES>(media, leaf, slot, half, |_| true);
                    let done = add(media, slot, wanted, value, enter, steps)?;
                    locked.guard.count(1);
                    done
                }
                (Found::Present(locked, slot), None) => {
                    let (leaf, half) = (locked.leaf, half::<K>(key));
                    let (is_empty, done) = clear::<K, M, LINES>(media, leaf, slot, half, steps)?;
                    locked.guard.count(-1);
                    if is_empty {
                        self.end_leaf(locked, key)?;
                    }
                    done
                }
            };
            return done.0.map(|()| true);
        }
    }
}

/// Makes a slot without an entry that of a key. No other thread has the leaf. After an error
/// nothing has changed.
#[inline(always)]
fn add<M: Media>(
    media: &M,
    slot: Slot<'_>,
    wanted: Wanted,
    value: u64,
    enter: impl FnOnce(),
    steps: &mut dyn LinkSteps,
) -> Result<Done> {
    // N1: what the steps prepare. Crash: the slot has no entry.
    steps.prepare(None)?;
    media.fence(site!("linetree.link.N1.fence"));
    enter();
    // N2 COMMIT: value, then key word, in one line; with them the rest of the steps. Crash: in any
    // mixture; what the steps have prepared tells recovery where to look.
    media.store(slot.value(), value);
    media.order(site!("linetree.link.N2.order"));
    media.store(slot.key(), wanted.word);
    media.flush(site!("linetree.link.N2.entry"), slot.key());
    let completed = steps.complete();
    media.fence(site!("linetree.link.N2.fence"));
    Ok(Done(completed))
}

/// Overwrites the value of an entry. No other thread has the leaf.
#[inline(always)]
fn replace<M: Media>(
    media: &M,
    slot: Slot<'_>,
    value: u64,
    steps: &mut dyn LinkSteps,
) -> Result<Done> {
    // U1: what the steps prepare. Crash: the old value.
    steps.prepare(Some(media.load(slot.value())))?;
    media.fence(site!("linetree.link.U1.fence"));
    // U2 COMMIT: one p-atomic store, and the rest of the steps. Crash: as after N2.
    media.store(slot.value(), value);
    media.flush(site!("linetree.link.U2.value"), slot.value());
    let completed = steps.complete();
    media.fence(site!("linetree.link.U2.fence"));
    Ok(Done(completed))
}

/// Takes the entry out of a slot; also whether it was the last one of its leaf. No other thread has
/// the leaf.
#[inline(always)]
fn clear<K: TreeKey, M: Media, const LINES: usize>(
    media: &M,
    leaf: &Leaf<LINES>,
    slot: Slot<'_>,
    half: u64,
    steps: &mut dyn LinkSteps,
) -> Result<(bool, Done)> {
    // R1: what the steps prepare. Crash: the key is there.
    steps.prepare(Some(media.load(slot.value())))?;
    media.fence(site!("linetree.link.R1.fence"));
    // R2 COMMIT: one p-atomic store, and the rest of the steps. Crash: as after N2.
    let (word, is_last) = leave::<K, M, LINES>(media, leaf, slot, half, |_| true);
    media.store(slot.key(), word);
    media.flush(site!("linetree.link.R2.entry"), slot.key());
    let completed = steps.complete();
    let is_empty = is_last && has_no_other(media, leaf, slot);
    media.fence(site!("linetree.link.R2.fence"));
    Ok((is_empty, Done(completed)))
}

/// The entry is changed, durably; the inner result is that of the steps.
#[must_use]
struct Done(Result<()>);
