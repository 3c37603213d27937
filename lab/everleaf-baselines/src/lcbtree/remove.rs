//! Removal. The last key of a leaf takes the leaf with it, and every node above that leads to
//! nothing else.

use everleaf_index::Result;
use everleaf_pmem::{Counter, Media};

use super::LcbTree;
use super::node::Node;
use super::search::Nodes;
use everleaf_tree::key::TreeKey;
use everleaf_tree::path::Path;

impl<K: TreeKey, M: Media> LcbTree<K, M> {
    /// Removes a key, and returns its value; none if it is absent.
    pub(super) fn remove(&mut self, key: u64) -> Result<Option<u64>> {
        let nodes = Nodes::new(&self.pool, self.shape);
        let media = nodes.media();
        let (path, leaf) = nodes.descend(key)?;
        let Ok(slot) = leaf.slot_of(media, key) else { return Ok(None) };
        leaf.expect_order(media)?;
        let value = leaf.value(media, slot);
        self.redo.begin();
        let mut retired = Vec::new();
        if leaf.count() > 1 || path.steps().len() == 1 {
            let count = leaf.count() - 1;
            media.count(Counter::EntriesShifted, (count - slot) as u64);
            let elements = (slot..count).map(|slot| leaf.element(media, slot + 1));
            self.redo.set_elements(leaf, count, slot, elements);
            self.redo.commit(nodes)?;
        } else {
            self.take_out(&path, &mut retired)?;
            self.leaves -= 1;
        }
        self.keys -= 1;
        // Nothing leads to them, durably.
        for offset in retired {
            self.groups.give_back(offset, &mut self.worker)?;
        }
        Ok(Some(value))
    }

    /// Takes the leaf of a path out of the tree, durably, and notes the nodes that leave it.
    fn take_out(&mut self, path: &Path, retired: &mut Vec<u64>) -> Result<()> {
        let nodes = Nodes::new(&self.pool, self.shape);
        let (media, steps) = (nodes.media(), path.steps());
        let Some(stays) = steps.iter().rposition(|step| step.count > 1) else {
            return Err(nodes.root()?.damaged("the topmost inner node leads to one node only"));
        };
        retired.extend(steps[stays + 1..].iter().map(|step| step.offset));
        let (node, slot) = (nodes.node(steps[stays].offset)?, steps[stays].slot);
        if stays > 0 || node.count() > 2 {
            let count = node.count() - 1;
            media.count(Counter::EntriesShifted, (count - slot) as u64);
            let elements = (slot..count).map(|slot| node.element(media, slot + 1));
            self.redo.set_elements(node, count, slot, elements);
        } else {
            retired.push(node.offset());
            let root = nodes.lowest_root(nodes.child(node, 1 - slot)?, retired)?;
            self.redo.set_root(nodes, root)?;
        }
        self.redo.commit(nodes)
    }
}

impl<'p, M: Media> Nodes<'p, M> {
    /// The first node from this one down that is a leaf or leads to more than one node; those above
    /// it are retired.
    fn lowest_root(self, mut node: Node<'p>, retired: &mut Vec<u64>) -> Result<u64> {
        while node.level() > 0 && node.count() == 1 {
            retired.push(node.offset());
            node = self.child(node, 0)?;
        }
        Ok(node.offset())
    }
}
