//! What a crash has left of a step: ended, or looked at as it will be once it is ended.

use everleaf_pmem::{Media, site};

use super::super::layout::{ShiftStep, State};
use super::super::node::Node;
use super::remove::finish_removal;
use super::shift::{Moves, shift_back};

/// Ends a step.
pub(crate) fn end_step<M: Media>(media: &M, node: Node<'_>, state: State) -> State {
    let moves = Moves::of(node, state);
    let settled = if !state.step.inserts() {
        finish_removal(media, node, moves, moves.done(media, node));
        state.after_step(node.slots())
    } else if media.load(node.key(moves.hole())) == media.load(&node.head.key) {
        state.after_step(node.slots())
    } else {
        shift_back(media, node, moves, media.load(&node.head.edge));
        state.without_step()
    };
    // B3: at rest. Crash: all of the above is done again, and changes nothing.
    media.store(&node.head.state, settled.seal());
    media.flush(site!("sorted.recover.B3.header"), &node.head.state);
    media.fence(site!("sorted.recover.B3.fence"));
    settled
}

/// The entries of a node as they are once its step is ended.
pub(crate) fn resolved<M: Media>(media: &M, node: Node<'_>, state: State) -> Vec<(u64, u64)> {
    let moves = Moves::of(node, state);
    let done = moves.done(media, node);
    let inserted =
        state.step.inserts() && media.load(node.key(moves.hole())) == media.load(&node.head.key);
    if state.step == ShiftStep::Rest || inserted {
        let state = state.after_step(node.slots());
        return (0..usize::from(state.count))
            .map(|position| node.entry(media, state, position))
            .collect();
    }
    let edge = state.step.inserts().then(|| media.load(&node.head.edge));
    let (at, count) = (usize::from(state.at), usize::from(state.count));
    let entry = |position: usize| {
        let index = match state.step {
            ShiftStep::InsertUp if position >= at => count - 1 - position,
            ShiftStep::InsertDown if position < at => position,
            ShiftStep::RemoveUp if position < at => at - 1 - position,
            ShiftStep::RemoveDown if position > at => position - at - 1,
            _ => return node.entry(media, state, position),
        };
        moves.entry(media, node, index, done, edge)
    };
    (0..count).filter(|position| state.step.inserts() || *position != at).map(entry).collect()
}
