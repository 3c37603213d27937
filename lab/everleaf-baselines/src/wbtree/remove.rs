//! Removal: the slot array without the key. The last key of a leaf takes the leaf with it, and
//! every node above that leads to nothing else: one change of the log.

use std::sync::Arc;

use everleaf_index::Result;
use everleaf_pmem::{Media, planted, site};

use super::WbTree;
use super::node::Node;
use super::publish::{Change, publish};
use super::search::Nodes;
use super::space::retire;
use everleaf_tree::key::TreeKey;
use everleaf_tree::path::Path;

impl<K: TreeKey, M: Media> WbTree<K, M> {
    /// Removes a key, and hands its value over; false if it is absent.
    pub(super) fn remove(&mut self, key: K::Ref<'_>, old: &mut [u64]) -> Result<bool> {
        let nodes = Nodes::<K, M>::new(&self.pool, self.shape);
        let media = nodes.media();
        let (leaf, found) = nodes.find(key)?;
        let Ok(slot) = found else { return Ok(false) };
        leaf.read_value(media, slot, old);
        if leaf.count() == 1 && nodes.root()?.level() > 0 {
            self.remove_last(key)?;
            return Ok(true);
        }
        self.redo.forget(nodes)?;
        if K::RECORDS {
            doubt(nodes, leaf.key(media, slot), None)?;
            if !leaf.has_bitmap() {
                // Else the fence of B1 does.
                media.fence(site!("wbtree.remove.R1.fence"));
            }
        }
        let (slots, place) = (leaf.slots(media).without(slot), leaf.place(media, slot));
        publish(media, leaf, &Change { slots, new: None, old: Some(place) });
        self.changed.keys -= 1;
        // R2: the record. Crash: recovery does not find it in the tree and frees it.
        K::discard(&mut self.worker, &nodes.anchor()?.key)?;
        Ok(true)
    }

    /// Removes the only key of a leaf that is not the root.
    #[cold]
    fn remove_last(&mut self, key: K::Ref<'_>) -> Result<()> {
        let pool = Arc::clone(&self.pool);
        let nodes = Nodes::<K, M>::new(&pool, self.shape);
        let (path, leaf) = nodes.descend(key)?;
        self.redo.begin();
        let Taken { retired, separator } = self.take_out(nodes, &path)?;
        retire(nodes, &mut self.redo, &retired)?;
        if K::RECORDS {
            doubt(nodes, leaf.key(nodes.media(), 0), Some(separator))?;
        }
        self.redo.commit(nodes, K::RECORDS)?;
        self.changed.keys -= 1;
        self.changed.leaves -= 1;
        self.changed.inner_nodes -= retired.len() as i64 - 1;
        // R2: the records. Crash: recovery does not find them in the tree and frees them.
        let anchor = nodes.anchor()?;
        K::discard(&mut self.worker, &anchor.key)?;
        K::discard(&mut self.worker, &anchor.separator)
    }

    /// Gathers what takes the leaf of a path out of the tree.
    fn take_out(&mut self, nodes: Nodes<'_, K, M>, path: &Path) -> Result<Taken> {
        let (media, steps) = (nodes.media(), path.steps());
        let Some(stays) = steps.iter().rposition(|step| step.count > 1) else {
            return Err(nodes.root()?.damaged("the topmost inner node leads to one node only"));
        };
        let mut retired: Vec<u64> = steps[stays + 1..].iter().map(|step| step.offset).collect();
        let (node, slot) = (nodes.node(steps[stays].offset)?, steps[stays].slot);
        // The first key means nothing: where the first child goes, the second key does not either.
        let separator = node.key(media, slot.max(1));
        if stays > 0 || node.count() > 2 {
            self.redo.set_slots(node, &node.slots(media).without(slot), slot);
            if K::RECORDS && slot == 0 && !planted(365) {
                let place = node.place(media, 1);
                self.redo.set(node.offset_of(node.entry_index(place)), [0]);
            }
        } else {
            retired.push(node.offset());
            let root = lowest_root(nodes, nodes.child(node, 1 - slot)?, &mut retired)?;
            self.redo.set_root(nodes, root)?;
        }
        Ok(Taken { retired, separator })
    }
}

/// What leaves the tree.
struct Taken {
    retired: Vec<u64>,
    separator: u64,
}

/// The first node from this one down that is a leaf or leads to more than one node; those above it
/// are retired.
fn lowest_root<'p, K: TreeKey, M: Media>(
    nodes: Nodes<'p, K, M>,
    mut node: Node<'p>,
    retired: &mut Vec<u64>,
) -> Result<u64> {
    while node.level() > 0 && node.count() == 1 {
        retired.push(node.offset());
        node = nodes.child(node, 0)?;
    }
    Ok(node.offset())
}

/// R1: notes the records of a key and of a separator as about to leave the tree. 1 flush, no fence.
/// Crash: both are in the tree.
fn doubt<K: TreeKey, M: Media>(
    nodes: Nodes<'_, K, M>,
    key: u64,
    separator: Option<u64>,
) -> Result<()> {
    let (media, anchor) = (nodes.media(), nodes.anchor()?);
    media.store(&anchor.key, key);
    if let Some(separator) = separator {
        media.store(&anchor.separator, separator);
    }
    media.flush(site!("wbtree.remove.R1.records"), &anchor.key);
    Ok(())
}
