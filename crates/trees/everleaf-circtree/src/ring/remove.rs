//! Removing: the first or last entry by the state word alone, another by shifting the fewer
//! neighbours over it.
//!
//! At an end: 1 flush, 1 fence. Elsewhere, where entries move into `n` lines: n + 1 flushes, n + 1
//! fences.

use everleaf_pmem::{Counter, Media, site};

use super::super::layout::{ShiftStep, State};
use super::super::node::Node;
use super::shift::{Moves, rings, shift};
use everleaf_tree::key::TreeKey;

/// Takes the entry at position `at` from a node at rest; its record, if it has one, is the header's
/// then, and is to be freed. No other thread has the node.
pub(crate) fn remove_entry<K: TreeKey, M: Media>(
    media: &M,
    node: Node<'_>,
    state: State,
    at: usize,
) {
    let (after, last) = (usize::from(state.count) - 1 - at, usize::from(state.count) - 1);
    if K::RECORDS {
        // Before the state: recovery, which finds the record in the header, looks whether an entry
        // has it.
        media.store(&node.head.key, media.load(node.key(node.slot(state, at))));
        media.order(site!("circtree.remove.P1.order"));
    }
    if at == last || at == 0 && rings(node) {
        // E1 COMMIT: one entry less; its slot is dead.
        let step = if at == last { ShiftStep::RemoveDown } else { ShiftStep::RemoveUp };
        media.store(&node.head.state, state.with_step(step, at).after_step(node.slots()).seal());
        media.flush(site!("circtree.remove.E1.header"), &node.head.state);
        media.fence(site!("circtree.remove.E1.fence"));
        return;
    }
    let up = rings(node) && at < after;
    let intent = state.with_step(if up { ShiftStep::RemoveUp } else { ShiftStep::RemoveDown }, at);
    let moves = Moves::of(node, intent);
    // P1 COMMIT: the step is announced. Crash: recovery makes the moves that are missing.
    media.store(&node.head.state, intent.seal());
    media.flush(site!("circtree.remove.P1.header"), &node.head.state);
    media.fence(site!("circtree.remove.P1.fence"));
    finish_removal(media, node, moves, 0);
    // P3: at rest. Not flushed: until it is durable the vacated slot, which still holds its old
    // key, tells recovery that all moves were made. The next writer of it flushes that first.
    // (The freeing of a record flushes it.)
    media.store(
        &node.head.state,
        State { vacated: !K::RECORDS, ..intent.after_step(node.slots()) }.seal(),
    );
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
