//! Opening: what a crash has cut of a change of the structure is ended. The tree is not followed:
//! the cost is that of the log, of a head for each run, and of two searches for byte-string keys.
//!
//! | crash state | found as | action |
//! |---|---|---|
//! | creation, before its commit | no root | an empty leaf becomes it |
//! | S1, P1; before P2 is durable | no log | none: fresh nodes were not taken, and a slot array does not name the entry |
//! | after P2, until F1 of the next operation is durable | a log | its records are stored again (P3) |
//! | a run of which no node was taken | its head | none: its nodes are taken next |
//! | an entry, before P2 of a slot array is durable | the slot array as before | none |
//! | after B1, before B3 is durable; M1 | a leaf whose slot array is not valid | none: who looks at it first makes the slot array (M1, M2) |
//! | byte-string keys: a record in the anchor that is not in the tree | the same | it is freed |
//!
//! Every action may be cut by a crash and is then done again by the next recovery.

use std::marker::PhantomData;
use std::sync::Arc;

use everleaf_index::{IndexError, Result};
use everleaf_pmem::{Media, planted};
use everleaf_pool::{Pool, Run, Worker};

use super::WbTree;
use super::layout::{NODES, Shape};
use super::redo;
use super::search::Nodes;
use super::space::{Space, taken_of};
use super::split::write_fresh;
use super::totals::Totals;
use everleaf_tree::fresh::require_fresh;
use everleaf_tree::key::TreeKey;
use everleaf_tree::redo::Target;

impl<K: TreeKey, M: Media> WbTree<K, M> {
    /// Opens what the pool holds; an empty tree if it is fresh.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`] or [`IndexError::Pool`] if damage is met, or a fresh pool has no
    /// room for one group of nodes.
    pub(super) fn open(pool: &Arc<Pool<M>>, shape: Shape, group_bytes: u64) -> Result<Self> {
        let mut worker = pool.worker()?;
        let nodes = Nodes::<K, M>::new(pool, shape);
        let media = nodes.media();
        let runs = pool.runs(NODES)?;
        let mut redo = redo::open(nodes, targets(nodes, &runs)?)?;
        let is_fresh = media.load(&nodes.anchor()?.root).is_null();
        if is_fresh {
            require_fresh(pool)?;
            for run in &runs {
                if taken_of(media, *run, shape)? > 1 {
                    let (offset, what) = (run.offset, "the tree has no root any more");
                    return Err(IndexError::Corrupt { offset, what });
                }
            }
        }
        let mut space = Space::open(media, shape, runs, group_bytes)?;
        if is_fresh {
            let leaf = space.take(nodes, &mut worker, &mut redo, 1)?[0];
            write_fresh(nodes, leaf, 0, &[])?;
            redo.set_root(nodes, leaf)?;
            redo.commit(nodes, true)?;
        } else {
            nodes.root()?;
            settle(nodes, &mut worker)?;
        }
        let (changed, found) = (Totals::default(), Totals::unknown(is_fresh));
        let (pool, kind) = (Arc::clone(pool), PhantomData);
        Ok(Self { pool, worker, space, redo, shape, changed, found, kind })
    }
}

/// Where words of the log may go: the root, the first free node, a node or the head of a run.
pub(super) fn targets<'r, K: TreeKey, M: Media>(
    nodes: Nodes<'_, K, M>,
    runs: &'r [Run],
) -> Result<impl Fn(Target) -> bool + 'r> {
    let (anchor, node_bytes) = (nodes.anchor()?, nodes.shape.node_bytes());
    let words = [&anchor.root, &anchor.free].map(|cell| nodes.pool.pointer_to(cell).offset());
    Ok(move |target: Target| {
        target.words() == 1 && words.contains(&target.offset())
            || target.is_in_a_node(runs, node_bytes)
    })
}

/// Frees the records that the anchor has and the tree has not.
fn settle<K: TreeKey, M: Media>(nodes: Nodes<'_, K, M>, worker: &mut Worker<M>) -> Result<()> {
    if !K::RECORDS {
        return Ok(());
    }
    let (media, anchor) = (nodes.media(), nodes.anchor()?);
    let record = media.load(&anchor.key);
    if record != 0 {
        let key = K::copy(nodes.pool, record)?;
        let (leaf, found) = nodes.find(K::borrow(&key))?;
        if !found.is_ok_and(|slot| leaf.key(media, slot) == record) && !planted(366) {
            K::discard(worker, &anchor.key)?;
        }
    }
    let record = media.load(&anchor.separator);
    if record != 0 {
        // It is on the way to its own key.
        let key = K::copy(nodes.pool, record)?;
        let (path, _) = nodes.descend(K::borrow(&key))?;
        let mut held = false;
        for step in path.steps().iter().filter(|step| step.slot > 0) {
            held |= nodes.node(step.offset)?.key(media, step.slot) == record;
        }
        if !held && !planted(367) {
            K::discard(worker, &anchor.separator)?;
        }
    }
    Ok(())
}
