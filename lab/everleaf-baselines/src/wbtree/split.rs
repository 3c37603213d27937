//! Splitting full nodes: one change of the log for each. All full nodes on the way to a leaf are
//! split from the top down, so that each finds room above.

use std::sync::Arc;

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Counter, Media, site};
use everleaf_pool::PoolError;

use super::WbTree;
use super::insert::place_key;
use super::layout::{LINE_WORDS, Level, Slots};
use super::node::Node;
use super::search::Nodes;
use everleaf_tree::key::TreeKey;
use everleaf_tree::path::{MAX_LEVELS, Path};

/// Writes a node that nothing leads to (S1), and flushes it. No fence: P1 has one.
pub(super) fn write_fresh<K: TreeKey, M: Media>(
    nodes: Nodes<'_, K, M>,
    offset: u64,
    level: u8,
    entries: &[Vec<u64>],
) -> Result<()> {
    let (media, shape) = (nodes.media(), nodes.shape);
    let Some(cells) = media.region().cells(offset, shape.node_words()) else {
        return Err(IndexError::Corrupt { offset, what: "a node lies outside the pool" });
    };
    let slots = Slots::first(entries.len());
    for (word, cell) in cells[..shape.array_words()].iter().enumerate() {
        media.store(cell, slots.word(word));
    }
    if shape.has_bitmap() {
        media.store(cells[shape.level_index() - 1].view(), slots.bitmap());
    }
    media.store(cells[shape.level_index()].view(), Level::new(level));
    let places = &cells[shape.entry_index(level, 0)..];
    places.iter().zip(entries.iter().flatten()).for_each(|(cell, word)| media.store(cell, *word));
    // S1: Crash: only the commit leads to it.
    for line in cells[..shape.entry_index(level, entries.len())].chunks(LINE_WORDS) {
        media.flush(site!("wbtree.split.S1.node"), &line[0]);
    }
    Ok(())
}

impl<K: TreeKey, M: Media> WbTree<K, M> {
    /// Sees to it that the leaf of a key is not full. When the pool is full nothing has changed, or
    /// nodes above the leaf were split, which is sound.
    #[cold]
    pub(super) fn make_room(&mut self, key: K::Ref<'_>) -> Result<()> {
        let slots = self.shape.slots();
        loop {
            let (path, _) = Nodes::<K, M>::new(&self.pool, self.shape).descend(key)?;
            let full = path.steps().iter().rev().take_while(|step| step.count >= slots).count();
            if full == 0 {
                return Ok(());
            }
            self.split(&path, path.steps().len() - full)?;
        }
    }

    /// Splits a full node of a path. The one above has room, or there is none.
    fn split(&mut self, path: &Path, at: usize) -> Result<()> {
        let pool = Arc::clone(&self.pool);
        let nodes = Nodes::<K, M>::new(&pool, self.shape);
        let (media, steps) = (nodes.media(), path.steps());
        if at == 0 && steps.len() == MAX_LEVELS {
            let requested_bytes = self.shape.node_bytes();
            return Err(PoolError::PoolFull { requested_bytes }.into());
        }
        let node = nodes.node(steps[at].offset)?;
        self.redo.begin();
        let count = 1 + usize::from(at == 0);
        let fresh = self.space.take(nodes, &mut self.worker, &mut self.redo, count)?;
        // The upper half goes into a fresh node.
        let stay = node.count().div_ceil(2);
        let separator = self.separator(nodes, node, stay)?;
        let mut upper: Vec<Vec<u64>> =
            (stay..node.count()).map(|slot| node.entry(media, slot)).collect();
        if node.level() > 0 {
            // The node above has it now.
            upper[0][0] = 0;
        }
        write_fresh(nodes, fresh[0], node.level(), &upper)?;
        self.redo.set_slots(node, &node.slots(media).cut(stay), stay);
        match at.checked_sub(1) {
            Some(above) => {
                let (parent, slot) = (nodes.node(steps[above].offset)?, steps[above].slot + 1);
                let slots = parent.slots(media);
                let place = parent.free_place(media, &slots)?;
                // S1: its entry in the node above. Crash: the slot array does not name it.
                parent.store_entry(media, place, separator, &[fresh[0]]);
                parent.flush_entry(media, site!("wbtree.split.S1.above"), place);
                self.redo.set_slots(parent, &slots.with(slot, place), slot);
            }
            None => {
                let entries = [vec![0, node.offset()], vec![separator, fresh[0]]];
                write_fresh(nodes, fresh[1], node.level() + 1, &entries)?;
                self.redo.set_root(nodes, fresh[1])?;
            }
        }
        self.redo.commit(nodes, true)?;
        self.space.taken(media, self.shape);
        let is_leaf = node.level() == 0;
        media.count(if is_leaf { Counter::LeafSplits } else { Counter::InnerSplits }, 1);
        self.changed.leaves += i64::from(is_leaf);
        self.changed.inner_nodes += i64::from(!is_leaf) + i64::from(at == 0);
        Ok(())
    }

    /// The key word of the upper half of a node, for the node above: that of an inner node moves.
    fn separator(&mut self, nodes: Nodes<'_, K, M>, node: Node<'_>, stay: usize) -> Result<u64> {
        let media = nodes.media();
        if node.level() > 0 {
            return Ok(node.key(media, stay));
        }
        let records = nodes.pool.pin();
        let [left, right] = [stay - 1, stay].map(|slot| K::read(&records, node.key(media, slot)));
        let separator = K::separator(left?, right?);
        drop(records);
        let cell = &nodes.anchor()?.separator;
        place_key::<K, M>(&mut self.worker, media, cell, K::borrow(&separator))
    }
}
