//! Moving entries of a node by one slot, and what a crash in the middle of it has left.
//!
//! A step moves a row of neighbouring entries, one after the other, each into the slot that the one
//! before it has left (the first one into a dead slot, or over the entry that is removed). It is
//! announced in the header, durably, before it begins: that costs no more than the paper's flush of
//! the header at its end, for *that the step is done* need not be flushed at all (`insert`,
//! `remove`). Each move is two stores, value first, then key.
//!
//! # What tells how far it came
//! Keys of a node differ, whatever its values are. While a step is under way exactly one pair of
//! neighbouring slots has the same key: the last move that is whole, whose source has not been
//! overwritten yet. Its *destination* is right, its source may have the next entry's value already.
//! So the states that a crash can leave are, of `n` moves, before the first one, and after each of
//! them, with the value of the next or without it. Two things could deceive:
//! * The slot that the first move of an insertion goes to is dead; it may happen to hold that very
//!   key, with any value. So the value is in the header (`edge`), and taken from there.
//! * The first move of a removal overwrites the removed entry: with its value only, the removed key
//!   has a wrong one. So the announcement is the commit of a removal, and recovery goes on.
//!
//! # Order
//! S1 value before key, within a line. S2 a move before the next one: within a line by order; if
//! the destination lies in another line than the source it is flushed and fenced, as in the paper.

use everleaf_pmem::{Media, planted, site};

use super::super::layout::{Discipline, ShiftStep, State};
use super::super::node::Node;

/// Whether entries move to the nearer side.
#[inline(always)]
pub(super) fn rings(node: Node<'_>) -> bool {
    node.discipline == Discipline::Ring
}

/// The moves of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moves {
    /// The slot that is moved first.
    first: usize,
    /// How many.
    pub count: usize,
    /// Each goes to the next greater slot.
    up: bool,
    mask: usize,
}

impl Moves {
    /// Those of the step that a state announces.
    pub fn of(node: Node<'_>, state: State) -> Self {
        let (at, entries) = (usize::from(state.at), usize::from(state.count));
        let (position, count, up) = match state.step {
            ShiftStep::Rest => (0, 0, true),
            ShiftStep::InsertUp => (entries - 1, entries - at, true),
            ShiftStep::InsertDown => (0, at, false),
            ShiftStep::RemoveUp => (at - 1, at, true),
            ShiftStep::RemoveDown => (at + 1, entries - 1 - at, false),
        };
        Self { first: node.slot(state, position), count, up, mask: node.slots() - 1 }
    }

    /// The slot that the move takes its entry from.
    #[inline(always)]
    pub fn source(self, index: usize) -> usize {
        (if self.up { self.first.wrapping_sub(index) } else { self.first + index }) & self.mask
    }

    /// The slot where it goes.
    #[inline(always)]
    pub fn destination(self, index: usize) -> usize {
        (if self.up { self.source(index) + 1 } else { self.source(index).wrapping_sub(1) })
            & self.mask
    }

    /// The slot that the last move leaves: where an insertion puts its entry.
    pub fn hole(self) -> usize {
        self.source(self.count - 1)
    }

    /// How many of the moves a crash has left whole.
    pub fn done<M: Media>(self, media: &M, node: Node<'_>) -> usize {
        let whole = |index: &usize| {
            media.load(node.key(self.source(*index)))
                == media.load(node.key(self.destination(*index)))
        };
        (0..self.count).find(whole).map_or(0, |last| last + usize::from(!planted(246)))
    }

    /// The words of the entry that a move moves, when `done` of the moves were made: `edge` is the
    /// value that the first of an insertion had.
    pub fn entry<M: Media>(
        self,
        media: &M,
        node: Node<'_>,
        index: usize,
        done: usize,
        edge: Option<u64>,
    ) -> (u64, u64) {
        if index >= done {
            return node.load(media, self.source(index));
        }
        let (key, value) = node.load(media, self.destination(index));
        (key, edge.filter(|_| index == 0).unwrap_or(value))
    }
}

/// Makes the moves from number `from` on. `refilled`: the slot that the last one leaves is written
/// to next; else its destination is to be flushed by the caller.
#[inline(always)]
pub(super) fn shift<M: Media>(
    media: &M,
    node: Node<'_>,
    moves: Moves,
    from: usize,
    refilled: bool,
) {
    for index in from..moves.count {
        let (source, destination) = (moves.source(index), moves.destination(index));
        let (key, value) = node.load(media, source);
        planted!(245, media.store(node.key(destination), key));
        media.store(node.value(destination), value);
        media.order(site!("circtree.shift.S1.order"));
        media.store(node.key(destination), key);
        if index + 1 == moves.count && !refilled {
            break;
        }
        if Node::share_line(source, destination) {
            media.order(site!("circtree.shift.S2.order"));
        } else {
            media.flush(site!("circtree.shift.S2.line"), node.key(destination));
            media.fence(site!("circtree.shift.S2.fence"));
        }
    }
}

/// Takes the moves of an insertion back, the last one first, so that at every moment the state is
/// one that the same moves could have left. Durable when it returns.
pub(super) fn shift_back<M: Media>(media: &M, node: Node<'_>, moves: Moves, edge: u64) {
    let done = moves.done(media, node);
    for index in (0..done).rev() {
        let (source, destination) = (moves.source(index), moves.destination(index));
        let (key, value) = node.load(media, destination);
        if index + 1 < done {
            // The key first: the destination stays the right one of the two.
            media.store(node.key(source), key);
            media.order(site!("sorted.recover.B1.order"));
        }
        media.store(node.value(source), if index == 0 { edge } else { value });
        if index == 0 || !Node::share_line(source, destination) {
            media.flush(site!("sorted.recover.B2.line"), node.key(source));
            // Before the next line is stored to; and behind the last move, before the header says
            // that the node is at rest.
            media.fence(if index > 0 {
                site!("sorted.recover.B2.fence")
            } else {
                site!("sorted.recover.B3.undone")
            });
        } else {
            media.order(site!("sorted.recover.B2.order"));
        }
    }
}
