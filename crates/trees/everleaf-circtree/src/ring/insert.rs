//! Inserting: into the dead slot before the first or after the last entry, or into the slot that
//! the shift of the fewer neighbours has opened.
//!
//! At an end: 2 flushes, 2 fences. Elsewhere, where the moved entries and the new one lie in `n`
//! lines: n + 1 flushes, n + 1 fences.

use everleaf_pmem::{Counter, Media, site};

use super::super::layout::{ShiftStep, State};
use super::super::node::Node;
use super::shift::{Moves, rings, shift};
use everleaf_tree::key::TreeKey;
use everleaf_tree::steps::Steps;

/// Puts an entry before position `at` of a node that has room, at rest. No other thread has the
/// node. `steps` complete behind the first fence, which comes before the commit.
pub(crate) fn insert_entry<K: TreeKey, M: Media>(
    media: &M,
    node: Node<'_>,
    state: State,
    at: usize,
    (key, value): (u64, u64),
    steps: &mut Steps,
) {
    let count = usize::from(state.count);
    if at == count {
        let after = state.with_step(ShiftStep::InsertUp, 0).after_step(node.slots());
        return insert_at_end::<K, M>(
            media,
            node,
            state,
            node.slot(state, count),
            after,
            (key, value),
            steps,
        );
    }
    if at == 0 && rings(node) {
        let after = state.with_step(ShiftStep::InsertDown, 0).after_step(node.slots());
        return insert_at_end::<K, M>(
            media,
            node,
            state,
            node.slot(state, usize::MAX),
            after,
            (key, value),
            steps,
        );
    }
    // The nearer side: fewer entries move.
    let down = rings(node) && at < count - at;
    let intent =
        state.with_step(if down { ShiftStep::InsertDown } else { ShiftStep::InsertUp }, at);
    let moves = Moves::of(node, intent);
    // P1: the step is announced. Crash, before its first move is whole: the entries stand as they
    // did.
    if media.load(&node.head.key) != key {
        media.store(&node.head.key, key);
    }
    media.store(&node.head.edge, media.load(node.value(moves.source(0))));
    media.order(site!("circtree.insert.P1.order"));
    media.store(&node.head.state, intent.seal());
    media.flush(site!("circtree.insert.P1.header"), &node.head.state);
    media.fence(site!("circtree.insert.P1.fence"));
    steps.complete();
    // P2: the moves, and room for the new entry. Crash: recovery takes them back.
    shift(media, node, moves, 0, true);
    // P3 COMMIT: the entry, its key last. Crash: recovery looks for the announced key where it
    // belongs.
    media.store(node.value(moves.hole()), value);
    media.order(site!("circtree.insert.P3.order"));
    media.store(node.key(moves.hole()), key);
    media.flush(site!("circtree.insert.P3.entry"), node.key(moves.hole()));
    media.fence(site!("circtree.insert.P3.fence"));
    // P4: at rest. Not flushed: until it is durable, with whatever the header says next, recovery
    // finds the key and knows.
    media.store(&node.head.state, intent.after_step(node.slots()).seal());
    forget_key::<K, M>(media, node);
    media.count(Counter::EntriesShifted, moves.count as u64);
}

/// Puts an entry into a dead slot beside the others.
#[inline(always)]
fn insert_at_end<K: TreeKey, M: Media>(
    media: &M,
    node: Node<'_>,
    state: State,
    slot: usize,
    after: State,
    (key, value): (u64, u64),
    steps: &mut Steps,
) {
    if state.vacated {
        // E0: a removal is known to be done by what the slot that it vacated holds, until the
        // header says so, durably.
        media.store(&node.head.state, state.without_step().seal());
        media.flush(site!("circtree.insert.E0.header"), &node.head.state);
        media.fence(site!("circtree.insert.E0.fence"));
    }
    // E1: the entry. Crash: its slot is dead.
    media.store(node.key(slot), key);
    media.store(node.value(slot), value);
    media.flush(site!("circtree.insert.E1.entry"), node.key(slot));
    media.fence(site!("circtree.insert.E1.fence"));
    steps.complete();
    // E2 COMMIT: one entry more.
    media.store(&node.head.state, after.seal());
    forget_key::<K, M>(media, node);
    media.flush(site!("circtree.insert.E2.header"), &node.head.state);
    media.fence(site!("circtree.insert.E2.fence"));
}

/// The header forgets the record that an entry has now. Crash before it is durable: recovery finds
/// the record among the entries.
#[inline(always)]
fn forget_key<K: TreeKey, M: Media>(media: &M, node: Node<'_>) {
    if K::RECORDS {
        media.order(site!("circtree.insert.P4.order"));
        media.store(&node.head.key, 0);
    }
}
