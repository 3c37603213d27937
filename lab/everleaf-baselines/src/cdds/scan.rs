//! Scans: along the path from the root, leaf by leaf.

use std::ops::{Bound, ControlFlow, Range};

use everleaf_index::{Direction, IndexError, Visit};
use everleaf_pmem::Media;

use super::node::Node;
use super::search::{Nodes, Path, Step};
use super::{CddsTree, word_of};
use everleaf_tree::key::TreeKey;

impl<'p, M: Media> Nodes<'p, M> {
    /// The leaf behind that of a path, to which the path leads then.
    fn next_leaf(
        self,
        path: &mut Path<'p>,
        direction: Direction,
    ) -> Result<Option<Node<'p>>, IndexError> {
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

    /// The slots of a leaf on this side of the bound.
    fn within(self, leaf: Node<'_>, bound: Bound<u64>, direction: Direction) -> Range<usize> {
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
}

impl<K: TreeKey, M: Media> CddsTree<K, M> {
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
            let (key, value) = (media.load(leaf.key(slot)), media.load(leaf.value(slot)));
            Ok(visit(K::read(&records, key)?, &[value]))
        };
        loop {
            let mut slots = nodes.within(leaf, bound, direction);
            bound = Bound::Unbounded;
            while let Some(slot) = match direction {
                Direction::Forward => slots.next(),
                Direction::Backward => slots.next_back(),
            } {
                if leaf.is_live(media, slot) && show(leaf, slot)?.is_break() {
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
