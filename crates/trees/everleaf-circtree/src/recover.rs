//! Opening, and what a crash has left.
//!
//! What is left of a step within a node is ended when the node is first touched: its header says
//! that there is something, and every operation reads the header anyway. So nothing has to be
//! looked for after a clean shutdown, when the end of a node's last step may not have become
//! durable either.
//!
//! | crash state of a node | found as | action |
//! |---|---|---|
//! | insertion, P1 to P3 | announced, and its key not where it belongs | the moves are taken back, the last first (B1, B2), then at rest as before (B3) |
//! | insertion, P3 to P4 | announced, and its key where it belongs | at rest with it (B3) |
//! | insertion, E1 | at rest | nothing: the slot is dead |
//! | removal, P1 to P2 | announced | the moves that are missing are made, then at rest (B3) |
//! | removal, P2 to P3 | announced, all moves made | at rest (B3) |
//!
//! | crash state of the structure | found as | action |
//! |---|---|---|
//! | split, C0 to C1; root, G0 to G1 | `new`, which `left` does not lead to, or is not the root | it is freed; `left` is cleared (R3) |
//! | split, C2 to C3, of which only the announcement above is durable | the same, and `parent` has the separator's record too | the same; the record is freed once, from there |
//! | split, C2 | `left` leads to `new`, and is full | it loses its upper entries (R1) |
//! | split, C2 to C4 | `left` leads to `new` | the node above gets `new` if it has not; the log is retired (R3) |
//! | split, within C4 or the first action | `left` without `new` | it is cleared (R3) |
//! | root, G2 | `new` is the root | the log is retired (R3) |
//! | merge, M1; shrinking, D1 | `removed`, whose absorber has not its entries, or which is the root | the log is retired (R4) |
//! | merge, M2 to M4 | `removed`, whose absorber has its entries | it leads past it (R2), the node above forgets it, it is freed |
//! | shrinking, D2 to D3 | `removed` without an absorber, not the root | it is freed |
//!
//! Every action may be cut by a crash and is then done again.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Media, PPtr, planted, site};
use everleaf_pool::{Pool, PoolError, Shutdown, Worker, Workers};
use parking_lot::Mutex;

use super::layout::{Anchor, ChangeLog, Shape, State, node_bytes};
use super::node::Node;
use super::split::new_root;
use super::{LOCKS, SortedTree, WORKERS};
use everleaf_tree::count::Count;
use everleaf_tree::fresh::require_fresh;
use everleaf_tree::key::TreeKey;
use everleaf_tree::operations::Restarts;
use everleaf_tree::steps::Steps;
use everleaf_tree::version_locks::{Seen, VersionLocks};

impl<K: TreeKey, M: Media> SortedTree<K, M> {
    /// Opens what the pool holds; an empty tree if it is fresh. After a clean shutdown the cost
    /// does not depend on the size of the tree; after a crash the state of every node is read, to
    /// count.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`] or [`IndexError::Pool`] if damage is met, or a fresh pool has no
    /// room for a node.
    pub fn open(
        pool: &Arc<Pool<M>>,
        shape: Shape,
        linear: bool,
        shutdown: Shutdown,
    ) -> Result<Self> {
        let mut worker = pool.worker()?;
        let media = pool.media();
        let anchor = pool.index_root::<Anchor>()?;
        if media.load(&anchor.root).is_null() {
            require_fresh(pool)?;
        }
        recover_log::<K, M>(pool, &mut worker, shape)?;
        if media.load(&anchor.root).is_null() {
            new_root(&mut worker, shape, 0, None)?;
        }
        let known = media.load(&anchor.closed) == 1;
        let totals = match known && shutdown == Shutdown::Clean {
            true => Totals::stored(pool, shape)?,
            false => count::<K, M>(pool, &mut worker, shape)?,
        };
        if media.load(&anchor.closed) != 0 {
            // From here on the totals are not right. Not flushed: after a crash the pool says that
            // it was not closed. This is for programs that close the pool and not the tree.
            media.store(&anchor.closed, 0);
        }
        Ok(Self {
            pool: Arc::clone(pool),
            workers: Workers::new(Arc::clone(pool), WORKERS),
            changes: Mutex::new(worker),
            shape,
            linear,
            locks: VersionLocks::new(LOCKS).map_err(PoolError::Map)?,
            keys: Count::new(totals.keys),
            leaves: AtomicU64::new(totals.leaves),
            inner_nodes: AtomicU64::new(totals.inner_nodes),
            restarts: Restarts::default(),
            key_kind: std::marker::PhantomData,
        })
    }

    /// Ends a step of a node that a crash has cut, unless another thread has changed the node since
    /// it was seen, which may even have freed it.
    #[cold]
    pub(super) fn recover_unchanged(&self, node: Node<'_>, seen: Seen<'_>) -> Result<()> {
        match seen.try_lock() {
            Some(_locked) => self.state_at_rest(node).map(drop),
            None => Ok(()),
        }
    }

    /// The same for a node that the caller has locked: its state at rest.
    #[inline(always)]
    pub(super) fn state_at_rest(&self, node: Node<'_>) -> Result<State> {
        let state = node.state(self.pool.media())?;
        if !self.is_interrupted(node, state) {
            return Ok(state);
        }
        recover_node::<K, M>(&self.pool, &mut *self.workers.lease()?, node)
    }

    /// Stores the totals for the next opening. No other operation may run meanwhile.
    pub(super) fn store_totals(&self) -> Result<()> {
        let media = self.pool.media();
        let anchor = self.pool.index_root::<Anchor>()?;
        let statistics = self.statistics_of()?;
        // T1: the totals, and that they are right. Crash: the pool says that it was not closed, and
        // they are not believed.
        media.store(&anchor.keys, statistics.keys);
        media.store(&anchor.leaves, statistics.leaves);
        media.store(&anchor.inner_nodes, statistics.inner_nodes);
        media.store(&anchor.closed, 1);
        media.flush(site!("sorted.close.T1.totals"), &anchor.closed);
        media.fence(site!("sorted.close.T1.fence"));
        Ok(())
    }
}

/// Ends what a crash has left of a node's last step; its state at rest. No other thread has the
/// node.
fn recover_node<K: TreeKey, M: Media>(
    pool: &Pool<M>,
    worker: &mut Worker<M>,
    node: Node<'_>,
) -> Result<State> {
    let media = pool.media();
    let state = node.state(media)?;
    let state = if node.is_interrupted(state) { node.end_step(media, state)? } else { state };
    let record = media.load(&node.head.key);
    if K::RECORDS && record != 0 {
        let held = (0..usize::from(state.count))
            .any(|position| node.entry(media, state, position).0 == record);
        if held || record == media.load(&pool.index_root::<Anchor>()?.log.separator) {
            // B4: the record is an entry's, or the log's. Not flushed: what takes it from them
            // flushes the header first.
            media.store(&node.head.key, 0);
        } else {
            K::discard(worker, &node.head.key)?;
        }
    }
    Ok(state)
}

/// Ends the change of structure that a crash has cut.
fn recover_log<K: TreeKey, M: Media>(
    pool: &Arc<Pool<M>>,
    worker: &mut Worker<M>,
    shape: Shape,
) -> Result<()> {
    let media = pool.media();
    let anchor = pool.index_root::<Anchor>()?;
    let log = &anchor.log;
    let (new, left) = (media.load(&log.new), media.load(&log.left));
    if !new.is_null() {
        let committed = match left.is_null() {
            true => media.load(&anchor.root) == new,
            false => media.load(&Node::at(pool, left.offset(), shape)?.head.next) == new,
        };
        if !committed {
            let separator = media.load(&log.separator);
            let announced = K::RECORDS && separator != 0 && !left.is_null() && {
                media.load(&Node::at(pool, media.load(&log.parent).offset(), shape)?.head.key)
                    == separator
            };
            if announced {
                // The node above was to get it, and has its record too: the recovery of that node
                // frees it. Durable with `new`, in one line.
                media.store(&log.separator, 0);
            } else {
                K::discard(worker, &log.separator)?;
            }
            worker.free_from(&log.new)?;
        } else if !left.is_null() {
            finish_split::<K, M>(pool, worker, shape, log)?;
        }
    }
    // What `free_from` has cleared is durable.
    if media.load(&log.new) == new && !new.is_null() || !left.is_null() {
        // R3: the log is retired, in the order of C4. Crash: it is gone, or some of the above is
        // done again.
        media.store(&log.separator, 0);
        media.store(&log.new, PPtr::NULL);
        media.order(site!("sorted.recover.R3.order"));
        media.store(&log.left, PPtr::NULL);
        media.flush(site!("sorted.recover.R3.log"), &log.left);
        media.fence(site!("sorted.recover.R3.fence"));
    }
    let removed = media.load(&log.removed);
    if removed.is_null() {
        return Ok(());
    }
    let absorber = media.load(&log.absorber);
    let committed = if absorber.is_null() {
        media.load(&anchor.root) != removed
    } else {
        let left = Node::at(pool, absorber.offset(), shape)?;
        left.has_absorbed(media, media.load(&log.absorbed))?
    };
    if committed {
        if !absorber.is_null() {
            finish_merge::<K, M>(pool, worker, shape, log)?;
        }
        worker.free_from(&log.removed)?;
    } else {
        // R4: the log is retired. Crash: it is gone, or this is done again.
        media.store(&log.removed, PPtr::NULL);
        media.flush(site!("sorted.recover.R4.log"), &log.removed);
        media.fence(site!("sorted.recover.R4.fence"));
    }
    Ok(())
}

/// What is missing of a split whose new node is in the chain.
fn finish_split<K: TreeKey, M: Media>(
    pool: &Pool<M>,
    worker: &mut Worker<M>,
    shape: Shape,
    log: &ChangeLog,
) -> Result<()> {
    let media = pool.media();
    let new = Node::at(pool, media.load(&log.new).offset(), shape)?;
    let left = Node::at(pool, media.load(&log.left).offset(), shape)?;
    let (state, moved) =
        (recover_node::<K, M>(pool, worker, left)?, usize::from(new.state(media)?.count));
    if usize::from(state.count) == shape.slots && moved < shape.slots && !planted(242) {
        // R1: the old node loses what the new one has.
        left.truncate_again(media, state, shape.slots - moved);
    }
    let parent = Node::at(pool, media.load(&log.parent).offset(), shape)?;
    let state = recover_node::<K, M>(pool, worker, parent)?;
    if parent.position_of_child(media, state, new.offset).is_some() || planted(243) {
        return Ok(());
    }
    let Some(position) = parent.position_of_child(media, state, left.offset) else {
        return Err(IndexError::Corrupt {
            offset: parent.offset,
            what: "the log of a split speaks of the wrong parent",
        });
    };
    if usize::from(state.count) == shape.slots {
        return Err(IndexError::Corrupt {
            offset: parent.offset,
            what: "a split was begun without room above",
        });
    }
    let entry = (media.load(&log.separator), new.offset);
    parent.insert::<K, M>(media, state, position + 1, entry, &mut Steps::none());
    Ok(())
}

/// What is missing of a merge whose left node has the entries of both, but for the freeing.
fn finish_merge<K: TreeKey, M: Media>(
    pool: &Pool<M>,
    worker: &mut Worker<M>,
    shape: Shape,
    log: &ChangeLog,
) -> Result<()> {
    let media = pool.media();
    let removed = Node::at(pool, media.load(&log.removed).offset(), shape)?;
    let left = Node::at(pool, media.load(&log.absorber).offset(), shape)?;
    if media.load(&left.head.next).offset() == removed.offset && !planted(244) {
        // R2: the left node leads past the right one. Crash: it does, or this is done again. Fenced
        // before anything is freed.
        media.store(&left.head.next, media.load(&removed.head.next));
        media.flush(site!("sorted.recover.R2.next"), &left.head.next);
    }
    let parent = Node::at(pool, media.load(&log.parent).offset(), shape)?;
    let state = recover_node::<K, M>(pool, worker, parent)?;
    if let Some(position) = parent.position_of_child(media, state, removed.offset) {
        parent.remove::<K, M>(media, state, position);
        K::discard(worker, &parent.head.key)?;
    }
    Ok(())
}

/// Sums over the tree.
#[derive(Default)]
struct Totals {
    keys: u64,
    leaves: u64,
    inner_nodes: u64,
}

impl Totals {
    /// Those that a clean shutdown has left.
    fn stored<M: Media>(pool: &Pool<M>, shape: Shape) -> Result<Self> {
        let anchor = pool.index_root::<Anchor>()?;
        let [keys, leaves, inner_nodes] =
            [&anchor.keys, &anchor.leaves, &anchor.inner_nodes].map(|cell| pool.media().load(cell));
        let most = max_nodes(pool, shape);
        if keys > most * shape.slots as u64 || leaves > most || inner_nodes > most {
            return Err(IndexError::Corrupt {
                offset: pool.pointer_to(anchor).offset(),
                what: "the totals are impossible",
            });
        }
        Ok(Self { keys, leaves, inner_nodes })
    }
}

/// Counts along the chains of all levels; ends the steps that a crash has cut.
fn count<K: TreeKey, M: Media>(
    pool: &Pool<M>,
    worker: &mut Worker<M>,
    shape: Shape,
) -> Result<Totals> {
    let media = pool.media();
    let mut totals = Totals::default();
    let mut first = media.load(&pool.index_root::<Anchor>()?.root).offset();
    let most = max_nodes(pool, shape);
    let mut level = None;
    loop {
        let mut offset = first;
        let mut nodes = 0;
        let mut below = None;
        while offset != 0 {
            let node = Node::at(pool, offset, shape)?;
            let state = recover_node::<K, M>(pool, worker, node)?;
            nodes += 1;
            if level.is_some_and(|level| level != state.level) || nodes > most {
                return Err(IndexError::Corrupt {
                    offset,
                    what: "a chain of nodes leads to another level, or in a circle",
                });
            }
            level = Some(state.level);
            if state.level == 0 {
                totals.keys += u64::from(state.count);
            } else if below.is_none() {
                below = Some(node.entry(media, state, 0).1);
            }
            offset = media.load(&node.head.next).offset();
            if offset != 0 {
                media.prefetch(Node::at(pool, offset, shape)?.head);
            }
        }
        match below {
            None => {
                totals.leaves = nodes;
                return Ok(totals);
            }
            Some(below) => {
                totals.inner_nodes += nodes;
                (first, level) = (below, level.and_then(|level| level.checked_sub(1)));
            }
        }
    }
}

/// More nodes than this a pool cannot have.
pub(super) fn max_nodes<M: Media>(pool: &Pool<M>, shape: Shape) -> u64 {
    pool.media().region().len() / node_bytes(shape.slots)
}
