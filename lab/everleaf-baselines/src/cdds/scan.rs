//! Scans: along the path from the root, leaf by leaf.

use std::ops::{Bound, Range};

use everleaf_index::{Direction, Result};
use everleaf_pmem::Media;

use super::node::Node;
use super::search::{Nodes, Path, Step};
use crate::shared::LinkedLeaves;

impl<'p, M: Media> LinkedLeaves for Nodes<'p, M> {
    type Path = Path<'p>;
    type Leaf = Node<'p>;

    fn way_to(self, key: u64) -> Result<(Self::Path, Self::Leaf)> {
        self.descend(key)
    }

    fn next_leaf(self, path: &mut Self::Path, direction: Direction) -> Result<Option<Self::Leaf>> {
        let media = self.media();
        let first = |node: Node<'p>| {
            let live = match direction {
                Direction::Forward => node.live_from(media, 0),
                Direction::Backward => node.live_before(media, node.slots()),
            };
            live.ok_or_else(|| node.damaged("an inner node leads nowhere"))
        };
        while let Some(Step { node, slot }) = path.pop() {
            let next = match direction {
                Direction::Forward => node.live_from(media, slot + 1),
                Direction::Backward => node.live_before(media, slot),
            };
            if let Some(slot) = next {
                path.push(node, slot);
                return self.descend_from(self.child(node, slot)?, path, first).map(Some);
            }
        }
        Ok(None)
    }

    fn within(self, leaf: Self::Leaf, bound: Bound<u64>, direction: Direction) -> Range<usize> {
        let (media, forward) = (self.media(), direction == Direction::Forward);
        let from = |key, included: bool| {
            let equal_is_before = included != forward;
            leaf.partition(media, |other| other < key || other == key && equal_is_before)
        };
        let middle = match bound {
            Bound::Unbounded => return 0..leaf.slots(),
            Bound::Included(key) => from(key, true),
            Bound::Excluded(key) => from(key, false),
        };
        if forward { middle..leaf.slots() } else { 0..middle }
    }

    fn entry(self, leaf: Node<'p>, slot: usize) -> Option<(u64, u64)> {
        let media = self.media();
        let entry = || (media.load(leaf.key(slot)), media.load(leaf.value(slot)));
        leaf.is_live(media, slot).then(entry)
    }
}
