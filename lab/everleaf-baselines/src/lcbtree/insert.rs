//! Insertion, and the splits that it takes: one operation of the log whatever number of nodes it
//! changes.

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Counter, Media, site};
use everleaf_pool::PoolError;

use super::LcbTree;
use super::layout::{HEAD_WORDS, LINE_WORDS, Shape, State};
use super::node::{Element, Node, element};
use super::search::Nodes;
use everleaf_tree::key::TreeKey;
use everleaf_tree::path::Path;

/// The elements of a node with one more, which comes to a slot.
#[derive(Clone, Copy)]
struct Grown<'p> {
    node: Node<'p>,
    slot: usize,
    new: Element,
}

impl Grown<'_> {
    fn element<M: Media>(&self, media: &M, slot: usize) -> Element {
        match slot.cmp(&self.slot) {
            std::cmp::Ordering::Less => self.node.element(media, slot),
            std::cmp::Ordering::Equal => self.new,
            std::cmp::Ordering::Greater => self.node.element(media, slot - 1),
        }
    }
}

/// Writes a node that nothing leads to (S1), and flushes it. No fence: P1 has one.
pub(super) fn write_fresh<M: Media>(
    nodes: Nodes<'_, M>,
    offset: u64,
    level: u8,
    elements: impl ExactSizeIterator<Item = Element>,
) -> Result<()> {
    let media = nodes.media();
    let end = Shape::element_index(elements.len());
    let Some(cells) = media.region().cells(offset, nodes.shape.node_words()) else {
        return Err(IndexError::Corrupt { offset, what: "a node lies outside the pool" });
    };
    media.store(cells[0].view(), State::new(level, elements.len()));
    let body = cells[HEAD_WORDS..].iter();
    body.zip(elements.flatten()).for_each(|(cell, word)| media.store(cell, word));
    // S1: Crash: only the commit leads to it.
    for line in cells[..end].chunks(LINE_WORDS) {
        media.flush(site!("lcbtree.split.S1.node"), &line[0]);
    }
    Ok(())
}

impl<K: TreeKey, M: Media> LcbTree<K, M> {
    /// Adds a key; false if it is present.
    pub(super) fn insert(&mut self, key: u64, value: u64) -> Result<bool> {
        let nodes = Nodes::new(&self.pool, self.shape);
        let (path, leaf) = nodes.descend(key)?;
        match leaf.slot_of(nodes.media(), key) {
            Ok(_) => Ok(false),
            Err(slot) => self.put(&path, slot, element(key, value)).map(|()| true),
        }
    }

    /// Adds an element to the leaf of a path.
    pub(super) fn put(&mut self, path: &Path, slot: usize, new: Element) -> Result<()> {
        let slots = self.shape.slots();
        let full = path.steps().iter().rev().take_while(|step| step.count >= slots).count();
        for step in path.steps().iter().rev().take(full + 1) {
            let nodes = Nodes::new(&self.pool, self.shape);
            nodes.node(step.offset)?.expect_order(nodes.media())?;
        }
        self.provide(path, full)?;
        let nodes = Nodes::new(&self.pool, self.shape);
        let media = nodes.media();
        self.redo.begin();
        let (mut slot, mut new, mut above) = (slot, new, path.steps());
        let mut grows = true;
        while let Some((step, rest)) = above.split_last() {
            let grown = Grown { node: nodes.node(step.offset)?, slot, new };
            if grown.node.count() < slots {
                let count = grown.node.count() + 1;
                media.count(Counter::EntriesShifted, (count - 1).saturating_sub(slot) as u64);
                let elements = (slot..count).map(|slot| grown.element(media, slot));
                self.redo.set_elements(grown.node, count, slot, elements);
                grows = false;
                break;
            }
            // The upper half goes into a fresh node, and the node above gets the key of its first
            // element.
            let fresh = self.groups.pop().unwrap_or_default();
            let left = slots.div_ceil(2);
            let upper = (left..slots + 1).map(|slot| grown.element(media, slot));
            write_fresh(nodes, fresh, grown.node.level(), upper)?;
            let lower = (slot.min(left)..left).map(|slot| grown.element(media, slot));
            self.redo.set_elements(grown.node, left, slot.min(left), lower);
            let is_leaf = grown.node.level() == 0;
            media.count(if is_leaf { Counter::LeafSplits } else { Counter::InnerSplits }, 1);
            self.leaves += u64::from(is_leaf);
            new = element(grown.element(media, left)[1], fresh);
            slot = rest.last().map_or(0, |step| step.slot + 1);
            above = rest;
        }
        if grows {
            let old = nodes.root()?;
            let root = self.groups.pop().unwrap_or_default();
            write_fresh(nodes, root, old.level() + 1, [element(0, old.offset()), new].into_iter())?;
            self.redo.set_root(nodes, root)?;
        }
        self.redo.commit(nodes)?;
        self.keys += 1;
        Ok(())
    }

    /// Sees to it that there are free nodes for splits of so many nodes, the last ones of a path.
    fn provide(&mut self, path: &Path, full: usize) -> Result<()> {
        let grows = full == path.steps().len();
        if grows && full >= self.shape.max_levels() {
            let requested_bytes = self.shape.node_bytes();
            return Err(PoolError::PoolFull { requested_bytes }.into());
        }
        let needed = if full == 0 { 0 } else { full + usize::from(grows) };
        while self.groups.free().len() < needed {
            self.groups.grow(&mut self.worker, |_, _| {})?;
        }
        Ok(())
    }

    /// Updates or inserts; the old value, if there was one.
    pub(super) fn upsert(&mut self, key: u64, value: u64) -> Result<Option<u64>> {
        let old = self.update(key, value)?;
        if old.is_none() {
            self.insert(key, value)?;
        }
        Ok(old)
    }
}
