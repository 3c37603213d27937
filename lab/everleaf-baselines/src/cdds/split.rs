//! Insertion into a full leaf: the live entries of a node that lacks room go to two fresh nodes,
//! and the node above leads to these in its place.

use everleaf_index::Result;
use everleaf_pmem::{Counter, Media, PCell, site, unless_planted};
use everleaf_pool::PoolError;

use super::CddsTree;
use super::layout::{Child, EMPTY, LINE_SLOTS, MAX_LEVELS};
use super::node::{Entry, Node};
use super::search::{Nodes, Step};
use super::shift::{flush_end, place};
use everleaf_tree::key::TreeKey;

/// Writes a node that nothing leads to (S1), and flushes it. No fence: the commit has one.
pub(super) fn write_fresh<M: Media>(
    nodes: Nodes<'_, M>,
    fresh: Child,
    entries: &[Entry],
) -> Result<()> {
    let (media, node) = (nodes.media(), nodes.node(fresh)?);
    for (slot, Entry { key, start, end, value }) in entries.iter().enumerate() {
        let store = |cell: &PCell, word| media.store(cell, word);
        store(node.key(slot), *key);
        store(node.start(slot), *start);
        store(node.end(slot), *end);
        store(node.value(slot), *value);
    }
    let rest = entries.len()..node.slots();
    unless_planted!(280, rest.for_each(|slot| media.store(node.start(slot), EMPTY)));
    // S1: Crash: only the commit leads to it.
    for slot in (0..node.slots()).step_by(LINE_SLOTS) {
        media.flush(site!("cdds.split.S1.node"), node.key(slot));
    }
    Ok(())
}

/// The entries that lead to two nodes in place of one, to which that of a slot leads. The first key
/// of a node may be less than the one that leads to it, where that means nothing.
fn halves_of(node_key: u64, start: u64, halves: [(Child, &[Entry]); 2]) -> [Entry; 2] {
    let [low, high] = halves
        .map(|(child, entries)| Entry::to(child, start, entries.first().map_or(0, |e| e.key)));
    [Entry { key: low.key.min(node_key), ..low }, high]
}

impl<K: TreeKey, M: Media> CddsTree<K, M> {
    /// Adds an entry of a key that is not there to the leaf that the key belongs to, which lacks
    /// room.
    pub(super) fn split(&mut self, entry: Entry) -> Result<()> {
        let nodes = Nodes { pool: &self.pool, shape: self.shape, root: self.root };
        let (media, version) = (nodes.media(), self.current.version());
        let (path, leaf) = nodes.descend(entry.key)?;
        let lacks_room = |step: &Step<'_>| !step.node.has_free(media, 2, step.slot, version);
        let full = path.upwards().take_while(lacks_room).count();
        let grows = full == path.len();
        if grows && full + 1 >= MAX_LEVELS {
            let requested_bytes = self.shape.node_bytes();
            return Err(PoolError::PoolFull { requested_bytes }.into());
        }
        while self.groups.free().len() < 2 * (full + 1) + usize::from(grows) {
            self.groups.grow(&mut self.worker, |_, _| {})?;
        }

        let (mut node, mut retired, mut root) = (leaf, Vec::new(), None);
        let mut entries: Vec<Entry> = leaf.live(media).collect();
        entries.insert(entries.partition_point(|other| other.key < entry.key), entry);
        for step in path.upwards().map(Some).chain([None]) {
            retired.push(node.offset());
            let is_leaf = node.level() == 0;
            media.count(if is_leaf { Counter::LeafSplits } else { Counter::InnerSplits }, 1);
            self.leaves += u64::from(is_leaf);
            let (low, high) = entries.split_at(entries.len().div_ceil(2));
            let mut fresh = |level, entries| {
                let fresh = Child::new(self.groups.pop().unwrap_or_default(), level);
                write_fresh(nodes, fresh, entries).map(|()| fresh)
            };
            let halves = [(fresh(node.level(), low)?, low), (fresh(node.level(), high)?, high)];
            let Some(Step { node: above, slot }) = step else {
                let top = halves_of(u64::MAX, entry.start, halves);
                root = Some(fresh(node.level() + 1, &top)?);
                break;
            };
            let new = halves_of(media.load(above.key(slot)), entry.start, halves);
            if above.has_free(media, 2, slot, version) {
                // P1: the entry that led to the node ends. Crash: recovery makes it live again.
                media.store(above.end(slot), entry.start);
                let written = [new[1], new[0]].map(|entry| {
                    place(media, above, above.behind(media, entry.key), entry, version)
                });
                flush_end(media, above, slot, &written);
                break;
            }
            entries = replaced(media, above, slot, new);
            node = above;
        }
        self.commit(root)?;
        for offset in retired {
            self.groups.give_back(offset, &mut self.worker)?;
        }
        Ok(())
    }
}

/// The live entries of a node, with two others in place of the one in a slot.
fn replaced<M: Media>(media: &M, node: Node<'_>, slot: usize, new: [Entry; 2]) -> Vec<Entry> {
    let old = node.entry(media, slot);
    let live = node.live(media);
    live.flat_map(|entry| if entry == old { new.to_vec() } else { vec![entry] }).collect()
}
