//! The way from the root of a B+-tree to a leaf. By it scans find the next leaf, where leaves have
//! no links.

use everleaf_index::Direction;

/// Levels that a tree can have at most.
pub const MAX_LEVELS: usize = 24;

/// A node on a path, which of its children the path goes on through, and how many it has.
#[derive(Clone, Copy, Default)]
pub struct Step {
    /// Where the node is in the pool.
    pub offset: u64,
    /// The child that the path goes on through.
    pub slot: usize,
    /// How many children it has.
    pub count: usize,
}

/// The way from the root to a leaf.
#[derive(Default)]
pub struct Path {
    steps: [Step; MAX_LEVELS],
    len: usize,
}

impl Path {
    /// The steps, that of the root first, that of the leaf last.
    pub fn steps(&self) -> &[Step] {
        &self.steps[..self.len]
    }

    /// Whether it has room for a node so many levels above the leaves, and for what is below.
    pub fn has_room(&self, level: u8) -> bool {
        self.len + usize::from(level) < MAX_LEVELS
    }

    /// Adds a step: levels of nodes bound how many there are.
    pub fn push(&mut self, step: Step) {
        self.steps[self.len] = step;
        self.len += 1;
    }

    /// Ends the path at the lowest inner node that has another child in this direction, through
    /// which it goes on now. None, if the leaf is the last one.
    pub fn turn(&mut self, direction: Direction) -> Option<Step> {
        let has_more = |step: &Step| match direction {
            Direction::Forward => step.slot + 1 < step.count,
            Direction::Backward => step.slot > 0,
        };
        let inner = &mut self.steps[..self.len.saturating_sub(1)];
        let turn = inner.iter().rposition(has_more)?;
        let step = &mut inner[turn];
        step.slot = match direction {
            Direction::Forward => step.slot + 1,
            Direction::Backward => step.slot - 1,
        };
        self.len = turn + 1;
        Some(*step)
    }
}

/// The first slot in a direction among so many.
pub fn first_slot(direction: Direction, count: usize) -> usize {
    match direction {
        Direction::Forward => 0,
        Direction::Backward => count.saturating_sub(1),
    }
}
