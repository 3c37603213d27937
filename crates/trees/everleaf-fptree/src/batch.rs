//! Changing many entries together with what they lead to: the whole order of persistence of a
//! batch, for both trees.
//!
//! ```text
//! P1         new entries in dead slots                      flush each line, fence
//! P2 COMMIT  the steps': the batch counts                   theirs, and a fence
//! P3         words of present keys; fingerprints, bitmaps;  flush each line, fence
//!            the rest of the steps
//! P4         the rest of the steps, where they were not in P3             theirs, fence
//! ```
//!
//! Crash before P2: the slots are dead, what is in them means nothing. After it: any mixture of
//! entries that are as they were and as they will be; recovery makes each change once more, as an
//! operation of its own, which changes nothing where it is made already.
//!
//! # Rounds
//! A batch is worked off in the order in which it comes, once: words, by keys, then removals, by
//! keys. A *round* is the longest piece of what is left that needs at most [`MAX_LEAVES`] leaves
//! and meets no change that must be made by itself: a new key whose leaf has no dead slot, or the
//! removal of the last key of a leaf. Such a change follows the round, as an ordinary operation
//! with fences of its own, when no leaf is locked; the next round begins behind it. P2 is in the
//! first round only. Each round is durable when its leaves are unlocked: a split that follows
//! relies on the bitmap that it reads. What is refused for want of room is an ordinary operation:
//! all before it is durable, and no key was removed yet.
//!
//! Recovery makes no change of a key that was written since, although leaves are unlocked before
//! the batch is forgotten: the caller keeps its keys from others until then.
//!
//! The leaves of a round are locked from when their entries are prepared until P3 is fenced: in the
//! first round over the two fences of the commit too, up to 128 leaves. A leaf that another thread
//! has locked is waited for only while this thread has none; else it ends the round. So batches
//! cannot wait for each other, although leaves share locks in no order. Who has leaves locked does
//! not wait for threads that wait for leaves: inner nodes are locked by those who change them,
//! under the lock of one leaf that they have already.
//!
//! Flushes: the lines of the entries, one for each leaf whose bitmap changes, those of the words
//! (PTree: those of key words and of words apart). Fences: 1 beside the two of the commit; each
//! round but the first, 2, or 1 if it adds no key; what is made by itself besides, and 1 if it
//! comes last.

use everleaf_index::{BatchSteps, Changes, Result};
use everleaf_pmem::{Media, planted, site};
use everleaf_pool::Pool;

use super::entry::key_word;
use super::layout::{Shape, SlotSet};
use super::leaf::Leaf;
use super::search::{candidates, probe};
use everleaf_tree::key::{KeyHash, TreeKey};

/// Leaves that a round has locked at most.
pub(super) const MAX_LEAVES: usize = 128;

/// What the two trees do in their own ways.
pub(super) trait BatchTree<K: TreeKey, S> {
    /// Keeps other threads away from a leaf until it is dropped.
    type Hold;

    /// Where the leaf that covers a key is, and its lock: from here on no other thread changes it,
    /// nor what it covers. The leaf may be the last one of those that the round has already. None
    /// if another thread has it, unless the round has no leaf: then it is waited for.
    fn hold(
        &mut self,
        key: K::Ref<'_>,
        held: &[HeldLeaf<'_, S, Self::Hold>],
    ) -> Option<(u64, Self::Hold)>;

    /// Counts keys that have come or gone in leaves of which this holds one.
    fn count(&mut self, hold: &Self::Hold, change: i64);

    /// Makes one change as an ordinary operation, durably. No leaf is held.
    fn change(&mut self, key: K::Ref<'_>, new: Option<u64>) -> Result<()>;
}

/// A leaf of a round.
pub(super) struct HeldLeaf<'p, S, H> {
    /// Where it is.
    pub offset: u64,
    /// What keeps others away.
    pub hold: H,
    leaf: Leaf<'p, S>,
    /// Its bitmap.
    live: SlotSet,
    /// Its bitmap after P3.
    after: SlotSet,
    /// Live slots that get another word.
    replaced: SlotSet,
}

/// A piece of a batch.
struct Round<'p, S, H> {
    leaves: Vec<HeldLeaf<'p, S, H>>,
    /// Of a leaf, by its number above, a slot, and the hash of the key that was put there.
    added: Vec<(usize, usize, KeyHash)>,
    /// Of a leaf a slot, and its new word.
    replaced: Vec<(usize, usize, u64)>,
    /// How many changes it makes.
    changes: usize,
    /// Whether the change behind it must be made by itself.
    blocked: bool,
}

/// Makes the changes of a batch, of a shape that makes all [`Links`](everleaf_index::Links).
pub(super) fn link_all<K: TreeKey, M: Media, S: Shape>(
    tree: &mut impl BatchTree<K, S>,
    pool: &Pool<M>,
    shape: S,
    changes: &Changes<'_, K>,
    steps: &mut dyn BatchSteps,
) -> Result<()> {
    debug_assert!(changes.is_sorted_by(|(a, x), (b, y)| (x.is_none(), a) < (y.is_none(), b)));
    changes.iter().try_for_each(|(key, _)| K::admit(*key))?;
    let media = pool.media();
    let mut rest = changes;
    let mut committed = false;
    while !rest.is_empty() {
        let round = gather(tree, pool, shape, rest)?;
        flush_added(media, &round.leaves);
        if !committed {
            // P2 COMMIT.
            steps.commit()?;
            committed = true;
        } else if !round.added.is_empty() {
            media.fence(site!("fptree.batch.P1.fence"));
        }
        // The first change is in the round, or must be made by itself.
        let (behind, blocked) = (&rest[round.changes..], round.blocked);
        publish(tree, media, round, behind.is_empty().then_some(&mut *steps))?;
        rest = behind;
        if blocked && let Some(((key, new), behind)) = rest.split_first() {
            tree.change(*key, *new)?;
            rest = behind;
            if rest.is_empty() {
                let completed = steps.complete();
                media.fence(site!("fptree.batch.P4.fence"));
                completed?;
            }
        }
    }
    Ok(())
}

/// P1: takes as many changes as a round can, and puts new entries into dead slots, without a
/// flush.
fn gather<'p, K: TreeKey, M: Media, S: Shape, T: BatchTree<K, S>>(
    tree: &mut T,
    pool: &'p Pool<M>,
    shape: S,
    changes: &Changes<'_, K>,
) -> Result<Round<'p, S, T::Hold>> {
    let media = pool.media();
    let (leaves, added, replaced) = (Vec::new(), Vec::new(), Vec::new());
    let mut round = Round { leaves, added, replaced, changes: 0, blocked: false };
    let removes = changes.first().is_some_and(|(_, new)| new.is_none());
    for (key, new) in changes {
        if new.is_none() != removes {
            break;
        }
        let Some((offset, hold)) = tree.hold(*key, &round.leaves) else { break };
        if round.leaves.last().is_none_or(|last| last.offset != offset) {
            if round.leaves.len() == MAX_LEAVES {
                break;
            }
            let leaf = Leaf::at(media.region(), offset, shape)?;
            let (live, replaced) = (leaf.live(media), SlotSet::EMPTY);
            round.leaves.push(HeldLeaf { offset, hold, leaf, live, after: live, replaced });
        }
        let number = round.leaves.len() - 1;
        let held = &mut round.leaves[number];
        let hash = K::hash(*key);
        let (_, slots) = candidates(media, held.leaf, hash);
        let found = probe::<K, M, S>(pool, held.leaf, slots, *key, hash)?;
        match (found, new) {
            (None, None) => {}
            (Some(slot), Some(word)) => {
                held.replaced = held.replaced.with(slot);
                round.replaced.push((number, slot, *word));
            }
            (Some(slot), None) => {
                let after = held.after.without(slot);
                if after.is_empty() {
                    round.blocked = true;
                    break;
                }
                held.after = after;
            }
            (None, Some(word)) => {
                let dead = shape.dead_slot(held.after, hash);
                let (Some(slot), Some(key)) = (dead, key_word::<K, S>(shape, *key, hash)) else {
                    round.blocked = true;
                    break;
                };
                media.store(held.leaf.key(slot), key);
                held.leaf.store_value(media, slot, &[*word]);
                held.after = held.after.with(slot);
                round.added.push((number, slot, hash));
            }
        }
        round.changes += 1;
    }
    Ok(round)
}

/// P1: the lines of the new entries. Crash: their slots are dead.
fn flush_added<M: Media, S: Shape, H>(media: &M, leaves: &[HeldLeaf<'_, S, H>]) {
    for HeldLeaf { leaf, live, after, .. } in leaves {
        let (entry, value) = (site!("fptree.batch.P1.entry"), site!("fptree.batch.P1.value"));
        leaf.flush_entries(media, entry, value, after.minus(*live));
    }
}

/// P3: makes the changes of a round, and those of `steps` where it is the last, and lets go of its
/// leaves.
fn publish<K: TreeKey, M: Media, S: Shape, T: BatchTree<K, S>>(
    tree: &mut T,
    media: &M,
    Round { leaves, added, replaced, .. }: Round<'_, S, T::Hold>,
    steps: Option<&mut dyn BatchSteps>,
) -> Result<()> {
    // P3. Crash: in any mixture; each change is made again.
    for (number, slot, word) in replaced {
        leaves[number].leaf.store_value(media, slot, &[word]);
    }
    for HeldLeaf { leaf, replaced, .. } in &leaves {
        leaf.flush_values(media, site!("fptree.batch.P3.value"), *replaced);
    }
    // In each leaf its fingerprints, then its bitmap, in one line.
    if S::FINGERPRINTS && !added.is_empty() {
        for (number, slot, hash) in added {
            planted!(224, media.store(leaves[number].leaf.bitmap(), leaves[number].after));
            leaves[number].leaf.store_fingerprint(media, slot, hash.fingerprint());
        }
        media.order(site!("fptree.batch.P3.order"));
    }
    let mut keys = 0;
    for HeldLeaf { leaf, live, after, .. } in leaves.iter().filter(|held| held.after != held.live) {
        media.store(leaf.bitmap(), *after);
        media.flush(site!("fptree.batch.P3.bitmap"), leaf.bitmap());
        keys += after.count() as i64 - live.count() as i64;
    }
    let is_last = steps.is_some();
    let completed = steps.map_or(Ok(()), BatchSteps::complete);
    let is_changed =
        |held: &HeldLeaf<'_, S, T::Hold>| held.after != held.live || !held.replaced.is_empty();
    if is_last || leaves.iter().any(is_changed) {
        media.fence(site!("fptree.batch.P3.fence"));
    }
    if let Some(held) = leaves.first() {
        tree.count(&held.hold, if planted(225) { 0 } else { keys });
    }
    completed
}
