//! Scans: along the path from the root, leaf by leaf, each by its slot array.

use std::ops::{Bound, ControlFlow, Range};

use everleaf_index::{Direction, Result, Start};
use everleaf_pmem::Media;
use everleaf_pool::RecordGuard;

use super::WbTree;
use super::node::Node;
use super::search::Nodes;
use everleaf_tree::key::TreeKey;
use everleaf_tree::path::{Path, first_slot};
use everleaf_tree::scan::ScanRequest;

impl<'p, K: TreeKey, M: Media> Nodes<'p, K, M> {
    /// The leaf behind that of a path, to which the path leads then.
    fn next_leaf(self, path: &mut Path, direction: Direction) -> Result<Option<Node<'p>>> {
        let Some(step) = path.turn(direction) else { return Ok(None) };
        let child = self.child(self.node(step.offset)?, step.slot)?;
        let down =
            |node: Node<'_>| node.expect_entry().map(|()| first_slot(direction, node.count()));
        self.descend_from(child, path, down).map(Some)
    }

    /// The slots of a leaf on this side of the bound.
    fn within(
        self,
        leaf: Node<'p>,
        bound: Bound<K::Ref<'_>>,
        direction: Direction,
    ) -> Result<Range<usize>> {
        let from = |key, included| -> Result<usize> {
            let equal_is_before = included == (direction == Direction::Backward);
            let slot = self.slot_of(leaf, key)?;
            Ok(slot.map_or_else(|slot| slot, |slot| slot + usize::from(equal_is_before)))
        };
        let middle = match bound {
            Bound::Unbounded => return Ok(0..leaf.count()),
            Bound::Included(key) => from(key, true)?,
            Bound::Excluded(key) => from(key, false)?,
        };
        Ok(match direction {
            Direction::Forward => middle..leaf.count(),
            Direction::Backward => 0..middle,
        })
    }

    /// The first leaf of a scan, and the way there.
    fn first_leaf(self, from: Start<'_, K>, direction: Direction) -> Result<(Path, Node<'p>)> {
        if let Bound::Included(key) | Bound::Excluded(key) = from {
            return self.descend(key);
        }
        let mut path = Path::default();
        let down =
            |node: Node<'_>| node.expect_entry().map(|()| first_slot(direction, node.count()));
        let leaf = self.descend_from(self.root()?, &mut path, down)?;
        Ok((path, leaf))
    }

    /// Refuses a leaf that does not go on where the one before has ended: else a scan of a damaged
    /// tree might not end.
    fn expect_behind(
        self,
        records: &RecordGuard<'_, M>,
        before: Node<'p>,
        leaf: Node<'p>,
        direction: Direction,
    ) -> Result<()> {
        let media = self.media();
        let (Some(last), true) = (before.count().checked_sub(1), leaf.count() > 0) else {
            return Err(leaf.damaged("a leaf below the root has no keys"));
        };
        let [end, begin] = match direction {
            Direction::Forward => [before.key(media, last), leaf.key(media, 0)],
            Direction::Backward => [before.key(media, 0), leaf.key(media, leaf.count() - 1)],
        };
        let (end, begin) = (K::read(records, end)?, K::read(records, begin)?);
        if K::cmp_keys(end, begin).is_lt() == (direction == Direction::Forward) && end != begin {
            Ok(())
        } else {
            Err(leaf.damaged("keys are out of order"))
        }
    }
}

impl<K: TreeKey, M: Media> WbTree<K, M> {
    /// Visits entries in key order from `from` on.
    pub(super) fn scan_from(&self, scan: ScanRequest<'_, '_, K>) -> Result<()> {
        let ScanRequest { from, direction, visit } = scan;
        let (nodes, records) = (self.nodes(), self.pool.pin());
        let media = nodes.media();
        let mut value = vec![0; self.shape.value_words()];
        let (mut path, mut leaf) = nodes.first_leaf(from, direction)?;
        let mut slots = nodes.within(leaf, from, direction)?;
        loop {
            while let Some(slot) = match direction {
                Direction::Forward => slots.next(),
                Direction::Backward => slots.next_back(),
            } {
                leaf.read_value(media, slot, &mut value);
                let key = K::read(&records, leaf.key(media, slot))?;
                if visit(key, &value) == ControlFlow::Break(()) {
                    return Ok(());
                }
            }
            let Some(next) = nodes.next_leaf(&mut path, direction)? else { return Ok(()) };
            nodes.expect_behind(&records, leaf, next, direction)?;
            leaf = next;
            slots = 0..leaf.count();
        }
    }
}
