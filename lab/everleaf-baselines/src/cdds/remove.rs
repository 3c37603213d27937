//! Removal: the entry ends. Where it is the only live one of its leaf, the entry that leads to the
//! leaf ends, or to the topmost node above it that leads to nothing else.

use everleaf_index::Result;
use everleaf_pmem::Media;

use super::CddsTree;
use super::layout::Child;
use super::search::{Nodes, Step};
use super::shift::flush_end;
use everleaf_tree::key::TreeKey;

impl<K: TreeKey, M: Media> CddsTree<K, M> {
    /// Removes a key, and returns its value; none if it is absent.
    pub(super) fn remove(&mut self, key: u64) -> Result<Option<u64>> {
        let nodes = Nodes { pool: &self.pool, shape: self.shape, root: self.root };
        let (media, next) = (nodes.media(), self.next_version());
        let (mut path, leaf) = nodes.descend(key)?;
        let Ok(slot) = leaf.slot_of(media, key) else { return Ok(None) };
        let value = media.load(leaf.value(slot));
        // The nodes that leave the tree, up to the entry that ends.
        let (mut ends, mut retired) = (Step { node: leaf, slot }, Vec::new());
        while path.len() > 0 && !ends.node.has_another(media, ends.slot) {
            retired.push(ends.node.offset());
            ends = path.pop().unwrap_or(ends);
        }
        let root = match path.len() {
            0 if ends.node.level() > 0 => nodes.lower_root(ends, &mut retired)?,
            _ => None,
        };
        if root.is_some() {
            self.commit_alone(root)?;
        } else {
            // P1: Crash: recovery makes it live again.
            media.store(ends.node.end(ends.slot), next);
            flush_end(media, ends.node, ends.slot, &[]);
            self.commit(None)?;
        }
        // A damaged tree may have more than were counted.
        self.keys = self.keys.saturating_sub(1);
        self.leaves = self.leaves.saturating_sub(u64::from(!retired.is_empty()));
        // Nothing leads to them, durably.
        for offset in retired {
            self.groups.give_back(offset, &mut self.worker)?;
        }
        Ok(Some(value))
    }
}

impl<'p, M: Media> Nodes<'p, M> {
    /// What becomes the root where the root without one of its entries leads to one node only: the
    /// first node from there down that is a leaf or leads to more than one. Those above it are
    /// retired.
    fn lower_root(self, ends: Step<'p>, retired: &mut Vec<u64>) -> Result<Option<Child>> {
        let media = self.media();
        let mut others = (0..ends.node.slots())
            .filter(|slot| *slot != ends.slot && ends.node.is_live(media, *slot));
        let Some(mut slot) = others.next() else {
            return Err(ends.node.damaged("the topmost inner node leads to one node only"));
        };
        if others.next().is_some() {
            return Ok(None);
        }
        let mut node = ends.node;
        loop {
            retired.push(node.offset());
            node = self.child(node, slot)?;
            match node.live_from(media, 0) {
                Some(first) if node.level() > 0 && !node.has_another(media, first) => slot = first,
                _ => return Ok(Some(node.child())),
            }
        }
    }
}
