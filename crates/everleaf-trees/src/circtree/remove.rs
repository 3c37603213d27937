//! Removing: the first or last entry by the state word alone, another by shifting the fewer neighbours over it.
//!
//! At an end: 1 flush, 1 fence. Elsewhere, where entries move into `n` lines: n + 1 flushes, n + 1
//! fences. A leaf that is left with few entries: a merge besides, if its neighbour has room.

use everleaf_index::IndexError;
use everleaf_pmem::{Counter, Media, site};

use super::CircTree;
use super::key::NodeKey;
use super::layout::{State, Step};
use super::node::Node;
use super::search::Locked;
use super::shift::{Moves, shift};

impl<K: NodeKey, M: Media> CircTree<K, M> {
    /// Removes a key; its value if it was present.
    #[inline]
    pub(super) fn remove(&self, key: K::Ref<'_>) -> Result<Option<u64>, IndexError> {
        let Some(locked) = self.lock_leaf(key, |present| present)? else { return Ok(None) };
        let media = self.pool.media();
        let old = locked.value(media);
        let Locked { node, state, rank, guard, .. } = locked;
        self.keys.add(node.offset, -1); // Before the fences, as in an insertion.
        remove_entry::<K, M>(media, node, state, rank - 1);
        if K::RECORDS {
            // P4: its record is freed. Crash: the header has it, and no entry.
            K::discard(&mut *self.workers.lease()?, &node.head.key)?;
        }
        drop(guard);
        if self.wants_merge(usize::from(state.count) - 1) {
            self.merge(key)?;
        }
        Ok(old)
    }
}

/// Takes the entry at position `at` from a node at rest; its record, if it has one, is the header's then, and is to be freed. The caller has
/// the node for himself.
pub(super) fn remove_entry<K: NodeKey, M: Media>(media: &M, node: Node<'_>, state: State, at: usize) {
    let (after, last) = (usize::from(state.count) - 1 - at, usize::from(state.count) - 1);
    if K::RECORDS {
        // Before the state: whoever finds the record in the header looks whether an entry has it.
        media.store(&node.head.key, media.load(node.key(node.slot(state, at))));
        media.order(site!("circtree.remove.P1.order"));
    }
    if at == last || at == 0 && node.ring {
        // E1 COMMIT: one entry less; its slot is dead.
        let step = if at == last { Step::RemoveDown } else { Step::RemoveUp };
        media.store(&node.head.state, state.with_step(step, at).after_step(node.slots()).seal());
        media.flush(site!("circtree.remove.E1.header"), &node.head.state);
        media.fence(site!("circtree.remove.E1.fence"));
        return;
    }
    let up = node.ring && at < after;
    let intent = state.with_step(if up { Step::RemoveUp } else { Step::RemoveDown }, at);
    let moves = Moves::of(node, intent);
    // P1 COMMIT: the step is announced. Crash: recovery makes the moves that are missing.
    media.store(&node.head.state, intent.seal());
    media.flush(site!("circtree.remove.P1.header"), &node.head.state);
    media.fence(site!("circtree.remove.P1.fence"));
    finish_removal(media, node, moves, 0);
    // P3: at rest. Not flushed: until it is durable the vacated slot, which still holds its old key, tells recovery that all
    // moves were made. Whoever writes there next sees to it first. (The freeing of a record flushes it.)
    media.store(&node.head.state, State { vacated: !K::RECORDS, ..intent.after_step(node.slots()) }.seal());
    media.count(Counter::EntriesShifted, moves.count as u64);
}

/// Makes the moves of a removal from number `from` on, durably.
pub(super) fn finish_removal<M: Media>(media: &M, node: Node<'_>, moves: Moves, from: usize) {
    if from == moves.count {
        return;
    }
    // P2: the moves. Crash: recovery makes the others.
    shift(media, node, moves, from, false);
    media.flush(site!("circtree.remove.P2.entry"), node.key(moves.destination(moves.count - 1)));
    media.fence(site!("circtree.remove.P2.fence"));
}
