//! Scans: along the path from the root, leaf by leaf.

use std::ops::{Bound, Range};

use everleaf_index::{Direction, Result};
use everleaf_pmem::Media;

use super::node::Node;
use super::search::Nodes;
use crate::shared::LinkedLeaves;
use everleaf_tree::path::{Path, first_slot};

impl<'p, M: Media> LinkedLeaves for Nodes<'p, M> {
    type Path = Path;
    type Leaf = Node<'p>;

    fn way_to(self, key: u64) -> Result<(Self::Path, Self::Leaf)> {
        self.descend(key)
    }

    fn next_leaf(self, path: &mut Self::Path, direction: Direction) -> Result<Option<Self::Leaf>> {
        let Some(step) = path.turn(direction) else { return Ok(None) };
        let child = self.child(self.node(step.offset)?, step.slot)?;
        let down =
            |node: Node<'_>| node.expect_element().map(|()| first_slot(direction, node.count()));
        self.descend_from(child, path, down).map(Some)
    }

    fn within(self, leaf: Self::Leaf, bound: Bound<u64>, direction: Direction) -> Range<usize> {
        let media = self.media();
        let from = |key, included| {
            let slot = leaf.slot_of(media, key);
            let equal_is_before = included == (direction == Direction::Backward);
            slot.map_or_else(|slot| slot, |slot| slot + usize::from(equal_is_before))
        };
        let middle = match bound {
            Bound::Unbounded => return 0..leaf.count(),
            Bound::Included(key) => from(key, true),
            Bound::Excluded(key) => from(key, false),
        };
        match direction {
            Direction::Forward => middle..leaf.count(),
            Direction::Backward => 0..middle,
        }
    }

    fn entry(self, leaf: Node<'p>, slot: usize) -> Option<(u64, u64)> {
        let [_, key, value] = leaf.element(self.media(), slot);
        Some((key, value))
    }
}
