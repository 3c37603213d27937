//! Splitting a full node, and growing by a level: one change of structure at a time, under the lock
//! of changes, with one line of log. All full nodes on the way to a leaf are split from the top
//! down, so that each split finds room above.
//!
//! A split: the new node's lines and 3 flushes, 2 fences, those of the allocation, and those of the
//! insertion above.

use std::sync::atomic::Ordering;

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Counter, Media, PPtr, planted, site};
use everleaf_pool::Worker;

use super::layout::{Anchor, NodeHead, Shape, State, node_bytes};
use super::node::Node;
use super::search::{Destination, Path};
use super::{ROOT, SortedTree};
use everleaf_tree::key::TreeKey;
use everleaf_tree::steps::Steps;
use everleaf_tree::wait::wait;

impl<K: TreeKey, M: Media> SortedTree<K, M> {
    /// Sees to it that the leaf that covers `key` is not full. When the pool is full nothing has
    /// changed, or nodes above the leaf were split, which is sound.
    #[cold]
    pub(super) fn make_room(&self, key: K::Ref<'_>) -> Result<()> {
        let mut worker = self.lock_changes();
        loop {
            let (Path { nodes, length, .. }, located) = self.path(Destination::To(key))?;
            if usize::from(located.state.count) < self.shape.slots {
                return Ok(());
            }
            // The highest of the full nodes that end in the leaf.
            let mut target = length - 1;
            while target > 0 && self.is_full(nodes[target - 1])? {
                target -= 1;
            }
            if target == 0 {
                self.grow(&mut worker, nodes[0])?;
            } else {
                self.split(&mut worker, nodes[target - 1], nodes[target], key)?;
            }
        }
    }

    /// Whether an inner node is full; the caller has the lock of changes.
    fn is_full(&self, offset: u64) -> Result<bool> {
        Ok(usize::from(self.node(offset)?.state(self.pool.media())?.count) == self.shape.slots)
    }

    /// Puts a root with one child above the root.
    fn grow(&self, worker: &mut Worker<M>, root: u64) -> Result<()> {
        let level = self.node(root)?.state(self.pool.media())?.level + 1;
        let guard = self.locks.lock(&wait(self.pool.media()), ROOT);
        new_root(worker, self.shape, level, Some(root))?;
        drop(guard);
        self.inner_nodes.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Splits a node that is full, if it still is. The one above has room.
    fn split(&self, worker: &mut Worker<M>, parent: u64, left: u64, key: K::Ref<'_>) -> Result<()> {
        let media = self.pool.media();
        let log = &self.pool.index_root::<Anchor>()?.log;
        let _locked = self.locks.lock_both(&wait(self.pool.media()), parent, left);
        let (parent, left) = (self.node(parent)?, self.node(left)?);
        let (parent_state, state) = (self.state_at_rest(parent)?, self.state_at_rest(left)?);
        let count = usize::from(state.count);
        if count < self.shape.slots || usize::from(parent_state.count) == self.shape.slots {
            return Ok(()); // Another thread was faster.
        }
        // At the right edge of the tree, where keys come in ascending order, only one entry moves.
        let ascending =
            media.load(&left.head.next).is_null() && self.rank(left, state, key)? == count;
        let middle = if ascending { count - 1 } else { count / 2 };
        let separator = self.separator(left, state, middle)?;
        let position = self.rank(parent, parent_state, K::borrow(&separator))?;
        if position == 0 || parent.entry(media, parent_state, position - 1).1 != left.offset {
            return Err(IndexError::Corrupt {
                offset: left.offset,
                what: "a full node holds keys of another node",
            });
        }

        // C0: the new node. Crash: `left` is null in the log, so recovery frees it.
        worker.alloc_sized_node_into(&log.new, node_bytes(self.shape.slots))?;
        let new = self.node(media.load(&log.new).offset())?;
        // Its key in the node above. Crash: as above.
        if let Err(error) = K::place(worker, &log.separator, K::borrow(&separator)) {
            worker.free_from(&log.new)?;
            return Err(error);
        }
        let separator = media.load(&log.separator);

        // C1: its content, and the log. Crash: left.next does not lead to it, so recovery frees it.
        let new_state = left.at_rest(state.level, 0, count - middle);
        for position in middle..count {
            let (key, value) = left.entry(media, state, position);
            media.store(new.key(position - middle), key);
            media.store(new.value(position - middle), value);
        }
        let meant = new.terminate(media, count - middle);
        new.flush_entries(media, site!("sorted.split.C1.entries"), new_state, 0..meant);
        write_head(media, new, new_state, media.load(&left.head.next));
        media.flush(site!("sorted.split.C1.header"), &new.head.state);
        media.store(&log.parent, PPtr::at(parent.offset));
        media.store(&log.left, PPtr::at(left.offset));
        media.flush(site!("sorted.split.C1.log"), &log.left);
        media.fence(site!("sorted.split.C1.fence"));

        // C2 COMMIT: the new node follows the old one, which is cut. Fenced with the entry above,
        // before the log is retired.
        left.truncate(media, state, middle, PPtr::at(new.offset));

        // C3: the node above. Crash: recovery looks whether it knows the new node.
        parent.insert::<K, M>(
            media,
            parent_state,
            position,
            (separator, new.offset),
            &mut Steps::none(),
        );

        // C4: the log is retired. Crash: recovery finds all of it done. Durable before the old node
        // is unlocked: split again, it would not lead to `new`.
        planted!(241, media.store(&log.left, PPtr::NULL));
        media.store(&log.separator, 0);
        media.store(&log.new, PPtr::NULL);
        media.order(site!("sorted.split.C4.order"));
        media.store(&log.left, PPtr::NULL);
        media.flush(site!("sorted.split.C4.log"), &log.left);
        media.fence(site!("sorted.split.C4.fence"));
        let (counter, nodes) = match state.level {
            0 => (Counter::LeafSplits, &self.leaves),
            _ => (Counter::InnerSplits, &self.inner_nodes),
        };
        media.count(counter, 1);
        nodes.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

impl<K: TreeKey, M: Media> SortedTree<K, M> {
    /// The key that the entries of a node from position `middle` on get in the node above: in an
    /// inner node the first one's own.
    fn separator(&self, node: Node<'_>, state: State, middle: usize) -> Result<K::Owned> {
        let records = self.pool.pin();
        let read = |position| K::read(&records, node.entry(self.pool.media(), state, position).0);
        match (state.level, middle.checked_sub(1)) {
            (0, Some(before)) => Ok(K::separator(read(before)?, read(middle)?)),
            _ => Ok(K::to_owned(read(middle)?)),
        }
    }
}

/// Writes the header of a node that nothing leads to yet. No flush.
fn write_head<M: Media>(media: &M, node: Node<'_>, state: State, next: PPtr<NodeHead>) {
    media.store(&node.head.next, next);
    media.store(&node.head.key, 0);
    media.store(&node.head.edge, 0);
    media.store(&node.head.state, state.seal());
}

/// Makes a new node the root: a leaf without entries, or an inner node with one child. The caller
/// keeps others from looking for the root.
pub(super) fn new_root<M: Media>(
    worker: &mut Worker<M>,
    shape: Shape,
    level: u8,
    child: Option<u64>,
) -> Result<()> {
    let pool = std::sync::Arc::clone(worker.pool());
    let (media, anchor) = (pool.media(), pool.index_root::<Anchor>()?);
    // G0: the node. Crash: it is not the root, so recovery frees it.
    worker.alloc_sized_node_into(&anchor.log.new, node_bytes(shape.slots))?;
    let new = media.load(&anchor.log.new);
    let node = Node::at(&pool, new.offset(), shape)?;
    // G1: its content. Crash: as after G0.
    if let Some(child) = child {
        media.store(node.key(0), 0);
        media.store(node.value(0), child);
        node.terminate(media, 1);
        media.flush(site!("sorted.root.G1.entry"), node.key(0));
    }
    write_head(media, node, node.at_rest(level, 0, usize::from(child.is_some())), PPtr::NULL);
    media.flush(site!("sorted.root.G1.header"), &node.head.state);
    media.fence(site!("sorted.root.G1.fence"));
    // G2 COMMIT: the root. Crash: recovery retires the log.
    media.store(&anchor.root, new);
    media.flush(site!("sorted.root.G2.root"), &anchor.root);
    media.fence(site!("sorted.root.G2.fence"));
    // G3: the log is retired. Not flushed: `new` is the root until the next change of structure,
    // which flushes the log first.
    media.store(&anchor.log.new, PPtr::NULL);
    Ok(())
}
