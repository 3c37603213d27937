//! Merging a node that has few entries with a neighbour under the same parent, and shrinking by a
//! level: changes of structure, one at a time, under the lock of changes.
//!
//! The left node takes the entries of the right one: they go behind its own, into dead slots, so
//! nothing is shifted; its line then says in one go that it has them and which node follows; and no
//! third node has to be found and changed. (The paper moves the entries of the left node into the
//! right one, and then needs the one before the left.)
//!
//! Flushes: the lines of the moved entries and 2, those of the removal above, and those of the
//! freeing; 2 fences and theirs.

use std::sync::atomic::Ordering;

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Media, PPtr, Word, site, unless_planted};
use everleaf_pool::Worker;

use super::layout::{Anchor, ChangeLog, NodeHead, State};
use super::node::Node;
use super::search::Destination;
use super::{ROOT, SortedTree};
use everleaf_tree::key::TreeKey;
use everleaf_tree::wait::wait;

impl<K: TreeKey, M: Media> SortedTree<K, M> {
    /// Whether a node with so many entries looks for a neighbour to merge with. Not at every number
    /// below the limit: to look costs a way from the root.
    #[inline(always)]
    pub(super) fn wants_merge(&self, count: usize) -> bool {
        count <= self.shape.slots / 4 && (count == 0 || count.is_power_of_two())
    }

    /// Whether two neighbours fit into one with room to spare: where they just fit, the next
    /// insertion would split them again.
    fn fits(&self, left: usize, right: usize) -> bool {
        left == 0 || right == 0 || left + right <= self.shape.slots / 4 * 3
    }

    /// Merges nodes on the way to `key`, from the leaf upwards.
    #[cold]
    pub(super) fn merge(&self, key: K::Ref<'_>) -> Result<()> {
        let mut worker = self.lock_changes();
        'changed: loop {
            let (path, _) = self.path(Destination::To(key))?;
            let nodes = &path.nodes[..path.length];
            for pair in nodes.windows(2).rev() {
                if self.merge_below(&mut worker, pair[0], pair[1])? {
                    continue 'changed;
                }
            }
            if nodes.len() > 1 && self.shrink(&mut worker, nodes[0])? {
                continue 'changed;
            }
            return Ok(());
        }
    }

    /// Merges a child of `parent` with one of its neighbours; false if it has no need or the
    /// neighbours have no room.
    fn merge_below(&self, worker: &mut Worker<M>, parent: u64, child: u64) -> Result<bool> {
        let media = self.pool.media();
        let locked = self.locks.lock(&wait(self.pool.media()), parent);
        let parent = self.node(parent)?;
        let state = self.state_at_rest(parent)?;
        let children = usize::from(state.count);
        let Some(position) =
            (0..children).find(|position| parent.entry(media, state, *position).1 == child)
        else {
            return Err(IndexError::Corrupt {
                offset: child,
                what: "a node is not known to the one above",
            });
        };
        let count = usize::from(self.node(child)?.state(media)?.count);
        if count > self.shape.slots / 4 {
            locked.unlock_unchanged();
            return Ok(false);
        }
        // An empty node costs nothing where it is the right one.
        let pairs = if count == 0 { [position, position + 1] } else { [position + 1, position] };
        for right in pairs.into_iter().filter(|right| (1..children).contains(right)) {
            if self.merge_pair(worker, &locked, parent, state, right)? {
                return Ok(true);
            }
        }
        locked.unlock_unchanged();
        Ok(false)
    }

    /// Merges the child at position `right` into the one before it, if that has room.
    fn merge_pair(
        &self,
        worker: &mut Worker<M>,
        locked: &everleaf_tree::version_locks::LockGuard<'_>,
        parent: Node<'_>,
        parent_state: State,
        right_position: usize,
    ) -> Result<bool> {
        let media = self.pool.media();
        let left = self.node(parent.entry(media, parent_state, right_position - 1).1)?;
        let right = self.node(parent.entry(media, parent_state, right_position).1)?;
        // No other thread waits for a lock while it has one, so any order will do.
        let left_lock = (!self.locks.is_locked_by(left.offset, locked))
            .then(|| self.locks.lock(&wait(self.pool.media()), left.offset));
        let covered = self.locks.is_locked_by(right.offset, locked)
            || left_lock.as_ref().is_some_and(|left| self.locks.is_locked_by(right.offset, left));
        let right_lock =
            (!covered).then(|| self.locks.lock(&wait(self.pool.media()), right.offset));
        let (state, right_state) = (self.state_at_rest(left)?, self.state_at_rest(right)?);
        let (count, moved) = (usize::from(state.count), usize::from(right_state.count));
        if !self.fits(count, moved) {
            left_lock.into_iter().chain(right_lock).for_each(|lock| lock.unlock_unchanged());
            return Ok(false);
        }
        if media.load(&left.head.next).offset() != right.offset || state.level != right_state.level
        {
            return Err(IndexError::Corrupt {
                offset: left.offset,
                what: "a node does not lead to its right neighbour",
            });
        }
        let log = &self.pool.index_root::<Anchor>()?.log;
        let after = left.at_rest(state.level, state.base, count + moved);

        if moved > 0 {
            left.open_dead_slots(media, state);
        }
        // M1: the log, and the entries, in dead slots. Crash: recovery finds the left node without
        // them, and forgets it.
        write_log(media, log, Some((parent, left, after)), right);
        let committing = moved > 0 && left.commits_by_key(count);
        for position in 0..moved {
            let (slot, (key, value)) =
                (left.slot(state, count + position), right.entry(media, right_state, position));
            if position > 0 || !committing {
                media.store(left.key(slot), key);
            }
            media.store(left.value(slot), value);
        }
        if moved > 0 {
            let meant = left.terminate(media, count + moved);
            left.flush_entries(media, site!("sorted.merge.M1.entries"), after, count..meant);
        }
        media.fence(site!("sorted.merge.M1.fence"));

        // M2 COMMIT: the left node has them, by the key of the first one, or by its state; and then
        // leads past the right one. Crash: recovery goes on.
        if committing {
            left.commit_taken(media, count, right.entry(media, right_state, 0).0);
        }
        media.store(&left.head.state, after.seal());
        media.order(site!("sorted.merge.M2.order"));
        media.store(&left.head.next, media.load(&right.head.next));
        media.flush(site!("sorted.merge.M2.header"), &left.head.state);
        media.fence(site!("sorted.merge.M2.fence"));

        // M3: the node above. Crash: recovery looks whether it knows the right node.
        unless_planted!(253, parent.remove::<K, M>(media, parent_state, right_position));
        K::discard(worker, &parent.head.key)?;

        // M4: the right node is freed and the log retired, in one exchange.
        worker.free_from(&log.removed)?;
        let nodes = if state.level == 0 { &self.leaves } else { &self.inner_nodes };
        nodes.fetch_sub(1, Ordering::Relaxed);
        Ok(true)
    }

    /// Makes the only child of a root the root.
    fn shrink(&self, worker: &mut Worker<M>, root: u64) -> Result<bool> {
        let media = self.pool.media();
        let anchor = self.pool.index_root::<Anchor>()?;
        let locked = self.locks.lock_both(&wait(self.pool.media()), ROOT, root);
        let node = self.node(root)?;
        let state = self.state_at_rest(node)?;
        if state.count != 1 {
            locked.0.unlock_unchanged();
            locked.1.into_iter().for_each(|lock| lock.unlock_unchanged());
            return Ok(false);
        }
        // D1: the log. Crash: the root is the old one, and recovery forgets it.
        write_log(media, &anchor.log, None, node);
        media.fence(site!("sorted.merge.D1.fence"));
        // D2 COMMIT: the root. Crash: recovery frees the old one. Fenced before anything is freed,
        // by the announcement of that.
        media.store(&anchor.root, PPtr::at(node.entry(media, state, 0).1));
        media.flush(site!("sorted.merge.D2.root"), &anchor.root);
        // D3: the old root is freed and the log retired, in one exchange.
        worker.free_from(&anchor.log.removed)?;
        self.inner_nodes.fetch_sub(1, Ordering::Relaxed);
        Ok(true)
    }
}

/// Notes which node leaves the tree, and which one gets its entries; flushed, not fenced.
fn write_log<M: Media>(
    media: &M,
    log: &ChangeLog,
    absorber: Option<(Node<'_>, Node<'_>, State)>,
    removed: Node<'_>,
) {
    let (parent, left, after) = absorber.map_or((0, 0, 0), |(parent, left, after)| {
        (parent.offset, left.offset, after.seal().into_word())
    });
    media.store(&log.parent, PPtr::at(parent));
    media.store(&log.absorber, PPtr::at(left));
    media.store(log.absorbed.as_word(), after);
    media.order(site!("sorted.merge.M1.order"));
    media.store(&log.removed, PPtr::<NodeHead>::at(removed.offset));
    media.flush(site!("sorted.merge.M1.log"), &log.removed);
}
