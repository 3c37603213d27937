//! Scans: along the path from the root, leaf by leaf.

use std::ops::{Bound, ControlFlow, Range};

use everleaf_index::{Direction, IndexError, Visit};
use everleaf_pmem::Media;

use super::node::Node;
use super::search::Nodes;
use super::{LcbTree, word_of};
use everleaf_tree::key::TreeKey;
use everleaf_tree::path::{Path, first_slot};

impl<'p, M: Media> Nodes<'p, M> {
    /// The leaf behind that of a path, to which the path leads then.
    fn next_leaf(
        self,
        path: &mut Path,
        direction: Direction,
    ) -> Result<Option<Node<'p>>, IndexError> {
        let Some(step) = path.turn(direction) else { return Ok(None) };
        let child = self.child(self.node(step.offset)?, step.slot)?;
        let down =
            |node: Node<'_>| node.expect_element().map(|()| first_slot(direction, node.count()));
        self.descend_from(child, path, down).map(Some)
    }

    /// The slots of a leaf on this side of the bound.
    fn within(self, leaf: Node<'_>, bound: Bound<u64>, direction: Direction) -> Range<usize> {
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
}

impl<K: TreeKey, M: Media> LcbTree<K, M> {
    /// Visits entries in key order from `from` on.
    pub(super) fn scan_from(
        &self,
        from: Bound<K::Ref<'_>>,
        direction: Direction,
        visit: &mut Visit<'_, K>,
    ) -> Result<(), IndexError> {
        let (nodes, records) = (self.nodes(), self.pool.pin());
        let media = nodes.media();
        let mut bound = match from {
            Bound::Included(key) => Bound::Included(word_of::<K>(key)),
            Bound::Excluded(key) => Bound::Excluded(word_of::<K>(key)),
            Bound::Unbounded => Bound::Unbounded,
        };
        let (mut path, mut leaf) = nodes.descend(match (bound, direction) {
            (Bound::Included(key) | Bound::Excluded(key), _) => key,
            (Bound::Unbounded, Direction::Forward) => 0,
            (Bound::Unbounded, Direction::Backward) => u64::MAX,
        })?;
        let mut show = |leaf: Node<'_>, slot| -> Result<ControlFlow<()>, IndexError> {
            let [_, key, value] = leaf.element(media, slot);
            Ok(visit(K::read(&records, key)?, &[value]))
        };
        loop {
            let mut slots = nodes.within(leaf, bound, direction);
            bound = Bound::Unbounded;
            while let Some(slot) = match direction {
                Direction::Forward => slots.next(),
                Direction::Backward => slots.next_back(),
            } {
                if show(leaf, slot)?.is_break() {
                    return Ok(());
                }
            }
            match nodes.next_leaf(&mut path, direction)? {
                Some(next) => leaf = next,
                None => return Ok(()),
            }
        }
    }
}
